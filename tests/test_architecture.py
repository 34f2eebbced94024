"""Who may import whom, and who alone may touch which outside thing.

The rules are functions over a source tree, so that each is also shown to catch a planted
violation. A new module needs a place in LAYERS; everything else follows from it.
"""

import ast
import functools
import graphlib
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

import tugtool

HERE = "tests/test_architecture.py"
ROOT = "tugtool"
LONGEST_FUNCTION = 40
LONGEST_MODULE = 350
#: Of a reason.
FEWEST_WORDS = 3
EXCLUSION = re.compile(r"#\s*pragma:\s*no\s*(?:cover|branch)\b(.*)")

#: From the bottom to the top; a package stands for all of its modules that are not named.
LAYERS = {
    "vocabulary": (
        "client_errors",
        "clock",
        "dash_errors",
        "errors",
        "git_errors",
        "guard",
        "harmless",
        "jsontext",
        "nearest",
        "objects",
        "people_errors",
        "plan.model",
        "role_errors",
        "spans",
        "state_errors",
    ),
    "foundations": (
        "agent_settings",
        "belonging",
        "child",
        "config",
        "crash",
        "files",
        "git",
        "guardian",
        "heads",
        "holder",
        "index",
        "lingering",
        "plan",
        "presence",
        "repository",
        "start",
        "store",
        "streams",
    ),
    "operations": (
        "advancing",
        "agents",
        "base",
        "blend",
        "branches",
        "client_rules",
        "clients",
        "commit",
        "dash",
        "doctor",
        "evidence",
        "history",
        "init",
        "intent",
        "keeping",
        "landed",
        "log",
        "mainline",
        "merge",
        "message",
        "reconcile",
        "rehearsal",
        "salvage",
        "salvaged",
        "salvaging",
        "state",
        "tidying",
        "trailers",
        "tree",
        "verify",
        "worktree",
    ),
    "implement": ("implement",),
    "cli": ("cli", "__main__"),
}
#: Within a layer, who may import whom. Whoever is not here imports only from below.
SIDEWAYS = {
    "agent_settings": ("config",),
    "agents": ("agents",),
    "belonging": ("files", "repository"),
    "child": ("config", "guardian", "streams"),
    "client_errors": ("errors",),
    "commit": ("intent", "log", "message", "state", "trailers", "tree", "worktree"),
    "implement": ("implement",),
    "intent": ("log", "state", "tree"),
    "keeping": ("state",),
    "dash": (
        *("advancing", "base", "blend", "dash", "init", "landed", "mainline", "message"),
        *("rehearsal", "state", "tidying", "trailers", "tree", "worktree"),
    ),
    "dash_errors": ("errors",),
    "mainline": ("advancing", "rehearsal"),
    "message": ("trailers",),
    "tree": ("trailers",),
    "config": ("agent_settings", "files"),
    "crash": ("config",),
    "git": ("config",),
    "heads": ("files", "git", "repository"),
    "index": ("files", "git", "holder", "lingering"),
    "lingering": ("holder",),
    "repository": ("config", "files", "git"),
    "start": ("config",),
    "plan": ("files", "plan", "repository"),
    "presence": ("files", "git", "repository"),
    "people_errors": ("errors", "state_errors"),
    "role_errors": ("errors",),
    "git_errors": ("errors",),
    "guard": ("guard",),
    "state_errors": ("errors",),
    "blend": ("log",),
    "branches": ("base", "worktree"),
    "doctor": (
        *("base", "commit", "dash", "doctor", "init", "intent", "landed", "log", "merge"),
        *("salvaging", "state", "trailers", "worktree"),
    ),
    "evidence": ("base", "branches", "history", "state", "trailers"),
    "history": ("trailers",),
    "merge": (
        *("advancing", "evidence", "history", "landed", "mainline", "rehearsal", "salvage"),
        *("state", "tidying", "trailers", "worktree"),
    ),
    "reconcile": ("evidence", "state"),
    "landed": ("blend",),
    "rehearsal": ("blend", "branches", "evidence", "state"),
    "salvaged": ("base", "landed", "salvage", "salvaging", "state", "worktree"),
    "salvaging": ("base", "landed", "salvage", "state", "worktree"),
    "tidying": ("branches", "salvage", "state", "worktree"),
    "state": ("state",),
    "verify": ("keeping", "state", "tree"),
    "store": ("store",),
    "worktree": ("advancing", "base", "blend", "init", "landed", "salvage", "state", "worktree"),
    "cli": ("cli",),
    "__main__": ("cli",),
}


class Fence(NamedTuple):
    """Names that only the modules within may use; `*` stands for any ending."""

    what: str
    names: tuple[str, ...]
    within: str


FENCES = (
    Fence("know a database engine", ("sqlite3", "_sqlite3"), "store"),
    Fence(
        "start processes",
        (
            "subprocess",
            "multiprocessing",
            "pty",
            "posix",
            "os.posix_spawn*",
            "os.fork*",
            "os.exec*",
            "os.spawn*",
            "os.system",
            "os.popen",
        ),
        # `start` only times a bare Python, and asks macOS for its mounts.
        "git or child or guardian or start",
    ),
    Fence(
        "read the environment",
        ("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "os.unsetenv"),
        "config",
    ),
    Fence("print", ("builtins.print", "sys.stdout", "sys.stderr", "sys.__std*__"), "cli"),
    Fence("use rich", ("rich",), "cli.canvas or cli.render"),
    Fence(
        "touch the terminal or signals",
        ("termios", "tty", "signal", "os.get_terminal_size"),
        "cli.output or cli.screen or cli.foreground or cli.conducting or cli.stage or child or "
        "guardian",
    ),
    Fence("look at a clock", ("time", "datetime"), "cli or clock or store"),
    Fence(
        "import by a computed name",
        ("builtins.__import__", "importlib", "runpy"),
        "cli.main or state",
    ),
)
#: A program of its own that stands in for somebody else's, as tests and the demo need one: the
#: fences are not about it, and nothing else may import it.
OUTSIDE = "agents.scripted"


class Import(NamedTuple):
    """One name that a module imports; `at_start` unless in a function or only for types."""

    name: str
    line: int
    at_start: bool


class Module(NamedTuple):
    """One source file; `name` is dotted and without the package's own name in front."""

    name: str
    file: str
    source: str
    tree: ast.Module

    def at(self, line: int) -> str:
        return f"{self.file}:{line}"


Tree = dict[str, Module]


def read(package: Path) -> Tree:
    """All modules below `package`, by name; the package itself is the empty name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package)
        parts = file.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        source = path.read_text()
        modules[name] = Module(name, file.as_posix(), source, ast.parse(source))
    return modules


def every_module_has_a_layer(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        if module.name and _unit(module.name) is None:
            yield f"{module.file} has no layer: add {module.name} to LAYERS in {HERE}"


def imports_point_down(tree: Tree) -> Iterator[str]:
    for module, line, target in _inner_imports(tree):
        importer, imported = _unit(module.name), _unit(target)
        if importer is None or imported is None:
            continue  # `every_module_has_a_layer` complains
        above = _height(imported) - _height(importer)
        if above > 0 or (above == 0 and imported not in SIDEWAYS.get(importer, ())):
            yield f"{module.at(line)} imports {target}, which is not below {importer}"


def the_package_itself_imports_nothing(tree: Tree) -> Iterator[str]:
    # Whatever it imported, every command would.
    for found in _imports(tree[""]):
        yield f"{tree[''].at(found.line)} imports {found.name}"


def nothing_imports_in_a_circle(tree: Tree) -> Iterator[str]:
    graph = {
        module.name: {_module_in(tree, found.name) for found in _imports(module) if found.at_start}
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
        for node in ast.walk(module.tree):
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
        for name, line in _uses(module):
            if any(fnmatchcase(name, like) for like in fence.names):
                yield f"{module.at(line)} uses {name}; only {fence.within} may {fence.what}"


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
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    yield f"{module.at(node.lineno)} {node.name} has {lines} lines"


def modules_are_short(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        lines = len(module.source.splitlines())
        if lines > LONGEST_MODULE:
            yield f"{module.file} has {lines} lines"


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
    every_module_has_a_layer,
    imports_point_down,
    the_package_itself_imports_nothing,
    nothing_imports_in_a_circle,
    imports_are_absolute,
    fences_hold,
    the_stand_in_stands_alone,
    modules_say_what_lives_there,
    functions_are_short,
    modules_are_short,
    exclusions_say_why,
)


def _is_within(name: str, unit: str) -> bool:
    return name == unit or name.startswith(f"{unit}.")


def _unit(name: str) -> str | None:
    """The entry of LAYERS that a module falls under: the most specific one."""
    units = [unit for layer in LAYERS.values() for unit in layer if _is_within(name, unit)]
    return max(units, key=len, default=None)


def _height(unit: str) -> int:
    return next(height for height, layer in enumerate(LAYERS.values()) if unit in layer)


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


def _imports(module: Module) -> list[Import]:
    """Every name imported anywhere in a module, in full."""
    return [
        Import(name, node.lineno, at_start)
        for node, at_start in _import_nodes(module.tree, at_start=True)
        for _, name in _bound(node)
    ]


def _import_nodes(
    node: ast.AST, *, at_start: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, at_start
    later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        waits = later or (_is_for_types(node) and child in node.body)
        yield from _import_nodes(child, at_start=at_start and not waits)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _bound(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """The local names an import makes, each with what it stands for."""
    if isinstance(node, ast.ImportFrom):
        return [(each.asname or each.name, f"{node.module}.{each.name}") for each in node.names]
    return [(each.asname or each.name, each.name) for each in node.names]


@functools.cache
def _uses(module: Module) -> list[tuple[str, int]]:
    """Every name a module imports or mentions, and what each is a part of, with its line."""
    used = {(start, line) for name, line in _mentions(module) for start in _starts(name)}
    return sorted(used, key=lambda use: use[1])


def _mentions(module: Module) -> Iterator[tuple[str, int]]:
    """Every name a module imports or mentions, in full, with its line."""
    meaning: dict[str, str] = {}
    for node, _ in _import_nodes(module.tree, at_start=True):
        for local, name in _bound(node):
            first = local.partition(".")[0]
            meaning[first] = name if first == local else first
            yield name, node.lineno
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
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


def test_the_layers_name_only_modules_that_exist(sources):
    named = {unit for layer in LAYERS.values() for unit in layer} | set(SIDEWAYS)
    assert named <= set(sources)


CLEAN = {
    "__init__.py": '"""All."""\n__version__ = "1"\n',
    "errors.py": '"""Errors."""\n',
    "config.py": '"""Config."""\nimport os\nHOME = os.environ\n',
    "git.py": '"""Git."""\nimport os\nfrom tugtool import config\nRUN = os.posix_spawnp\n',
    "init.py": '"""Init."""\nfrom tugtool import __version__, git\n',
    "agents/__init__.py": '"""Agents."""\n',
    "agents/scripted/__init__.py": '"""A program."""\nimport subprocess, time\nprint(time)\n',
    "plan/__init__.py": '"""Plans."""\n',
    "plan/model.py": '"""Values."""\n',
    "plan/parser.py": '"""Parser."""\nfrom tugtool.plan.model import Plan\n',
    "store/__init__.py": '"""Store."""\nimport sqlite3\n',
    "cli/__init__.py": '"""Edge."""\n',
    "cli/main.py": '"""Main."""\nimport sys, time\nfrom tugtool import init\nprint(sys.stdout)\n',
}

#: rule, file, text put at its end, what the complaint says
PLANTED = [
    (every_module_has_a_layer, "novel.py", "", "add novel to LAYERS in " + HERE),
    (every_module_has_a_layer, "novel/deep.py", "", "add novel.deep to LAYERS"),
    (imports_point_down, "errors.py", "from tugtool import config", "imports config"),
    (imports_point_down, "errors.py", "import tugtool.plan.model", "imports plan.model"),
    (imports_point_down, "plan/model.py", "from tugtool.plan import parser", "plan.parser"),
    (imports_point_down, "plan/parser.py", "from tugtool import git", "not below plan"),
    (imports_point_down, "config.py", "from tugtool import git", "not below config"),
    (imports_point_down, "git.py", "from tugtool.init import x", "imports init"),
    (imports_point_down, "init.py", "from tugtool.cli.main import x", "imports cli.main"),
    (imports_point_down, "git.py", "def f():\n    import tugtool.cli.main", "git.py:6 imports"),
    (imports_point_down, "git.py", "if TYPE_CHECKING:\n    from tugtool import init", "init"),
    (imports_point_down, "git.py", "try:\n    pass\nfinally:\n    from tugtool import cli", "cli"),
    (the_package_itself_imports_nothing, "__init__.py", "from tugtool import git", "tugtool.git"),
    (the_package_itself_imports_nothing, "__init__.py", "import typing", "imports typing"),
    (nothing_imports_in_a_circle, "plan/model.py", "import tugtool.plan.parser", "plan.parser"),
    (nothing_imports_in_a_circle, "config.py", "from tugtool.git import run", "git"),
    (imports_are_absolute, "git.py", "from . import config", "git.py:5 has a relative"),
    (imports_are_absolute, "cli/main.py", "def f():\n    from .. import git", "relative"),
    (fences_hold, "git.py", "import sqlite3", "uses sqlite3; only store may"),
    (fences_hold, "cli/main.py", "from _sqlite3 import connect", "uses _sqlite3; only store"),
    (
        fences_hold,
        "init.py",
        "def f():\n    import subprocess",
        "only git or child or guardian or start may start processes",
    ),
    (fences_hold, "init.py", "from os import fork", "uses os.fork; only git or child"),
    (fences_hold, "init.py", "import os as o\no.execvp('x', [])", "uses os.execvp; only git"),
    (fences_hold, "cli/main.py", "import os\nos.system('x')", "uses os.system; only git"),
    (fences_hold, "store/__init__.py", "import os\nos.posix_spawn", "only git or child"),
    (fences_hold, "git.py", "os.environ.get('HOME')", "uses os.environ; only config"),
    (fences_hold, "init.py", "import os.path\nos.environ", "uses os.environ; only config"),
    (fences_hold, "cli/main.py", "from os import getenv", "os.getenv; only config may"),
    (fences_hold, "git.py", "print('x')", "uses builtins.print; only cli may"),
    (fences_hold, "git.py", "import sys\nsys.stderr.write('x')", "uses sys.stderr; only cli"),
    (fences_hold, "cli/main.py", "from rich.table import Table", "only cli.canvas or cli.render"),
    (
        fences_hold,
        "cli/main.py",
        "import termios",
        "only cli.output or cli.screen or cli.foreground or cli.conducting or cli.stage or child "
        "or guardian may touch",
    ),
    (fences_hold, "init.py", "import time", "only cli or clock or store may look at a clock"),
    (fences_hold, "git.py", "from datetime import date", "uses datetime; only cli"),
    (
        fences_hold,
        "init.py",
        "__import__('tugtool.cli')",
        "only cli.main or state may import by a comp",
    ),
    (
        the_stand_in_stands_alone,
        "agents/answers.py",
        '"""Answers."""\nfrom tugtool.agents import scripted',
        "imports agents.scripted, which is a program of its own",
    ),
    (modules_say_what_lives_there, "store/x.py", "\nVALUE = 1", "store/x.py has no docstring"),
    (functions_are_short, "git.py", "def f():\n" + "    pass\n" * 40, "git.py:5 f has 41 lines"),
    (functions_are_short, "git.py", "async def f():\n" + "    pass\n" * 40, "f has 41 lines"),
    (modules_are_short, "git.py", "RUN\n" * 347, "git.py has 351 lines"),
    (exclusions_say_why, "git.py", "if RUN:  # pragma: no branch\n    RUN", "git.py:5 is kept"),
    (exclusions_say_why, "git.py", "if 0:  # pragma: no cover (odd)\n    RUN", "say why"),
]


def _plant(package: Path, file: str = "errors.py", text: str = "") -> Tree:
    for name in {*CLEAN, file}:
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CLEAN.get(name, "") + (text if name == file else ""))
    return read(package)


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
    tree = _plant(tmp_path, "git.py", function + "RUN\n" * (LONGEST_MODULE - 44))
    assert len(tree["git"].source.splitlines()) == LONGEST_MODULE
    assert list(functions_are_short(tree)) == list(modules_are_short(tree)) == []


@pytest.mark.parametrize(
    "text",
    [
        "RUN = 1  # pragma: no cover (only macOS has it)\n",
        "# Nothing else ends it.\nRUN = 1  # pragma: no cover\n",
    ],
)
def test_an_exclusion_says_why_on_its_line_or_above(tmp_path, text):
    assert list(exclusions_say_why(_plant(tmp_path, "git.py", text))) == []


def test_a_circle_through_a_function_or_through_types_alone_is_none(tmp_path):
    later = "def f():\n    from tugtool import git\nif TYPE_CHECKING:\n    import tugtool.git\n"
    assert list(nothing_imports_in_a_circle(_plant(tmp_path, "config.py", later))) == []


def test_a_local_name_is_not_taken_for_a_module(tmp_path):
    tree = _plant(tmp_path, "init.py", "def f(time, rich):\n    return time.rich, rich.time\n")
    assert list(fences_hold(tree)) == []
