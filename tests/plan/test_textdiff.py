"""The lines that differ: what git would say where it is asked, and quick whatever is compared."""

import random
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugtool.plan import compare

NAMES = {"old_name": "old", "new_name": "new"}


def _applied(old: str, diff: str) -> str:
    """The old text with the diff applied, by the plainest reading of it."""
    lines, out, here = old.split("\n"), [], 0
    for line in diff.split("\n")[2:-1]:
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            at = int(start) - (length != "0")
            out += lines[here:at]
            here = at
        elif line.startswith("+"):
            out.append(line[1:])
        elif line.startswith(("-", " ")):
            assert lines[here] == line[1:]
            out += [line[1:]] if line.startswith(" ") else []
            here += 1
    return "\n".join(out + lines[here:])


@given(
    st.lists(st.sampled_from("abcde"), max_size=40), st.lists(st.sampled_from("abcde"), max_size=40)
)
def test_a_diff_leads_from_the_one_text_to_the_other(old, new):
    one, other = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    diff = compare.unified(one, other, **NAMES)
    assert bool(diff) == (one != other)
    assert _applied(one, diff) == other or not diff


@pytest.mark.parametrize("seed", range(8))
def test_git_takes_it(tmp_path, seed):
    chance = random.Random(seed)
    old = [f"line {n}" for n in range(60)]
    new = [line for line in old if chance.random() < 0.9]
    for _ in range(5):
        new.insert(chance.randrange(len(new)), f"new {chance.random()}")
    one, other = "\n".join(old) + "\n", "\n".join(new) + ("\n" if seed % 2 else "")
    (tmp_path / "plan").write_text(one)
    diff = compare.unified(one, other, old_name="a/plan", new_name="b/plan")
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, text=True, check=True)
    assert (tmp_path / "plan").read_text() == other


def test_it_looks_like_this():
    old = "\n".join("abcdefghijklmnopqrstuvwxyz") + "\n"
    new = old.replace("c\n", "C\n").replace("f\n", "").replace("w\n", "w\nW\n")
    assert compare.unified(old, new, **NAMES).split("\n") == [
        "--- old",
        "+++ new",
        "@@ -1,9 +1,8 @@",
        *(" a", " b", "-c", "+C", " d", " e", "-f", " g", " h", " i"),
        "@@ -21,6 +20,7 @@",
        *(" u", " v", " w", "+W", " x", " y", " z"),
        "",
    ]


def test_crlf_is_lf_and_the_same_text_has_no_diff():
    assert compare.unified("a\r\nb\r\n", "a\nb\n", **NAMES) == ""


def test_a_missing_end_of_line_is_told():
    diff = compare.unified("a\nb", "a\nb\n", **NAMES)
    assert diff.endswith("-b\n\\ No newline at end of file\n+b\n")
    assert compare.unified("", "a\n", **NAMES) == "--- old\n+++ new\n@@ -0,0 +1 @@\n+a\n"


def test_what_would_take_too_long_is_replaced_as_a_whole(monkeypatch):
    old, new = "x\ny\n" * 20, "y\nx\n" * 20
    close = compare.unified(old, new, **NAMES)
    monkeypatch.setattr(compare, "BUDGET", 100)
    coarse = compare.unified(old, new, **NAMES)
    assert len(coarse) > len(close)
    assert _applied(old, coarse) == _applied(old, close) == new


def test_lines_that_each_text_has_once_hold_a_coarse_diff_together(monkeypatch):
    monkeypatch.setattr(compare, "BUDGET", 0)
    old = "x\nx\nonly\ny\ny\n"
    new = "x\nz\nonly\ny\nz\n"
    assert "\n only\n" in compare.unified(old, new, **NAMES)


@given(st.lists(st.integers(0, 30), unique=True, max_size=12))
def test_the_longest_rise_is_the_longest(numbers):
    found = compare.rising(numbers)
    values = [numbers[place] for place in found]
    assert found == sorted(found)
    assert values == sorted(values)
    longest = [1] * len(numbers)
    for i, number in enumerate(numbers):
        before = [longest[j] for j in range(i) if numbers[j] < number]
        longest[i] = 1 + max(before, default=0)
    assert len(found) == max(longest, default=0)
