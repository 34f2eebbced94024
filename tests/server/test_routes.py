"""Every command is served as its group says, and answers as with `--json`."""

import json

import pytest

from project.test_startup import BEFORE, HELD, MADE, PLAN, RUNS
from support.proving import sampled
from support.server import App, fields, masked
from support.state import KEY
from support.worktree import IDENTITY
from tugtool import state
from tugtool.cli.parse import FAMILIES, find
from tugtool.errors import TugError
from tugtool.server import routes
from tugtool.workflow.workspace import Workspace


def test_every_command_is_in_exactly_one_group():
    groups = [*routes.LOOK, *routes.HOLD, *routes.STEER, *routes.GIT, *routes.NEVER]
    # `state review` looks, and with a verdict steers.
    assert sorted(groups) == sorted([*FAMILIES, "state review"])
    assert set(routes._REASONS) <= set(routes.NEVER)
    assert set(routes.OPERATORS_LOOK) <= set(routes.LOOK)


def test_the_options_that_are_not_served_exist():
    for path, names in routes.LOCAL_OPTIONS.items():
        assert set(names) <= {option.key for option in find(path).options}


def _prepared(repo, tugcode, command: str) -> None:
    repo.linked(repo.path / ".tugtree" / "side")
    repo.plan("small", PLAN)
    for line in BEFORE.get(command, HELD if command.startswith("state ") else []):
        assert tugcode("-C", repo.path, *line).status == 0


def _words(command: str, root) -> list[str]:
    made = [str(path) for path in root.glob(".tugtree/*") if path.name != "side"]
    words = [made[0] if word == MADE else word for word in RUNS[command]]
    if command == "state export":
        words = words[:2]
    return words


@pytest.mark.parametrize("key", sampled([" ".join(key) for key in sorted(routes.ROUTES)], 9))
def test_a_request_answers_as_the_command_line_does(templates, tmp_path, tugcode, monkeypatch, key):
    from conftest import Repo

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    method, path = key.split()
    route, said = routes.ROUTES[method, path], []
    for way in ("line", "request"):
        # Both at the same place, one after the other, so that every text may be the same.
        root = tmp_path / "repo"
        repo = Repo.of(templates, root)
        _prepared(repo, tugcode, route.command)
        words = _words(route.command, root)
        if route.command == "state review" and route.method == "POST":
            words = ["state", "review", "small", "--accept-all", "--yes"]
        if way == "line":
            told = tugcode("-C", root, *words, *([] if "export" in words else ["--json"]))
            said.append((told.status, masked(told.out, root)))
        else:
            app = App(root, git=True, run_commands=True)
            path, values = fields(words)
            send = app.get if route.method == "GET" else app.post
            got = send(path, values)
            app.close()
            assert got.status == 200, got.body
            exit_status = int(got.headers.get("tug-exit-status", 0))
            said.append((exit_status, masked(got.body.decode(), root)))
        root.rename(tmp_path / way)
    assert said[0] == said[1]


@pytest.mark.parametrize("command", routes.NEVER)
def test_a_command_that_is_not_served_is_named_to_be_typed(served_once, command):
    got = served_once.post(command.replace(" ", "/"))
    assert (got.status, got.code) == (404, "E105")
    assert got.envelope["issues"][0]["hint"] == f"tugcode {command}"


@pytest.fixture(scope="module")
def served_once(tmp_path_factory, templates):
    """A server of a repository without plans, for requests that change nothing."""
    from conftest import Repo

    app = App(Repo.of(templates, tmp_path_factory.mktemp("served") / "repo").path)
    yield app
    app.close()


OPENAPI = "GET /api/v1/openapi.json"


@pytest.mark.parametrize(
    ("how", "status", "said", "hint"),
    [
        (("GET", "whoami", "plan=x"), 422, 'there is no field "plan"', OPENAPI),
        (("GET", "artifact", "plan=work"), 400, "it needs id", OPENAPI),
        (("GET", "git/commit", ""), 400, "it needs hash", OPENAPI),
        (("GET", "nonsense", ""), 404, "there is no such path", OPENAPI),
        (("DELETE", "state/show", ""), 405, "/api/v1/state/show takes GET, not DELETE", OPENAPI),
        (("POST", "commit", ""), 404, "the setting serve.git is off", "serve.git = true there"),
        (("POST", "state/verify", ""), 404, "serve.git is off", "serve.run_commands = true"),
    ],
)
def test_a_refused_request_is_told_what_comes_next(served_once, how, status, said, hint):
    method, path, query = how
    body = b"{}" if method == "POST" else b""
    got = served_once.send(method, path, query=query, body=body)
    (issue,) = got.envelope["issues"]
    assert (got.status, got.envelope["command"]) == (status, path.replace("/", " "))
    assert said in issue["message"]
    assert hint in issue["hint"]
    assert got.headers.get("allow") == ("GET, HEAD" if status == 405 else None)


def test_a_body_that_is_too_deep_or_no_json_is_refused_in_plain_words(served_once):
    deep = served_once.post("state/claim", b'{"plan": ' + b"[" * 200_000)
    assert (deep.status, deep.code) == (413, "E103")
    assert "recursion" not in deep.body.decode()
    wrong = served_once.post("state/claim", b"no")
    assert (wrong.status, wrong.envelope["issues"][0]["hint"]) == (400, OPENAPI)


def test_an_export_says_how_it_ended(served):
    assert served().get("state/export").headers["tug-exit-status"] == "0"


def test_fields_are_the_options_by_their_long_names(served):
    app = served()
    red = str(app.desk.red)
    claim = app.post("state/claim", {"plan": "work", "worktree": red, "lease_duration": 60})
    assert claim.data["worktree"] == red
    assert claim.headers["tug-exit-status"] == "0"
    assert int(claim.headers["tug-seq"]) == app.get("state/log").data["events"][-1]["seq"]
    held = {"plan": "work", "step": "step-1", "attempt": 1, "worktree": red}
    pairs = [[0, "completed"]]
    told = app.post("state/update", {**held, "task": pairs, "checkpoint": pairs})
    assert told.data["updated"] == 2
    entries = [{"kind": "task", "ordinal": 0, "status": "deferred", "reason": "late"}]
    told = app.post("state/update", {**held, "entries": entries, "complete_remaining": True})
    assert told.data["updated"] == 1
    note = app.post("state/artifact", {**held, "kind": "note", "summary": "x", "content": "é\n"})
    text = app.get("artifact", {"plan": "work", "id": note.data["artifact_id"]}).data
    assert text["content"] == "é\n"
    assert app.post("state/complete", held).data["completed"]
    # A step alone is one of the only active plan.
    assert app.get("state/why", {"step": "step-1"}).data["status"] == "completed"


def test_a_request_that_makes_no_sense_is_refused_as_a_command_line_is(served):
    app = served()
    for path, body, status, said in (
        ("state/claim", {"pln": "work"}, 422, "did you mean plan?"),
        ("state/claim", {"holder_pid": 1}, 422, "not served"),
        ("state/update", {"step": "step-1", "batch": True}, 422, "not served"),
        ("state/claim", {"plan": 3.5, "wait": "soon"}, 400, "takes seconds"),
        ("state/claim", {"plan": "work", "wait": 51}, 400, "at most 50"),
        ("state/claim", {"plan": ["work"]}, 400, "takes a text"),
        ("state/claim", {"plan": "wo\0rk"}, 400, "NUL"),
        ("state/claim", {"force": "maybe"}, 400, "true or false"),
        ("state/start", {"plan": "work"}, 400, "needs STEP"),
        ("state/start", {"step": "first"}, 400, "needs plan"),
        ("state/update", {"plan": "work", "step": "step-1", "task": [0]}, 400, "lists of"),
        ("state/review", {"plan": "work"}, 400, "to look, use GET"),
        ("state/claim", b"[1]", 400, "not a JSON object"),
        ("state/claim", b'{"plan": "a", "plan": "b"}', 400, "stands twice"),
        ("state/claim", b'{"wait": NaN}', 400, "not JSON"),
        ("state/claim", b"{", 400, "not JSON"),
        ("state/claim", {str(n): 1 for n in range(201)}, 413, "more than 200 fields"),
        ("state/claim", b'{"plan": ' + b"[" * 30 + b"]" * 30 + b"}", 413, "20 levels"),
    ):
        got = app.post(path, body)
        assert (got.status, said in got.envelope["issues"][-1]["message"]) == (status, True), (
            path,
            body,
            got.body,
        )


def test_refusals_have_the_status_of_their_kind(served):
    app = served()
    red = {"plan": "work", "step": "step-1", "worktree": str(app.desk.red)}
    for path, body, status, code in (
        ("state/claim", {"plan": "nope"}, 404, "E041"),
        ("state/start", {"plan": "work", "step": "step-9"}, 404, "E059"),
        ("state/start", red, 409, "E050"),
        ("state/heartbeat", {**red, "attempt": 7}, 409, "E060"),
        ("worktree/create", {"plan": "work"}, 404, "E105"),
        ("state/verify", red, 404, "E105"),
        ("nowhere", {}, 404, "E105"),
    ):
        got = app.post(path, body)
        assert (got.status, got.code) == (status, code), got.body
    stop = app.post("state/heartbeat", {**red, "attempt": 7})
    assert stop.headers["tug-exit-status"] == "4"


def test_a_plan_is_never_named_by_the_path_of_another_file(served):
    app = served()
    (app.root / "secret.md").write_text("### Step 1: Secret\n")
    (app.root / ".tugtool" / "config.toml").write_text("[plan]\n")
    for name in ("secret.md", ".tugtool/config.toml", "/etc/passwd", "../x", ".git/config", "."):
        for path in ("plan/show", "plan/graph", "validate", "state/show", "state/diff"):
            got = app.get(path, {"plan": name})
            assert (got.status, got.code) == (404, "E041"), (name, path, got.body)
            assert b"Secret" not in got.body
    assert app.get("plan/show", {"plan": ".tugtool/tugplan-work.md"}).status == 200


def test_what_is_shown_is_rendered_once_per_change(served):
    app = served()
    first = app.get("state/show", {"plan": "work"})
    assert app.get("state/show", {"plan": "work"}).body == first.body
    assert (app.service.hits, app.service.misses) == (1, 1)
    app.desk.ok("claim", "work")
    assert app.get("state/show", {"plan": "work"}).body != first.body
    assert app.service.misses == 2
    text = app.desk.plan.read_text()
    app.desk.plan.write_text(text + "\nmore\n")
    changed = app.get("state/show", {"plan": "work"})
    assert [issue["code"] for issue in changed.envelope["issues"]] == ["W102"]


def test_a_write_is_refused_if_the_step_has_changed_since_it_was_shown(served):
    app = served()
    shown = app.get("state/log").data["events"][-1]["seq"]
    seen = {"if-seq": str(shown)}
    assert app.post("state/claim", {"plan": "work", "step": "step-3"}, headers=seen).status == 200
    body = {"plan": "work", "step": "step-3"}
    late = app.post("state/reset", body, headers=seen)
    assert (late.status, late.code) == (409, "E106")
    assert app.get("state/why", body).data["status"] == "claimed"
    now = str(app.get("state/log").data["events"][-1]["seq"])
    assert app.post("state/reset", body, headers={"if-seq": now}).data["reset"]
    assert app.post("state/reset", body, headers={"if-seq": "new"}).status == 400


def test_no_other_process_writes_between_the_comparison_and_the_write(served, monkeypatch):
    from tugtool.server import work

    app = served()
    shown = app.get("state/log").data["events"][-1]["seq"]
    other = Workspace(str(app.root)).open_store(busy_seconds=0.05)
    log, told = state.log, []

    def meanwhile(*words, **options):
        found = log(*words, **options)
        try:
            state.pause(other, KEY, reason="meanwhile")
        except TugError as error:
            told.append(error.code)
        return found

    monkeypatch.setattr(work.state, "log", meanwhile, raising=False)
    body = {"plan": "work", "step": "step-3"}
    assert app.post("state/claim", body, headers={"if-seq": str(shown)}).status == 200
    assert told == ["E047"]
    other.close()


def test_a_worker_acts_under_the_name_of_its_token(served):
    app = served()
    token, _ = app.tokens.add("builder", "worker")
    claim = app.post("state/claim", {"plan": "work"}, token=token)
    assert claim.data["worktree"] == "builder:worker"
    other = app.post("state/claim", {"plan": "work", "worktree": "/w/red"}, token=token)
    assert other.data["worktree"] == "builder:/w/red"
    assert app.get("whoami", token=token).data["acts_as"] == "builder:worker"
    body = {"plan": "work", "step": claim.data["anchor"]}
    assert app.post("state/pause", {"plan": "work"}, token=token).code == "E101"
    assert app.post("state/release", {**body, "force": True}, token=token).code == "E101"
    verdict = {**body, "accept": True}
    assert app.post("state/review", verdict, token=token).code == "E101"
    assert app.post("state/release", body, token=token).status == 200


def test_a_copy_of_the_plan_elsewhere_is_told_by_its_hash(served):
    app = served()
    token, _ = app.tokens.add("builder", "worker")
    agreed = app.get("plan/text", {"plan": "work"}).data
    assert agreed["text"] == app.desk.plan.read_text()
    wrong = app.post("state/claim", {"plan": "work", "plan_hash": "0" * 64}, token=token)
    assert (wrong.status, wrong.code) == (409, "E048")
    right = {"plan": "work", "plan_hash": agreed["plan_hash"]}
    assert app.post("state/claim", right, token=token).data["claimed"]


def test_a_token_for_one_plan_sees_no_other(served):
    app = served()
    other = app.root / ".tugtool" / "tugplan-other.md"
    other.write_text(app.desk.plan.read_text().replace("Work", "Other"))
    app.desk.ok("init", "other")
    token, _ = app.tokens.add("anna", "operator", plan=".tugtool/tugplan-work.md")
    assert app.get("state/show", token=token).data["plan_path"] == ".tugtool/tugplan-work.md"
    assert app.get("state/ready", {"plan": "work"}, token=token).status == 200
    for path, query in (("state/show", {"plan": "other"}), ("status", {}), ("git/commit", {})):
        got = app.get(path, query, token=token)
        assert (got.status, got.code) == (403, "E101"), path
    assert app.post("state/pause", {"plan": "other"}, token=token).code == "E101"


def test_the_diff_of_a_commit_is_shown_only_if_the_record_names_it(served):
    app = served()
    commit = app.desk.commit
    for hash in (commit, "HEAD", "main", "--output=x"):
        refused = app.get("git/commit", {"hash": hash})
        assert (refused.code, refused.envelope["issues"][-1]["hint"]) == ("E066", "tugcode log")
    assert app.get("git/commit", {"hash": ""}).code == "E070"
    body = {"plan": "work", "step": "step-3", "force": "x", "commit": commit}
    app.post("state/claim", {"plan": "work", "step": "step-3"})
    assert app.post("state/complete", body).status == 200
    told = app.get("git/commit", {"hash": commit}).data
    assert "+pass" in told["diff"]
    assert told["cut"] is False


def test_a_claim_waits_without_keeping_the_writer(served):
    app = served("1 t")
    app.post("state/claim", {"plan": "work", "worktree": "red"})
    # Nothing is ready: it answers when the time is up, and others write meanwhile.
    got = app.post("state/claim", {"plan": "work", "worktree": "blue", "wait": 0.2})
    assert (got.data["claimed"], got.data["reason"]) == (False, "no_ready_steps")


@pytest.mark.proof(share=0)
def test_the_description_of_the_api_is_valid():
    from openapi_spec_validator import validate

    from tugtool.server import openapi

    validate(openapi.described())


def test_the_description_of_the_api_is_complete(served_once):
    document = json.loads(served_once.get("openapi.json").body)
    known = {(method.upper(), path) for path, each in document["paths"].items() for method in each}
    assert set(routes.ROUTES) <= known
    assert ("GET", "/api/v1/whoami") in known


def test_figures_and_health(served_once):
    assert served_once.get("/healthz", token=None).body == b"ok\n"
    served_once.get("/api/v1/nowhere")
    figures = served_once.get("/metrics").body.decode()
    assert 'tugtool_requests_total{status="404",code="E105"}' in figures
    assert served_once.get("/metrics", token=None).status == 401


def test_large_answers_are_compressed_if_that_is_wanted(served):
    import gzip

    app = served(*(f"{n} ttt" for n in range(1, 9)))
    plain = app.get("plan/show", {"plan": "work"})
    small = app.get("plan/show", {"plan": "work"}, headers={"accept-encoding": "gzip"})
    assert small.headers["content-encoding"] == "gzip"
    assert gzip.decompress(small.body) == plain.body


def test_a_bug_is_told_without_its_traceback(served, monkeypatch, capsys):
    from tugtool.server import work

    app = served()
    monkeypatch.setattr(work.main, "perform", lambda *_: 1 / 0)
    got = app.get("state/ready", {"plan": "work"}, headers={"x-request-id": "abc-1"})
    assert (got.status, got.code) == (500, "E099")
    assert "abc-1" in got.envelope["issues"][0]["message"]
    assert b"division" not in got.body
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_same_request_again_gets_the_same_answer(served):
    app = served()
    key = {"idempotency-key": "k 1"}
    body = {"plan": "work", "step": "step-1", "kind": "note", "summary": "x"}
    app.post("state/claim", {"plan": "work"})
    first, again = (app.post("state/artifact", body, headers=key) for _ in range(2))
    assert again.body == first.body
    assert again.headers["tug-seq"] == first.headers["tug-seq"]
    assert ("tug-replayed" in first.headers, again.headers["tug-replayed"]) == (False, "1")
    notes = app.get("state/show", {"plan": "work", "full": True}).data["steps"][0]["artifacts"]
    assert len(notes) == 1
    other = app.post("state/artifact", {**body, "summary": "y"}, headers=key)
    assert (other.status, "another request" in other.body.decode()) == (400, True)
    # Another token has its own keys.
    token, _ = app.tokens.add("anna", "operator")
    theirs = app.post("state/pause", {"plan": "work"}, headers=key, token=token)
    assert theirs.data["changed"]
    for wrong in ("", "k" * 129):
        assert app.post("state/pause", headers={"idempotency-key": wrong}).status == 400


def test_a_request_that_changed_nothing_is_judged_anew(served):
    app = served("1 t")
    key = {"idempotency-key": "k"}
    body = {"plan": "work", "worktree": "red"}
    app.post("state/claim", {"plan": "work", "worktree": "blue"})
    none = app.post("state/claim", body, headers=key)
    assert none.data["claimed"] is False
    app.post("state/release", {"plan": "work", "step": "step-1", "worktree": "blue"})
    assert app.post("state/claim", body, headers=key).data["claimed"] is True
    assert app.post("state/claim", body, headers=key).headers["tug-replayed"] == "1"


@pytest.mark.unserved("a server has its state in a database of its own")
def test_a_state_in_postgresql_is_served_as_one_in_a_file_is(served, engine):
    app = served("1 t", "2 t", "3 t", "4 t")
    key = {"idempotency-key": "k"}
    first, again = (app.post("state/claim", {"plan": "work"}, headers=key) for _ in range(2))
    assert (again.body, again.headers["tug-replayed"]) == (first.body, "1")
    seen = {"if-seq": first.headers["tug-seq"]}
    held = {"plan": "work", "step": "step-1"}
    assert app.post("state/release", held, headers=seen).status == 200
    assert app.post("state/pause", {"plan": "work"}, headers=seen).code == "E106"
    shown = app.get("state/show", {"plan": "work"})
    assert app.get("state/show", {"plan": "work"}).body == shown.body
    claims = [app.post("state/claim", {"plan": "work", "worktree": f"w{n}"}) for n in range(4)]
    assert sorted(claim.data["anchor"] for claim in claims) == [f"step-{n}" for n in range(1, 5)]
    assert app.get("state/show", {"plan": "work"}).body != shown.body
