"""What must be true after a plan whose agents did what they liked.

What a coder made is in its step's commit, kept under a ref, or named in a warning. Main and the
shared git directory are as before; what the loop cannot own, files and branch of the main
checkout, may differ if a warning names it. The plan is done.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from unruly_hand import contents
from unruly_scene import Scene, Told

from support.implement_aftermath import Record
from support.state_replay import INVARIANTS

#: What a run tells a person, and where it says it.
SAID = {"warning": "message", "worker_failed": "reason", "escalated": "reason"}
#: What is recorded for a person.
RECORDED = "select summary, content from step_artifacts where kind in ('note', 'escalation')"
#: Where bytes may be kept.
KEPT = ("refs/tug/salvage/", "refs/stash")
#: What git itself writes into the shared settings when a worktree gets some of its own.
ALLOWED = re.compile(r"(extensions\.worktreeconfig|core\.repositoryformatversion|branch\..*)=")


#: The mode of a repository inside, in a tree.
REPOSITORY = "160000"
#: Path -> mode and object.
Tree = dict[str, tuple[str, str]]
#: Words that stay the same in a problem, whichever file or step it is about.
KINDS = (
    *(
        "is parked",
        "is still held",
        "is in no commit",
        "on no branch",
        "is committed as",
        "the reviewer's",
    ),
    *("the shared git directory", "the main checkout", "git fsck", "the run ended"),
)


class Before:
    """Main and the shared git directory, at one moment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = contents(root)
        self.shared = _shared(root)
        self.head = (root / ".git" / "HEAD").read_text().strip()
        self.tip = _git(root, "rev-parse", "--verify", "--quiet", "refs/heads/main")

    def differences(self) -> Iterator[tuple[str, str, bool]]:
        """What is otherwise now: its kind, its name, and whether a warning is enough."""
        now = Before(self.root)
        for name in sorted(set(self.files) | set(now.files)):
            if self.files.get(name) != now.files.get(name):
                yield "file", name, True
        if now.head != self.head:
            yield "HEAD", "main", True
        if now.tip != self.tip:
            yield "branch", "main", True
        for name in sorted(set(self.shared) | set(now.shared)):
            if self.shared.get(name) != now.shared.get(name):
                yield "shared", name, False


def _git(root: Path, *words: str) -> str:
    return _ran(root, *words).stdout.strip()


def _ran(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Git that is not led astray by what agents have set."""
    return subprocess.run(
        ["git", f"--git-dir={root}/.git", f"--work-tree={root}", "-c", "core.bare=false", *words],
        cwd=root.parent,
        env={**os.environ, "GIT_NO_REPLACE_OBJECTS": "1"},
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )


def _shared(root: Path) -> dict[str, str]:
    """Settings, hooks, ignored names and replaced objects, each by its name."""
    replaced = _git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/replace")
    found = dict(line.split() for line in replaced.splitlines())
    for directory in ("hooks", "info"):
        for path in sorted((root / ".git" / directory).glob("*")):
            found[f"{directory}/{path.name}"] = f"{path.stat().st_mode} {path.read_text()}"
    for name in ("config", "config.worktree"):
        found.update(_settings(root, name))
    return found


def _settings(root: Path, name: str) -> Iterator[tuple[str, str]]:
    path = root / ".git" / name
    if path.exists():
        for line in _git(root, "config", "--file", str(path), "--list").splitlines():
            if not ALLOWED.match(line):
                yield f"{name}: {line.partition('=')[0]}", line


def problems(scene: Scene, before: Before, told: Told) -> list[str]:
    """Everything that is not as it must be."""
    return list(_Judge(scene, before, told).all())


def kind(problem: str) -> str:
    """What it is about, without names of files, steps and refs."""
    return next((sign for sign in KINDS if sign in problem), problem[:20])


class _Judge:
    def __init__(self, scene: Scene, before: Before, told: Told) -> None:
        self.scene, self.before, self.told, self.root = scene, before, told, scene.root
        self.record = Record(scene.root)
        try:
            self.steps = self.record.rows("select * from steps order by step_index")
            self.commits = {step["anchor"]: step["commit_hash"] for step in self.steps}
            self.warnings = [*self._said(), *self._recorded()]
            self.broken = [each for each in map(self._breach, INVARIANTS) if each]
        finally:
            self.record.store.close()
        self.kept = self._kept()

    def all(self) -> Iterator[str]:
        yield from self._end()
        yield from self.broken
        yield from self._main()
        calls = self.scene.calls()
        for step in self.steps:
            tree = self._tree(step["commit_hash"])
            mine = [call for call in calls if call["step"] == step["anchor"]]
            yield from self._work(step["anchor"], tree, mine)
            yield from self._reviewers(step["anchor"], tree, mine)
        found = _ran(self.root, "fsck", "--full", "--no-dangling", "--no-progress")
        if found.returncode or found.stdout:
            yield f"git fsck: {found.stdout[:300]}{found.stderr[:300]}"

    def _end(self) -> Iterator[str]:
        """The plan is done, and nothing is parked or held."""
        for step in self.steps:
            if step["parked_at"]:
                yield f"{step['anchor']} is parked: {step['park_reason']}"
            elif step["status"] != "completed":
                yield f"{step['anchor']} is {step['status']}"
            elif not self._is_on_a_branch(step["commit_hash"]):
                yield f"{step['anchor']} has a commit that is on no branch of the plan"
            if step["claimed_by"] and step["status"] != "completed":
                yield f"{step['anchor']} is still held"
        last = self.told.events[-1] if self.told.events else {}
        if (self.told.status, last.get("status")) != (0, "done"):
            codes = [f"{each['code']} {each['message']}" for each in self.told.issues]
            why = last.get("reason") or "; ".join(codes) or self.told.err[-300:]
            yield f"the run ended with {self.told.status}, {last.get('status')}: {why}"

    def _is_on_a_branch(self, commit: str | None) -> bool:
        contains = ("for-each-ref", f"--contains={commit}", "refs/heads/tugplan/")
        return commit is not None and bool(_git(self.root, *contains))

    def _breach(self, invariant) -> str:
        try:
            invariant(self.record)
        except Exception as error:
            return f"{invariant.__name__}: {error!r:.300}"
        return ""

    def _main(self) -> Iterator[str]:
        for kind, name, may_differ in self.before.differences():
            if kind == "shared":
                yield f"the shared git directory has another {name}"
            elif not (may_differ and self._is_named(name, whole=True)):
                yield f"the main checkout has another {kind} {name}, and no warning names it"

    def _work(self, step: str, tree: Tree, calls: list[dict]) -> Iterator[str]:
        """What the step's coder made is found."""
        blobs = {blob for _, blob in tree.values()}
        coders = [call for call in calls if call["role"] == "coder"]
        for call in coders:
            for name, (mode, blob) in _made(call).items():
                if blob not in blobs and blob not in self.kept and not self._is_named(name):
                    which = f"{step}, call {call['call']}"
                    yield f"{which}: {name} is in no commit, under no ref and in no warning"
                there = tree.get(name, ("", ""))
                is_last = call is coders[-1] and name in call["lies_there"]
                if is_last and there[1] == blob and there[0] != mode:
                    yield f"{step}: {name} is committed as {there[0]}"
        for name, (mode, _) in tree.items():
            if mode == REPOSITORY:
                yield f"{step}: {name} is committed as a repository that is not kept"

    def _reviewers(self, step: str, tree: Tree, calls: list[dict]) -> Iterator[str]:
        """Nothing that its reviewer made is in the commit, unless it was there before."""
        known = set(self._tree(f"{self.commits[step]}^").items()) if tree else set()
        for call in calls:
            if call["role"] == "coder":
                known |= set(_made(call).items())
        for call in calls:
            if call["role"] == "reviewer":
                for name, facts in _made(call).items():
                    if tree.get(name) == facts and (name, facts) not in known:
                        yield f"{step}: the reviewer's {name} is in the commit"

    def _tree(self, commit: str | None) -> Tree:
        """Path -> mode and object, of a commit."""
        if not commit:
            return {}
        out = _git(self.root, "ls-tree", "-r", "-z", commit)
        entries = [each.partition("\t") for each in out.split("\0") if each]
        return {name: (facts.split()[0], facts.split()[2]) for facts, _, name in entries}

    def _kept(self) -> set[str]:
        refs = _git(self.root, "for-each-ref", "--format=%(refname)", *KEPT).split()
        # The ref names the last stash; `git stash list` finds the others in its log.
        refs += _git(self.root, "log", "--walk-reflogs", "--format=%H", "refs/stash", "--").split()
        if not refs:
            return set()
        return {
            line.split()[0] for line in _git(self.root, "rev-list", "--objects", *refs).splitlines()
        }

    def _said(self) -> Iterator[str]:
        for event in self.told.events:
            if event.get("event") in SAID:
                yield str(event.get(SAID[event["event"]]))
        for issue in self.told.issues:
            yield str(issue["message"])

    def _recorded(self) -> Iterator[str]:
        for row in self.record.rows(RECORDED):
            yield f"{row['summary']}\n{row['content'] or ''}"

    def _is_named(self, path: str, *, whole: bool = False) -> bool:
        """Whether a warning names the file, or a directory that it lies in."""
        parts = path.split("/")
        ends = range(len(parts), 0, -1) if not whole else (len(parts),)
        return any(names(text, "/".join(parts[:end])) for end in ends for text in self.warnings)


def names(text: str, path: str) -> bool:
    """Whether the text names the path, also in quotes, and not something longer."""
    forms = {path, repr(path)[1:-1], json.dumps(path)[1:-1], path.replace("\t", "\\t")}
    return any(re.search(rf"(?<![\w.-]){re.escape(form)}(?![\w-])", text) for form in forms)


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _made(call: dict) -> Tree:
    """What a call of an agent made, as git would have it."""
    modes = {"link": "120000", "file": "100644"}
    return {
        name: ("100755" if executable else modes[kind], _blob(bytes.fromhex(content)))
        for name, (kind, content, executable) in call["made"].items()
    }
