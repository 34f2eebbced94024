"""Programs that only look, unless their words make them do more."""

from __future__ import annotations

from tugtool.guard import options, rules, sed


def does_more(name: str, words: list[str]) -> bool:
    """Whether a program that only looks was told to run something, or to change it."""
    rest = words[1:]
    if name == "sed":
        call = sed.Call(rest)
        return call.from_file or call.in_place or not call.is_harmless()
    if name == "find":
        return any(word.startswith(_never(name)) for word in rest)
    if name == "date" and any(word[:1] not in "+-" for word in _values_aside(rest)):
        return True
    if name == "set":
        letters = {mark for word in rest for mark in options.letters(word)}
        return not letters <= set("efuxvo") or not {"allexport", "keyword"}.isdisjoint(rest)
    return any(_is(word, never, name) for never in _never(name) for word in rest)


def _never(name: str) -> tuple[str, ...]:
    return rules.VIEWING_NEVER.get(name, ())


def _is(word: str, never: str, name: str) -> bool:
    if never.startswith("--"):
        return options.means(word, never)
    return never[1:] in options.letters(word, rules.VIEWING_VALUED.get(name, "") + never[1:])


def _values_aside(words: list[str]) -> list[str]:
    return options.plain(words, ("-d", "--date", "-f", "--file", "-r", "--reference"))
