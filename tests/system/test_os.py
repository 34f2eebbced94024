"""The stand-in for `os` answers as `os` does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tugtool import system

NAMES = some.text("/.a~ é\udc80", max_size=12)


ALONE = system._stand_in()


def test_a_process_that_has_loaded_os_gets_os_itself():
    assert system.os is os
    assert ALONE is not os


@given(NAMES, NAMES, NAMES)
def test_paths_are_put_together_and_taken_apart_as_os_does(first, second, third):
    path, real = ALONE.path, os.path
    assert path.join(first, second) == real.join(first, second)
    assert path.join(first, second, third) == real.join(first, second, third)
    for name in (first, f"/{second}", f"/{second}/{third}"):
        for what in ("dirname", "basename", "isabs", "normpath", "realpath", "expanduser"):
            assert getattr(path, what)(name) == getattr(real, what)(name), what


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A directory with every kind of path."""
    top = tmp_path_factory.mktemp("paths")
    (top / "dir" / "below").mkdir(parents=True)
    (top / "dir" / "file").write_text("x")
    (top / "link").symlink_to("dir")
    (top / "alias").symlink_to("dir/file")
    (top / "far").symlink_to(top / "dir" / "below")
    (top / "lost").symlink_to("nowhere")
    (top / "loop").symlink_to("loop")
    os.mkfifo(top / "fifo")
    return top


PARTS = (
    "dir",
    "link",
    "alias",
    "far",
    "lost",
    "loop",
    "fifo",
    "file",
    "below",
    "none",
    "..",
    ".",
    "",
)


@given(some.lists(some.sampled_from(PARTS), max_size=4), some.booleans())
def test_paths_lead_where_os_says(place, parts, absolute):
    name = "/".join([*([str(place)] if absolute else []), *parts])
    for what in ("exists", "lexists", "isdir", "isfile", "islink", "realpath"):
        assert getattr(ALONE.path, what)(name) == getattr(os.path, what)(name), (what, name)


@pytest.mark.parametrize("what", ["exists", "lexists", "isdir", "isfile", "islink"])
def test_a_path_with_a_zero_byte_leads_nowhere(what):
    assert getattr(ALONE.path, what)("/a\0b") is getattr(os.path, what)("/a\0b") is False


def test_a_path_with_a_zero_byte_is_refused_as_os_does():
    for path in (ALONE.path, os.path):
        with pytest.raises(ValueError, match="null"):
            path.realpath("/a\0b")


def test_all_else_is_what_os_has():
    names = ("open", "close", "stat", "lstat", "_exit", "O_CLOEXEC", "sep", "devnull", "makedirs")
    assert [getattr(ALONE, name) for name in names] == [getattr(os, name) for name in names]
    assert ALONE.path.relpath is os.path.relpath
    with pytest.raises(AttributeError):
        ALONE.no_such_function  # noqa: B018


@pytest.mark.parametrize("value", [b"x", b"", b"\xc3\xa9", b"\xff\xfe"])
def test_the_environment_and_names_are_read_as_os_does(value):
    code = (
        "import os\n"
        "from tugtool import system\n"
        "alone = system._stand_in()\n"
        "assert alone.environ is not os.environ\n"
        "assert alone.environ == dict(os.environ)\n"
        f"assert alone.fsdecode({value!r}) == os.fsdecode({value!r})\n"
        f"assert alone.fsencode(os.fsdecode({value!r})) == {value!r}\n"
        "assert (alone.fsdecode('x'), alone.fsencode(b'x')) == ('x', b'x')\n"
    )
    environment = {**os.environb, b"TUGCODE_ODD": value}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
