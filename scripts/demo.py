"""`make demo`: the main job in a throw-away repository, as commands a reader could type.

python scripts/demo.py path/to/tugcode
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WORKER = Path(__file__).resolve().with_name("demo_worker.py")
SAMPLE = Path(__file__).resolve().parent.parent / "examples" / "tugplan-bookshelf.md"
#: How long a worker pretends to think about each item, where somebody watches.
PACE_SECONDS = "0.4"
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


class Demo:
    """Prints each command, runs it for real, and stops at the first that fails."""

    def __init__(self, tugcode: Path, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        path = f"{tugcode.resolve().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self.environment = {**kept, **IDENTITY, "PATH": path}
        self.repository = home / "bookshelf"
        self.repository.mkdir()
        self.workers: list[subprocess.Popen] = []
        #: On a terminal the picture is shown while it changes; elsewhere, only now and then.
        self.live = sys.stdout.isatty()
        self.said = home / "said"

    def say(self, text: str) -> None:
        print(f"\n# {text}", flush=True)

    def start(self, worktree: str, *options: str) -> subprocess.Popen:
        """A worker in a process of its own; what it says waits while the picture is live."""
        line = " ".join(["python demo_worker.py bookshelf", worktree, *options])
        print(f"$ {line} &", flush=True)
        words = [sys.executable, WORKER, "bookshelf", worktree, *options]
        if self.live:
            words += ["--pace", PACE_SECONDS]
        with open(self.said, "ab") as said:
            worker = subprocess.Popen(
                words,
                cwd=self.repository,
                env=self.environment,
                stdout=said if self.live else None,
            )
        self.workers.append(worker)
        return worker

    def drained(self, workers: list[subprocess.Popen]) -> None:
        """Wait for the workers, with the live picture where there is a terminal to show it."""
        watch = ["tugcode", "state", "show", "bookshelf", "--watch"]
        print(f"$ {' '.join(watch)}", flush=True)
        picture = None
        if self.live:
            picture = subprocess.Popen(watch, cwd=self.repository, env=self.environment)
            self.workers.append(picture)
        failed = [worker for worker in workers if worker.wait(timeout=120)]
        if picture is not None:
            # It gives the terminal back as it was, however it is ended.
            picture.terminate()
            picture.wait()
            print(self.said.read_text(), end="", flush=True)
        if failed:
            sys.exit("demo: a worker failed")

    def wait_until_held(self, worktree: str) -> str:
        """The step that a worker has claimed and started, once it has."""
        while True:
            for step in self.asked("state", "show", "bookshelf")["steps"]:
                held = os.path.basename(step["claimed_by"] or "") == os.path.basename(worktree)
                if held and step["status"] == "in_progress":
                    return step["anchor"]

    def asked(self, *words: str) -> dict:
        """The data of a command, for the demo's own use."""
        line = ["tugcode", *words, "--json"]
        done = subprocess.run(
            line, cwd=self.repository, env=self.environment, capture_output=True, check=True
        )
        return json.loads(done.stdout)["data"]

    def worktree(self) -> str:
        """Make another worktree; its path as a person would type it."""
        before = {each["name"] for each in self.asked("worktree", "list")["worktrees"]}
        self.run("tugcode worktree create bookshelf --new")
        after = {each["name"] for each in self.asked("worktree", "list")["worktrees"]}
        (name,) = after - before
        return f".tugtree/{name}"

    def run(self, line: str, *, expect: int = 0) -> None:
        print(f"$ {line}", flush=True)
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.repository, env=self.environment, check=False
        )
        # Some shells become their last command, and are then killed themselves.
        status = done.returncode if done.returncode >= 0 else 128 - done.returncode
        if status != expect:
            sys.exit(f"demo: `{line}` ended with status {status}, not {expect}")


def play(demo: Demo) -> None:
    """From an empty directory to a plan that has been carried out."""
    demo.say("A repository, made ready.")
    demo.run("git init --quiet --initial-branch=main")
    demo.run("tugcode init")
    demo.say("A plan that a developer wrote and approved: eight steps.")
    demo.run(f"cp {shlex.quote(str(SAMPLE))} .tugtool/")
    demo.run("git add .tugtool && git commit --quiet --message 'plan: a bookshelf'")
    demo.run("tugcode list")
    demo.say("Is it sound? The strictest level finds nothing to complain about.")
    demo.run("tugcode validate bookshelf --level strict")
    demo.say("What can run in parallel, and what must wait?")
    demo.run("tugcode plan graph bookshelf")
    demo.say("One step as an agent will see it, substeps included.")
    demo.run("tugcode plan show bookshelf --step step-2")
    demo.say("A mistake is found before it costs a night: step 1 now waits for step 8.")
    insert = """{print} /^#### Step 1:/ {print "\\n**Depends on:** #step-8"}"""
    demo.run(f"awk '{insert}' .tugtool/tugplan-bookshelf.md > broken.md")
    demo.run("tugcode validate broken.md --level lenient", expect=1)
    demo.run("rm broken.md")
    drain(demo)


def interrupted(demo: Demo) -> str:
    """One step by hand, in a worktree of its own; the machine dies at the worst moment."""
    demo.say("Work is done in worktrees, never here. This one is for the first step.")
    here = demo.worktree()
    demo.run(f"tugcode state claim bookshelf --worktree {here}")
    demo.run(f"mkdir {here}/shelf && echo 'class Book: ...' > {here}/shelf/model.py")
    demo.run(f"tugcode state update bookshelf step-1 --all completed --worktree {here}")
    demo.say("It is committed, and killed between git's commit and the record of it.")
    commit = "tugcode commit --plan bookshelf --step step-1 --message 'feat: books and a shelf'"
    demo.run(f"TUGCODE_CRASH_AT=commit.committed {commit} --worktree {here}", expect=KILLED)
    demo.run(f"git -C {here} log -1 --format='%h %s%n%(trailers)'")
    demo.run("tugcode state why bookshelf step-1")
    demo.say("The same command again finds the commit and makes no second one.")
    demo.run(f"{commit} --worktree {here}")
    demo.run(f"git -C {here} rev-list --count main..HEAD")
    return here


def drain(demo: Demo) -> None:
    """Several processes carry the plan out at once; one of them is killed on the way."""
    demo.say("The plan is recorded; from now on every step is handed out exactly once.")
    demo.run("tugcode state init bookshelf")
    first = interrupted(demo)
    demo.say("Two more worktrees, and a worker that will hang in one of them.")
    second, third = demo.worktree(), demo.worktree()
    unlucky = demo.start(third, "--hang")
    held = demo.wait_until_held(third)
    demo.run("tugcode status")
    demo.say(f"It hangs on {held} and is killed: the step is free at once, by proof of death.")
    print(f"$ kill -9 {unlucky.pid}", flush=True)
    unlucky.kill()
    unlucky.wait()
    demo.run(f"tugcode state why bookshelf {held}")
    demo.say("Two others work, each in its worktree; what one needs of the other's, it gets.")
    demo.drained([demo.start(first), demo.start(second)])
    review(demo)


def review(demo: Demo) -> None:
    """What only a person can judge, and what came of it all."""
    demo.say("Every step was done exactly once. What an agent could not judge waits for you.")
    demo.run("tugcode state show bookshelf")
    demo.run("tugcode state review")
    demo.run('tugcode state review bookshelf --accept --step step-6 --note "looks good"')
    demo.say("The branches come together: first the preview, then the merge.")
    demo.run("tugcode merge bookshelf --dry-run")
    demo.run("tugcode merge bookshelf")
    demo.run("git log --graph --format='%h %s  %(trailers:key=Tug-Step,separator=%x2C)'")
    demo.run("tugcode worktree list")
    demo.say("Where did the time go, and who did what? The killed attempt is on record.")
    demo.run("tugcode state stats bookshelf")
    demo.run(f"tugcode state log bookshelf --step {CROSSED}")


def main(tugcode: Path) -> None:
    """Play in a temporary directory and leave nothing behind."""
    home = Path(tempfile.mkdtemp(prefix="tugtool-demo-"))
    demo = Demo(tugcode, home)
    try:
        play(demo)
    finally:
        for worker in demo.workers:
            worker.kill()
            worker.wait()
        shutil.rmtree(home)
    print("\n# That was the demo; its repository is gone again.")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except BrokenPipeError:
        os._exit(0)  # the reader has seen enough
