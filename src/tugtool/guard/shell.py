"""A shell command taken apart: every simple command in it, also those inside of others.

Nothing is expanded. What is only known when the command runs (a variable, a pattern, the output
of another command) stands in a word as `UNKNOWN`. What cannot be taken apart is `Unclear`.
"""

from __future__ import annotations

#: Stands for whatever the shell would put there; no command can hold it.
UNKNOWN = "\0"
#: Longer ones are not read: nobody could judge them either.
MOST_CHARACTERS = 100_000
_DEEPEST = 20
_BLANK = " \t\r"
_ENDS = ";&|\n()"
#: A line that goes on in the next one; not in a comment, nor in single quotes.
_JOINED = "\\\n"
#: A command follows them.
_BEFORE = ("if", "then", "else", "elif", "while", "until", "do", "!", "{", "coproc", "time")
#: No command follows them.
_PLAIN = ("for", "select", "done", "fi", "}", "esac")
#: In front of `<` or `>` it says which of the open files is meant.
_DIGITS = "0123456789"


class Unclear(Exception):
    """A command that cannot be taken apart; says how to write it instead."""


class Simple:
    """One program with its words, the variables set for it, and where its output goes."""

    __slots__ = ("assigned", "reads", "words", "writes")

    def __init__(self) -> None:
        #: `NAME=value` in front of the program.
        self.assigned: list[str] = []
        self.words: list[str] = []
        #: Files that are written, and files that are read.
        self.writes: list[str] = []
        self.reads: list[str] = []


def commands(text: str, depth: int = 0) -> list[Simple]:
    """Every simple command of `text`, in the order in which they begin."""
    if len(text) > MOST_CHARACTERS:
        raise Unclear(f"it has over {MOST_CHARACTERS} characters: put it into a script")
    if UNKNOWN in text:
        raise Unclear("it has a NUL character: leave it out")
    reader = _Reader(text, depth)
    reader.read("")
    return reader.found


class _Reader:
    """Characters in, simple commands out."""

    def __init__(self, text: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise Unclear("it is nested too deeply: write its parts as commands of their own")
        self.text = text
        self.at = 0
        self.depth = depth
        self.found: list[Simple] = []

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def read(self, until: str) -> None:
        """Commands up to `until`, or to the end."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unclear("it is nested too deeply: write its parts as commands of their own")
        while True:
            self.command()
            mark = self.peek()
            if not mark:
                if until:
                    raise Unclear(f"a {until} is missing")
                break
            self.at += 1
            if mark == "(":
                self.read(")")
            elif mark == ")":
                if until != ")":
                    raise Unclear("it has a ) too many")
                break
        self.depth -= 1

    def command(self) -> None:
        """One simple command, up to what ends it."""
        made = Simple()
        while (mark := self.skip_blank()) and mark not in _ENDS:
            if self.redirected(made):
                continue
            start = self.at
            word = self.word()
            raw = self.text[start : self.at]
            # Alone they are no patterns.
            word = raw if raw in ("[", "[[") else word
            if not made.words:
                self.first_word(made, word, raw)
            else:
                made.words.append(word)
            if self.peek() == "(" and made.words == [word]:
                raise Unclear("it defines a function: write its commands out")
            if made.words == ["[["]:
                self.condition()
        if made.words or made.assigned or made.writes:
            self.found.append(made)

    def skip_blank(self) -> str:
        while (mark := self.peek()) and (mark in _BLANK or self.peek(2) == _JOINED):
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
        if raw == "case":
            raise Unclear("it has a case: write it with if, or put it into a script")
        if raw == "function":
            raise Unclear("it defines a function: write its commands out")
        if raw in _BEFORE:
            return
        if raw in _PLAIN:
            # What follows are values; commands inside of them are found all the same.
            made.words.append(":")
        elif _is_assignment(word):
            made.assigned.append(word)
            if self.peek() == "(":
                raise Unclear("it sets an array: write the values out where they are needed")
        else:
            made.words.append(word)

    def condition(self) -> None:
        """Up to `]]`: < and > compare there, and && and || join."""
        while True:
            mark = self.skip_blank()
            if not mark:
                raise Unclear("a ]] is missing")
            if mark in "<>&|()\n;":
                self.at += 1
            elif self.word() == "]]":
                return

    def redirected(self, made: Simple) -> bool:
        """Take what says where input comes from or output goes to, if that is what stands here."""
        start = self.at
        while self.peek() and self.peek() in _DIGITS:
            self.at += 1
        if self.peek(2) == "&>":
            self.at += 1
        mark = self.peek()
        if not mark or mark not in "<>":
            self.at = start
            return False
        if self.peek(2) in ("<(", ">("):
            self.at = start
            return False
        if self.peek(2) == "<<" and self.peek(3) != "<<<":
            raise Unclear(
                "it has a here-document: pass the text as an argument, or write a file first"
            )
        while self.peek() and self.peek() in "<>&|-":
            self.at += 1
        operator = self.text[start : self.at]
        writes = ">" in operator
        self.skip_blank()
        target = self.word()
        # A number behind & is an open file.
        if target and not (operator.endswith("&") and target.isdecimal()):
            (made.writes if writes else made.reads).append(target)
        return True

    def word(self) -> str:
        """One word, without its quotes."""
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
        # Patterns and lists become other words.
        return UNKNOWN if mark in "*?[{" else mark

    def up_to(self, mark: str) -> str:
        end = self.text.find(mark, self.at)
        if end < 0:
            raise Unclear(f"a {mark} is missing")
        found = self.text[self.at : end]
        self.at = end + 1
        return found

    def quoted(self) -> str:
        parts = []
        while (mark := self.peek()) != '"':
            if not mark:
                raise Unclear('a " is missing')
            self.at += 1
            if mark == "\\":
                mark = self.peek()
                self.at += 1
                parts.append("" if mark == "\n" else mark if mark in '$`"\\' else f"\\{mark}")
            elif mark == "$" and self.peek() != '"':
                parts.append(self.expansion())
            elif mark == "`":
                parts.append(self.backquoted())
            else:
                parts.append(mark)
        self.at += 1
        return "".join(parts)

    def expansion(self) -> str:
        """What follows a `$`."""
        if self.peek(2) == "((":
            self.at += 2
            self.inside("))")
        elif self.peek() == "(":
            self.at += 1
            self.read(")")
        elif self.peek() == "{":
            self.at += 1
            self.inside("}")
        elif self.peek() == "'":
            # Letters may be written as numbers there.
            self.at += 1
            self.inside("'")
        elif self.peek() == '"':
            return ""
        elif self.peek() and (self.peek().isalnum() or self.peek() in "_@*#?$!-"):
            self.name()
        else:
            return "$"
        return UNKNOWN

    def name(self) -> None:
        first = self.peek()
        self.at += 1
        while first not in "@*#?$!-0123456789" and (self.peek().isalnum() or self.peek() == "_"):
            self.at += 1

    def inside(self, end: str) -> None:
        """Up to `end`, for the commands that may be in there."""
        while not self.text.startswith(end, self.at):
            mark = self.peek()
            if not mark:
                raise Unclear(f"a {end} is missing")
            self.at += 1
            if mark == "\\":
                self.at += 1
            elif mark == "$":
                self.expansion()
            elif mark == "`":
                self.backquoted()
            elif mark == '"' and end != "'":
                self.quoted()
        self.at += len(end)

    def backquoted(self) -> str:
        parts = []
        while (mark := self.peek()) != "`":
            if not mark:
                raise Unclear("a ` is missing")
            self.at += 1
            if mark == "\\" and self.peek() and self.peek() in "$`\\":
                mark = self.peek()
                self.at += 1
            parts.append(mark)
        self.at += 1
        self.found += commands("".join(parts), self.depth + 1)
        return UNKNOWN


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    name = name.removesuffix("+")
    return bool(equals) and name.replace("_", "a").isalnum() and not name[:1].isdigit()
