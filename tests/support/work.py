"""A plan at work in a real repository: branches, worktrees and commits made by git itself."""

import os
import subprocess
import sys
from pathlib import Path

import tugtool
from conftest import DATES, QUICKLY, Repo, Result, head
from support.state import KEY, markdown
from tugtool.git import trailers
from tugtool.plan import fingerprint
from tugtool.store import open_store

IDENTITY = {
    "GIT_AUTHOR_NAME": "Tug",
    "GIT_AUTHOR_EMAIL": "tug@example.invalid",
    "GIT_COMMITTER_NAME": "Tug",
    "GIT_COMMITTER_EMAIL": "tug@example.invalid",
}


class Work:
    """The plan `work`, committed and recorded; `main` is where it started."""

    def __init__(self, repo: Repo, tugcode, *lines: str, target: str | None = None) -> None:
        self.repo, self._tugcode = repo, tugcode
        self.text = markdown(*lines)
        if target:
            self.text += (
                "\n### Metadata {#plan-metadata}\n\n| Field | Value |\n|---|---|\n"
                f"| Target branch | {target} |\n"
            )
        self.hash = fingerprint.of(self.text.encode())
        self.plan = repo.path / KEY
        self.base = repo.become("work", self.text, make=self._made)
        self.made = 0

    def _made(self, repo: Repo) -> str:
        """Commit the plan and record it; the commit."""
        repo.plan("work", self.text)
        repo.write({".tugtool/.gitattributes": "log.md merge=union\n"})
        exclude = repo.path / ".git" / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text("/.tugtool/state.*\n/.tugtree/\n")
        base = repo.commit({"code.py": "pass\n"})
        self.init(repo)
        return base

    def init(self, repo: Repo | None = None) -> None:
        path = (repo or self.repo).path
        assert self._tugcode("-C", path, "state", "init", "work").status == 0

    def lose(self) -> None:
        """The database is gone, and so is its backup; the plan is recorded anew."""
        for path in (self.repo.path / ".tugtool").glob("state.*"):
            path.unlink()
        backup = self.repo.path / ".git" / "tugtool"
        for path in backup.glob("*") if backup.exists() else []:
            path.unlink()
        self.init()

    def branch(self, number: int = 1, *, row: bool = False, start: str = "HEAD") -> Path:
        """A worktree of the plan on its own branch, known to git alone unless `row`."""
        name = f"tugplan/work-2026022{number}"
        path = self.repo.path / ".tugtree" / f"tugplan__work-2026022{number}"
        self.repo.git("worktree", "add", "--quiet", "-b", name, str(path), start)
        if row:
            self.execute(
                "insert into worktrees values"
                " (:path, :branch, 'main', :base, :plan, :now, null, null)",
                path=str(path),
                branch=name,
                base=self.base,
            )
        return path

    def execute(self, statement: str, **values: object) -> None:
        """Change rows by hand, of the plan or of others."""
        store = self.store()
        with store.write(KEY, "other", "other.md") as tx:
            tx.run(statement, **values)
        store.close()

    def store(self):
        return open_store(f"sqlite://{self.repo.path / '.tugtool' / 'state.db'}")

    def rows(self, statement: str) -> list[dict]:
        store = self.store()
        with store.read(KEY) as tx:
            rows = [dict(row) for row in tx.all(statement)]
        store.close()
        return rows

    def set(self, anchor: str, attempt: int = 1, plan_hash: str | None = None) -> str:
        hash_ = plan_hash or self.hash
        return trailers.written(KEY, anchor, plan_hash=hash_, attempt=attempt)

    def commit(
        self,
        where: Path,
        *anchors: str,
        attempt: int = 1,
        message: str | None = None,
        files: dict[str, str] | None = None,
    ) -> str:
        """A commit in a worktree with one set per anchor, or with this very message."""
        self.made += 1
        Repo(where).write(files or {f"file-{self.made}": f"{self.made}\n"})
        text = "\n\n".join(["Work", *(self.set(anchor, attempt) for anchor in anchors)])
        return self.record(where, text if message is None else message)

    def record(self, where: Path, message: str) -> str:
        """Commit whatever there is, with the message as it stands."""
        # Each a second later: the order in time is the order in which they were made.
        self.made += 1
        when = f"2026-01-01T{self.made // 3600:02}:{self.made // 60 % 60:02}:{self.made % 60:02}Z"
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        self.git(where, "add", "--all")
        command = ["commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--file=-"]
        self.git(where, *command, given=message, **dates)
        return head(where)

    def git(self, where: Path, *words: str, given: str = "", **env: str) -> str:
        done = subprocess.run(
            ["git", *QUICKLY, *words],
            cwd=where,
            env={**os.environ, **IDENTITY, **DATES, **env},
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def revert(self, where: Path, commit: str, *words: str) -> str:
        self.git(where, "revert", "--no-edit", *words, commit)
        return self.head(where)

    def head(self, where: Path | None = None) -> str:
        return head(where or self.repo.path)

    def run(self, *words: object) -> Result:
        return self._tugcode("-C", self.repo.path, *words)

    def reconcile(self, *words: str) -> dict:
        done = self.run("state", "reconcile", "work", *words, "--json")
        assert done.status == 0, done.out
        return done.data

    def done(self) -> dict[str, str]:
        """Completed step -> its commit."""
        rows = self.rows("select * from steps where parent_anchor is null order by step_index")
        return {row["anchor"]: row["commit_hash"] for row in rows if row["status"] == "completed"}

    def finish(self, anchor: str, commit: str | None, where: Path | None = None) -> None:
        """Claim and complete a step as if its worker had, with the commit."""
        at = where or self.repo.path
        words = ("--commit", commit) if commit else ()
        for line in (
            ("claim", "work", "--step", anchor),
            ("update", "work", anchor, "--all", "completed"),
            ("complete", "work", anchor, *words),
        ):
            done = self._tugcode("-C", at, "state", *line)
            assert done.status == 0, done.err

    def ignored(self, data: dict) -> list[tuple[str, str]]:
        return [(each["step_anchor"], each["reason"]) for each in data["ignored"]]

    def process(self, *words: str, crash: str = "") -> subprocess.CompletedProcess:
        """A process of its own, which may be made to die at a named point."""
        started = self.start(*words, crash=crash)
        out, err = started.communicate()
        return subprocess.CompletedProcess(words, started.returncode, out, err)

    def start(self, *words: str, crash: str = "", apart: bool = False) -> subprocess.Popen:
        """`apart`: with a process group of its own, so that all it starts can be killed too."""
        env = {**os.environ, **IDENTITY, "TUGCODE_CRASH_AT": crash}
        env["PYTHONPATH"] = str(Path(tugtool.__file__).parent.parent)
        command = [sys.executable, "-m", "tugtool", "-C", str(self.repo.path), *words]
        pipe = subprocess.PIPE
        how = {"env": env, "stdout": pipe, "stderr": pipe, "text": True}
        return subprocess.Popen(command, start_new_session=apart, **how)


def other_file_system(path: Path) -> str | None:
    """A directory that may be written to, on another file system than the path, if there is one."""
    here = os.stat(path).st_dev
    known = ("/dev/shm", "/var/tmp", str(Path(__file__).parents[2]))
    return next(
        (each for each in known if os.path.isdir(each) and os.stat(each).st_dev != here), None
    )
