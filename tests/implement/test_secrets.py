"""Twenty kinds of secrets in what agents and commands print: none is kept anywhere."""

import json
import sqlite3
from pathlib import Path

import pytest

from system.test_secrets import KINDS, PARTS, SHAPES, around
from tugtool.git import discover
from tugtool.system import config
from tugtool.workflow import trust, verify

TEXT = "\n".join(
    [
        *(f"{name}: {value}" for name, value in KINDS.items()),
        # These are in no variable.
        *(f"{name}: {around(name)}" for name in SHAPES),
    ]
)


def found(text: str) -> list[str]:
    """The secrets that a text has, as they are or as JSON writes them."""
    values = {**{name: PARTS.get(name, value) for name, value in KINDS.items()}, **SHAPES}
    forms = {name: (value, json.dumps(value)[1:-1]) for name, value in values.items()}
    return [name for name, both in forms.items() if any(each in text for each in both)]


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    for name, value in KINDS.items():
        monkeypatch.setenv(name, value)


def test_the_harness_finds_a_secret():
    assert set(found(TEXT)) == {*KINDS, *SHAPES}


@pytest.mark.proof(share=0)
def test_no_secret_of_an_agent_is_kept(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    issue = {"severity": "minor", "description": TEXT}
    play.rules(
        {"role": "coder", "prose": TEXT, "answer": {"summary": TEXT}},
        {"role": "reviewer", "prose": TEXT, "answer": {"summary": TEXT, "issues": [issue]}},
    )
    status, told = play.run()
    assert status == 0, told[-1]
    kept = {"events of the run": json.dumps(told)}
    for path in (play.root / ".git" / "tugtool" / "transcripts").glob("*/*/*.txt"):
        kept[path.name] = path.read_text()
        assert "masked]" in kept[path.name]
    for line in ("show work --full", "log work", "report work", "transcript work step-1"):
        kept[line] = play._tugcode("-C", play.root, *line.split(), "--json").out
    kept["export"] = play._tugcode("-C", play.root, "state", "export").out
    for format in ("text", "md", "html"):
        kept[format] = play._tugcode("-C", play.root, "report", "work", "--format", format).out
    database = sqlite3.connect(play.root / ".tugtool" / "state.db")
    kept["the database"] = "\n".join(database.iterdump())
    database.close()
    assert {name: found(text) for name, text in kept.items() if found(text)} == {}


def test_no_secret_of_a_checkpoint_is_kept(repo):
    here = discover(str(repo.path))
    permit = trust.permit(here, config.load(here.root), "a test")
    (repo.path / "secrets").write_text(TEXT)
    for line in ("env", "env | base64 -w 0", "printenv GITHUB_TOKEN; exit 1", "cat secrets"):
        ran = verify.run_line(permit, line, str(repo.path), {}, 30)
        assert found(ran["output_tail"]) == [], line
        assert "masked]" in ran["output_tail"], line


def test_no_secret_in_a_note_is_kept(desk, tmp_path: Path):
    work = desk("1 t")
    work.ok("claim", "work")
    file = tmp_path / "note"
    file.write_text(TEXT)
    words = ("--kind", "note", "--summary", KINDS["GITHUB_TOKEN"], "--content-file", str(file))
    work.ok("artifact", "work", "step-1", *words)
    shown = json.dumps(work.ok("show", "work", "--full"))
    assert found(shown) == []
    assert "[GITHUB_TOKEN masked]" in shown


def _hook(at: Path, name: str) -> None:
    """A hook that prints the environment and refuses."""
    hook = at / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nenv\nenv >&2\nexit 1\n")
    hook.chmod(0o755)


def _settle(y, **settings: str) -> None:
    lines = (f"[{name}]\n{value}\n" for name, value in settings.items())
    (y.root / ".tugtool" / "config.toml").write_text("".join(lines))


class _Heard:
    """What the commands of a repository have printed; each printed a masked secret."""

    def __init__(self, y) -> None:
        self.y, self.text = y, {}

    def run(self, line: str, at: Path | None = None, *, shown: bool = True) -> None:
        for form in ((), ("--json",)):
            done = self.y._tugcode("-C", at or self.y.root, *line.split(), *form)
            self.text[line, form] = told = done.out + done.err
            assert not shown or "GITHUB_TOKEN masked]" in told, (line, told)


def test_no_secret_of_a_hook_a_setup_or_a_check_is_kept(yard, tmp_path):
    y = yard("1 t")
    heard = _Heard(y)
    tree = y.create("--new")
    y.ok("dash", "create", "fix")
    (y.root / ".tugtree" / "tugdash__fix" / "new").write_text("x\n")
    y.ok("state", "claim", "work", at=tree)
    y.ok("state", "update", "work", "step-1", "--all", "completed", "--reason", "x", at=tree)
    (tree / "new").write_text("x\n")
    _hook(y.root / ".git", "pre-commit")
    heard.run("commit --plan work --step step-1 --message x", tree)
    heard.run("done --all", tree)
    heard.run("dash commit fix --message x")
    (y.root / ".git" / "hooks" / "pre-commit").unlink()
    y.repo.git("init", "--quiet", "--bare", str(tmp_path / "remote"))
    y.repo.git("remote", "add", "origin", str(tmp_path / "remote"))
    _settle(y, remote='name = "origin"')
    _hook(y.root / ".git", "pre-push")
    y.ok("commit", "--plan", "work", "--step", "step-1", "--message", "x", at=tree)
    heard.run("worktree publish work")
    (y.root / ".git" / "hooks" / "pre-push").unlink()
    _hook(tmp_path / "remote", "pre-receive")
    heard.run("worktree publish work")
    _settle(y, merge='check = ["env; printenv GITHUB_TOKEN; exit 1"]')
    heard.run("merge work --unproven")
    _settle(y, worktree='setup = [["sh", "-c", "env; printenv GITHUB_TOKEN; exit 1"]]')
    heard.run("worktree create work --new")
    _settle(y)
    _hook(y.root / ".git", "post-checkout")
    heard.run("worktree create work --new", shown=False)
    for line in ("show work --full", "log work", "report work", "doctor", "status"):
        heard.run(line, shown=False)
    database = sqlite3.connect(y.root / ".tugtool" / "state.db")
    heard.text["the database", ()] = "\n".join(database.iterdump())
    database.close()
    assert "masked]" in heard.text["the database", ()]
    assert {name: found(text) for name, text in heard.text.items() if found(text)} == {}


@pytest.mark.proof(share=0)
def test_no_secret_of_a_hook_or_a_notice_is_kept_by_a_run(play):
    play = play("1 t")
    play.cast("coder", "reviewer")
    with open(play.root / ".tugtool" / "config.toml", "a") as file:
        file.write('[notify]\ncommand = ["sh", "-c", "env; env >&2; exit 1"]\n')
    play.rules({"role": "coder"}, {"role": "reviewer"})
    _hook(play.root / ".git", "pre-commit")
    _, told = play.run()
    kept = {"events of the run": json.dumps(told)}
    assert "masked]" in kept["events of the run"]
    for path in (play.root / ".git" / "tugtool" / "transcripts").glob("*/*/*.txt"):
        kept[path.name] = path.read_text()
    for line in ("show work --full", "log work", "report work", "why work step-1", "review work"):
        kept[line] = play._tugcode("-C", play.root, *line.split(), "--json").out
    kept["export"] = play._tugcode("-C", play.root, "state", "export", "--with-transcripts").out
    database = sqlite3.connect(play.root / ".tugtool" / "state.db")
    kept["the database"] = "\n".join(database.iterdump())
    database.close()
    assert {name: found(text) for name, text in kept.items() if found(text)} == {}
