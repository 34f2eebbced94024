"""Which commands a checkpoint names: by the forms that people's plans have."""

import pytest

from support.proving import sampled
from tugtool.plan import checkpoints

#: Checkpoint -> the commands that are run for it, all of which must exit with 0.
RUN = {
    "`make test`": ["make test"],
    "`make`": ["make"],
    "`cargo test` passes": ["cargo test"],
    "`pytest` passes": ["pytest"],
    "`./check.sh` exits 0": ["./check.sh"],
    "`tox` — green.": ["tox"],
    "`just lint` -- all clean": ["just lint"],
    "`make lint` succeeds with no warnings": ["make lint"],
    "**`make test`** passes": ["make test"],
    "Run `pytest -q` and see `ok`": ["pytest -q"],
    "running: `pytest -q`": ["pytest -q"],
    "`bun test` and `bun build` succeed": ["bun test", "bun build"],
    "`a b`, `c d`, and then `e f` still pass": ["a b", "c d", "e f"],
    "All tests pass: `make test`": ["make test"],
    "All is well: `make lint` and `make test`.": ["make lint", "make test"],
    "`cd sub && make test`": ["cd sub && make test"],
    "`! grep -r TODO src` returns no matches": ["! grep -r TODO src"],
    "`FOO=1 make` passes": ["FOO=1 make"],
    "`grep -c x y` returns 9": ["grep -c x y"],
    "`` echo `date` `` works": ["echo `date`"],
    "`make test` passes (318 passed, 0 failed)": ["make test"],
    "`make test` passes in CI/CD": ["make test"],
}
#: Checkpoint -> why nothing of it is run.
LEFT = {
    "The tests pass": "no_command",
    "": "no_command",
    "`src/foo.py` exists": "no_command",
    "`foo.py` and `bar.py` exist": "no_command",
    "`make test` and `Makefile` are updated": "no_command",
    "`loc` field present on all events": "no_command",
    "`--flag` passes": "no_command",
    "`# Heading` is there": "no_command",
    "`DEBUG=1` works": "no_command",
    "`> file` passes": "no_command",
    "` ` passes": "no_command",
    "No references to `rm -rf build` remain": "no_command",
    "Messages recommend `state update`, not `state reset`": "no_command",
    "Line count is under 450 (`wc -l file`)": "no_command",
    "The field is set: `name`, as agreed": "no_command",
    "The decision is made: `eventTap`": "no_command",
    "See `a b` `c d`": "no_command",
    "Manual: `make run`, then look": "no_command",
    "Manual: `make run`": "manual",
    "`make run` shows the window (manual)": "person",
    "The page looks right (person).": "person",
    "**`make run` works (Person)**": "person",
    "`make run` shows the window (manual check)": "manual",
    "`make run` looks right when tried by hand": "manual",
    "`tool show <plan> --all` lists them": "placeholder",
    "`npm test` or `yarn test` passes": "alternatives",
    "`npm test` / `yarn test`": "alternatives",
    "`cargo build` exits 0 from `code/`": "elsewhere",
    "`npm install` in web/ succeeds": "elsewhere",
    "`make \x1b[2Jtest` passes": "unprintable",
    "`make\ttest` passes": "unprintable",
    "`make \u202etest` passes": "unprintable",
    "`make\u00a0test` passes": "unprintable",
}
EXPECTED = {
    "`grep x y` returns no matches (all are gone)": "no_output",
    "`rg x` returns zero results": "no_output",
    "`git diff` shows nothing.": "no_output",
    "`grep x y` returns empty": "no_output",
    '`ls old` returns "no such file"': "no_output",
    "`tool list` returns empty array": "success",
    "`make test` passes — no output is lost": "success",
    "`make test` succeeds with no errors": "success",
    "`make test` fails": "failure",
    "`make test` must exit with status 2": "failure",
    "`make test` exits non-zero": "failure",
    "`make test` — 3150 pass, 0 fail": "success",
}


@pytest.mark.parametrize("text", RUN)
def test_what_a_checkpoint_begins_or_ends_with_is_run(text):
    found = checkpoints.read(text)
    assert (found.commands, found.reason) == (RUN[text], None)


@pytest.mark.parametrize("text", LEFT)
def test_what_is_merely_spoken_of_is_not_run(text):
    assert checkpoints.read(text).reason == LEFT[text]


@pytest.mark.parametrize("text", EXPECTED)
def test_words_that_ask_for_something_else_than_success_are_understood(text):
    found = checkpoints.read(text)
    assert (found.expects, found.reason) == (EXPECTED[text], None)


def test_there_are_words_for_every_reason():
    assert set(LEFT.values()) == set(checkpoints.REASONS)


@pytest.mark.parametrize(
    ("text", "codes", "tail"),
    [
        ("a `b` c", ["b"], " c"),
        ("`` a`b ``", ["a`b"], ""),
        ("`  `", ["  "], ""),
        ("` `` `", ["``"], ""),
        ("`a ` ` b`", ["a ", " b"], ""),
        ("`a\nb`", ["a b"], ""),
        (r"\`a` b`", [" b"], ""),
        (r"\\`a`", ["a"], ""),
        (r"`a\` b", ["a\\"], " b"),
        ("``a` b", [], "``a` b"),
        (r"\``a`", ["a"], ""),
        ("no end `", [], "no end `"),
    ],
)
def test_code_spans_are_what_commonmark_says(text, codes, tail):
    found, after = checkpoints.spans(text)
    assert ([code for _, code in found], after) == (codes, tail)


@pytest.mark.parametrize(("many", "longest"), sampled([(40_000, 500), (400_000, 1500)], 1))
def test_a_flood_of_backticks_is_read_in_one_go(many, longest):
    rising = "".join("`" * n + "a" for n in range(longest))
    for text in ("\\`" * many, "`a" * (many + 1), rising):
        found, after = checkpoints.spans(text)
        rebuilt = sum(len(prose) + len(code) for prose, code in found) + len(after)
        assert rebuilt <= len(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("`make test` passes", "command"),
        ("All is well: `make lint` and `make test`.", "command"),
        ("The help text names every option", "judgement"),
        ("`make <target>` passes", "judgement"),
        # Exit status 0 cannot show it, so a reviewer has to.
        ("`grep -r TODO src` fails", "judgement"),
        ("The page looks right (person)", "person"),
        ("`make run` shows a window (manual)", "person"),
    ],
)
def test_three_kinds_of_checkpoints_are_told_apart(text, kind):
    assert checkpoints.kind_of(text) == kind
