"""Read a TOML file; one as people mostly write them, without the full reader.

Importing `tomllib` costs more than a whole bare start of the interpreter, because of `re`, and a
command with a settings file would pay that each time. Whatever is not plain goes to `tomllib`.
"""

from __future__ import annotations

from tugtool import errors

#: The characters of names and of the quoted texts that need no rules.
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz_")
_WORDS = {"true": True, "false": False}


def document_of(name: str, text: str) -> dict[str, object]:
    """Return what the text of the named file says; raise E071 if it is not TOML."""
    plain = plain_document(text)
    if plain is not None:
        return plain
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Other errors: an integer of 5000 digits, a thousand nested lists.
        # "Expected '=' after a key (at line 3, column 5)"; newer Pythons only add attributes.
        number = str(error).rpartition("(at line ")[2].partition(",")[0]
        line = int(number) if number.isdecimal() else None
        raise errors.BadSetting(name, f"is not TOML: {error}", line=line) from error


def plain_document(text: str) -> dict[str, object] | None:
    """Return sections of names with texts, numbers and truth values; None if it has more."""
    document: dict[str, object] = {}
    section: dict[str, object] | None = None
    for line in text.split("\n"):
        line = line.strip(" \t")
        if not line.isprintable():
            return None
        if line.startswith("["):
            name, end, rest = line[1:].partition("]")
            if not end or rest.strip(" \t") or not _is_name(name) or name in document:
                return None
            section = document[name] = {}
        elif line and not line.startswith("#"):
            name, equals, rest = line.partition("=")
            name, value = name.rstrip(" \t"), _value(rest.lstrip(" \t"))
            if section is None or not equals or value is None:
                return None
            if not _is_name(name) or name in section:
                return None
            section[name] = value
    return document


def _is_name(name: str) -> bool:
    return bool(name) and _NAME.issuperset(name)


def _value(rest: str) -> object | None:
    """Return a plain value that may have a comment after it."""
    if not rest.startswith('"'):
        word = rest.partition("#")[0].rstrip(" \t")
        if word.isdecimal() and word.isascii() and len(word) < 16:
            # TOML has no numbers that begin with zeros.
            return None if word[0] == "0" and word != "0" else int(word)
        return _WORDS.get(word)
    value, end, after = rest[1:].partition('"')
    after = after.lstrip(" \t")
    if not end or "\\" in value or (after and not after.startswith("#")):
        return None
    return value
