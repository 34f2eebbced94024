"""A shell command held against the rules of a role."""

from __future__ import annotations

from tugtool.guard import files, looking, options, paths, programs, rules, shell, variables
from tugtool.guard.refused import Refused, shown
from tugtool.guard.words import UNKNOWN, Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.guard.place import Place
    from tugtool.guard.rules import Role
    from tugtool.guard.shell import Simple

_INLINE = ("-c", "-e", "-r", "-E", "-p", "--eval", "--print", "--run")
#: A command with more words is refused: judging each would take longer than clients wait.
_MOST_WORDS = 1000
#: Those of them that add words which nobody can see.
_ADDING = ("parallel", "xargs")
_DEEPEST = 20


def only_tugcode(text: str) -> bool:
    """Whether a command that was judged is made of plain calls of tugcode and nothing else."""
    found = shell.commands(text)
    return bool(found) and all(map(_is_plain, found))


def _is_plain(simple: Simple) -> bool:
    beside = simple.assigned or simple.writes or simple.reads or simple.texts
    return simple.words[:1] == ["tugcode"] and not beside and UNKNOWN not in "".join(simple.words)


class Line:
    """One command line of an agent's, judged from left to right."""

    def __init__(self, role: Role | None, place: Place, depth: int = 0) -> None:
        self.role = role
        self.begin = place
        self.place = place
        self.depth = depth

    def judge(self, text: str) -> None:
        """Refuse what the role may not run."""
        try:
            for found in variables.readings(text, self.depth):
                self.place = self.begin.copy()
                for simple in found:
                    self.simple(simple)
        except Unclear as unclear:
            if self.role is None:
                return
            raise Refused(
                f"the command {shown(text)}",
                why=f"it cannot be judged; {unclear}",
                instead="run plain commands, one at a time, with every word written out",
            ) from unclear

    def simple(self, simple: Simple) -> None:
        for path in simple.writes:
            paths.refuse_output(self.role, path, self.place)
        words = programs.as_git(simple.words) if simple.words else []
        files.refuse_database(words, self.place)
        if self.role is None:
            self.nobodys(words)
            return
        leads = programs.called(programs.inner(words)) in (*programs.OURS, *rules.HOST_TOOLS)
        for setting in simple.assigned:
            variables.refuse(self.role, setting, leads=leads)
        if words:
            self.program(self.role, words)
            self.given(words, simple)

    def given(self, words: list[str], simple: Simple) -> None:
        """What an interpreter is given to read is its code."""
        name = programs.called(programs.inner(words))
        before = simple.before.words + simple.before.texts if simple.before else []
        if programs.reads_code(programs.inner(words)):
            _refuse_code(name, simple.texts + before)
        elif name in _ADDING:
            files.refuse_added(self.role, words, simple.texts + before[1:], self.place)
        elif name == "patch" or words[:1] == ["git"]:
            files.refuse_patched(self.role, simple.texts, self.place)

    def nobodys(self, words: list[str]) -> None:
        """What is never right, whoever does it: to change the record past tugcode."""
        while programs.called(words) in (*rules.FORGETTING, "xargs") and len(words) > 1:
            words = options.plain(words[1:2]) + words[2:]
        words = programs.inner(words)
        name = programs.called(words)
        script = programs.script(words) if name in rules.SHELLS else None
        if script is not None and self.depth < _DEEPEST:
            Line(None, self.place, self.depth + 1).judge(script)
        if files.is_changing(words) or name in rules.WRITING or "-delete" in words:
            files.refuse_changed(None, name, words[1:], self.place)
        self.follow(name, words)

    def program(self, role: Role, words: list[str]) -> None:
        name = programs.called(words)
        if UNKNOWN in name:
            raise Refused(
                f"the command {shown(' '.join(words))}",
                why="which program it runs is only known when it runs",
                instead="write the program's name out",
            )
        self.follow(name, words)
        if name == ":":
            variables.refuse(role, f"{(*words[1:2], '')[0]}=")
        if name in rules.SHELLS or name in ("source", "."):
            self.shell(role, words)
        elif name == "eval":
            self.inner(words[1:])
        elif files.is_changing(words):
            files.refuse_changing(role, name, words[1:], self.place)
        elif not self.call(role, words) and not _looks(name, words):
            self.other(role, name, words)

    def call(self, role: Role, words: list[str]) -> bool:
        """Judge a call of git, tugcode or a code host's tool; whether it is one."""
        from tugtool.guard import calls

        name = programs.called(words)
        if name == "git":
            calls.refuse_git(role, words[1:], self.place)
        elif name == "tugcode":
            calls.refuse_tugcode(role, words[1:])
        elif name in rules.HOST_TOOLS:
            calls.refuse_host(role, name, words[1:])
        else:
            return False
        return True

    def follow(self, name: str, words: list[str]) -> None:
        """Later paths are relative to where `cd` goes."""
        if name in ("cd", "pushd") and len(words) > 1:
            self.place.go(words[-1])

    def other(self, role: Role, name: str, words: list[str]) -> None:
        """A program that we know nothing of: what it is given may be a command again."""
        if role.programs == rules.VIEWERS:
            raise Refused(
                f"running {shown(name)}",
                why=f"the {role.name} {role.task}",
                instead="use Read, Grep and Glob, `git status`, `git diff`, or "
                f"{rules.wanted(role)}",
            )
        if name == "alias" or {"dotglob", "expand_aliases"} & set(words):
            raise Refused(
                f"{shown(name)} that gives words another meaning",
                why="what is behind them could not be judged",
                instead="write the command out",
            )
        files.refuse_script(words)
        variables.refuse_words(role, words)
        if name in rules.WRITING:
            files.refuse_changed(role, name, words[1:], self.place)
        if name == "find":
            files.refuse_found(role, words[1:], self.place)
        if name.startswith(rules.INTERPRETERS):
            self.interpreted(role, name, words)
        self.embedded(role, name, words)

    def interpreted(self, role: Role, name: str, words: list[str]) -> None:
        module = programs.module(words)
        if module is not None:
            self.call(role, ["tugcode", *module])
            return
        inline = [w for w in words[1:] if w.startswith(_INLINE)] or "awk" in name
        _refuse_code(name, words[1:] if inline else [])

    def embedded(self, role: Role, name: str, words: list[str]) -> None:
        if len(words) > _MOST_WORDS:
            raise Refused(
                f"the command {shown(' '.join(words[:9]))}",
                why=f"it has over {_MOST_WORDS} words, and each could be a command of its own",
                instead="name a directory or a pattern, or put it into a script",
            )
        for at in range(1, len(words)):
            self.inside(role, name, words[at:])

    def inside(self, role: Role, name: str, words: list[str]) -> None:
        """A word in the midst of others, which may be a program that those behind it are for."""
        words = programs.as_git(words)
        base = programs.called(words)
        if name in variables.WRAPPERS:
            self.wrapped(role, base, words)
        if _is_order(words) or (name in variables.WRAPPERS and base in programs.OURS):
            self.refuse_added(name, words)
            self.call(role, words)
        elif base in rules.SHELLS and (
            name in variables.WRAPPERS or programs.script(words) is not None
        ):
            self.shell(role, words)
        elif base.rstrip("0123456789.") == "python":
            self.interpreted(role, base, words)
        elif " " in words[0].strip() or "\n" in words[0].strip():
            self.mentioned(role, words[0])

    def wrapped(self, role: Role, name: str, words: list[str]) -> None:
        """What may be the program that another one runs."""
        if name in ("env", "exec", *rules.FORGETTING):
            variables.refuse_words(role, words)
        elif files.is_changing(words):
            files.refuse_changing(role, name, words[1:], self.place)
        elif name in rules.WRITING:
            files.refuse_changed(role, name, words[1:], self.place)
        files.refuse_script(words)

    def refuse_added(self, name: str, words: list[str]) -> None:
        if name in _ADDING and all(word.startswith("-") for word in words[1:]):
            raise Refused(
                f"{shown(f'{name} {words[0]}')}",
                why="which command it runs is only known when it runs",
                instead="write the command out",
            )

    def mentioned(self, role: Role, text: str) -> None:
        """A word that may be a whole command: what it says to git and tugcode counts."""
        try:
            found = shell.commands(text.replace(UNKNOWN, "x"), self.depth + 1)
        except Unclear:
            return
        for simple in found:
            if _is_order(simple.words):
                self.call(role, simple.words)

    def inner(self, words: list[str]) -> None:
        text = " ".join(words)
        if UNKNOWN in text:
            raise Refused(
                f"the command {shown(text)} inside of another",
                why="what it is is only known when it runs",
                instead="write the command itself, without a shell around it",
            )
        inside = Line(self.role, self.place, self.depth + 1)
        inside.judge(text)

    def shell(self, role: Role, words: list[str]) -> None:
        text = programs.script(words)
        if text is not None:
            self.inner([text])
            return
        scripts = [word for word in words[1:] if not word.startswith(("-", "+"))]
        # A script has a name; what comes from another command, or a pipe, has none.
        hidden = [
            word
            for word in scripts[:1]
            if UNKNOWN in programs.called([word]) or word[:5] == "/dev/"
        ]
        if hidden or (not scripts and not {"--version", "--help"} & set(words)):
            raise Refused(
                f"{shown(words[0])} that reads its commands from elsewhere",
                why="what it would run cannot be judged",
                instead="write the commands out, one at a time",
            )
        if role.programs == rules.VIEWERS:
            self.other(role, programs.called(words), words)


def _looks(name: str, words: list[str]) -> bool:
    """Whether a program only looks, as it is called."""
    if name == "command":
        return words[1:2] in (["-v"], ["-V"])
    return name in rules.VIEWING and not looking.does_more(name, words)


def _is_order(words: list[str]) -> bool:
    """Whether words in the midst of others tell git or tugcode to do something that they know."""
    from tugtool.guard import calls

    name = programs.called(words)
    if name == "git":
        return calls.git_command(words[1:])[1] in rules.GIT_CHANGES
    if name == "tugcode":
        return calls.tugcode_command(words[1:]).partition(" ")[0] in rules.FIRST_WORDS
    return False


def _refuse_code(name: str, texts: list[str]) -> None:
    said = {part for text in texts for part in programs.parts(text)} & programs.OURS
    if said:
        raise Refused(
            f"code for {shown(name)} that speaks of {shown(sorted(said)[0])}",
            why="what it would run cannot be judged",
            instead="run the command itself, without a program around it",
        )
