"""Where a state command works: repository, settings, database, plan, and who calls."""

from __future__ import annotations

import os
import time

from tugtool import config, files, repository
from tugtool.cli.output import Answer, clean, mention
from tugtool.errors import GitFailed, PlanAmbiguous, PlanNotFound, Usage, listing, quoted
from tugtool.plan import catalog, fingerprint
from tugtool.state.record import PlanCopy, storable
from tugtool.state_errors import PlanNotInitialised
from tugtool.store import open_store, sql

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tugtool.cli.parse import Call
    from tugtool.repository import Repository
    from tugtool.store import Store

    Data = dict[str, object]


#: The coarsest clock a file system has.
_UNSETTLED_NANOSECONDS = 2_000_000_000


class Place:
    """Where a command works: repository, settings, database, and who calls."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.repo: Repository = repository.discover(call.cwd)
        self.settings = config.load(self.repo.root)
        self.store = self.opened(self.settings.number("state.busy_seconds"))
        given = call.text("worktree")
        if given == "" or call.text("request_id") == "":
            # An unset variable of a script, most likely; it must not mean somebody else.
            raise Usage("--worktree and --request-id need a value", command=call.path)
        #: The caller's worktree as a path, and as the name under which it owns steps.
        self.worktree = repository.worktree_identity(self.repo, given, cwd=call.cwd)
        self.owner = storable(self.worktree)

    def opened(self, busy_seconds: float) -> Store:
        """The database, for whoever waits at most so long for others."""
        return open_store(
            f"sqlite://{os.path.join(self.repo.root, '.tugtool', 'state.db')}",
            busy_seconds=busy_seconds,
            # Where `git clean` cannot reach it.
            copies=os.path.join(self.repo.common_dir, "tugtool"),
        )

    def plan(self) -> str:
        """The key of the plan that is meant; the database must be there."""
        name = self.call.text("plan")
        if name is None:
            return self._only_active()
        try:
            key = catalog.resolve(self.repo, name, cwd=self.call.cwd).key
        except PlanNotFound as error:
            recorded = self._recorded(name)
            if recorded is None:
                raise error
            key = recorded
        if not self.store.exists():
            raise PlanNotInitialised(key)
        return key

    def step(self) -> str:
        """The anchor that was named, bare."""
        return (self.call.text("step") or "").removeprefix("#")

    def attempt(self, plan: str) -> int | None:
        """The attempt that the caller works under, from the option or the environment."""
        given, anchor = self.call.number("attempt"), self.step()
        if given is not None or not config.has_attempt():
            return given
        # It counts for the step that the environment names, and so for its substeps.
        with self.store.read(plan) as tx:
            row = tx.first(sql.STEP, anchor=anchor)
        home = row["parent_anchor"] if row is not None else None
        own = config.attempt_for(plan, anchor)
        return own if own is not None or home is None else config.attempt_for(plan, home)

    def copy(self, plan: str) -> PlanCopy:
        """The plan file that the caller works from: its worktree's, or the main one's."""
        for top in (self.worktree, self.repo.root):
            path = os.path.join(top, plan)
            if os.path.lexists(path):
                at = top if top != self.repo.root else None
                return PlanCopy(path, signature=_signature(path), read=_reader(path), worktree=at)
        return PlanCopy(os.path.join(self.repo.root, plan))

    def backed_up(self, answer: Answer, *, pending: bool = False) -> Answer:
        """The same answer; once it is out, the database is backed up.

        With `pending` only if steps were completed within a minute of the last time.
        """
        answer.after = lambda: self._back_up(pending)
        return answer

    def saved(self, plan: str, data: Data) -> list[Data]:
        """Save the work of whoever lost a step of the plan; what there is to say about it."""
        if not data.pop("unsaved"):
            return []
        # After the state's transaction: nobody else has to wait for git.
        from tugtool import salvaging

        done = salvaging.catch_up(self.repo, self.store, plan, most=salvaging.MOST_PER_CLAIM)
        own = [each for each in done if each["step_anchor"] == data.get("anchor")]
        if own and "salvage_ref" in data:
            data["salvage_ref"] = own[0]["salvage_ref"]
        return [_unsaved(each) for each in done if each["problem"] is not None]

    def _back_up(self, pending: bool) -> None:
        try:
            trouble = self.store.back_up(pending=pending)
        except KeyboardInterrupt:
            trouble = "interrupted while making a backup; the one before is still there"
        except Exception as error:
            # Whatever it is: what the command was asked for is done, and said to be.
            trouble = f"no backup was made: {error!r}"
        if trouble is not None:
            mention(f"tugcode: {clean(trouble)}\n")

    def _only_active(self) -> str:
        if not self.store.exists():
            raise PlanNotInitialised(None)
        with self.store.read() as tx:
            active = [r["plan_path"] for r in tx.all(sql.PLANS) if r["status"] == "active"]
        if not active:
            raise PlanNotInitialised(None)
        if len(active) > 1:
            raise PlanAmbiguous("", candidates=active)
        return str(active[0])

    def _recorded(self, name: str) -> str | None:
        """A plan whose file is gone is still known by its record."""
        if not self.store.exists():
            return None
        with self.store.read() as tx:
            keys = [str(row["plan_path"]) for row in tx.all(sql.PLANS)]
        slug = catalog.slug_of(os.path.basename(name))
        same = [key for key in keys if slug == catalog.slug_of(os.path.basename(key))]
        return name if name in keys else same[0] if len(same) == 1 else None


def _unsaved(each: Data) -> Data:
    where, anchor = each["worktree"], each["step_anchor"]
    return {
        "code": "W120",
        "severity": "warning",
        "message": f"the uncommitted work on {anchor} (attempt {each['attempt']}) is not saved "
        f"yet and still lies in {where}: {each['problem']}",
        "hint": f"git -C {quoted(str(where))} status",
        "file": where,
    }


def _reader(path: str) -> Callable[[], str]:
    # Read whole, whatever its size: a plan that grew has changed, not broken.
    return lambda: fingerprint.of(files.read(path, max_bytes=1 << 30))


def _signature(path: str) -> str | None:
    """What the file system says of a file that nobody has touched just now.

    As git does: a file may change twice within one tick of its clock, so times that are
    nearly now prove nothing.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    if abs(time.time_ns() - newest) < _UNSETTLED_NANOSECONDS:
        return None
    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return ".".join(map(str, facts))


def said(data: Data, text: str | Callable[[], str], issues: Sequence[Data] = ()) -> Answer:
    """An answer in a line or more; what there is to say besides goes to standard error."""

    def say() -> str:
        tell(issues)
        return clean(text) + "\n" if isinstance(text, str) else text()

    return Answer(data, say, issues=issues)


def tell(issues: Sequence[Data]) -> None:
    """What there is to say besides, on standard error."""
    for issue in issues:
        lines = [clean(line) for line in str(issue["message"]).split("\n")]
        mention(f"tugcode: {issue['code']}: " + "\n  ".join(lines) + "\n")


def earlier_work(place: Place, plan: str, *, but: str | None = None) -> list[Data]:
    """A warning for whoever records a plan anew that has branches: steps may be done on them."""
    from tugtool import branches

    try:
        found = [name for name in branches.named_after(place.repo, plan) if name != but]
    except GitFailed:
        # Others make and remove branches; what was asked for is done, whatever git says here.
        return []
    if not found:
        return []
    hint = f"tugcode state reconcile {quoted(plan)} --dry-run"
    message = f"{plan} has branches of an earlier run: {listing(found)}; what they prove: {hint}"
    return [{"code": "W106", "severity": "warning", "message": message, "hint": hint}]
