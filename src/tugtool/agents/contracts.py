"""What each role gets and must answer: JSON Schemas, and what is wrong with an answer, in words."""

from __future__ import annotations

import functools
import json
import os

from tugtool import files
from tugtool.agent_settings import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

#: More would not help whoever reads them, and an answer can have a million.
MOST_PROBLEMS = 10
#: Of a wrong value, as much is shown.
MOST_SHOWN = 80

_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "text",
}


@functools.cache
def schema(role: str, *, of_input: bool = False) -> dict[str, object]:
    """The JSON Schema of what `role` answers, or of what it gets."""
    if role not in ROLES:
        raise KeyError(role)
    name = f"{role}.input.json" if of_input else f"{role}.json"
    path = os.path.join(os.path.dirname(__file__), "contracts", name)
    loaded: dict[str, object] = json.loads(files.read(path))
    return loaded


def problems(role: str, answer: object) -> list[str]:
    """What is wrong with an answer of `role`, in words; nothing if it keeps its contract."""
    return _problems(role, answer, of_input=False)


def input_problems(role: str, given: object) -> list[str]:
    """What is wrong with what `role` is about to get."""
    return _problems(role, given, of_input=True)


def _problems(role: str, value: object, *, of_input: bool) -> list[str]:
    found = []
    for error in _validator(role, of_input=of_input).iter_errors(value):
        found += [told for told in _told(error) if told not in found]
        if len(found) >= MOST_PROBLEMS:
            break
    return found[:MOST_PROBLEMS]


@functools.cache
def _validator(role: str, *, of_input: bool) -> Draft202012Validator:
    # A sixth of a second to import: only for whoever has an answer to check.
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema(role, of_input=of_input))


def _told(error: ValidationError) -> Iterator[str]:
    where = _path(error.absolute_path)
    if error.validator == "required":
        # The library tells one at a time of those that the schema lists.
        missing = [name for name in error.validator_value if name not in error.instance]
        yield from (f"{_path([*error.absolute_path, name])} is missing" for name in missing)
        return
    expected = _expected(str(error.validator), error.validator_value)
    yield f"{where or 'the answer'} is {_shown(error.instance)}, and must be {expected}"


def _expected(rule: str, value: object) -> str:
    if rule == "enum" and isinstance(value, list):
        return "one of " + ", ".join(json.dumps(each) for each in value)
    if rule == "type":
        names = value if isinstance(value, list) else [value]
        return " or ".join(_TYPES[str(name)] for name in names)
    if rule == "minimum":
        return f"at least {value}"
    if rule == "const":
        return json.dumps(value)
    return "an object or text as the contract has it"


def _path(parts: Iterable[str | int]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."
