"""The operations that a server carries out for a command on another machine, and for whom.

The command calls `state.claim(store, ...)` as ever. If its store is on a server, the operation's
name and arguments go there in one request, and the answer or the refusal comes back. `install`
replaces each operation by one that looks at its store; only a command with such a store calls it.
"""

from __future__ import annotations

import sys

from tugtool import state
from tugtool.state import wire
from tugtool.store.remote import PROTOCOL, RemoteStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tugtool.store import Store

#: Who may call the operations that change something and are not a command's own. `hold`: workers,
#: each for its own steps and worktrees. `steer`: operators. `never`: nobody, because it is for the
#: server itself, or needs the database in a file.
BY_HAND = {
    "hold": {
        "attempts": "report begin_role note_run note_retry mark_saved close_worktree set_ref",
        "completion": "verify",
        "intents": "add drop begin_commit change_commit end_commit",
        "leases": "judge_from_now adopt let_go",
        "plans": "init set_base",
        "publication": "published not_published lost",
        "worktrees": "intend_creation add forget reserve keep take_over end_reservation",
    },
    "steer": {
        "attempts": "forget_ref",
        "dashes": "add describe record join release",
        "plans": "move recount",
        "proofs": "reconcile give_up landed pushed end",
        "releases": "retry",
        "reviews": "accept reject accept_all",
        "revisions": "revise",
    },
    "never": {
        "intents": "plans_at",
        "requests": "recall remember",
        "transfer": "import_",
        "upkeep": "prune drop restore",
        "views": "moment",
    },
}
#: The others: those that change nothing are for every role, those of a command as the table in
#: cli/parse.py says.
# From here on written by `make docs`; do not edit.
DERIVED = {
    "look": {
        "attempts": "outside died spent_tokens spent_microdollars list_unsaved salvage_status "
        "is_lost is_requested salvages refs_from",
        "completion": "refuse_open checkpoints refuse_lost",
        "dashes": "active named find require every rounds",
        "explanation": "why",
        "history": "last_change last_seq log page stats",
        "intents": "find_intent list_intents require_committable other_plans",
        "leases": "standing",
        "plans": "check contradictions",
        "proofs": "every_name facts merge_facts claim_in audit_of artifacts",
        "publication": "unpublished own_unpublished",
        "record": "now plans find_plan require_plan find_step",
        "reviews": "claims parked review unsettled",
        "revisions": "diff agreed_text agreed_texts is_earlier",
        "standings": "is_recorded with_text ready holders",
        "upkeep": "live_claims export",
        "views": "previous_attempt show everything epoch steps_at_work attempts attempt items "
        "status",
        "worktrees": "list_worktrees known_branches find_worktree of_plan by_path of_every_plan "
        "with_begun_commits with_unfinished_work claimed_steps claimed_anchors committed_steps "
        "missing_commits plan_of",
    },
    "hold": {
        "checklists": "update artifact",
        "claims": "claim",
        "completion": "complete",
        "leases": "start heartbeat",
        "releases": "release",
    },
    "steer": {
        "releases": "reset reopen pause resume",
        "upkeep": "archive",
    },
}
# Up to here.
#: What people call them, in refusals; those of a dash are `dash`.
_COMMANDS = {
    "attempts/forget_ref": "worktree salvage prune",
    "plans/move": "doctor --fix",
    "plans/recount": "doctor --fix",
    "proofs/end": "merge",
    "proofs/give_up": "reconcile",
    "proofs/landed": "merge",
    "proofs/reconcile": "reconcile",
    "releases/retry": "review --retry",
    "reviews/accept": "review --accept",
    "reviews/accept_all": "review --accept-all",
    "reviews/reject": "review --reject",
    "revisions/revise": "plan accept",
    "store/create": "making the record",
    "transfer/import_": "state import",
    "upkeep/prune": "state prune",
    "upkeep/restore": "state restore",
}
#: Questions about a process of the caller's machine.
WITNESSED = ("is_gone", "running")
__all__ = ["GROUPS", "PROTOCOL", "install", "perform"]
#: Each answer brings the operation further; more would be a fault.
_MOST_QUESTIONS = 200
_HOME = "tugtool.state."


def _table() -> dict[str, str]:
    return {
        f"{home}/{name}": group
        for group, homes in (*BY_HAND.items(), *DERIVED.items())
        for home, names in homes.items()
        for name in names.split()
    }


#: Module and function, `claims/claim` -> the group of those who may call it.
GROUPS = _table()


def install() -> None:
    """Let every operation look at its store, also those of modules that are loaded later."""
    if any(type(each) is _Finder for each in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name in [each for each in sys.modules if each.startswith(_HOME)]:
        _replace(sys.modules[name])
    state.found.clear()


class _Finder:
    """Finds a module as the others do, and replaces its operations when it is loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return how to load a module of this room; None for others."""
        if not name.startswith(_HOME):
            return None
        others = (each for each in sys.meta_path if each is not self)
        found = next(filter(None, (each.find_spec(name, path, target) for each in others)), None)
        if found is not None and found.loader is not None:
            load = found.loader.exec_module

            def loaded(module: Any) -> None:
                load(module)
                _replace(module)

            found.loader.exec_module = loaded  # type: ignore[method-assign]
        return found


def _replace(module: Any) -> None:
    home = module.__name__.removeprefix(_HOME)
    for place, group in GROUPS.items():
        where, _, name = place.partition("/")
        function = vars(module).get(name) if where == home else None
        if function is not None and not hasattr(function, "__wrapped__"):
            setattr(module, name, _looking(function, place, group))


def _looking(function: Callable[..., Any], place: str, group: str) -> Callable[..., Any]:
    """Return the operation that is carried out where its store is."""

    def operation(store: Store, *words: Any, **how: Any) -> Any:
        if not isinstance(store, RemoteStore):
            return function(store, *words, **how)
        if group == "never":
            from tugtool.errors.state import OnlyForFiles

            instead = f"run it where {store.address.shown} has its repository"
            raise OnlyForFiles(command_name(place), instead=instead)
        return _asked(store, place, words, how, writes=group != "look")

    for each in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(operation, each, getattr(function, each))
    operation.__wrapped__ = function  # type: ignore[attr-defined]
    return operation


def _asked(
    store: RemoteStore, place: str, words: Sequence[Any], how: Mapping[str, Any], *, writes: bool
) -> Any:
    """Have the server carry the operation out; answer its questions."""
    functions: list[Callable[..., Any]] = []
    try:
        said = wire.written(list(words), functions), wire.written(dict(how), functions)
    except RecursionError:
        from tugtool.errors.state import InvalidEntry

        raise InvalidEntry("a value is nested too deep to be sent to the server") from None
    answers: list[Any] = []
    for _ in range(_MOST_QUESTIONS):  # pragma: no branch (no operation asks so often)
        body = {"words": said[0], "with": said[1], "answers": answers}
        found: Any = store.ask(place, body, writes=writes)
        if not isinstance(found, dict) or "ask" not in found:
            break
        which, arguments = found["ask"]
        arguments_read = wire.WireReader().value(arguments)
        function = _of_process(which) if which in WITNESSED else functions[which]
        answers.append([which, arguments, wire.written(function(*arguments_read), None)])
    if isinstance(found, dict) and "error" in found:
        raise wire.read_error(found["error"])
    return wire.WireReader().value(found["answer"])


def _of_process(which: str) -> Callable[..., Any]:
    from tugtool.system import process  # Only if a process holds a step.

    return process.running if which == "running" else process.is_gone


def command_name(place: str) -> str:
    """The words that people use for an operation: the command that does it."""
    home, _, name = place.partition("/")
    return "dash" if home == "dashes" else _COMMANDS.get(place, name.replace("_", " "))


def perform(
    store: Store,
    place: str,
    body: Mapping[str, Any],
    asked: wire.Answers,
    kept: Callable[[Any], Any] | None = None,
) -> Any:
    """Carry an operation out for its caller. Return what it returns, as JSON has it.

    `kept` takes out of it what is not for the caller.
    """
    home, _, name = place.partition("/")
    how = body["with"]
    reader = wire.WireReader(asked, lambda: str(how.get("text")))
    module = __import__(_HOME + home, fromlist=[name])
    function = getattr(module, name)
    value = function(store, *reader.value(body["words"]), **reader.value(how))
    return wire.written(value if kept is None else kept(value), None)
