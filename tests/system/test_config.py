"""Settings from `.tugtool/config.toml`, and how git is started."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Repo
from tugtool import git as tugtool_git
from tugtool.errors import BadSetting, GitFailed, GitUnusable, Unreadable
from tugtool.git import command as git
from tugtool.system import config

#: Every key the specification names, with its default and another value.
KEYS = {
    "plan.validation_level": ("lenient", "strict"),
    "plan.max_bytes": (8388608, 1),
    "state.lease_seconds": (7200, 60),
    "state.max_attempts": (5, 2),
    "state.busy_seconds": (5, 30),
    "log.max_lines": (500, 1000),
    "log.max_bytes": (102400, 1_000_000_000),
    "state.url": ("", "postgresql://host/database"),
    "state.ca_file": ("", "/etc/tug/ca.pem"),
    "state.plain_http": (False, True),
    "state.repository": ("", "team/shop"),
    "implement.workers": (1, 8),
    "implement.lease_seconds": (600, 60),
    "implement.review_rounds": (3, 1),
    "implement.verify": (True, False),
    "implement.budget_tokens": (0, 1_000_000),
    "implement.budget_cost": (0.0, 2.5),
    "implement.retry_seconds": ([5, 30, 120], [0]),
    "implement.patience_seconds": (28800, 0),
    "implement.question_seconds": (600, 5),
    "implement.transcript_bytes": (1_048_576, 0),
    "worktree.setup": ([], [["uv", "sync"], ["make"]]),
    "worktree.setup_seconds": (600, 5),
    "worktree.copy": ([], [".env", "data"]),
    "merge.check": ([], ["make test"]),
    "notify.command": ([], ["notify-send", "Tugtool"]),
    "notify.on": (["needs_person", "done", "stopped", "cooling_down"], ["done"]),
    "remote.name": ("", "origin"),
    "remote.seconds": (60, 5),
    "serve.host": ("127.0.0.1", "::1"),
    "serve.port": (8840, 0),
    "serve.unix": ("", "auto"),
    "serve.hosts": ([], ["tug.example"]),
    "serve.behind_proxy": (False, True),
    "serve.trusted_proxies": (["127.0.0.1"], ["10.0.0.1"]),
    "serve.tls_cert": ("", "cert.pem"),
    "serve.tls_key": ("", "key.pem"),
    "serve.git": (False, True),
    "serve.run_commands": (False, True),
    "serve.batch": (64, 1),
    "serve.max_streams": (500, 5),
    "serve.max_streams_per_token": (50, 5),
    "serve.max_body_bytes": (1048576, 1000),
    "serve.writes_per_second": (50, 5),
    "serve.git_seconds": (120, 5),
    "mcp.idle_seconds": (3600, 60),
    "mcp.role": ("worker", "viewer"),
}
NUMBERS = [key for key, (default, _) in KEYS.items() if type(default) is int]


def load(root: Path, text: str | bytes) -> config.Settings:
    """The settings of a repository with this configuration file."""
    path = root / ".tugtool" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return config.load(str(root))


def value(settings: config.Settings, key: str) -> object:
    read = {int: settings.number, str: settings.word}
    return read.get(type(KEYS[key][0]), settings.value)(key)


def refusal(root: Path, text: str) -> BadSetting:
    with pytest.raises(BadSetting) as caught:
        load(root, text)
    assert caught.value.code == "E071"
    assert caught.value.facts["file"] == ".tugtool/config.toml"
    return caught.value


def test_the_keys_are_those_of_the_specification():
    assert list(config.all_settings()) == list(KEYS)


@pytest.mark.parametrize("text", [None, "", "# nothing\n", "[plan]\n[state]\n[log]\n"])
def test_without_a_file_or_a_word_in_it_all_defaults_are_in_force(tmp_path, text):
    settings = config.load(str(tmp_path)) if text is None else load(tmp_path, text)
    assert settings.file == (None if text is None else ".tugtool/config.toml")
    for key, (default, _) in KEYS.items():
        assert value(settings, key) == default
        assert not settings.is_set(key)


@pytest.mark.parametrize("key", KEYS)
def test_each_key_can_be_set_and_the_others_stay(tmp_path, key):
    section, name = key.split(".")
    other = KEYS[key][1]
    shown = json.dumps(other)
    settings = load(tmp_path, f"[{section}]\n{name} = {shown}\n")
    assert value(settings, key) == other
    assert [known for known in KEYS if settings.is_set(known)] == [key]


def test_all_keys_can_be_set_at_once_and_the_file_may_have_a_byte_order_mark(tmp_path):
    # Lists and words are written alike in TOML; true and false are not.
    lines = (
        f"{key} = {str(other).lower() if isinstance(other, bool) else repr(other)}\n"
        for key, (_, other) in KEYS.items()
    )
    settings = load(tmp_path, "\ufeff" + "".join(lines))
    assert {key: value(settings, key) for key in KEYS} == {k: v[1] for k, v in KEYS.items()}


@pytest.mark.parametrize("level", ["lenient", "normal", "strict"])
def test_every_level_is_taken(tmp_path, level):
    settings = load(tmp_path, f'plan.validation_level = "{level}"\n')
    assert settings.word("plan.validation_level") == level


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("worktree.copy", '".env"'),
        ("worktree.copy", "[1]"),
        ("worktree.copy", '[".env", ["b"]]'),
        ("worktree.copy", '["a\\u0000b"]'),
        ("worktree.setup", '["uv", "sync"]'),
        ("worktree.setup", '[["uv", 1]]'),
        ("worktree.setup", "[[]]"),
        ("worktree.setup", '[["", "sync"]]'),
    ],
)
def test_a_list_must_hold_what_it_is_for(tmp_path, key, given):
    error = refusal(tmp_path, f"{key} = {given}\n")
    assert error.facts["key"] == key
    assert f"and must be {config.all_settings()[key].expects()}" in error.message


def test_lists_are_read_as_what_they_hold(tmp_path):
    settings = load(tmp_path, 'worktree.setup = [["uv", "sync"]]\nworktree.copy = [".env"]\n')
    assert settings.value("worktree.setup") == [["uv", "sync"]]
    assert settings.words("worktree.copy") == [".env"]


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("[pln]\n", "pln", "there is no section pln; did you mean plan?"),
        ("[zzz]\n", "zzz", "there is no section zzz"),
        ("sate.max_attempts = 1\n", "sate", "there is no section sate; did you mean state?"),
        (
            "[state]\nlease_second = 1\n",
            "state.lease_second",
            "there is no setting state.lease_second; did you mean state.lease_seconds?",
        ),
        ("[plan]\nzzz = 1\n", "plan.zzz", "there is no setting plan.zzz"),
        ("[plan.max_byte]\n", "plan.max_byte", "did you mean plan.max_bytes?"),
        ('"" = 1\n', "", "there is no section "),
        ("[plan]\nmax_bytes = 5\n[later]\n", "later", "there is no section later"),
    ],
)
def test_an_unknown_name_is_refused_with_the_closest(tmp_path, text, key, message):
    error = refusal(tmp_path, text)
    assert error.facts["key"] == key
    assert message in error.message


@pytest.mark.parametrize("given", ["1", '"true"', "[true]"])
def test_a_switch_is_true_or_false(tmp_path, given):
    error = refusal(tmp_path, f"implement.verify = {given}\n")
    assert "and must be true or false" in error.message
    assert load(tmp_path, "implement.verify = false\n").value("implement.verify") is False


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('"8"', '"8"'),
        ("true", "true"),
        ("false", "false"),
        ("0", "0"),
        ("-1", "-1"),
        ("1.0", "1.0"),
        ("inf", "inf"),
        ("[1]", "a list"),
        ("{ a = 1 }", "a section"),
        ("2026-02-23", "a date or time"),
        ("1000000001", "out of range"),
        ("0x" + "f" * 5000, "out of range"),
    ],
)
@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_must_be_a_whole_one_in_range(tmp_path, key, given, shown):
    least = config.all_settings()[key].least
    if least == 0 and given == "0":
        assert load(tmp_path, f"{key} = 0\n").number(key) == 0
        return
    error = refusal(tmp_path, f"{key} = {given}\n")
    assert error.facts["key"] == key
    assert f"{key} is {shown}, and must be a whole number, at least {least} " in error.message


@pytest.mark.parametrize("given", ['"Strict"', '""', "1", "true", '["strict"]', "{}", "1979-05-27"])
def test_a_level_must_be_one_of_three_words(tmp_path, given):
    error = refusal(tmp_path, f"plan.validation_level = {given}\n")
    assert 'must be one of "lenient", "normal", "strict"' in error.message


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("implement.retry_seconds = 5", "is 5, and must be a list of whole numbers"),
        ("implement.retry_seconds = [-1]", "must be a list of whole numbers"),
        ("implement.retry_seconds = [1.5]", "must be a list of whole numbers"),
        ('notify.command = "notify-send"', "must be a list of texts"),
        ("notify.command = [1]", 'must be a list of texts: ["one", "two"]'),
        ('merge.check = "make"', 'must be a list of texts: ["one", "two"]'),
        ('worktree.setup = ["npm ci"]', 'each a list of words, such as [["npm", "ci"]]'),
        ('notify.on = ["doen"]', 'must be a list of "needs_person", "done"'),
        ('implement.budget_cost = "1"', "must be a number, at least 0"),
        ("implement.budget_cost = -0.5", "must be a number, at least 0"),
        ("implement.budget_cost = nan", "must be a number, at least 0"),
        ("implement.budget_cost = true", "must be a number, at least 0"),
    ],
)
def test_lists_and_sums_of_money_must_be_such(tmp_path, line, expected):
    error = refusal(tmp_path, f"{line}\n")
    assert error.facts["key"] == line.partition(" ")[0]
    assert expected in error.message


def test_a_sum_of_money_may_be_a_whole_number(tmp_path):
    settings = load(tmp_path, "implement.budget_cost = 20\n")
    assert settings.value("implement.budget_cost") == 20


@pytest.mark.parametrize("text", ["plan = 3\n", 'plan = "x"\n', "plan = []\n", "[[plan]]\n"])
def test_a_section_must_be_one(tmp_path, text):
    error = refusal(tmp_path, text)
    assert error.facts["key"] == "plan"
    assert error.message.endswith("and must be a section, [plan]")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nonsense\n", 1),
        ("[plan]\n\nmax_bytes == 3\n", 3),
        ("[plan]\nmax_bytes = 1\nmax_bytes = 2\n", 3),
        ("[plan]\r\nmax_bytes = 1\r\n[plan]\r\n", 3),
    ],
)
def test_what_is_not_toml_is_refused_with_the_line(tmp_path, text, line):
    error = refusal(tmp_path, text)
    assert error.issue()["line"] == line
    assert error.message.startswith(f".tugtool/config.toml:{line}: is not TOML: ")


@pytest.mark.parametrize("text", ["[plan", "x = " + "[" * 5000, "x = " + "9" * 5000 + "\n"])
def test_what_is_not_toml_to_its_end_is_refused_too(tmp_path, text):
    assert "is not TOML: " in refusal(tmp_path, text).message


def test_a_file_that_is_not_utf_8_is_refused_with_the_line(tmp_path):
    with pytest.raises(Unreadable) as caught:
        load(tmp_path, b"[plan]\nmax_bytes = 1 # \xff\n")
    assert caught.value.facts["line"] == 2


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, make_dangling_link])
def test_something_else_in_the_file_s_place_is_refused(tmp_path, make):
    (tmp_path / ".tugtool").mkdir()
    make(tmp_path / ".tugtool" / "config.toml")
    with pytest.raises(Unreadable, match=r"config\.toml"):
        config.load(str(tmp_path))


def test_a_linked_worktree_obeys_the_file_of_the_main_one(repo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    load(linked, "[plan]\nmax_bytes = 1\n")
    load(repo.path, "[plan]\nmax_bytes = 2\n")
    settings = config.load(tugtool_git.discover(str(linked)).root)
    assert settings.number("plan.max_bytes") == 2


@pytest.mark.parametrize("text", [None, "[plan]\nmax_bytes = 1\n", "plan.max_bytes = 1\n"])
def test_the_full_reader_of_toml_is_loaded_only_for_a_file_that_is_not_plain(tmp_path, text):
    if text is not None:
        load(tmp_path, text)
    probe = (
        "import sys; from tugtool.system import config\n"
        "config.load(sys.argv[1]); print(*sys.modules)"
    )
    words = [sys.executable, "-c", probe, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ("tomllib" in done.stdout.split()) == (text is not None and text.startswith("plan."))


def test_git_gives_back_what_it_printed(repo):
    assert git.run("rev-parse", "--show-toplevel", cwd=str(repo.path)) == f"{repo.path}\n"
    assert git.run("status", "--porcelain", cwd=str(repo.path)) == ""


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"]
)
def test_the_environment_does_not_redirect_git(repo, tmp_path, monkeypatch, name):
    other = Repo.init(tmp_path / "other")
    monkeypatch.setenv(name, str(other.path / ".git"))
    assert git.run("rev-parse", "--show-toplevel", cwd=str(repo.path)) == f"{repo.path}\n"
    assert git.run("ls-files", cwd=str(repo.path)) == "file\n"
    assert git.run("cat-file", "-t", "HEAD", cwd=str(repo.path)) == "commit\n"


def test_the_environment_locates_git_s_directory_if_that_is_wanted(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git"))
    asked = ("rev-parse", "--absolute-git-dir")
    out = git.run(*asked, cwd=str(tmp_path), located_by_environment=True)
    assert out == f"{repo.path}/.git\n"


def test_a_command_git_refuses_is_refused_with_what_it_said(repo):
    with pytest.raises(GitFailed) as caught:
        git.run("rev-parse", "--verify", "no-such-branch", cwd=str(repo.path))
    assert caught.value.code == "E076"
    message = "git rev-parse failed with status 128: fatal: Needed a single revision"
    assert caught.value.message == message
    assert caught.value.facts["status"] == 128


def test_a_command_that_fails_without_a_word_is_refused_as_that(repo):
    with pytest.raises(GitFailed, match="git config failed with status 1: it said nothing"):
        git.run("config", "--get", "no.such", cwd=str(repo.path))


def test_a_directory_that_does_not_exist_is_refused_by_git(tmp_path):
    with pytest.raises(GitFailed, match="cannot change to"):
        git.run("status", cwd=str(tmp_path / "missing"))


def test_without_git_that_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitUnusable) as caught:
        git.run("status", cwd=str(tmp_path))
    assert caught.value.code == "E029"
    assert git.version() is None


def test_the_version_is_git_s_own(repo):
    assert f"git version {git.version()}\n" == repo.git("--version")


#: Writes 3 MB to each stream by turns, more than any pipe holds.
NOISY = (
    "!f() { for n in 1 2 3; do head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; done; }; f"
)


def test_much_output_on_both_streams_stops_nobody(repo):
    repo.git("config", "alias.noisy", NOISY)
    assert len(git.run("noisy", cwd=str(repo.path))) == 3_000_000
    repo.git("config", "alias.failing", NOISY + "; exit 3")
    with pytest.raises(GitFailed) as caught:
        git.run("failing", cwd=str(repo.path))
    assert caught.value.facts["status"] == 3
    assert caught.value.message.count("\0") == 3_000_000


def test_output_that_is_not_utf_8_arrives_unharmed(repo):
    repo.git("config", "alias.odd", "!printf '\\377\\n'")
    assert os.fsencode(git.run("odd", cwd=str(repo.path))) == b"\xff\n"


def test_git_gets_nothing_to_read(repo):
    repo.git("config", "alias.ask", "!cat")
    assert git.run("ask", cwd=str(repo.path)) == ""


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/dev/fd"))


def children() -> set[str]:
    """Processes that this one started and that are there, running or not; other tests may have."""
    return {
        pid
        for each in Path("/proc/self/task").glob("*/children")
        for pid in each.read_text().split()
    }


def test_no_descriptor_and_no_child_stays_behind(repo, tmp_path, monkeypatch, uncollected):
    before, others = open_descriptors(), children()
    git.run("--version", cwd=str(repo.path))
    with pytest.raises(GitFailed):
        git.run("no-such-command", cwd=str(repo.path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitUnusable):
        git.run("--version", cwd=str(repo.path))
    assert open_descriptors() == before
    assert children() == others
    with contextlib.suppress(ChildProcessError):
        assert os.waitpid(-1, os.WNOHANG) == (0, 0)


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1), (0, 1, 2), (1, 2)])
def test_git_works_also_where_the_standard_streams_are_closed(tmp_path, closed):
    probe = (
        "import os, sys; from tugtool.git import command as git\n"
        f"for n in {closed}: os.close(n)\n"
        "out = git.run('--version', cwd='/')\n"
        "open(sys.argv[1], 'w').write(out)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", probe, str(tmp_path / "out")], check=True)
    assert (tmp_path / "out").read_text().startswith("git version ")


def test_a_process_dies_at_the_point_that_is_named():
    program = (
        "from tugtool.system.crash import point; point('one'); print(1); point('two'); print(2)"
    )
    environment = {**os.environ, "TUGCODE_CRASH_AT": "two"}
    words = [sys.executable, "-u", "-c", program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-9, "1\n")


def test_git_is_fed_more_than_a_pipe_holds_while_it_answers(repo):
    names = "".join(f"name-{n}\n" for n in range(12_000))
    out = git.run("cat-file", "--batch-check", cwd=str(repo.path), given=names)
    assert out.count(" missing\n") == 12_000
    # A pipe of Linux, the largest that there is, holds 65 536 bytes.
    assert min(len(names), len(out)) > 100_000


def test_git_that_does_not_read_what_it_is_given_is_no_trouble(repo):
    given = "x" * 1_000_000
    assert git.attempt("rev-parse", "HEAD", cwd=str(repo.path), given=given).status == 0


def test_who_the_person_is_reaches_git_and_somebodys_settings_do_not(repo, monkeypatch):
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.invalid")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    assert git.run("var", "GIT_AUTHOR_IDENT", cwd=str(repo.path)).startswith("Ada <ada@")
    assert git.run("rev-parse", "--is-bare-repository", cwd=str(repo.path)) == "false\n"


def test_working_trees_are_listed_with_their_branches(repo):
    linked = repo.linked(repo.path.parent / "a b", "side")
    repo.git("-C", str(linked), "checkout", "--quiet", "--detach")
    other = repo.linked(repo.path.parent / "other", "topic/x")
    assert git.worktrees(str(linked)) == [
        (str(repo.path), "main"),
        (str(linked), None),
        (str(other), "topic/x"),
    ]
