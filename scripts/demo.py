"""`make demo`: the main job in a throw-away repository, as commands a reader could type.

python scripts/demo.py path/to/tugcode
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLE = Path(__file__).resolve().parent.parent / "examples" / "tugplan-bookshelf.md"
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

    def say(self, text: str) -> None:
        print(f"\n# {text}", flush=True)

    def run(self, line: str, *, expect: int = 0) -> None:
        print(f"$ {line}", flush=True)
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.repository, env=self.environment, check=False
        )
        if done.returncode != expect:
            sys.exit(f"demo: `{line}` ended with status {done.returncode}, not {expect}")


def play(demo: Demo) -> None:
    """The story so far: from an empty directory to a plan that can be carried out."""
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
    demo.say("The same graph for a Markdown page.")
    demo.run("tugcode plan graph bookshelf --format mermaid")


def main(tugcode: Path) -> None:
    """Play in a temporary directory and leave nothing behind."""
    home = Path(tempfile.mkdtemp(prefix="tugtool-demo-"))
    try:
        play(Demo(tugcode, home))
    finally:
        shutil.rmtree(home)
    print("\n# That was the demo; its repository is gone again.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
