"""Help texts and shell completion."""

from __future__ import annotations

from tugtool import errors
from tugtool.cli import output, parse
from tugtool.cli.parse import Argument, Call, Command, Option
from tugtool.errors import TugError
from tugtool.system import files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tugtool.git import Repository

    #: A candidate and its description.
    Offer = tuple[str, str]


#: The first command of each topic in the overview, in the order of `parse.FAMILIES`.
TOPICS = {
    "init": "start here",
    "status": "look",
    "state review": "decide",
    "state init": "work",
    "commit": "git",
    "doctor": "setup",
}
#: Only completion scripts call these.
_HIDDEN = ("complete-words",)
#: Groups whose commands an overview lists one by one; the others take one row each.
_LISTED = ("plan", "state")
#: A space that folding keeps.
_FIRM = "\xa0"
#: The width if no terminal gives one, and the most that people can read.
USUAL_WIDTH, _WIDEST = 80, 120
LONGEST_DESCRIPTION = 60


def text(call: Call) -> str:
    """The help of a command, of a group, or of everything."""
    width = min(output.width(USUAL_WIDTH), _WIDEST)
    if call.command is not None:
        return for_command(call.command, width)
    return for_group(call.group, width)


def visible(group: str = "") -> dict[str, str]:
    """The commands of a group that people use, each with its summary."""
    prefix = f"{group} " if group else ""
    shown = (path for path in parse.FAMILIES if path not in _HIDDEN and path.startswith(prefix))
    return {path: parse.FAMILIES[path][1] for path in shown}


def short_names() -> dict[str, str]:
    """The commands that work without the word `state`, each with its summary."""
    return {short(path): said for path, said in visible("state").items() if short(path) != path}


def short(path: str) -> str:
    """The command as people type it: without `state` where that is unambiguous."""
    name = path.removeprefix("state ")
    return path if any(each.split()[0] == name for each in parse.FAMILIES) else name


def for_group(group: str, width: int = USUAL_WIDTH) -> str:
    """The commands of a group, or all of them, by topic."""
    path = f"{group} " if group else ""
    lines = _folded(f"tugcode {path}COMMAND [...]", width, "usage: ", "       ")
    said = parse.GROUPS.get(group, "the shared record of agents that carry out a plan together")
    lines += _prose(f"{said[0].upper()}{said[1:]}.", width)
    topics = _topics(group)
    names = [name for rows in topics.values() for name in rows]
    for topic, rows in topics.items():
        heading = f"{topic}:" if len(topics) > 1 else "commands:"
        lines += ["", heading, *_rows(rows.items(), width, names)]
    options = parse.GLOBAL_OPTIONS if group else (*parse.GLOBAL_OPTIONS, parse.VERSION_OPTION)
    lines += ["", "options:", *_rows(map(_option_row, options), width)]
    more = f"`tugcode {path}COMMAND --help` tells more, with examples."
    if group in ("", "state"):
        more += " `tugcode show` is short for `tugcode state show`, and so on."
    return "\n".join([*lines, *_prose(more, width)]) + "\n"


def _topics(group: str) -> dict[str, dict[str, str]]:
    """Topic -> the rows below it: commands, and groups of commands."""
    found: dict[str, dict[str, str]] = {}
    topic, depth = "", len(group.split())
    for path, said in visible().items():
        topic = TOPICS.get(path, topic)
        inner = " ".join(path.split()[:-1][: depth + 1])
        if inner in parse.FAMILIES:
            # `serve` is a command, and `serve token` a group.
            inner = " ".join(path.split()[:-1][: depth + 2])
        if path.startswith(f"{group} " if group else ""):
            whole = inner not in ("", group, *_LISTED)
            row = (inner, _group_row(inner)) if whole else (short(path), said)
            found.setdefault(topic, {})[row[0]] = row[1]
    return found


def _group_row(group: str) -> str:
    words = (path.removeprefix(f"{group} ").split()[0] for path in visible(group))
    return f"{parse.GROUPS[group]} ({', '.join(dict.fromkeys(words))})"


def for_command(command: Command, width: int = USUAL_WIDTH) -> str:
    """The help of one command."""
    lines = _folded(usage(command), width, "usage: ", "       ")
    said, name = parse.FAMILIES[command.path][1], short(command.path)
    full = f"The full name is `tugcode {command.path}`." if name != command.path else ""
    parts = (f"{said[0].upper()}{said[1:]}.", command.description, full)
    lines += _prose("\n\n".join(filter(None, parts)), width)
    arguments = [(argument_form(argument), argument.help) for argument in command.arguments]
    options = [*map(_option_row, (*command.options, *parse.GLOBAL_OPTIONS))]
    for heading, rows in (("arguments", arguments), ("options", options)):
        lines += ["", f"{heading}:", *_rows(rows, width)] if rows else []
    lines += ["", "examples:"]
    for example, meaning in command.examples:
        example = example.replace(f"tugcode {command.path}", f"tugcode {name}")
        lines += _folded(_unfolded(example), width, "  ", "    ", " \\")
        lines += _folded(meaning, width, *("      ",) * 2)
    return "\n".join(lines) + "\n"


def usage(command: Command) -> str:
    """The usage line of a command."""
    words = ["tugcode", short(command.path)]
    words += [argument_form(argument) for argument in command.arguments]
    words += [f"[{option_form(option)}]" for option in command.options]
    return " ".join([words[0], *(word.replace(" ", _FIRM) for word in words[1:])])


def option_form(option: Option) -> str:
    """An option with the name of its value."""
    return f"{option.name} {option.metavar}".strip()


def argument_form(argument: Argument) -> str:
    """An argument in a usage line."""
    if argument.kind == "command":
        return f"-- {argument.name.upper()}..."
    name = "|".join(argument.choices) or argument.name.upper()
    if argument.many:
        name += "..."
    return f"[{name}]" if argument.optional else name


def _option_row(option: Option) -> tuple[str, str]:
    form, said = option_form(option), option.help
    if option.choices:
        said += f"; {option.metavar} is {', '.join(option.choices[:-1])} or {option.choices[-1]}"
    return (f"{option.short}, {form}" if option.short else form), said


def _rows(rows: Iterable[tuple[str, str]], width: int, names: Sequence[str] = ()) -> list[str]:
    pairs = list(rows)
    # Long names do not move the second column.
    column = min(max(map(len, names or [left for left, _ in pairs])), width // 3) + 4
    lines = []
    for left, right in pairs:
        # If a word does not fit the column, its row begins further left.
        start = max(6, min(column, width - max(map(len, right.split()))))
        fits = len(left) + 4 <= start
        lines += [] if fits else _folded(left, width, "  ", "    ")
        first = f"  {left}" if fits else ""
        lines += _folded(right, width, first.ljust(start), " " * start)
    return lines


def _prose(text: str, width: int) -> list[str]:
    """Indented paragraphs, each after a blank line."""
    folded = (_folded(part, width, "  ", "  ") for part in text.split("\n\n"))
    return [line for lines in folded for line in ("", *lines)]


def _folded(text: str, width: int, first: str, hang: str, end: str = "") -> list[str]:
    """A text folded between words; a folded line ends in `end`, the next is indented."""
    # textwrap would import `re`; help is measured against the bare interpreter.
    words = text.replace("\n", " ").split(" ")
    lines = [first + words[0]]
    for place, word in enumerate(words[1:], 2):
        room = width - (0 if place == len(words) else len(end))
        if len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines[-1] += end
            lines.append(hang + word)
    return [line.replace(_FIRM, " ") for line in lines]


def _unfolded(text: str) -> str:
    """An example with spaces in quotes that folding keeps."""
    for mark in "'\"":
        parts = text.split(mark)
        parts[1::2] = [part.replace(" ", _FIRM) for part in parts[1::2]]
        text = mark.join(parts)
    return text


def completion(call: Call) -> output.Answer:
    """`tugcode completion`: the script for one shell."""
    shell = call.words("shell")[0]
    path = os.path.join(os.path.dirname(__file__), "shells", f"completion.{shell}")
    script = files.read(path).decode()
    return output.Answer({"shell": shell, "script": script}, lambda: script)


def complete_words(call: Call) -> output.Answer:
    """`tugcode complete-words`: the candidates for the last word."""
    *before, current = call.words("words") or [""]
    try:
        # A broken plan may have an anchor twice.
        found = dict(_offers(_TypedLine(before, cwd=call.cwd), current))
    except (TugError, OSError, ValueError):
        # TAB must not print errors about the repository.
        found = {}
    pairs = [(value, output.clean(found[value], LONGEST_DESCRIPTION)) for value in found]
    data = [{"value": value, "description": meaning} for value, meaning in pairs]
    return output.Answer(
        {"candidates": data},
        lambda: "".join(f"{value}\t{meaning}".rstrip("\t") + "\n" for value, meaning in pairs),
    )


class _TypedLine(parse.WordReader):
    """The words before the one to complete, read like `parse` but without refusals."""

    def __init__(self, words: Sequence[str], *, cwd: str) -> None:
        super().__init__(words)
        self.ended = "--" in words
        self.given: set[str] = set()
        self.pending: Option | None = None
        self.lost = False
        self.read()
        self.directory = _directory(cwd, self.call.cwd) if self.call.cwd else cwd

    def take(self, word: str) -> None:
        try:
            super().take(word)
        except errors.Usage:
            # Skip a wrong option; without a command there are no candidates.
            self.lost = self.lost or not (self.call.command or word.startswith("-"))

    def positional(self, word: str) -> None:
        self.lost = self.lost or self.call.command is None
        self.positionals.append(word)

    def store(self, option: Option, values: list[str]) -> None:
        self.given.add(option.name)
        super().store(option, values)

    def value_for(self, option: Option) -> str:
        value = self.next()
        # Bash cuts `--level=no` into three words.
        while value == "=":
            value = self.next()
        if value is None:
            self.pending = option
            raise self.usage(f"option {option.name} needs a value")
        return value

    def options(self) -> tuple[Option, ...]:
        if self.call.command or self.call.group:
            own = self.call.command.options if self.call.command else ()
            return (*own, *parse.GLOBAL_OPTIONS)
        return (*parse.GLOBAL_OPTIONS, parse.VERSION_OPTION)

    def argument(self) -> Argument | None:
        """The argument that the next positional word is for."""
        arguments = self.call.command.arguments if self.call.command else ()
        if arguments and arguments[-1].kind == "command":
            if self.ended:
                return arguments[-1]
            arguments = arguments[:-1]
        if len(self.positionals) < len(arguments):
            return arguments[len(self.positionals)]
        return arguments[-1] if arguments and arguments[-1].many else None

    def plan(self) -> str:
        """The plan named on the line, if any."""
        arguments = self.call.command.arguments if self.call.command else ()
        pairs: list[tuple[Option | Argument, str]] = []
        pairs += [(option, self.call.text(option.key) or "") for option in self.options()]
        pairs += zip(arguments, self.positionals, strict=False)
        return next((word for what, word in pairs if word and what.kind == "plan"), "")


def _offers(line: _TypedLine, current: str) -> Iterator[Offer]:
    if line.lost:
        return
    if line.pending:
        # Bash completes `--level=` as the word `=`.
        typed = "" if current == "=" else current
        yield from _starting(typed, _values(line, line.pending))
    elif line.ended or not current.startswith("-"):
        yield from _starting(current, _words(line))
    elif "=" in current:
        name = current.partition("=")[0]
        option = parse.find_option(line.options(), name)
        values = _values(line, option) if option else ()
        yield from _starting(current, ((f"{name}={value}", text) for value, text in values))
    else:
        yield from _starting(current, _options(line))


def _starting(typed: str, offers: Iterable[Offer]) -> Iterator[Offer]:
    return (offer for offer in offers if offer[0].startswith(typed))


def _words(line: _TypedLine) -> Iterable[Offer]:
    if line.call.command is None:
        return () if line.ended else _command_words(line.call.group)
    argument = line.argument()
    if argument:
        return (offer for offer in _values(line, argument) if offer[0] not in line.positionals)
    # Without candidates, shells offer file names, which the command refuses.
    return () if line.ended else (*_groups_in(line.call.path), *_options(line))


def _groups_in(path: str) -> Iterator[Offer]:
    """The groups below a command: `token` of `serve`."""
    for group, said in parse.GROUPS.items():
        if group.startswith(f"{path} "):
            yield group.removeprefix(f"{path} "), said


def _command_words(group: str) -> Iterable[Offer]:
    found: dict[str, str] = {}
    prefix = f"{group} " if group else ""
    for path, summary in visible(group).items():
        first, _, more = path.removeprefix(prefix).partition(" ")
        said = parse.GROUPS.get(prefix + first, summary) if more else summary
        found.setdefault(first, said)
    return (found if group else found | short_names()).items()


def _options(line: _TypedLine) -> Iterator[Offer]:
    for option in line.options():
        if option.name not in line.given:
            yield option.name, option.help


def _values(line: _TypedLine, what: Option | Argument) -> Iterable[Offer]:
    if what.kind == "plan":
        return _plans(line)
    if what.kind == "step":
        return _steps(line)
    if what.kind == "dash":
        return _dashes(line)
    return ((choice, "") for choice in what.choices)


def _plans(line: _TypedLine) -> Iterator[Offer]:
    from tugtool.plan import catalog

    for plan in catalog.plans(_repository(line)):
        if _is_plain(plan.slug):
            yield plan.slug, plan.key


def _steps(line: _TypedLine) -> Iterator[Offer]:
    from tugtool.workflow import plans

    _, plan = plans.read(_repository(line), line.plan() or None, cwd=line.directory)
    for step in plan.steps:
        for place in (step, *step.substeps):
            if _is_plain(place.anchor):
                yield place.anchor, place.title


def _dashes(line: _TypedLine) -> Iterator[Offer]:
    from tugtool.state import dashes
    from tugtool.workflow.workspace import Workspace

    store = Workspace(_repository(line).worktree).store
    for row in dashes.every(store, ended=False):
        yield row["name"], row["description"] or ""


def _repository(line: _TypedLine) -> Repository:
    from tugtool.git import discover

    # Do not take the parent for a missing directory.
    os.stat(line.directory)
    return discover(line.directory)


def _is_plain(word: str) -> bool:
    # A shell must not expand, split or read it as an option.
    return word[:1].isalnum() and all(c.isalnum() or c in "._-" for c in word)


def _directory(cwd: str, word: str) -> str:
    path = os.path.join(cwd, word)
    if os.path.isdir(path):
        return path
    # Shells do not expand `~` here, and bash keeps the quotes.
    return os.path.join(cwd, _unquoted(os.path.expanduser(word)))


def _unquoted(word: str) -> str:
    kept, quote, escaped = "", "", False
    for character in word:
        if not escaped and character == "\\" and quote != "'":
            escaped = True
        elif not escaped and (character == quote or (not quote and character in "'\"")):
            quote = "" if quote else character
        else:
            kept, escaped = kept + character, False
    return kept


COMMANDS = (
    Command(
        "completion",
        completion,
        """\
Completes commands, options, their values, plan names and step anchors. The script asks
tugcode itself, so it is never out of date.""",
        (Argument("shell", "your shell", choices=("bash", "zsh", "fish")),),
        examples="""\
eval "$(tugcode completion bash)"  # in ~/.bashrc
eval "$(tugcode completion zsh)"  # in ~/.zshrc, after compinit
tugcode completion fish | source  # in ~/.config/fish/config.fish""",
    ),
    Command(
        "complete-words",
        complete_words,
        "Prints the candidates for the last of WORDS: one per line, with a tab and a description.",
        (Argument("[words...]", "the command line so far"),),
        examples="tugcode complete-words -- plan sh  # show",
    ),
)
