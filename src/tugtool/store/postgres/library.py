"""PostgreSQL's own C library: find it, load it, and say what its functions return.

The library is the system's (Debian: `libpq5`), which gets the system's security updates; else
the one in the wheel `psycopg2-binary`, which the extra `postgres` installs. Version 14 or newer:
every statement goes through pipeline mode, so that several of them make one round trip.
"""

from __future__ import annotations

import ctypes
import sys

from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: The first version with pipeline mode.
OLDEST_VERSION = 140000
NAMES = ("libpq.so.5", "libpq.5.dylib")
#: The places of wheels' copies, below a directory of `sys.path`.
WHEELS = (
    "psycopg2_binary.libs",
    "psycopg_binary.libs",
    "psycopg2/.dylibs",
    "psycopg_binary/.dylibs",
)


class LibraryMissing(Exception):
    """This machine has no libpq, or one that is too old."""


def _candidates() -> Iterator[str]:
    yield from NAMES
    for directory in (path for place in sys.path for path in (f"{place}/{w}" for w in WHEELS)):
        if os.path.isdir(directory):
            yield from (f"{directory}/{n}" for n in os.listdir(directory) if n.startswith("libpq"))


def _load() -> Any:
    said = "none was found"
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        version = library.PQlibVersion()
        if version >= OLDEST_VERSION:
            return _typed(library)
        said = f"{name} has version {version // 10000}, and 14 is needed"
    raise LibraryMissing(said)


#: How functions begin that neither wait nor send: meanwhile no other thread need run.
_QUICK = ("PQresult", "PQclear", "PQn", "PQf", "PQget", "PQcmdTuples", "PQisBusy")


# Its values stay what they are: as a number, a pointer would lose its upper half.
class _Pointer(ctypes.c_void_p):
    """The connection, a result, or a notice."""


_TEXT, _NUMBER = ctypes.c_char_p, ctypes.c_int
#: Function -> what it returns. What they take is not declared: ctypes would convert each argument
#: by a call, and every answer is read by some two hundred calls. Numbers are of C's `int`.
_FUNCTIONS: dict[str, Any] = {
    "PQconnectStartParams": _Pointer,
    "PQconnectPoll": _NUMBER,
    "PQfreemem": None,
    "PQstatus": _NUMBER,
    "PQerrorMessage": _TEXT,
    "PQfinish": None,
    "PQsocket": _NUMBER,
    "PQserverVersion": _NUMBER,
    "PQbackendPID": _NUMBER,
    "PQenterPipelineMode": _NUMBER,
    "PQpipelineSync": _NUMBER,
    "PQconsumeInput": _NUMBER,
    "PQisBusy": _NUMBER,
    "PQgetResult": _Pointer,
    "PQresultStatus": _NUMBER,
    "PQresultErrorField": _TEXT,
    "PQclear": None,
    "PQntuples": _NUMBER,
    "PQnfields": _NUMBER,
    "PQfname": _TEXT,
    "PQftype": ctypes.c_uint,
    "PQgetvalue": _TEXT,
    "PQgetisnull": _NUMBER,
    "PQcmdTuples": _TEXT,
    "PQnotifies": _Pointer,
    "PQsetNoticeReceiver": _Pointer,
    "PQsendQueryParams": _NUMBER,
    "PQsendPrepare": _NUMBER,
    "PQsendQueryPrepared": _NUMBER,
}


def _typed(library: Any) -> Any:
    """Declare what the library's functions return, and return it."""
    quick = ctypes.PyDLL(None, handle=library._handle)
    for name, returns in _FUNCTIONS.items():
        function = getattr(quick if name.startswith(_QUICK) else library, name)
        function.restype = returns
        setattr(library, name, function)
    return library


_library: Any = None


def loaded() -> Any:
    """Load libpq once, and return it."""
    global _library
    if _library is None:
        _library = _load()
    return _library
