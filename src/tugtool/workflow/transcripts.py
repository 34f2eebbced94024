"""Transcripts of agents: one file per call, in git's directory, until the plan is pruned.

`transcripts/<plan>/<step>/<attempt>-<call>-<role>.txt`: the name identifies the call.
"""

from __future__ import annotations

from tugtool.errors import plan_argument, quoted
from tugtool.plan import catalog
from tugtool.state import record, views
from tugtool.system import files, os
from tugtool.workflow.worktree import branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, BinaryIO

    from tugtool.git import Repository
    from tugtool.schemas import StateLogEvent, StateReview, StateWhy, TranscriptTranscript
    from tugtool.schemas import Transcript as TranscriptAnswer
    from tugtool.store import Store
    from tugtool.workflow.workspace import Workspace


#: Stands for a step, for agents of the whole plan; no anchor begins like this.
WHOLE_PLAN = "_plan"
#: Answers of these roles are recorded with a step all the same.
_OF_THE_PLAN = ("auditor", "integrator")
_ENDING = ".txt"
#: The beginning of the last line.
END = b"\n--- the end: "
_PIECE_BYTES = 65536
#: The first line ends with the time of the call.
_HEAD_BYTES = 1024
#: A follower looks for so many of its last bytes after the middle was removed.
_SEEN_BYTES = 256


class AgentCall:
    """A call of an agent, from the name of its transcript."""

    __slots__ = ("anchor", "attempt", "number", "path", "role")

    def __init__(
        self, path: str, anchor: str | None, attempt: int | None, number: int, role: str
    ) -> None:
        self.path, self.anchor, self.attempt = path, anchor, attempt
        self.number, self.role = number, role


def directory(repo: Repository, plan: str) -> str:
    """Return the directory of a plan's transcripts."""
    # Two plans may share a slug, and a key may have characters that file names cannot.
    slug = branches.safe(catalog.slug_of(os.path.basename(plan)))
    return os.path.join(_home(repo), f"{slug}-{catalog.fingerprint(plan.encode())[:12]}")


def _home(repo: Repository) -> str:
    return os.path.join(repo.common_dir, "tugtool", "transcripts")


def calls(
    repo: Repository,
    plan: str,
    anchor: str | None,
    *,
    attempt: int | None = None,
    role: str | None = None,
) -> list[AgentCall]:
    """Return the calls for a step or the whole plan, in order; of one attempt or role if given."""
    place = os.path.join(directory(repo, plan), anchor or WHOLE_PLAN)
    names = os.listdir(place) if os.path.isdir(place) else []
    found = [call for name in names if (call := _call(place, anchor, name)) is not None]
    wanted = (
        call for call in found if attempt in (None, call.attempt or 0) and role in (None, call.role)
    )
    return sorted(wanted, key=lambda call: (call.attempt or 0, call.number))


def _call(place: str, anchor: str | None, name: str) -> AgentCall | None:
    attempt, _, rest = name.partition("-")
    number, _, role = rest.partition("-")
    if not (attempt.isdecimal() and number.isdecimal() and role.endswith(_ENDING)):
        return None
    which, path = None if anchor is None else int(attempt), os.path.join(place, name)
    return AgentCall(path, anchor, which, int(number), role.removesuffix(_ENDING))


def paths(repo: Repository, plan: str, anchor: str, attempt: int | None) -> list[str]:
    """Return the transcripts of an attempt."""
    return [call.path for call in calls(repo, plan, anchor, attempt=attempt or 0)]


def begin(
    repo: Repository, plan: str, anchor: str | None, attempt: int | None, role: str, *, most: int
) -> Recording:
    """Begin a transcript for the next call."""
    before = calls(repo, plan, anchor, attempt=attempt or 0)
    number = before[-1].number + 1 if before else 1
    return Recording(made_path(repo, plan, anchor, attempt, role, number), most)


def made_path(
    repo: Repository, plan: str, anchor: str | None, attempt: int | None, role: str, number: int
) -> str:
    """Return the path of a transcript; its directories are made."""
    home = directory(repo, plan)
    for place in (_home(repo), home, os.path.join(home, anchor or WHOLE_PLAN)):
        _make_private(place)
    return os.path.join(place, f"{attempt or 0:03}-{number:03}-{role}{_ENDING}")


def _make_private(path: str) -> None:
    if not os.path.isdir(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path, 0o700)


class Recording:
    """A transcript that is being written, never larger than `most` bytes.

    If it grows too large, its middle is removed. It never raises: a full disk must not stop an
    agent.
    """

    def __init__(self, path: str, most: int) -> None:
        self.path, self._most = path, most
        #: Opened at the first write, so that a call that is not made leaves no file.
        self._file = -1
        self._size = self._left_out = 0
        #: The start of the part that is removed.
        self._middle = most // 2
        self.problem: str | None = None

    def write(self, data: bytes) -> None:
        """Append data."""
        step = max(1, min(_PIECE_BYTES, self._most // 8))
        try:
            for start in range(0, len(data), step):
                self._add(data[start : start + step])
        except OSError as error:
            self.problem = files.reason(error)

    def close(self, said: str) -> None:
        """Append the last line, which says how the call ended."""
        self.write(END + f"{said}\n".encode(errors="replace"))
        if self._file >= 0:
            os.close(self._file)

    def _add(self, piece: bytes) -> None:
        if self.problem is not None:
            return
        if self._file < 0:
            self._file = _opened(self.path)
        if self._size + len(piece) > self._most:
            self._shrink()
        os.write(self._file, piece)
        self._size += len(piece)

    def _shrink(self) -> None:
        """Remove the middle in a new file; readers of the old file miss nothing."""
        keep = self._most // 4
        head = os.pread(self._file, self._middle, 0)
        tail = os.pread(self._file, keep, self._size - keep)
        marked = len(_left_out(self._left_out)) if self._left_out else 0
        self._left_out += self._size - self._middle - marked - keep
        text = head + _left_out(self._left_out) + tail
        temporary = f"{self.path}.new"
        new = _opened(temporary)
        os.write(new, text)
        os.rename(temporary, self.path)
        os.close(self._file)
        self._file, self._size = new, len(text)


def _left_out(count: int) -> bytes:
    return b"\n[%d bytes left out]\n" % count


def _opened(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


class Follower:
    """Reads a transcript while it is written."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "rb")  # noqa: SIM115 (closed by `close`)
        self._seen = b""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def more(self) -> bytes:
        """Return the new data."""
        found = self._file.read()
        self._remember(found)
        if os.path.exists(self._path) and not self._is_same():
            # The middle was removed. First read the rest of the old file.
            found += self._rest()
        return found

    def _is_same(self) -> bool:
        return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))

    def _rest(self) -> bytes:
        last = self._file.read()
        self._remember(last)
        self.close()
        self._file = open(self._path, "rb")  # noqa: SIM115 (closed by `close`)
        text = self._file.read()
        at = text.rfind(self._seen)
        new = text[at + len(self._seen) :] if at >= 0 else text
        self._remember(new)
        return last + new

    def _remember(self, data: bytes) -> None:
        self._seen = (self._seen + data)[-_SEEN_BYTES:]


class Selection:
    """The calls that a person asked for."""

    def __init__(
        self, space: Workspace, plan: str, anchor: str, *, attempt: int | None, role: str | None
    ) -> None:
        self.repo, self.store, self.plan = space.repo, space.store, plan
        self.anchor = self._top(anchor) if anchor else None
        self.attempt, self.role = attempt, role
        #: The position in the last call while it is followed, and the number of earlier calls.
        self._follower: Follower | None = None
        self._at: int | None = None
        self._shown, self._rest = 0, b""

    def _top(self, anchor: str) -> str:
        row, _ = views.attempt(self.store, self.plan, anchor, 0)
        return str(row["parent_anchor"] or anchor)

    def calls(self) -> list[AgentCall]:
        """Return the calls in order; of the last attempt unless another was asked for."""
        found = calls(self.repo, self.plan, self.anchor, attempt=self.attempt)
        last = found[-1].attempt if found else None
        return [call for call in found if call.attempt == last and self.role in (None, call.role)]

    def is_at_work(self) -> bool:
        """Return whether more may come."""
        if self.anchor is not None:
            return self.anchor in views.steps_at_work(self.store, self.plan)[2]
        found = self.calls()
        return bool(found) and END not in files.read(found[-1].path, max_bytes=files.WHOLE_BYTES)

    def show(self, parts: Iterable[tuple[AgentCall, bytes]]) -> TranscriptAnswer:
        """Return the answer with these parts."""
        shown = [_entry(call, data) for call, data in parts]
        return {"plan_path": self.plan, "step_anchor": self.anchor, "transcripts": shown}

    def whole(self) -> TranscriptAnswer:
        """Return everything so far."""
        read = files.read
        return self.show((c, read(c.path, max_bytes=files.WHOLE_BYTES)) for c in self.calls())

    def news(self, *, last: bool) -> Iterator[TranscriptAnswer]:
        """Return the new whole lines; the `last` time everything."""
        found = self.calls()
        self._attempt_begins(found)
        while self._shown < len(found):
            call, ended = found[self._shown], last or self._shown + 1 < len(found)
            self._follower = self._follower or Follower(call.path)
            self._rest += self._follower.more()
            end = len(self._rest) if ended else self._rest.rfind(b"\n") + 1
            part, self._rest = self._rest[:end], self._rest[end:]
            if part:
                yield self.show([(call, part)])
            if not ended:
                return
            self._shown += 1
            self.close()

    def close(self) -> None:
        """Close the followed file."""
        if self._follower is not None:
            self._follower.close()
        self._follower = None

    def _attempt_begins(self, found: list[AgentCall]) -> None:
        """Start counting anew when a new attempt has calls."""
        if found and found[-1].attempt != self._at:
            self._at, self._shown = found[-1].attempt, 0


def _entry(call: AgentCall, data: bytes) -> TranscriptTranscript:
    return {
        "path": call.path,
        "step_anchor": call.anchor,
        "attempt": call.attempt,
        "call": call.number,
        "role": call.role,
        "text": data.decode(errors="replace"),
    }


def at_work(repo: Repository, plan: str, anchor: str, attempt: int) -> tuple[str, str] | None:
    """Return the role whose agent runs for a step, and since when; None between two."""
    found = calls(repo, plan, anchor, attempt=attempt)
    try:
        with open(found[-1].path, "rb") as file:
            head = file.readline(_HEAD_BYTES).decode(errors="replace").strip()
            ended = has_ended(file)
    except (IndexError, OSError):
        return None
    return None if ended else (found[-1].role, head.rpartition(", ")[2])


def has_ended(file: BinaryIO) -> bool:
    """True if the call whose transcript this is has ended."""
    file.seek(max(os.fstat(file.fileno()).st_size - _PIECE_BYTES, 0))
    return END in file.read()


def name_roles(repo: Repository, plan: str, steps: Iterable[Any]) -> None:
    """Add the running role to each held step of `show` or `status`."""
    for each in steps:
        if not each["claimed_by"] or each["role"]:
            continue
        stale = each["stale"] if "stale" in each else each["lease_expired"] or each["holder_gone"]
        found = None if stale else at_work(repo, plan, each["anchor"], each["attempt"])
        each["role"], each["role_since"] = found or (None, None)


def name_in_log(repo: Repository, events: Iterable[StateLogEvent]) -> None:
    """Add the paths of transcripts to events about agents' answers."""
    for event in events:
        if event["kind"] != "agent":
            continue
        plan, role = event["plan_path"], event["detail"]["role"]
        if role in _OF_THE_PLAN:
            found = calls(repo, plan, None, role=role)
        else:
            found = calls(repo, plan, event["step_anchor"], attempt=event["attempt"], role=role)
        event["detail"]["transcripts"] = [call.path for call in found]


def name_in_why(repo: Repository, data: StateWhy) -> StateWhy:
    """Add the last attempt's transcripts, and the command that shows them."""
    plan, top = data["plan_path"], data["parent_anchor"] or data["anchor"]
    data["transcripts"] = paths(repo, plan, top, data["attempt"])
    if data["transcripts"]:
        data["sentences"].append(f"What its agents got and printed: {command(plan, top)}")
    return data


def command(plan: str, anchor: str) -> str:
    """Return the command that shows a step's transcripts."""
    return f"tugcode transcript {plan_argument(plan)} {quoted(anchor)}"


def name_in_review(repo: Repository, store: Store, data: StateReview) -> None:
    """Add the paths of transcripts to the items that wait for a person."""
    for item in data["deferred_items"]:
        top = top_step(store, item["plan_path"], item["step_anchor"])
        item["transcripts"] = paths(repo, item["plan_path"], top, item["attempt"])
    for step in data["parked_steps"]:
        last = step["last_attempt"]["number"]
        step["transcripts"] = paths(repo, step["plan_path"], step["step_anchor"], last)


def top_step(store: Store, plan: str, anchor: str) -> str:
    """Return the step of a substep: attempts are made at steps."""
    row = record.find_step(store, plan, anchor)
    return str((row and row["parent_anchor"]) or anchor)


def move(repo: Repository, old: str, new: str) -> None:
    """Rename the transcripts of a renamed plan."""
    import shutil

    before, after = directory(repo, old), directory(repo, new)
    if old != new and os.path.isdir(before):
        # These are from an earlier plan of that name, which has no record.
        shutil.rmtree(after, ignore_errors=True)
        os.rename(before, after)


def drop_unrecorded(repo: Repository, store: Store) -> None:
    """Remove the transcripts of plans without a record."""
    import shutil

    home = _home(repo)
    # List these first: a plan is recorded before it has transcripts.
    names = os.listdir(home) if os.path.isdir(home) else []
    known = {os.path.basename(directory(repo, plan)) for plan in record.plans(store)}
    for name in names:
        if name not in known:
            shutil.rmtree(os.path.join(home, name), ignore_errors=True)
