"""The guard: what each role may and may not do, asked as a client asks, and without any hook."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from project.test_startup import RUNS
from support.guard_cases import EXPECTED, HOOK, NEVER, Case, ask, breaches, cases, home, refusal
from support.proving import sampled
from tugtool.agents import clis
from tugtool.agents.guard import calls, rules
from tugtool.cli import help
from tugtool.cli.parse import FAMILIES, GROUPS, find
from tugtool.system.agent_config import ROLES as KNOWN

ROLES = list(rules.ROLES)


@pytest.fixture
def tmp_path():
    """One that the guard takes for temporary; others may lie elsewhere."""
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        yield Path(home).resolve()


def test_every_role_has_rules_and_cases():
    assert set(ROLES) == set(EXPECTED) == set(KNOWN)


@pytest.mark.parametrize("role", [None, *ROLES])
def test_a_role_may_just_what_its_cases_say(role, repo):
    assert breaches(role, repo) == []


@pytest.mark.parametrize("role", sampled(ROLES, 3))
def test_the_hook_lets_a_role_do_its_work_and_blocks_the_rest_with_a_reason(role, repo):
    agent = f"tugplug:{role}-agent"
    every = list(cases(role))
    # A process each, so not all of the many forms.
    for may, case in every[:: len(every) // 16]:
        done = ask(case, home(repo, role), agent=agent)
        assert done.returncode == (0 if may else 2), (case, done.stderr)
        if not may:
            said = done.stderr.decode()
            assert said.startswith(f"tugcode guard: the {role} may not do this: "), said
            assert ". Instead: " in said
            assert done.stdout == b""


#: A rule, and how it would be if somebody took it away.
FAULTS = {
    "a reviewer may edit": ("reviewer", "tools", rules.LOOKING | rules.EDITING | rules.RUNNING),
    "a reviewer's edits count as work": ("reviewer", "edits", rules.WORK),
    "a coder commits": ("coder", "git", rules.GIT_WORK | {"commit"}),
    "a coder records": ("coder", "commands", frozenset({"state claim"})),
    "an author edits code": ("author", "edits", rules.WORK),
    "a critic builds": ("critic", "programs", rules.ANY),
    "a committer pushes": ("committer", "git", rules.GIT_REMOTE),
    "an integrator does not push": ("integrator", "git", frozenset()),
    "an architect has no shell": ("architect", "tools", rules.LOOKING),
    "a clarifier speaks to the host": ("clarifier", "host", True),
    "an auditor runs nothing": ("auditor", "programs", rules.VIEWERS),
}
SHARED = {
    "STATE_FILES": (),
    "LOG_FILES": (),
    "GIT_NEVER": (),
    "GIT_SETTINGS": ("core.fsmonitor=sh",),
    "LOOK_COMMANDS": rules.LOOK_COMMANDS | {"merge"},
    "CHANGING_OPTIONS": {},
    "SHELLS": frozenset(),
    "CHANGING": frozenset(),
    "INTERPRETERS": ("-",),
    "HOST_TOOLS": {},
    "REMOTE_OPTIONS": {"push": ("-fu",), "fetch": ("--upload-pack=x",)},
    "APART_OPTIONS": {"clone": (), "init": ()},
    "GIT_LOOK_OPTIONS": {},
    "HOST_LOOK": ("merge",),
    "NEVER_SET": (),
    "NOT_SET": (),
    "HARMLESS_SETTINGS": ("PATH=/tmp/x",),
    "DATABASES": frozenset(),
    "FORGETTING": frozenset(),
    "WRITING": frozenset(),
    "COMMITTING": {},
    "HOOKING": {},
    "VIEWING_NEVER": {},
}


@pytest.mark.parametrize("fault", sampled(FAULTS, 4))
def test_a_rule_that_is_taken_away_is_noticed(monkeypatch, repo, fault):
    role, rule, value = FAULTS[fault]
    monkeypatch.setattr(rules.ROLES[role], rule, value)
    assert breaches(role, repo) != []


@pytest.mark.parametrize("name", sampled(SHARED, 6))
def test_a_list_of_the_rules_that_lacks_something_is_noticed(monkeypatch, repo, name):
    monkeypatch.setattr(rules, name, SHARED[name])
    assert any(breaches(role, repo) for role in (None, *ROLES))


# The protocol.


@pytest.mark.parametrize("agent", ["tugplug:reviewer-agent", "reviewer-agent"])
def test_an_agent_of_ours_is_known_with_and_without_the_name_of_its_plugin(repo, agent):
    assert ask(Case("Write", "x"), repo.path, agent=agent).returncode == 2


@pytest.mark.parametrize("agent", ["", "Explore", "other:reviewer-agent", "reviewer", "my-agent"])
def test_whoever_is_not_ours_is_free(repo, agent):
    for case in (Case("Write", "x"), Case("Bash", "git commit -m x"), Case("any tool", "x")):
        done = ask(case, repo.path, agent=agent)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(("tool", "text"), sampled(NEVER, 12))
def test_what_is_never_right_is_blocked_for_everybody(repo, tool, text):
    done = ask(Case(tool, text), repo.path)
    assert done.returncode == 2
    assert b"Instead: " in done.stderr


def test_a_link_to_the_state_is_the_state(repo):
    repo.write({".tugtool/state.db": "x"})
    (repo.path / "notes").symlink_to(".tugtool/state.db")
    assert ask(Case("Write", "notes"), repo.path).returncode == 2


def test_a_link_to_the_record_is_the_record_for_commands_too(repo):
    tree = home(repo, "coder")
    (tree / ".tugtool").mkdir()
    (tree / ".tugtool" / "config.toml").write_text("x")
    (tree / "notes").symlink_to(".tugtool")
    for line in ("echo x > notes/config.toml", "rm -rf notes/*", "cp x notes/"):
        assert refusal("coder", Case("Bash", line), str(tree)), line


def test_a_plan_is_protected_through_its_directory(repo):
    tree = home(repo, "coder")
    for line in ("rm -rf plans", "mv plans x", "git rm -r plans", "rm -rf pl*"):
        done = ask(Case("Bash", line), tree, agent="coder-agent", TUGCODE_PLAN="plans/p.md")
        assert done.returncode == 2, line
        assert b"outside" not in done.stderr, line
    done = ask(Case("Bash", "rm -rf plan"), tree, agent="coder-agent", TUGCODE_PLAN="plans/p")
    assert done.returncode == 0


@pytest.mark.parametrize("role", [None, *ROLES])
def test_a_repository_in_a_temporary_directory_is_not_free_and_its_parents_are_not(role, repo):
    """The repositories of tests lie below one themselves."""
    repo.write({".tugtool/state.db": "x"})
    tree = repo.path / ".tugtree" / "work"
    repo.git("worktree", "add", "-q", str(tree))
    top, above = str(repo.path), str(repo.path.parent)
    for cwd in (top, str(tree), "/"):
        for line in (f"rm -rf {top}/.tugtool", f"rm -rf {top}/.git", f"rm -f {top}/.tugtool/*"):
            assert refusal(role, Case("Bash", line), cwd), (line, cwd)
    for cwd in (top, str(tree)):
        for line in (f"rm -rf {top}", f"rm -rf {above}", f"mv {top} /tmp/x", f"rm -rf {above}/*"):
            assert refusal(role, Case("Bash", line), cwd), (line, cwd)
    assert role in (None, "coder") or refusal(role, Case("Bash", f"echo > {tree}/x"), "/")
    assert refusal(role, Case("Bash", f"echo x > {above}/other"), top) is None


def test_an_agent_of_ours_that_nobody_knows_may_nothing(repo):
    done = ask(Case("Read", "x"), repo.path, agent="tugplug:helper-agent")
    assert done.returncode == 2
    assert b"there is no role `helper`" in done.stderr


def test_whoever_runs_under_a_role_is_guarded_whatever_the_client_calls_it(repo):
    assert ask(Case("Write", "x"), repo.path, TUGCODE_ROLE="reviewer").returncode == 2
    assert ask(Case("Read", "x"), repo.path, TUGCODE_ROLE="reviewer").returncode == 0
    assert ask(Case("Read", "x"), repo.path, TUGCODE_ROLE="").returncode == 2
    both = {"agent": "tugplug:coder-agent", "TUGCODE_ROLE": "reviewer"}
    assert ask(Case("Write", "x"), repo.path, **both).returncode == 2


def test_the_plan_of_a_worker_is_protected_wherever_it_lies(repo):
    place = {"agent": "coder-agent", "TUGCODE_PLAN": "docs/plan.md"}
    tree = home(repo, "coder")
    assert ask(Case("Edit", "docs/plan.md"), tree, **place).returncode == 2
    assert ask(Case("Edit", "docs/other.md"), tree, **place).returncode == 0


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"rubbish",
        b"[]",
        b"null",
        b'{"tool_name": "Read"} x',
        b'{"tool_name": NaN}',
        b'{"tool_name": "Re',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
        b'{"agent_type": "coder-agent", "tool_name": "Bash"}',
        b'{"agent_type": "coder-agent", "tool_name": "Bash", "tool_input": {"command": 7}}',
        b'{"agent_type": "coder-agent", "tool_name": "Bash", "tool_input": {"command": "\\u0000"}}',
        b'{"agent_type": "coder-agent", "tool_name": "Edit", "tool_input": {}}',
        b'{"agent_type": "coder-agent", "tool_name": "Edit", "tool_input": {"path": "\\ud800"}}',
        b"{",
        b'{"a',
        b'{"agent_type": ["coder-agent"], "tool_name": "Read", "tool_input": {}}',
        b'{"agent_type": {"a": 1}, "tool_name": "Read", "tool_input": {}}',
        b'{"agent_type": "coder-agent"}',
        b'{"agent_type": "coder-agent", "tool_name": ["Read"]}',
    ],
    ids=lambda given: given[:60].decode("ascii", "replace"),
)
def test_what_cannot_be_read_is_blocked_and_never_a_traceback(repo, given):
    done = ask(None, repo.path, given=given)
    assert done.returncode == 2
    assert done.stderr.startswith(b"tugcode guard: ")
    assert b"Traceback" not in done.stderr
    assert b"the guard itself failed" not in done.stderr


def test_closed_streams_and_a_lost_directory_still_end_in_a_refusal(repo, tmp_path):
    line = shlex.join(HOOK)
    assert subprocess.run(["sh", "-c", f"{line} <&- 2>&-"], check=False).returncode == 2
    gone = tmp_path / "gone"
    gone.mkdir()
    call = b'{"tool_name": "Write", "agent_type": "reviewer-agent", "tool_input": {}}'
    code = f"import os, sys; os.rmdir({str(gone)!r}); os.execv(sys.executable, {HOOK!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=gone, input=call, check=False)
    assert done.returncode == 2


def test_more_than_anybody_writes_is_blocked(repo):
    text = "x" * (65 << 20)
    given = json.dumps({"tool_name": "Read", "tool_input": {"file_path": text}}).encode()
    done = ask(None, repo.path, given=given)
    assert done.returncode == 2
    assert b"larger than 64 MB" in done.stderr


def test_who_sends_nothing_is_blocked_in_the_end(repo):
    reading, writing = os.pipe()
    done = subprocess.run(HOOK, stdin=reading, capture_output=True, check=False)
    os.close(reading)
    os.close(writing)
    assert (done.returncode, b"nothing came" in done.stderr) == (2, True)


def test_a_large_file_is_written_without_ado(repo):
    case = {"tool_name": "Write", "tool_input": {"file_path": "a", "content": "x" * (8 << 20)}}
    cwd = str(home(repo, "coder"))
    given = json.dumps({**case, "agent_type": "coder-agent", "cwd": cwd}).encode()
    assert ask(None, repo.path, given=given).returncode == 0


def test_a_command_is_told_its_role_and_nothing_else_of_it_changes(repo):
    call = {"tool_name": "Bash", "agent_type": "tugplug:coder-agent", "cwd": str(repo.path)}
    inner = {"command": "make test", "timeout": 5, "description": "käse"}
    done = ask(None, repo.path, given=json.dumps({**call, "tool_input": inner}).encode())
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    changed = {**inner, "command": "export TUGCODE_ROLE=coder; make test"}
    # No decision: whether it may run is for the person's own permissions to say.
    assert answer == {"hookEventName": "PreToolUse", "updatedInput": changed}


def test_a_command_of_tugcode_that_the_role_may_run_needs_no_further_leave(repo):
    for line, leave in (
        ("tugcode state show work", True),
        ("tugcode state show work; tugcode list", True),
        ("tugcode list > /tmp/x", False),
        ("tugcode list; make", False),
        ("tugcode list $(make)", False),
        ("A=b tugcode list", False),
        ("tugcode list < x", False),
        ("tugcode list <<< x", False),
        ("tugcode state show $x", False),
    ):
        done = ask(Case("Bash", line), repo.path, agent="coder-agent")
        answer = json.loads(done.stdout)["hookSpecificOutput"]
        assert (answer.get("permissionDecision") == "allow") == leave, line


def test_a_script_that_calls_tugcode_is_refused_there_because_its_role_is_told(repo, tmp_path):
    script = tmp_path / "go.sh"
    script.write_text(f"{shlex.quote(sys.executable)} -m tugtool state pause work")
    done = ask(Case("Bash", f"sh {script}"), repo.path, agent="coder-agent")
    line = json.loads(done.stdout)["hookSpecificOutput"]["updatedInput"]["command"]
    ran = subprocess.run(line, shell=True, cwd=repo.path, capture_output=True, check=False)
    assert (ran.returncode, b"E088" in ran.stderr) == (1, True)


def test_codex_gets_no_changed_command_without_leave_to_run_it(repo):
    call = {"tool_name": "Bash", "agent_type": "coder-agent", "turn_id": "1"}
    given = json.dumps({**call, "tool_input": {"command": "make"}}).encode()
    assert ask(None, repo.path, given=given).stdout == b""


def test_who_has_a_role_already_needs_none_told(repo):
    done = ask(Case("Bash", "make"), repo.path, TUGCODE_ROLE="coder")
    assert (done.returncode, done.stdout) == (0, b"")


# Without any hook: the same rules inside of tugcode.


def test_the_rules_name_commands_that_exist():
    own = {path for role in rules.ROLES.values() for path in role.commands}
    assert rules.LOOK_COMMANDS | own <= set(FAMILIES)
    assert set(rules.CHANGING_OPTIONS) <= set(FAMILIES)
    for path, options in rules.CHANGING_OPTIONS.items():
        assert set(options) <= {option.name for option in find(path).options}


def test_the_words_that_the_guard_reads_commands_by_are_those_of_the_table():
    assert set(GROUPS) <= set(rules.GROUPS)
    firsts = {path.split()[0] for path in FAMILIES} - {"complete-words"}
    assert firsts <= set(rules.FIRST_WORDS)
    assert set(rules.STATE_WORDS) == set(help.short_names())
    assert calls.tugcode_command(["claim", "work"]) == "state claim"
    assert calls.tugcode_command(["-C", "x", "init"]) == "init"


@pytest.mark.parametrize("role", ROLES)
def test_tugcode_itself_holds_a_role_to_its_commands(role, repo, tugcode, monkeypatch):
    monkeypatch.setenv("TUGCODE_ROLE", role)
    may = rules.LOOK_COMMANDS | rules.ROLES[role].commands
    for path, words in RUNS.items():
        # `mcp` lets a role look, and nothing else: tests/server/mcp/test_stdio.py.
        if path in ("hook pre-tool-use", "mcp"):
            continue
        done = tugcode("-C", repo.path, "--json", *words)
        assert ("E088" in done.codes) == (path not in may), path
    assert list(repo.path.glob(".tugtree/*")) == []
    assert not (repo.path / ".tugtool" / "state.db").exists()


@pytest.mark.parametrize("role", ROLES)
def test_what_only_looks_without_an_option_is_refused_with_it(role, repo, tugcode, monkeypatch):
    monkeypatch.setenv("TUGCODE_ROLE", role)
    review = ["state", "review", "work", "--accept", "--step", "step-1"]
    for words in (["doctor", "--fix"], review):
        assert tugcode("-C", repo.path, *words, "--json").codes == ["E088"]


@pytest.mark.parametrize("role", ["", "boss", "Coder", "coder "])
def test_a_role_that_nobody_knows_may_nothing_but_ask_for_help(role, repo, tugcode, monkeypatch):
    monkeypatch.setenv("TUGCODE_ROLE", role)
    assert tugcode("-C", repo.path, "status", "--json").codes == ["E088"]
    for words in (["--help"], ["state", "claim", "--help"], ["version"], ["--version"]):
        assert tugcode("-C", repo.path, *words).status == 0


@pytest.mark.parametrize("role", sampled(ROLES, 2))
def test_without_a_hook_a_real_process_refuses_before_anything_happens(role, work, repo):
    work("1 t", "2 t < 1")
    env = {**os.environ, "TUGCODE_ROLE": role}
    before = repo.git("for-each-ref"), (repo.path / ".tugtool").stat().st_mtime_ns
    for line in ("state claim work", "merge work", "implement work", "state reset work step-1"):
        words = [sys.executable, "-m", "tugtool", "-C", str(repo.path), *line.split()]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"the {role} (TUGCODE_ROLE) may not run tugcode" in done.stderr
    shown = [sys.executable, "-m", "tugtool", "-C", str(repo.path), "state", "show", "work"]
    assert subprocess.run(shown, env=env, capture_output=True, check=False).returncode == 0
    assert before == (repo.git("for-each-ref"), (repo.path / ".tugtool").stat().st_mtime_ns)


def test_the_presets_of_clients_go_no_further_than_the_rules():
    for role, access in clis.ACCESS.items():
        edits = rules.ROLES[role].edits != rules.NOTHING
        assert (access == clis.EDIT) == edits
        if access == clis.LOOK:
            assert rules.ROLES[role].programs == rules.VIEWERS


@pytest.mark.parametrize("role", [None, *ROLES])
def test_no_refusal_advises_to_force_anything(role, repo):
    for may, case in cases(role):
        said = refusal(role, case, str(home(repo, role))) or ""
        advice = said.partition("Instead: ")[2]
        assert may or advice
        assert "force" not in advice
        assert "reconcile" not in advice
