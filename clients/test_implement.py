"""Claude Code carries out a plan of two steps by the implement skill, with a scripted model.

The skill, the agents, the guard and `tugcode` are the real ones; in the second step agents try
what their roles may not do, are refused, and get on with their work. No session may leave a
process behind or want further than loopback.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import PLUGIN
from endpoint import Endpoint, serving
from player import CONDUCTOR, cast
from running import ROOT, Home
from script import ACTORS, DISGUISE, MESSAGES, PLAN, TRACE
from skill import last_object
from stage import CAREFUL, LENIENT, Repository, Used, transcript

ROLES = ("architect", "coder", "reviewer", "committer")
STEPS = ["step-1", "step-2"]


class Run(NamedTuple):
    """A client's whole session, and the place where it was."""

    home: Home
    repository: Repository
    endpoint: Endpoint
    events: list[dict[str, Any]]
    used: list[Used]

    def refused(self) -> list[tuple[str | None, str]]:
        """Who was refused what by the guard."""
        asked = [each for each in self.used if each.refused]
        return [(each.agent, each.arguments.get("command", each.tool)) for each in asked]

    def steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = self.repository.state()["steps"]
        return steps


def play(
    place: Path,
    endpoint: Endpoint,
    marketplace: Path = ROOT,
    *,
    settings: dict[str, Any] = LENIENT,
    rules: bool = True,
) -> Run:
    """Install the plugin in a home of its own and let the client carry out the plan."""
    home = Home(place / "home", endpoint.url)
    repository = Repository(place / "repository", home, settings=settings, rules=rules)
    home.run("claude", "plugin", "marketplace", "add", str(marketplace)).expect()
    home.run("claude", "plugin", "install", f"{PLUGIN}@tugtool").expect()
    told = home.run(
        *("claude", "--print", f"/{PLUGIN}:implement {PLAN}"),
        *("--output-format", "stream-json", "--verbose"),
        cwd=repository.path,
        ANTHROPIC_BASE_URL=endpoint.url,
        ANTHROPIC_API_KEY="placeholder",
    ).expect()
    events = [json.loads(line) for line in told.splitlines()]
    assert home.lasting() == []
    assert endpoint.knocks == []
    return Run(home, repository, endpoint, events, transcript(events))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The session that the tests look at; it takes place once."""
    place = tmp_path_factory.mktemp("play")
    with serving(cast(ROOT / PLUGIN, ACTORS)) as endpoint:
        yield play(place, endpoint)


def test_the_session_ends_with_the_plan_done(run: Run) -> None:
    last = run.events[-1]
    assert (last["subtype"], last["is_error"]) == ("success", False)
    assert last["result"] == f"{PLAN} is done: all_completed"


def test_the_script_was_never_at_a_loss(run: Run) -> None:
    assert run.endpoint.lost == []


def test_the_model_was_given_the_whole_skill(run: Run) -> None:
    text = (ROOT / PLUGIN / "skills" / "implement" / "SKILL.md").read_text()
    body = text.split("\n---\n", 1)[1].strip().replace("$ARGUMENTS", PLAN)
    (ask,) = run.endpoint.prompts(CONDUCTOR)
    assert body in ask.prompt


@pytest.mark.parametrize("role", ROLES)
def test_each_step_had_its_agent(run: Run, role: str) -> None:
    asked = run.endpoint.prompts(f"{role}-agent")
    assert [last_object(ask.prompt)["step_anchor"] for ask in asked] == STEPS


def test_the_whole_was_audited_once(run: Run) -> None:
    assert len(run.endpoint.prompts("auditor-agent")) == 1


def test_a_reviewer_was_offered_no_tool_that_edits(run: Run) -> None:
    offered = {tool for ask in run.endpoint.prompts("reviewer-agent") for tool in ask.tools}
    assert "Bash" in offered
    assert offered.isdisjoint({"Edit", "Write", "NotebookEdit", "Agent"})


def test_every_step_is_completed_with_nothing_open(run: Run) -> None:
    state = run.repository.state()
    assert [step["status"] for step in state["steps"]] == ["completed", "completed"]
    assert {item["status"] for item in state["checklist_items"]} == {"completed"}


def test_every_step_has_its_commit_with_its_trailers(run: Run) -> None:
    for step in run.steps():
        commit, anchor = step["commit_hash"], step["anchor"]
        trailers = run.repository.trailers(commit)
        assert trailers.pop("Tug-Claim").endswith(f"/{anchor}/{step['attempt']}")
        plan = f".tugtool/tugplan-{PLAN}.md"
        assert trailers == {"Tug-Step": anchor, "Tug-Plan": plan}
        assert run.repository.git("log", "-1", "--format=%s", commit) == f"{MESSAGES[anchor]}\n"


def test_no_commit_is_there_beside_them(run: Run) -> None:
    made = run.repository.git("rev-list", "--all", "^main").split()
    assert sorted(made) == sorted(step["commit_hash"] for step in run.steps())


def test_the_agents_answers_are_kept(run: Run) -> None:
    kept = [[each["kind"] for each in step["artifacts"]] for step in run.steps()]
    each = ["architect_strategy", "reviewer_verdict"]
    assert kept == [each, [*each, "auditor_summary"]]


def test_the_guard_refused_what_the_roles_may_not_do(run: Run) -> None:
    refused = [(agent, words.split(" /")[0].split(" .")[0]) for agent, words in run.refused()]
    assert refused == [
        ("tugplug:coder-agent", "git -C"),
        ("tugplug:coder-agent", "tugcode state artifact"),
        ("tugplug:coder-agent", "Edit"),
        ("tugplug:reviewer-agent", "touch"),
    ]


def test_the_refusals_name_the_role(run: Run) -> None:
    for each in run.used:
        if each.refused and each.agent is not None:
            assert each.agent.removeprefix(f"{PLUGIN}:").removesuffix("-agent") in each.told


def test_a_command_in_disguise_is_refused_by_tugcode_itself(run: Run) -> None:
    (only,) = [each for each in run.used if each.failed and not each.refused]
    assert only.arguments["command"].endswith(DISGUISE)
    assert "tugcode: E" in only.told
    assert "coder" in only.told


def test_what_was_refused_left_no_trace(run: Run) -> None:
    assert not run.repository.contains(TRACE)


def test_nothing_is_claimed_in_the_end(run: Run) -> None:
    assert [step["claimed_by"] for step in run.steps()] == [None, None]


def test_what_init_writes_suffices_where_edits_are_accepted(tmp_path: Path) -> None:
    with serving(cast(ROOT / PLUGIN, ACTORS)) as endpoint:
        run = play(tmp_path, endpoint, settings=CAREFUL)
        assert endpoint.lost == []
        assert [step["status"] for step in run.steps()] == ["completed", "completed"]


def test_without_it_agents_have_to_ask_before_they_look(tmp_path: Path) -> None:
    with serving(cast(ROOT / PLUGIN, ACTORS)) as endpoint:
        run = play(tmp_path, endpoint, settings=CAREFUL, rules=False)
        assert [step["status"] for step in run.steps()] == ["in_progress", "pending"]
        assert "requires approval" in next(each.told for each in run.used if each.failed)


def test_without_the_hook_the_guard_is_missed(tmp_path: Path, marketplace: Path) -> None:
    shutil.rmtree(marketplace / PLUGIN / "hooks")
    _unguarded(tmp_path, marketplace)


def test_a_hook_that_cannot_be_started_is_noticed(tmp_path: Path, marketplace: Path) -> None:
    hooks = marketplace / PLUGIN / "hooks" / "hooks.json"
    hooks.write_text(hooks.read_text().replace("tugcode", "no-such-command"))
    _unguarded(tmp_path, marketplace)


def _unguarded(place: Path, marketplace: Path) -> None:
    with serving(cast(marketplace / PLUGIN, ACTORS)) as endpoint:
        run = play(place, endpoint, marketplace)
        assert run.refused() == []
        assert run.repository.contains(TRACE)
