"""The writer: what waits is stored together, but not while another process waits."""

import asyncio
import subprocess
import sys
from collections import Counter

import pytest

from support.racing import until
from support.state import KEY
from tugtool.server import routes, writer
from tugtool.server.served import Rendered, ServedRequest
from tugtool.server.tokens import Caller
from tugtool.workflow.shared_record import Serving

#: Waits for the lock, and writes nothing.
WAITER = """
import sys
from tugtool.store import open_store
with open_store("sqlite://" + sys.argv[1]).write(""):
    pass
"""


def stored(serving: Serving) -> Rendered:
    """Write something. The answer has the number of commits before it."""
    with serving.store.write(KEY):
        return Rendered(200, 0, str(serving.store._commits).encode())


def in_commits(app, works: list) -> list[int]:
    """Give the writer all at once. Return how many of them each commit has, in order."""

    async def give() -> list[Rendered]:
        return await asyncio.gather(*map(app.service.writer.do, works))

    return [*Counter(int(each.body) for each in asyncio.run(give())).values()]


@pytest.mark.parametrize(
    ("waiting", "commits"),
    [(1, [1]), (5, [1, 4]), (9, [1, 8]), (12, [1, 8, 3]), (20, [1, 8, 8, 3])],
)
def test_writes_that_wait_are_stored_by_one_commit(served, waiting, commits):
    assert in_commits(served(), [stored] * waiting) == commits


def test_what_waits_when_the_server_stops_is_stored(served):
    app = served()

    async def give() -> list[Rendered]:
        tasks = [asyncio.ensure_future(app.service.writer.do(stored)) for _ in range(30)]
        await asyncio.sleep(0)
        app.service.writer.close()
        return await asyncio.gather(*tasks)

    assert len(asyncio.run(give())) == 30


def test_a_long_group_ends_when_another_process_waits_to_write(served, monkeypatch):
    app, waiters = served(), []

    def delayed(serving: Serving) -> Rendered:
        reply = stored(serving)
        group = serving.store.grouped
        if not waiters:
            waiters.append(subprocess.Popen([sys.executable, "-c", WAITER, serving.store.path]))
            until(group.is_awaited)
        return reply

    works = [stored, delayed, *[stored] * 3]
    # Nobody waits before the second does, so no group ends before.
    monkeypatch.setattr(writer, "_SHORT_GROUP_SECONDS", 0.0)
    assert in_commits(app, works) == [1, 1, 3]
    assert waiters[0].wait() == 0


def test_a_group_ends_at_last_even_if_nobody_waits(served, monkeypatch):
    monkeypatch.setattr(writer, "_SHORT_GROUP_SECONDS", 0.0)
    monkeypatch.setattr(writer, "_LONGEST_GROUP_SECONDS", 0.0)
    assert in_commits(served(), [stored] * 4) == [1, 1, 1, 1]


def test_requests_that_are_stored_together_all_notice_a_changed_plan_file(served):
    app = served("1 t", "2 t", "3 t", "4 t")
    route, caller = routes.ROUTES["POST", "/api/v1/state/claim"], Caller("ops", "operator")

    def codes(*names: str) -> list[str]:
        asked = [ServedRequest(route, {"plan": "work", "worktree": each}, caller) for each in names]

        async def together() -> list[Rendered]:
            return await asyncio.gather(*map(app.service.carry_out, asked))

        return [each.code for each in asyncio.run(together())]

    file = app.root / KEY
    agreed = file.read_text()
    assert codes("a", "b", "c") == ["", "", ""]
    file.write_text(agreed.replace("Step 4", "Step Four"))
    assert codes("d", "e", "f") == ["E048", "E048", "E048"]
    file.write_text(agreed)
    assert codes("d", "a", "b") == ["", "", ""]
