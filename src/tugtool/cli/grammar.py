"""What commands, options and arguments are; the table is made of these."""

from __future__ import annotations


class Option:
    """`--name`, with as many values as `metavar` has words."""

    __slots__ = ("choices", "help", "kind", "metavar", "name", "repeat", "short")

    def __init__(
        self,
        name: str,
        metavar: str,
        help: str,
        *,
        kind: str = "text",
        choices: tuple[str, ...] = (),
        short: str = "",
        repeat: bool = False,
    ) -> None:
        self.name = name
        self.metavar = metavar
        self.help = help
        #: What a value is: text, number, seconds, directory, file, plan, step or dash; `maybe` is
        #: text that may be left out.
        self.kind = kind
        self.choices = choices
        self.short = short
        self.repeat = repeat

    @property
    def key(self) -> str:
        """The name under which a command finds the value."""
        return self.name.lstrip("-").replace("-", "_")


class Argument:
    """A positional word of a command."""

    __slots__ = ("choices", "help", "kind", "many", "name", "optional")

    def __init__(
        self,
        name: str,
        help: str,
        *,
        kind: str = "text",
        choices: tuple[str, ...] = (),
        optional: bool = False,
        many: bool = False,
    ) -> None:
        self.name = name
        self.help = help
        #: As of an option; `command` is all the words after `--`, and only those.
        self.kind = kind
        self.choices = choices
        self.optional = optional
        self.many = many

    @property
    def metavar(self) -> str:
        """How usage lines write it."""
        if self.kind == "command":
            return f"-- {self.name.upper()}..."
        name = "|".join(self.choices) or self.name.upper()
        if self.many:
            name += "..."
        return f"[{name}]" if self.optional else name


class Command:
    """One command: where its code is, and all that its help says."""

    __slots__ = (
        "arguments",
        "description",
        "examples",
        "function",
        "hidden",
        "module",
        "options",
        "path",
        "summary",
    )

    def __init__(
        self,
        path: str,
        module: str,
        summary: str,
        *,
        description: str = "",
        arguments: tuple[Argument, ...] = (),
        options: tuple[Option, ...] = (),
        examples: tuple[tuple[str, str], ...] = (),
        function: str = "",
        hidden: bool = False,
    ) -> None:
        self.path = path
        self.module = module
        self.function = function or path.replace(" ", "_").replace("-", "_")
        self.summary = summary
        self.description = description
        self.arguments = arguments
        self.options = options
        self.examples = examples
        self.hidden = hidden
