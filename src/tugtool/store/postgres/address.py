"""The server, database and schema of an address; its form for people, without secrets.

Every repository has its own schema in the database. Statements then need no column for the
repository and cannot reach another one's rows; rights, dumps and migrations are per repository;
and teams that share a database can update Tugtool one after the other.
"""

from __future__ import annotations

import binascii

from tugtool.system.state_config import SECRET, odd_port, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Our one parameter of an address: the schema, or the prefix of schema names.
SCHEMA_OPTION = "schema"
SCHEMA = "tugtool"
#: Characters that divide the parts of an address.
_SPECIAL = frozenset("/:?#[]@& ")
#: Instead of a message that may quote a part of a password.
_ODD = "its address cannot be read; write special characters of a password as %XX"
#: PostgreSQL truncates longer names.
LONGEST_NAME = 63


class Address:
    """The parts of an address: for libpq, for people, and the repository's schema."""

    __slots__ = ("_is_plain", "_secrets", "base", "libpq", "schema", "shown")

    def __init__(self, url: str, repository: str | None = None) -> None:
        head, mark, query = url.partition("?")
        options = query.split("&") if mark else []
        base = SCHEMA
        for option in options:
            name, _, value = option.partition("=")
            base = value if name == SCHEMA_OPTION and value else base
        rest = [each for each in options if each.partition("=")[0] != SCHEMA_OPTION]
        #: The address for libpq.
        self.libpq = head + (f"?{'&'.join(rest)}" if rest else "")
        #: The address without secrets.
        self.shown = without_password(self.libpq)
        #: The prefix of all schemas of states in this database.
        self.base = base
        self.schema = base if repository is None else schema_of(base, repository)
        self._secrets = sorted({each for each in _secrets(url) if each}, key=len, reverse=True)
        written = [each for each in self._secrets if each in url]
        self._is_plain = _is_plain(url, written)

    def cleaned(self, text: str) -> str:
        """Return a message without this address's password in any form."""
        if not self._is_plain:
            return _ODD
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def quoted_schema(self) -> str:
        """The schema's quoted name."""
        return '"' + self.schema.replace('"', '""') + '"'


def schema_of(base: str, repository: str) -> str:
    """Return the schema of a repository: a readable name and a checksum."""
    last = repository.rstrip("/").rpartition("/")[2].lower()
    word = "".join(c if c.isascii() and c.isalnum() else "_" for c in last)
    number = binascii.crc32(repository.encode("utf-8", "surrogateescape"))
    tail = f"_{number:08x}"
    return f"{base}_{word}"[: LONGEST_NAME - len(tail)] + tail


def _secrets(url: str) -> Iterator[str]:
    """Return the password in every form of the address: as written, and decoded."""
    rest = url.partition("://")[2]
    before, at, _ = rest.rpartition("@")
    found = [before.partition(":")[2] if at else odd_port(rest)]
    for option in rest.partition("?")[2].split("&"):
        name, _, value = option.partition("=")
        found += [value] if _decoded(name) in SECRET else []
    for each in found:
        yield each
        yield _decoded(each)


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _is_plain(url: str, secrets: list[str]) -> bool:
    """Return whether libpq takes exactly these passwords for passwords."""
    head, _, query = url.partition("://")[2].partition("?")
    if not secrets:
        return True
    if "@" in query or head.count("@") > 1 or not _SPECIAL.isdisjoint("".join(secrets)):
        return False
    return not query or all("=" in option for option in query.split("&"))
