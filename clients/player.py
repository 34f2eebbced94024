"""Who plays which part: an actor is a generator that yields tool calls and is sent their results.

Nothing is remembered between requests: a client sends the whole conversation each time, so the
actor is played from the beginning up to the point where the conversation stands.
"""

from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import NamedTuple

from wire import Answer, Ask, Call, Result

#: Gets the prompt, yields calls, is sent their results, and returns its last words.
Actor = Callable[[str], Generator[Call, Result, str]]

#: The part of whoever is not an agent of the plugin.
CONDUCTOR = "conductor"


class Unscripted(Exception):
    """Something happened that the script has no answer to."""


class Cast(NamedTuple):
    """The actors by part, and the prompt by which each agent of the plugin is known."""

    actors: Mapping[str, Actor]
    prompts: Mapping[str, str]

    def part(self, ask: Ask) -> str:
        """Whose words are asked for: that agent's whose prompt the system prompt contains."""
        for part, prompt in self.prompts.items():
            if prompt in ask.system:
                return part
        return CONDUCTOR

    def answer(self, ask: Ask) -> Answer:
        """What the one who is asked says or does next."""
        part = self.part(ask)
        if part not in self.actors:
            raise Unscripted(f"nobody plays {part}")
        return _move(self.actors[part], ask)


def cast(plugin: Path, actors: Mapping[str, Actor]) -> Cast:
    """The cast for a plugin, whose agents are known by the text of their files."""
    files = sorted((plugin / "agents").glob("*.md"))
    return Cast(actors, {path.stem: _body(path.read_text()) for path in files})


def _move(actor: Actor, ask: Ask) -> Answer:
    moves = actor(ask.prompt)
    try:
        call = next(moves)
        for result in ask.results:
            call = moves.send(result)
    except StopIteration as end:
        return str(end.value)
    return call


def _body(text: str) -> str:
    return text.split("\n---\n", 1)[1].strip()
