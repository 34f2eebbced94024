"""Keeps a server whose data lie on a small disk in memory, which only it and its children see.

DIRECTORY, BYTES; then a line each: `start`, `stop`, `size BYTES`. It answers each with a line.
"""

import os
import sys
from pathlib import Path

import mounts

from support import postgres_server


def main(directory: str, size: str) -> None:
    data = Path(directory) / "data"
    data.mkdir()
    mounts.enter(str(data), int(size))
    user = postgres_server._user()
    if user:
        os.chown(data, user["user"], user["group"])
    data.chmod(0o700)
    server = postgres_server.Server(Path(directory))
    server.make()
    server.start()
    server._run("createdb", "-h", directory, "-U", "postgres", postgres_server.DATABASE)
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "size":
            mounts.change(str(data), size=int(words[0]))
        if verb == "start" and server.process.poll() is not None:
            (data / "postmaster.pid").unlink(missing_ok=True)
            server.start()
        print("done", flush=True)
    if server.process.poll() is None:
        server.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
