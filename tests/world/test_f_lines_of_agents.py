"""F, the guard by lines that agents write: what commits by itself, and what is harmless."""

import pytest

from support.guard_cases import Case, home, refusal

#: Lines that commit, tag or move a branch without a word of git.
COMMITS = (
    *(
        "npm version patch",
        "npm version 1.2.3 -m x",
        "yarn version --patch minor",
        "pnpm version major",
    ),
    *("cargo release", "cargo release patch --execute", "bump2version patch", "bumpversion minor"),
    *("bump-my-version bump patch", "lerna version", "lerna publish", "npx lerna version patch"),
    *(
        "jj commit -m x",
        "jj new",
        "jj git push",
        "hub commit -m x",
        "hub push origin main",
        "cz bump",
    ),
    *("python3 -m bumpversion patch", "uvx bump-my-version bump patch", "npx standard-version"),
    *("cd sub && npm version patch", "env A=b npm version patch", "timeout 9 bump2version patch"),
    *(
        "poetry run bump2version patch",
        "release-it",
        "npx semantic-release",
        "sh -c 'npm version 2'",
    ),
)
#: Lines that change the git directory, which all worktrees share.
SHARED = (
    *(
        "pre-commit install",
        "pre-commit uninstall",
        "python3 -m pre_commit install",
        "npx husky init",
    ),
    *("husky", "husky install", "npx husky add x", "lefthook install", "uv run pre-commit install"),
)
UNDONE = (
    *("git restore --source=main -- .", "git restore --source main src", "git restore -s main ."),
    *("git restore -SWs HEAD~1 .", "git restore --sour=$x .", "git restore -smain ."),
)
#: Lines that are harmless.
HARMLESS = (
    *("npm version", "npm version --json", "npm version patch --no-git-tag-version", "npm test"),
    *(
        "yarn --version",
        "cargo build --release",
        "pre-commit run --all-files",
        "jj log",
        "cz check",
    ),
    *("lerna run test", "git restore .", "git restore --source=HEAD -- a", "git restore -s @ a"),
    *("$(which python) -m pytest", "$(which python3) manage.py test", '"$(command -v node)" x.js'),
    *("python3 -c \"print('see git log')\"", "python3 -c 'print(len(\"git\" * 3))'"),
)
#: A case, arrays and functions that only do what a role may do.
CONSTRUCTS = (
    'case "$1" in start) make;; stop|halt) make clean;; *) echo no;; esac',
    "case $(uname) in\n  Linux)\n    make ;;\n  *) true\nesac",
    'files=(src/a.py "src/b c.py"); rm -f "${files[@]}"; echo ${#files[@]}',
    'args=(-x -q tests); pytest "${args[@]}" | tail',
    'for f in a b; do case $f in a) rm $f;; esac; done; x=(1); for y in "${x[@]}"; do wc $y; done',
    "run() { make test; }; run",
    'check() { local name=$1; grep -q x "$name" || echo "$name"; }; check a.py; check b.py',
    "function clean { rm -rf build; }\nclean && make",
    "step() {\n  echo $1\n  python3 -m pytest tests/$1\n}\nstep unit\nstep system",
)
#: The same, with something in it that a role may not do.
HIDDEN = (
    *(
        "case a in a) git commit;; esac",
        "case $(git commit) in a) ls;; esac",
        "case a in (b|c) ls;; *) rm -rf .tugtool;; esac",
    ),
    *(
        'x=(commit -m y); git "${x[@]}"',
        'x=(git commit); "${x[@]}"',
        "x=(.tugtool); rm -rf ${x[0]}",
    ),
    *('x=(a .tugtool); rm -rf "${x[@]}"', 'x=(log); unset x; git "${x[@]}" commit', "x=(a); rm $x"),
    *('x=(-exec rm -rf .tugtool +); find . "${x[@]}"', 'x=(); env "${x[@]}" git commit'),
    *(
        "f() { git commit; }; f",
        "f() { git $1; }; f commit",
        "f() { $1 commit; }; f git",
        'f() { "$@"; }; f git commit',
    ),
    *(
        "f() { rm -rf $1; }; f .tugtool",
        'f() { local d="$1"; rm -rf "$d"; }; f .tugtool',
        "f() { rm -rf $2; }; f a .tugtool",
    ),
    *(
        "f() { rm -rf src; }; cd ../..; f",
        "f() { cd ../..; }; f; rm -rf src",
        "cd() { :; }; cd /tmp/x; rm -rf ../../src",
    ),
    *(
        "f() { python3; }; echo 'import os; os.system(\"git commit\")' | f",
        "f () { rm -rf $1; }; f .tugtool",
    ),
    *(
        "f() { rm -rf $1; }; eval 'f .tugtool'",
        "f() { rm $1; }; export -f f; bash -c 'f .tugtool/x'",
    ),
    *(
        "f() { echo 'import os; os.system(\"git commit\")'; }; f | python3",
        "function f { git push; }; f",
    ),
    *(
        "f() { rm -rf ${1:-x}; }; f .tugtool",
        "f() { shift; rm -rf $1; }; f a .tugtool",
        "f() { f; f; }; f",
    ),
)
#: What looks like them and is not.
DISGUISED = (
    *("$(which git) commit -m x", "$(command -v git) push", "$(which nothing) git commit -m x"),
    *("$(which nothing) rm -rf .tugtool", "$(which -a git) commit", "rm $(which python)"),
    *("$(which tugcode) state claim work", "$(which sh) -c 'git commit'", "$(which $x) commit"),
    *("python3 -c \"import os; os.system('git commit')\"", "python3 -c \"exec('git')\""),
    *("python3 -c \"print(open('git','w'))\"", "python3 -c \"print(''.join(['git']))\""),
    *("python3 -i -c \"print('git')\" <<< 'x'", "python3 -c \"__import__('os').system('git x')\""),
    *(
        "python3 -c \"print('git'\"",
        "python3 -c \"getattr(1,'git')\"",
        "python3 -c \"print('git $x')\"",
    ),
)


@pytest.mark.parametrize("role", ["coder", "reviewer", "auditor"])
def test_what_commits_by_itself_or_reaches_the_shared_directory_is_refused(role, repo):
    cwd = str(home(repo, role))
    for line in (*COMMITS, *SHARED, *UNDONE, *DISGUISED, *HIDDEN):
        assert refusal(role, Case("Bash", line), cwd), line


def test_harmless_lines_are_let_through(repo):
    cwd = str(home(repo, "coder"))
    lines = (*HARMLESS, *CONSTRUCTS)
    assert {line: refusal("coder", Case("Bash", line), cwd) for line in lines} == dict.fromkeys(
        lines
    )
