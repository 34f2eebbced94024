"""The words of a shell command: quotes, variables, patterns and what else a word is made of."""

from __future__ import annotations

#: Stands for whatever the shell would put there; no command can hold it.
UNKNOWN = "\0"
#: Stands for a file that `mktemp` makes.
TEMPORARY = "/tmp/tmp.XXXXXXXXXX"
BLANK = " \t\r"
ENDS = ";&|\n()"
#: A line that goes on in the next one; not in a comment, nor in single quotes.
JOINED = "\\\n"


class Unclear(Exception):
    """A command that cannot be taken apart; says how to write it instead."""


class Words:
    """Characters in, words out; what reads the commands inside of them comes from above."""

    def __init__(self, text: str, known: dict[str, str]) -> None:
        self.text = text
        self.at = 0
        #: Values of variables.
        self.known = known

    def read(self, until: str) -> None:
        """Commands up to `until`."""
        raise NotImplementedError

    def nested(self, text: str) -> str:
        """What the commands in a text of their own print, if that is known."""
        raise NotImplementedError

    def substituted(self) -> str:
        """What a command in `$(...)` prints, if that is known."""
        raise NotImplementedError

    def peek(self, count: int = 1) -> str:
        """What stands here."""
        return self.text[self.at : self.at + count]

    def word(self) -> str:
        """One word, without its quotes."""
        parts: list[str] = []
        while mark := self.peek():
            if mark in "<>" and self.peek(2) in ("<(", ">("):
                self.at += 2
                self.read(")")
                parts.append(UNKNOWN)
            elif mark in BLANK or mark in ENDS or mark in "<>":
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
        if mark in "[{":
            return self.list_of(mark)
        return UNKNOWN if mark in "*?" else mark

    def list_of(self, opening: str) -> str:
        """What stands in brackets or braces, of which the shell takes one after the other."""
        parts = []
        closing = "]" if opening == "[" else "}"
        while (mark := self.peek()) and mark not in BLANK + ENDS + "<>":
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
            return self.substituted()
        elif self.peek() == "{":
            self.at += 1
            start = self.at
            self.inside("}")
            return self.value(self.text[start : self.at - 1])
        elif self.peek() == "'":
            self.at += 1
            start = self.at
            self.inside("'")
            text = self.text[start : self.at - 1]
            # Letters may be written as numbers there.
            return UNKNOWN if "\\" in text.replace("\\n", "") else text.replace("\\n", "\n")
        elif self.peek() == '"':
            return ""
        elif self.peek() and (self.peek().isalnum() or self.peek() in "_@*#?$!-"):
            start = self.at
            self.name()
            return self.value(self.text[start : self.at])
        else:
            return "$"
        return UNKNOWN

    def value(self, name: str) -> str:
        """What a variable stands for, if that is known."""
        if name in ("TMPDIR:-/tmp", "TMPDIR-/tmp"):
            name = "TMPDIR"
        value = self.known.get(name, UNKNOWN)
        return UNKNOWN if any(mark in value for mark in " \t\n*?[{") else value

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
            elif mark in "<>" and end == "}" and self.peek() == "(":
                self.at += 1
                self.read(")")
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
        return self.nested("".join(parts))
