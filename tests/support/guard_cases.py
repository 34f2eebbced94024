"""What every role may and may not do, case by case, and how a case is put to the guard."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tugtool.agents.guard import judge, rules
from tugtool.agents.guard.judge import Refused
from tugtool.agents.guard.location import AgentLocation

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


#: Variables that lead a program to other code.
LEADING = (
    *("PATH=/tmp/x", "PATH=.:$PATH", "PYTHONPATH=/tmp/x", "LD_PRELOAD=x", "LD_LIBRARY_PATH=x"),
    *(
        "BASH_ENV=x",
        "ENV=x",
        "GIT_DIR=x",
        "TUGCODE_PLAN=x",
        "PERL5OPT=x",
        "NODE_OPTIONS=x",
        "HOME=x",
    ),
)
#: How a directory is taken away.
REMOVING = (
    *("rm -rf {}", "rm -rf ./{}/", "rm -f {}/*", "mv {} y", "find {} -delete", "mv -t y {}"),
    *("sudo rm -rf {}", "timeout 5 nice rm -rf {}", "sh -c 'rm -rf {}'", "x={}; rm -rf $x"),
)
#: Changes of the record that are never right.
RECORD = (
    "echo x > .git/config",
    "cp hook .git/hooks/pre-commit",
    "cp hook .git/hooks/",
    "cp state.db .tugtool/",
    "mv x .tugtool/state.db",
    "truncate -s 0 .tugtool/state.d?",
    "sqlite3 .tugtool/state.db 'delete from plans'",
    "sqlite3 x.db '.open .tugtool/state.db'",
    "nohup sqlite3 .tugtool/state.db",
    "cd .tugtool && sqlite3 state.db",
    "duckdb .tugtool/*",
    "python3 -m sqlite3 .tugtool/state.db 'delete from plans'",
    "rm -rf ../repo",
    'rm -rf "$PWD/.tugtool"',
    'rm -rf "$PWD"',
    "rm -rf $(pwd) `git rev-parse --show-toplevel`",
    "ln -sf x .tugtool/state.db",
    "tar xf x.tar -C .git",
    "find . -name 'state.d*' -delete",
    "find . -path './.tugtool/*' -delete",
    "rsync -a --delete x/ .",
)
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
        "for f in a b; do wc -l $f; done; command -v $x",
        'case $x in a|b) ls;; *) echo "$x" ;; esac; files=(a "b c"); wc -l "${files[@]}"',
        'show() { cat "$1"; }; show a; show b | head',
        "echo 'git commit is not for me'",
        "git log --grep 'git commit'",
        "diff <(git show HEAD:a) a > /tmp/guard-test-out.txt",
        # Notes, and texts that no shell reads.
        "cat > /tmp/guard-test.md <<'EOF'\n$(git commit); it's \"x\nEOF\necho done",
        "cat <<-EOF | grep x\n\tcosts $5 or $HOME\n\tEOF",
        'T=/tmp/guard-test; echo x > $T/a; echo y > "${T}/b"',
        "echo x > ${TMPDIR:-/tmp}/x; echo y > $TMPDIR/y; echo z > /var/tmp/guard-test",
        # Git, looking.
        "git config user.name; git config --global --get core.editor; git config --get-regexp a",
        "git branch --contains HEAD; git branch --merged main; git branch -avv --sort=-x",
        "git tag --contains HEAD; git tag -n3; git symbolic-ref --short HEAD; git fsck --full",
        "git format-patch --stdout HEAD~1; git archive HEAD; git hash-object a.py",
        "git -c core.quotePath=false diff --stat; git diff -Oorder; git remote -v show origin",
        "command -v gh; gh pr view 12; gh run list",
        # Programs that look.
        "sed -n '1,5p' a; sed -ne '/x/,$p' -e 's/a\\/b/c/gp' a; sed -E 's|(a)|\\1w|;y/e/w/' a",
        "sed '$!d;/r e w/d;s/e/w/2;:a;N;$!ba;b' a; sed '/x/a\\\nwrite e' a; sed \"${n}p\" a",
        "sort -u -t o -k 2,3 a; date -u +%s; date -d '2 days ago'; set -euo pipefail",
        "LC_ALL=C sort a; GIT_PAGER=cat git log; f=a.py; cat $f; for x in a b; do cat $x; done",
        "tree -L 2; rg -o x; git grep -n --only-matching Osh",
    ),
    *tools("/tmp/guard-test/notes.md", *EDITORS),
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
    "tugcode claim work",
    "tugcode next",
    "tugcode done --all",
    "tugcode --json -C . state complete work step-1",
    "/usr/local/bin/tugcode state update work step-1 --all completed",
    "python3 -P -m tugtool state reset work step-1",
    "tugcode-python state reset work step-1",
    "python3 .venv/bin/tugcode-python state reset work step-1",
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
        "exec -a b $x commit",
        "timeout 5 nice -n 5 ${x}git commit",
        "`echo git` commit",
        "tugcode $x",
        "tugcode merge work",
        "tugcode implement work",
        "tugcode worktree remove x",
        "tugcode dash join x",
        "tugcode doctor --fix",
        "tugcode state review work --accept",
        "tugcode review work --accept-all --yes",
        "tugcode state review work --retry --yes",
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
        "cat <<EOF\n$(git commit -m x)\nEOF",
        "cat <<EOF\nE\\\nOF\ngit commit\nEOF",
        "cat <<EOF | sh\ngit commit\nEOF",
        "bash <<'EOF'\nls\nEOF",
        "cat <<EOF\nx\nEOF\ngit commit -m x",
        "python3 - <<EOF\nimport os; os.system('git commit')\nEOF",
        "echo 'import os; os.system(\"git commit\")' | python3",
        "make -f - <<< 'all: ; git commit -m x'",
        "/usr/lib/git-core/git-commit --allow-empty -m x",
        "timeout 5 /usr/lib/git-core/git-push",
        # Variables that lead programs elsewhere.
        *(f"{setting} tugcode status" for setting in LEADING),
        *(f"env {setting} git log" for setting in LEADING),
        "BASH_ENV=x.sh bash -c ls",
        "BASH_ENV=x.sh; export BASH_ENV",
        "LD_PRELOAD=x ls",
        "for BASH_ENV in x.sh; do true; done",
        # Roles that are dropped.
        'exec env -i PATH="$PATH" ./x.sh',
        'timeout 5 env -i PATH="$PATH" ./x.sh',
        "nohup setsid env -i ./x.sh",
        "stdbuf -o L nice -n 5 env -u TUGCODE_ROLE ./x.sh",
        "for TUGCODE_ROLE in committer; do ./x.sh; done",
        "select TUGCODE_ROLE in committer; do ./x.sh; done",
        "exec -c ./x.sh",
        "exec -cl ./x.sh",
        "env -vi ./x.sh",
        "timeout 5 env --ignore-env ./x.sh",
        "bash -O extglob -c 'git commit'",
        "bash -c -e 'git commit'",
        "$'git' commit",
        "sed $'1e ls' x",
        "shopt -s dotglob; rm -rf *",
        "env -S 'git commit'",
        "sudo ./x.sh",
        "nohup sudo ./x.sh",
        "read TUGCODE_ROLE",
        "declare -x TUGCODE_ROLE=committer",
        "export -n TUGCODE_ROLE",
        "printf -v TUGCODE_ROLE committer",
        "V=TUGCODE_ROLE; unset $V",
        # Programs that look, made to do more.
        "sed '1e touch y; git commit' x",
        "sed -n 'w .tugtool/config.toml' x",
        "sed -e p -e '1w .tugtool/state.db' x",
        "sed 's/a/touch y/e' x",
        "sed 's/a/b/gw .tugtool/config.toml' x",
        "sed -n -e '/a/{p;e ls' -e '}' x",
        "sort -o.tugtool/config.toml x",
        "sort -uo .tugtool/config.toml x",
        "sort --outp=.tugtool/config.toml x",
        "tree -o .tugtool/config.toml",
        "find . -fprintf .tugtool/config.toml %p",
        "git grep -Osh x",
        "git grep -nOsh x",
        "git grep --op=sh x",
        "git remote -v add evil y",
        "git branch --sort=x new",
        "git branch -vm a b",
        "git tag -n -d v1",
        "git symbolic-ref HEAD refs/heads/x",
        "git hash-object -w x",
        "git hash-object -tw x -w",
        "git config user.name x",
        "git config --global alias.x y",
        "git format-patch HEAD~1",
        "git archive -o x HEAD",
        "git archive --remote=x --exec=y HEAD",
        "git fsck --lost-found",
        "git {log,--output=x}",
        "git log {--output=x,HEAD}",
        "git clone . /tmp/../etc/x",
        "git clone . copy",
        "git clone -c core.fsmonitor=x . /tmp/guard-test",
        "git clone --upload-pack=x . /tmp/guard-test",
        "git init",
        # The record through its directory, patterns, variables and links.
        *(form.format(dir) for form in REMOVING for dir in (".tugtool", ".git", ".tug*", ".gi[t]")),
        *RECORD,
        "ln -s .tugtool t && echo evil > t/config.toml",
        "cp x .tugtool/",
        "cp -t .tugtool x",
        "cp x .tugtool",
        "install -m 644 x .tugtool/config.toml",
        "rsync x .tugtool/",
        "git rm -r .tugtool",
        "git mv .tugtool y",
        "git restore .tugtool",
        "D=.tugtool; echo evil > $D/config.toml",
        "A=.tug; B=${A}tool; echo evil > $B/config.toml",
        "for d in a b .tugtool; do rm -rf $d; done",
        "D='x .tugtool'; rm -rf $D",
        "echo x > .tug{tool,x}/config.toml",
        'echo x > .tug{"tool",x}/config.toml',
        "curl -so .tugtool/config.toml https://x",
        "wget -qO .tugtool/config.toml https://x",
        "tar xzf x.tgz -C .tugtool",
        "tar --directory=.tugtool -x -f x.tar",
        "unzip x.zip -d .tugtool",
        "mkdir .tugtool/x",
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
        "npm version patch",
        "pre-commit install",
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
        *(form.format(dir) for form in REMOVING for dir in (".tugtool", ".git", ".tug*")),
        *RECORD,
    ),
]
FREE = [
    *tools("x", "Write", "Task", "any tool"),
    *tools(PLAN, *EDITORS),
    *tools(".tugtool/config.toml", "Edit"),
    *bash("git commit -m x", "git push -f", "tugcode merge work", "cat <<EOF\nx\nEOF", "a 'b"),
    *tools(".git/info/exclude", "Write"),
    *bash(
        "rm .git/index.lock",
        "cp plan.md .tugtool/tugplan-work.md",
        "cp tugplan-work.md .tugtool/",
        "rm .tugtool/tugplan-*.md",
        "mkdir -p .tugtool",
        "rm -rf build/* *.o $x .tugtree/x",
        "cp -r .tugtool /tmp/guard-test; ln -s .tugtool x; tar cf /tmp/x .git",
        "sqlite3 app.db 'select 1'",
        "rm -rf /tmp/guard-test/.git /tmp/guard-test",
        "PATH=x ls; sed -i s/a/b/ x; find . -name '*.o' -delete",
    ),
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
        "touch x",
        "sed -i s/a/b/ src/a.py",
        "sed -Ei.bak s/a/b/ src/a.py",
        "sort -o a a",
        "perl -pi -e s/a/b/ src/a.py",
        "gawk -i inplace 1 src/a.py",
        "uniq a b",
        "tee src/a.py",
        "cat > src/new.py <<'EOF'\nx = 1\nEOF",
        "find . -name x -exec sed -i s/x/y/ {} +",
        "find . -name x | xargs sed -i s/x/y/",
        "find . -fprintf y %p",
        "sort -oMakefile x",
        "sort -uo F x",
        "sort --outp=F x",
        "tree -o F",
        "install x y",
        "curl -o x https://x",
        "wget -O x https://x",
        "tar xf x.tar -C src",
        "unzip x.zip -d src",
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
    "mkdir -p build && cd build && cmake ..",
    "T=$(mktemp); make > $T; rm $T",
    "T=$(mktemp -d) && cd $T && echo x > b",
    "cd $(mktemp -d) && echo x > b",
    "python3 - <<'EOF'\nprint(1)\nEOF",
    "cat <<'EOF' | python3 -m json.tool\n{}\nEOF",
    'python3 -c "import git_helper"',
    "git log --oneline | awk '{print $1}'; git diff | python3 script.py; git log | perl -ne print",
    "git show HEAD:x | python3 -m json.tool; bash -O extglob -c ls; shopt -s globstar",
    "PYTHONPATH=src python3 -m pytest; export PATH=$HOME/bin:$PATH; HOME=/tmp/x make",
    "git clone -q . /tmp/guard-test/clean && cd /tmp/guard-test/clean && make && rm -rf build",
    "mkdir -p /tmp/guard-test/x && git archive HEAD | tar x -C /tmp/guard-test/x",
    "git init -q /tmp/guard-test/repo; rm -rf /tmp/guard-test/repo",
    "curl -s https://x | head; curl -o /tmp/guard-test/x https://x; tar tf x.tar",
    "find . -name x -exec grep y {} +; ls | xargs sed -n 1p",
)
#: What only looks does no more than that, whoever calls it.
LOOKS_MORE = bash("sed -f F x", "date -s 12:00", "date 12310000", "set -k", "wait -p X", "tree -R")
#: Changes of files that only programs nobody can see through, and so only ANY may run.
SPREAD = bash("find . -name x -delete", "find . -name x -exec rm {} +", "ls | xargs rm")


class Expected(NamedTuple):
    """What one role may, and what it may not, beside what holds for all."""

    may: list[Case]
    may_not: list[Case]


#: Pushes that do more than bring a branch to where it belongs.
UNPLAIN = (
    *("-fu origin main", "-uf origin main", "--receive-pack=x origin main", "--all origin"),
    *("origin tugplan/calc:main", "--tags origin", "--forc origin main", "-u origin a b"),
    *("origin $x", "ext::sh main", "../x main", "--no-verify origin main", "-o x origin main"),
)
_SED = f"sed -i s/a/b/ {PLAN}"
_PUSH = bash("git push origin tugplan/work", "git fetch origin", "gh pr create --title x")
_LOOKS = Expected(
    tools("x", "WebFetch"),
    [
        *(*EDITS, *BUILDS, *SPREAD, *_PUSH, *LOOKS_MORE, *tools(PLAN, *EDITORS)),
        *bash("git -C /tmp/guard-test log", "cd /tmp/guard-test; git status"),
        *bash("git --git-dir=/tmp/guard-test log", "echo x > /tmp/guard-test/.git/config"),
        *bash("tugcode commit", "mkdir x", *(f"{setting} ls" for setting in LEADING)),
    ],
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
            *bash(
                "git ls-files | xargs git add",
                "rm -rf build/* dist *.egg-info",
                'rm -rf "$TMPDIR/x" $OUT',
                "for f in a b; do rm -rf $f; done; d=build; rm -rf $d/x && mkdir $d/x",
                "find . -name '*.pyc' -delete; find build -delete",
                "find . -not -path './.git/*' -name '*.orig' -delete",
                "find docs -name '*.md' -delete",
                "rm -rf $PWD/build; find . -path ./.git -prune -o -name '*.o' -exec rm {} +",
                "cp -r src/* /tmp/guard-test; mv a b/; ln -s a b; cp a{,.bak}",
                "git rm --cached a.py; git mv a b; git restore .",
                "cat <<EOF > a\n$x\nEOF",
                "patch -p1 < x.patch; git apply <<'EOF'\n--- a\n+++ b\nEOF",
            ),
        ],
        [
            *tools(PLAN, *EDITORS),
            Case("apply_patch", f"*** Begin Patch\n*** Delete File: {PLAN}\n"),
            *_PUSH,
            *bash("tugcode commit", f"git rm {PLAN}", _SED, f"mv {PLAN} x"),
            *bash("find . -exec rm {} +", "find . -delete", "rm -rf .tugtree", "rm -rf ../rep*"),
            *bash("echo .tugtool | xargs rm -rf", "xargs rm -rf <<< .tugtool"),
            *bash("find .tugtool -type f | xargs -0 sed -i s/a/b/", "git -C .tugtool rm x"),
            *bash("git apply <<'EOF'\n--- a/x\n+++ b/.tugtool/config.toml\nEOF"),
            *bash("git rm -r .", "find .tugtool -name x -exec rm {} +"),
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
            *bash(*(f"git push {words}" for words in UNPLAIN), "git push", "git push origin"),
            *bash("git fetch origin +x:refs/heads/main", "git fetch --upload-pack=x origin"),
            *bash("git fetch ../x", "git fetch origin x:y", "git fetch --prune --force"),
        ],
    ),
}


def cases(role: str | None) -> Iterator[tuple[bool, Case]]:
    """Every case of a role, or of whoever has none, and whether it may."""
    may = FREE if role is None else [*MAY, *EXPECTED[role].may]
    may_not = NEVER if role is None else [*MAY_NOT, *EXPECTED[role].may_not]
    yield from ((True, case) for case in may)
    yield from ((False, case) for case in may_not)


#: They work in a worktree; all others look, or write plans, in the main checkout.
WORKERS = ("coder", "reviewer", "auditor")


def home(repo, role: str | None) -> Path:
    """Where a role works."""
    tree = repo.path / ".tugtree" / "repo"
    if role in WORKERS and not tree.exists():
        repo.linked(tree, "work")
    return tree if role in WORKERS else repo.path


def breaches(role: str | None, repo) -> list[str]:
    """The cases that the guard decides otherwise, asked in this process."""
    cwd = str(home(repo, role))
    told = ((may, case, refusal(role, case, cwd)) for may, case in cases(role))
    return [str(case) for may, case, said in told if may != (said is None)]


def refusal(role: str | None, case: Case, cwd: str) -> str | None:
    """What the guard says to a case, if it refuses it."""
    rule = None if role is None else rules.ROLES[role]
    try:
        judge.refuse_tool(rule, case.tool, case.given, AgentLocation(cwd))
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
