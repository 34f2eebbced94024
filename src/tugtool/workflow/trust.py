"""Trust: whether this user lets a repository's files name commands to run and addresses to use.

The answer is kept outside of the repository, for one user and one root, with a fingerprint of
every setting that names a command or an address and of every checkpoint command. A random mark
in git's directory ties it to that repository: another one at the same path is asked about anew.
Everything of the repository's that runs is
started by a `Permit`, which only `permit` gives out; tests/project/test_architecture.py holds that
rule. Every address is asked for here: that of the state, the remote, and where `serve` listens.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import stat

from tugtool.errors import TugError, Unreadable, Unwritable, listing, quoted
from tugtool.errors.safety import Untrusted
from tugtool.git import git_dir
from tugtool.plan.catalog import fingerprint
from tugtool.system import config, files, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from tugtool.agents.confinement import ConfinedPlace, FreePlace
    from tugtool.git import Repository
    from tugtool.schemas import Issue, TrustRepository
    from tugtool.system.command import Child, Streams
    from tugtool.system.config import Settings
    from tugtool.system.confinement import Confinement

    Data = dict[str, Any]


#: Settings that name commands, beside the tables of agents.
COMMANDS = ("worktree.setup", "merge.check", "notify.command")
#: Settings that name an address or a file for it, or that weaken how it is protected.
STATE_ADDRESS = ("state.url", "state.ca_file", "state.plain_http")
REMOTE = "remote.name"
SERVER_ADDRESS = (
    *("serve.host", "serve.unix", "serve.hosts", "serve.behind_proxy", "serve.trusted_proxies"),
    *("serve.tls_cert", "serve.tls_key", "serve.git", "serve.run_commands"),
)
ADDRESSES = (*STATE_ADDRESS, REMOTE, *SERVER_ADDRESS)
_NEVER = "is not a repository that you trust"
_CHANGED = "has changed since you trusted it"
_OTHER = "is not the repository that you trusted at this path"
_UNSEEN = "has checkpoint commands that you have not seen"
_VERSION = 1
#: A repository's mark is so many random bytes; a file there may hold anything.
_MARK_BYTES, _MOST_MARK_BYTES = 16, 200


class Permit:
    """The permission to run commands of one repository; it starts them."""

    __slots__ = ("_settings", "root")

    def __init__(self, root: str, settings: Settings) -> None:
        self.root, self._settings = root, settings

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        streams: Streams,
        marks: bool = False,
        confined: Confinement | None = None,
    ) -> Child:
        """Start a command that the repository names; see `system.command.start`."""
        from tugtool.system import command  # Not to ask about an address.

        how: Data = {"cwd": cwd, "env": env, "streams": streams, "marks": marks}
        return command.start(argv, **how, confined=confined)

    def place(
        self, worktree: str, env: Mapping[str, str]
    ) -> AbstractContextManager[ConfinedPlace | FreePlace]:
        """Return where a command runs that runs the coder's code: confined if the coder is."""
        from tugtool.agents.confinement import place_of

        return place_of(self._settings.agent("coder"), worktree, env, client=False)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        streams: Streams,
        limit_seconds: float,
    ) -> Child:
        """Run a command that the repository names to its end."""
        from tugtool.system import command

        return command.run(argv, cwd=cwd, env=env, streams=streams, limit_seconds=limit_seconds)


def permit(repo: Repository, settings: Settings, what: str) -> Permit:
    """Return the permission to run commands; refuse with E110 without this user's trust.

    `what` names the command in the refusal: "the coder's agent".
    """
    _refuse(repo.root, settings, f"{what} would run")
    return Permit(repo.root, settings)


def _refuse(root: str, settings: Settings, what: str) -> None:
    found = refusal(root, settings, what)
    if found is not None:
        raise found


def permit_plan(repo: Repository, settings: Settings, lines: Iterable[str]) -> Permit:
    """Return the permission to run checkpoint commands, which this user has to have seen."""
    found = list(lines)
    what = f"the checkpoint command `{found[0]}`" if found else "a checkpoint command"
    given = permit(repo, settings, what)
    strange = unseen(repo.root, found)
    if strange:
        what = f"{what} would run"
        raise Untrusted(repo.root, what=what, reason=_UNSEEN, changed=strange, file=path())
    return given


def unseen(root: str, lines: Iterable[str]) -> list[str]:
    """Return the checkpoint commands that this user has not agreed to."""
    if by_environment():
        return []
    seen = {each for known in entry_of(root).get("plans", {}).values() for each in known}
    return [line for line in lines if line_hash(line) not in seen]


def see(root: str, plan: str, lines: Iterable[str]) -> None:
    """Note that this user has recorded a plan with these commands, in a repository of trust."""
    if any(map(config.variable, ("TUGCODE_ATTEMPT", "TUGCODE_ROLE"))):
        return
    # Without a record that can be read and written, the person is asked when a command would run.
    with contextlib.suppress(TugError):
        new = unseen(root, lines) if entry_of(root).get("trusted") else []
        if new:
            _add_seen(root, plan, new)


def _add_seen(root: str, plan: str, new: list[str]) -> None:

    def add(known: dict[str, Data]) -> None:
        seen = known[root].setdefault("plans", {})
        seen[plan] = [*seen.get(plan, []), *map(line_hash, new)]

    change(add)


def notices(root: str, settings: Settings, lines: Iterable[str] = ()) -> list[Issue]:
    """Return a warning if nothing of the repository runs, or not these commands, and why."""
    found = refusal(root, settings, "")
    reason = None if found is None else found.reason
    if reason is None and (strange := unseen(root, lines)):
        reason = f"{_UNSEEN}: {listing(strange)}"
    if reason is None:
        return []
    said = f"agents and the commands of checkpoints do not run: {root} {reason}: tugcode trust"
    return [{"code": "W186", "severity": "warning", "message": said, "hint": "tugcode trust"}]


def refuse_state_address(repo: Repository, settings: Settings, shown: str) -> None:
    """Refuse to connect to a state because of the repository's settings, without trust.

    `shown` is its address without a password. Your own environment may name any address.
    """
    variables = map(config.variable, ("TUGCODE_STATE_URL", "TUGCODE_SERVER"))
    own = any(each is not None for each in variables)
    named = [key for key in STATE_ADDRESS[own:] if settings.is_set(key)]
    if named:
        _refuse(repo.root, settings, f"{listing(named)} would have tugcode connect to {shown}")


def refuse_serving(repo: Repository, settings: Settings) -> None:
    """Refuse to listen as the repository's settings say, without trust."""
    named = [key for key in SERVER_ADDRESS if settings.is_set(key)]
    if named:
        _refuse(repo.root, settings, f"{listing(named)} would decide who reaches the server")


def is_trusted(root: str, settings: Settings) -> bool:
    """Return whether this user trusts the repository as it is."""
    return refusal(root, settings, "") is None


def by_environment() -> bool:
    """Return whether the environment trusts every repository (TUGCODE_TRUST)."""
    return config.variable("TUGCODE_TRUST") == "1"


def refusal(root: str, settings: Settings, what: str) -> Untrusted | None:
    """Return why this user does not trust the repository as it is; None if they do."""
    wanted = fingerprints(settings)
    if by_environment():
        return None
    try:
        entry = entry_of(root)
    except TugError as error:
        return Untrusted(root, what=what, reason=f"cannot be trusted: {error.message}")
    if not entry.get("trusted"):
        return Untrusted(root, what=what, reason=_never(), file=path())
    if not is_same(root, entry):
        return Untrusted(root, what=what, reason=_OTHER, file=path())
    known = entry["settings"]
    changed = sorted(k for k in {*known, *wanted} if known.get(k) != wanted.get(k))
    if changed:
        return Untrusted(root, what=what, reason=_CHANGED, changed=changed, file=path())
    return None


def _never() -> str:
    """Say that there is no trust; also that the environment's word is not the one that counts."""
    word = config.variable("TUGCODE_TRUST")
    said = f"{_NEVER} (TUGCODE_TRUST is {word!r:.40}, and only 1 counts)"
    return said if word not in (None, "", "0") else _NEVER


def is_same(root: str, entry: Data) -> bool:
    """Return whether the repository at the root is the one that the answer was about."""
    return entry.get("mark") is not None and entry["mark"] == _mark(root)


def _mark(root: str) -> str | None:
    """Return a fingerprint of the repository's mark; None if it has none."""
    file = _mark_file(root)
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            return None
        return fingerprint(files.read(file, max_bytes=_MOST_MARK_BYTES))
    except (OSError, TugError):
        return None


def _mark_file(root: str) -> str:
    return os.path.join(git_dir(root), "tugtool", "trust")


def marked(root: str) -> str:
    """Give the repository a mark if it has none; return its fingerprint."""
    found = _mark(root)
    if found is None:
        file = _mark_file(root)
        files.make_directory(os.path.dirname(file))
        if os.path.lexists(file):
            os.unlink(file)
        handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as writer:
            writer.write(os.urandom(_MARK_BYTES).hex().encode() + b"\n")
        found = _mark(root)
    assert found is not None, root
    return found


def fingerprints(settings: Settings) -> dict[str, str]:
    """Return a fingerprint for every setting that names a command or an address."""
    found: dict[str, object] = {
        key: settings.value(key) for key in (*COMMANDS, *ADDRESSES) if settings.is_set(key)
    }
    for role, table in (settings.agents or {}).items():
        found |= {f"agents.{role}.{name}": value for name, value in table.items()}
    return {
        key: fingerprint(json.dumps(value, sort_keys=True).encode()) for key, value in found.items()
    }


def path() -> str:
    """Return the file with this user's answers."""
    home = config.variable("XDG_STATE_HOME") or ""
    # A relative path there has no meaning, by its specification.
    home = home if os.path.isabs(home) else os.path.expanduser("~/.local/state")
    return os.path.join(home, "tugtool", "trust.json")


def entry_of(root: str) -> Data:
    """Return what this user has answered for a repository; empty without an answer."""
    found = _read().get(root, {})
    return found if isinstance(found, dict) else {}


def _read() -> dict[str, Data]:
    file = path()
    if not os.path.lexists(file):
        return {}
    _refuse_foreign(file)
    try:
        found = json.loads(files.read(file))["repositories"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(file, "is not a record of trust") from error
    return found if isinstance(found, dict) else {}


def _refuse_foreign(file: str) -> None:
    """Refuse a record that others could have written."""
    status = os.lstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        reason = "is not a file that only you can write"
        raise Unreadable(file, reason, hint=f"ls -l {quoted(file)}")


def line_hash(line: str) -> str:
    """Return a fingerprint of one command."""
    return fingerprint(line.encode(errors="surrogateescape"))


def revoke(root: str) -> bool:
    """Forget the answer for a repository; return whether there was one."""
    found: list[Data] = []
    change(lambda known: found.extend([known.pop(root)] if root in known else []))
    return bool(found)


def listed() -> list[TrustRepository]:
    """Return every repository that this user has answered for, and why one would be refused."""
    return [
        {
            "root": root,
            "trusted": bool(entry.get("trusted")),
            "at": entry.get("at"),
            "reason": _why_not(root, entry),
        }
        for root, entry in sorted(_read().items())
    ]


def _why_not(root: str, entry: Data) -> str | None:
    """Return why nothing runs in a repository with a yes; None if it does, or if it is a no."""
    if not entry.get("trusted") or by_environment():
        return None
    if not os.path.isdir(root):
        return "it is gone"
    try:
        found = refusal(root, config.load(root), "")
    except TugError as error:
        return error.message
    return None if found is None else found.reason


def change(act: Callable[[dict[str, Data]], None]) -> None:
    """Read the record, change it and write it, alone."""
    file = path()
    directory = os.path.dirname(file)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Unwritable(file, reason=files.reason(error)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _read()
        act(known)
        data = json.dumps({"version": _VERSION, "repositories": known}, indent=1).encode()
        if not os.path.lexists(file):
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        os.chmod(file, 0o600)
        files.replace(file, data + b"\n")
    finally:
        os.close(lock)
