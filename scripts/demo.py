"""`make demo`: the main job in a throw-away repository, as commands a reader could type.

    python scripts/demo.py path/to/tugcode [KEEP]

The agents are scripted: they do what they are told here, and cost nothing. All else is real.
With KEEP, a directory, the repository is there afterwards, for a look in the browser.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLE = Path(__file__).resolve().parent.parent / "examples" / "tugplan-bookshelf.md"
#: How long an agent pretends to think on a terminal.
PACE_MILLISECONDS = 700
#: A shell's exit status for a killed command.
KILLED = 137
#: A step that needs the work of two worktrees.
CROSSED = "step-5"
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.invalid",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.invalid",
}
#: A pager would wait for a key.
UNPAGED = {"GIT_PAGER": "cat"}
#: The agents of the roles: here, one command for all.
SETTINGS = """\
[implement]
workers = 3

[agents.default]
command = ["python", "-P", "-m", "tugtool.agents.scripted", "{script}"]
timeout_seconds = 60
tries = 2
"""
#: The command in each step's checkpoint.
CHECKED = {
    "step-2": "tests/test_file.py",
    "step-3": "bench/find.py",
    "step-4": "tests/test_lend.py",
    "step-5": "shelf/__main__.py",
    "step-6": "tests/test_cli.py",
    "step-7": "tests/test_import.py",
}
#: The agents' work; `shelf/` gets a file per step. Step 2 waits until a worker is at step 3,
#: so that a later step needs the work of two worktrees.
SCRIPT = """\
[[rule]]                       # the first coder of step 3 dies half-way
role = "coder"
step = "step-3"
times = 1
do = [
  {{ write = "shelf/step-3.py", text = "half of it" }},
  {{ touch = "{met}" }},
  {{ die = "KILL" }},
]

[[rule]]                       # the first work on step 4 does not pass its checkpoint
role = "coder"
step = "step-4"
round = 1
do = [{{ take_ms = {pace} }}, {{ write = "tests/test_lend.py", text = "{failing}" }}]

[[rule]]                       # the reviewer of step 7 wants a change
role = "reviewer"
step = "step-7"
round = 1
do = [{{ take_ms = {pace} }}]
answer = {{ recommendation = "REVISE", summary = "", issues = [
  {{ severity = "major", description = "tabs are separators too" }} ] }}

[[rule]]                       # step 8 only looks
role = "coder"
step = "step-8"
do = [{{ take_ms = {pace} }}]
{coders}
[[rule]]
role = "*"
do = [{{ take_ms = {pace} }}]
usage = {{ tokens = 1200 }}
"""
CODER = """
[[rule]]
role = "coder"
step = "{step}"
do = [
{wait}  {{ take_ms = {pace} }},
  {{ write = "shelf/{step}.py", text = "round {{round}}\\n" }},
  {{ write = "{file}", text = "{passing}" }},
]
"""
FIRST_TEST = (
    r"import unittest, shelf.model\nclass Model(unittest.TestCase):\n"
    r"    def test_book(self): shelf.model.Book()\n"
)
#: From Python 3.12 on, `unittest` fails if it finds no test.
PASSING = r"import unittest\nclass Works(unittest.TestCase):\n    def test_it(self): pass\n"
FAILING = "raise SystemExit('a book can be lent twice')\\n"


class Demo:
    """Prints each command, runs it, and stops at the first that fails."""

    def __init__(self, tugcode: Path, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        path = f"{tugcode.resolve().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        # What is trusted here is nobody's business afterwards.
        own = {"PATH": path, "XDG_STATE_HOME": str(home / "state")}
        self.environment = {**kept, **IDENTITY, **UNPAGED, **own}
        self.home, self.repository = home, home / "bookshelf"
        self.repository.mkdir()
        self.pace = PACE_MILLISECONDS if sys.stdout.isatty() else 0

    def say(self, text: str) -> None:
        print(f"\n# {text}", flush=True)

    def run(self, line: str, *, expect: int = 0) -> None:
        print(f"$ {line}", flush=True)
        self.quietly(line, expect=expect)

    def quietly(self, line: str, *, expect: int = 0) -> None:
        """Run a command that a reader would not type."""
        words = ["sh", "-c", line]
        done = subprocess.run(words, cwd=self.repository, env=self.environment, check=False)
        # Some shells become their last command, and are then killed themselves.
        status = done.returncode if done.returncode >= 0 else 128 - done.returncode
        if status != expect:
            sys.exit(f"demo: `{line}` ended with status {status}, not {expect}")

    def cast(self) -> None:
        """Write the agents' settings and scripts."""
        script = self.home / "script.toml"
        met, pace = self.home / "met", self.pace
        waits = {"step-2": f'  {{ wait_for = "{met}" }},\n'}
        coders = "".join(
            CODER.format(step=step, file=file, pace=pace, wait=waits.get(step, ""), passing=PASSING)
            for step, file in CHECKED.items()
        )
        script.write_text(SCRIPT.format(met=met, pace=pace, failing=FAILING, coders=coders))
        settings = SETTINGS.format(script=script)
        (self.repository / ".tugtool" / "config.toml").write_text(settings)


def play(demo: Demo) -> None:
    """Carry a plan out, from an empty directory to its end."""
    demo.say("A repository, and a plan that a developer wrote and approved: eight steps.")
    demo.run("git init --quiet --initial-branch=main")
    demo.run("tugcode init")
    demo.run(f"cp {shlex.quote(str(SAMPLE))} .tugtool/")
    demo.say("Who carries it out? Any agent CLI; here, scripted agents that need no model.")
    demo.cast()
    demo.run("cat .tugtool/config.toml")
    demo.run("git add .tugtool && git commit --quiet --message 'plan: a bookshelf'")
    demo.say("Nothing that these files name runs before you say so.")
    demo.run("tugcode trust --yes")
    demo.say("Is it sound? What can run in parallel, and what must wait?")
    demo.run("tugcode validate bookshelf --level strict")
    demo.run("tugcode plan graph bookshelf")
    interrupted(demo)
    carried_out(demo)
    review(demo)


def interrupted(demo: Demo) -> None:
    """Do one step by hand in its own worktree; the machine dies at the worst moment."""
    demo.say(
        "The first step by hand. Work is never done in the main worktree, so `next` makes one."
    )
    demo.run("tugcode next bookshelf")
    (here,) = (f".tugtree/{each.name}" for each in (demo.repository / ".tugtree").glob("tugplan*"))
    demo.run(f"mkdir {here}/shelf {here}/tests && echo 'class Book: ...' > {here}/shelf/model.py")
    demo.say("Is it done? `done` runs the checkpoint, and does not take it for done.")
    demo.run(f"cd {here} && tugcode done --all", expect=1)
    demo.run(f"printf {shlex.quote(FIRST_TEST)} > {here}/tests/test_model.py")
    demo.say("Now it passes. The command is killed between git's commit and the record of it.")
    demo.run(f"cd {here} && TUGCODE_CRASH_AT=commit.committed tugcode done --all", expect=KILLED)
    demo.run("tugcode why bookshelf step-1")
    demo.say("The same command again finds the commit and makes no second one.")
    demo.run(f"cd {here} && tugcode done --all")
    demo.run(f"git -C {here} rev-list --count main..HEAD")


def carried_out(demo: Demo) -> None:
    """Let three workers and their agents do the rest."""
    demo.say("The rest is for agents: three workers, each in a worktree of its own. One agent")
    print("# dies, one checkpoint fails at first, one reviewer asks for a revision.")
    demo.run("tugcode implement bookshelf --workers 3")


def review(demo: Demo) -> None:
    """Review what only a person can judge, and show the result."""
    demo.say("Every step was done exactly once. What only a person can judge waits for you.")
    demo.run("tugcode status")
    demo.run("tugcode review")
    which = "--step step-6 --kind checkpoint --ordinal 1"
    demo.run(f'tugcode review bookshelf --accept {which} --note "she did"')
    demo.say("All is proven. The branches come together, and the worktrees go.")
    demo.run("tugcode merge bookshelf")
    demo.run("git log --graph --format='%h %s  %(trailers:key=Tug-Step,separator=%x2C)'")
    demo.run("tugcode worktree list")
    demo.say("Where did the time go, and who did what?")
    demo.run("tugcode stats bookshelf")
    demo.run(f"tugcode log bookshelf --step {CROSSED}")
    demo.say("What came of it, in three lines; the rest of the report has the proofs.")
    demo.run("tugcode report bookshelf | head -n 3")


def main(tugcode: Path, keep: Path | None = None) -> None:
    """Play in a temporary directory, and leave nothing behind but what is to be kept."""
    home = Path(tempfile.mkdtemp(prefix="tugtool-demo-"))
    try:
        demo = Demo(tugcode, home)
        play(demo)
        if keep is not None:
            shutil.rmtree(keep, ignore_errors=True)
            shutil.move(demo.repository, keep / demo.repository.name)
    finally:
        shutil.rmtree(home)
    if keep is None:
        print("\n# That was the demo; its repository is gone again.")
        return
    print(
        f"\n# That was the demo; its repository is kept in {keep}. To see the plan in the browser:"
    )
    if importlib.util.find_spec("uvicorn") is None:
        print(f"$ {tugcode.with_name('pip')} install --editable '.[serve]'")
    print(f"$ {tugcode} -C {keep / demo.repository.name} open")


if __name__ == "__main__":
    try:
        main(*map(Path, sys.argv[1:]))
    except BrokenPipeError:
        os._exit(0)  # the reader has seen enough
