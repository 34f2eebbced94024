"""Every predicate of claiming, fencing, owning and completing, taken away one at a time.

The mutants are made from the code itself: each conjunct of each `where` and `on` of the
statements that these operations run; and in their functions each early way out, each part of
an `and` or `or`, each condition of a comprehension, and each call that only refuses or finds a
step for its holder alone.
"""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

from tugtool.store import sql

STATE = (
    *("record", "claims", "leases", "completion", "releases", "checklists", "intents", "proofs"),
)
#: Of `tugtool`: whoever claims, holds, finishes and frees, what they share, and the commit.
MODULES = (*(f"state.{name}" for name in STATE), "workflow.commit", "workflow.commit.intent")
#: Functions of these that are about git's own doings, or about merges and what others left.
LEFT_OUT = (
    *("_committed", "_oddities", "_unlock", "left_behind", "merge_facts", "give_up", "landed"),
    *("claim_in", "end"),
)
#: What ends a condition at its own depth.
ENDS = ("order", "group", "limit", "returning", "union", "left", "join", "where", "on")
WAYS_OUT = (ast.Raise, ast.Return, ast.Continue)
#: What finds a step that the caller holds, and what finds it for anybody.
GUARD, UNGUARDED = "record.held", "record.family"
TOKEN = re.compile(r"'[^']*'|[a-z_]+|[():]|\S", re.IGNORECASE)


class Mutant(NamedTuple):
    """One predicate that is missing."""

    #: `sql.LIVE_STEP: parked_at is null`, `record.refuse_stale: never attempt is not None`.
    name: str
    home: str
    #: The statement, or the function (of a class: `Class.method`).
    what: str
    #: The statement without it; or the number of the place in the module's tree.
    change: str | int

    def signs(self) -> list[str]:
        """By what one knows the tests that may notice: the likeliest first; see `mutating`."""
        home = importlib.import_module(f"tugtool.{self.home}")
        if isinstance(self.change, str):
            return [getattr(home, self.what)]
        place = list(places(_tree(self.home)))[self.change]
        line = f"{home.__file__}:{place.line()}"
        # Where something was refused, the guard is what counts; else any test that was there.
        return [f"{line}!", line, self.what]

    def apply(self) -> None:
        """Take it away in this process, for good."""
        home = importlib.import_module(f"tugtool.{self.home}")
        if isinstance(self.change, str):
            setattr(home, self.what, self.change)
        else:
            _exchange(home, self.what, self.change)


def every() -> list[Mutant]:
    """All there are, each under a name of its own."""
    found: list[Mutant] = []
    for home, what in statements():
        text = getattr(importlib.import_module(f"tugtool.{home}"), what)
        found += of_statement(home, what, text)
    for name in MODULES:
        found += of_module(name, _tree(name))
    return _told_apart(found)


def _told_apart(mutants: list[Mutant]) -> list[Mutant]:
    seen: Counter = Counter()
    named = []
    for each in mutants:
        seen[each.name] += 1
        number = seen[each.name]
        named.append(each._replace(name=f"{each.name} ({number})") if number > 1 else each)
    return named


# -- statements ------------------------------------------------------------------------


def statements() -> list[tuple[str, str]]:
    """Module and name of every statement that is named in one of the MODULES."""
    found = set()
    for name in MODULES:
        module = importlib.import_module(f"tugtool.{name}")
        for node in _taking_part(_tree(name)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                alias = node.value.id
                if (alias == "sql" or alias.startswith("sql_")) and node.attr.isupper():
                    # One that is loaded late goes by its own name.
                    home = getattr(
                        getattr(module, alias, None), "__name__", f"store.{alias.replace('_', '.')}"
                    )
                    found.add((home.removeprefix("tugtool."), node.attr))
    return sorted(found)


def _taking_part(tree: ast.Module) -> Iterator[ast.AST]:
    for function, body in _functions(tree):
        if function not in LEFT_OUT:
            yield from ast.walk(body)


def of_statement(home: str, what: str, text: str) -> Iterator[Mutant]:
    for start, end in predicates(text):
        words = " ".join(text[start:end].split())
        without = f"{text[:start]}1 = 1{text[end:]}"
        yield Mutant(f"{home.removeprefix('store.')}.{what}: {words}", home, what, without)


def predicates(text: str) -> Iterator[tuple[int, int]]:
    """Where each conjunct of each `where` and `on` stands, those of inner selects too."""
    tokens = list(_tokens(text))
    for place, (word, _, end, depth) in enumerate(tokens):
        following = tokens[place + 1 :]
        if word == "where" or (word == "on" and following[0][0] != "conflict"):
            start = end
            for other, begin, after, inner in [*following, ("", len(text), len(text), -1)]:
                over = inner < depth or (inner == depth and other in ENDS)
                if over or (inner == depth and other == "and"):
                    yield start + 1, len(text[:begin].rstrip())
                    start = after
                if over:
                    break


def _tokens(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Word, start, end, and how many parentheses it stands in."""
    depth = 0
    for found in TOKEN.finditer(text):
        word = found[0].lower()
        depth -= word == ")"
        yield word, found.start(), found.end(), depth
        depth += word == "("


# -- functions -------------------------------------------------------------------------


class Place(NamedTuple):
    """Where something can be taken away: the function, what it is called, and the node."""

    function: str
    name: str
    node: ast.AST
    #: Which of its parts; -1 for the node itself.
    part: int = -1

    def line(self) -> int:
        """A line that a test has to come to; of a way out, the first line on that way."""
        node = self.node
        if isinstance(node, ast.If):
            return node.body[0].lineno
        if isinstance(node, ast.comprehension):
            return node.ifs[self.part].lineno
        return (node.values[self.part] if isinstance(node, ast.BoolOp) else node).lineno


def _tree(home: str) -> ast.Module:
    module = importlib.import_module(f"tugtool.{home}")
    return ast.parse(Path(module.__file__ or "").read_text())


def of_module(home: str, tree: ast.Module) -> Iterator[Mutant]:
    for number, place in enumerate(places(tree)):
        if place.function in LEFT_OUT:
            continue
        name = f"{home.partition('.')[2]}.{place.function}: {place.name}"
        yield Mutant(name, home, place.function, number)


def places(tree: ast.Module) -> Iterator[Place]:
    """Everything in the functions of a module that can be taken away."""
    for function, body in _functions(tree):
        for node in ast.walk(body):
            yield from (place._replace(function=function) for place in _of_node(node))


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            inner = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            yield from ((f"{node.name}.{each.name}", each) for each in inner)


def _of_node(node: ast.AST) -> Iterator[Place]:
    if isinstance(node, ast.If) and isinstance(
        node.body[-1], ast.Raise | ast.Return | ast.Continue
    ):
        yield Place("", f"never {ast.unparse(node.test)}", node)
    elif isinstance(node, ast.Expr) and _refuses(node.value):
        yield Place("", f"no {ast.unparse(node)}", node)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == GUARD:
        yield Place("", f"whoever asks: {ast.unparse(node)}", node)
    elif isinstance(node, ast.BoolOp):
        whole = ast.unparse(node)
        for part, value in enumerate(node.values):
            yield Place("", f"without {ast.unparse(value)} in {whole}", node, part)
    elif isinstance(node, ast.comprehension):
        for part, test in enumerate(node.ifs):
            yield Place("", f"whether or not {ast.unparse(test)}", node, part)


def _refuses(node: ast.expr) -> bool:
    """A call of nothing but a guard."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    return name.lstrip("_").startswith("refuse_")


class _Without(ast.NodeTransformer):
    """The tree without one place of it."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def visit(self, node: ast.AST) -> ast.AST:
        node = self.generic_visit(node)
        return self._less(node) if node is self.place.node else node

    def _less(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.If):
            node.test = ast.copy_location(ast.Constant(False), node.test)
        elif isinstance(node, ast.Call):
            node.func, node.keywords = ast.parse(UNGUARDED, mode="eval").body, []
        elif isinstance(node, ast.Expr):
            return ast.copy_location(ast.Pass(), node)
        elif isinstance(node, ast.comprehension):
            del node.ifs[self.place.part]
        elif isinstance(node, ast.BoolOp):
            del node.values[self.place.part]
            return node if len(node.values) > 1 else node.values[0]
        return node


def _exchange(home: ModuleType, function: str, number: int) -> None:
    """Give a function its code without the place; whoever imported it by name has that too."""
    tree = _tree(home.__name__.removeprefix("tugtool."))
    tree = _Without(list(places(tree))[number]).visit(tree)
    scratch = dict(vars(home))
    exec(compile(tree, home.__file__ or "", "exec"), scratch)
    _function(vars(home), function).__code__ = _function(scratch, function).__code__


def _function(names: dict, path: str) -> FunctionType:
    first, _, rest = path.partition(".")
    found = getattr(names[first], rest) if rest else names[first]
    # A class method is a function that knows its class.
    return getattr(found, "__func__", found)


#: One that changes nothing: no test can tell.
SAID_TWICE = Mutant(
    "sql.LIVE_STEP: parked_at is null, said twice",
    "store.sql",
    "LIVE_STEP",
    sql.LIVE_STEP.replace("parked_at is null", "parked_at is null and parked_at is null"),
)
