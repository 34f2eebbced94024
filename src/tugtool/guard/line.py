"""A shell command held against the rules of a role."""

from __future__ import annotations

import os

from tugtool.guard import paths, programs, rules, shell
from tugtool.guard.paths import Place
from tugtool.guard.refused import Refused, shown
from tugtool.guard.shell import UNKNOWN, Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.guard.rules import Role
    from tugtool.guard.shell import Simple

#: Programs that run the one named behind their options.
_WRAPPERS = frozenset(
    (
        *("command", "doas", "env", "exec", "find", "ionice", "nice", "nohup", "parallel"),
        *("setsid", "stdbuf", "strace", "sudo", "time", "timeout", "watch", "xargs"),
    )
)
_OURS = frozenset(("git", "tugcode", "tugtool"))
_INLINE = ("-c", "-e", "-r", "-E", "-p", "--eval", "--print", "--run")
#: A command with more words is refused: judging each would take longer than clients wait.
_MOST_WORDS = 1000
#: Those of them that add words which nobody can see.
_ADDING = ("parallel", "xargs")
#: What sets or removes variables for all that follows.
_SETTING = ("declare", "export", "local", "readonly", "typeset", "unset")
#: Variables of git's that only change how it looks.
_HARMLESS = ("GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=true")


def only_tugcode(text: str) -> bool:
    """Whether a command that was judged is made of calls of tugcode and nothing else."""
    found = shell.commands(text)
    plain = (each.words[:1] == ["tugcode"] and not each.writes + each.reads for each in found)
    return bool(found) and all(plain)


class Line:
    """One command line of an agent's, judged from left to right."""

    def __init__(self, role: Role | None, place: Place, depth: int = 0) -> None:
        self.role = role
        self.place = Place(place.cwd, place.plan)
        self.depth = depth

    def judge(self, text: str) -> None:
        """Refuse what the role may not run."""
        try:
            found = shell.commands(text, self.depth)
        except Unclear as unclear:
            if self.role is None:
                return
            raise Refused(
                f"the command {shown(text)}",
                why=f"it cannot be judged; {unclear}",
                instead="run plain commands, one at a time, with every word written out",
            ) from unclear
        for simple in found:
            self.simple(simple)

    def simple(self, simple: Simple) -> None:
        for path in simple.writes:
            paths.refuse_output(self.role, path, self.place)
        if self.role is None:
            self.nobodys(simple.words)
            return
        for setting in simple.assigned:
            self.refuse_variable(setting)
        if simple.words:
            self.program(self.role, simple.words)

    def nobodys(self, words: list[str]) -> None:
        """What is never right, whoever does it: to change the record past tugcode."""
        name = programs.called(words)
        if name in rules.CHANGING or name == "sqlite3":
            for path in programs.targets(name, words[1:]):
                paths.refuse_output(None, path, self.place)
        self.follow(name, words)

    def refuse_variable(self, setting: str) -> None:
        if "TUGCODE_" in setting:
            raise Refused(
                f"setting {shown(setting.partition('=')[0])}",
                why="tugcode's variables say who works on what, and come from whoever started you",
                instead="leave it out and run the command as it is",
            )
        if setting.startswith("GIT_") and setting not in _HARMLESS:
            raise Refused(
                f"setting {shown(setting.partition('=')[0])}",
                why="git would do something else than its words say",
                instead="leave it out, or name the directory with `git -C DIR`",
            )

    def program(self, role: Role, words: list[str]) -> None:
        name = programs.called(words)
        if UNKNOWN in name:
            raise Refused(
                f"the command {shown(' '.join(words))}",
                why="which program it runs is only known when it runs",
                instead="write the program's name out",
            )
        self.follow(name, words)
        if name in rules.SHELLS or name in ("source", "."):
            self.shell(role, words)
        elif name == "eval":
            self.inner(words[1:])
        elif name in rules.CHANGING or programs.writes(name, words):
            self.changing(role, name, words[1:])
        elif not self.call(role, words) and (
            name not in rules.VIEWING or programs.never(name, words)
        ):
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
            goal = os.path.expanduser(words[-1])
            self.place.cwd = os.path.normpath(os.path.join(self.place.cwd, goal))

    def changing(self, role: Role, name: str, words: list[str]) -> None:
        files = programs.targets(name, words)
        if role.edits != rules.WORK and (not files or UNKNOWN in "".join(files)):
            raise Refused(
                f"{shown(name)} of files that are only known when it runs",
                why=f"the {role.name} {role.task}",
                instead="write the file's name out; notes of your own go below /tmp",
            )
        for path in files:
            paths.refuse_output(role, path, self.place)

    def other(self, role: Role, name: str, words: list[str]) -> None:
        """A program that we know nothing of: what it is given may be a command again."""
        if role.programs == rules.VIEWERS:
            raise Refused(
                f"running {shown(name)}",
                why=f"the {role.name} {role.task}",
                instead="use Read, Grep and Glob, `git status`, `git diff`, or "
                f"{rules.wanted(role)}",
            )
        if name == "alias":
            raise Refused(
                "an alias",
                why="the command behind it could not be judged",
                instead="write the command out",
            )
        self.variables(name, words)
        if "-delete" in words and name == "find":
            self.changing(role, name, [])
        if name.startswith(rules.INTERPRETERS):
            self.interpreted(role, name, words)
        self.embedded(role, name, words)

    def variables(self, name: str, words: list[str]) -> None:
        if name == "env" and {"-", "-i", "--ignore-environment"} & set(words):
            self.refuse_variable("TUGCODE_ROLE=")
        for word in words[1:]:
            if name in (*_SETTING, "env") and UNKNOWN in word.partition("=")[0]:
                self.refuse_variable("TUGCODE_")
            for_git = name in _WRAPPERS and word.startswith("GIT_") and "=" in word
            if for_git or "TUGCODE_" in word:
                self.refuse_variable(word)

    def interpreted(self, role: Role, name: str, words: list[str]) -> None:
        module = programs.module(words)
        if module is not None:
            self.call(role, ["tugcode", *module])
            return
        inline = [w for w in words[1:] if w.startswith(_INLINE)] or "awk" in name
        said = {part for word in words[1:] for part in programs.parts(word)} if inline else set()
        if said & _OURS:
            raise Refused(
                f"code for {shown(name)} that speaks of {shown(sorted(said & _OURS)[0])}",
                why="what it would run cannot be judged",
                instead="run the command itself, without a program around it",
            )

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
        base = programs.called(words)
        if _is_order(words) or (name in _WRAPPERS and base in _OURS):
            self.refuse_added(name, words)
            self.call(role, words)
        elif base in rules.SHELLS and (name in _WRAPPERS or programs.script(words) is not None):
            self.shell(role, words)
        elif base in rules.CHANGING and name in _WRAPPERS:
            self.changing(role, base, words[1:])
        elif base.rstrip("0123456789.") == "python":
            self.interpreted(role, base, words)
        elif " " in words[0].strip() or "\n" in words[0].strip():
            self.mentioned(role, words[0])

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
        files = [word for word in words[1:] if not word.startswith(("-", "+"))]
        # A script has a name; what comes from another command, or a pipe, has none.
        hidden = [
            word for word in files[:1] if UNKNOWN in programs.called([word]) or word[:5] == "/dev/"
        ]
        if hidden or (not files and not {"--version", "--help"} & set(words)):
            raise Refused(
                f"{shown(words[0])} that reads its commands from elsewhere",
                why="what it would run cannot be judged",
                instead="write the commands out, one at a time",
            )
        if role.programs == rules.VIEWERS:
            self.other(role, programs.called(words), words)


def _is_order(words: list[str]) -> bool:
    """Whether words in the midst of others tell git or tugcode to do something that they know."""
    from tugtool.guard import calls

    name = programs.called(words)
    if name == "git":
        return calls.git_command(words[1:])[1] in rules.GIT_CHANGES
    if name == "tugcode":
        return calls.tugcode_command(words[1:]).partition(" ")[0] in rules.FIRST_WORDS
    return False
