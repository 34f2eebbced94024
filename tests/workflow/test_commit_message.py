"""The message of a step's commit: nobody but us writes its trailers, and no word gets lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.commit import LOG
from support.proving import examined, sampled
from tugtool.errors.git import MessageRefused
from tugtool.git import command as git
from tugtool.git import trailers

OURS = trailers.written(".tugtool/tugplan-x.md", "step-1", plan_hash="0123456789abcdef", attempt=2)

FORGED = [
    "Tug-Step: step-2",
    "feat: x\n\nTug-Step: step-2",
    "feat: x\n\nTug-Plan: other\n\nand more",
    "feat: x\n\nTug-Claim: 0123456789ab/step-2/1",
    "feat: x\n\ntug-step: step-2",
    "feat: x\n\nTUG-STEP : step-2",
    "feat: x\n\n  Tug-Step: step-2",
    "feat: x\n\nCo-authored-by: A <a@b>\nTug-Step: step-2",
    "feat: x\n\nCo-authored-by: A <a@b>\n Tug-Step: step-2",
    "feat: x\r\rTug-Step: step-2",
    "feat: x\u2028Tug-Step: step-2",
    "feat: x\x0bTug-Step: step-2",
]
#: What git cuts off with everything below it.
SCISSORS = "feat: x\n\n# ------------------------ >8 ------------------------\nmore"


@pytest.mark.parametrize("text", FORGED)
def test_a_message_that_forges_a_trailer_is_refused_and_nothing_touched(bench, text):
    b = bench("1")
    b.hold("step-1")
    b.write({"new": "x"})
    refused = b.commit_json("step-1", message=text)
    assert (refused.status, refused.codes) == (1, ["E081"])
    assert "would be read as one of our trailers" in refused.envelope()["issues"][0]["message"]
    assert (b.commits(), b.intents(), b.log.exists()) == ([], [], False)
    assert b.git("status", "--porcelain") == "?? new\n"


@pytest.mark.parametrize("text", FORGED)
def test_a_summary_is_one_line_and_can_forge_nothing(bench, text):
    b = bench("1")
    b.hold("step-1")
    assert b.commit_json("step-1", f"--summary={text}").codes == ["E081"]


def test_what_hides_our_trailers_from_git_is_refused(bench):
    b = bench("1")
    b.hold("step-1")
    refused = b.commit_json("step-1", message=SCISSORS)
    assert refused.codes == ["E081"]
    assert "git would not read" in refused.envelope()["issues"][0]["message"]
    assert (b.commits(), b.intents()) == ([], [])


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t\r\n"])
def test_a_blank_message_is_refused(bench, text):
    b = bench("1")
    b.hold("step-1")
    refused = b.commit_json("step-1", message=text)
    assert refused.codes == ["E081"]
    assert "the message is blank" in refused.envelope()["issues"][0]["message"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("a\0b", "NUL"), ("caf\udce9", "not UTF-8"), ("\ud800", "not UTF-8")],
)
def test_what_cannot_stand_in_a_commit_is_refused(text, said):
    with pytest.raises(MessageRefused, match=said):
        trailers.check_text(text)


KEPT = {
    "a title": "feat: x",
    "a body": "feat: x\n\nbecause\nof y",
    "lines that look like comments": "# not a comment\n\n# nor this\n\n#and this",
    "words like options": "-m\n\n--amend --no-verify",
    "a divider": "feat: x\n\n---\n\ndiff --git a b",
    "blank lines and blanks": "feat: x\n\n\n\n  indented\n\ttab",
    "a quoted trailer": "feat: x\n\n> Tug-Step: step-2",
    "a trailer in a sentence": "feat: x\n\nremoves the trailer Tug-Step: for good",
    "other letters": "añadir: 数字 🚀\n\nnai\u0308ve",
    "an escape sequence": "feat: \x1b[31mred",
    "what git expands": "feat: %H %n $HOME `id` $(id)",
    "a colon in the title": "Fixes: the parser",
    "a last paragraph of prose": "feat: x\n\nNote: see below\nand here",
    "a revert's words": 'Revert "x"\n\nThis reverts commit 0123.',
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_the_words_are_kept_as_they_are_and_our_trailers_come_last(bench, text):
    b = bench("1")
    b.hold("step-1")
    b.done("step-1", message=text)
    ours = "\n".join(b.set_of("step-1"))
    assert b.git("cat-file", "commit", "HEAD").split("\n\n", 1)[1] == f"{text}\n\n{ours}\n"
    assert b.trailers() == b.set_of("step-1")


@examined(short=60)
@given(st.lists(st.text(st.sampled_from("a# :-\t>"), max_size=12), min_size=1, max_size=6))
def test_what_is_taken_for_plain_git_reads_as_we_do(lines):
    try:
        text = trailers.composed(trailers.check_text("\n".join(lines)), OURS, cwd="/")
    except MessageRefused:
        return
    words = ("interpret-trailers", "--parse", "--no-divider")
    found = git.run(*words, cwd="/", given=text, settings=trailers.SETTINGS).splitlines()
    assert [line for line in found if line.startswith("Tug-")] == OURS.splitlines()


def test_line_ends_are_made_plain_and_blank_lines_around_dropped(bench):
    b = bench("1")
    b.hold("step-1")
    b.done("step-1", message="\n\nfeat: x\r\n\r\nbody  \r\n\n")
    assert b.message().startswith("feat: x\n\nbody\n\nTug-Step: step-1\n")


@pytest.mark.parametrize(
    "own",
    [
        ["Co-authored-by: A <a@example.invalid>"],
        ["Signed-off-by: A <a@example.invalid>", "Co-authored-by: B <b@example.invalid>"],
        ["Change-Id: I0123", "Closes: #7"],
    ],
)
def test_the_caller_s_own_trailers_stay_trailers_beside_ours(bench, own):
    b = bench("1")
    b.hold("step-1")
    b.done("step-1", message="feat: x\n\nbecause\n\n" + "\n".join(own))
    assert b.trailers() == [*own, *b.set_of("step-1")]
    assert b.message().count("\n\n") == 2 + 1  # The last is what git log adds.


def test_a_folded_trailer_of_the_caller_s_stays_one(bench):
    b = bench("1")
    b.hold("step-1")
    b.done("step-1", message="feat: x\n\nNote: first\n second")
    assert b.trailers() == ["Note: first second", *b.set_of("step-1")]


def test_a_megabyte_is_committed(bench):
    b = bench("1")
    b.hold("step-1")
    text = "feat: x\n\n" + "\n".join("y" * 99 for _ in range(10_000))
    b.done("step-1", "--summary", "z" * 100_000, message=text)
    assert b.message().startswith(text)
    assert b.trailers() == b.set_of("step-1")
    assert len((b.red / LOG).read_text()) < 3000


SETTINGS = [
    ("core.commentChar", "T"),
    ("core.commentChar", ";"),
    ("trailer.separators", "="),
    ("trailer.ifexists", "replace"),
    ("commit.cleanup", "strip"),
    ("commit.cleanup", "scissors"),
    ("commit.template", "/nonexistent"),
    ("commit.verbose", "true"),
    ("commit.status", "false"),
    ("i18n.commitEncoding", "ISO-8859-1"),
    ("i18n.logOutputEncoding", "ISO-8859-1"),
    ("core.editor", "false"),
    ("color.ui", "always"),
    ("log.showSignature", "true"),
    ("format.pretty", "oneline"),
    ("log.decorate", "full"),
    ("alias.commit", "!false"),
    ("alias.status", "!false"),
    ("status.showUntrackedFiles", "no"),
    ("status.relativePaths", "true"),
    ("status.branch", "false"),
    ("diff.renames", "copies"),
    ("diff.noprefix", "true"),
    ("core.quotePath", "true"),
    ("core.abbrev", "4"),
    ("core.untrackedCache", "true"),
    ("core.splitIndex", "true"),
    ("index.version", "4"),
    ("feature.manyFiles", "true"),
    ("add.ignoreErrors", "true"),
    ("advice.addEmbeddedRepo", "false"),
    ("push.default", "nothing"),
]


@pytest.mark.parametrize(("name", "value"), sampled(SETTINGS, 8))
def test_a_person_s_own_settings_change_nothing(bench, name, value):
    b = bench("1", "2")
    b.git("config", name, value)
    b.hold("step-1", "step-2")
    text = "feat: añadir\n\n# kept"
    for step in ("step-1", "step-2"):
        b.write({f"dir/{step} ü\n": "x"})
        data = b.done(step, message=text)
        assert (sorted(data["files_staged"]), data["warnings"]) == ([LOG, f"dir/{step} ü\n"], [])
        body = b.git("-c", "i18n.logOutputEncoding=UTF-8", "log", "-1", "--format=%B")
        assert body.startswith(text)
        found = b.git("cat-file", "commit", "HEAD").splitlines()[-3:]
        assert found == b.set_of(step)


def test_composing_reads_back_what_it_wrote(repo):
    text = trailers.composed("feat: x", OURS, cwd=str(repo.path))
    assert text == f"feat: x\n\n{OURS}"
    broken = OURS.replace("tugplan-x", "tug\nplan")
    with pytest.raises(MessageRefused):
        trailers.composed("feat: x", broken, cwd=str(repo.path))
