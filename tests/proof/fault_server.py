"""Runs the command again and again, each time in a fork of one interpreter, with one fault.

A line of JSON in, a line of JSON out: {"words", "cwd", "places", "calls", "at", "fault",
"planted", "limit"} -> {"status", "out", "err", "hits"}. The hits are those of the named system
calls that had to do with the places, in order; the one with the number `at` meets the fault.
"""

# What is replaced before our modules are loaded stands above their imports.
# ruff: noqa: E402

import errno
import gc
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import time

import chaos_faults
import logs
import mounts
import notified

import tugtool
from support import workers

for module in pkgutil.walk_packages(tugtool.__path__, "tugtool."):
    if module.name != "tugtool.__main__" and ".scripted" not in module.name:
        __import__(module.name)

from tugtool import state
from tugtool.cli.main import main
from tugtool.errors.state import DatabaseError
from tugtool.store import sqlite
from tugtool.store.sqlite import create, file

#: No command takes so long, whatever is wrong.
MOST_SECONDS = 60


def _untranslated() -> None:
    """What SQLite says is nobody's business to translate."""
    sqlite.SqliteStore.translated = lambda self, error: error


def _deaf() -> None:
    """Whatever the commit says, it is done."""
    end = sqlite.SqliteStore.end

    def deaf(self, connection, **how):
        try:
            end(self, connection, **how)
        except DatabaseError:
            return

    sqlite.SqliteStore.end = deaf


def _forgetful() -> None:
    """A claim that is undone once it was answered."""
    claim = state.claim

    def forgetful(store, plan, request, **how):
        answer = claim(store, plan, request, **how)
        if answer["claimed"]:
            state.reset(store, plan, answer["anchor"], actor=None)
        return answer

    state.claim = forgetful


def _believing() -> None:
    """Whatever is in the log is taken for good: its checksums are made to fit."""
    opened = file.opened

    def believing(path, mode, **how):
        logs.make_fit(f"{path}-wal")
        return opened(path, mode, **how)

    file.opened = believing


#: To plant, so that what should be noticed is.
FAULTS = {
    "": lambda: None,
    "untranslated": _untranslated,
    "deaf": _deaf,
    "forgetful": _forgetful,
    "believing": _believing,
    "bit by bit": workers.no_transaction,
    "early": chaos_faults.early_answer,
    "left as it is": lambda: setattr(create, "overwrite", lambda connection: True),
}


def run(asked: dict) -> dict:
    """One run of the command."""
    ours, theirs = socket.socketpair()
    out, err = os.memfd_create("out"), os.memfd_create("err")
    pid = os.fork()
    if pid == 0:
        _command(asked, theirs, out, err)
    theirs.close()
    # Nothing comes where nothing is watched.
    _, listeners, _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    hits = _watch(pid, listeners[0] if listeners else -1, asked)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"status": status, "out": _whole(out), "err": _whole(err), "hits": hits}


def _command(asked: dict, talk: socket.socket, out: int, err: int) -> None:
    status = 99
    try:
        os.chdir(asked["cwd"])
        os.dup2(out, 1)
        os.dup2(err, 2)
        FAULTS[asked["planted"]]()
        if asked["limit"]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (asked["limit"], resource.RLIM_INFINITY))
        if asked["calls"]:
            notified.hold(talk, asked["calls"])
        talk.close()
        status = main(asked["words"])
    finally:
        # As the command does.
        os._exit(status)


def _watch(pid: int, listener: int, asked: dict) -> list[list[str]]:
    """Answer every call until the process has ended; those that counted."""
    hits: list[list[str]] = []
    end = os.pidfd_open(pid)
    poll = select.poll()
    if listener >= 0:
        notified.quicken(listener)
        poll.register(listener, select.POLLIN)
    poll.register(end, select.POLLIN)
    deadline = time.monotonic() + MOST_SECONDS
    while True:
        ready = dict(poll.poll(1000))
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            raise TimeoutError(f"{asked} hangs after {hits[-3:]}")
        if ready.get(listener, 0) & select.POLLIN:
            call = notified.received(listener)
            if call is not None:
                _decide(pid, listener, call, asked, hits)
        elif end in ready:
            for each in (end, *([listener] if listener >= 0 else [])):
                os.close(each)
            return hits


def _decide(pid: int, listener: int, call: notified.Call, asked: dict, hits: list) -> None:
    fault, at = asked["fault"], asked["at"]
    if not call.path.startswith(tuple(asked["places"])):
        notified.answer(listener, call)
        return
    hits.append([call.name, call.path])
    struck = len(hits) - 1 == at or (fault == "dead" and 0 <= at < len(hits))
    if struck and fault == "kill":
        os.kill(pid, signal.SIGKILL)
        return
    name = "EIO" if fault == "dead" else fault
    notified.answer(listener, call, getattr(errno, name) if struck else 0)


def _done(asked: dict) -> dict:
    """What was asked for: a command, another program, or a change of the disk it all lies on."""
    if "mount" in asked:
        mounts.change(**asked["mount"])
        return {}
    if "argv" in asked:
        done = subprocess.run(asked["argv"], cwd=asked["cwd"], capture_output=True, text=True)
        return {"status": done.returncode, "out": done.stdout, "err": done.stderr}
    return run(asked)


def _whole(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb") as file:
        return file.read().decode("utf-8", "replace")


if __name__ == "__main__":
    # What is there now stays, and is shared by all forks as long as nobody touches it.
    gc.disable()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(_done(json.loads(line))), flush=True)
