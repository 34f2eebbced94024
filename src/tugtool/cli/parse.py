"""The command line: commands with their options and arguments, and the parser."""

from __future__ import annotations

from tugtool import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tugtool.cli.output import Answer, Stream
    from tugtool.workflow.workspace import Workspace

#: Every command, in the order of the help: its module, who else may use it, and its summary. Help,
#: completion, guard and server list commands by it without loading them. `look`, `read` and `aid`
#: change nothing: `look` is for agents and over HTTP, `read` only over HTTP, `aid` only for agents.
#: `hold`, `steer` and `git` change something, over HTTP too; the server's guide says for whom.
FAMILIES = {
    "init": ("repo", "prepare a repository for Tugtool"),
    "trust": ("trust", "see what the files of this repository run, and say whether they may"),
    "plan new": ("plan", "start a plan from the skeleton"),
    "plan import": ("state_revise", "write a plan from the tasks of another tool"),
    "validate": ("plan look", "check plans against the rules of the format"),
    "implement": ("implement", "carry a plan out with agents, several steps at a time"),
    "next": ("next", "get a step to work on, with its text and checklist"),
    "done": ("next", "check the step you hold, commit its work and complete it"),
    "status": ("repo look", "show what is at work here, and what waits for you"),
    "list": ("plan look", "list the plans of this repository"),
    "state show": ("state_show look", "show how far a plan is"),
    "state ready": ("plan look", "list the steps by what you can do with them"),
    "state why": ("plan look", "explain why a step is not ready, who holds it, and what frees it"),
    "state log": ("state_show look", "list the events, oldest first"),
    "state stats": ("plan look", "show times and counts of each step"),
    "state diff": ("state_revise look", "compare the plan file with the agreed text"),
    "state revisions": ("state_revise look", "list the agreed texts of a plan, or print one"),
    "report": ("state_records look", "report on a plan: done, proved, deferred, repaired, waiting"),
    "transcript": ("implement read", "show the input and output of agents, also while they run"),
    "plan show": ("plan look", "show a plan as the parser reads it"),
    "plan graph": ("plan look", "show which steps can run in parallel"),
    "state review": ("state_review look", "list what waits for you; accept or reject it"),
    "plan accept": ("state_revise git", "accept a plan's new text after you have seen the changes"),
    "state pause": ("state_admin steer", "hand out no more steps"),
    "state resume": ("state_admin steer", "hand out steps again"),
    "state release": ("state_admin hold", "give a claimed step back"),
    "state reset": ("state_admin steer", "take a step from its holder, or free a parked one"),
    "state reopen": ("state_admin steer", "send a completed step back to be done again"),
    "state archive": ("state_records steer", "hide a plan that is done or given up"),
    "state init": ("state_admin git", "record a plan, so that workers can carry it out"),
    "state migrate": ("state_admin", "bring the tables in PostgreSQL up to date"),
    "state claim": ("state hold", "get the next step to work on, exactly once"),
    "state start": ("state hold", "record that work on a step begins"),
    "state heartbeat": ("state hold", "renew the lease on a step"),
    "state update": ("state hold", "set checklist items of a step"),
    "state artifact": ("state hold", "leave a note about a step for later workers"),
    "state verify": ("next git", "run the commands of a step's checkpoints, tick what passes"),
    "state complete": ("state hold", "record that a step is done"),
    "state exec": ("state_exec", "claim a step and run a command for it under the claim"),
    "commit": ("commit git", "commit a step's work and complete the step"),
    "merge": ("commit git", "merge a done plan's branches into its base branch"),
    "state reconcile": ("state_records git", "complete the steps whose commits git has"),
    "worktree create": ("worktree git", "make a worktree for a plan"),
    "worktree list": ("worktree look", "list the worktrees of plans, and branches that have none"),
    "worktree remove": ("worktree git", "remove a worktree and its branch"),
    "worktree clean": ("worktree git", "save uncommitted work of a lost step, clean the worktree"),
    "worktree cleanup": ("worktree git", "remove the worktrees and branches whose work has landed"),
    "worktree sync": ("worktree git", "merge the commits that your step depends on"),
    "worktree publish": ("worktree git", "push this clone's branches, for other machines"),
    "worktree salvage list": ("worktree look", "list saved uncommitted work"),
    "worktree salvage show": ("worktree look", "show the files of saved work"),
    "worktree salvage apply": ("worktree git", "apply saved work to this worktree, uncommitted"),
    "worktree salvage prune": ("worktree git", "drop saved work that has landed, or that you name"),
    "dash create": ("dash", "begin small work without a plan, in a worktree of its own"),
    "dash commit": ("dash", "commit the work in a dash, and record the round"),
    "dash join": ("dash", "merge a dash into its base branch, and end it"),
    "dash release": ("dash", "give a dash up"),
    "dash list": ("dash look", "list the dashes"),
    "dash show": ("dash look", "show a dash and its rounds"),
    "doctor": ("repo look", "find problems here, and say how to repair them"),
    "config": ("repo look", "show the settings in force and where they come from"),
    "plugin path": ("agents aid", "show where the plugin for agent clients is"),
    "plugin install": ("agents", "install the plugin in an agent client"),
    "hook pre-tool-use": ("agents aid", "tell an agent client whether a tool call is allowed"),
    "state move": ("state_records", "move the record of a renamed plan to its new name"),
    "state prune": ("state_records", "drop the records of plans without a file"),
    "state export": ("state_records read", "write the state as JSON lines"),
    "state import": ("state_records", "read a file that `export` wrote"),
    "state restore": ("state_admin", "replace a lost or damaged database with its backup"),
    "serve": ("serve", "serve the record over HTTP, to pages, scripts and other machines"),
    "serve token add": ("serve", "make a token for a person or a worker"),
    "serve token list": ("serve", "list the tokens, without their secrets"),
    "serve token revoke": ("serve", "make a token invalid at once"),
    "open": ("serve", "serve the record and open it in the browser"),
    "mcp": ("mcp", "serve the record to an agent client, as MCP tools"),
    "completion": ("help aid", "print a completion script for a shell"),
    "version": ("repo look", "show the versions of Tugtool, Python, git and SQLite"),
    "complete-words": ("help aid", "answer a completion script"),
}
CHANGING_NOTHING = ("look", "read", "aid")
GROUPS = {
    "plan": "write and inspect plans",
    "state": "carry a plan out, step by step",
    "worktree": "the branches and directories in which plans are carried out",
    "worktree salvage": "uncommitted work of steps that a worktree lost",
    "dash": "small work without a plan",
    "hook": "the hooks that agent clients call",
    "plugin": "skills and agents for your agent client",
    "serve token": "who may use the server, and as what",
}


#: The kind of a value by its name in the help; all others are text.
KINDS = {"ANCHOR": "step", "DIR": "directory", "FILE": "file", "N": "number", "PATH": "directory"}
KINDS |= {"PID": "number", "PLAN": "plan", "SECONDS": "seconds", "STEP": "step"}


class Option:
    """`--name`, with one value for each word behind it."""

    def __init__(
        self,
        form: str,
        help: str,
        *,
        kind: str = "",
        choices: tuple[str, ...] = (),
        short: str = "",
        repeat: bool = False,
    ) -> None:
        self.name, _, self.metavar = form.partition(" ")
        self.help, self.choices = help, choices
        #: One of KINDS, or text; `maybe` is text that may be left out.
        self.kind = kind or KINDS.get(self.metavar, "text")
        self.short, self.repeat = short, repeat

    @property
    def key(self) -> str:
        """The name by which a command reads the value."""
        return self.name.lstrip("-").replace("-", "_")


class Argument:
    """A positional word; `[name]` may be left out, `name...` may be several words."""

    def __init__(
        self, form: str, help: str, *, kind: str = "", choices: tuple[str, ...] = ()
    ) -> None:
        self.name, self.help, self.choices = form.strip("[.]"), help, choices
        #: As for an option, or dash; `command` is all the words after `--`.
        self.kind = kind or KINDS.get(self.name.upper(), "text")
        self.optional, self.many = form.startswith("["), "..." in form


class Command:
    """One command: its function and its help."""

    def __init__(
        self,
        path: str,
        function: Callable[[Call], Answer | Stream],
        description: str = "",
        takes: tuple[Argument | Option, ...] = (),
        *,
        examples: str = "",
    ) -> None:
        self.path, self.function, self.description = path, function, description
        self.arguments = tuple(each for each in takes if isinstance(each, Argument))
        self.options = tuple(each for each in takes if isinstance(each, Option))
        self._examples = examples

    @property
    def examples(self) -> list[tuple[str, str]]:
        """Example commands with comments, declared as `COMMAND  # comment`."""
        parts = (line.partition("  # ") for line in self._examples.split("\n"))
        return [(example, meaning) for example, _, meaning in parts]


def find(path: str) -> Command | None:
    """The command with that path, if there is one; loads only its module."""
    if path not in FAMILIES:
        return None
    # Importing importlib would cost more.
    family = __import__(f"tugtool.cli.{FAMILIES[path][0].split()[0]}", fromlist=["COMMANDS"])
    commands: tuple[Command, ...] = family.COMMANDS
    return next(command for command in commands if command.path == path)


def access(path: str) -> str:
    """The word in the table that says who else may use a command; "" if nobody."""
    return FAMILIES[path][0].partition(" ")[2]


#: Allowed anywhere on the command line before `--`.
GLOBAL_OPTIONS = (
    Option("--json", "print one JSON document instead of text"),
    Option("--directory DIR", "run as if started in DIR", short="-C"),
    Option("--help", "show help and exit", short="-h"),
)
VERSION_OPTION = Option("--version", "the same as `tugcode version`")
PLAN = Argument("plan", "the plan: a path, a file name, a slug, or its beginning")
ANY_PLAN = Argument("[plan]", f"{PLAN.help}; may be left out where exactly one is active")
EVERY_PLAN = Argument("[plan]", "the plan; all plans if left out")
STEP = Argument("step", "step-3 or #step-3, also a substep; without PLAN, of your worktree's plan")
WORKTREE = Option(
    "--worktree PATH", "the worktree you act for (default: that of the current directory)"
)
ATTEMPT = Option("--attempt N", "the attempt that claim returned; it must be current")
LEASE = Option(
    "--lease-duration SECONDS",
    "how long the claim lasts without a sign of life (default: state.lease_seconds)",
)
MAX_BYTES = Option("--max-bytes N", "accept plan files up to N bytes")
REASON = Option("--reason TEXT", "the reason, which is recorded and shown")


class Call:
    """A parsed command line: a command (or a group, for help) and its values."""

    def __init__(self) -> None:
        self.command: Command | None = None
        self.group = self.cwd = ""
        self.values: dict[str, list[str]] = {}
        #: The text of standard input, if the call does not come from a command line.
        self.given: bytes | None = None
        self.watch: Callable[[], object] = lambda: None  # It may raise to stop a long command.
        self.json = self.help = self.served = False

    @property
    def path(self) -> str:
        """The command as typed, e.g. `plan show`."""
        return self.command.path if self.command else self.group

    def text(self, key: str) -> str | None:
        """The value given for an option or argument, if any."""
        return self.values[key][0] if key in self.values else None

    def number(self, key: str) -> int | None:
        """The value of an option of kind `number`, if given."""
        return int(self.values[key][0]) if key in self.values else None

    def seconds(self, key: str) -> float | None:
        """The value of an option of kind `seconds`, if given."""
        return float(self.values[key][0]) if key in self.values else None

    def flag(self, key: str) -> bool:
        """True if the option, which has no value, was given."""
        return key in self.values

    def anchor(self) -> str:
        """The named step, without #."""
        return (self.text("step") or "").removeprefix("#")

    def workspace(self) -> Workspace:
        """Open the repository for the calling worktree."""
        from tugtool.workflow.workspace import Workspace

        if "" in (self.text("worktree"), self.text("request_id")):
            # Most likely an unset variable of a script; do not take another worktree for it.
            raise errors.Usage("--worktree and --request-id need a value", command=self.path)
        space = Workspace(self.cwd, self.text("worktree"))
        if space.repo.sharing is not None:
            from tugtool.workflow import records

            records.heed_sharing(space.repo.sharing)
        return space

    def held_step(self) -> tuple[Workspace, str, str, int | None]:
        """The repository, and the plan, step and attempt that a worker names."""
        space, anchor = self.workspace(), self.anchor()
        plan = space.plan(self.text("plan"))
        return space, plan, anchor, space.attempt(plan, anchor, self.number("attempt"))

    def words(self, key: str) -> list[str]:
        """All values of an argument that may be several words."""
        return self.values.get(key, [])


def parse(words: Sequence[str]) -> Call:
    """The call that `words` mean, or a usage error with the closest name."""
    reader = WordReader(words)
    reader.read()
    return reader.finish()


class WordReader:
    """Reads words one at a time into a Call. Completion has a lenient subclass."""

    def __init__(self, words: Sequence[str]) -> None:
        end = words.index("--") if "--" in words else len(words)
        self.before = list(reversed(words[:end]))
        self.after = list(words[end + 1 :])
        self.call = Call()
        self.positionals: list[str] = []
        self.maybe: tuple[Option, int] | None = None

    def read(self) -> None:
        while (word := self.next()) is not None:
            self.take(word)
        if not self.takes_command():
            for word in self.after:
                self.positional(word)

    def next(self) -> str | None:
        return self.before.pop() if self.before else None

    def take(self, word: str) -> None:
        if word.startswith("-") and word != "-":
            self.option(word)
        elif self.call.command is None or f"{self.call.path} {word}" in GROUPS:
            self.name(word)
        else:
            self.positional(word)

    def name(self, word: str) -> None:
        path = f"{self.call.path} {word}".strip()
        if path in GROUPS:
            # `serve` is a command, and `serve token` a group.
            self.call.command, self.call.group = None, path
            return
        # `state` may be left out where the rest is not another command: `tugcode claim`.
        self.call.command = find(path) or find(f"state {path}")
        if self.call.command is not None:
            return
        if self.call.group or word != "help":
            raise self.wrong("command", word)
        self.call.help = True

    def positional(self, word: str) -> None:
        if self.call.command is None:
            raise self.usage("there is no command before --")
        self.positionals.append(word)

    def takes_command(self) -> bool:
        arguments = self.call.command.arguments if self.call.command else ()
        return any(argument.kind == "command" for argument in arguments)

    def option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if name == "--version" and self.call.command is None and not self.call.group:
            self.call.command = find("version")
            return
        option = find_option(self.options(), name)
        if option is None:
            raise self.wrong("option", name, self.options())
        count = len(option.metavar.split())
        if not count and equals:
            raise self.usage(f"option {option.name} takes no value")
        if option.kind == "maybe" and not equals:
            self.maybe = (option, len(self.positionals))
            self.store(option, [""])
            return
        given = [value] if equals else []
        self.store(option, given + [self.value_for(option) for _ in range(count - len(given))])

    def options(self) -> tuple[Option, ...]:
        own = self.call.command.options if self.call.command else (VERSION_OPTION,)
        return (*own, *GLOBAL_OPTIONS)

    def value_for(self, option: Option) -> str:
        if (value := self.next()) is None:
            raise self.usage(f"option {option.name} needs a value: {option.metavar}")
        if find_option(self.options(), value):
            # More likely the value was forgotten.
            raise self.usage(
                f"option {option.name} needs a value, and {value} is an option; "
                f"write {option.name}={value} if it is meant"
            )
        return value

    def store(self, option: Option, values: list[str]) -> None:
        for value in values:
            self.refuse_bad(option, value)
        if option.name == "--json":
            self.call.json = True
        elif option.name == "--help":
            self.call.help = True
        elif option.name == "--directory":
            self.call.cwd = values[0]
        elif option.key in self.call.values and option.metavar and not option.repeat:
            raise self.usage(f"option {option.name} was given twice")
        else:
            self.call.values.setdefault(option.key, []).extend(values)

    def refuse_bad(self, option: Option, value: str) -> None:
        if option.choices and value not in option.choices:
            raise self.wrong("choice", f"option {option.name}", value, option.choices)
        if option.kind == "number" and not _is_number(value):
            raise self.usage(f'option {option.name} takes a whole number above 0, not "{value}"')
        if option.kind == "seconds" and not _is_seconds(value):
            raise self.usage(f'option {option.name} takes seconds above 0, not "{value}"')

    def finish(self) -> Call:
        command = self.call.command
        if command is None or self.call.help:
            return self.call
        self.take_maybe(command)
        words = self.positionals
        # A step alone is one of the worktree's plan, or of the only active one.
        alone = [word.lstrip("#")[:5] for word in words] == ["step-"]
        for argument in command.arguments[alone and command.arguments[:2] == (PLAN, STEP) :]:
            taken, words = self.share(argument, words)
            if not taken and not argument.optional:
                raise self.wrong("missing", argument)
            for word in taken:
                if argument.choices and word not in argument.choices:
                    raise self.wrong("choice", argument.name.upper(), word, argument.choices)
            if taken:
                self.call.values[argument.name] = taken
        if words:
            raise self.usage(f'{command.path} does not know what to do with "{words[0]}"')
        return self.call

    def share(self, argument: Argument, words: list[str]) -> tuple[list[str], list[str]]:
        """The words for this argument, and the rest."""
        if argument.kind == "command":
            return self.after, words
        return (words, []) if argument.many else (words[:1], words[1:])

    def take_maybe(self, command: Command) -> None:
        """Take a surplus word behind an option with an optional value as its value."""
        if self.maybe and len(self.positionals) > len(command.arguments):
            option, place = self.maybe
            if place < len(self.positionals):
                self.call.values[option.key] = [self.positionals.pop(place)]

    def usage(self, problem: str) -> errors.Usage:
        return errors.Usage(problem, command=self.call.path)

    def wrong(self, what: str, *facts: Any) -> errors.Usage:
        from tugtool.cli import usage

        return usage.REFUSALS[what](self.call, *facts)


def find_option(options: tuple[Option, ...], name: str) -> Option | None:
    return next((each for each in options if name and name in (each.name, each.short)), None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 15 and int(text) > 0


def _is_seconds(text: str) -> bool:
    from tugtool.system.clock import LONGEST_SECONDS

    plain = text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) <= 15
    return plain and 0 < float(text) <= LONGEST_SECONDS
