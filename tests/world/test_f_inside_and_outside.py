"""F: a role edits only inside a worktree of `.tugtree/`; the hook refuses everything outside."""

import os
import random
import subprocess

import pytest

from support.guard_cases import Case, ask, refusal
from support.proving import sampled
from tugtool.agents.guard import rules

#: Commands that change files where they run.
CHANGES = (
    *("echo x > README", "rm -rf src", "mv src y", "cp src/a.py b", "tee b", "touch b", "mkdir b"),
    *("sed -i s/a/b/ src/a.py", "ln -s a b", "chmod +x src/a.py", "chmod -x src/a.py", "ln -f a b"),
    *("git restore .", "git rm -r src", "git add -A", "git add src/a.py", "git mv src y"),
    *("git apply x.patch", "patch -p1 < x.patch", "ls | xargs rm", "find . -name x -delete"),
    *("perl -pi -e s/a/b/ src/a.py", "sort -o b a", "curl -o b https://x", "tar xf x.tar"),
    *("unzip x.zip", "truncate -s 0 a", "dd if=a of=b", "rsync -a a b", "install a b"),
    *("rm -rf $x", "rm -rf *", "echo x > $LOG", "make &> build.log", "rmdir src", "wget https://x"),
)
#: How they come to run there; `{tree}` is the agent's worktree, `{main}` the main checkout.
FROM_INSIDE = (
    *("cd {main} && {}", "cd ../.. && {}", "cd ../.. ; {}", "cd; cd {main}; {}", "cd link && {}"),
    *("cd {main}; cd src; cd -; cd ..; cd {main}; {}", "pushd {main} > /dev/null; {}"),
    *("cd {main} && cd {tree} && cd - && {}", "pushd {main}; pushd {tree}; popd; {}"),
    *("M={main}; cd $M && {}", "if true; then cd {main}; fi; {}", "bash -c 'cd {main} && {}'"),
    *("eval cd {main}; {}", "builtin cd {main}; {}", "(cd {main}; {})", "echo $(cd {main}; {})"),
    *("for i in 1 2; do {}; cd ..; done", "while make; do {}; cd {main}; done"),
    *("{{ cd {main}; {}; }}", "cd {main} || exit 1; {}", "test -d x || cd {main}; {}"),
    *("for d in {main}; do cd $d; {}; done", "cd {main}\n{}", "cd {other} && {}", "cd && {}"),
)
FROM_MAIN = (
    *("{}", "cd src && {}", "cd .tugtree && {}", "(cd {tree} && make); {}", "cd {tree} | {}"),
    *("cd {tree} && make & {}", "x=$(cd {tree} && pwd); {}", "cd {main}/.tugtree/gone; {}"),
    *("[ -d x ] && cd {tree}; {}", "if false; then cd {tree}; fi; {}", "cd .tugtree/gone; {}"),
    *("cat <(cd {tree}); {}", "echo `cd {tree}`; {}", "make && cd {tree}; {}", "cd $x && {}"),
    *("env -C {tree} true; {}", "bash -c 'cd {tree}'; {}", "cd {tree} && cd .. && {}"),
)
#: Changes that name a path outside, wherever they run.
PATHS = (
    *("echo x > {main}/README", "rm -rf {main}/src", "echo x > ../../README", "rm ../../src/a.py"),
    *("cp a {main}/src/", "mv a {main}", "mv {main}/src .", "tee -a {main}/x", "touch ~/.bashrc"),
    *("echo x >> ~/.bashrc", 'echo x > "$HOME/.profile"', "echo x > ${{HOME}}/x", "echo > /etc/x"),
    *("echo x > link/a.py", "rm -rf link/src", "sed -i s/a/b/ link/../README", "rm {other}/a"),
    *("git -C {main} restore .", "git -C ../.. rm -r src", "git -C {main} add -A"),
    *("git --work-tree={main} restore .", "git --git-dir={main}/.git add a", "git -C link add ."),
    *("git --git-dir {main}/.git --work-tree {main} restore .", "env -C {main} rm -rf src"),
    *("timeout 5 env --chdir={main} rm -rf src", "find {main} -name '*.py' -delete"),
    *("find . -name x -exec cp {{}} {main} \\;", "CDPATH={main} cd src; rm a.py"),
    *("find {main} -name x -exec rm {{}} +", "find {main}/src | xargs rm", "mkdir {main}/x"),
    *("curl -o {main}/x https://x", "tar xf x.tar -C {main}", "ln {main}/a b", "ln -s x {main}/b"),
    *("M={main}; rm -rf $M/src", "for f in a {main}/b; do rm $f; done", "echo > {main}/.tugtree/x"),
    *("rm -rf {main}/.tugtree/*/src", "dd of={main}/x", "xargs rm <<< {main}/src"),
    *(
        "ln -s {main}/src s && rm -rf s/a.py",
        "patch -d {main} < x",
        "trap 'rm -rf {main}/src' EXIT",
    ),
)
#: What stays free in a worktree.
FREE = (
    *("cd src && rm a.py", "cd {tree} && git restore .", "cd {tree}/src; rm a.py", "rm -rf ./src"),
    *("cd {main} && ls; cd {main} && git log > /tmp/guard-test", "cat {main}/README > README"),
    *("cp {main}/README .", "diff -r {main} . > out", "(cd {main} && make); rm -rf src"),
    *("x=$(cd {main} && pwd); echo $x > x", "cd {main} | rm -rf src", "cd .. && cd {tree} && rm a"),
    *("T=$(mktemp -d); cd $T; echo x > b; rm -rf $T", "cd {tree} && make; rm -rf src; make > log"),
    *("export A=b && cd {tree} && make; echo $? > x", "mkdir -p b && cd b && cmake ..; rm x"),
    *("sed -i '' '/x/d' src/a.py", "sed -i -e '/x/d' a", "gawk -i inplace '/x/' src/a.py"),
    *("grep -rl '/api/v1' src | xargs sed -i 's#/api/v1#/api/v2#'", "rm link", "cp a $HOME_OF/x"),
    *("cd {main} && git -C {tree} add -A", "env -C {tree} rm -rf src", "touch -d '1 day ago' a"),
    *("pushd src && touch x; popd; rm -rf src", "if [ -d src ]; then cd src; fi; rm a.py"),
    *(
        "for d in a b; do cd $d && make > log && cd ..; done; rm x",
        "for d in *; do cd $d; rm x; done",
    ),
    *(
        "while read d; do (cd $d && rm x); done < list",
        "for d in src src; do cd src; rm a; cd ..; done",
    ),
    *("git add -A", "git -C {tree} restore src", "git mv a b", "git rm -r src", "chmod -x a"),
)
#: The same when the client's own directory is the main checkout, as it is with the plugin.
FREE_FROM_MAIN = (
    *("cd {tree} && rm -rf src", "cd {tree} && echo x > README", "git -C {tree} restore ."),
    *("cd {tree} && make; rm -rf src", "cd {tree}\nrm -rf src", "cd {tree}/src && git add a.py"),
    *("echo x > {tree}/README", "rm -rf {tree}/src", "W={tree}; cd $W && git add -A", "make"),
    *("cd {tree} || exit 1; rm -rf src", "cd {tree}; git add -A", "pushd {tree}; rm -rf src"),
    *("bash -c 'cd {tree} && rm -rf src'", "cd .tugtree/work && rm a", "cd .tugtree/work; rm a"),
    *("env -C {tree} rm -rf src", "mkdir -p /tmp/guard-test/x; echo > /tmp/guard-test/x/y"),
    *("cat README; git log; git -C {main} status; make test", "export A=b; cd {tree} && rm a"),
)


class Place:
    """A repository with two worktrees, and a link in one that leads out of it."""

    def __init__(self, repo) -> None:
        repo.commit({"src/a.py": "x = 1\n", "README": "x\n"})
        self.main = repo.path
        self.tree = repo.linked(repo.path / ".tugtree" / "work", "work")
        self.other = repo.linked(repo.path / ".tugtree" / "other", "other")
        (self.tree / "link").symlink_to(self.main)

    def said(self, line: str, cwd, role: str = "coder") -> str | None:
        return refusal(role, Case("Bash", self.line(line)), str(cwd))

    def line(self, form: str, command: str = "") -> str:
        return form.format(command, main=self.main, tree=self.tree, other=self.other)


@pytest.fixture
def place(repo) -> Place:
    return Place(repo)


def test_a_coder_changes_nothing_outside_by_where_a_command_runs(place):
    for forms, cwd in ((FROM_INSIDE, place.tree), (FROM_MAIN, place.main)):
        for form in forms:
            for change in CHANGES if form in ("{}", "cd {main} && {}") else CHANGES[:3]:
                line = place.line(form, change)
                assert place.said(line.replace("{", "{{").replace("}", "}}"), cwd), line


@pytest.mark.parametrize("line", sampled(PATHS, 15))
def test_a_coder_changes_nothing_outside_by_its_path(place, line):
    assert place.said(line, place.tree)
    assert place.said(f"cd {{tree}} && {line}", place.main)


def test_what_a_coder_does_inside_and_what_only_looks_stays_free(place):
    for lines, cwd in ((FREE, place.tree), (FREE_FROM_MAIN, place.main)):
        assert {line: place.said(line, cwd) for line in lines} == dict.fromkeys(lines)
    for change in CHANGES:
        line = f"cd {place.tree} && {change}"
        assert refusal("coder", Case("Bash", line), str(place.main)) is None, line


def test_no_tool_edits_outside(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place.main.parent / "home"))
    outside = ("README", "src/new.py", "../x", "~/.bashrc", "/etc/hosts", ".tugtree/x", "link/x")
    for tool in rules.EDITING - {"apply_patch"}:
        for path in outside:
            assert refusal("coder", Case(tool, path), str(place.main)), (tool, path)
        for path in (place.tree / "link" / "README", place.main / "README", "../other/a"):
            assert refusal("coder", Case(tool, str(path)), str(place.tree)), (tool, path)
        for path in (place.tree / "src" / "a.py", place.tree / "new" / "x", "/tmp/guard-test/x"):
            assert refusal("coder", Case(tool, str(path)), str(place.main)) is None, (tool, path)
        assert refusal("coder", Case(tool, "src/a.py"), str(place.tree)) is None
    patch = "*** Begin Patch\n*** Update File: {}\n@@\n"
    for path, may in (("src/a.py", True), (f"{place.main}/README", False), ("../../x", False)):
        said = refusal("coder", Case("apply_patch", patch.format(path)), str(place.tree))
        assert (said is None) == may, path


def test_the_reason_names_the_worktree_and_what_to_do(place):
    done = ask(Case("Bash", "git restore ."), place.main, agent="tugplug:coder-agent")
    assert done.returncode == 2
    said = done.stderr.decode()
    assert "it lies outside of the worktree" in said
    assert f"`cd {place.main}/.tugtree/NAME && ...`" in said
    assert "other, work" in said
    own = ask(Case("Write", f"{place.main}/README"), place.tree, agent="coder-agent")
    assert own.returncode == 2
    assert f"a path below {place.tree}" in own.stderr.decode()
    for path in (place.tree, place.other):
        place.main.joinpath(path, ".git").unlink()
    none = ask(Case("Write", "README"), place.main, agent="coder-agent")
    assert b"there is no worktree" in none.stderr


def test_the_worktree_that_was_given_counts_wherever_the_client_stands(place):
    env = {"agent": "coder-agent", "TUGCODE_WORKTREE": str(place.tree)}
    for cwd in (place.main, place.tree, place.other, place.main.parent):
        assert ask(Case("Write", f"{place.tree}/x"), cwd, **env).returncode == 0, cwd
        assert ask(Case("Write", f"{place.other}/x"), cwd, **env).returncode == 2, cwd
    # The main checkout is never a worktree to work in, also if a variable says so.
    env["TUGCODE_WORKTREE"] = str(place.main)
    assert ask(Case("Write", f"{place.main}/x"), place.main, **env).returncode == 2


def test_a_worktree_through_a_link_is_the_worktree(place, tmp_path):
    there = tmp_path / "there"
    there.symlink_to(place.main)
    for cwd in (there, there / ".tugtree" / "work", place.main):
        for tree in (there / ".tugtree" / "work", place.tree):
            assert refusal("coder", Case("Write", f"{tree}/x"), str(cwd)) is None, (cwd, tree)
        assert refusal("coder", Case("Write", f"{there}/x"), str(cwd)), cwd


@pytest.mark.parametrize("role", ["reviewer", "auditor"])
def test_roles_that_build_make_directories_only_inside(place, role):
    assert place.said("mkdir -p build && cd build && cmake ..", place.tree, role) is None
    assert place.said("cd {tree} && mkdir -p build", place.main, role) is None
    for line in ("mkdir build", "cd src && mkdir x", "mkdir -p ~/x"):
        assert "outside" in place.said(line, place.main, role)


def test_the_author_writes_plans_of_this_repository_only(place, tmp_path):
    plan = ".tugtool/tugplan-new.md"
    assert refusal("author", Case("Write", plan), str(place.main)) is None
    elsewhere = f"{os.path.expanduser('~')}/elsewhere/{plan}"
    assert refusal("author", Case("Write", elsewhere), str(place.main))


def test_who_has_no_role_is_not_concerned(place):
    for line in (*PATHS, "rm -rf src", "git restore .", "cd {main} && git add -A"):
        if ".tugtree/*" not in line and "git-dir" not in line:
            assert refusal(None, Case("Bash", place.line(line)), str(place.tree)) is None, line
    assert ask(Case("Write", f"{place.main}/README"), place.tree).returncode == 0


#: What lines are made of that go here and there; `touch` leaves a trace where they are.
PIECES = (
    *("cd {main}", "cd {tree}", "cd ..", "cd ../..", "cd src", "cd -", "cd gone", "cd", "cd link"),
    *("pushd {main} > /dev/null", "pushd {tree}", "popd", "builtin cd {main}", "eval cd {main}"),
    *(
        "touch x",
        "touch x",
        "touch x",
        "touch src/x",
        "> x",
        "(touch x)",
        "$(touch x)",
        "`touch x`",
    ),
    *('touch "$W/x"', "W={main}", "W={tree}", "touch ../x", "eval 'cd {tree}; touch x'", "exit"),
    *("bash -c 'cd {main}; touch x'", "env -C {main} touch x", "env -C {tree} touch x", "true"),
    *("; ", "; ", " && ", " && ", " || ", " | ", " & ", "\n", "\n", "( ", " )", "{{ ", "; }}"),
    *("if true; then ", "if false; then ", "; fi", "; else ", "for i in 1 2; do ", "; done"),
    *(
        "case a in a) ",
        "case a in b) ",
        ";; esac",
        "f() {{ ",
        "; }}; f ",
        "f",
        "x=(x); ",
        "touch $1",
    ),
    *("while false; do ", "false", "true && ", "! ", "echo $(", "<(", "cat <<EOF\n", "\nEOF\n"),
)


@pytest.mark.parametrize("many", sampled([800, 4000], 1))
def test_every_change_of_bash_outside_was_seen(place, monkeypatch, many):
    home = place.main.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    beside = (place.main, place.main / "src", place.main / ".tugtree", place.main.parent, home)
    draw = random.Random(3)
    let = 0
    for _ in range(many):
        pieces = (draw.choice(PIECES) for _ in range(draw.randint(2, 9)))
        text, cwd = place.line("".join(pieces)), draw.choice((place.main, place.tree))
        if "x" not in text or refusal("coder", Case("Bash", text), str(cwd)):
            continue
        let += 1
        subprocess.run(
            ["bash", "-c", text],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert [path for path in beside if (path / "x").exists()] == [], text
    assert let > many // 40
