"""Worktrees are made, one or several at a time; the caller has the lock.

What is about to be made is written down first; if anything goes wrong, all is taken away.
"""

from __future__ import annotations

import os

from tugtool import base, crash, files, jsontext, state
from tugtool.errors import TugError, quoted
from tugtool.git_errors import NotMade
from tugtool.plan import fingerprint
from tugtool.state import record
from tugtool.state.record import storable
from tugtool.store import sql, sql_git
from tugtool.worktree import adding, naming, survey, undoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tugtool.repository import Repository
    from tugtool.store import Row, Store
    from tugtool.worktree.making import Order

#: For so long a worktree is its caller's without a claim.
RESERVED_SECONDS = 600


def plan_differs(path: str, order: Order) -> bool:
    """Whether a worktree has another text of the plan."""
    copy = os.path.join(path, order.file.key)
    if not os.path.exists(copy):
        return False
    return fingerprint.of(files.read(copy, max_bytes=1 << 30)) != order.hash


class _Plot:
    """One worktree to be, and for whom."""

    __slots__ = ("branch", "order", "path")

    def __init__(self, order: Order, branch: str, place: str) -> None:
        self.order, self.branch = order, branch
        self.path = os.path.join(place, naming.directory_of(branch))


class Building:
    """One worktree for each order, from the intents to the rows."""

    def __init__(
        self,
        repo: Repository,
        store: Store,
        orders: Sequence[Order],
        place: str,
        onto: str,
        start: str,
    ) -> None:
        self.repo, self.store, self.orders = repo, store, orders
        self.place, self.onto, self.start = place, onto, start
        #: The orders differ in who asks, and in nothing else.
        self.order, self.key = orders[0], orders[0].file.key
        self.plots: list[_Plot] = []

    def run(self) -> list[Row]:
        """Make them all, or leave nothing."""
        self._intend()
        crash.point("create.intent")
        try:
            rows = self._make()
        except BaseException as error:
            left = [each for plot in self.plots for each in self._undone(plot)]
            if isinstance(error, TugError):
                reason = error.reason if isinstance(error, NotMade) else error.message
                raise NotMade(self.plots[0].path, reason=reason, left=left) from error
            raise
        with self.store.write(self.key) as tx:
            for plot in self.plots:
                tx.run(sql_git.DROP_INTENT, kind="create", path=storable(plot.path))
        return rows

    def _undone(self, plot: _Plot) -> list[str]:
        how = {"branch": plot.branch, "start": self.start}
        return undoing.undo(self.repo, self.store, plot.path, **how)

    def _intend(self) -> None:
        files.make_directory(self.place)
        taken = {*survey.branches(self.repo), *naming.branches_of(os.listdir(self.place))}
        with self.store.write(self.key) as tx:
            taken.update(row["branch"] for row in tx.all(sql_git.WORKTREES))
            # What was done in one that is gone would pass for the new one's own.
            worked_in = [os.path.basename(row["path"]) for row in tx.all(sql_git.WORKED_IN)]
            taken.update(naming.branches_of(worked_in))
            for order in self.orders:
                branch = naming.free(order.file.slug, date=tx.now[:10], taken=taken)
                taken.add(branch)
                self.plots.append(_Plot(order, branch, self.place))
                tx.run(
                    sql_git.ADD_INTENT,
                    kind="create",
                    path=storable(self.plots[-1].path),
                    head=self.start,
                    detail=jsontext.encode({"branch": branch, "base_branch": self.onto}),
                )

    def _make(self) -> list[Row]:
        names = [plot.branch for plot in self.plots]
        adding.branches(self.repo, names, self.start, said="tugcode: worktree create")
        crash.point("create.branch")
        for plot in self.plots:
            adding.directory(self.repo, plot.path, plot.branch)
            crash.point("create.worktree")
            self._verify(plot)
        self._init()
        crash.point("create.state")
        rows = self._record()
        crash.point("create.recorded")
        return rows

    def _verify(self, plot: _Plot) -> None:
        adding.verify(self.repo, plot.path, plot.branch, self.start)
        if plan_differs(plot.path, plot.order):
            reason = (
                f"its copy of the plan has another text: {self.key}, from {self.onto}, is not what "
                f"was agreed; tugcode state diff {quoted(self.key)} shows what changed, and "
                f"whoever means it records it with tugcode state init {quoted(self.key)}"
            )
            raise NotMade(plot.path, reason=reason)

    def _init(self) -> None:
        order, key = self.order, self.key
        if self._known_base() is not None:
            # An earlier worktree of the plan has seen to all of it.
            return
        commit = base.base_commit(self.repo, key, revision=self.start)
        state.init(
            self.store, key, order.parsed, text=order.text, hash=order.hash, base_commit=commit
        )
        with self.store.write(key) as tx:
            tx.run(sql_git.SET_BASE, base_commit=commit)

    def _known_base(self) -> str | None:
        """Where the plan was brought from, if an earlier worktree has found out."""
        with self.store.read(self.key) as tx:
            row = tx.first(sql.PLAN)
        return None if row is None else row["base_commit"]

    def _record(self) -> list[Row]:
        with self.store.write(self.key) as tx:
            for plot in self.plots:
                name = storable(plot.path)
                tx.run(
                    sql_git.ADD_WORKTREE,
                    path=name,
                    branch=plot.branch,
                    base_branch=self.onto,
                    base_commit=self.start,
                    until=tx.after(RESERVED_SECONDS),
                    reserved_for=plot.order.request_id,
                )
                detail: dict[str, Any] = {"branch": plot.branch, "base": self.onto}
                record.note(tx, self.key, "worktree_create", actor=name, **detail)
            return [tx.one(sql_git.WORKTREE, path=storable(plot.path)) for plot in self.plots]
