"""The hash that says whether a plan's text is still the one that was agreed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class _Hash(Protocol):
        def hexdigest(self) -> str: ...


#: Above this size OpenSSL's speed outweighs what importing it costs.
_LARGE = 256 * 1024


def of(data: bytes) -> str:
    """SHA-256 of a plan's bytes, with CRLF as LF, in hexadecimal."""
    data = data.replace(b"\r\n", b"\n")
    return _sha256(data).hexdigest()


def _sha256(data: bytes) -> _Hash:
    # hashlib brings OpenSSL along: a quarter of a bare interpreter start. The same
    # algorithm lies beside it in a small C module, under a name that has changed once.
    if len(data) > _LARGE:
        import hashlib

        return hashlib.sha256(data)
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]  # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12 and later
        except ImportError:
            from hashlib import sha256
    made: _Hash = sha256(data)
    return made
