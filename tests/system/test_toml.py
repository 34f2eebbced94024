"""The reader of plain settings agrees with the full one, and leaves to it what is not plain."""

import random
import tomllib

import pytest

from tugtool.system import toml

PLAIN = """
# What people write.
[state]
url = "postgresql://tug@db.example/tug?sslmode=verify-full"
repository = "acme/shop"   # a comment
lease_seconds=7200
\tbusy_seconds = 0

[run]
agent = ""
push = true # "yes"
keep = false
"""
#: Each makes a line that is not plain, or no TOML at all.
ODD = [
    *("a", "a = ", "= 1", "a = 'x'", 'a = "x', 'a = "x" y', 'a = "\\n"', 'a = """x"""', "a = 01"),
    *("a = 1_000", "a = -1", "a = 1.5", "a = [1]", "a = {}", "a.b = 1", '"a" = 1', "A = 1"),
    *("[a", "[a] x", "[a.b]", "[[a]]", "[]", 'a = "\u2028"', "a = 1\r", "a = yes", "a = \u0663"),
    *("a = 99999999999999999999", "a = 1\na = 2", "[s]\n[s]", 'a = "\x07"', 'a = "\t"', "a = inf"),
]


def _full(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


def test_plain_settings_are_read_as_the_full_reader_does():
    assert toml.plain_document(PLAIN) == tomllib.loads(PLAIN)
    assert toml.plain_document("") == {}


@pytest.mark.parametrize("line", ODD)
def test_what_is_not_plain_is_left_to_the_full_reader(line):
    assert toml.plain_document(f"[section]\n{line}\n") is None


def test_a_name_outside_a_section_is_left_to_the_full_reader():
    assert toml.plain_document("a = 1\n") is None


def test_mixtures_are_read_alike_or_left_to_the_full_reader():
    chance = random.Random(7)
    parts = [*PLAIN.split("\n") * 20, *ODD, *"[]\"#= \t\\'\na1_"]
    plain = 0
    for _ in range(4000):
        text = "\n".join(chance.choice(parts) for _ in range(chance.randrange(8)))
        text += chance.choice(["", chance.choice(parts)])
        found = toml.plain_document(text)
        assert found is None or found == _full(text), text
        plain += bool(found)
    assert plain > 100
