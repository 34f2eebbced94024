"""X: git refuses to commit: no identity, no signature, a hook that says no."""

import pytest

from conftest import git
from support.implement import IDENTITY, Play

STEPS = ("1 t", "2 t", "3 t", "4 t")


def nobody(play: Play, monkeypatch) -> None:
    """Nothing says who the person is, as in a fresh container."""
    for name in IDENTITY:
        monkeypatch.delenv(name)
    play.repo.git("config", "user.useConfigOnly", "true")


def unsigned(play: Play, monkeypatch) -> None:
    """Commits are to be signed, and the signer fails."""
    play.repo.git("config", "commit.gpgSign", "true")
    play.repo.git("config", "gpg.program", "false")


def hook(play: Play, script: str, name: str = "pre-commit") -> None:
    path = play.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# A dry run starts no program that git's settings name, and so no signer.
@pytest.mark.parametrize(
    ("trouble", "said", "words"),
    [
        (nobody, "user.email", ()),
        (nobody, "user.email", ("--dry-run",)),
        (unsigned, "gpg failed to sign", ()),
    ],
)
def test_what_keeps_every_commit_from_being_made_is_said_before_anybody_is_paid(
    play, monkeypatch, trouble, said, words
):
    play = play(*STEPS)
    trouble(play, monkeypatch)
    refused = play.tugcode("implement", "work", *words)
    assert (refused.status, play.calls()) == (1, [])
    assert refused.codes == ["E080"]
    assert said in refused.envelope()["issues"][0]["message"]
    # Nothing was begun, so nothing has to be freed once it is put right.
    assert play.trees() == []


def test_a_signer_that_works_is_no_obstacle(play, tmp_path):
    play = play("1 t")
    signer = tmp_path / "signer"
    signed = "-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n"
    signer.write_text(
        f"#!/bin/sh\ncat > /dev/null\nprintf '{signed}'\necho '[GNUPG:] SIG_CREATED ' >&2\n"
    )
    signer.chmod(0o755)
    play.repo.git("config", "commit.gpgSign", "true")
    play.repo.git("config", "gpg.program", str(signer))
    assert play.run()[0] == 0
    play.finished()


def test_the_refusal_of_a_hook_goes_to_the_coder_as_a_finding(play):
    play = play("1 tc", "2 t < 1")
    hook(play, 'test ! -e bad.txt || { echo "bad.txt is not tidy" >&2; exit 1; }')
    bad = {"write": "bad.txt", "text": "x"}
    play.rules(
        {"role": "coder", "step": "step-1", "round": 1, "do": [bad]},
        {
            "role": "coder",
            "step": "step-1",
            "round": 2,
            "do": [{"delete": "bad.txt"}, {"write": "good", "text": ""}],
        },
    )
    status, told = play.run()
    assert status == 0, told[-1]
    assert play.calls("coder") == ["coder step-1 1", "coder step-1 2", "coder step-2 1"]
    [revise] = [each for each in told if each["event"] == "revise"]
    assert "bad.txt is not tidy" in revise["reason"]
    play.finished(told)
    assert git(
        "show", "--name-only", "--format=", play.commits("step-1")[0], cwd=play.root
    ).split() == [
        ".tugtool/log.md",
        "good",
    ]


@pytest.mark.proof(share=0)
def test_a_hook_that_refuses_a_second_time_parks_the_step_and_at_a_second_step_ends_the_run(play):
    play = play(*STEPS)
    hook(play, 'echo "the build is broken at $(date +%N)" >&2; exit 1')
    status, told = play.run("--workers", 1)
    assert (status, told[-1]["status"]) == (1, "failed")
    # Two rounds for each of two steps, and nothing for all the others.
    assert len(play.calls("coder")) == len(play.calls("reviewer")) == 4
    assert "the build is broken" in told[-1]["reason"]
    assert "step-1" in told[-1]["reason"]
    left = {each["step_anchor"]: each["parked"] for each in told[-1]["left"]}
    assert left == {"step-1": True, "step-2": False, "step-3": False, "step-4": False}
    assert play.held() == []
    # Put right, the same command does all but what is parked.
    (play.root / ".git" / "hooks" / "pre-commit").unlink()
    play.ok("state", "reset", "work", "step-1")
    assert play.run()[0] == 0
    play.finished()


@pytest.mark.proof(share=0)
def test_refusals_that_differ_end_no_run(play):
    play = play("1 t", "2 t", "3 t")
    hook(play, "git diff --cached --name-only | grep -e step-1 -e step-2 >&2 && exit 1 || exit 0")
    status, told = play.run("--workers", 1)
    assert (status, told[-1]["status"]) == (1, "unfinished")
    assert list(play.steps().values()) == ["pending", "pending", "completed"]
