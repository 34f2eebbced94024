"""The check of a shell command against the rules of a role."""

from __future__ import annotations

from tugtool.agents.guard import files, judge, programs, rules, shell
from tugtool.agents.guard.judge import Refused, beyond, format_path
from tugtool.agents.guard.location import UNKNOWN
from tugtool.agents.guard.shell import Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.agents.guard.boundary import Walk
    from tugtool.agents.guard.location import AgentLocation
    from tugtool.agents.guard.rules import Role
    from tugtool.agents.guard.shell import Simple


_INLINE = ("-c", "-e", "-r", "-E", "-p", "--eval", "--print", "--run")
#: A command with more words is refused: judging each would take longer than clients wait.
_MOST_WORDS = 1000
#: Wrappers that add words which are not in the line.
_ADDING = ("parallel", "xargs")
_DEEPEST = 20
#: Python functions that only compute and print.
_PRINTING = frozenset(
    ("abs", "int", "len", "list", "max", "min", "print", "range", "repr", "sorted", "str", "sum")
)
#: Longer code is not compiled: it could be too deep for the compiler.
_MOST_CODE = 300


def only_tugcode(text: str) -> bool:
    """True if a judged command has only plain calls of tugcode."""
    found = shell.commands(text)
    return bool(found) and all(map(_is_plain, found))


def _is_plain(simple: Simple) -> bool:
    beside = simple.assigned or simple.writes or simple.reads or simple.texts
    return simple.words[:1] == ["tugcode"] and not beside and UNKNOWN not in "".join(simple.words)


class CommandLine:
    """An agent's command line, judged from left to right."""

    def __init__(self, role: Role | None, place: AgentLocation, depth: int = 0) -> None:
        self.role, self.depth = role, depth
        self.begin = self.place = place
        self.places, self.judged = [place], 0
        #: The directories in which the commands of an `eval` ended.
        self.left: list[AgentLocation] = []

    def judge(self, text: str) -> None:
        """Refuse a line that the role may not run."""
        try:
            for found in programs.readings(text, self.depth):
                self.places = [self.begin.copy()]
                walk = self.walk(found)
                self.reading(found, walk)
                rounds = 1
                while walk and walk.again([self.begin.copy()], rounds):
                    self.reading(found, walk)
                    rounds += 1
        except Unclear as unclear:
            if self.role is None:
                return
            raise Refused(
                f"the command {format_path(text)}",
                why=f"it cannot be judged; {unclear}",
                instead="run plain commands, one at a time, with every word written out",
            ) from unclear

    def reading(self, found: list[Simple], walk: Walk | None) -> None:
        """Judge each command in every directory in which it may run."""
        for simple in found:
            self.left = []
            for place in walk.reach(simple) if walk else self.places:
                self.place = place
                self.simple(simple)
            if walk:
                self.places, self.judged = walk.follow(simple, self.left), walk.judged

    def walk(self, found: list[Simple]) -> Walk | None:
        """The directories of the commands, if one of them changes the directory."""
        moving = {*programs.MOVING, "eval"}
        if all(moving.isdisjoint(simple.words[:2]) for simple in found):
            return None
        from tugtool.agents.guard import boundary

        return boundary.Walk(self.places, self.judged)

    def simple(self, simple: Simple) -> None:
        for path in simple.writes:
            judge.refuse_output(self.role, path, self.place)
        words = programs.as_git(simple.words) if simple.words else []
        files.refuse_database(words, self.place)
        if self.role is None:
            self.without_role(words)
            return
        leads = programs.called(programs.inner(words)) in (*programs.OURS, *rules.HOST_TOOLS)
        for setting in simple.assigned:
            programs.refuse(self.role, setting, leads=leads)
        if words:
            self.program(self.role, words)
            self.given(words, simple)
            if words[0].startswith(shell.FOUND) and words[1:] and words[1][:1] != "-":
                # If `which` finds no program, the next word is the command.
                self.program(self.role, words[1:])

    def given(self, words: list[str], simple: Simple) -> None:
        """Judge the input of a program: an interpreter runs it as code."""
        name = programs.called(programs.inner(words))
        before = simple.before.words + simple.before.texts if simple.before else []
        if programs.reads_code(programs.inner(words)):
            _refuse_code(name, simple.texts + before)
        elif name in _ADDING:
            files.refuse_added(self.role, words, simple.texts + before[1:], self.place)
        elif name == "patch" or words[:1] == ["git"]:
            files.refuse_patched(self.role, simple.texts, self.place)

    def without_role(self, words: list[str]) -> None:
        """Judge a caller without a role: it may not change the record past tugcode."""
        while programs.called(words) in (*rules.FORGETTING, "xargs") and len(words) > 1:
            words = programs.plain(words[1:2]) + words[2:]
        words = programs.inner(words)
        name = programs.called(words)
        script = programs.script(words) if name in rules.SHELLS else None
        if script is not None and self.depth < _DEEPEST:
            CommandLine(None, self.place, self.depth + 1).judge(script)
        if files.is_changing(words) or name in rules.WRITING or "-delete" in words:
            files.refuse_changed(None, name, words[1:], self.place)

    def program(self, role: Role, words: list[str]) -> None:
        name = programs.called(words)
        run = name if _looks(name, words) else programs.called(programs.inner(words))
        if UNKNOWN in name + run:
            raise Refused(
                f"the command {format_path(' '.join(words))}",
                why="the program is only known when it runs",
                instead="write the program's name out",
            )
        if name == ":":
            programs.refuse(role, f"{(*words[1:2], '')[0]}=")
        if name in rules.SHELLS or name in ("source", "."):
            self.shell(role, words)
        elif name == "eval":
            self.left += self.inner(words[1:])
        elif name == "trap" and len(words) > 2:
            CommandLine(role, self.place, self.depth + 1).judge(words[1].replace(UNKNOWN, "$_"))
        elif files.is_changing(words):
            files.refuse_changing(role, name, words[1:], self.place)
        elif not self.call(role, words) and not _looks(name, words):
            self.other(role, name, words)

    def call(self, role: Role, words: list[str]) -> bool:
        """Judge a call of git, tugcode or a code host's tool; False for other programs."""
        name = programs.called(words)
        if name not in ("git", "tugcode", *rules.HOST_TOOLS):
            return False
        # Not at the top: most commands call none of these.
        from tugtool.agents.guard import calls

        if name == "git":
            calls.refuse_git(role, words[1:], self.place)
        elif name == "tugcode":
            calls.refuse_tugcode(role, words[1:])
        else:
            calls.refuse_host(role, name, words[1:])
        return True

    def other(self, role: Role, name: str, words: list[str]) -> None:
        """Judge an unknown program: its arguments may be a command."""
        if role.programs == rules.VIEWERS:
            other = f"use Read, Grep and Glob, `git status`, `git diff`, or {rules.wanted(role)}"
            raise beyond(role, f"running {format_path(name)}", instead=other)
        if name == "alias" or {"dotglob", "expand_aliases"} & set(words):
            raise Refused(
                f"{format_path(name)} that gives words another meaning",
                why="the words after it could not be judged",
                instead="write the command out",
            )
        files.refuse_script(words)
        programs.refuse_words(role, words)
        if name in rules.WRITING:
            files.refuse_changed(role, name, words[1:], self.place)
        if name == "find":
            files.refuse_found(role, words[1:], self.place)
        if any(programs.called([word]) == "env" for word in words):
            from tugtool.agents.guard import boundary

            self.place = boundary.env_place(words, self.place)
        if name.startswith(rules.INTERPRETERS):
            self.interpreted(role, name, words)
        self.embedded(role, name, words)

    def interpreted(self, role: Role, name: str, words: list[str]) -> None:
        module = programs.module(words)
        if module is not None:
            self.call(role, ["tugcode", *module])
            return
        if name.startswith("python") and words[1:2] == ["-c"] and _only_prints("".join(words[2:3])):
            return
        inline = [w for w in words[1:] if w.startswith(_INLINE)] or "awk" in name
        _refuse_code(name, words[1:] if inline else [])

    def embedded(self, role: Role, name: str, words: list[str]) -> None:
        if len(words) > _MOST_WORDS:
            raise Refused(
                f"the command {format_path(' '.join(words[:9]))}",
                why=f"it has over {_MOST_WORDS} words, and each could be a command of its own",
                instead="name a directory or a pattern, or put it into a script",
            )
        self.refuse_committing(words)
        for at in range(1, len(words)):
            self.inside(role, name, words[at:])

    def refuse_committing(self, words: list[str]) -> None:
        for at, word in enumerate(words):
            base = programs.called([word]).replace("_", "-")
            if base in rules.COMMITTING or base in rules.HOOKING:
                from tugtool.agents.guard import calls

                calls.refuse_committing(words[at:])

    def inside(self, role: Role, name: str, words: list[str]) -> None:
        """Judge an argument that may be a program, with the words after it."""
        words = programs.as_git(words)
        if name == "find" and ";" in words[1:]:
            words = words[: words.index(";", 1)]
        base = programs.called(words)
        if name in programs.WRAPPERS:
            self.wrapped(role, base, words)
        if _is_order(words) or (name in programs.WRAPPERS and base in programs.OURS):
            self.refuse_added(name, words)
            self.call(role, words)
        elif base in rules.SHELLS and (
            name in programs.WRAPPERS or programs.script(words) is not None
        ):
            self.shell(role, words)
        elif base.rstrip("0123456789.") == "python":
            self.interpreted(role, base, words)
        elif " " in words[0].strip() or "\n" in words[0].strip():
            self.mentioned(role, words[0])

    def wrapped(self, role: Role, name: str, words: list[str]) -> None:
        """Judge a program that a wrapper may run."""
        if name in ("env", "exec", *rules.FORGETTING):
            programs.refuse_words(role, words)
        elif files.is_changing(words):
            files.refuse_changing(role, name, words[1:], self.place)
        elif name in rules.WRITING:
            files.refuse_changed(role, name, words[1:], self.place)
        files.refuse_script(words)

    def refuse_added(self, name: str, words: list[str]) -> None:
        if name in _ADDING and all(word.startswith("-") for word in words[1:]):
            raise Refused(
                format_path(f"{name} {words[0]}"),
                why="the command is only known when it runs",
                instead="write the command out",
            )

    def mentioned(self, role: Role, text: str) -> None:
        """Judge the calls of git and tugcode in a word that may be a whole command."""
        try:
            found = shell.commands(text.replace(UNKNOWN, "x"), self.depth + 1)
        except Unclear:
            return
        for simple in found:
            if _is_order(simple.words):
                self.call(role, simple.words)

    def inner(self, words: list[str]) -> list[AgentLocation]:
        """Judge a text that runs as a command; the directories in which it ends."""
        text = " ".join(words)
        if UNKNOWN in text:
            raise Refused(
                f"the command {format_path(text)} inside of another",
                why="the text is only known when it runs",
                instead="write the command itself, without a shell around it",
            )
        inside = CommandLine(self.role, self.place, self.depth + 1)
        inside.judge(text)
        return inside.places

    def shell(self, role: Role, words: list[str]) -> None:
        text = programs.script(words)
        if text is not None:
            self.inner([text])
            return
        scripts = [word for word in words[1:] if not word.startswith(("-", "+"))]
        # A script file has a name; code from another command, or a pipe, has none.
        hidden = UNKNOWN in programs.called(scripts) or "".join(scripts[:1]).startswith("/dev/")
        if hidden or (not scripts and not {"--version", "--help"} & set(words)):
            raise Refused(
                f"{format_path(words[0])} that reads its commands from elsewhere",
                why="what it would run cannot be judged",
                instead="write the commands out, one at a time",
            )
        if role.programs == rules.VIEWERS:
            self.other(role, programs.called(words), words)


def _looks(name: str, words: list[str]) -> bool:
    """True if the program with these arguments only reads."""
    if name == "command":
        return words[1:2] in (["-v"], ["-V"])
    return name in rules.VIEWING and not programs.does_more(name, words)


def _is_order(words: list[str]) -> bool:
    """True if the words are a git command that changes something, or a tugcode command."""
    name = programs.called(words)
    if name not in ("git", "tugcode"):
        return False
    from tugtool.agents.guard import calls

    if name == "git":
        return calls.git_command(words[1:])[1] in rules.GIT_CHANGES
    return calls.tugcode_command(words[1:]).partition(" ")[0] in rules.FIRST_WORDS


def _only_prints(code: str) -> bool:
    """True if Python code uses only functions that compute and print."""
    if UNKNOWN in code or len(code) > _MOST_CODE:
        return False
    try:
        todo = [compile(code, "code", "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    while todo:
        part = todo.pop()
        # Attributes and imports are among these names.
        if not _PRINTING.issuperset(part.co_names):
            return False
        todo += [each for each in part.co_consts if hasattr(each, "co_names")]
    return True


def _refuse_code(name: str, texts: list[str]) -> None:
    said = {part for text in texts for part in programs.parts(text)} & programs.OURS
    if said:
        raise Refused(
            f"code for {format_path(name)} that speaks of {format_path(sorted(said)[0])}",
            why="what it would run cannot be judged",
            instead="run the command itself, without a program around it",
        )
