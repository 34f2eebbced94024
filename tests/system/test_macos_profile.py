"""The rules for macOS, read and carried out as `sandbox-exec` does; it was not run on a Mac."""

import fnmatch
import os
import re

import pytest

from tugtool.system import confinement
from tugtool.system.confinement import Confinement

#: Operations and filters of the language that the profile may use: others stop `sandbox-exec`.
OPERATIONS = {"default", "file-write*", "file-link", "signal", "network*"}
FILTERS = {"literal", "subpath", "target", "local", "remote"}
WORD = re.compile(r"\s*(?:([()])|\"((?:[^\"\\]|\\.)*)\"|([^\s()\"]+))", re.DOTALL)


class Text(str):
    """A text in quotation marks, unlike a word."""


def read(text: str) -> list[list]:
    """The rules of a profile; refuses what is not balanced."""
    levels: list[list] = [[]]
    at = 0
    while at < len(text.rstrip()):
        found = WORD.match(text, at)
        assert found, text[at : at + 40]
        at = found.end()
        if found[1] == "(":
            levels.append([])
        elif found[1] == ")":
            assert len(levels) > 1, "a bracket too many"
            last = levels.pop()
            levels[-1].append(last)
        elif found[3]:
            levels[-1].append(found[3])
        else:
            levels[-1].append(Text(re.sub(r"\\(.)", r"\1", found[2], flags=re.DOTALL)))
    assert len(levels) == 1, "a bracket too few"
    return levels[0]


def decided(rules: list[list], operation: str, about: str = "") -> str:
    """What the last rule that fits says; `about` is a path, or the kind of a socket or target."""
    answer = "none"
    for word, *rest in rules[1:]:
        operations = [each for each in rest if isinstance(each, str)]
        filters = [each for each in rest if isinstance(each, list)]
        named = any(each == "default" or fnmatch.fnmatch(operation, each) for each in operations)
        if named and (not filters or any(_fits(each, about) for each in filters)):
            answer = word
    return answer


def _fits(filter: list, about: str) -> bool:
    kind, value = filter
    if kind == "subpath":
        return f"{about}/".startswith(f"{value}/")
    return about == value


def profile(*paths: object, network: bool = True) -> list[list]:
    return read(confinement.profile(Confinement("coder", tuple(map(str, paths)), network=network)))


@pytest.fixture
def places(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for each in (inside, outside):
        each.mkdir()
        (each / "file").write_text("")
    return inside, outside


@pytest.mark.parametrize("network", [True, False])
def test_every_rule_is_one_that_the_language_has(places, network):
    head, *rules = profile(*places, network=network)
    assert head == ["version", "1"]
    assert rules[0] == ["allow", "default"]
    for word, *rest in rules:
        assert word in ("allow", "deny")
        assert {each for each in rest if isinstance(each, str)} <= OPERATIONS
        for kind, value in (each for each in rest if isinstance(each, list)):
            assert kind in FILTERS
            assert isinstance(value, Text) == (kind in ("literal", "subpath"))
            assert not isinstance(value, Text) or os.path.isabs(value)


#: What Landlock refuses outside of the writable places -> the operation on macOS.
RIGHTS = {
    "write a file, or cut it off": "file-write-data",
    "remove": "file-write-unlink",
    "make": "file-write-create",
    "link from one place to another": "file-link",
}
#: What Landlock cannot refuse, and this can.
MORE = ("file-write-mode", "file-write-owner", "file-write-times", "file-write-xattr")


@pytest.mark.parametrize("operation", [*RIGHTS.values(), *MORE])
def test_what_landlock_refuses_is_refused_here(places, operation):
    inside, outside = places
    rules = profile(inside)
    assert decided(rules, operation, str(inside / "file")) == "allow"
    assert decided(rules, operation, str(inside)) == "allow"
    assert decided(rules, operation, str(outside / "file")) == "deny"
    # Its name only begins like that of the writable place.
    assert decided(rules, operation, f"{inside}-more/file") == "deny"
    assert decided(rules, operation, "/dev/null") == "allow"
    assert decided(rules, operation, "/dev/disk0") == "deny"
    assert decided(rules, "file-read-data", str(outside / "file")) == "allow"


def test_signals_and_the_network(places):
    rules = profile(*places)
    assert decided(rules, "signal", "same-sandbox") == "allow"
    assert decided(rules, "signal", "others") == "deny"
    assert decided(rules, "network-outbound", "ip") == "allow"
    rules = profile(*places, network=False)
    for operation in ("network-outbound", "network-inbound", "network-bind"):
        assert decided(rules, operation, "ip") == "deny"
        assert decided(rules, operation, "unix-socket") == "allow"


HOSTILE = (
    *('odd "name"', "back\\slash", 'end\\"', "a) (allow file-write*", '")) (allow default) ((("'),
    *("new\nline", "; a comment", '#"regex"', "$(echo)", "\u00e4\u4e16", '(param "x")'),
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_text_and_no_rule(tmp_path, name):
    place = tmp_path / name
    place.mkdir()
    plain, odd = profile(tmp_path / "plain"), profile(place)
    assert len(odd) == len(plain)
    assert odd[-3] == ["allow", "file-write*", "file-link", ["subpath", str(place)]]
    assert decided(odd, "file-write-data", str(tmp_path / "other")) == "deny"


def test_a_file_is_writable_and_not_what_is_below_its_name(places):
    inside, _ = places
    rules = profile(inside / "file")
    assert decided(rules, "file-write-data", str(inside / "file")) == "allow"
    assert decided(rules, "file-write-create", str(inside / "new")) == "deny"


def test_a_link_counts_as_the_place_it_leads_to(places, tmp_path):
    inside, outside = places
    (tmp_path / "link").symlink_to(inside)
    rules = profile(tmp_path / "link")
    assert decided(rules, "file-write-data", str(inside / "file")) == "allow"
    assert decided(rules, "file-write-data", str(outside / "file")) == "deny"


@pytest.mark.parametrize("text", ["(version 1", "(version 1))", '(allow default "x)'])
def test_the_reader_notices_what_is_not_balanced(text):
    with pytest.raises(AssertionError):
        read(text)
