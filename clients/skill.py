"""A skill as the model reads it: the command lines of its text, to be filled in and run."""

import json
import re
from collections.abc import Generator, Mapping
from typing import Any

from player import Unscripted
from wire import Call, Result

Moves = Generator[Call, Result, dict[str, Any]]

FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"\{(\w+)\}")
BASE = re.compile(r"^Base directory for this skill: (.+)$", re.MULTILINE)


class Skill:
    """What a client has put before the model."""

    def __init__(self, prompt: str) -> None:
        base = BASE.search(prompt)
        if base is None:
            raise Unscripted("the prompt has no skill in it")
        self.directory = base[1]
        self.lines = [line for block in FENCE.findall(prompt) for line in block.splitlines()]

    def line(self, *words: str) -> str:
        """The first command line that has all of these words."""
        for line in self.lines:
            if all(word in line for word in words):
                return str(line)
        raise Unscripted(f"the skill has no command with {words}")

    def run(self, *words: str, **values: object) -> Moves:
        """Run that line with its fields filled in; what is in `data` of the answer."""
        return (yield from tugcode(filled(self.line(*words), values)))


def filled(line: str, values: Mapping[str, object]) -> str:
    """A command line with its fields filled in, quoted as the skill asks for."""
    return FIELD.sub(lambda field: _written(values[field[1]]), line)


def tugcode(command: str) -> Moves:
    """Run a command that answers with an envelope and has to succeed."""
    result = yield bash(command)
    if result.failed:
        raise Unscripted(f"{command}: {result.text}")
    data: dict[str, Any] = json.loads(result.text)["data"]
    return data


def bash(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "as the skill says"})


def last_object(text: str) -> dict[str, Any]:
    """The last line that is a JSON object."""
    found: dict[str, Any] = json.loads([line for line in text.splitlines() if line[:1] == "{"][-1])
    return found


def _written(value: object) -> str:
    text = str(value) if isinstance(value, str | int) else json.dumps(value)
    return text.replace("'", "’")  # noqa: RUF001 - as the skill asks for
