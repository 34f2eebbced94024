"""The operations on a plan's execution, one function and one transaction each.

`from tugtool import state; state.claim(...)`: each is imported when it is first used,
because a command needs one of them and pays for what it imports.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.state.checklist import artifact, update
    from tugtool.state.claiming import claim
    from tugtool.state.counting import stats
    from tugtool.state.explaining import why
    from tugtool.state.finishing import complete
    from tugtool.state.flow import pause, resume
    from tugtool.state.freeing import release, reopen, reset
    from tugtool.state.history import log
    from tugtool.state.holding import heartbeat, start
    from tugtool.state.hosting import adopt, let_go, standing
    from tugtool.state.importing import import_
    from tugtool.state.overview import status
    from tugtool.state.pruning import prune
    from tugtool.state.reconciling import reconcile
    from tugtool.state.recounting import recount
    from tugtool.state.reporting import report, spent_tokens
    from tugtool.state.restoring import restore
    from tugtool.state.reviewing import accept, reject, review
    from tugtool.state.revising import diff, revise
    from tugtool.state.setup import init
    from tugtool.state.upkeep import archive, export
    from tugtool.state.verifying import verify
    from tugtool.state.views import ready, show

_HOMES = {
    "accept": "reviewing",
    "adopt": "hosting",
    "archive": "upkeep",
    "artifact": "checklist",
    "claim": "claiming",
    "complete": "finishing",
    "export": "upkeep",
    "diff": "revising",
    "heartbeat": "holding",
    "import_": "importing",
    "init": "setup",
    "let_go": "hosting",
    "log": "history",
    "pause": "flow",
    "prune": "pruning",
    "ready": "views",
    "reconcile": "reconciling",
    "recount": "recounting",
    "reject": "reviewing",
    "release": "freeing",
    "reopen": "freeing",
    "report": "reporting",
    "reset": "freeing",
    "restore": "restoring",
    "resume": "flow",
    "review": "reviewing",
    "revise": "revising",
    "show": "views",
    "spent_tokens": "reporting",
    "standing": "hosting",
    "start": "holding",
    "stats": "counting",
    "status": "overview",
    "update": "checklist",
    "verify": "verifying",
    "why": "explaining",
}

__all__ = [
    "accept",
    "adopt",
    "archive",
    "artifact",
    "claim",
    "complete",
    "diff",
    "export",
    "heartbeat",
    "import_",
    "init",
    "let_go",
    "log",
    "pause",
    "prune",
    "ready",
    "reconcile",
    "recount",
    "reject",
    "release",
    "reopen",
    "report",
    "reset",
    "restore",
    "resume",
    "review",
    "revise",
    "show",
    "spent_tokens",
    "standing",
    "start",
    "stats",
    "status",
    "update",
    "verify",
    "why",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(name)
    module = __import__(f"tugtool.state.{_HOMES[name]}", fromlist=[name])
    operation: object = getattr(module, name)
    return operation
