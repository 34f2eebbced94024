"""Completion: the candidates, and the scripts in real shells at a real TAB key."""

import os
import select
import shutil
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.proving import examined
from tugtool.cli import help, parse

# Only bash is on every machine that runs the suite; zsh and fish are tested where they
# are installed, so that nobody has to install a shell to change a comment.
SHELLS = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]

PLAN = """\
# A plan

#### Step 1: Lay the \x1b[31mkeel\x1b[0m\tproperly {#step-1}

#### Step 2: Build the hull, and make this title far longer than a terminal is wide {#step-2}

##### Step 2.1: Port side {#step-2-1}

##### Step 2.2: Starboard side {#step-2-2}
"""


@pytest.fixture
def complete(tugcode, repo):
    """Candidates for the last of some words, with their descriptions, in `repo`."""

    def run(*words: object, cwd: object = repo.path) -> dict[str, str]:
        answer = tugcode("-C", cwd, "--json", "complete-words", "--", *words)
        assert (answer.status, answer.err) == (0, "")
        pairs = [tuple(found.values()) for found in answer.data["candidates"]]
        return dict(pairs)

    return run


def test_candidates_are_lines_with_a_tab_before_the_description(tugcode):
    shown = tugcode("complete-words", "--", "plan", "s")
    assert shown.out == "show\tshow a plan as the parser reads it\n"
    assert tugcode("complete-words", "--", "completion", "z").out == "zsh\n"
    assert tugcode("complete-words", "--json", "--", "completion", "z").data == {
        "candidates": [{"value": "zsh", "description": ""}]
    }


def test_every_visible_command_can_be_reached_and_no_hidden_one(complete):
    shown = set(help.visible())
    reached = set()
    groups = [""]
    for group in groups:
        paths = {f"{group} {word}".strip() for word in complete(*group.split(), "")}
        reached |= paths & shown
        groups += sorted(paths & set(parse.GROUPS))
        # `serve` is a command, and has a group below it.
        groups += sorted(paths & {"serve"})
    assert reached == shown
    assert set(groups) == {"", "serve", *parse.GROUPS}
    assert complete("complete-") == {}


def test_groups_and_commands_say_what_they_are_for(complete):
    assert complete("pl") == {name: parse.GROUPS[name] for name in ("plan", "plugin")}
    assert complete("plan", "g") == {"graph": parse.FAMILIES["plan graph"][1]}
    assert complete("help", "plan", "g") == complete("plan", "g")


@pytest.mark.parametrize("path", help.visible())
def test_every_option_of_a_command_is_offered_with_its_help(complete, path):
    options = (*parse.find(path).options, *parse.GLOBAL_OPTIONS)
    found = complete(*path.split(), "-")
    assert list(found) == [option.name for option in options]
    for option in options:
        assert option.help.startswith(found[option.name].removesuffix("…"))


def test_version_is_an_option_only_where_no_command_was_named(complete):
    assert "--version" in complete("--")
    assert "--version" not in complete("plan", "--")
    assert complete("--version", "--v") == {}


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        (["--json"], "--json"),
        (["--level", "strict"], "--level"),
        (["--level=strict"], "--level"),
        (["--level", "=", "strict"], "--level"),
        (["-C", "."], "--directory"),
        (["-h"], "--help"),
    ],
)
def test_an_option_is_not_offered_twice(complete, words, gone):
    every = set(complete("validate", "--"))
    assert every - set(complete("validate", *words, "--")) == {gone}


def test_a_command_without_arguments_left_offers_its_options_instead_of_files(complete):
    options = ["--check", "--claude", "--mcp", "--yes", "--json", "--directory", "--help"]
    assert list(complete("init", "")) == options
    assert complete("init", "--", "") == {}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["validate", "--level", ""], ["lenient", "normal", "strict"]),
        (["validate", "--level", "n"], ["normal"]),
        (["validate", "--level=n"], ["--level=normal"]),
        (["validate", "--level="], ["--level=lenient", "--level=normal", "--level=strict"]),
        # As bash cuts it: the sign is a word, and at first the one to complete.
        (["validate", "--level", "=", "n"], ["normal"]),
        (["validate", "--level", "="], ["lenient", "normal", "strict"]),
        (["plan", "graph", "--format", "m"], ["mermaid"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["--json", "completion", "f"], ["fish"]),
        (["completion", "--", "f"], ["fish"]),
    ],
)
def test_values_with_choices_complete(complete, words, values):
    assert list(complete(*words)) == values


@pytest.mark.parametrize(
    "words",
    [
        ["-C", ""],
        ["--directory="],
        ["plan", "new", ""],
        ["plan", "new", "x", "--title", ""],
        ["list", "--max-bytes", ""],
        ["list", "--max-bytes="],
        ["init", "--check="],
        ["validate", "--", "--level"],
    ],
)
def test_what_has_no_candidates_is_left_to_the_shell(complete, words):
    assert complete(*words) == {}


def test_plans_complete_to_their_slugs(complete, repo):
    for slug in ("keel", "kayak", "mast"):
        repo.plan(slug, PLAN)
    keel = {"keel": ".tugtool/tugplan-keel.md"}
    assert list(complete("plan", "show", "")) == ["kayak", "keel", "mast"]
    assert complete("plan", "show", "ke") == keel
    assert complete("plan", "show", "--", "ke") == keel
    assert complete("plan", "show", "--json", "--max-bytes", "9", "ke") == keel
    assert list(complete("plan", "show", "keel", "--j")) == ["--json"]


def test_a_plan_already_on_the_line_is_not_offered_again(complete, repo):
    repo.plan("keel", PLAN)
    repo.plan("mast", PLAN)
    assert list(complete("validate", "mast", "")) == ["keel"]
    assert complete("validate", "mast", "keel", "") == {}


def test_names_that_a_shell_would_act_on_are_left_out(complete, repo):
    hostile = ["a$(id)", "a`id`", "a b", "a'b", 'a"b', "a\nb", "a;b", "a\tb", "a\x1b[31m", "a*"]
    for slug in [*hostile, "a\\b", "a&b", "a|b", "~a", "=a", "-a", "a:b", "a\udcff", ""]:
        repo.plan(slug, PLAN)
    repo.plan("größe-2.b_c", PLAN)
    assert list(complete("plan", "show", "")) == ["größe-2.b_c"]
    assert list(complete("plan", "show", "--", "")) == ["größe-2.b_c"]


def test_steps_of_the_plan_on_the_line_complete_with_their_titles(complete, repo):
    repo.plan("keel", PLAN)
    repo.plan("mast", "#### Step 1: Fell a tree {#fell}\n")
    assert complete("plan", "show", "mast", "--step", "") == {"fell": "Fell a tree"}
    assert complete("plan", "show", "mast", "--step=f") == {"--step=fell": "Fell a tree"}
    assert complete("plan", "show", "mast", "--step", "=", "f") == {"fell": "Fell a tree"}
    found = complete("plan", "show", "keel", "--step", "")
    assert list(found) == ["step-1", "step-2", "step-2-1", "step-2-2"]
    assert found["step-2-1"] == "Port side"
    assert complete("plan", "show", "--step", "") == {}


def test_without_a_name_the_only_plan_is_meant(complete, repo):
    repo.plan("keel", PLAN)
    assert list(complete("plan", "show", "--step", "step-2-")) == ["step-2-1", "step-2-2"]


def test_descriptions_are_short_and_cannot_act_on_a_terminal(complete, repo):
    repo.plan("keel", PLAN)
    found = complete("plan", "show", "--step", "")
    assert found["step-1"] == "Lay the keel properly"
    assert found["step-2"] == "Build the hull, and make this title far longer than a termi…"


def test_an_anchor_that_a_shell_would_act_on_is_left_out(complete, repo):
    repo.plan("keel", "#### Step 1: A {#a$(id)}\n\n#### Step 2: B {#b}\n\n#### Step 3: C {#-c}\n")
    assert complete("plan", "show", "--step", "") == {"b": "B"}


@pytest.mark.parametrize(
    "files",
    [
        {".tugtool/tugplan-keel.md": b"\xff\xfe#\x00"},
        {".tugtool/tugplan-keel.md": PLAN, ".tugtool/config.toml": "[plan]\nmax_bytes = 9\n"},
        {".tugtool/tugplan-keel.md": PLAN, ".tugtool/config.toml": "max_bytes"},
        {".tugtool/tugplan-keel.md/file": PLAN},
        {},
    ],
)
def test_a_plan_that_cannot_be_read_has_no_steps_to_offer(complete, repo, files):
    repo.write(files)
    assert complete("plan", "show", "--step", "") == {}
    assert complete("plan", "show", "keel", "--step", "") == {}


def test_the_directory_on_the_line_decides_which_repository_is_asked(complete, repo, tmp_path):
    repo.plan("keel", PLAN)
    (tmp_path / "else" / "where").mkdir(parents=True)
    elsewhere = tmp_path / "else"

    def found(*words: object) -> list[str]:
        return list(complete(*words, "plan", "show", "", cwd=elsewhere))

    assert found() == []
    for words in (["-C", repo.path], ["--directory", repo.path], [f"--directory={repo.path}"]):
        assert found(*words) == ["keel"]
    assert found("--directory", "=", "../repo") == ["keel"]
    # As `parse` has it: the last one counts, and it starts from where the caller is.
    assert found("-C", "where", "-C", "../repo") == ["keel"]
    assert found("-C", repo.path, "-C", "where") == []
    after = ["plan", "show", "-C", "../repo", "--step", "step-2-2"]
    assert list(complete(*after, cwd=elsewhere)) == ["step-2-2"]


def test_a_missing_directory_is_not_taken_for_its_parent(complete, repo):
    repo.plan("keel", PLAN)
    assert complete("-C", "missing", "plan", "show", "") == {}


def test_the_directory_may_be_written_as_bash_passes_it_on(complete, repo, monkeypatch, tmp_path):
    home = tmp_path / 'it\'s a "home"'
    repo.plan("keel", PLAN)
    shutil.copytree(repo.path, home / "a b")
    monkeypatch.setenv("HOME", str(tmp_path))
    for word in (
        '"it\'s a \\"home\\"/a b"',
        'it\\\'s\\ a\\ \\"home\\"/a\\ b',
        "'it'\\''s a \"home\"'/a\\ b",
        '~/it\\\'s\\ a\\ \\"home\\"/a\\ b',
        "~/repo",
        # Zsh and fish take the quotes off themselves.
        'it\'s a "home"/a b',
    ):
        found = complete("-C", word, "plan", "show", "", cwd=tmp_path)
        assert list(found) == ["keel"], word


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate", ""],
        ["frobnicate", "--"],
        ["plan", "frobnicate", ""],
        ["plan", "help", ""],
        ["--", ""],
        ["--", "plan", ""],
        ["--", "plan", "show", "--step", ""],
        ["list", "--frobnicate", "--frob"],
        ["list", "--frobnicate="],
        ["completion", "zsh", "--", ""],
        ["plan", "show", "x" * 100_000, "--step", ""],
        ["plan", "show", "a\0b", "--step", ""],
        ["-C", "a\0b", "plan", "show", ""],
        ["-C", "\udcff", "plan", "show", ""],
    ],
)
def test_an_odd_line_has_no_candidates_and_no_complaint(tugcode, repo, words):
    repo.plan("keel", PLAN)
    shown = tugcode("-C", repo.path, "complete-words", "--", *words)
    assert (shown.status, shown.out, shown.err) == (0, "", "")


def test_without_words_the_commands_are_offered(tugcode):
    assert tugcode("complete-words").out == tugcode("complete-words", "--", "").out != ""


def test_outside_a_repository_commands_complete_and_plans_do_not(complete, tmp_path):
    assert complete("plan", "show", "", cwd=tmp_path) == {}
    assert list(complete("plan", "sh", cwd=tmp_path)) == ["show"]


OPTIONS = ["-C", "--directory", "--level", "--level=", "--step", "--json", "--version"]
NAMES = ["help", "plan", "show", "validate", "completion", "complete-words", "keel"]
WORDS = st.sampled_from([*OPTIONS, *NAMES, "", "=", "-", "--", "/", "\0", "\\"])


@examined(short=100)
@given(st.lists(WORDS | st.text(max_size=3), max_size=7))
def test_no_line_whatsoever_makes_it_fail(words):
    call = parse.parse(["complete-words", "--", *words])
    call.cwd = "/"
    typed = words[-1] if words else ""
    for line in help.complete_words(call).text().splitlines():
        assert line.startswith(typed) or typed == "="


def test_completing_loads_nothing_heavy(repo):
    repo.plan("keel", PLAN)
    probe = (
        "import sys; before = set(sys.modules)\n"
        "from tugtool.cli.main import main\n"
        "for line in '', 'plan ', 'list -', 'validate --level=', 'plan show ':\n"
        "    assert main(['complete-words', '--', *line.split(' ')]) == 0\n"
        "print(*sorted(set(sys.modules) - before), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=repo.path, capture_output=True, text=True, check=True
    )
    assert "keel" in done.stdout
    loaded = set(done.stderr.split())
    assert "tugtool.plan.catalog" in loaded
    heavy = {"re", "json", "argparse", "subprocess", "pathlib", "typing", "functools", "tomllib"}
    assert loaded.isdisjoint(heavy | {"tugtool.plan.parser"})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_text_or_data(tugcode, shell):
    script = tugcode("completion", shell).out
    assert "tugcode complete-words -- " in script
    assert tugcode("completion", shell, "--json").data == {"shell": shell, "script": script}


def test_bash_is_among_the_shells_tested():
    assert "bash" in SHELLS


def shell_environment() -> dict[str, str]:
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    # A dumb terminal keeps the shells from drawing; the inputrc could rebind TAB.
    return {**os.environ, "PATH": path, "TERM": "dumb", "INPUTRC": os.devnull}


# The prompt tells that a shell is ready, and the function what a command line became; both
# are put together so that the shell's echo of these very lines does not contain them.
START = {
    "bash": (["bash", "--norc", "-i"], ""),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -D -u; "),
}
SETUP = (
    'eval "$(tugcode completion {shell})"; '
    'tugcode() {{ printf "<%s>" "$@"; echo "[do""ne]"; }}; PS1="[rea""dy]"\n'
)


def screen(shell: str, keys: str, cwd: object) -> str:
    """What bash or zsh shows after these keys, TABs included, and the words that were run."""
    argv, first = START[shell]
    # pty.spawn forks, which this process, with the threads of pytest-xdist, must not do.
    spawn = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", *argv]
    with subprocess.Popen(
        spawn, cwd=cwd, env=shell_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as terminal:
        try:
            send(terminal, first + SETUP.format(shell=shell))
            until(terminal, "[ready]")
            send(terminal, f"{keys}\n")
            seen = until(terminal, "[done]")
        finally:
            # Takes the terminal away, and with it the shell. pty.spawn would not end by
            # itself: once nobody reads, it no longer notices that the shell is gone.
            terminal.kill()
    return seen


def send(terminal: subprocess.Popen, keys: str) -> None:
    terminal.stdin.write(keys.encode())
    terminal.stdin.flush()


def until(terminal: subprocess.Popen, mark: str, seconds: int = 60) -> str:
    """What the terminal shows up to `mark`; fails if that takes too long."""
    seen, end = b"", time.monotonic() + seconds
    while mark.encode() not in seen:
        ready, _, _ = select.select([terminal.stdout], [], [], max(0, end - time.monotonic()))
        part = os.read(terminal.stdout.fileno(), 65536) if ready else b""
        assert part, f"no {mark} in {seen!r}"
        seen += part
    return seen.decode()


def fish(line: str, cwd: object) -> list[str]:
    """What fish itself says it would offer, descriptions included."""
    ask = "tugcode completion fish | source; complete --do-complete $argv[1]"
    argv = ["fish", "--no-config", "-c", ask, line]
    done = subprocess.run(
        argv, cwd=cwd, env=shell_environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def completed(shell: str, line: str, cwd: object) -> str:
    """The last word of the line after TAB; a shell may drop the slash of a directory."""
    if shell != "fish":
        seen = screen(shell, f"{line}\t", cwd)
        return seen[seen.rindex("<") + 1 : seen.rindex(">")].rstrip("/")
    (only,) = fish(line, cwd)
    return only.partition("\t")[0].rstrip("/")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("tugcode val", "validate"),
        ("tugcode plan sh", "show"),
        ("tugcode plan show --st", "--step"),
        ("tugcode validate --level no", "normal"),
        ("tugcode validate --level=no", "--level=normal"),
        ("tugcode plan graph --format=d", "--format=dot"),
        ("tugcode plan show ke", "keel"),
        # Only one of the plans is harmless, so it is the only candidate.
        ("tugcode plan show ", "keel"),
        ("tugcode plan show keel --step po", "port"),
        ("tugcode plan show keel --step=po", "--step=port"),
        ("tugcode -C 'a b' plan show ma", "mast"),
        ("tugcode -C a\\ b plan show ma", "mast"),
        # No candidates: the shell completes names of files by itself.
        ("tugcode plan show .tugtool/tugplan-ke", ".tugtool/tugplan-keel.md"),
        ("tugcode -C direc", "directory"),
        ("tugcode --directory=direc", "--directory=directory"),
    ],
)
def test_a_tab_completes_the_word(shell, line, word, repo):
    repo.plan("keel", PLAN.replace("step-2-1", "port"))
    repo.plan("x$(touch pwned)", PLAN)
    repo.plan("y`touch pwned`", PLAN)
    (repo.path / "directory").mkdir()
    inner = type(repo).init(repo.path / "a b")
    inner.plan("mast", PLAN)
    assert completed(shell, line, repo.path) == word
    assert not (repo.path / "pwned").exists()


def test_bash_gets_every_candidate_and_no_description(repo):
    ask = (
        'eval "$(tugcode completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_tugcode; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    argv = ["bash", "--norc", "-c", ask, "bash", "tugcode", "validate", "--level", "="]
    done = subprocess.run(
        argv, cwd=repo.path, env=shell_environment(), capture_output=True, text=True, check=True
    )
    assert (done.stdout.split(), done.stderr) == (["lenient", "normal", "strict"], "")


def test_zsh_and_fish_show_the_descriptions(repo):
    title = "Cut a\\b: $(touch pwned)"
    repo.plan("keel", f"#### Step 1: {title} {{#cut}}\n\n#### Step 2: Caulk {{#caulk}}\n")
    line = "tugcode plan show keel --step c"
    if "zsh" in SHELLS:
        assert f"-- {title}" in screen("zsh", f"{line}\t\t", repo.path)
    if "fish" in SHELLS:
        assert f"cut\t{title}" in fish(line, repo.path)
    assert not (repo.path / "pwned").exists()
