"""Completion: a small script for each shell, and the answers it asks for at each TAB.

All candidates come from the command table, the catalogue and the plans, so the scripts
never go out of date. Runs between two keystrokes: nothing heavy is imported here.
"""

from __future__ import annotations

import os

from tugtool.cli import output, table
from tugtool.errors import TugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tugtool.cli.parse import Call
    from tugtool.cli.table import Argument, Command, Option
    from tugtool.plan.catalog import PlanFile
    from tugtool.repository import Repository

    #: A candidate and its description.
    Offer = tuple[str, str]

LONGEST_DESCRIPTION = 60

# Never `compgen -W` in bash: it expands its words, so a file name could run a command.
_SCRIPTS = {
    "bash": """\
_tugcode() {
    local value rest
    COMPREPLY=()
    while IFS=$'\\t' read -r value rest; do
        COMPREPLY+=("$value")
    done < <(command tugcode complete-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _tugcode tugcode
""",
    # The last lines serve both ways of loading: by eval, and as a file in $fpath.
    "zsh": """\
#compdef tugcode
_tugcode() {
    local -a line candidates
    line=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    candidates=(${(f)"$(command tugcode complete-words -- "$line[@]" 2>/dev/null)"})
    candidates=(${${candidates//\\\\/\\\\\\\\}/$'\\t'/:})
    if (( $#candidates )); then
        _describe tugcode candidates
    else
        compset -P 1 '--*='
        _files
    fi
}
if [[ ${funcstack[1]} == _tugcode ]]; then
    _tugcode "$@"
else
    compdef _tugcode tugcode
fi
""",
    # A condition that fails leaves fish to its own completion of file names.
    "fish": """\
function __tugcode_found
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    set -g __tugcode_candidates (command tugcode complete-words -- $words "$current" 2>/dev/null)
    set -q __tugcode_candidates[1]
end
complete --command tugcode --erase
complete --command tugcode --no-files --condition __tugcode_found \\
    --arguments '$__tugcode_candidates'
""",
}


def completion(call: Call) -> output.Answer:
    """`tugcode completion`: the script for one shell."""
    shell = call.words("shell")[0]
    script = _SCRIPTS[shell]
    return output.Answer({"shell": shell, "script": script}, lambda: script)


def complete_words(call: Call) -> output.Answer:
    """`tugcode complete-words`: what the last of the words can become."""
    *before, current = call.words("words") or [""]
    try:
        # A broken plan may have an anchor twice.
        found = dict(_offers(_Line(before, cwd=call.cwd), current))
    except (TugError, OSError, ValueError):
        # Whoever presses TAB did not ask for our opinion about the repository.
        found = {}
    pairs = [(value, output.clean(found[value], LONGEST_DESCRIPTION)) for value in found]
    data = [{"value": value, "description": meaning} for value, meaning in pairs]
    return output.Answer(
        {"candidates": data},
        lambda: "".join(f"{value}\t{meaning}".rstrip("\t") + "\n" for value, meaning in pairs),
    )


class _Line:
    """What stands before the word to complete; as `parse` reads it, but never refusing."""

    def __init__(self, words: Sequence[str], *, cwd: str) -> None:
        self.cwd = self.directory = cwd
        self.command: Command | None = None
        self.group = ""
        self.given: dict[str, str] = {}
        self.positionals: list[str] = []
        self.pending: Option | None = None
        self.after = False
        self.lost = False
        for word in words:
            self.take(word)

    def take(self, word: str) -> None:
        if self.pending:
            # Bash cuts `--level=no` into three words.
            if word != "=":
                self.store(self.pending, word)
        elif self.after:
            self.positional(word)
        elif word == "--":
            self.after = True
        elif word.startswith("-") and word != "-":
            self.option(word)
        else:
            self.positional(word)

    def option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self.find(name)
        if option is table.VERSION_OPTION:
            self.command = table.find("version")
        elif option and option.metavar and not equals:
            self.pending = option
        elif option:
            self.store(option, value)

    def store(self, option: Option, value: str) -> None:
        self.given[option.name] = value
        self.pending = None
        if option.name == "--directory":
            self.directory = _directory(self.cwd, value)

    def positional(self, word: str) -> None:
        path = f"{self.group} {word}".strip()
        if self.command:
            self.positionals.append(word)
        elif self.after:
            self.lost = True
        elif path in table.GROUPS:
            self.group = path
        else:
            self.command = table.find(path)
            self.lost = self.command is None and (self.group != "" or word != "help")

    def options(self) -> tuple[Option, ...]:
        if self.command:
            return (*self.command.options, *table.GLOBAL_OPTIONS)
        return table.GLOBAL_OPTIONS if self.group else (*table.GLOBAL_OPTIONS, table.VERSION_OPTION)

    def find(self, name: str) -> Option | None:
        fitting = (option for option in self.options() if name in (option.name, option.short))
        return next(fitting, None)

    def argument(self) -> Argument | None:
        """What the next positional word would be."""
        arguments = self.command.arguments if self.command else ()
        if arguments and arguments[-1].kind == "command":
            if self.after:
                return arguments[-1]
            arguments = arguments[:-1]
        if len(self.positionals) < len(arguments):
            return arguments[len(self.positionals)]
        return arguments[-1] if arguments and arguments[-1].many else None

    def plan(self) -> str:
        """The plan named on the line, or nothing."""
        arguments = self.command.arguments if self.command else ()
        pairs: list[tuple[Option | Argument, str]] = []
        pairs += [(option, self.given.get(option.name, "")) for option in self.options()]
        pairs += zip(arguments, self.positionals, strict=False)
        return next((word for what, word in pairs if word and what.kind == "plan"), "")


def _offers(line: _Line, current: str) -> Iterator[Offer]:
    if line.lost:
        return
    if line.pending:
        # Of `--level=` bash completes the sign.
        typed = "" if current == "=" else current
        yield from _starting(typed, _values(line, line.pending))
    elif line.after or not current.startswith("-"):
        yield from _starting(current, _words(line))
    elif "=" in current:
        name = current.partition("=")[0]
        option = line.find(name)
        values = _values(line, option) if option else ()
        yield from _starting(current, ((f"{name}={value}", text) for value, text in values))
    else:
        yield from _starting(current, _options(line))


def _starting(typed: str, offers: Iterable[Offer]) -> Iterator[Offer]:
    return (offer for offer in offers if offer[0].startswith(typed))


def _words(line: _Line) -> Iterable[Offer]:
    if line.command is None:
        return () if line.after else _command_words(line.group)
    argument = line.argument()
    if argument:
        return (offer for offer in _values(line, argument) if offer[0] not in line.positionals)
    # Better than the names of files, which the command would refuse.
    return () if line.after else _options(line)


def _command_words(group: str) -> Iterable[Offer]:
    found: dict[str, str] = {}
    prefix = f"{group} " if group else ""
    for command in table.visible():
        if command.path.startswith(prefix):
            first, _, more = command.path.removeprefix(prefix).partition(" ")
            found.setdefault(first, table.GROUPS[prefix + first] if more else command.summary)
    return found.items()


def _options(line: _Line) -> Iterator[Offer]:
    for option in line.options():
        if option.name not in line.given:
            yield option.name, option.help


def _values(line: _Line, what: Option | Argument) -> Iterable[Offer]:
    if what.kind == "plan":
        return _plans(line)
    if what.kind == "step":
        return _steps(line)
    if what.kind == "dash":
        return _dashes(line)
    return ((choice, "") for choice in what.choices)


def _plans(line: _Line) -> Iterator[Offer]:
    from tugtool.plan import catalog

    for plan in catalog.plans(_repository(line)):
        if _is_plain(plan.slug):
            yield plan.slug, plan.key


def _steps(line: _Line) -> Iterator[Offer]:
    from tugtool import config, files
    from tugtool.plan import parser

    repo = _repository(line)
    path = _plan_file(repo, line).path
    limit = config.load(repo.root).number("plan.max_bytes")
    for step in parser.parse(files.text(path, files.read(path, max_bytes=limit))).steps:
        for place in (step, *step.substeps):
            if _is_plain(place.anchor):
                yield place.anchor, place.title


def _dashes(line: _Line) -> Iterator[Offer]:
    from tugtool.state import dashing
    from tugtool.store import open_store

    path = os.path.join(_repository(line).root, ".tugtool", "state.db")
    for row in dashing.every(open_store(f"sqlite://{path}"), ended=False):
        yield row["name"], row["description"] or ""


def _plan_file(repo: Repository, line: _Line) -> PlanFile:
    from tugtool.plan import catalog

    name = line.plan()
    return catalog.resolve(repo, name, cwd=line.directory) if name else catalog.only(repo)


def _repository(line: _Line) -> Repository:
    from tugtool import repository

    # A directory that is missing must not be taken for its parent.
    os.stat(line.directory)
    return repository.discover(line.directory)


def _is_plain(word: str) -> bool:
    # Nothing that a shell expands or splits, and nothing that looks like an option.
    return word[:1].isalnum() and all(c.isalnum() or c in "._-" for c in word)


def _directory(cwd: str, word: str) -> str:
    path = os.path.join(cwd, word)
    if os.path.isdir(path):
        return path
    # No shell tells what `~` means, and bash leaves the quotes in.
    return os.path.join(cwd, _unquoted(os.path.expanduser(word)))


def _unquoted(word: str) -> str:
    kept, quote, escaped = [], "", False
    for character in word:
        if not escaped and character == "\\" and quote != "'":
            escaped = True
        elif not escaped and (character == quote or (not quote and character in "'\"")):
            quote = "" if quote else character
        else:
            kept.append(character)
            escaped = False
    return "".join(kept)
