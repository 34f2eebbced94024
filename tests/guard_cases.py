"""What every role may and may not do, case by case, and how a case is put to the guard."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tugtool.guard import judge, rules
from tugtool.guard.paths import Place
from tugtool.guard.refused import Refused

HOOK = [sys.executable, "-m", "tugtool", "hook", "pre-tool-use"]


class Case(NamedTuple):
    """One tool call; the text is a command, or the path of a file."""

    tool: str
    text: str

    @property
    def given(self) -> dict[str, str]:
        if self.tool in ("Bash", "apply_patch"):
            return {"command": self.text}
        key = "notebook_path" if self.tool == "NotebookEdit" else "file_path"
        return {key: self.text}


def bash(*lines: str) -> list[Case]:
    return [Case("Bash", line) for line in lines]


def tools(text: str, *names: str) -> list[Case]:
    return [Case(name, text) for name in names]


EDITORS = ("Edit", "MultiEdit", "NotebookEdit", "Write")
PLAN = ".tugtool/tugplan-work.md"

#: For every role.
MAY = [
    *tools("src/a.py", "Read", "Grep", "Glob", "LS", "TodoWrite", "StructuredOutput"),
    *tools(".tugtool/state.db", "Read"),
    *bash(
        "git status",
        "git --no-pager log --oneline | head -5",
        "git -C sub -c color.ui=never diff HEAD~1 -- a.py",
        "git branch --show-current; git branch -a; git tag --list 'v*'; git stash list",
        "tugcode state show work --json",
        "tugcode --json -C .. validate work",
        "tugcode commit --help",
        "tugcode state why work step-1 2>/dev/null || echo none",
        "cd sub && ls -la | grep -v x | sort | uniq -c",
        "cat .tugtool/tugplan-work.md",
        "for f in a b; do wc -l $f; done",
        "echo 'git commit is not for me'",
        "git log --grep 'git commit'",
        "diff <(git show HEAD:a) a > /tmp/guard-test-out.txt",
    ),
]
#: How a forbidden command can be hidden; `{}` is the command.
HIDDEN = (
    "{}",
    "cd sub && {}",
    "true; {}",
    "true | {}",
    "true || {}",
    "true & {}",
    "true\n{}",
    "( {} )",
    "{{ {}; }}",
    "if true; then {}; fi",
    "echo $({})",
    'echo "`{}`"',
    "echo ${{x:-$({})}}",
    "cat <({})",
    "sh -c '{}'",
    "bash -lc '{}'",
    "bash -c \"sh -c '{}'\"",
    "eval {}",
    "eval '{}'",
    "env A=b {}",
    "A=b {}",
    "time {}",
    "nohup nice -n 5 {}",
    "timeout -k 5 60 {}",
    "command {}",
    "exec {}",
    "echo x | xargs {}",
    "echo x | xargs -I % sh -c '{}'",
    "find . -name x -exec {} \\;",
    "watch '{}'",
    "! {}",
    "{} > /tmp/x 2>&1",
    "{} # and more",
)
COMMIT = (
    "git commit -m x",
    "git -C x commit -am x",
    "git -c a=b commit",
    "git --git-dir=.git --work-tree . commit",
    "/usr/bin/git commit",
    "g\\it co'mm'it",
)
STATE = (
    "tugcode state claim work",
    "tugcode --json -C . state complete work step-1",
    "/usr/local/bin/tugcode state update work step-1 --all completed",
    "python3 -P -m tugtool state reset work step-1",
    ".venv/bin/python -mtugtool state release work step-1",
    "python3 -W ignore -X utf8 -m tugtool commit",
    "python3 .venv/bin/tugcode state pause work",
)
MAY_NOT = [
    *tools("x", "Task", "Agent", "Skill", "Monitor", "mcp__files__write", "no such tool", ""),
    *(case for name in EDITORS for case in tools(".tugtool/state.db", name)),
    *tools(".git/config", *EDITORS),
    *tools("sub/.GIT/hooks/pre-commit", "Write"),
    *tools(".tugtool/log.md", *EDITORS),
    *tools(".tugtool/config.toml", *EDITORS),
    *tools(".claude/settings.json", *EDITORS),
    *tools(".tugtree/tugplan__work/.tugtool/tugplan-work.md", *EDITORS),
    *bash(*(f.format(line) for line in (COMMIT[0], STATE[0]) for f in HIDDEN)),
    *bash(*COMMIT, *STATE),
    *bash(
        "git push --force",
        "git reset --hard",
        "git stash",
        "git checkout -b x",
        "git branch new",
        "git branch -D old",
        "git tag v1",
        "git worktree add x",
        "git update-ref HEAD x",
        "git config user.name x",
        "git diff --output=x",
        "git log --outp x",
        "git grep --open-files-in-pager=sh x",
        "git -c alias.x='!sh' x",
        "git -c core.fsmonitor=sh status",
        "git -c 'core.pager=cat;sh' log",
        "git $x",
        "git x",
        "$x commit",
        "gi[t] commit",
        "`echo git` commit",
        "tugcode $x",
        "tugcode merge work",
        "tugcode implement work",
        "tugcode worktree remove x",
        "tugcode dash join x",
        "tugcode doctor --fix",
        "tugcode state review work --accept",
        "tugcode init",
        "TUGCODE_ROLE= tugcode state show work",
        "TUGCODE_ROLE=committer tugcode commit",
        "env -u TUGCODE_ROLE tugcode status",
        "env --unset=TUGCODE_ROLE tugcode status",
        "env -i tugcode status",
        "unset TUGCODE_ROLE; tugcode status",
        "export TUGCODE_ROLE=committer",
        "GIT_DIR=/x git log",
        "echo 'git commit' | sh",
        "sh -s < script",
        "sh <(echo git commit)",
        "source <(echo git commit)",
        ". /dev/stdin <<< 'git commit'",
        "echo commit | xargs git",
        "echo commit | xargs -I {} git {}",
        "echo commit | xargs -n 1 tugcode",
        "echo 'git commit' | xargs -0 sh",
        "printf -v TUGCODE_ROLE x",
        "export ${X}ROLE=committer",
        "for v in TUGCODE_ROLE; do unset $v; done",
        "env ${X}ROLE=committer sh go.sh",
        "bash <<< 'git commit'",
        "cat <<EOF > a\nx\nEOF",
        'sh -c "$x"',
        "echo 'x",
        "f() { git commit; }; f",
        "python3 -c 'import os; os.system(\"git commit\")'",
        "perl -e 'system(\"tugcode commit\")'",
        "echo x > .tugtool/state.db",
        "cd .tugtool && rm -f state.db",
        "echo x >> .tugtool/log.md",
        "rm -rf .git",
        "sed -i s/a/b/ .tugtool/config.toml",
        "tee .tugtool/config.toml",
        "gh pr merge 12",
        "make" + " x" * 1000,
    ),
]
#: Never right, whoever does it; and what whoever has no role is free to do.
NEVER = [
    *tools(".tugtool/state.db", *EDITORS),
    *tools(".tugtool/log.md", "Write"),
    *tools(".git/HEAD", "Write"),
    *bash(
        "echo x > .tugtool/state.db",
        "cd .tugtool; rm state.db-wal",
        "sqlite3 .tugtool/state.db 'delete from steps'",
        "echo x >> .tugtool/log.md",
    ),
]
FREE = [
    *tools("x", "Write", "Task", "any tool"),
    *tools(PLAN, *EDITORS),
    *tools(".tugtool/config.toml", "Edit"),
    *bash("git commit -m x", "git push -f", "tugcode merge work", "cat <<EOF\nx\nEOF", "a 'b"),
]
#: What changes something of the work, which a role that edits nothing may not.
EDITS = [
    *tools("src/a.py", *EDITORS),
    Case("apply_patch", "*** Begin Patch\n*** Update File: src/a.py\n@@\n"),
    *bash(
        "echo x > src/a.py",
        "make &> build.log",
        "rm src/a.py",
        "mv a b",
        "cp a b",
        "mkdir x",
        "touch x",
        "sed -i s/a/b/ src/a.py",
        "sed -Ei.bak s/a/b/ src/a.py",
        "sort -o a a",
        "perl -pi -e s/a/b/ src/a.py",
        "gawk -i inplace 1 src/a.py",
        "uniq a b",
        "tee src/a.py",
        "git add src/a.py",
        "git restore src/a.py",
    ),
]
#: Builds and tests, which a role that only looks may not run.
BUILDS = bash(
    "make test",
    "cd sub && npm test -- --watch=false 2>&1 | tail -40",
    ".venv/bin/python -m pytest -q tests",
    "python3 script.py",
    "sh ./check.sh",
    "CI=1 cargo test",
    "timeout 60 make",
    "perl -Mstrict -ne print a.txt",
    ". .venv/bin/activate && tox",
    "export CI=1; make",
    "ls | xargs -n 1 wc -l",
    "$HOME/.cargo/bin/cargo build",
)
#: Changes of files that only programs nobody can see through, and so only ANY may run.
SPREAD = bash("find . -name x -delete", "find . -exec rm {} +", "ls | xargs rm")


class Expected(NamedTuple):
    """What one role may, and what it may not, beside what holds for all."""

    may: list[Case]
    may_not: list[Case]


_SED = f"sed -i s/a/b/ {PLAN}"
_PUSH = bash("git push origin tugplan/work", "git fetch origin", "gh pr create --title x")
_LOOKS = Expected(
    tools("x", "WebFetch"),
    [*EDITS, *BUILDS, *SPREAD, *_PUSH, *tools(PLAN, *EDITORS), *bash("tugcode commit")],
)
_RUNS = Expected(
    [*tools("x", "WebFetch"), *BUILDS, *bash("mkdir -p /tmp/guard-test/x")],
    [*EDITS, *SPREAD, *_PUSH, *tools(PLAN, *EDITORS), *bash("tugcode commit", _SED)],
)
EXPECTED = {
    "clarifier": _LOOKS,
    "critic": _LOOKS,
    "architect": _LOOKS,
    "reviewer": _RUNS,
    "auditor": _RUNS,
    "author": Expected(
        [*tools(PLAN, *EDITORS), *tools("x", "WebFetch"), *bash("tugcode plan new work", _SED)],
        [
            *(case for case in EDITS if case.tool != "Bash"),
            *tools(".tugtool/tugplan-skeleton.md", *EDITORS),
            *tools(".tugtool/sub/tugplan-work.md", *EDITORS),
            *BUILDS,
            *_PUSH,
            *bash("tugcode commit", "git add .", "rm src/a.py"),
        ],
    ),
    "coder": Expected(
        [
            *EDITS,
            *BUILDS,
            *SPREAD,
            *tools("x", "WebFetch"),
            *tools("/tmp/x", "Write"),
            *tools(".claude/worktrees/x/settings.py", "Edit"),
            *bash("git ls-files | xargs git add"),
        ],
        [
            *tools(PLAN, *EDITORS),
            Case("apply_patch", f"*** Begin Patch\n*** Delete File: {PLAN}\n"),
            *_PUSH,
            *bash("tugcode commit", f"git rm {PLAN}", _SED, f"mv {PLAN} x"),
            *bash(*(form.format("tugcode commit --plan x") for form in HIDDEN)),
        ],
    ),
    "committer": Expected(
        bash("tugcode commit --plan work --step step-1 --message 'x; git push' --json"),
        [*EDITS, *BUILDS, *SPREAD, *_PUSH, *tools(PLAN, *EDITORS), *tools("x", "WebFetch")],
    ),
    "integrator": Expected(
        [*_PUSH, *bash("gh pr checks 12 --watch", "git push -u origin HEAD")],
        [
            *EDITS,
            *BUILDS,
            *SPREAD,
            *tools(PLAN, *EDITORS),
            *tools("x", "WebFetch"),
            *bash("tugcode commit", "git push -f", "git push origin +x", "git push origin :x"),
            *bash("git push --delete origin x", "git push --force-with-lease", "gh repo delete x"),
        ],
    ),
}


def cases(role: str | None) -> Iterator[tuple[bool, Case]]:
    """Every case of a role, or of whoever has none, and whether it may."""
    may = FREE if role is None else [*MAY, *EXPECTED[role].may]
    may_not = NEVER if role is None else [*MAY_NOT, *EXPECTED[role].may_not]
    yield from ((True, case) for case in may)
    yield from ((False, case) for case in may_not)


def breaches(role: str | None, cwd: str) -> list[str]:
    """The cases that the guard decides otherwise, asked in this process."""
    told = ((may, case, refusal(role, case, cwd)) for may, case in cases(role))
    return [str(case) for may, case, said in told if may != (said is None)]


def refusal(role: str | None, case: Case, cwd: str) -> str | None:
    """What the guard says to a case, if it refuses it."""
    rule = None if role is None else rules.ROLES[role]
    try:
        judge.refuse_tool(rule, case.tool, case.given, Place(cwd))
    except Refused as refused:
        return str(refused)
    return None


def ask(case: Case | None, cwd: Path, *, agent: str = "", given: bytes | None = None, **env: str):
    """Put one call to the hook as a client does: a process, JSON on its standard input."""
    if case is not None:
        call = {"session_id": "s", "cwd": str(cwd), "hook_event_name": "PreToolUse"}
        call |= {"tool_name": case.tool, "tool_input": case.given, "new": {"field": 1}}
        given = json.dumps(call | ({"agent_type": agent} if agent else {})).encode()
    return subprocess.run(
        HOOK, input=given, cwd=cwd, env={**os.environ, **env}, capture_output=True, check=False
    )
