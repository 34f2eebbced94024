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

    def start(self, name: str, *options: str) -> subprocess.Popen:
        """A worker in a process of its own; what it says waits while the picture is live."""
        line = " ".join(["python demo_worker.py bookshelf", name, *options])
        print(f"$ {line} &", flush=True)
        words = [sys.executable, WORKER, "bookshelf", name, *options]
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

    def wait_until_held(self, name: str) -> str:
        """The step that a worker has claimed and started, once it has."""
        words = ["tugcode", "state", "show", "bookshelf", "--json"]
        while True:
            done = subprocess.run(
                words, cwd=self.repository, env=self.environment, capture_output=True, check=True
            )
            for step in json.loads(done.stdout)["data"]["steps"]:
                owner = os.path.basename(step["claimed_by"] or "")
                if owner == name and step["status"] == "in_progress":
                    return step["anchor"]

    def run(self, line: str, *, expect: int = 0) -> None:
        print(f"$ {line}", flush=True)
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.repository, env=self.environment, check=False
        )
        if done.returncode != expect:
            sys.exit(f"demo: `{line}` ended with status {done.returncode}, not {expect}")


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


def drain(demo: Demo) -> None:
    """Several processes carry the plan out at once; one of them is killed on the way."""
    demo.say("The plan is recorded, and three workers start at once. One of them will hang.")
    demo.run("tugcode state init bookshelf")
    unlucky = demo.start("worker-3", "--hang")
    held = demo.wait_until_held("worker-3")
    demo.run("tugcode status")
    demo.say(
        f"worker-3 hangs on {held} and is killed: the step is free at once, by proof of death."
    )
    print(f"$ kill -9 {unlucky.pid}", flush=True)
    unlucky.kill()
    unlucky.wait()
    demo.run(f"tugcode state why bookshelf {held}")
    demo.say("Two others do the work. On a terminal you see it happen.")
    demo.drained([demo.start("worker-1"), demo.start("worker-2")])
    review(demo)


def review(demo: Demo) -> None:
    """What only a person can judge, and what came of it all."""
    demo.say("Every step was done exactly once. What an agent could not judge waits for you.")
    demo.run("tugcode state show bookshelf")
    demo.run("tugcode state review")
    demo.run('tugcode state review bookshelf --accept --step step-6 --note "looks good"')
    demo.say("Where did the time go, and who did what? The killed attempt is on record.")
    demo.run("tugcode state stats bookshelf")
    demo.run("tugcode state log bookshelf --step step-1")
    demo.run("tugcode state claim bookshelf")


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
