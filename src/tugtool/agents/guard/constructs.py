"""Rare parts of the shell's language: here-documents, case, arrays, functions."""

from __future__ import annotations

from tugtool.agents.guard.location import UNKNOWN, Region
from tugtool.agents.guard.shell import FOUND, JOINED, TEMPORARY, CommandReader, Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.guard.shell import Simple


def begin_document(reader: CommandReader, made: Simple) -> None:
    """Read the start of a here-document, and remember its end mark."""
    reader.at += 2
    mark = "-" if reader.peek() == "-" else ""
    reader.at += len(mark)
    reader.skip_blank()
    start = reader.at
    end = reader.word()
    raw = reader.text[start : reader.at]
    # The shell expands no variable there.
    if not raw or any(mark in "\n$`*?[{<>" for mark in raw):
        raise Unclear("the end of its here-document is not clear: write <<'EOF'")
    quoted = any(each in "'\"\\" for each in raw)
    reader.pending.append((made, f"{mark}'" if quoted else mark, end))


def read_documents(reader: CommandReader) -> None:
    """Read the here-documents that begin here; only `$` starts commands in them."""
    for made, marks, end in reader.pending:
        start, stop = reader.at, -1
        while stop < 0:
            at = reader.at
            reader.at = reader.text.find("\n", at) + 1 or len(reader.text) + 1
            row = reader.text[at : reader.at - 1]
            if (row.lstrip("\t") if "-" in marks else row) == end or at >= len(reader.text):
                stop = at
        text = reader.text[start:stop]
        made.texts.append(text if "'" in marks else _expanded(reader, made, text))
    reader.pending = []


def _expanded(reader: CommandReader, made: Simple, text: str) -> str:
    """The text of a here-document with variables and commands replaced."""
    if JOINED in text:
        raise Unclear("its here-document has lines that go on: write <<'EOF'")
    inner = reader.inner(text)
    parts = []
    while mark := inner.peek():
        inner.at += 1
        if mark == "\\":
            mark = inner.peek()
            inner.at += 1
        elif mark == "$":
            mark = inner.expansion()
        elif mark == "`":
            mark = inner.backquoted()
        parts.append(mark)
    # The commands in the text run before the command that reads it.
    at = reader.found.index(made) if made in reader.found else len(reader.found)
    reader.take(inner, made.scope, at)
    return "".join(parts)


def take_keyword(reader: CommandReader, word: str) -> bool:
    """Read the words that belong to a keyword; True if a command may follow."""
    if word == "case":
        _begin_case(reader)
    elif word == "function":
        reader.skip_blank()
        begin_function(reader, reader.some_word()[1])
    elif word == "esac":
        reader.cases -= 1
    elif reader.defining and not reader.regions.open:
        _end_function(reader)
    return word in ("case", "function")


def _begin_case(reader: CommandReader) -> None:
    """Read the words between `case` and the commands of its first branch."""
    reader.skip_blank()
    reader.some_word()
    _skip_lines(reader)
    if reader.some_word()[1] != "in":
        raise Unclear("it has a case without an in: write it with if")
    reader.cases += 1
    next_pattern(reader)


def next_pattern(reader: CommandReader) -> None:
    """Read the patterns of the next branch, up to their `)`, if there is a branch."""
    if not reader.cases:
        raise Unclear("it has a ;; outside of a case: write the commands out")
    while _skip_lines(reader) == "&":
        reader.at += 1
    if reader.peek(4) == "esac" and reader.peek(5)[4:] in ("", *" \t\r\n;&|()<>"):
        return
    reader.at += reader.peek() == "("
    mark = "|"
    while mark == "|":
        reader.skip_blank()
        reader.some_word()
        mark = reader.skip_blank()
        reader.at += 1
    if mark != ")":
        raise Unclear("it has a case with a pattern that cannot be read: write it with if")
    reader.regions.keyword("else")
    reader.begun = len(reader.found)


def _skip_lines(reader: CommandReader) -> str:
    while (mark := reader.skip_blank()) == "\n":
        if reader.pending:
            raise Unclear("a here-document begins there: put its command on a line of its own")
        reader.at += 1
    return mark


_ARRAY = "it sets an array in a way that cannot be followed: write the values out"


def read_array(reader: CommandReader, name: str) -> None:
    """Read the values in an array's assignment."""
    if reader.regions.open or reader.called or name in reader.arrays or name.endswith("+"):
        raise Unclear(_ARRAY)
    reader.at += 1
    values: list[str] = []
    while (mark := _skip_lines(reader)) != ")":
        if not mark or mark == "[":
            raise Unclear(_ARRAY)
        values.append(reader.some_word()[0])
    reader.at += 1
    reader.arrays[name] = values


def take_array(reader: CommandReader, made: Simple) -> bool:
    """Replace `"${NAME[@]}"`, if it is next, by the values of the array."""
    start = reader.at + 3
    end = reader.text.find('[@]}"', start)
    name, rest = reader.text[start:end], reader.text[end + 5 : end + 6]
    if reader.peek(3) != '"${' or name not in reader.arrays:
        return False
    if not made.words or rest not in ("", *" \t\r\n;&|)"):
        raise Unclear("a part of a command is an array: write the values out")
    reader.at = end + 5
    made.words += reader.arrays[name]
    return True


_FUNCTION = "it defines a function in a way that cannot be followed: write its commands out"
#: The number of commands in functions that are judged.
_MOST_COMMANDS = 1000


def begin_function(reader: CommandReader, name: str) -> None:
    """Read the text between a function's name and its commands."""
    if reader.skip_blank() == "(":
        reader.at += 1
        if reader.skip_blank() != ")":
            raise Unclear(_FUNCTION)
        reader.at += 1
    inside = reader.regions.open or reader.called or reader.defining or reader.piped
    known = name in reader.functions or not name.replace("_", "a").replace("-", "a").isalnum()
    if inside or known or _skip_lines(reader) != "{" or reader.peek(2) not in ("{ ", "{\n"):
        raise Unclear(_FUNCTION)
    reader.at += 1
    reader.regions.keyword("{")
    reader.defining = (name, reader.at)


def _end_function(reader: CommandReader) -> None:
    """Remember the commands of a function for its calls."""
    name, start = reader.defining or ("", 0)
    reader.defining = None
    reader.functions[name] = reader.text[start : reader.at - 1]
    if reader.skip_blank() in ("<", ">"):
        raise Unclear(_FUNCTION)


def call(reader: CommandReader, made: Simple) -> None:
    """Replace a function's call by the function's commands."""
    name, *given = made.words
    if made.assigned or any(each is made for each, _, _ in reader.pending):
        raise Unclear("it calls a function with settings or a text of its own: write it out")
    known = {str(at): word for at, word in enumerate(given, 1)}
    known |= {"@": given[0], "*": given[0]} if len(given) == 1 else {}
    inner = reader.inner(reader.functions[name])
    inner.called = True
    # Other values would become several words.
    inner.known = {
        **reader.known,
        **{k: v for k, v in known.items() if not set(v) & set(" \t\n*?[{")},
    }
    inner.read("")
    region = Region("{")
    for each in inner.found:
        if each.words[:1] == ["shift"] or (each.words[:1] == ["set"] and "--" in each.words):
            raise Unclear(_FUNCTION)
        each.scope = (*reader.regions.open, region, *each.scope)
        each.before = each.before or made.before
        each.texts += made.texts
    reader.found += inner.found
    if len(reader.found) > _MOST_COMMANDS:
        raise Unclear("its functions run very many commands: write them out")
    # The program that reads this output may run it as code.
    made.texts += [" ".join(each.words) for each in inner.found]
    made.words = []


_CHANGING = (
    *("declare", "eval", "export", "local", "mapfile", "printf", "read", "readarray", "readonly"),
    *("typeset", "unset", ":"),
)


def refuse_changed(reader: CommandReader) -> None:
    """Refuse a line that changes its arrays, or exports its functions."""
    for simple in reader.found:
        named = {word.lstrip("-").partition("=")[0].rstrip("+") for word in simple.words[1:]}
        changes = simple.words[:1] and simple.words[0] in _CHANGING
        if changes and (simple.words[0] == "eval" or not named.isdisjoint(reader.arrays)):
            raise Unclear(_ARRAY)
        exported = any("f" in word for word in simple.words[1:] if word[:1] in "-+")
        if reader.functions and (simple.words[:1] == ["trap"] or (changes and exported)):
            raise Unclear(_FUNCTION)
    settings = [each.partition("=")[0].rstrip("+") for s in reader.found for each in s.assigned]
    if any(settings.count(name) > 1 for name in reader.arrays):
        raise Unclear(_ARRAY)


def refuse_odd(reader: CommandReader, name: str) -> None:
    """Refuse a use of an array, or of a function's parameter, whose value is unknown."""
    parameter = reader.called and name not in reader.known and name[:1] in "@*0123456789"
    array = reader.arrays and _base(name) in reader.arrays and name[:1] != "#"
    if parameter or array:
        raise Unclear("it uses an array or a parameter in an odd way: write the value out")


def _base(name: str) -> str:
    """The name of the variable in the text between `${` and `}`."""
    name = name.lstrip("#!")
    end = (at for at, mark in enumerate(name) if not (mark.isalnum() or mark == "_"))
    return name[: next(end, len(name))]


def printed(made: list[Simple]) -> str:
    """The output of commands, if it is known: this directory, or a new file."""
    if [each.words for each in made] in ([["pwd"]], [["git", "rev-parse", "--show-toplevel"]]):
        return "."
    if len(made) == 1 and (name := _looked_up(made[0].words)):
        return FOUND + name
    return TEMPORARY if len(made) == 1 and _makes_temporary(made[0]) else UNKNOWN


def _looked_up(words: list[str]) -> str:
    """The program whose path `which` prints; "" if the command is another one."""
    start = 2 if words[:2] == ["command", "-v"] else 1 if words[:1] == ["which"] else 0
    name = words[start] if start and len(words) == start + 1 else ""
    return "" if UNKNOWN in name or name.startswith("-") or "/" in name else name


def _makes_temporary(made: Simple) -> bool:
    plain = made.words[:1] == ["mktemp"] and not made.assigned + made.writes
    return plain and all(
        word in ("-d", "-q", "-t", "--directory", "--quiet")
        or (word.startswith("/tmp/") and ".." not in word)
        or (not word.startswith("-") and "/" not in word and made.words[at - 1] == "-t")
        for at, word in enumerate(made.words[1:], 1)
    )
