"""Options as programs read them: short ones in a row, long ones cut short."""

from __future__ import annotations


def letters(word: str, takes: str = "") -> str:
    """The short options that a word is made of, up to the first that takes the rest."""
    if word[:1] != "-" or word[1:2] == "-":
        return ""
    end = next((at for at, mark in enumerate(word) if at and mark in takes), len(word))
    return word[1 : end + 1]


def means(word: str, long: str) -> bool:
    """Whether a word is that long option, or a beginning of it that a program would take."""
    name = word.partition("=")[0]
    return name == long or (len(name) > 2 and name[:2] == "--" and long.startswith(name))


def values(words: list[str], short: str, long: str = "", takes: str = "") -> list[str]:
    """What an option is given, wherever it stands; `takes` are the others with a value."""
    found = []
    for at, word in enumerate(words):
        following = (*words[at + 1 : at + 2], "")[0]
        if word == "--":
            break
        if long and means(word, long):
            found.append(word.partition("=")[2] or following)
        elif short and short in letters(word, takes + short):
            found.append(word[word.index(short, 1) + 1 :] or following)
    return found


def plain(words: list[str], takes: tuple[str, ...] = ()) -> list[str]:
    """The words that are no options, nor the values of those in `takes`."""
    found: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return found + words[at + 1 :]
        if word in takes:
            at += 1
        elif not word.startswith("-") or word == "-":
            found.append(word)
        at += 1
    return found
