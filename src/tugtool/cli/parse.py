"""The command line against the table.

By hand because `argparse` costs 0.4 of a bare interpreter start on every command, and
because completion, help and the reference read the same table.
"""

from __future__ import annotations

from tugtool.cli import table
from tugtool.cli.table import GLOBAL_OPTIONS, GROUPS, VERSION_OPTION, Argument, Command, Option
from tugtool.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Call:
    """What was asked for: a command (or help about a group) and its values."""

    __slots__ = ("command", "cwd", "group", "help", "json", "values")

    def __init__(self) -> None:
        self.command: Command | None = None
        self.group = ""
        self.values: dict[str, list[str]] = {}
        self.cwd = ""
        self.json = False
        self.help = False

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
        """Whether an option without a value was given."""
        return key in self.values

    def words(self, key: str) -> list[str]:
        """All values of an argument that may stand several times."""
        return self.values.get(key, [])


def wants_json(words: Sequence[str]) -> bool:
    """Whether `--json` stands before `--`; asked before anything else can go wrong."""
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def parse(words: Sequence[str]) -> Call:
    """What `words` ask for, or a usage error with the closest thing that exists."""
    reader = _Reader(words)
    while (word := reader.next()) is not None:
        reader.take(word)
    if not reader.takes_command():
        for word in reader.after:
            reader.positional(word)
    return reader.finish()


class _Reader:
    """Words in, a Call out; one word at a time."""

    def __init__(self, words: Sequence[str]) -> None:
        end = words.index("--") if "--" in words else len(words)
        self.before = list(reversed(words[:end]))
        self.after = list(words[end + 1 :])
        self.call = Call()
        self.positionals: list[str] = []
        self.maybe: tuple[Option, int] | None = None

    def next(self) -> str | None:
        return self.before.pop() if self.before else None

    def take(self, word: str) -> None:
        if word.startswith("-") and word != "-":
            self.option(word)
        elif self.call.command is None:
            self.name(word)
        else:
            self.positional(word)

    def name(self, word: str) -> None:
        path = f"{self.call.group} {word}".strip()
        if path in GROUPS:
            self.call.group = path
            return
        self.call.command = table.find(path)
        if self.call.command is not None:
            return
        if self.call.group or word != "help":
            raise self.unknown("command", word, _next_words(self.call.group))
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
            self.call.command = table.find("version")
            return
        option = _find(self.options(), name)
        if option is None:
            raise self.unknown("option", name, (known.name for known in self.options()))
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
        value = self.next()
        if value is None:
            raise self.usage(f"option {option.name} needs a value: {option.metavar}")
        if _find(self.options(), value):
            # More likely a forgotten value than one that looks like an option.
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
            raise self.choice(f"option {option.name}", value, option.choices)
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
        for argument in command.arguments:
            taken, words = self.share(argument, words)
            if not taken and not argument.optional:
                raise self.usage(f"{command.path} needs {argument.metavar}: {argument.help}")
            for word in taken:
                if argument.choices and word not in argument.choices:
                    raise self.choice(argument.name.upper(), word, argument.choices)
            if taken:
                self.call.values[argument.name] = taken
        if words:
            raise self.usage(f'{command.path} does not know what to do with "{words[0]}"')
        return self.call

    def share(self, argument: Argument, words: list[str]) -> tuple[list[str], list[str]]:
        """The words that an argument gets, and those that are left."""
        if argument.kind == "command":
            return self.after, words
        return (words, []) if argument.many else (words[:1], words[1:])

    def take_maybe(self, command: Command) -> None:
        """A word too many right behind an option whose value may be left out is its value."""
        if self.maybe and len(self.positionals) > len(command.arguments):
            option, place = self.maybe
            if place < len(self.positionals):
                self.call.values[option.key] = [self.positionals.pop(place)]

    def usage(self, problem: str) -> Usage:
        return Usage(problem, command=self.call.path)

    def choice(self, what: str, value: str, choices: tuple[str, ...]) -> Usage:
        from tugtool import nearest

        problem = f'{what} takes {", ".join(choices)}, not "{value}"'
        return Usage(problem, command=self.call.path, close=nearest.names(value, choices, most=1))

    def unknown(self, what: str, word: str, known: Iterable[str]) -> Usage:
        from tugtool import nearest

        full = f"{self.call.group} {word}".strip() if what == "command" else word
        problem = f'there is no {what} "{full}"'
        close = nearest.names(word, known)
        if what == "command" and not close:
            # `tugcode graph` means `tugcode plan graph`.
            paths = list(table.COMMANDS)
            lasts = nearest.names(word, {path.split()[-1]: None for path in paths}, most=1)
            close = [path for path in paths if path.split()[-1] in lasts]
        return Usage(problem, command=self.call.path, close=close)


def _next_words(group: str) -> list[str]:
    depth = len(group.split())
    prefix = f"{group} " if group else ""
    paths = [path.split() for path in table.COMMANDS if path.startswith(prefix)]
    return list(dict.fromkeys(path[depth] for path in paths if len(path) > depth))


def _find(options: tuple[Option, ...], name: str) -> Option | None:
    known = (option for option in options if name and name in (option.name, option.short))
    return next(known, None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 15 and int(text) > 0


def _is_seconds(text: str) -> bool:
    from tugtool.clock import LONGEST_SECONDS

    plain = text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) <= 15
    return plain and 0 < float(text) <= LONGEST_SECONDS
