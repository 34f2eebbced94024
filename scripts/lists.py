"""Write the lists that follow from the table of commands, where code cannot read the table itself.

    python scripts/lists.py [--check]

The guard's words and the operations that a server carries out are in rooms below the command line.
The changelog gets a line for each command that it does not name. With `--check` nothing is written;
exit status 1 if a list is out of date.
"""

import importlib
import inspect
import pkgutil
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import tugtool
from tugtool import state
from tugtool.cli import help, parse
from tugtool.state import operations

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(tugtool.__file__).parent
BEGIN = "# From here on written by `make docs`; do not edit.\n"
END = "# Up to here.\n"
WIDTH = 100
#: The groups of operations that a command can stand for.
OF_COMMANDS = ("look", "hold", "steer")


def guard() -> str:
    """Return the rules of the guard, with the words of the table as it is now."""
    firsts = sorted({path.split()[0] for path in parse.FAMILIES})
    block = (
        "#: Commands of `tugcode` that change nothing, for every role.\n"
        f"LOOK_COMMANDS = frozenset(\n    (\n{_packed(agents_commands(), 8)}    )\n)\n"
        "#: First words of `tugcode` commands that need a second word, and all first words.\n"
        f"GROUPS = (\n{_packed(sorted(parse.GROUPS), 4)})\n"
        f"FIRST_WORDS = (\n{_packed(firsts, 4)})\n"
        "#: Commands of `state` that work without that word too.\n"
        f"STATE_WORDS = (\n{_packed(sorted(help.short_names()), 4)})\n"
    )
    return _replaced(PACKAGE / "agents" / "guard" / "rules.py", block)


def agents_commands() -> list[str]:
    """Return the commands that every role may run."""
    return sorted(path for path in parse.FAMILIES if parse.access(path) in ("look", "aid"))


def _packed(words: Iterable[str], indent: int) -> str:
    """Return words as tuples of one line each, as the formatter leaves them."""
    lines, line = [], ""
    for word in words:
        more = f'{line}, "{word}"' if line else f'"{word}"'
        if indent + len(f"*({more}),") > WIDTH:
            lines.append(line)
            more = f'"{word}"'
        line = more
    lines.append(line)
    shown = (f"*({each})," if ", " in each else f"{each}," for each in lines)
    return "".join(f"{' ' * indent}{each}\n" for each in shown)


def served() -> str:
    """Return the table of operations, with the groups of those that follow from the table."""
    found: dict[str, dict[str, list[str]]] = {group: {} for group in OF_COMMANDS}
    for home, name, function in all_operations():
        if not any(name in each.get(home, "").split() for each in operations.BY_HAND.values()):
            found[group_of(home, name, function)].setdefault(home, []).append(name)
    _refuse_homonyms(found)
    parts = [f"    {group!r}: {{\n{_homes(found[group])}    }},\n" for group in OF_COMMANDS]
    block = f"DERIVED = {{\n{''.join(parts)}}}\n".replace("'", '"')
    return _replaced(PACKAGE / "state" / "operations.py", block)


def _refuse_homonyms(found: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Refuse two operations that one command would stand for."""
    names = [name for group in ("hold", "steer") for each in found[group].values() for name in each]
    for name in names:
        if names.count(name) > 1:
            sys.exit(f"two operations are called {name}; list one in BY_HAND")


def all_operations() -> Iterator[tuple[str, str, types.FunctionType]]:
    """Yield every public function of the record that takes a store first, with its module."""
    for home in sorted(each.name for each in pkgutil.iter_modules(state.__path__)):
        if home in ("operations", "wire"):
            continue
        module = importlib.import_module(f"tugtool.state.{home}")
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and function.__module__ == module.__name__
            if own and not name.startswith("_") and next(_parameters(function), "") == "store":
                yield home, name, function


def _parameters(function: types.FunctionType) -> Iterator[str]:
    return iter(inspect.signature(function).parameters)


def group_of(home: str, name: str, function: types.FunctionType) -> str:
    """Return who may call an operation: it looks, or belongs to the command of its name."""
    if not writes(function, set()):
        return "look"
    path = f"state {name}"
    word = parse.access(path) if path in parse.FAMILIES else ""
    if word not in OF_COMMANDS:
        sys.exit(
            f"state/{home}.py: {name} writes, and no command of that name says who may call it;"
            f" list it in BY_HAND of {operations.__name__}"
        )
    return word


def writes(function: types.FunctionType, seen: set[types.FunctionType]) -> bool:
    """Return whether a function, or one that it calls, opens a transaction to write."""
    seen.add(function)
    for code in _codes(function.__code__):
        if "write" in code.co_names:
            return True
        named = [function.__globals__.get(name) for name in code.co_names]
        homes = [each for each in named if isinstance(each, types.ModuleType)]
        named += [vars(home).get(name) for home in homes for name in code.co_names]
        if any(_is_ours(each) and each not in seen and writes(each, seen) for each in named):
            return True
    return False


def _is_ours(value: object) -> bool:
    return inspect.isfunction(value) and value.__module__.startswith("tugtool.state.")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _homes(homes: Mapping[str, list[str]]) -> str:
    """Return modules with their operations, in lines that are not too long."""
    lines = []
    for home, names in homes.items():
        line = f'        "{home}": "'
        for name in names:
            if len(f'{line}{name} ",') > WIDTH:
                lines.append(f'{line}"')
                line = '        "'
            line += f"{name} "
        lines.append(f'{line.rstrip()}",')
    return "".join(f"{line}\n" for line in lines)


def _replaced(path: Path, block: str) -> str:
    before, rest = path.read_text().split(BEGIN, 1)
    return f"{before}{BEGIN}{block}{END}{rest.split(END, 1)[1]}"


def changelog() -> str:
    """Return the changelog, with a line for each command that it does not name."""
    page = (ROOT / "CHANGELOG.md").read_text()
    said = " ".join(page.split())
    names = {path: (path, help.short(path)) for path in help.visible()}
    lines = [
        f"- `tugcode {short}`: {help.visible()[path]}.\n"
        for path, (_, short) in names.items()
        if not any(re.search(rf"`(tugcode )?{each}\b", said) for each in names[path])
    ]
    before, heading, after = page.partition("### Added\n\n")
    return f"{before}{heading}{''.join(lines)}{after}"


FILES = {
    PACKAGE / "agents" / "guard" / "rules.py": guard,
    PACKAGE / "state" / "operations.py": served,
    ROOT / "CHANGELOG.md": changelog,
}


def main(words: list[str]) -> int:
    """Write or compare every list, and return the exit status."""
    stale = 0
    for path, text in FILES.items():
        if path.read_text() == text():
            continue
        stale += 1
        if "--check" in words:
            print(f"{path.name} is out of date; run: make docs", file=sys.stderr)
        else:
            path.write_text(text())
            print(f"wrote {path.name}")
    return 1 if "--check" in words and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
