"""Tokens: who may use the server, as what, until when.

The file has only hashes. Of a token of 256 random bits, one SHA-256 is enough.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from typing import NamedTuple

from tugtool import errors
from tugtool.system import clock, files, os
from tugtool.system.lock import FileLock
from tugtool.workflow import workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


#: From the smallest to the greatest; each may do all that the ones before may.
ROLES = ("viewer", "worker", "operator")
PREFIX = "tug_"
LONGEST_NAME = 64
#: A token has 43 characters after its prefix; longer ones are not even hashed.
LONGEST_TOKEN = 200
_BUSY_SECONDS = 5.0
_UNITS = {"m": 60, "h": 3600, "d": 86400}


class Caller(NamedTuple):
    """The sender of a request: the name and role of its token."""

    name: str
    role: str
    #: The only plan that the token is for, or None.
    plan: str | None = None
    expires_at: str | None = None
    #: The process behind a Unix socket, as the kernel names it.
    pid: int | None = None
    #: The hash of the token; None at a Unix socket.
    token: str | None = None

    def may(self, role: str) -> bool:
        """True if this role, or a greater one, is the caller's."""
        if ROLES.index(self.role) < ROLES.index(role):
            return False
        # The socket is for the user's own processes, and those of workers are among them.
        return role != ROLES[-1] or self.pid is None or not workers.is_worker(self.pid)

    @property
    def actual_role(self) -> str:
        """The role; a worker's process at the socket is a worker."""
        return self.role if self.may(self.role) else ROLES[1]


#: The name of the token that each start prints; it acts as the person at this machine.
OF_THIS_START = ""


class Tokens:
    """The tokens of one repository, in a file that only its owner can read."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "tokens.json")
        self._lock = FileLock(os.path.join(directory, "tokens.lock"), busy_seconds=_BUSY_SECONDS)
        self._seen: object = None
        self._known: dict[str, Mapping[str, Any]] = {}
        self._extra: dict[str, Mapping[str, Any]] = {}

    def make_for_this_start(self) -> str:
        """Return a token of an operator that is stored nowhere and ends with this process."""
        token = PREFIX + secrets.token_urlsafe(32)
        self._extra = {_hash(token): {"name": OF_THIS_START, "role": ROLES[-1]}}
        self._known |= self._extra
        return token

    def rows(self) -> list[Mapping[str, Any]]:
        """Return the stored tokens, oldest first."""
        if not os.path.exists(self.path):
            return []
        try:
            found = json.loads(files.read(self.path) or b"[]")
            return [row for row in found if row["role"] in ROLES and row["name"] and row["hash"]]
        except (ValueError, TypeError, KeyError) as error:
            raise errors.Unreadable(self.path, "is not a list of tokens") from error

    def add(
        self, name: str, role: str, *, plan: str | None = None, expires: str | None = None
    ) -> tuple[str, Mapping[str, Any]]:
        """Make a token. Return it, which nothing can do again, and its row."""
        _refuse_bad_name(name)
        token = PREFIX + secrets.token_urlsafe(32)
        now = clock.system_milliseconds()
        ends = None if expires is None else clock.text(now + 1000 * _seconds(expires))
        row = {"name": name, "role": role, "hash": _hash(token), "plan": plan}
        row |= {"created_at": clock.text(now), "expires_at": ends}
        with self._lock:
            rows = self.rows()
            if any(each["name"] == name for each in rows):
                problem = f"there is a token with the name {name}; revoke it first"
                refusal = errors.Usage(problem, command="serve token add")
                refusal.hint = f"tugcode serve token revoke {name}"
                raise refusal
            self._write([*rows, row])
        return token, row

    def revoke(self, name: str) -> bool:
        """Drop the token with that name. Return whether there was one."""
        with self._lock:
            rows = self.rows()
            left = [each for each in rows if each["name"] != name]
            if len(left) < len(rows):
                self._write(left)
        return len(left) < len(rows)

    def _write(self, rows: list[Any]) -> None:
        if not os.path.exists(self.path):
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        files.replace(self.path, json.dumps(rows, indent=1).encode() + b"\n")

    def refresh(self) -> None:
        """Read the file again if it has changed: a revoked token counts no more."""
        try:
            facts = os.stat(self.path)
            seen = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        except FileNotFoundError:
            seen = None
        if seen != self._seen:
            self._known = {row["hash"]: row for row in self.rows()} | self._extra
            self._seen = seen

    def find(self, token: str) -> Caller | None:
        """Return whose token it is; None if it is not valid, or not any more."""
        if not token.startswith(PREFIX) or len(token) > LONGEST_TOKEN:
            return None
        self.refresh()
        given = _hash(token)
        row = None
        for known, each in self._known.items():
            # Each is compared in full, so that the time tells nothing.
            row = each if hmac.compare_digest(known, given) else row
        if row is None or _is_over(row.get("expires_at")):
            return None
        return Caller(row["name"], row["role"], row.get("plan"), row.get("expires_at"), token=given)

    def is_valid(self, caller: Caller) -> bool:
        """Return whether the caller's token still counts; no token does if the file is damaged."""
        if caller.token is None:
            return True
        try:
            self.refresh()
        except (errors.TugError, OSError):
            return False
        row = self._known.get(caller.token)
        return row is not None and not _is_over(row.get("expires_at"))


def _is_over(expires_at: str | None) -> bool:
    return expires_at is not None and expires_at <= clock.text(clock.system_milliseconds())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _refuse_bad_name(name: str) -> None:
    plain = name.isascii() and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    if not plain or len(name) > LONGEST_NAME:
        problem = f"a name has letters, digits, dots, hyphens and at most {LONGEST_NAME} characters"
        raise errors.Usage(problem, command="serve token add")


def _seconds(text: str) -> int:
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isascii() and number.isdecimal() and 0 < len(number) <= 5:
        return int(number) * _UNITS[unit]
    raise errors.Usage(f'--expires takes 90m, 12h or 30d, not "{text}"', command="serve token add")
