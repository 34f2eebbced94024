"""Who may import whom, who alone may touch which outside thing, and how the rooms are kept.

Each rule is a function over a source tree, so that each is also shown to catch a planted
violation. docs/internals/architecture.md says the same in words.
"""

import ast
import functools
import graphlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

import tugtool

HERE = "tests/project/test_architecture.py"
ROOT = "tugtool"
MOST_AT_THE_TOP = 12
MOST_MODULES = 175
#: What only some commands load, beyond one machine: a second engine, which needs an address, and
#: the server with what it shares with the command line; and a reader for settings that are set.
#: Likewise what keeps a repository's programs from running unasked, and agents in their place.
#: These modules do not count for the limit, which keeps the rest of the package easy to search.
BEYOND_THE_LIMIT = (
    *("store.owners", "store.postgres", "workflow.shared_record", "system.toml"),
    *("server", "cli.serve", "cli.usage", "errors.server", "system.serve_config"),
    *("state.requests", "store.sqlite.group", "workflow.sentences", "workflow.timeline"),
    *("state.standings", "workflow.server_note", "workflow.workers"),
    *("cli.mcp", "agents.mcp_clients", "agents.mcp_entries"),
    *("workflow.salvage.leftovers", "workflow.commit.named"),
    *("state.operations", "state.wire", "store.remote", "system.state_config"),
    *("git.remote", "state.publication", "store.sql.publication"),
    *("workflow.remote", "workflow.merge.push", "workflow.needs"),
    *("system.variables", "git.safe_view", "workflow.trust", "workflow.trust_question"),
    *("cli.trust", "errors.safety", "workflow.exports"),
    *("system.confinement", "system.landlock", "system.secrets", "agents.confinement"),
)
LONGEST_FUNCTION = 40
LONGEST_MODULE = 450
#: A module beyond these needs an entry in REASONS.
LONG_MODULE, SHORT_MODULE = 400, 60
#: In how many modules a public function may have one name: an edge, `workflow` and `state`.
MOST_HOMES = 3
#: Of a reason.
FEWEST_WORDS = 3
EXCLUSION = re.compile(r"#\s*pragma:\s*no\s*(?:cover|branch)\b(.*)")

#: From the bottom to the top: a room imports only from rows above its own.
ORDER = (
    ("errors",),
    ("system",),
    ("git", "plan", "store", "agents"),
    ("state",),
    ("workflow",),
    ("implement",),
    ("cli", "server"),
)
EDGES = ORDER[-1]
#: The imports between rooms of a row: what imports, what it imports, and why.
SIDEWAYS = {
    ("plan", "git"): "`plan` takes Repository from `git` itself",
    ("server", "cli.parse"): "the server reads requests by the table of commands",
    ("server", "cli.output"): "the server writes the same envelopes",
    ("server.words", "cli.draw.canvas"): "the page has the signs of the terminal",
    ("server.words", "cli.draw.plan"): "the page has the signs of the terminal",
    ("server.words", "cli.draw.status"): "the page has the words of the terminal",
    ("server", "cli.main"): "the server runs a command's function as the command line does",
    ("cli.mcp", "server.mcp.session"): "`mcp` is a command",
    ("cli.mcp", "server.mcp.held"): "it gives the server its client's claims",
    ("cli.mcp", "server.mcp.protocol"): "with --json it counts the tools",
    ("cli.mcp", "server.mcp.stdio"): "it runs the server",
    ("cli.serve", "server.process"): "`serve` is a command",
    ("cli.serve", "server.tokens"): "`serve token` is a command",
}
#: Types of answers, for annotations in any room; there is nothing to load.
SCHEMAS = "schemas"
BESIDE = ("__init__.py", "__main__.py", "py.typed")
#: What an edge may import although it is none of its business, and why.
ALLOWED = {
    ("cli.repo", "git.command"): "`version` names the git in use and loads nothing else",
    ("cli.repo", "store.sqlite.file"): "`version` names the SQLite in use and loads nothing else",
    ("server.served", "store"): "the type of the store of a request",
    ("server.mcp.http", "store"): "the type of the store of a request",
    ("server.work", "store"): "the type of the store that each thread opens",
}
#: Why a module is so long, or so short.
REASONS = {
    "": "the version, which every command loads",
    "__main__": "python -m tugtool",
    "agents": "the room's docstring",
    "agents.clis": "the clients' command lines, events and costs, which change together",
    "agents.guard": "the package's docstring",
    "agents.guard.shell": "words hold commands and commands hold words, so one reader takes both",
    "agents.scripted.__main__": "python -m tugtool.agents.scripted",
    "cli": "the room's docstring",
    "cli.draw": "the package's docstring",
    "cli.draw.plan": "one picture: its header, its steps with their items, and what comes next",
    "cli.draw.status": "plans, dashes, worktrees and saved work, in the same words and columns",
    "cli.draw.canvas": "signs, colours, columns and folding, which every picture shares",
    "cli.help": "help and completion list the same commands from one place",
    "cli.next": "the commands that check a step before it is done, and what they say",
    "cli.worktree": "the commands of worktrees and of saved work, each with its sentences",
    "cli.state_review": "what waits for a person, its pages, and what the person says to it",
    "errors.safety": "two refusals that only a command which runs something can meet",
    "errors.state": "the refusals of one record, which people look up together",
    "implement": "the room's docstring",
    "implement.run": "what all threads of a run share, and how work on a step can end",
    "implement.snapshot": "all that is compared before and after an agent is held in one place",
    "plan": "the room's docstring",
    "server": "the room's docstring",
    "server.mcp": "the package's docstring",
    "plan.fingerprint": "a public path of its own, loaded by every claim",
    "plan.rules": "every rule about a plan, in the one file where rules are added",
    "state.attempts": "what is recorded of an attempt and of a run, while it lasts and afterwards",
    "state.checklists": "an update, from its entries to the answer, in one file that workers load",
    "state.claims": "a claim, from the request to the answer, in one file that every worker loads",
    "state.completion": "evidence, what it proves, and the completion that rests on it",
    "state.explanation": "the facts of `why` and the sentences about them belong together",
    "cli.draw.report": "the report as text, Markdown and HTML, from one order of parts",
    "server.work": "a request from its fields to its answer, on the writer and on readers",
    "workflow.report": "what a report says of a night, in its order",
    "workflow.salvage.catch_up": "everything that is made up for before a claim",
    "state.history": "log and stats read the same events",
    "state.record": "what every operation shares; every claim loads it as one file",
    "state.reviews": "what waits for a person, and what a person says to it",
    "store.sql.publication": "loaded only where commits travel by a remote",
    "store.sqlite": "every command on the record loads it as one file",
    "system.variables": "what the documentation lists, which no command has to load",
    "system.command": "a command from its start to its end, with its pipes and its limits",
    "workflow": "the room's docstring",
    "workflow.merge": "a merge from its refusals to its end, and what it fetches first",
    "workflow.verify": "a step's checkpoints, from the agreed text to what is recorded",
    "workflow.next_step": "one step from its claim to its commit, and why there is none",
    "workflow.server_note": "who serves the repository, for the server and those who look for it",
    "workflow.overview": "what is shown of a plan, from its text and from its record",
}


class Fence(NamedTuple):
    """Names that only the modules within may use; `*` stands for any ending."""

    what: str
    names: tuple[str, ...]
    within: str


#: What the room `system` has a stand-in for.
STANDS_FOR = {"tugtool.system.os": "os"}

FENCES = (
    Fence("know a database engine", ("sqlite3", "_sqlite3"), "store"),
    Fence("serve over HTTP", ("starlette", "uvicorn", "websockets", "h11", "asyncio"), "server"),
    # On macOS only the C library knows the machine's own id; on Linux it confines a thread.
    Fence(
        "call a C library",
        ("ctypes", "_ctypes"),
        "store.postgres or store.owners or system.landlock",
    ),
    Fence(
        "start processes",
        (
            "subprocess",
            "multiprocessing",
            "pty",
            "os.posix_spawn*",
            "os.fork*",
            "os.exec*",
            "os.spawn*",
            "os.system",
            "os.popen",
            *("posix.posix_spawn*", "posix.fork*", "posix.exec*", "posix.system"),
            "_posixsubprocess",
            "asyncio.create_subprocess*",
            "asyncio.subprocess",
            "concurrent.futures.ProcessPool*",
            "pydoc",
            "pdb",
        ),
        # Doctor times a bare Python, and asks macOS for its mounts.
        "git.command or system.command or system.process_group or workflow.doctor.machine",
    ),
    Fence("stand in for os", ("posix",), "system"),
    Fence("open a browser", ("webbrowser",), "cli.serve"),
    # Whatever the repository's files name is started by a Permit of `workflow.trust`. The others
    # start what the person typed, a client that the person named, and Tugtool itself.
    Fence(
        "start a command",
        (
            "tugtool.system.command.start",
            "tugtool.system.command.run",
            "tugtool.system.process_group.start_apart",
            "tugtool.system.process_group.Guardian",
        ),
        "workflow.trust or cli.state_exec or agents.plugin or git.remote or store.sqlite.backup or "
        "workflow.doctor.guard or workflow.doctor.machine or system.command or "
        "system.process_group",
    ),
    Fence(
        "read the environment",
        ("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "os.unsetenv"),
        "system.config",
    ),
    Fence("print", ("builtins.print", "sys.stdout", "sys.stderr", "sys.__std*__"), "cli or server"),
    Fence(
        "touch the terminal or signals",
        ("termios", "tty", "signal", "os.get_terminal_size"),
        "cli.output or cli.draw.screen or cli.state_exec or cli.implement_live or "
        "server.process or server.mcp.stdio or system.command or system.process_group",
    ),
    Fence("look at a clock", ("time", "datetime"), "cli or system.clock or system.lock or store"),
    Fence(
        "import by a computed name",
        ("builtins.__import__", "importlib", "runpy"),
        "cli.parse or errors or state or workflow.library",
    ),
    Fence(
        "say what a transaction does",
        ("builtins.tx", "tugtool.store.sql"),
        "state or store",
    ),
)
#: A program of its own that stands in for somebody else's, as tests and the demo need one: the
#: fences are not about it, and nothing else may import it.
OUTSIDE = "agents.scripted"


#: When an import happens: with its module, in a function, or only for annotations.
AT_START, LATER, FOR_TYPES = "start", "later", "types"


class Import(NamedTuple):
    """One name that a module imports, and when."""

    name: str
    line: int
    when: str


class Module(NamedTuple):
    """One source file; `name` is dotted and without the package's own name in front."""

    name: str
    file: str
    source: str
    tree: ast.Module

    def at(self, line: int) -> str:
        return f"{self.file}:{line}"


class Tree(dict[str, Module]):
    """All modules by name; `top` has what lies at the top of the package."""

    top: tuple[str, ...] = ()


def read(package: Path) -> Tree:
    """All modules below `package`, by name; the package itself is the empty name."""
    modules = Tree()
    modules.top = tuple(
        sorted(path.name for path in package.iterdir() if path.name != "__pycache__")
    )
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package)
        parts = file.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        source = path.read_text()
        modules[name] = Module(name, file.as_posix(), source, ast.parse(source))
    return modules


def the_top_is_short(tree: Tree) -> Iterator[str]:
    entries = set(tree.top) - set(BESIDE)
    if len(entries) > MOST_AT_THE_TOP:
        yield f"the package has {len(entries)} entries, more than {MOST_AT_THE_TOP}"


def every_entry_is_a_room(tree: Tree) -> Iterator[str]:
    known = {*BESIDE, SCHEMAS, *(room for row in ORDER for room in row)}
    for entry in tree.top:
        if entry not in known:
            yield f"{entry} is not a room: put it into one, or add it to ORDER in {HERE}"


def there_are_few_modules(tree: Tree) -> Iterator[str]:
    number = sum(not any(_is_within(name, each) for each in BEYOND_THE_LIMIT) for name in tree)
    if number > MOST_MODULES:
        yield f"there are {number} modules, more than {MOST_MODULES}"


def every_room_says_who_may_import_it(tree: Tree) -> Iterator[str]:
    for name in filter(_is_room, tree):
        said = " ".join((ast.get_docstring(tree[name].tree) or "").split())
        if not re.search(rf"Room `{name}`: .*\bimports\b.*\bmay import it\.", said):
            yield f"{tree[name].file} does not say what room it is and who may import it"


def rooms_import_what_they_say(tree: Tree) -> Iterator[str]:
    for module, line, target in _inner_imports(tree):
        here, there = _room(module.name), _room(target)
        said = (ast.get_docstring(tree[here].tree) or "") if here in tree else ""
        named = " ".join(said.split()).rpartition("imports")[2].partition(";")[0]
        if here != there and not re.search(rf"\b({there}|rooms? below)\b", named):
            yield f"{module.at(line)} imports {target}, and the docstring of {here} does not say so"


def imports_point_down(tree: Tree) -> Iterator[str]:
    for module, line, target in _inner_imports(tree):
        here, there = _room(module.name), _room(target)
        if not (_is_room(here) and _is_room(there)):
            continue  # `every_entry_is_a_room` complains
        allowed = {(here, target), (module.name, target)}
        sideways = here == there or not allowed.isdisjoint(SIDEWAYS)
        if _height(there) >= _height(here) and not sideways:
            yield f"{module.at(line)} imports {target}, which is not below {here}"


def git_and_the_record_meet_in_workflow(tree: Tree) -> Iterator[str]:
    for module, line, target in _inner_imports(tree):
        if _room(module.name) == "state" and _room(target) == "git":
            yield f"{module.at(line)} imports {target}; only workflow and above know git and record"


def edges_hold_no_sql_and_start_no_git(tree: Tree) -> Iterator[str]:
    for module, line, target in _inner_imports(tree):
        foreign = _room(target) == "store" or (_room(target) == "git" and target != "git")
        if _room(module.name) in EDGES and foreign and (module.name, target) not in ALLOWED:
            yield f"{module.at(line)} imports {target}; an edge calls workflow or state instead"


def schemas_are_for_annotations(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        for found in _imports(module):
            if _is_within(found.name, f"{ROOT}.{SCHEMAS}") and found.when != FOR_TYPES:
                yield f"{module.at(found.line)} imports {found.name} outside of TYPE_CHECKING"


def no_class_name_is_used_twice(tree: Tree) -> Iterator[str]:
    homes = _homes(tree, ast.ClassDef)
    for name, modules in homes.items():
        if len(modules) > 1:
            yield f"the class {name} is in {' and '.join(modules)}"


def no_function_name_is_used_often(tree: Tree) -> Iterator[str]:
    homes = _homes(tree, ast.FunctionDef)
    for name, modules in homes.items():
        if len(modules) > MOST_HOMES and not name.startswith("_"):
            yield f"the function {name} is in {', '.join(modules)}"


def commands_are_declared_beside_their_functions(tree: Tree) -> Iterator[str]:
    families, declared = _families(tree), Counter[str]()
    for module in tree.values():
        own = {node.name for node in module.tree.body if isinstance(node, ast.FunctionDef)}
        for call, path, function in _commands(module):
            declared[path] += 1
            if f"cli.{families.get(path)}" != module.name:
                yield f"{module.at(call.lineno)} declares {path}, against parse.FAMILIES"
            elif function not in own:
                yield f"{module.at(call.lineno)} declares {path}, but {function} is elsewhere"
    for path in families:
        if declared[path] != 1:
            yield f"parse.FAMILIES has {path}, which is declared {declared[path]} times"


def the_package_itself_imports_nothing(tree: Tree) -> Iterator[str]:
    # Whatever it imported, every command would; `sys` is there anyway.
    for found in _imports(tree[""]):
        if found.when == AT_START and not found.name.startswith("sys."):
            yield f"{tree[''].at(found.line)} imports {found.name}"


def nothing_imports_in_a_circle(tree: Tree) -> Iterator[str]:
    graph = {
        module.name: {
            _module_in(tree, found.name) for found in _imports(module) if found.when == AT_START
        }
        for module in tree.values()
    }
    try:
        graphlib.TopologicalSorter(
            {name: targets - {None, ""} for name, targets in graph.items()}
        ).prepare()
    except graphlib.CycleError as error:
        yield f"modules import each other at start: {' <- '.join(error.args[1])}"


def imports_are_absolute(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        for node in _nodes(module):
            if isinstance(node, ast.ImportFrom) and node.level:
                yield f"{module.at(node.lineno)} has a relative import"


def fences_hold(tree: Tree) -> Iterator[str]:
    for fence in FENCES:
        yield from breaches(tree, fence)


def breaches(tree: Tree, fence: Fence) -> Iterator[str]:
    """Where a module outside uses a name that is only for those within."""
    for module in tree.values():
        if any(_is_within(module.name, unit) for unit in (*fence.within.split(" or "), OUTSIDE)):
            continue
        for name, lines in _uses(module).items():
            for line in lines if _is_like(name, fence.names) else ():
                yield f"{module.at(line)} uses {name}; only {fence.within} may {fence.what}"


@functools.cache
def _is_like(name: str, likes: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, like) for like in likes)


def permits_come_from_trust(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        for node in _nodes(module) if module.name != "workflow.trust" else ():
            # A type may be named; a call or another name for it makes one.
            made = isinstance(node, (ast.Call, ast.Assign))
            if made and any(_dotted(each)[-1:] == ["Permit"] for each in ast.walk(node)):
                yield f"{module.at(node.lineno)} makes a Permit; only trust.permit gives one"


def nothing_of_the_system_is_found_by_a_computed_name(tree: Tree) -> Iterator[str]:
    """`getattr(os, ...)` and the start of a process by an event loop pass every fence."""
    for module in tree.values():
        for node in (each for each in _nodes(module) if isinstance(each, ast.Call)):
            by_name = _dotted(node.func) == ["getattr"] and _dotted(node.args[0]) == ["os"]
            if by_name or _dotted(node.func)[-1] in ("subprocess_exec", "subprocess_shell"):
                yield f"{module.at(node.lineno)} starts processes past the fences"


def os_comes_from_system(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        if module.name == "system" or _is_within(module.name, OUTSIDE):
            continue
        for node, _ in _import_nodes(module.tree, AT_START):
            is_from = isinstance(node, ast.ImportFrom)
            named = [node.module] if is_from else [each.name for each in node.names]
            if any(name in ("os", "os.path") for name in named):
                yield f"{module.at(node.lineno)} loads os: from tugtool.system import os"


def the_stand_in_stands_alone(tree: Tree) -> Iterator[str]:
    for module, line, target in _inner_imports(tree):
        if _is_within(target, OUTSIDE) and not _is_within(module.name, OUTSIDE):
            yield f"{module.at(line)} imports {target}, which is a program of its own"


def modules_say_what_lives_there(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        if not ast.get_docstring(module.tree):
            yield f"{module.file} has no docstring"


def functions_are_short(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        for node in _nodes(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    yield f"{module.at(node.lineno)} {node.name} has {lines} lines"


def modules_have_a_good_size(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        lines = _length(module)
        if lines > LONGEST_MODULE:
            yield f"{module.file} has {lines} lines, more than {LONGEST_MODULE}"
        elif not SHORT_MODULE <= lines <= LONG_MODULE and module.name not in REASONS:
            yield f"{module.file} has {lines} lines: say why in REASONS of {HERE}"


def _length(module: Module) -> int:
    """The lines of a module; the table of commands has one for each, and does not count."""
    table = [node for node in module.tree.body if _is_table(node)]
    return len(module.source.splitlines()) - sum(node.end_lineno - node.lineno for node in table)


def _is_table(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FAMILIES"


def exclusions_say_why(tree: Tree) -> Iterator[str]:
    """What coverage is told to pass over has a reason, there or in a comment just above."""
    for module in tree.values():
        lines = ["", *module.source.splitlines()]
        for number, line in enumerate(lines):
            found = EXCLUSION.search(line)
            above = lines[number - 1].strip()
            said = [found[1] if found else "", above if above.startswith("#") else ""]
            if found and max(len(each.split()) for each in said) < FEWEST_WORDS:
                yield f"{module.at(number)} is kept from being covered, and does not say why"


RULES = (
    the_top_is_short,
    every_entry_is_a_room,
    there_are_few_modules,
    every_room_says_who_may_import_it,
    rooms_import_what_they_say,
    imports_point_down,
    git_and_the_record_meet_in_workflow,
    edges_hold_no_sql_and_start_no_git,
    schemas_are_for_annotations,
    no_class_name_is_used_twice,
    no_function_name_is_used_often,
    commands_are_declared_beside_their_functions,
    the_package_itself_imports_nothing,
    nothing_imports_in_a_circle,
    imports_are_absolute,
    fences_hold,
    permits_come_from_trust,
    nothing_of_the_system_is_found_by_a_computed_name,
    os_comes_from_system,
    the_stand_in_stands_alone,
    modules_say_what_lives_there,
    functions_are_short,
    modules_have_a_good_size,
    exclusions_say_why,
)


def _is_within(name: str, unit: str) -> bool:
    return name == unit or name.startswith(f"{unit}.")


def _room(name: str) -> str:
    return "cli" if name == "__main__" else name.partition(".")[0]


def _is_room(name: str) -> bool:
    return any(name in row for row in ORDER)


def _height(room: str) -> int:
    return next(height for height, row in enumerate(ORDER) if room in row)


def _homes(tree: Tree, kind: type[ast.ClassDef | ast.FunctionDef]) -> dict[str, list[str]]:
    """Where each name is defined: classes anywhere, functions at the top of a module."""
    homes = defaultdict(list)
    for module in tree.values():
        nodes = _nodes(module) if kind is ast.ClassDef else module.tree.body
        for node in nodes:
            if isinstance(node, kind):
                homes[node.name].append(module.name)
    return homes


def _families(tree: Tree) -> dict[str, str]:
    """Every command's path, with the name of its module in `cli`."""
    for node in tree["cli.parse"].tree.body:
        if _is_table(node):
            return {path: each[0].split()[0] for path, each in ast.literal_eval(node.value).items()}
    raise AssertionError("cli/parse.py has no FAMILIES")


@functools.cache
def _nodes(module: Module) -> list[ast.AST]:
    """Every node of a module: each rule looks at them all."""
    return list(ast.walk(module.tree))


def _commands(module: Module) -> Iterator[tuple[ast.Call, str, str]]:
    """Every declaration of a command: its path and its function."""
    for node in _nodes(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Command", "parse.Command"):
            yield node, ast.literal_eval(node.args[0]), ast.unparse(node.args[1])


def _starts(name: str) -> list[str]:
    """`os.environ.get` is also a use of `os.environ` and of `os`."""
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def _module_in(tree: Tree, name: str) -> str | None:
    """The module of ours that an imported name is, or is a part of."""
    starts = _starts(name)
    if starts[0] != ROOT:
        return None
    ours = [start.removeprefix(f"{ROOT}.") for start in starts[1:]]
    return max((start for start in ours if start in tree), key=len, default="")


def _inner_imports(tree: Tree) -> Iterator[tuple[Module, int, str]]:
    for module in tree.values():
        for found in _imports(module):
            target = _module_in(tree, found.name)
            if target and module.name:
                yield module, found.line, target


@functools.cache
def _imports(module: Module) -> list[Import]:
    """Every name imported anywhere in a module, in full."""
    return [
        Import(name, node.lineno, when)
        for node, when in _import_nodes(module.tree, AT_START)
        for _, name in _bound(node)
    ]


def _import_nodes(node: ast.AST, when: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, when
    if when == AT_START and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        when = LATER
    for child in ast.iter_child_nodes(node):
        # No expression has an import.
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            types = _is_for_types(node) and child in node.body
            yield from _import_nodes(child, FOR_TYPES if types else when)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _bound(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """The local names an import makes, each with what it stands for."""
    if isinstance(node, ast.ImportFrom):
        full = ((each, f"{node.module}.{each.name}") for each in node.names)
        return [(each.asname or each.name, STANDS_FOR.get(name, name)) for each, name in full]
    return [(each.asname or each.name, each.name) for each in node.names]


def _dotted(node: ast.AST) -> list[str]:
    """The words of `a.b.c`; an empty one first if it is anything else."""
    rest: list[str] = []
    while isinstance(node, ast.Attribute):
        rest.insert(0, node.attr)
        node = node.value
    return [node.id if isinstance(node, ast.Name) else "", *rest]


@functools.cache
def _uses(module: Module) -> dict[str, list[int]]:
    """Every name a module imports or mentions, and what each is a part of, with its lines."""
    mentioned = defaultdict(set)
    for name, line in _mentions(module):
        mentioned[name].add(line)
    used = defaultdict(set)
    for name, lines in mentioned.items():
        for start in _starts(name):
            used[start] |= lines
    return {name: sorted(lines) for name, lines in used.items()}


def _mentions(module: Module) -> Iterator[tuple[str, int]]:
    """Every name a module imports or mentions, in full, with its line."""
    meaning: dict[str, str] = {}
    for node, _ in _import_nodes(module.tree, AT_START):
        for local, name in _bound(node):
            first = local.partition(".")[0]
            meaning[first] = name if first == local else first
            yield name, node.lineno
    for node in _nodes(module):
        first, *rest = _dotted(node)
        if first:
            yield ".".join([meaning.get(first, f"builtins.{first}"), *rest]), node.lineno


@pytest.fixture(scope="module")
def sources() -> Tree:
    return read(Path(tugtool.__file__).parent)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_sources_keep_the_rule(sources, rule):
    assert "\n".join(rule(sources)) == ""


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.what)
def test_a_fence_has_something_to_keep_in(sources, fence):
    assert list(breaches(sources, fence._replace(within="nobody")))


def test_the_lists_hold_nothing_that_is_not_needed(sources):
    imports = {(module.name, target) for module, _, target in _inner_imports(sources)}
    assert set(ALLOWED) <= imports
    for importer, imported in SIDEWAYS:
        assert any(_is_within(name, importer) and target == imported for name, target in imports)
    sizes = {name: _length(module) for name, module in sources.items()}
    odd = {name for name, lines in sizes.items() if not SHORT_MODULE <= lines <= LONG_MODULE}
    assert set(REASONS) == odd


def test_the_page_about_the_rooms_shows_their_order():
    page = (Path(__file__).parents[2] / "docs" / "internals" / "architecture.md").read_text()
    assert " < ".join(" ".join(row) for row in ORDER) in page


CLEAN = {
    "__init__.py": '"""All."""\n__version__ = "1"\n',
    "__main__.py": '"""Program."""\nfrom tugtool.cli import main\n',
    "py.typed": "",
    "schemas/state-claim.json": "{}",
    "errors/__init__.py": '"""Room `errors`: it imports nothing; all may import it."""\n',
    "system/__init__.py": '"""Room `system`: it imports errors; all may import it."""\n',
    "system/config.py": (
        '"""Config."""\nfrom tugtool.system import os\nfrom tugtool import errors\n'
        "HOME = os.environ\n"
    ),
    "git/__init__.py": '"""Room `git`: it imports system; plan may import it."""\n',
    "git/command.py": (
        '"""Git."""\nfrom tugtool.system import config\nfrom tugtool.system import os\n'
        "RUN = os.fork\n"
    ),
    "plan/__init__.py": '"""Room `plan`: it imports git; state may import it."""\n',
    "plan/model.py": '"""Values."""\n',
    "plan/parser.py": '"""Parser."""\nfrom tugtool.plan.model import Plan\n',
    "plan/catalog.py": '"""Names."""\nfrom tugtool.git import Repository\n',
    "store/__init__.py": '"""Room `store`: it imports errors; state may import it."""\n',
    "store/sqlite.py": '"""Engine."""\nimport sqlite3\ndef tx(tx):\n    tx.now\n',
    "agents/__init__.py": '"""Room `agents`: it imports errors; cli may import it."""\n',
    "agents/scripted/__init__.py": '"""A program."""\nimport subprocess, time\nprint(time)\n',
    "state/__init__.py": '"""Room `state`: it imports plan, store; workflow may import it."""\n',
    "state/claims.py": '"""Claims."""\nfrom tugtool.store import sql\ndef claim(tx):\n    tx.run\n',
    "workflow/__init__.py": '"""Room `workflow`: imports every room below; cli may import it."""\n',
    "workflow/plans.py": '"""Plans."""\nfrom tugtool import __version__, git, state\n',
    "implement/__init__.py": '"""Room `implement`: imports rooms below; cli may import it."""\n',
    "cli/__init__.py": '"""Room `cli`: it imports the rooms below; nobody may import it."""\n',
    "cli/main.py": '"""Main."""\nimport sys,time\nfrom tugtool import state\nprint(sys.stdout)\n',
    "cli/parse.py": '"""Words."""\nFAMILIES = {"state claim": ("state", "get a step")}\n',
    "cli/state.py": (
        '"""Steps."""\nfrom tugtool.cli.parse import Command\ndef claim(call): ...\n'
        'COMMANDS = (Command("state claim", claim),)\n'
    ),
}

#: rule, file, text put at its end, what the complaint says
PLANTED = [
    (the_top_is_short, "extra_{}/data.json", "", "entries, more than 12"),
    (every_entry_is_a_room, "novel.py", "", "novel.py is not a room"),
    (every_entry_is_a_room, "novel/deep.py", "", "add it to ORDER in " + HERE),
    (there_are_few_modules, "plan/rule_{}.py", "", "modules, more than 175"),
    (
        every_room_says_who_may_import_it,
        "server/__init__.py",
        '"""Another edge."""',
        "server/__init__.py does not say what room it is",
    ),
    (
        rooms_import_what_they_say,
        "store/sqlite.py",
        "from tugtool.system import config",
        "imports system.config, and the docstring of store does not say so",
    ),
    (imports_point_down, "errors/__init__.py", "from tugtool import system", "imports system"),
    (imports_point_down, "system/config.py", "import tugtool.git.command", "imports git.command"),
    (imports_point_down, "store/sqlite.py", "from tugtool import git", "not below store"),
    (imports_point_down, "git/command.py", "from tugtool import plan", "not below git"),
    (imports_point_down, "plan/catalog.py", "from tugtool.git import command", "git.command"),
    (imports_point_down, "state/claims.py", "from tugtool.workflow.plans import x", "plans"),
    (imports_point_down, "workflow/plans.py", "from tugtool.cli.main import x", "imports cli.main"),
    (imports_point_down, "git/command.py", "def f():\n    import tugtool.cli.main", "y:6 imports"),
    (
        imports_point_down,
        "git/command.py",
        "if TYPE_CHECKING:\n    from tugtool import state",
        "st",
    ),
    (
        imports_point_down,
        "plan/model.py",
        "try:\n    pass\nfinally:\n    import tugtool.cli",
        "cli",
    ),
    (
        git_and_the_record_meet_in_workflow,
        "state/claims.py",
        "def f():\n    from tugtool.git import discover",
        "imports git; only workflow and above",
    ),
    (
        edges_hold_no_sql_and_start_no_git,
        "cli/main.py",
        "from tugtool.git import command",
        "imports git.command; an edge calls workflow or state",
    ),
    (edges_hold_no_sql_and_start_no_git, "cli/main.py", "import tugtool.store", "imports store"),
    (
        edges_hold_no_sql_and_start_no_git,
        "server/http.py",
        "from tugtool.store import open_store",
        "server/http.py:1 imports store",
    ),
    (
        schemas_are_for_annotations,
        "state/claims.py",
        "from tugtool.schemas import StateClaim",
        "imports tugtool.schemas.StateClaim outside of TYPE_CHECKING",
    ),
    (schemas_are_for_annotations, "cli/main.py", "def f():\n    import tugtool.schemas", "y:6"),
    (
        no_class_name_is_used_twice,
        "plan/model.py",
        "class Plan: ...\ndef f():\n    class Plan: ...",
        "the class Plan is in plan.model and plan.model",
    ),
    (
        no_function_name_is_used_often,
        "git/named_{}.py",
        "def found(): ...",
        "the function found is in",
    ),
    (
        commands_are_declared_beside_their_functions,
        "cli/main.py",
        "def go(call): ...\nCommand('state go', go)",
        "cli/main.py:6 declares state go, against parse.FAMILIES",
    ),
    (
        commands_are_declared_beside_their_functions,
        "cli/state.py",
        "Command('state claim', claim)",
        "parse.FAMILIES has state claim, which is declared 2 times",
    ),
    (the_package_itself_imports_nothing, "__init__.py", "from tugtool import git", "tugtool.git"),
    (the_package_itself_imports_nothing, "__init__.py", "import typing", "imports typing"),
    (nothing_imports_in_a_circle, "plan/model.py", "import tugtool.plan.parser", "plan.parser"),
    (nothing_imports_in_a_circle, "system/config.py", "from tugtool.git.command import run", "git"),
    (imports_are_absolute, "git/command.py", "from . import config", "command.py:5 has a relative"),
    (imports_are_absolute, "cli/main.py", "def f():\n    from .. import git", "relative"),
    (
        fences_hold,
        "store/sqlite.py",
        "import ctypes",
        "uses ctypes; only store.postgres or store.owners or system.landlock may",
    ),
    (fences_hold, "git/command.py", "import sqlite3", "uses sqlite3; only store may"),
    (fences_hold, "cli/main.py", "import uvicorn", "only server may serve over HTTP"),
    (fences_hold, "cli/main.py", "from _sqlite3 import connect", "uses _sqlite3; only store"),
    (
        fences_hold,
        "workflow/plans.py",
        "def f():\n    import subprocess",
        "only git.command or system.command or system.process_group or workflow.doctor.machine may "
        "start processes",
    ),
    (fences_hold, "workflow/plans.py", "from os import fork", "uses os.fork; only git.command"),
    (
        fences_hold,
        "git/__init__.py",
        "import os as o\no.execvp('x', [])",
        "uses os.execvp; only git",
    ),
    (fences_hold, "cli/main.py", "import os\nos.system('x')", "uses os.system; only git"),
    (fences_hold, "store/sqlite.py", "import os\nos.posix_spawn", "only git.command or"),
    (fences_hold, "system/text.py", "import posix\nposix.fork()", "uses posix.fork; only git"),
    (fences_hold, "store/sqlite.py", "import posix", "uses posix; only system may stand in"),
    (
        fences_hold,
        "cli/main.py",
        "from tugtool.system import os\nos.environ",
        "os.environ; only system.config",
    ),
    (fences_hold, "git/command.py", "os.environ.get('HOME')", "os.environ; only system.config"),
    (fences_hold, "plan/model.py", "import os.path\nos.environ", "os.environ; only system.config"),
    (fences_hold, "cli/main.py", "from os import getenv", "os.getenv; only system.config may"),
    (fences_hold, "git/command.py", "print('x')", "uses builtins.print; only cli or server may"),
    (
        fences_hold,
        "git/command.py",
        "import sys\nsys.stderr.write('x')",
        "uses sys.stderr; only cli",
    ),
    (
        fences_hold,
        "cli/main.py",
        "import termios",
        "only cli.output or cli.draw.screen or cli.state_exec or cli.implement_live or "
        "server.process or server.mcp.stdio or system.command or system.process_group may touch",
    ),
    (
        fences_hold,
        "workflow/plans.py",
        "import time",
        "only cli or system.clock or system.lock or store may look at a clock",
    ),
    (fences_hold, "git/command.py", "from datetime import date", "uses datetime; only cli"),
    (
        fences_hold,
        "workflow/plans.py",
        "__import__('tugtool.cli')",
        "only cli.parse or errors or state or workflow.library may import",
    ),
    (
        fences_hold,
        "workflow/plans.py",
        "from tugtool.store import sql",
        "tugtool.store.sql; only state or store",
    ),
    (
        fences_hold,
        "cli/main.py",
        "def f(store):\n    with store.read() as tx: tx.now",
        "uses builtins.tx; only state or store may say what a transaction does",
    ),
    (
        fences_hold,
        "workflow/plans.py",
        "from tugtool.system import command\ncommand.start(['x'], cwd='/')",
        "uses tugtool.system.command.start; only workflow.trust or cli.state_exec or "
        "agents.plugin or git.remote or store.sqlite.backup or workflow.doctor.guard or "
        "workflow.doctor.machine or system.command or system.process_group may start a command",
    ),
    (
        permits_come_from_trust,
        "workflow/plans.py",
        "from tugtool.workflow import trust\ntrust.Permit('/')",
        "makes a Permit; only trust.permit gives one",
    ),
    (
        permits_come_from_trust,
        "workflow/plans.py",
        "from tugtool.workflow import trust\nmade = trust.Permit",
        "makes a Permit; only trust.permit gives one",
    ),
    (
        nothing_of_the_system_is_found_by_a_computed_name,
        "state/views.py",
        "import os\ngetattr(os, 'sys' + 'tem')('x')",
        "starts processes past the fences",
    ),
    (
        nothing_of_the_system_is_found_by_a_computed_name,
        "server/live.py",
        "async def f(loop):\n    await loop.subprocess_shell(None, 'x')",
        "starts processes past the fences",
    ),
    (fences_hold, "server/live.py", "import webbrowser", "only cli.serve may open a browser"),
    (
        fences_hold,
        "server/live.py",
        "import asyncio\nasyncio.create_subprocess_exec",
        "uses asyncio.create_subprocess_exec; only git.command or",
    ),
    (os_comes_from_system, "plan/model.py", "import os", "loads os: from tugtool.system import os"),
    (os_comes_from_system, "plan/model.py", "from os.path import join", "loads os: from tugtool"),
    (os_comes_from_system, "cli/main.py", "def f():\n    import os", "loads os: from tugtool.s"),
    (
        the_stand_in_stands_alone,
        "agents/answers.py",
        '"""Answers."""\nfrom tugtool.agents import scripted',
        "imports agents.scripted, which is a program of its own",
    ),
    (modules_say_what_lives_there, "store/x.py", "\nVALUE = 1", "store/x.py has no docstring"),
    (
        functions_are_short,
        "git/command.py",
        "def f():\n" + "    pass\n" * 40,
        "git/command.py:5 f has 41 lines",
    ),
    (functions_are_short, "git/x.py", "async def f():\n" + "    pass\n" * 40, "f has 41 lines"),
    (modules_have_a_good_size, "state/record.py", "RUN\n" * 451, "451 lines, more than 450"),
    (modules_have_a_good_size, "git/command.py", "RUN\n" * 397, "401 lines: say why in REASONS"),
    (
        modules_have_a_good_size,
        "plan/tiny.py",
        "RUN  # short\n",
        "plan/tiny.py has 59 lines: say why",
    ),
    (exclusions_say_why, "git/command.py", "if RUN:  # pragma: no branch\n    RUN", "y:5 is kept"),
    (exclusions_say_why, "git/command.py", "if 0:  # pragma: no cover (odd)\n    RUN", "say why"),
]


def _plant(package: Path, file: str = "errors/__init__.py", text: str = "") -> Tree:
    """A clean tree with one violation in it; `{}` in the name of the file makes many of it."""
    _write(package, CLEAN)
    many = [file.format(number) for number in range(MOST_MODULES)] if "{}" in file else [file]
    _write(package, {name: CLEAN.get(name, "") + text for name in many})
    return read(package)


def _write(package: Path, sources: dict[str, str]) -> None:
    for name, source in sources.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Long enough, unless it is about that.
        least = SHORT_MODULE - ("short" in source)
        lines = source.splitlines()
        path.write_text("\n".join([*lines, *[""] * (least - len(lines)), ""]))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_clean_tree_is_not_complained_about(tmp_path, rule):
    assert list(rule(_plant(tmp_path))) == []


@pytest.mark.parametrize(("rule", "file", "text", "complaint"), PLANTED)
def test_a_planted_violation_is_caught(tmp_path, rule, file, text, complaint):
    found = list(rule(_plant(tmp_path, file, text)))
    assert len(found) == 1
    assert complaint in found[0]


def test_every_rule_and_every_fence_is_shown_to_bite():
    assert {rule for rule, *_ in PLANTED} == set(RULES)
    bitten = [complaint for rule, _, _, complaint in PLANTED if rule is fences_hold]
    for fence in FENCES:
        assert any(f"only {fence.within}" in complaint for complaint in bitten), fence.what


def test_a_function_and_a_module_may_be_as_long_as_the_limit(tmp_path):
    function = "def f():\n" + "    pass\n" * (LONGEST_FUNCTION - 1)
    tree = _plant(tmp_path, "state/record.py", function + "RUN\n" * (LONGEST_MODULE - 40))
    assert len(tree["state.record"].source.splitlines()) == LONGEST_MODULE
    assert list(functions_are_short(tree)) == list(modules_have_a_good_size(tree)) == []


def test_a_command_whose_function_is_elsewhere_is_caught(tmp_path):
    _plant(tmp_path)
    _write(tmp_path, {"cli/state.py": "COMMANDS = (Command('state claim', steps.claim),)"})
    [found] = commands_are_declared_beside_their_functions(read(tmp_path))
    assert "declares state claim, but steps.claim is elsewhere" in found


def test_types_of_answers_may_be_imported_for_annotations(tmp_path):
    types = "if TYPE_CHECKING:\n    from tugtool.schemas import StateClaim\n"
    tree = _plant(tmp_path, "errors/__init__.py", types)
    assert [found for rule in RULES for found in rule(tree)] == []


@pytest.mark.parametrize(
    "text",
    [
        "RUN = 1  # pragma: no cover (only macOS has it)\n",
        "# Nothing else ends it.\nRUN = 1  # pragma: no cover\n",
    ],
)
def test_an_exclusion_says_why_on_its_line_or_above(tmp_path, text):
    assert list(exclusions_say_why(_plant(tmp_path, "git/command.py", text))) == []


def test_a_circle_through_a_function_or_through_types_alone_is_none(tmp_path):
    later = (
        "def f():\n    from tugtool import git\nif TYPE_CHECKING:\n    import tugtool.git.command\n"
    )
    assert list(nothing_imports_in_a_circle(_plant(tmp_path, "system/config.py", later))) == []


def test_a_local_name_is_not_taken_for_a_module(tmp_path):
    tree = _plant(
        tmp_path, "workflow/plans.py", "def f(time, json):\n    return time.json, json.time\n"
    )
    assert list(fences_hold(tree)) == []
