"""What the other tests rely on: who plays, what is noted, and that nothing outlives its time."""

import pytest

import running
from endpoint import serving
from player import CONDUCTOR, Cast, Unscripted
from running import Home
from script import Part
from skill import Skill
from wire import Ask, Call, Result, read


def ask(*results: str, system: str = "") -> Ask:
    return Ask(system, "hello", frozenset(), tuple(Result(text, False) for text in results))


def twice(prompt: str) -> Part:
    """Looks twice, and tells what it saw."""
    first = yield Call("Read", {"file_path": "1"})
    second = yield Call("Read", {"file_path": first.text})
    return f"{prompt}, {first.text}, {second.text}"


PLAYED = Cast({CONDUCTOR: twice}, {"coder-agent": "You are the coder."})


def test_an_actor_goes_on_where_the_conversation_stands() -> None:
    assert PLAYED.answer(ask()) == Call("Read", {"file_path": "1"})
    assert PLAYED.answer(ask("2")) == Call("Read", {"file_path": "2"})
    assert PLAYED.answer(ask("2", "3")) == "hello, 2, 3"


def test_an_agent_is_known_by_its_prompt() -> None:
    assert PLAYED.part(ask(system="Be brief. You are the coder. Notes: ...")) == "coder-agent"
    assert PLAYED.part(ask(system="Be brief.")) == CONDUCTOR


def test_a_part_that_nobody_plays_is_noted() -> None:
    with serving(PLAYED) as endpoint:
        words = endpoint.answer(ask(system="You are the coder."))
        assert words == "The script ends here: nobody plays coder-agent"
        assert endpoint.lost == ["nobody plays coder-agent"]


def test_a_request_is_read_whole() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": "no", "is_error": True}
    body = {
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "Read"}],
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]},
            {"role": "user", "content": [result]},
        ],
    }
    assert read(body) == Ask("Be brief.", "hello", frozenset({"Read"}), (Result("no", True),))


def test_a_skill_without_a_command_leaves_the_script_at_a_loss() -> None:
    skill = Skill("Base directory for this skill: /x\n```sh\ntugcode status --json\n```\n")
    assert skill.line("status") == "tugcode status --json"
    with pytest.raises(Unscripted, match="no command with"):
        skill.line("merge")


def test_a_process_that_is_left_is_noticed_and_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LINGERING_SECONDS", 0)
    home.run("sh", "-c", "sleep 600 >/dev/null 2>&1 &").expect()
    assert len(home.lasting()) == 1
    home.end()
    monkeypatch.undo()
    assert home.lasting() == []


def test_a_client_that_takes_too_long_is_ended(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LONGEST_SECONDS", 0.2)
    assert home.run("sleep", "600").status != 0
