"""`make demo`: the main job in a throw-away repository, as commands a reader could type.

    python scripts/demo.py path/to/tugcode

The agents are scripted: they do what they are told here, and cost nothing. All else is real.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLE = Path(__file__).resolve().parent.parent / "examples" / "tugplan-bookshelf.md"
#: How long an agent pretends to think, where somebody watches.
PACE_MILLISECONDS = 700
#: What a shell says of a command that was killed.
KILLED = 137
#: A step that needs what two worktrees did.
CROSSED = "step-5"
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.invalid",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.invalid",
}
#: A pager would wait for a key that nobody presses.
UNPAGED = {"GIT_PAGER": "cat"}
#: Who plays which role: here, one command for all of them.
SETTINGS = """\
[implement]
workers = 3

[agents.default]
command = ["python", "-P", "-m", "tugtool.agents.scripted", "{script}"]
timeout_seconds = 60
tries = 2
"""
#: What the agents do; `shelf/` gets a file per step. Step 2 is not done before somebody is at
#: step 3, so that two worktrees have work that a later step needs.
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

[[rule]]
role = "coder"
step = "step-2"
do = [
  {{ wait_for = "{met}" }},
  {{ take_ms = {pace} }},
  {{ write = "shelf/{{step}}.py", text = "round {{round}}\\n" }},
]

[[rule]]                       # the reviewer of step 4 wants a change
role = "reviewer"
step = "step-4"
round = 1
do = [{{ take_ms = {pace} }}]
answer = {{ recommendation = "REVISE", summary = "", issues = [
  {{ severity = "major", description = "a book can be lent twice" }} ] }}

[[rule]]                       # the reviewer of step 6 leaves a checkpoint to a person
role = "reviewer"
step = "step-6"
do = [{{ take_ms = {pace} }}]

[[rule.verdicts]]
kind = "checkpoint"
ordinal = 1
verdict = "UNVERIFIED"
reason = "needs a neighbour"

[[rule]]                       # step 8 only looks
role = "coder"
step = "step-8"
do = [{{ take_ms = {pace} }}]

[[rule]]
role = "coder"
do = [{{ take_ms = {pace} }}, {{ write = "shelf/{{step}}.py", text = "round {{round}}\\n" }}]

[[rule]]
role = "*"
do = [{{ take_ms = {pace} }}]
usage = {{ tokens = 1200 }}
"""


class Demo:
    """Prints each command, runs it for real, and stops at the first that fails."""

    def __init__(self, tugcode: Path, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        path = f"{tugcode.resolve().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self.environment = {**kept, **IDENTITY, **UNPAGED, "PATH": path}
        self.home, self.repository = home, home / "bookshelf"
        self.repository.mkdir()
        self.pace = PACE_MILLISECONDS if sys.stdout.isatty() else 0

    def say(self, text: str) -> None:
        print(f"\n# {text}", flush=True)

    def run(self, line: str, *, expect: int = 0) -> None:
        print(f"$ {line}", flush=True)
        self.quietly(line, expect=expect)

    def quietly(self, line: str, *, expect: int = 0) -> None:
        """What nobody would type."""
        words = ["sh", "-c", line]
        done = subprocess.run(words, cwd=self.repository, env=self.environment, check=False)
        # Some shells become their last command, and are then killed themselves.
        status = done.returncode if done.returncode >= 0 else 128 - done.returncode
        if status != expect:
            sys.exit(f"demo: `{line}` ended with status {status}, not {expect}")

    def cast(self) -> None:
        """Write down who plays which role, and what the scripted agents do."""
        script = self.home / "script.toml"
        script.write_text(SCRIPT.format(met=self.home / "met", pace=self.pace))
        settings = SETTINGS.format(script=script)
        (self.repository / ".tugtool" / "config.toml").write_text(settings)


def play(demo: Demo) -> None:
    """From an empty directory to a plan that has been carried out."""
    demo.say("A repository, and a plan that a developer wrote and approved: eight steps.")
    demo.run("git init --quiet --initial-branch=main")
    demo.run("tugcode init")
    demo.run(f"cp {shlex.quote(str(SAMPLE))} .tugtool/")
    demo.say("Who carries it out? Any agent CLI; here, scripted agents that need no model.")
    demo.cast()
    demo.run("cat .tugtool/config.toml")
    demo.run("git add .tugtool && git commit --quiet --message 'plan: a bookshelf'")
    demo.say("Is it sound? What can run in parallel, and what must wait?")
    demo.run("tugcode validate bookshelf --level strict")
    demo.run("tugcode plan graph bookshelf")
    interrupted(demo)
    carried_out(demo)
    review(demo)


def interrupted(demo: Demo) -> None:
    """One step by hand, in a worktree of its own; the machine dies at the worst moment."""
    demo.say("The first step by hand, in a worktree: work is never done in the main one.")
    demo.run("tugcode worktree create bookshelf --claim")
    (here,) = (f".tugtree/{each.name}" for each in (demo.repository / ".tugtree").glob("tugplan*"))
    demo.run(f"mkdir {here}/shelf && echo 'class Book: ...' > {here}/shelf/model.py")
    demo.run(f"tugcode state update bookshelf step-1 --all completed --worktree {here}")
    demo.say("It is committed, and killed between git's commit and the record of it.")
    commit = "tugcode commit --plan bookshelf --step step-1 --message 'feat: books and a shelf'"
    demo.run(f"TUGCODE_CRASH_AT=commit.committed {commit} --worktree {here}", expect=KILLED)
    demo.run("tugcode state why bookshelf step-1")
    demo.say("The same command again finds the commit and makes no second one.")
    demo.run(f"{commit} --worktree {here}")
    demo.run(f"git -C {here} rev-list --count main..HEAD")


def carried_out(demo: Demo) -> None:
    """Three workers and their agents do the rest."""
    demo.say("The rest is for agents: three workers, each in a worktree of its own. One agent")
    print("# dies, one reviewer asks for a revision, one checkpoint is left to a person.")
    demo.run("tugcode implement bookshelf --workers 3")


def review(demo: Demo) -> None:
    """What only a person can judge, and what came of it all."""
    demo.say("Every step was done exactly once. What no agent could judge waits for you.")
    demo.run("tugcode status")
    demo.run("tugcode state review")
    demo.run('tugcode state review bookshelf --accept --step step-6 --note "she did"')
    demo.say("The branches come together, and the worktrees go.")
    demo.run("tugcode merge bookshelf")
    demo.run("git log --graph --format='%h %s  %(trailers:key=Tug-Step,separator=%x2C)'")
    demo.run("tugcode worktree list")
    demo.say("Where did the time go, and who did what?")
    demo.run("tugcode state stats bookshelf")
    demo.run(f"tugcode state log bookshelf --step {CROSSED}")


def main(tugcode: Path) -> None:
    """Play in a temporary directory and leave nothing behind."""
    home = Path(tempfile.mkdtemp(prefix="tugtool-demo-"))
    try:
        play(Demo(tugcode, home))
    finally:
        shutil.rmtree(home)
    print("\n# That was the demo; its repository is gone again.")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except BrokenPipeError:
        os._exit(0)  # the reader has seen enough
