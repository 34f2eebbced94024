"""The operations on a plan's execution, one function and one transaction each.

`from tugtool import state; state.claim(...)`: each is imported at its first use,
because a command needs only one of them and pays for each import.

Room `state`: the record, without git. It imports errors, system, plan and store; workflow,
implement and cli may import it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.state.attempts import Note, report, spent_microdollars, spent_tokens
    from tugtool.state.checklists import artifact, update
    from tugtool.state.claims import Request, claim
    from tugtool.state.completion import Finding, complete, verify
    from tugtool.state.explanation import why
    from tugtool.state.history import Reader, last_seq, log, stats
    from tugtool.state.leases import adopt, heartbeat, judge_from_now, let_go, standing, start
    from tugtool.state.plans import init, move, recount
    from tugtool.state.proofs import reconcile
    from tugtool.state.record import PlanCopy
    from tugtool.state.releases import pause, release, reopen, reset, resume
    from tugtool.state.reviews import accept, reject, review
    from tugtool.state.revision_plan import Allowed
    from tugtool.state.revisions import agreed_texts, diff, revise
    from tugtool.state.standings import is_recorded, ready
    from tugtool.state.transfer import import_
    from tugtool.state.upkeep import archive, export, prune, restore
    from tugtool.state.views import epoch, show, status


#: Module -> its operations and classes. Type checkers read the imports above.
_HOMES = {
    "attempts": "Note report spent_microdollars spent_tokens",
    "checklists": "artifact update",
    "claims": "Request claim",
    "completion": "Finding complete verify",
    "explanation": "why",
    "history": "Reader last_seq log stats",
    "leases": "adopt heartbeat judge_from_now let_go standing start",
    "plans": "init move recount",
    "proofs": "reconcile",
    "record": "PlanCopy",
    "releases": "pause release reopen reset resume",
    "reviews": "accept reject review",
    "revision_plan": "Allowed",
    "revisions": "agreed_texts diff revise",
    "standings": "is_recorded ready",
    "transfer": "import_",
    "upkeep": "archive export prune restore",
    "views": "epoch show status",
}

_HOME_OF = {
    name: f"tugtool.state.{home}" for home, names in _HOMES.items() for name in names.split()
}

__all__ = [*_HOME_OF]


#: What was asked for so far, by name and by whether it is called again if it was overtaken.
found: dict[tuple[str, bool], object] = {}


def __getattr__(name: str) -> object:
    postgres = sys.modules.get("tugtool.store.postgres")
    operation = found.get((name, postgres is not None))
    if operation is not None:
        return operation
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(name)
    # Not from `sys.modules`: another thread may just be loading the module.
    operation = getattr(__import__(home, fromlist=[name]), name)
    operation = operation if postgres is None else postgres.persistent(operation)
    found[name, postgres is not None] = operation
    return operation
