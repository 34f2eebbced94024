"""Commands whose state is on a server: who they are, what they may do, what can go wrong."""

import json
import os
import threading

import pytest

from conftest import Repo
from support import served
from support.cuts import CuttingProxy
from support.server import Process, certificate
from support.state import KEY, markdown
from tugtool import state
from tugtool.errors.server import RoleTooSmall, ServerUnreachable
from tugtool.errors.state import InvalidEntry
from tugtool.server.tokens import Tokens
from tugtool.state import dashes, history, intents, operations, wire
from tugtool.state.claims import Request
from tugtool.state.record import PlanCopy
from tugtool.store import owners
from tugtool.store.remote import RemoteStore, ServerAddress
from tugtool.workflow import review
from tugtool.workflow.workspace import Workspace


@pytest.fixture
def shop(desk, monkeypatch):
    """A repository and the server of its state; commands are its clients."""
    there = desk("1 tt", "2 t < 1", "3 t", init=True)
    there.repo.live()
    there.served = served.repository(there.repo.path)
    monkeypatch.setenv("TUGCODE_STATE_URL", there.served)
    yield there
    served.thread().end()


def token(there, name: str, role: str, **how: str) -> str:
    return Tokens(str(there.repo.path / ".git" / "tugtool")).add(name, role, **how)[0]


def as_worker(there, name: str = "builder", machine: str = "west", **how: str) -> RemoteStore:
    """The store of a worker on another machine."""
    at = there.served.partition("#")[0]
    own = owners.Machine(machine, machine)
    return RemoteStore(at, machine=own, token=token(there, name, "worker", **how))


def claimed(store: RemoteStore, there, owner: str = "/home/w/tree", **how) -> dict:
    copy = PlanCopy("/home/w/plan.md", read=lambda: there.hash)
    return state.claim(store, KEY, Request(owner, max_attempts=5), copy=copy, **how)


@pytest.fixture
def far(shop):
    """A worker's store, and its shop."""
    shop.hash = state.show(shop.opened(), KEY)["plan_hash"]
    return as_worker(shop), shop


def test_every_operation_of_the_record_is_in_the_table():
    found = {
        f"{home}/{name}"
        for home in _modules()
        for name, function in vars(_module(home)).items()
        if _takes_a_store(function, home)
    }
    assert found == set(operations.GROUPS)


def _modules() -> list[str]:
    import pkgutil

    return [each.name for each in pkgutil.iter_modules(state.__path__)]


def _module(home: str) -> object:
    import importlib

    return importlib.import_module(f"tugtool.state.{home}")


def _takes_a_store(function: object, home: str) -> bool:
    import inspect

    own = getattr(function, "__module__", "") == f"tugtool.state.{home}"
    if not own or not inspect.isfunction(function) or function.__name__.startswith("_"):
        return False
    return next(iter(inspect.signature(function).parameters), "") == "store" and home not in (
        "operations",
        "wire",
    )


def test_a_worker_s_worktree_belongs_to_its_token_and_its_machine(far, tugcode):
    store, shop = far
    claim = claimed(store, shop)
    assert (claim["step_anchor"], claim["worktree"]) == ("step-1", "/home/w/tree")
    shown = shop.ok("show", "work")["steps"][0]["claimed_by"]
    assert shown == "builder@west:/home/w/tree"
    # The same path with another token, or on another machine, is another owner.
    for other in (as_worker(shop, "other"), RemoteStore(*_of(store), machine=_machine("east"))):
        with pytest.raises(Exception, match="builder@west:/home/w/tree"):
            state.start(other, KEY, "step-1", owner="/home/w/tree")
    state.start(store, KEY, "step-1", owner="/home/w/tree")
    done, _ = state.update(
        store, KEY, "step-1", [], owner="/home/w/tree", copy=_copy(shop), complete_remaining=True
    )
    assert done["updated"] == 2
    answer = state.complete(store, KEY, "step-1", owner="/home/w/tree", copy=_copy(shop))
    assert answer["completed"]


def test_what_waits_is_shown_where_the_commit_of_a_worker_is_not(far, tugcode):
    store, shop = far
    here = shop.repo.git("rev-parse", "HEAD").strip()
    for step, commit in (("step-1", "ab" * 20), ("step-3", here)):
        claimed(store, shop, step=step)
        entries = [{"kind": "task", "ordinal": 0, "status": "deferred", "reason": "eyes"}]
        how = {"owner": "/home/w/tree", "copy": _copy(shop)}
        state.update(store, KEY, step, entries, **how, complete_remaining=True)
        state.complete(store, KEY, step, commit=commit, **how)
    first, second = shop.ok("review", "work")["deferred_items"]
    assert (first["commit"], first["commit_title"], first["diffstat"]) == ("ab" * 20, None, None)
    assert second["commit_title"]
    shown = shop.text("review", "work").out
    assert "commit      ababababab is on builder@west, not in this clone" in shown
    with pytest.raises(InvalidEntry, match="not in this clone") as refused:
        review.recorded_change(Workspace(str(shop.repo.path)), "ab" * 20)
    assert refused.value.hint == "git fetch --all"


def _of(store: RemoteStore) -> tuple[str]:
    return (f"{store.address.shown}#t={store._token}",)


def _machine(name: str) -> owners.Machine:
    return owners.Machine(name, name)


def _copy(shop) -> PlanCopy:
    return PlanCopy("/home/w/plan.md", shop.hash)


def test_a_worker_acts_only_as_itself(far):
    store, shop = far
    claimed(store, shop)
    shop.ok("claim", "work")
    for owner in ("anna", f"{os.uname().nodename}:{shop.red}", "other@west:/home/w/tree"):
        with pytest.raises(RoleTooSmall):
            state.heartbeat(store, KEY, "step-3", owner=owner)
        with pytest.raises(RoleTooSmall):
            state.claim(store, KEY, Request(owner), copy=_copy(shop))
    with pytest.raises(RoleTooSmall):
        state.release(store, KEY, "step-3", owner="/home/w/tree", force=True)
    with pytest.raises(RoleTooSmall):
        state.init(store, ".tugtool/tugplan-new.md", _plan(), text=markdown("1 t"), hash="0" * 64)


def _plan() -> object:
    from tugtool.plan import parser

    return parser.parse(markdown("1 t"))


def test_a_worker_begins_no_merge_and_no_dash(far):
    """Git would be changed before the record refuses it."""
    for plan, kind in ((KEY, "merge"), ("", "create"), ("", "join")):
        with pytest.raises(RoleTooSmall, match="operator"):
            intents.add(far[0], plan, kind, "/home/w/tree", head=None, detail={})
    assert intents.add(far[0], KEY, "remove", "/home/w/tree", head=None, detail={})


@pytest.mark.parametrize(
    "steer",
    [
        lambda store: state.reset(store, KEY, "step-1"),
        lambda store: state.pause(store, KEY),
        lambda store: state.accept(store, KEY, "step-1", by="me"),
        lambda store: state.reopen(store, KEY, "step-1", reason="so"),
        lambda store: state.archive(store, KEY),
    ],
)
def test_a_worker_neither_steers_nor_reviews(far, steer):
    with pytest.raises(RoleTooSmall, match="needs the role operator"):
        steer(far[0])


def test_a_verdict_has_the_name_of_the_token_whatever_its_client_says(far):
    """And so has a pause; what is done in a worktree has that."""
    _, shop = far
    at = shop.served.partition("#")[0]
    store = RemoteStore(at, machine=_machine("west"), token=token(shop, "otto", "operator"))
    state.pause(store, KEY, actor="The Boss", reason="to look")
    state.resume(store, KEY, actor="/home/w/tree")
    claimed(store, shop)
    entries = [{"kind": "task", "ordinal": n, "status": "deferred", "reason": "x"} for n in (0, 1)]
    by = {"owner": "/home/w/tree", "copy": _copy(shop)}
    state.update(store, KEY, "step-1", entries, **by)
    state.complete(store, KEY, "step-1", **by)
    state.accept(store, KEY, "step-1", by="The Boss")
    events = {each["kind"]: each for each in shop.ok("log", "work")["events"]}
    assert events["pause"]["actor"] == events["review_accepted"]["actor"] == "otto"
    assert events["resume"]["actor"].endswith("west:/home/w/tree")


def test_a_token_of_one_plan_sees_no_other(far):
    _, shop = far
    store = as_worker(shop, "narrow", plan=KEY)
    assert state.ready(store, KEY)["ready_steps"]
    refused = "the plan other needs another token, and this token has the role worker of work"
    with pytest.raises(RoleTooSmall, match=refused):
        state.ready(store, ".tugtool/tugplan-other.md")
    with pytest.raises(RoleTooSmall, match=refused):
        history.Reader(".tugtool/tugplan-other.md").page(store)
    with pytest.raises(RoleTooSmall, match="what belongs to no plan"):
        dashes.find(store, "dash")


#: What the docs tell a worker to do, in order.
WORK = (
    *("status", "list", "worktree list", "ready work", "next work", "why work step-1"),
    *("update work step-1 --all completed", "commit --plan work --step step-1 --message one"),
    *("show work", "log work", "log", "stats work", "review work", "review", "report work"),
    *("worktree create work", "next work", "update work step-2 --all completed"),
    *("done --message two", "status"),
)


def test_a_worker_of_one_plan_works_with_commands_and_sees_no_other_plan(shop, tugcode):
    other = shop.repo.path / ".tugtool" / "tugplan-secret.md"
    other.write_text(shop.plan.read_text().replace("Part", "Secret"))
    shop.ok("init", "secret")
    shop.ok("claim", "secret", at=shop.blue)
    other.unlink()
    own = token(shop, "narrow", "worker", plan=KEY)
    shop.setenv("TUGCODE_STATE_URL", f"{shop.served.partition('#')[0]}#t={own}")
    shop.repo.git("config", "user.name", "Ben")
    shop.repo.git("config", "user.email", "ben@example.com")
    wrong = []
    for words in WORK:
        (shop.red / "made.txt").write_text(words)
        told = tugcode("-C", shop.red, *words.split())
        if told.status != 0 or "secret" in told.out:
            wrong.append((words, told.out, told.err))
    assert wrong == []
    checked = tugcode("-C", shop.red, "doctor").out
    assert "1 warning" in checked  # The repository has no set-up.
    assert "secret" not in checked
    told = tugcode("-C", shop.red, "reset", "work", "step-1")
    assert "reset needs the role operator, and this token has the role worker" in told.err
    assert "where the server runs: tugcode serve token add NAME --role operator" in told.err


def test_commands_for_the_machine_with_the_file_are_refused(shop, tugcode):
    for words in (["prune"], ["restore"], ["migrate"], ["init", "work", "--create-database"]):
        told = shop.json(*words)
        assert (told.status, told.envelope()["issues"][-1]["code"]) == (1, "E078")
    at = shop.served.partition("#")[0]
    for words, there in (
        (["serve", "--port", "0"], f"open {at}#t=TOKEN; "),
        (["serve", "token", "list"], "on its machine: tugcode serve token list; "),
    ):
        told = tugcode("-C", shop.repo.path, *words, "--json")
        issue = told.envelope()["issues"][-1]
        assert (told.status, issue["message"]) == (2, f"{at} serves the state of this repository")
        command = told.envelope()["command"]
        here = f"for a state in a file here: TUGCODE_STATE_URL= tugcode {command}"
        assert issue["hint"] == there + here


def test_status_and_doctor_say_where_the_state_is(shop, tugcode):
    at, root = shop.served.partition("#")[0], shop.repo.path
    assert tugcode("-C", root, "status", "--json").data["state_url"] == at
    assert f"state at {at}" in tugcode("-C", root, "status").out
    assert tugcode("-C", root, "doctor", "--json").data["versions"]["state_url"] == at
    assert f"a server at {at}" in tugcode("-C", root, "doctor").out


def test_a_changed_file_of_the_caller_is_noticed_where_it_lies(shop):
    shop.plan.write_text(shop.plan.read_text() + "\nmore\n")
    (shop.red / KEY).write_text("# Other\n")
    told = shop.json("claim", "work")
    assert told.envelope()["issues"][-1]["code"] == "E048"


def test_a_clone_of_another_history_is_refused(shop, tmp_path, tugcode, templates):
    other = Repo.of(templates, tmp_path / "other")
    other.plan("work", markdown("1 t"))
    other.git("checkout", "--quiet", "--orphan", "another")
    other.commit({"other.py": "pass\n"})
    told = tugcode("-C", other.path, "state", "ready", "work", "--json")
    issue = told.envelope()["issues"][-1]
    assert (issue["code"], told.status) == ("E046", 1)
    assert "another history" in issue["message"]


def test_an_unreachable_server_is_named_without_its_token(shop, monkeypatch):
    (shop.repo.path / ".tugtool" / "config.toml").write_text("[state]\nbusy_seconds = 1\n")
    monkeypatch.setenv("TUGCODE_STATE_URL", "http://127.0.0.1:1/#t=tug_secret")
    told = shop.json("claim", "work")
    issue = told.envelope()["issues"][-1]
    assert (told.status, issue["code"]) == (1, "E109")
    assert issue["hint"] == "curl -sS http://127.0.0.1:1/healthz"
    unix = ServerUnreachable("http+unix:///tmp/no.sock", reason="is away").hint
    assert unix == "curl -sS --unix-socket /tmp/no.sock http://localhost/healthz"
    monkeypatch.setenv("TUGCODE_STATE_URL", "ftp://x")
    assert shop.json("claim", "work").envelope()["issues"][-1]["hint"] == "tugcode config --help"
    assert "secret" not in told.out + told.err


def test_a_wrong_token_is_refused_with_what_to_set(shop, monkeypatch):
    monkeypatch.setenv("TUGCODE_STATE_URL", shop.served.replace("#t=tug_", "#t=tug_x"))
    told = shop.text("claim", "work")
    assert told.status == 1
    assert "E100" in told.err
    assert "TUGCODE_TOKEN" in told.err


@pytest.mark.parametrize(
    "url", ["https://tug_secret@tug.example/", "https://tug.example/#t=tug_secret"]
)
def test_a_token_in_the_configuration_is_refused(shop, url, monkeypatch):
    monkeypatch.delenv("TUGCODE_STATE_URL")
    (shop.repo.path / ".tugtool" / "config.toml").write_text(f'[state]\nurl = "{url}"\n')
    told = shop.text("claim", "work")
    assert "E071" in told.err
    assert "TUGCODE_TOKEN" in told.err
    assert "secret" not in told.err


def test_plain_http_is_for_loopback(shop, monkeypatch):
    monkeypatch.setenv("TUGCODE_STATE_URL", "http://tug.example/")
    told = shop.text("claim", "work")
    assert "E109" in told.err
    assert "state.plain_http" in told.err
    monkeypatch.delenv("TUGCODE_STATE_URL")
    monkeypatch.setenv("TUGCODE_SERVER", shop.served.partition("#")[0])
    monkeypatch.setenv("TUGCODE_TOKEN", shop.served.partition("#t=")[2])
    assert shop.ok("claim", "work")["claimed"]


def test_a_certificate_has_to_be_trusted(desk, tugcode, monkeypatch):
    root = desk("1 t", init=True).repo.path
    certificate(root, "localhost")
    settings = root / ".tugtool" / "config.toml"
    settings.write_text('[serve]\ntls_cert = "cert.pem"\ntls_key = "key.pem"\n')
    with Process(root) as server:
        monkeypatch.setenv("TUGCODE_SERVER", f"https://localhost:{server.port}/")
        monkeypatch.setenv("TUGCODE_TOKEN", server.token)
        for ca_file, code in (("", "E109"), ("none.pem", "E109"), ("cert.pem", None)):
            settings.write_text(f'[state]\nca_file = "{ca_file}"\n' if ca_file else "")
            told = tugcode("-C", root, "state", "ready", "work", "--json")
            issues = told.envelope()["issues"]
            assert [each["code"] for each in issues] == ([code] if code else [])
            assert all("state.ca_file" in each["hint"] for each in issues)


@pytest.mark.parametrize(
    ("url", "shown", "name"),
    [
        ("http://127.0.0.1:8840/#t=x", "http://127.0.0.1:8840/", "127.0.0.1:8840"),
        ("https://a:b@tug.example", "https://tug.example/", "tug.example"),
        ("https://tug.example/team/", "https://tug.example/team/", "tug.example"),
        ("http://[::1]:80/", "http://[::1]:80/", "[::1]"),
        ("http+unix:///run/x.sock", "http+unix:///run/x.sock", "localhost"),
    ],
)
def test_an_address_is_read(url, shown, name):
    found = ServerAddress(url)
    assert (found.shown, found.name) == (shown, name)


@pytest.mark.parametrize("url", ["http://", "https://host:port/", "http://:80/"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ServerUnreachable, match="is not the address"):
        ServerAddress(url)


def test_values_travel_whole():
    functions: list = []
    value = [{"a": (1, 2.5, None)}, {("x", 1): {"y"}}, {"$t": 1}, frozenset((2, 1)), lambda: 7]
    told = json.loads(json.dumps(wire.written(value, functions)))
    back = wire.WireReader().value(told)
    assert back[:4] == [{"a": (1, 2.5, None)}, {("x", 1): {"y"}}, {"$t": 1}, {1, 2}]
    assert functions[0]() == 7
    with pytest.raises(wire.Asked):
        back[4]()
    assert wire.WireReader([[0, [], 8]]).value(told[4])() == 8


@pytest.mark.parametrize("cut", [("up", 0), ("up", 150), ("down", 0), ("down", 100), ("down", 700)])
def test_an_answer_that_is_lost_is_asked_for_again_and_nothing_is_done_twice(far, cut):
    store, shop = far
    claimed(store, shop)
    cuts = [cut, cut]
    lock = threading.Lock()

    def choose():
        with lock:
            return cuts.pop() if cuts else None

    proxy = CuttingProxy(choose)
    proxy.target = store.address.port
    served.thread().also_known_as(f"127.0.0.1:{proxy.port}")
    (at,) = _of(store)
    at = at.replace(f":{store.address.port}/", f":{proxy.port}/")
    through = RemoteStore(at, machine=store.machine, busy_seconds=20)
    told = {"kind": "note", "summary": "once", "owner": "/home/w/tree"}
    state.artifact(through, KEY, "step-1", **told)
    proxy.close()
    rows = shop.rows("select * from step_artifacts where summary = 'once'")
    assert len(rows) == 1
    assert proxy.cuts == 2
    assert not cuts
