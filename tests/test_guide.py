"""The guide is a session that happens: every command in it runs, and prints what it says.

Whatever differs from run to run (times, hashes, process ids) is compared by its form. To
write the outputs anew after a change, set TUG_GUIDE=write; then read the difference.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "guide.md"
BLOCK = re.compile(r"(?m)^```console\n(.*?)^```$", re.DOTALL)
#: What no two runs have in common, and what stands for it.
FORMS = [
    (re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:?\d{2}:?\d{2}(\.\d{3})?Z"), "TIME"),
    (re.compile(r"parallelism \d\.\d"), "parallelism N"),
    (re.compile(r"\b[0-9a-f]{40,64}\b"), "HASH"),
    (re.compile(r"\b[0-9a-f]{12}\.\.\."), "HASH..."),
    (re.compile(r"\b(\d+[dhms])( \d+[hms])?\b"), "SPAN"),
    (re.compile(r" +"), " "),
    (re.compile(r"[█▒░]+"), "BAR"),
]


def formed(text: str) -> str:
    """The text with what differs from run to run made alike."""
    for pattern, form in FORMS:
        text = pattern.sub(form, text)
    return text


def steps(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a block, with the lines it goes on for, and what it prints."""
    command, printed, ending = "", "", ""
    for line in block.splitlines(keepends=True):
        if ending:
            command += line
            ending = "" if line.rstrip("\n") == ending else ending
        elif line.startswith("$ "):
            if command:
                yield command, printed
            command, printed = line[2:], ""
            heredoc = re.search(r"<<'(\w+)'", line)
            ending = heredoc[1] if heredoc else ""
        else:
            printed += line
    yield command, printed


class Shell:
    """One repository, one environment, a command at a time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "greeter").mkdir()
        binaries = Path(sys.executable).parent
        self.environment = {
            "PATH": f"{binaries}:/usr/bin:/bin",
            "HOME": str(home),
            "COLUMNS": "80",
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "ada@example.invalid" for who in ("AUTHOR", "COMMITTER")},
        }

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", f"exec 2>&1; {command}"],
            cwd=self.home / "greeter",
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.replace(str(self.home), "/home/ada")


def played(text: str, shell: Shell) -> tuple[str, list[str]]:
    """The guide with the outputs of this run, and where they differ from what it says."""
    complaints = []

    def play(found: re.Match) -> str:
        lines = []
        for command, expected in steps(found[1]):
            printed = shell.run(command)
            if formed(printed) != formed(expected):
                complaints.append(f"$ {command}says\n{expected}\nbut printed\n{printed}")
            lines.append(f"$ {command}{printed}")
        return f"```console\n{''.join(lines)}```"

    return BLOCK.sub(play, text), complaints


def test_the_guide_is_what_happens(tmp_path):
    text = GUIDE.read_text()
    written, complaints = played(text, Shell(tmp_path))
    if os.environ.get("TUG_GUIDE") == "write":
        GUIDE.write_text(written)
    assert complaints == []
    assert len(BLOCK.findall(text)) > 5


def test_a_guide_that_says_something_else_is_caught(tmp_path):
    text = "```console\n$ echo one\none\n$ wc -l <<'END'\n$ c\nb\nEND\n2\n$ echo 3\nthree\n```\n"
    _, complaints = played(text, Shell(tmp_path))
    assert len(complaints) == 1
    assert "but printed\n3\n" in complaints[0]
