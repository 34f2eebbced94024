"""A shell command taken apart: every simple command in it, also those inside of others.

Nothing is expanded. What is only known when the command runs (a variable, a pattern, the output
of another command) stands in a word as `UNKNOWN`. What cannot be taken apart is `Unclear`.
"""

from __future__ import annotations

from tugtool.guard.words import BLANK, ENDS, JOINED, TEMPORARY, UNKNOWN, Unclear, Words

#: Longer ones are not read: nobody could judge them either.
MOST_CHARACTERS = 100_000
_DEEPEST = 20
#: A command follows them.
_BEFORE = ("if", "then", "else", "elif", "while", "until", "do", "!", "{", "coproc", "time")
#: No command follows them.
_PLAIN = ("for", "select", "done", "fi", "}", "esac")
#: In front of `<` or `>` it says which of the open files is meant.
_DIGITS = "0123456789"


class Simple:
    """One program with its words, the variables set for it, and where its output goes."""

    __slots__ = ("assigned", "before", "reads", "texts", "words", "writes")

    def __init__(self) -> None:
        #: Whose output it reads, behind a `|`.
        self.before: Simple | None = None
        #: What stands in the line itself for it to read.
        self.texts: list[str] = []
        #: `NAME=value` in front of the program.
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
    reader = _Reader(text, depth, {} if known is None else known)
    reader.read("")
    return reader.found


class _Reader(Words):
    """Characters in, simple commands out."""

    def __init__(self, text: str, depth: int, known: dict[str, str]) -> None:
        if depth > _DEEPEST:
            raise Unclear("it is nested too deeply: write its parts as commands of their own")
        super().__init__(text, known)
        self.depth = depth
        self.found: list[Simple] = []
        #: Whose output the next command reads.
        self.piped: Simple | None = None
        #: Here-documents that begin behind the next line end.
        self.pending: list[tuple[Simple, str, str]] = []

    def read(self, until: str) -> None:
        """Commands up to `until`, or to the end."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unclear("it is nested too deeply: write its parts as commands of their own")
        while (mark := self.command()) and mark != ")":
            self.at += 1
            if mark == "\n":
                self.documents()
            elif mark == "(":
                self.read(")")
        if mark != until:
            raise Unclear(f"a {until} is missing" if until else "it has a ) too many")
        self.at += len(mark)
        self.depth -= 1

    def command(self) -> str:
        """One simple command, up to what ends it, and that."""
        made = Simple()
        while (mark := self.skip_blank()) and mark not in ENDS:
            if self.redirected(made):
                continue
            word, raw = self.some_word()
            if not made.words:
                self.first_word(made, word, raw)
            else:
                made.words.append(word)
            if self.peek() == "(" and made.words == [word]:
                raise Unclear("it defines a function: write its commands out")
            if made.words == ["[["]:
                self.condition()
        made.before, self.piped = self.piped, None
        if mark == "|" and self.text[self.at : self.at + 2] != "||":
            self.piped = made
        if made.words or made.assigned or made.writes:
            self.found.append(made)
        return self.peek()

    def some_word(self) -> tuple[str, str]:
        """A word, and how it is written."""
        start = self.at
        word = self.word()
        raw = self.text[start : self.at]
        if not raw:
            # `a &>(b)`: no shell would read it, and reading on would never end.
            raise Unclear("a word is missing in it: write the command out")
        # Alone they are no patterns.
        return (raw if raw in ("[", "[[") else word), raw

    def skip_blank(self) -> str:
        while (mark := self.peek()) and (mark in BLANK or self.peek(2) == JOINED):
            self.at += 1 if mark in BLANK else 2
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
            if mark == "\n" and self.pending:
                raise Unclear("a here-document begins within [[ ]]")
            if mark in "<>&|()\n;" and self.peek(2) not in ("<(", ">("):
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
        if self.peek() not in ("<", ">") or self.peek(2) in ("<(", ">("):
            self.at = start
            return False
        if self.peek(2) == "<<" and self.peek(3) != "<<<":
            self.document(made)
            return True
        while self.peek() and self.peek() in "<>&|-":
            self.at += 1
        operator = self.text[start : self.at]
        writes = ">" in operator
        self.skip_blank()
        target = self.word()
        # A number behind & is an open file.
        if operator.endswith("<<<"):
            made.texts.append(target)
        elif target and not (operator.endswith("&") and target.isdecimal()):
            (made.writes if writes else made.reads).append(target)
        return True

    def document(self, made: Simple) -> None:
        """The beginning of a here-document: how it will end."""
        self.at += 2
        mark = "-" if self.peek() == "-" else ""
        self.at += len(mark)
        self.skip_blank()
        start = self.at
        end = self.word()
        raw = self.text[start : self.at]
        # No variable counts there, whatever it stands for.
        if not raw or any(mark in "\n$`*?[{<>" for mark in raw):
            raise Unclear("how its here-document ends cannot be seen: write <<'EOF'")
        quoted = any(each in "'\"\\" for each in raw)
        self.pending.append((made, f"{mark}'" if quoted else mark, end))

    def documents(self) -> None:
        """The here-documents that begin here; nothing in them is a command but what `$` starts."""
        for made, marks, end in self.pending:
            start, stop = self.at, -1
            while stop < 0:
                at = self.at
                self.at = self.text.find("\n", at) + 1 or len(self.text) + 1
                row = self.text[at : self.at - 1]
                if (row.lstrip("\t") if "-" in marks else row) == end or at >= len(self.text):
                    stop = at
            text = self.text[start:stop]
            made.texts.append(text if "'" in marks else self.expanded(text))
        self.pending = []

    def expanded(self, text: str) -> str:
        """A here-document in which variables and commands are replaced."""
        if JOINED in text:
            raise Unclear("its here-document has lines that go on: write <<'EOF'")
        inner = _Reader(text, self.depth + 1, self.known)
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
        self.found += inner.found
        return "".join(parts)

    def substituted(self) -> str:
        """What a command in `$(...)` prints, if that is known."""
        before = len(self.found)
        self.read(")")
        return _printed(self.found[before:])

    def nested(self, text: str) -> str:
        """What the commands in a text of their own print, if that is known."""
        made = commands(text, self.depth + 1, self.known)
        self.found += made
        return _printed(made)


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    name = name.removesuffix("+")
    return bool(equals) and name.replace("_", "a").isalnum() and not name[:1].isdigit()


def _printed(made: list[Simple]) -> str:
    """What commands print, if that is known: here, or a file that is new."""
    if [each.words for each in made] in ([["pwd"]], [["git", "rev-parse", "--show-toplevel"]]):
        return "."
    return TEMPORARY if len(made) == 1 and _makes_temporary(made[0]) else UNKNOWN


def _makes_temporary(made: Simple) -> bool:
    plain = made.words[:1] == ["mktemp"] and not made.assigned + made.writes
    return plain and all(
        word in ("-d", "-q", "-t", "--directory", "--quiet")
        or (word.startswith("/tmp/") and ".." not in word)
        or (not word.startswith("-") and "/" not in word and made.words[at - 1] == "-t")
        for at, word in enumerate(made.words[1:], 1)
    )
