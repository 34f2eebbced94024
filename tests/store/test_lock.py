"""The writers' queue: time-outs that name the holder, waiters that give up, dead holders."""

import _thread
import fcntl
import os
import signal
import sys
import threading
import time

import pytest

from support.racing import Crew, inside, open_files, prepared, until
from support.workers import COPY, PLAN
from tugtool import state
from tugtool.errors.state import DatabaseUnavailable, QueryFailed
from tugtool.state.claims import Request
from tugtool.store import open_store, sql
from tugtool.store.sqlite import file
from tugtool.system import lock
from tugtool.system.lock import STAYING_TIMES, FileLock

LINUX = sys.platform == "linux"


class Stop(BaseException):
    """What a signal handler raises here, as ctrl-C does."""


@pytest.fixture
def place(tmp_path):
    """A database of 40 steps: its store, its address."""
    store, url = prepared(tmp_path / "state.db", 40)
    yield store, url
    store.close()


@pytest.fixture
def holder(place):
    """A process that holds the lock, inside a transaction that would pause the plan."""
    crew = Crew()
    process = crew.add("hold_until_told", url=place[1])
    crew.open()
    inside(process)
    yield process
    crew.end()


def _descriptors(directory: str) -> int:
    """How many descriptors of the lock or of its directory this process has."""
    lock = os.path.join(directory, "state.lock")
    places = [os.stat(place) for place in (directory, lock) if os.path.exists(place)]
    return sum(any(os.path.samestat(each, place) for place in places) for each in open_files())


def _paused(store) -> str | None:
    with store.read(PLAN) as tx:
        return tx.one(sql.PLAN)["paused_at"]


def _refused(url: str, seconds: float = 0.05) -> QueryFailed:
    with pytest.raises(QueryFailed) as caught, open_store(url, busy_seconds=seconds).write(PLAN):
        pass
    return caught.value


def test_who_waits_in_vain_is_told_which_process_holds_the_lock(place, holder):
    error = _refused(place[1])
    assert f"state.lock is held by process {holder.pid} for over 0.05 s" in str(error)
    assert (error.code, error.facts["sqlite"]) == ("E047", "BUSY")


def test_while_the_queue_moves_nobody_is_refused(place, holder):
    """However long it is: whoever takes the lock signs it, and only who keeps it is in the way."""
    busy_seconds = 1
    taken = threading.Event()

    def sign() -> None:
        # Others come and go for much longer than anybody is kept waiting by one of them.
        end = time.monotonic() + 3 * busy_seconds
        while holder.poll() is None:
            os.utime(os.path.join(os.path.dirname(place[0].path), "state.lock"))
            # As short a time as others hold it, and no busy loop.
            taken.wait(busy_seconds / 100)
            if time.monotonic() > end and holder.stdin is not None:
                holder.stdin.close()
                holder.stdin = None

    others = threading.Thread(target=sign)
    others.start()
    # The holder has paused it in the end, and so this has waited for it.
    assert state.resume(open_store(place[1], busy_seconds=busy_seconds), PLAN)["changed"]
    others.join()


def test_a_stopped_holder_is_called_stopped_and_loses_nothing(place, holder):
    store, url = place
    os.kill(holder.pid, signal.SIGSTOP)
    os.waitpid(holder.pid, os.WUNTRACED)
    stopped = ", which is stopped" if LINUX else ""
    assert f"process {holder.pid}{stopped} for over" in str(_refused(url))
    assert _paused(store) is None
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.communicate()[0] == '"done"\n'
    assert _paused(store) is not None
    assert state.resume(store, PLAN)["changed"]


def test_somebody_stopped_in_front_of_the_lock_cannot_hold_up_the_others(place):
    """The turnstile makes waiting fair; whoever cannot get through goes around it."""
    store, url = place
    turnstile = os.open(os.path.dirname(store.path), os.O_RDONLY)
    fcntl.flock(turnstile, fcntl.LOCK_EX)
    assert state.pause(open_store(url, busy_seconds=0.1), PLAN)["changed"]
    os.close(turnstile)
    until(lambda: _descriptors(os.path.dirname(store.path)) == 0)


def test_a_killed_holder_frees_the_lock_at_once_and_leaves_nothing(place, holder):
    store, url = place
    holder.kill()
    holder.wait()
    assert _paused(store) is None
    state.claim(open_store(url, busy_seconds=0), PLAN, Request("me"), copy=COPY)


def test_waiters_that_gave_up_keep_neither_the_lock_nor_descriptors(place, holder):
    store, url = place
    here, threads = os.path.dirname(store.path), _thread._count()
    for _ in range(5):
        _refused(url)
    assert _descriptors(here) == 5
    assert holder.communicate()[0] == '"done"\n'
    until(lambda: _thread._count() == threads)
    assert _descriptors(here) == 0
    state.resume(open_store(url, busy_seconds=0), PLAN)


@pytest.mark.parametrize("outcome", ["before", "after"])
def test_an_interrupted_waiter_keeps_neither_the_lock_nor_descriptors(place, holder, outcome):
    """Before: the lock comes when nobody waits any more. After: it came, but too late."""
    store, url = place
    threads = _thread._count()

    def stop(*_: object) -> None:
        if outcome == "after":
            holder.communicate()
            until(lambda: _thread._count() == threads)
        raise Stop

    signal.signal(signal.SIGUSR1, stop)
    interrupter = threading.Thread(target=_interrupt_when_waiting, args=(threads,))
    interrupter.start()
    with pytest.raises(Stop), open_store(url).write(PLAN):
        pass
    interrupter.join()
    holder.communicate()
    until(lambda: _thread._count() == threads)
    assert _descriptors(os.path.dirname(store.path)) == 0
    state.resume(open_store(url, busy_seconds=0), PLAN)


def _interrupt_when_waiting(threads: int) -> None:
    until(lambda: _thread._count() >= threads + 2)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)


def test_threads_come_in_the_order_in_which_they_asked_and_who_hurries_first(place):
    store, url = place
    order, threads = [], []
    holds = lock.beside(store.path, busy_seconds=60)
    holds.enter()

    def ask(name: str) -> None:
        with open_store(url, busy_seconds=60).write(PLAN, urgent=name == "hurried"):
            order.append(name)

    for number, name in enumerate(["one", "two", "hurried"], 1):
        threads.append(threading.Thread(target=ask, args=(name,)))
        threads[-1].start()
        until(lambda number=number: len(holds.line.waiting) == number)
    assert order == []
    holds.leave()
    for thread in threads:
        thread.join()
    assert order == ["hurried", "one", "two"]


def test_a_thread_that_waits_in_vain_for_another_is_told_and_keeps_no_place(tmp_path):
    path = str(tmp_path / "state.lock")
    holds, late = FileLock(path, busy_seconds=60), FileLock(path, busy_seconds=0.05)
    holds.enter()
    with pytest.raises(QueryFailed, match=f"is held by process {os.getpid()} for over"):
        late.enter()
    assert holds.line.waiting == []
    holds.leave()
    late.enter()
    late.leave()


def test_a_thread_that_is_interrupted_in_line_keeps_no_place(tmp_path):
    path = str(tmp_path / "state.lock")
    holds = FileLock(path, busy_seconds=60)
    holds.enter()

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        me = threading.get_ident()
        waker = threading.Thread(
            target=lambda: (
                # Not while it takes its place, which that would hinder.
                until(lambda: holds.line.waiting and not holds.line._guard.locked()),
                signal.pthread_kill(me, signal.SIGUSR1),
            )
        )
        waker.start()
        with pytest.raises(Stop):
            FileLock(path, busy_seconds=60).enter()
        waker.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert holds.line.waiting == []
    holds.leave()
    FileLock(path, busy_seconds=0).enter()


def _staying(path: str) -> FileLock:
    """The lock of a process that has taken it often, and so keeps its files open."""
    lock = FileLock(path, busy_seconds=0.05)
    for _ in range(STAYING_TIMES + 1):
        with lock:
            pass
    return lock


def _is_locked(path: str) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_a_process_that_stays_keeps_the_files_open_but_not_the_lock(tmp_path):
    path = str(tmp_path / "state.lock")
    lock = _staying(path)
    assert _descriptors(str(tmp_path)) == 2
    assert not _is_locked(path)
    with lock:
        assert _is_locked(path)
        assert int((tmp_path / "state.lock").read_text()) == os.getpid()
    assert not _is_locked(path)
    lock.close()
    assert _descriptors(str(tmp_path)) == 0
    with lock:
        assert _is_locked(path)
    assert _descriptors(str(tmp_path)) == 0


def test_a_lock_that_nobody_needs_any_more_keeps_no_descriptors(tmp_path):
    lock = _staying(str(tmp_path / "state.lock"))
    assert _descriptors(str(tmp_path)) == 2
    del lock
    assert _descriptors(str(tmp_path)) == 0


def test_a_process_that_stays_is_refused_like_any_other(tmp_path):
    path = str(tmp_path / "state.lock")
    lock = _staying(path)
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(QueryFailed, match="is held by"):
        lock.enter()
    os.close(descriptor)
    until(lambda: _descriptors(str(tmp_path)) == 0)
    with lock:
        assert _is_locked(path)


def test_a_process_that_stays_notices_that_the_lock_was_deleted(tmp_path):
    path = str(tmp_path / "state.lock")
    lock = _staying(path)
    os.unlink(path)
    with lock:
        assert _is_locked(path)
    assert _descriptors(str(tmp_path)) == 0


def test_a_fork_does_not_share_the_lock_of_its_parent(tmp_path):
    lock = _staying(str(tmp_path / "state.lock"))
    come, go = os.pipe()
    child = os.fork()
    if not child:
        os.read(come, 1)
        try:
            lock.enter()
        except QueryFailed:
            os._exit(3)
        os._exit(4)
    with lock:
        os.write(go, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    os.close(come)
    os.close(go)


def test_a_lock_file_that_was_deleted_meanwhile_guards_nothing(place, holder):
    """Whoever waited for the old one queues again, where everybody else does."""
    store, url = place
    lock = os.path.join(os.path.dirname(store.path), "state.lock")
    waiting = FileLock(lock, busy_seconds=10)
    threads = _thread._count()
    waiter = threading.Thread(target=waiting.enter)
    waiter.start()
    until(lambda: _thread._count() == threads + 2)
    os.unlink(lock)
    holder.communicate()
    waiter.join()
    assert f"process {os.getpid()} for" in str(_refused(url))
    waiting.leave()
    state.resume(store, PLAN)


def test_threads_with_a_store_each_claim_every_step_once(place):
    _, url = place
    claimed: list[object] = []

    def claim_all(owner: str) -> None:
        store = open_store(url, busy_seconds=30)
        n = 0
        while (answer := state.claim(store, PLAN, Request(f"{owner}-{n}"), copy=COPY))["claimed"]:
            claimed.append(answer["anchor"])
            n += 1
        store.close()

    threads = [threading.Thread(target=claim_all, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == sorted(f"step-{n}" for n in range(40))


def test_a_read_inside_a_write_does_not_let_others_in(place):
    store, url = place
    with store.write(PLAN):
        with store.read(PLAN):
            pass
        assert f"process {os.getpid()} for" in str(_refused(url))
    # Not without waiting: whoever was refused still stands in the kernel's queue, gets the
    # lock now, and gives it back at once.
    state.pause(open_store(url), PLAN)


def test_a_read_inside_a_write_that_fails_does_not_let_others_in(place, monkeypatch):
    _, url = place
    store = open_store(url)
    with store.write(PLAN):
        monkeypatch.setattr(file, "connect", _unable)
        with pytest.raises(DatabaseUnavailable), store.read(PLAN):
            pass
        monkeypatch.undo()
        assert f"process {os.getpid()} for" in str(_refused(url))
    store.close()


def _unable(*_: object, **__: object) -> None:
    raise file.Error("out of memory")


def test_a_clock_that_fails_lets_the_next_one_in(place):
    _, url = place

    def broken() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), open_store(url, clock=broken).write(PLAN):
        pass
    state.pause(open_store(url, busy_seconds=0), PLAN)


@pytest.mark.parametrize("kind", ["directory", "symlink", "pipe"])
def test_something_else_in_the_place_of_the_lock_is_refused(tmp_path, kind):
    lock = tmp_path / "state.lock"
    if kind == "directory":
        lock.mkdir()
    elif kind == "symlink":
        lock.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(lock)
    with pytest.raises(DatabaseUnavailable, match=r"state\.lock cannot be opened"):
        open_store(f"sqlite://{tmp_path}/state.db").create()
    assert _descriptors(str(tmp_path)) == 0
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "state.db").exists()
