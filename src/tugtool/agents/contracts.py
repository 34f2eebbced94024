"""The contract and the prompt of each role."""

from __future__ import annotations

import functools
import json

from tugtool.system import files, os
from tugtool.system import text as system_text
from tugtool.system.agent_config import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError


#: More would not help the reader, and an answer can have a million.
MOST_PROBLEMS = 10
#: How many characters of a wrong value a message shows.
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
    """The JSON Schema of the answer of `role`, or of its input."""
    name = f"{role}.input.json" if of_input else f"{role}.json"
    loaded: dict[str, object] = json.loads(_file(role, f"contracts/{name}"))
    return loaded


def problems(role: str, value: object, *, of_input: bool = False) -> list[str]:
    """The breaches of contract in an answer of `role`, or in its input."""
    found = []
    for error in _validator(role, of_input=of_input).iter_errors(value):
        found += [told for told in _describe(error) if told not in found]
        if len(found) >= MOST_PROBLEMS:
            break
    return found[:MOST_PROBLEMS]


@functools.cache
def _validator(role: str, *, of_input: bool) -> Draft202012Validator:
    # The import takes a sixth of a second, so only a check pays for it.
    try:
        from jsonschema import Draft202012Validator
    except ModuleNotFoundError:
        # `tugcode` starts without `site`, which may be needed to find the library.
        import site

        site.main()
        from jsonschema import Draft202012Validator
    return Draft202012Validator(schema(role, of_input=of_input))


def _describe(error: ValidationError) -> Iterator[str]:
    where = _path(error.absolute_path)
    if error.validator == "required":
        # The library reports the missing fields one at a time.
        missing = [name for name in error.validator_value if name not in error.instance]
        yield from (f"{_path([*error.absolute_path, name])} is missing" for name in missing)
        return
    expected = _expected(str(error.validator), error.validator_value)
    yield f"{where or 'the answer'} is {_format_value(error.instance)}, and must be {expected}"


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


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


HEADING = "## Your input"


@functools.cache
def prompt_text(role: str) -> str:
    """The prompt of `role`, as the package has it."""
    return _file(role, f"prompts/{role}.md").decode()


def _file(role: str, name: str) -> bytes:
    if role not in ROLES:
        raise KeyError(role)
    return files.read(os.path.join(os.path.dirname(__file__), name))


def given(role: str, values: Mapping[str, object]) -> bytes:
    """The input of an agent: its prompt, and one line of JSON at the end."""
    return f"{prompt_text(role)}\n{HEADING}\n\n{system_text.encode(dict(values))}\n".encode()
