"""How the values of operations travel: JSON with marks for rows, sets, objects and functions.

A function cannot travel. The other side gets a stand-in that raises `Asked` when it is called; the
operation is undone, and is sent again with the answer. So a client's git and files are asked on the
client, and no transaction waits for the network.
"""

from __future__ import annotations

from tugtool import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    #: None for an answer, which is whole.
    Functions = list[Callable[..., Any]] | None
    #: A function's number or name, its arguments, and what it returned.
    Answers = Sequence[tuple[object, object, object]]

#: Marks: the only key of an object that is more than itself.
DICT, TUPLE, SET, ROW, OBJECT, FUNCTION, PLAN = "$d", "$t", "$s", "$r", "$o", "$f", "$p"
#: What is read when its turn comes, such as a batch; and a number that JSON does not have.
LATER, NUMBER = "$l", "$n"
#: Classes whose objects may travel, and their modules in `tugtool.state`.
CLASSES = {
    "Request": "claims",
    "PlanCopy": "record",
    "Finding": "completion",
    "Note": "attempts",
    "Round": "dashes",
    "Facts": "proofs",
    "Proof": "proofs",
    "Allowed": "revision_plan",
    "Reader": "history",
}
_PLAIN = (str, int, bool, type(None))


class RemoteRow:
    """A row by column name or number, like `sqlite3.Row`."""

    __slots__ = ("_columns", "_values")

    def __init__(self, columns: list[str], values: list[Any]) -> None:
        self._columns, self._values = columns, values

    def __getitem__(self, key: str | int) -> Any:
        if type(key) is int:
            return self._values[key]
        try:
            return self._values[self._columns.index(key)]  # type: ignore[arg-type]
        except ValueError:
            raise IndexError(f"No item with that key: {key}") from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteRow):
            return NotImplemented
        return self._values == other._values and self._columns == other._columns

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)


class Asked(Exception):
    """The operation needs an answer of its caller's first."""

    def __init__(self, which: object, words: object) -> None:
        super().__init__(str(which))
        self.which, self.words = which, words


def written(value: Any, functions: Functions) -> Any:
    """Return the value as JSON has it; functions are added to the list, and sent as numbers."""
    if type(value) in _PLAIN:
        return value
    return _writer(value)(value, functions)


def _writer(value: Any) -> Callable[[Any, Functions], Any]:
    kind = type(value)
    if kind in _WRITERS:
        return _WRITERS[kind]
    if kind.__name__ in CLASSES:
        return _object
    if kind.__name__ == "Plan":
        return _plan
    if hasattr(value, "keys"):
        return _dict if hasattr(value, "items") else _row
    return _function if callable(value) else _later


def _list(value: Iterable[Any], functions: Functions) -> list[Any]:
    return [written(each, functions) for each in value]


def _later(value: Iterable[Any], functions: Functions) -> Any:
    if functions is None:
        return _list(value, functions)
    functions.append(lambda: list(value))
    return {LATER: len(functions) - 1}


def _number(value: float, _: Functions) -> Any:
    return value if value - value == 0 else {NUMBER: repr(value)}


def _tuple(value: tuple[Any, ...], functions: Functions) -> Any:
    return {TUPLE: _list(value, functions)}


def _set(value: Iterable[Any], functions: Functions) -> Any:
    # In an order of their own, so that two questions about the same are equal.
    return {SET: _list(sorted(value, key=repr), functions)}


def _dict(value: Mapping[Any, Any], functions: Functions) -> Any:
    if all(type(name) is str and name[:1] != "$" for name in value):
        return {name: written(each, functions) for name, each in value.items()}
    pairs = [[written(name, functions), written(each, functions)] for name, each in value.items()]
    return {DICT: pairs}


def _row(value: Any, _: Functions) -> Any:
    return {ROW: [list(value.keys()), list(value)]}


def _object(value: Any, functions: Functions) -> Any:
    kind = type(value)
    if isinstance(value, tuple):
        return {OBJECT: [kind.__name__, _list(value, functions)]}
    names = getattr(kind, "__slots__", None) or vars(value)
    fields = {name: written(getattr(value, name), functions) for name in names}
    return {OBJECT: [kind.__name__, fields]}


def _plan(_: object, __: Functions) -> Any:
    # The other side parses the text, which travels beside it.
    return {PLAN: 1}


def _function(value: Callable[..., Any], functions: Functions) -> Any:
    assert functions is not None, "an answer has no functions"
    functions.append(value)
    return {FUNCTION: len(functions) - 1}


_WRITERS: dict[type, Callable[[Any, Functions], Any]] = {
    float: _number,
    list: _list,
    dict: _dict,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
}


class _Later:
    """A sequence that is asked for when it is first gone through."""

    def __init__(self, ask: Callable[[], Iterable[Any]]) -> None:
        self._ask = ask

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ask())


class WireReader:
    """Reads values; `answers` has what the caller was asked before."""

    def __init__(self, answers: Answers = (), text: Callable[[], str] | None = None) -> None:
        self._answers, self._text = answers, text

    def value(self, found: Any) -> Any:
        """Return the value that JSON has."""
        if type(found) is list:
            return [self.value(each) for each in found]
        if type(found) is not dict:
            return found
        if len(found) == 1:
            [(mark, inner)] = found.items()
            if mark[:1] == "$":
                return self._marked(mark, inner)
        return {name: self.value(each) for name, each in found.items()}

    def _marked(self, mark: str, inner: Any) -> Any:
        if mark == OBJECT:
            return self._object(*inner)
        if mark == PLAN and self._text is not None:
            from tugtool.plan import parser

            return parser.parse(self._text())
        if mark in (FUNCTION, LATER):
            function = self.function(inner)
            return function if mark == FUNCTION else _Later(function)
        if mark not in _SIMPLE:
            raise errors.Usage(f'there is no value with the mark "{mark[:20]}"')
        return _SIMPLE[mark](inner if mark == ROW else self.value(inner))

    def _object(self, name: str, inner: Any) -> Any:
        if name not in CLASSES:
            raise errors.Usage(f'there is no object "{str(name)[:40]}"')
        home = f"tugtool.state.{CLASSES[name]}"
        kind: Any = getattr(__import__(home, fromlist=[name]), name)
        if type(inner) is list:
            return kind(*self.value(inner))
        made = kind.__new__(kind)
        for each, value in inner.items():
            if each[:1] == "_":
                raise errors.Usage(f'there is no field "{each[:40]}"')
            setattr(made, each, self.value(value))
        return made

    def function(self, which: object) -> Callable[..., Any]:
        """Return the stand-in of a function: it knows the answer, or it raises `Asked`."""

        def stand_in(*words: Any) -> Any:
            asked = written(list(words), None)
            for known, said, answer in self._answers:
                if known == which and (said == asked or (_is_time(said) and _is_time(asked))):
                    return self.value(answer)
            raise Asked(which, asked)

        return stand_in


_SIMPLE: dict[str, Callable[[Any], Any]] = {
    ROW: lambda found: RemoteRow(*found),
    TUPLE: tuple,
    SET: set,
    DICT: dict,
    NUMBER: float,
}


def _is_time(words: Any) -> bool:
    """Return whether they are the time of a transaction, which differs when it is done again."""
    [time] = words if len(words) == 1 else [None]
    return isinstance(time, str) and len(time) == 24 and time[10] + time[-1] == "TZ"


def written_error(error: errors.TugError) -> Any:
    """Return a refusal as JSON has it."""
    return {"class": type(error).__name__, "code": error.code, "with": written(vars(error), None)}


def read_error(found: Mapping[str, Any]) -> errors.TugError:
    """Return the refusal that JSON has: the same class with the same facts."""
    try:
        kind = getattr(errors, found["class"])
    except AttributeError:
        kind = errors.TugError
    error: errors.TugError = kind.__new__(kind)
    facts = WireReader().value(found["with"])
    Exception.__init__(error, facts.get("message", ""))
    vars(error).update(facts)
    if kind is errors.TugError:
        error.code = found["code"]
    return error
