"""The check of a tool's arguments against its definition."""

from __future__ import annotations

from tugtool import errors
from tugtool.system import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    Schema = Mapping[str, Any]


_NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}
#: Numbers beyond it are none of ours, and the database could not hold them.
_LARGEST = 1 << 53


def cleaned(value: Any) -> Any:
    """The value without what no text of ours may have: NUL, and halves of characters."""
    if isinstance(value, str):
        value = value.replace("\0", "\u2400")
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [cleaned(each) for each in value]
    if isinstance(value, dict):
        # `null` is what some clients send for an argument that they leave out.
        return {cleaned(key): cleaned(each) for key, each in value.items() if each is not None}
    return value


def check_arguments(tool: str, schema: Schema, given: Mapping[str, Any]) -> None:
    """Raise E070 with the first thing that is wrong."""
    for problem, close in _problems(schema, given, ""):
        mended = _mended(schema, given)
        error = errors.Usage(f"{tool}: {problem}", close=close)
        if not any(_problems(schema, mended, "")):
            error.facts["mended"] = mended
        raise error


#: What models write -> what is meant.
_MEANT = {
    **dict.fromkeys(("done", "complete", "finished", "passed", "x"), "completed"),
    **dict.fromkeys(("todo", "pending", "not_started"), "open"),
    **dict.fromkeys(("skipped", "blocked", "waiting"), "deferred"),
    **dict.fromkeys(("number", "index", "id"), "ordinal"),
}


def _mended(schema: Schema, value: Any) -> Any:
    """The arguments as they were probably meant."""
    if isinstance(value, dict) and schema.get("type") == "object":
        return dict(_mended_member(schema["properties"], *each) for each in value.items())
    if isinstance(value, list):
        return [_mended(schema.get("items", {}), each) for each in value]
    if "enum" in schema and isinstance(value, str):
        word = value.strip().lower().replace("-", "_").replace(" ", "_").removesuffix("s")
        close = [each for each in (word, f"{word}s", _MEANT.get(word)) if each in schema["enum"]]
        return close[0] if close else value
    is_number = schema.get("type") == "integer" and isinstance(value, str)
    return int(value) if is_number and value.isdecimal() and value.isascii() else value


def _mended_member(known: Mapping[str, Schema], key: str, value: Any) -> tuple[str, Any]:
    if key not in known:
        close = _meant(key, known)
        key = close[0] if close else key
    return key, _mended(known.get(key, {}), value)


def _problems(schema: Schema, value: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        yield f"{name or 'arguments'} is {_NAMES[kind]}", []
        return
    if "enum" in schema and value not in schema["enum"]:
        meant = _mended(schema, value)
        yield f"{name} is one of {', '.join(schema['enum'])}", [meant] if meant != value else []
    if kind == "integer":
        yield from _range(schema, value, name)
    elif kind == "string" and len(value) > schema.get("maxLength", len(value)):
        yield f"{name} has at most {schema['maxLength']} characters", []
    elif kind == "array":
        yield from _of_list(schema, value, name)
    elif kind == "object":
        yield from _of_object(schema, value, name)


def _is(value: object, kind: str) -> bool:
    # True is an int for Python.
    return isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")


def _range(schema: Schema, value: int, name: str) -> Iterator[tuple[str, list[str]]]:
    least, most = schema.get("minimum", -_LARGEST), schema.get("maximum", _LARGEST)
    if value < least:
        yield f"{name} is at least {least}", []
    elif value > most:
        yield f"{name} is at most {most}", []


def _of_list(schema: Schema, value: list[Any], name: str) -> Iterator[tuple[str, list[str]]]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{name} has at most {schema['maxItems']} entries", []
        return
    for place, each in enumerate(value):
        yield from _problems(schema.get("items", {}), each, f"{name}[{place}]")


def _meant(key: str, known: Collection[str]) -> list[str]:
    """The name that another word stands for, or those that are close."""
    word = _MEANT.get(key, "")
    return [word] if word in known else _close(key, known)


def _close(key: str, known: Collection[str]) -> list[str]:
    """The names that are meant, perhaps only by their beginning: `wiat` for `wait_seconds`."""
    begin = {each[: len(key)]: each for each in known if len(each) > len(key) > 2}
    return text.names(key, known) or [begin[each] for each in text.names(key, begin)]


def _of_object(schema: Schema, value: Mapping[str, Any], name: str) -> Iterator[Any]:
    known, within = schema["properties"], f" in {name}" if name else ""
    for key in value:
        if key not in known:
            close = _meant(key, known)
            names = "" if close else f"; known: {', '.join(known)}"
            yield f'there is no argument "{key[:60]}"{within}{names}', close
    for key in schema.get("required", ()):
        if key not in value:
            yield f'"{key}" is missing{within}', []
    for key, each in value.items():
        if key in known:
            yield from _problems(known[key], each, f"{name}.{key}" if name else key)
