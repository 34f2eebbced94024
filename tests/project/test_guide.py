"""The README and the pages of start and use are sessions that happen: every example is run.

    TUG_GUIDE=write .venv/bin/python -m pytest tests/project/test_guide.py

writes what the commands print now into the pages; then read the difference. Values that differ from
run to run (times, hashes) are compared by their form; only outputs that differ are written.

| in a page | what the test does |
|---|---|
| a block `console` | runs each command after `$ ` and compares what it prints |
| a block `sh` | runs it as one script, which must succeed |
| a block `toml` | reads it as settings |
| a block `markdown` | reads it as a plan |
| a block `text` | a picture: nothing |
| `<!-- setup` ... `-->` | runs it first, unseen; it must succeed |
| `<!-- keep: PATTERN -->` | of the next output only matching lines count, in any order |
| `<!-- not run: REASON -->` | the next block `sh` is only parsed; one of `sql` needs this |
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.proving import sampled
from tugtool.plan import parser, rules

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: What the pages' set-ups use: the plan of the tutorial, and a stand-in for the agent CLI.
PROPS = Path(__file__).with_name("pages")
#: Its commands are those of `make demo`.
DEMO = DOCS / "start" / "demo.md"
GUIDE = sorted({*DOCS.glob("start/*.md"), *DOCS.glob("use/*.md")} - {DEMO})
PAGES = [ROOT / "README.md", *GUIDE]
#: These begin with a repository that nobody trusts yet.
ASKING = (ROOT / "README.md", DOCS / "start" / "tutorial.md", DOCS / "use" / "trust.md")
PART = re.compile(
    r"(?ms)^<!-- setup\n(?P<setup>.*?)^-->$"
    r"|^<!-- keep: (?P<keep>.*?) -->$"
    r"|^<!-- not run: (?P<reason>.*?) -->$"
    r"|^```(?P<language>\w*)\n(?P<block>.*?)^```$"
)
#: What no two runs have in common, and what stands for it.
FORMS = [
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:?\d{2}:?\d{2}(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b\d{8}T\d{6,9}Z|\b\d{2}:\d{2}(:\d{2})?\b"), "TIME"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}\b|-20\d{6}\b"), "DATE"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "VERSION"),
    (re.compile(r"\b\d+ (rows|checks)\b"), r"N \1"),
    (re.compile(r"parallelism \d\.\d"), "parallelism N"),
    (re.compile(r"\b[0-9a-f]{7,64}\b"), "HASH"),
    (re.compile(r"\b\d+(\.\d+)? ?(d|h|min|m|ms|s)( \d+ ?(h|min|m|s))?\b"), "SPAN"),
    (re.compile(r"\b\d+\.\d\b"), "N"),
    (re.compile(r"\bworker \d+"), "worker N"),
    (re.compile(r"(DATE)-\d\b"), r"\1"),
    (re.compile(r"(?m)^[|*/\\_ ]+ (?=HASH)"), ""),
    (re.compile(r"[█▒░━─]+"), "BAR"),
    (re.compile(r"[ \t]+(?=\n)"), ""),
    (re.compile(r" +"), " "),
]


def formed(text: str) -> str:
    """The text with what differs from run to run made alike."""
    for pattern, form in FORMS:
        text = pattern.sub(form, text)
    return text


def commands(block: str) -> Iterator[tuple[str, str]]:
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


def kept(printed: str, pattern: str) -> str:
    """The lines that match, with dots where others stood."""
    lines, gap = [], False
    for line in printed.splitlines(keepends=True):
        if re.search(pattern, line):
            lines += ["...\n"] * gap + [line]
        gap = not re.search(pattern, line)
    return "".join(lines + ["...\n"] * gap)


class Shell:
    """One home, one environment, a command at a time; a `cd` holds for the next one."""

    def __init__(self, home: Path, *, trusted: bool = True) -> None:
        self.home, self.place = home, home / "greeter"
        self.place.mkdir()
        shutil.copytree(PROPS, home / ".pages")
        self.environment = {
            "PATH": f"{home}/.pages:{Path(sys.executable).parent}:/usr/bin:/bin",
            "PAGES": str(home / ".pages"),
            "HOME": str(home),
            "COLUMNS": "80",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "ada@example.invalid" for who in ("AUTHOR", "COMMITTER")},
            **({"TUGCODE_TRUST": "1"} if trusted else {}),
        }

    def script(self, text: str) -> None:
        """Run what must succeed; a `cd` in it stays in it."""
        place = self.place
        self.run(f"set -e\n{text}", succeed=True)
        self.place = place

    def run(self, command: str, *, succeed: bool = False) -> str:
        note = self.home / ".place"
        done = subprocess.run(
            ["sh", "-c", f"exec 2>&1; {command}\nstatus=$?; pwd > {note}; exit $status"],
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not succeed or done.returncode == 0, f"{command}\n{done.stdout}"
        self.place = Path(note.read_text().strip()) if note.exists() else self.place
        return done.stdout.replace(str(self.home), "/home/ada")


class Recording:
    """What each command of `make demo` printed, in the order in which they were run."""

    def __init__(self, session: str) -> None:
        parts = re.split(r"(?m)^\$ (.*\n)", re.sub(r"(?m)^\n?# .*\n", "", session))
        self.session = iter(list(zip(parts[1::2], parts[2::2], strict=True)))

    def run(self, command: str) -> str:
        wanted = formed(command)
        for played, printed in self.session:
            if formed(played) == wanted:
                return re.sub(r"/tmp/tugtool-demo-\w+", "/home/ada", printed)
        raise AssertionError(f"the demo does not run {command}")


def alike(printed: str, expected: str, pattern: str) -> bool:
    """Whether two outputs are the same but for their values; chosen lines, in any order."""
    one, other = (formed(text).splitlines() for text in (printed, expected))
    if not pattern:
        return one == other
    return sorted({*one, "..."}) == sorted({*other, "..."})


class Player:
    """Runs the parts of one page in order and notes where it is not what happens."""

    def __init__(self, shell: Shell | Recording) -> None:
        self.shell, self.complaints, self.examples = shell, [], 0
        self.pattern, self.reason = "", ""

    def play(self, found: re.Match) -> str:
        """The part as it should be."""
        if found["keep"] or found["reason"]:
            self.pattern, self.reason = found["keep"] or "", found["reason"] or ""
            return found[0]
        if found["setup"]:
            self.shell.script(found["setup"])
            return found[0]
        written = getattr(self, f"_{found['language'] or 'nothing'}")(found["block"])
        self.examples += found["language"] != "text"
        self.pattern, self.reason = "", ""
        return f"```{found['language']}\n{written}```"

    def _console(self, block: str) -> str:
        lines = []
        for command, expected in commands(block):
            printed = self.shell.run(command)
            # A bug of ours is not an output to write down.
            assert "E099" not in printed, printed
            if self.pattern:
                printed = kept(printed, self.pattern)
            if not alike(printed, expected, self.pattern):
                self.complaints.append(f"$ {command}says\n{expected}\nbut printed\n{printed}")
                expected = printed
            lines.append(f"$ {command}{expected}")
        return "".join(lines)

    def _sh(self, block: str) -> str:
        if self.reason:
            subprocess.run(["sh", "-n", "-c", block], check=True)
        else:
            self.shell.script(block)
        return block

    def _toml(self, block: str) -> str:
        self.shell.run("mkdir -p $PAGES/settings/.tugtool && git init --quiet $PAGES/settings")
        settings = self.shell.home / ".pages" / "settings" / ".tugtool" / "config.toml"
        settings.write_text(block)
        self.shell.run("tugcode -C $PAGES/settings config", succeed=True)
        return block

    def _markdown(self, block: str) -> str:
        found = rules.check(parser.parse(block), "lenient")
        self.complaints += [f"{each.code} {each.message} in\n{block}" for each in found]
        return block

    def _sql(self, block: str) -> str:
        assert self.reason, f"nothing runs\n{block}"
        return block

    def _text(self, block: str) -> str:
        return block


def played(text: str, shell: Shell | Recording) -> tuple[str, list[str], int]:
    """A page with the outputs of this run, where they differ, and how many examples it has."""
    player = Player(shell)
    written = PART.sub(player.play, text)
    return written, player.complaints, player.examples


@pytest.mark.parametrize("page", sampled(PAGES, 4), ids=lambda page: page.stem)
def test_a_page_is_what_happens(page, tmp_path):
    assert complaints(page, Shell(tmp_path, trusted=page not in ASKING)) == []


def complaints(page: Path, shell: Shell | Recording) -> list[str]:
    """Where a page is not what happens; or nothing, once it is written anew."""
    written, found, _ = played(page.read_text(), shell)
    if os.environ.get("TUG_GUIDE") == "write":
        page.write_text(written)
        return []
    return found


@pytest.mark.proof(share=0)
def test_the_loop_of_the_readme_goes_on_in_its_worktree_after_a_kill(tmp_path):
    loop = re.search(r"(?ms)^```sh\n(there=.*?)^```$", (ROOT / "README.md").read_text())[1]
    assert loop.count("\n") <= 10
    shell = Shell(tmp_path)
    shell.script('sh "$PAGES/greeter.sh"')
    killed = shell.run(loop.replace("    claude", "    echo at work; kill -9 $$ #"))
    assert killed == "at work\n"
    (there,) = (shell.place / ".tugtree").iterdir()
    assert f"cd .tugtree/{there.name}\n" in shell.run("tugcode next --wait 0.1")
    shell.place = there
    shell.script(loop)
    assert "4/4 steps" in shell.run("tugcode status")


@pytest.mark.proof(share=0)
def test_the_demo_plays_to_its_end_and_is_what_its_page_says(tmp_path):
    tugcode, kept = Path(sys.executable).with_name("tugcode"), tmp_path / "kept"
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py", tugcode, kept],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    said = done.stdout
    assert list(tmp_path.iterdir()) == [kept]
    assert complaints(DEMO, Recording(said.replace(str(tmp_path), "/tmp"))) == []
    assert "  wave 5  * 8  Everything together          verification only; after 5, 6, 7" in said
    # A crash between commit and state is repaired, and makes no second commit.
    found = r"found [0-9a-f]{12} for step-1: [^\n]*; it is completed, 7 steps remain"
    assert re.search(found, said)
    assert re.search(r"rev-list --count main\.\.HEAD\n1\n", said)
    # Workers in worktrees of their own, and what one has done comes to the other.
    places = re.findall(r"worker (\d): works,? .*in \S+/(tugplan__\S+)", said)
    assert len({worker for worker, _ in places}) == len({name for _, name in places}) >= 2
    assert re.search(r"step-5 +worker \d: has taken in [^\n]*step-[23]\b", said)
    # A checkpoint that fails keeps a step from being done, by hand and in the run.
    failing = "checkpoint 0 of step-1 fails: `python -m unittest tests/test_model.py` exit 1"
    assert failing in said
    assert re.search(r"step-4 +worker \d: 0 checkpoints passed, 1 failed", said)
    # An agent dies, a reviewer wants a change, a checkpoint is left to a person.
    assert re.search(r"step-3 +worker \d: coder failed: it was killed by signal 9", said)
    assert re.search(r"step-7 +worker \d: round 1: REVISE: tabs are separators too", said)
    assert "step-6 checkpoint 1 is left to a person: it waits for a person" in said
    assert "done: 8 of 8 steps" in said
    assert "accepted step-6 checkpoint 1" in said
    # All is merged, each step once.
    assert "tugplan-bookshelf.md is merged to main as" in said
    assert all(said.count(f"Tug-Step: step-{number}\n") == 1 for number in range(1, 9))
    assert "there is no worktree\nNext: tugcode worktree create PLAN\n" in said
    # The last line shows the plan in the browser, from the repository that is kept.
    *words, last = shlex.split(said.splitlines()[-1])
    assert (words, last) == (["$", str(tugcode), "-C", str(kept / "bookshelf")], "open")
    shown = subprocess.run([*words[1:], "status"], capture_output=True, text=True, check=True)
    assert "8/8 steps" in shown.stdout


def test_a_page_that_says_something_else_is_caught(tmp_path):
    text = "```console\n$ echo one\none\n$ wc -l <<'END'\n$ c\nb\nEND\n2\n$ echo 3\nthree\n```\n"
    written, complaints, examples = played(text, Shell(tmp_path))
    assert (len(complaints), examples) == (1, 1)
    assert "but printed\n3\n" in complaints[0]
    assert written == text.replace("three", "3")


def test_of_a_long_output_the_lines_that_count_are_compared(tmp_path):
    shell = Shell(tmp_path)
    command = "$ printf 'a 1\\nb\\na 2\\nc\\n'\n"
    text = f"<!-- keep: ^a -->\n```console\n{command}a 2\n...\na 1\n...\n```\n"
    assert played(text, shell)[:2] == (text, [])
    wrong = text.replace("a 1\n...", "a 3\n...")
    assert played(wrong, shell)[0] == wrong.replace("a 2\n...\na 3\n", "a 1\n...\na 2\n")
    assert len(played(wrong, shell)[1]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "<!-- setup\nfalse\n-->\n",
        "```sh\nfalse\n```\n",
        "```toml\n[implement]\nworker = 3\n```\n",
        "```console\n$ echo tugcode: E099: this is a bug\n```\n",
        "```sql\nselect 1;\n```\n",
    ],
)
def test_an_example_that_fails_is_caught(text, tmp_path):
    with pytest.raises(AssertionError):
        played(text, Shell(tmp_path))


def test_a_plan_that_cannot_be_carried_out_and_an_unknown_block_are_caught(tmp_path):
    plan = "```markdown\n### Step 1: One\n**Depends on:** #step-9\n- [ ] x\n```\n"
    assert "E010" in played(plan, Shell(tmp_path))[1][0]
    with pytest.raises(AttributeError):
        played("```rust\nfn main() {}\n```\n", Recording(""))
    with pytest.raises(subprocess.CalledProcessError):
        played("<!-- not run: it installs -->\n```sh\nif\n```\n", Recording(""))


def test_a_command_that_the_demo_does_not_run_is_caught():
    with pytest.raises(AssertionError, match="frobnicate"):
        played("```console\n$ tugcode frobnicate\n```\n", Recording("$ tugcode init\nready\n"))
