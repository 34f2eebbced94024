"""Parses a shell command into its simple commands, including those inside others.

Nothing is expanded. A part that is only known when the command runs (a variable, a pattern, the
output of another command) is `UNKNOWN` in its word. A command that cannot be parsed is `Unclear`.
"""

from __future__ import annotations

from tugtool.agents.guard.location import UNKNOWN, Region, Regions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

#: Longer commands are refused: a person could not judge them either.
MOST_CHARACTERS = 100_000
_DEEPEST = 20
_MOST_OPEN = 100
#: Keywords that a command follows.
_BEFORE = ("if", "then", "else", "elif", "while", "until", "do", "!", "{", "coproc", "time")
#: Keywords that no command follows.
_PLAIN = ("for", "select", "done", "fi", "}", "esac")
#: Rare keywords, which the module `constructs` reads.
_RARE = ("case", "esac", "function", "}")
#: Before `<` or `>` they name an open file.
_DIGITS = "0123456789"
#: Stands for a file that `mktemp` makes.
TEMPORARY = "/tmp/tmp.XXXXXXXXXX"
#: Stands for the directory of a program that `which` finds.
FOUND = "/which/"
_BLANK = " \t\r"
_ENDS = ";&|\n()"
_PAIRS = ("&&", "||", "|&", ";;", ";&")
#: Joins a line with the next one, except in comments and single quotes.
JOINED = "\\\n"


class Unclear(Exception):
    """A command that cannot be parsed; the message says how to write it instead."""


class Simple:
    """One program with its words, the variables set for it, and where its output goes."""

    __slots__ = ("assigned", "before", "ends", "reads", "scope", "texts", "words", "writes")

    def __init__(self) -> None:
        #: The command whose output it reads through a `|`.
        self.before: Simple | None = None
        #: The mark after it: `|`, `&&`, `;` and so on.
        self.ends = ""
        #: The regions of the line that it is in.
        self.scope: tuple[Region, ...] = ()
        #: Its input, if that is in the line itself.
        self.texts: list[str] = []
        #: The `NAME=value` before the program.
        self.assigned: list[str] = []
        self.words: list[str] = []
        #: Files that are written, and files that are read.
        self.writes: list[str] = []
        self.reads: list[str] = []


def commands(text: str, depth: int = 0, known: dict[str, str] | None = None) -> list[Simple]:
    """Every simple command of `text`, in the order in which they begin.

    `known` has the values of variables; all others are unknown.
    """
    if len(text) > MOST_CHARACTERS:
        raise Unclear(f"it has over {MOST_CHARACTERS} characters: put it into a script")
    if UNKNOWN in text:
        raise Unclear("it has a NUL character: leave it out")
    reader = CommandReader(text, depth, {} if known is None else known)
    reader.read("")
    if reader.arrays or reader.functions:
        reader.rare.refuse_changed(reader)
    return reader.found


class CommandReader:
    """Characters in, words and simple commands out."""

    def __init__(self, text: str, depth: int, known: dict[str, str]) -> None:
        if depth > _DEEPEST:
            raise Unclear("it is nested too deeply: write its parts as commands of their own")
        self.text, self.at, self.depth = text, 0, depth
        #: Values of variables.
        self.known = known
        self.found: list[Simple] = []
        self.regions = Regions()
        #: The number of commands before the list that is being read.
        self.begun = 0
        #: The command whose output the next command reads.
        self.piped: Simple | None = None
        #: Here-documents that begin on the next line.
        self.pending: list[tuple[Simple, str, str]] = []
        #: The number of open `case`; values of arrays; texts of functions.
        self.cases = 0
        self.arrays: dict[str, list[str]] = {}
        self.functions: dict[str, str] = {}
        #: The function being read, and its start; `called` inside a called function.
        self.defining: tuple[str, int] | None = None
        self.called = False

    @property
    def rare(self) -> ModuleType:
        """The module that reads the rare parts of the language."""
        from tugtool.agents.guard import constructs

        return constructs

    def read(self, until: str) -> None:
        """Read commands up to `until`, or to the end."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unclear("it is nested too deeply: write its parts as commands of their own")
        outer, begun = self.regions.open, self.begun
        if until:
            self.regions.add("(")
        self.begun = len(self.found)
        while (mark := self.command()) and mark != ")":
            self.at += len(mark)
            if mark == "\n" and self.pending:
                self.rare.read_documents(self)
            if mark == "(":
                self.read(")")
            else:
                self.listed(mark)
        if mark != until:
            raise Unclear(f"a {until} is missing" if until else "it has a ) too many")
        self.at += len(mark)
        self.depth -= 1
        self.regions.open, self.begun = outer, begun

    def listed(self, mark: str) -> None:
        """Open or close regions at the mark that ends a command."""
        if mark in ("&&", "||"):
            self.regions.add("&&", self.found[-1] if self.found and mark == "&&" else None)
        elif mark in (";;", ";&"):
            self.rare.next_pattern(self)
        elif mark in (";", "\n", "&"):
            self.regions.end_list()
            if mark == "&":
                _set_apart(self.found[self.begun :], self.regions.open, len(self.regions.open))
            self.begun = len(self.found)

    def command(self) -> str:
        """Read one simple command; the mark that ends it."""
        made = Simple()
        while (mark := self.skip_blank()) and mark not in _ENDS:
            if self.redirected(made) or (self.arrays and self.rare.take_array(self, made)):
                continue
            word, raw = self.some_word()
            if made.words:
                made.words.append(word)
                if self.peek() == "(":
                    raise Unclear("it sets an array, or has a ( too many: write the values out")
            else:
                self.first_word(made, word, raw)
        return self.ended(made)

    def ended(self, made: Simple) -> str:
        made.before, self.piped = self.piped, None
        made.ends = mark = self.peek(2) if self.peek(2) in _PAIRS else self.peek()
        made.scope = self.regions.open
        if len(made.scope) > _MOST_OPEN:
            raise Unclear("it joins very many commands: write its parts as commands of their own")
        if made.words and made.words[0] in self.functions:
            self.rare.call(self, made)
        if mark in ("|", "|&"):
            self.piped = made
        if made.words or made.assigned or made.writes:
            self.found.append(made)
        return mark

    def some_word(self) -> tuple[str, str]:
        """Read a word; the word, and its text as written."""
        start = self.at
        word = self.word()
        raw = self.text[start : self.at]
        if not raw:
            # `a &>(b)`: no shell reads it, and the loop would never end.
            raise Unclear("a word is missing in it: write the command out")
        # Alone, `[` and `[[` are not patterns.
        return (raw if raw in ("[", "[[") else word), raw

    def skip_blank(self) -> str:
        while (mark := self.peek()) and (mark in _BLANK or self.peek(2) == JOINED):
            self.at += 1 if mark in _BLANK else 2
        if mark == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return self.peek()
        # `&>` and `>&` are about files; a lone & ends the command.
        if mark == "&" and self.peek(2) == "&>":
            return ">"
        return mark

    def first_word(self, made: Simple, word: str, raw: str) -> None:
        self.regions.keyword(raw)
        if raw in _RARE and self.rare.take_keyword(self, raw):
            return
        if raw in _BEFORE:
            self.begun = len(self.found)
            return
        if raw in _PLAIN:
            # Values follow; commands inside them are found like others.
            made.words.append(":")
        elif _is_assignment(word):
            made.assigned.append(word)
            if self.peek() == "(":
                self.rare.read_array(self, word.partition("=")[0])
        elif raw != "[[" and self.skip_blank() == "(":
            self.rare.begin_function(self, raw)
        else:
            made.words.append(word)
            if raw == "[[":
                self.condition()

    def condition(self) -> None:
        """Read up to `]]`: < and > compare there, and && and || join."""
        while True:
            mark = self.skip_blank()
            if not mark:
                raise Unclear("a ]] is missing")
            if mark == "\n" and self.pending:
                raise Unclear("a here-document begins within [[ ]]")
            if mark in "<>&|()\n;" and self.peek(2) not in ("<(", ">("):
                self.at += 1
            elif self.word() == "]]":
                return

    def redirected(self, made: Simple) -> bool:
        """Read a redirection, if one is next."""
        start = self.at
        while self.peek() and self.peek() in _DIGITS:
            self.at += 1
        if self.peek(2) == "&>":
            self.at += 1
        if self.peek() not in ("<", ">") or self.peek(2) in ("<(", ">("):
            self.at = start
            return False
        if self.peek(2) == "<<" and self.peek(3) != "<<<":
            self.rare.begin_document(self, made)
            return True
        while self.peek() and self.peek() in "<>&|-":
            self.at += 1
        operator = self.text[start : self.at]
        writes = ">" in operator
        self.skip_blank()
        target = self.word()
        # A number after & is an open file.
        if operator.endswith("<<<"):
            made.texts.append(target)
        elif target and not (operator.endswith("&") and target.isdecimal()):
            (made.writes if writes else made.reads).append(target)
        return True

    def substituted(self) -> str:
        """Read a command in `$(...)`; its output, if that is known."""
        before = len(self.found)
        self.read(")")
        return self.printed(self.found[before:])

    def printed(self, made: list[Simple]) -> str:
        return str(self.rare.printed(made))

    def nested(self, text: str) -> str:
        """Read the commands of a nested text; their output, if that is known."""
        inner = self.inner(text)
        inner.read("")
        self.take(inner, self.regions.open, len(self.found))
        return self.printed(inner.found)

    def inner(self, text: str) -> CommandReader:
        """A reader for a text inside this one."""
        made = CommandReader(text, self.depth + 1, self.known)
        made.arrays, made.functions, made.called = self.arrays, self.functions, self.called
        return made

    def take(self, inner: CommandReader, scope: tuple[Region, ...], at: int) -> None:
        """Add the commands of a nested text, which run in a subshell."""
        _set_apart(inner.found, scope, 0)
        self.found[at:at] = inner.found

    def peek(self, count: int = 1) -> str:
        """The next characters."""
        return self.text[self.at : self.at + count]

    def word(self) -> str:
        """Read one word; the word without its quotes."""
        parts: list[str] = []
        while mark := self.peek():
            if mark in "<>" and self.peek(2) in ("<(", ">("):
                self.at += 2
                self.read(")")
                parts.append(UNKNOWN)
            elif mark in _BLANK or mark in _ENDS or mark in "<>":
                break
            else:
                parts.append(self.part(mark))
        return "".join(parts)

    def part(self, mark: str) -> str:
        self.at += 1
        if mark == "'":
            return self.up_to("'")
        if mark == '"':
            return self.quoted()
        if mark == "\\":
            self.at += 1
            return self.text[self.at - 1 : self.at].replace("\n", "")
        if mark == "$":
            return self.expansion()
        if mark == "`":
            return self.backquoted()
        # The shell replaces patterns and lists.
        if mark in "[{":
            return self.list_of(mark)
        return UNKNOWN if mark in "*?" else mark

    def list_of(self, opening: str) -> str:
        """Read a list in brackets or braces, of which the shell takes one after the other."""
        parts = []
        closing = "]" if opening == "[" else "}"
        while (mark := self.peek()) and mark not in _BLANK + _ENDS + "<>":
            if mark == closing:
                self.at += 1
                break
            parts.append(self.part(mark))
        said = "".join(parts)
        if opening == "{" and (said.startswith("-") or ",-" in said):
            raise Unclear("it has options in braces: write them out")
        return UNKNOWN

    def up_to(self, mark: str) -> str:
        end = self.text.find(mark, self.at)
        if end < 0:
            raise Unclear(f"a {mark} is missing")
        found = self.text[self.at : end]
        self.at = end + 1
        return found

    def before(self, end: str) -> Iterator[str]:
        """Yield each character up to `end`, and skip `end`."""
        while not self.text.startswith(end, self.at):
            mark = self.peek()
            if not mark:
                raise Unclear(f"a {end} is missing")
            self.at += 1
            yield mark
        self.at += len(end)

    def quoted(self) -> str:
        parts = []
        for mark in self.before('"'):
            if mark == "\\":
                next_ = self.peek()
                self.at += 1
                parts.append("" if next_ == "\n" else next_ if next_ in '$`"\\' else f"\\{next_}")
            elif mark == "$" and self.peek() != '"':
                parts.append(self.expansion())
            elif mark == "`":
                parts.append(self.backquoted())
            else:
                parts.append(mark)
        return "".join(parts)

    def expansion(self) -> str:
        """Read the text after a `$`; its value, if that is known."""
        if self.peek(2) == "((":
            self.at += 2
            self.inside("))")
            return UNKNOWN
        mark = self.peek()
        if mark and (mark.isalnum() or mark in "_@*#?$!-"):
            return self.value(self.name())
        if mark == '"':
            return ""
        if not mark or mark not in "({'":
            return "$"
        self.at += 1
        if mark == "(":
            return self.substituted()
        if mark == "{":
            return self.value(self.inside("}"))
        # `$'...'` may contain letters written as numbers.
        text = self.inside("'").replace("\\n", "\n")
        return UNKNOWN if "\\" in text else text

    def value(self, name: str) -> str:
        """The value of a variable, if that is known."""
        if name in ("TMPDIR:-/tmp", "TMPDIR-/tmp"):
            name = "TMPDIR"
        if self.called or self.arrays:
            self.rare.refuse_odd(self, name)
        value = self.known.get(name, UNKNOWN)
        return UNKNOWN if any(mark in value for mark in " \t\n*?[{") else value

    def name(self) -> str:
        """Read the name of a variable."""
        start = self.at
        self.at += 1
        if self.text[start] not in "@*#?$!-0123456789":
            while self.peek().isalnum() or self.peek() == "_":
                self.at += 1
        return self.text[start : self.at]

    def inside(self, end: str) -> str:
        """Read up to `end`, with the commands inside; the text as written."""
        start = self.at
        for mark in self.before(end):
            if mark == "\\":
                self.at += 1
            elif mark == "$":
                self.expansion()
            elif mark == "`":
                self.backquoted()
            elif mark == '"' and end != "'":
                self.quoted()
            elif mark in "<>" and end == "}" and self.peek() == "(":
                self.at += 1
                self.read(")")
        return self.text[start : self.at - len(end)]

    def backquoted(self) -> str:
        parts = []
        for mark in self.before("`"):
            if mark == "\\" and self.peek() and self.peek() in "$`\\":
                parts.append(self.peek())
                self.at += 1
            else:
                parts.append(mark)
        return self.nested("".join(parts))


def _set_apart(made: list[Simple], scope: tuple[Region, ...], at: int) -> None:
    """Put commands into a subshell inside other regions."""
    region = Region("(")
    for each in made:
        each.scope = (*scope, region, *each.scope[at:])


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    name = name.removesuffix("+")
    return bool(equals) and name.replace("_", "a").isalnum() and not name[:1].isdigit()
