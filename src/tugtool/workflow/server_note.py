"""The note of a running server: `tugtool/serve.json` in git's directory, for other commands.

It has the address without a token. A server that was killed leaves its note; it counts only while
the process that it names runs.
"""

from __future__ import annotations

from tugtool.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.git import Repository


def place(repo: Repository) -> str:
    """Return the path of the note."""
    return os.path.join(repo.common_dir, "tugtool", "serve.json")


def write(repo: Repository, *, url: str, socket: str | None) -> None:
    """Tell other commands that this process serves the repository."""
    from tugtool.system import clock, files, process, text

    facts = {**process.process(os.getpid()), "url": url, "socket": socket}
    facts |= {"started_at": clock.text(clock.system_milliseconds())}
    files.replace(place(repo), text.encode(facts).encode())


def running(repo: Repository) -> dict[str, object] | None:
    """Return address, socket, process and start of the server that runs, or None."""
    if not os.path.exists(place(repo)):
        return None
    from tugtool.errors import Unreadable
    from tugtool.system import files, process, text

    try:
        found = text.decode(files.read(place(repo)).decode())
    except (Unreadable, ValueError):
        return None
    if not isinstance(found, dict) or process.running(found) is None:
        return None
    names = {"pid": "holder_pid", "url": "url", "socket": "socket", "started_at": "started_at"}
    return {name: found.get(key) for name, key in names.items()}


def remove(repo: Repository) -> None:
    """Remove the note when the server ends."""
    if os.path.exists(place(repo)):
        os.unlink(place(repo))
