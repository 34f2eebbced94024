"""POST /mcp: the guard before it, the role of the token, both eras, JSON only."""

import json

import pytest

from support.mcp import MODERN, TASK, ToolResult, request
from tugtool.server.mcp import protocol
from tugtool.server.mcp.session import TOOLS

HEADERS = {"mcp-protocol-version": "2026-07-28"}


def _rpc(app, method, *, token="own", headers=None, **params):
    return app.post("/mcp", request(method, **params), token=token, headers=headers)


def _tool(app, name, token="own", **given) -> ToolResult:
    found = _rpc(app, "tools/call", token=token, name=name, arguments=given)
    assert found.status == 200, found.body
    return ToolResult(json.loads(found.body))


def _token(app, role: str, name: str = "anna", **how) -> str:
    return app.tokens.add(name, role, **how)[0]


def test_the_role_of_the_token_decides_about_the_tools(served):
    app = served()
    for role, names in TOOLS.items():
        found = _rpc(app, "tools/list", token=_token(app, role, role))
        tools = {each["name"]: each for each in json.loads(found.body)["result"]["tools"]}
        # What the server would refuse is not offered.
        assert list(tools) == [each for each in names if each != "verify"]
        if "complete" in tools:
            assert "message" not in tools["complete"]["inputSchema"]["properties"]
        assert found.headers["content-type"] == "application/json"


def test_an_operator_has_every_tool_where_git_and_commands_are_switched_on(served):
    app = served(git=True, run_commands=True)
    for role, names in (("operator", list(TOOLS["operator"])), ("worker", [])):
        tools = json.loads(_rpc(app, "tools/list", token=_token(app, role, role)).body)["result"]
        offered = [each["name"] for each in tools["tools"]]
        assert ("verify" in offered) == (role == "operator")
        assert offered == names or not names


def test_a_worker_on_another_machine_carries_out_a_step(served):
    app = served()
    token = _token(app, "worker", "builder")
    claimed = _tool(app, "claim", token)
    assert claimed.text.startswith("claimed step-1 (attempt 1)")
    assert "builder:worker" in claimed.text
    which = {"step": "step-1", "attempt": 1}
    assert "E051" in _tool(app, "complete", token, **which).text
    for text in (claimed.text, _tool(app, "update", token, **which, entries=[TASK]).text):
        assert "verify" not in text
        assert "message=" not in text
    refused = _tool(app, "verify", token, **which).text
    assert "there is no tool verify for a worker: the commands of checkpoints are yours" in refused
    refused = _tool(app, "complete", token, **which, message="feat: it").text
    assert 'next: complete(step="step-1", attempt=1, commit="HASH")' in refused
    _tool(app, "update", token, **which, complete_remaining=True)
    _tool(app, "note", token, **which, summary="easy", content="y" * 900)
    head = _pushed(app)
    assert f"commit {head[:12]}" in _tool(app, "complete", token, **which, commit=head).text
    other = _tool(app, "claim", _token(app, "worker", "other"))
    assert other.text.startswith("claimed step-2")
    late = _tool(app, "update", token, step="step-2", attempt=1).text
    assert late.startswith("refused, E049: ")
    assert "stop: true" in late


def _pushed(app, branch: str = "tugplan/work-20260101") -> str:
    """A commit that a worker has pushed to the server's repository."""
    repo = app.desk.repo
    tree, head = (repo.git("rev-parse", each).strip() for each in ("HEAD^{tree}", "HEAD"))
    made = repo.git("commit-tree", "-p", head, "-m", "feat: it", tree).strip()
    repo.git("update-ref", f"refs/heads/{branch}", made)
    return made


def test_a_worker_elsewhere_names_a_commit_that_the_server_has_on_a_branch_of_the_plan(served):
    app = served("1 t", "2 t")
    token, which = _token(app, "worker", "builder"), {"step": "step-1", "attempt": 1}
    _tool(app, "claim", token)
    _tool(app, "update", token, **which, complete_remaining=True)
    other = _pushed(app, "w1")
    push = "push to the server's repository: git push origin HEAD:tugplan/work-YYYYMMDD-N (N: "
    for commit, words in (
        (None, "name the commit that has the work"),
        ("HEAD", '"HEAD" is not the hash of a commit'),
        ("main", '"main" is not the hash of a commit'),
        ("0123456789" * 4, "git knows no commit"),
        (app.desk.commit, "all of it was there before"),
        (other, "is on no branch of the plan"),
    ):
        given = {} if commit is None else {"commit": commit}
        text = _tool(app, "complete", token, **which, **given).text
        assert words in text
        assert push in text
        assert 'next: complete(step="step-1", attempt=1, commit="HASH")' in text
    plain = {"plan": "work", "step": "step-1", "attempt": 1, "commit": "HEAD"}
    refused = app.post("/api/v1/state/complete", plain, token=token)
    assert json.loads(refused.body)["issues"][0]["code"] == "E066"
    # Nothing was to be committed, and the summary says so.
    done = _tool(app, "complete", token, **which, summary="only looked")
    assert done.text.startswith("completed step-1; 1 remains")
    again = _tool(app, "complete", token, **which, commit=_pushed(app)).text
    assert "step-1 was completed before, without a commit; " in again
    assert "is not recorded" in again


def test_a_worker_that_names_its_worktree_is_told_calls_with_it(served):
    app = served("1 t")
    token = _token(app, "worker", "builder")
    text = _tool(app, "claim", token, worktree="red").text
    assert 'complete(step="step-1", attempt=1, commit="HASH", worktree="red")' in text
    given = {"step": "step-1", "attempt": 1, "worktree": "red"}
    assert 'worktree="red"' in _tool(app, "update", token, **given, complete_remaining=True).text


def test_the_prompt_for_work_asks_for_nothing_that_is_refused(served):
    app = served()
    found = _rpc(app, "prompts/get", token=_token(app, "worker"), name="work", arguments={})
    text = json.loads(found.body)["result"]["messages"][0]["content"]["text"]
    assert "verify(" not in text
    assert "complete(step, attempt, commit)" in text


def test_a_version_that_the_server_does_not_speak_is_refused(served):
    app = served()
    wrong = {"mcp-protocol-version": "1999-01-01"}
    assert _rpc(app, "tools/list", headers=wrong).status == 400
    assert _rpc(app, "initialize", headers=wrong, protocolVersion="1999-01-01").status == 200
    right = {"mcp-protocol-version": "2025-06-18"}
    assert _rpc(app, "tools/list", headers=right).status == 200
    refused = _rpc(app, "ping", token="tug_wrong")
    assert json.loads(refused.body)["command"] == "mcp"


def test_commands_run_only_with_their_switch(served):
    """An operator verifies and commits if git and commands are switched on, as in the routes."""
    app = served("1 tc | `true` passes")
    _tool(app, "claim", worktree=str(app.desk.red))
    which = {"step": "step-1", "attempt": 1, "worktree": str(app.desk.red)}
    assert "there is no tool verify" in _tool(app, "verify", **which).text
    _tool(app, "update", **which, complete_remaining=True)
    assert "serve.git is off" in _tool(app, "complete", **which, message="x").text


@pytest.mark.parametrize(("run_commands", "words"), [(False, "no tool verify"), (True, "[x]")])
def test_verify_has_a_switch_of_its_own(served, run_commands, words):
    app = served("1 tc | `true` passes", git=True, run_commands=run_commands)
    _tool(app, "claim", worktree=str(app.desk.red))
    which = {"step": "step-1", "attempt": 1, "worktree": str(app.desk.red)}
    assert words in _tool(app, "verify", **which).text


def test_no_worker_reviews_or_steers(served):
    app = served()
    token = _token(app, "worker")
    for name in ("review", "steer"):
        text = _tool(app, name, token, plan="work", action="pause", reason="x", verdict="accept")
        assert f"there is no tool {name}" in text.text
    assert app.desk.ok("show", "work")["paused_at"] is None
    paused = _tool(app, "steer", plan="work", action="pause", reason="lunch")
    assert "is paused" in paused.text
    assert app.desk.ok("show", "work")["paused_at"]


def test_a_server_to_look_at_has_two_tools(served):
    app = served(read_only=True)
    tools = json.loads(_rpc(app, "tools/list").body)["result"]["tools"]
    assert [each["name"] for each in tools] == ["status", "show"]


def test_a_token_for_one_plan_sees_no_other(served):
    app = served()
    app.desk.repo.plan("other", app.desk.plan.read_text().replace("Work", "Other"))
    app.desk.ok("init", "other")
    token = _token(app, "worker", plan=".tugtool/tugplan-work.md")
    assert _tool(app, "show", token).text.startswith("plan: work")
    # What begins every session works, and shows that plan alone.
    assert _tool(app, "status", token).text.startswith("plan: work")
    resources = json.loads(_rpc(app, "resources/list", token=token).body)["result"]["resources"]
    assert [each["uri"] for each in resources] == ["tug://status", "tug://plan/work"]
    for each in resources:
        assert _rpc(app, "resources/read", token=token, uri=each["uri"]).status == 200
    for view in ("summary", "log", "stats", "diff"):
        assert "refused, E101" in _tool(app, "show", token, plan="other", view=view).text
    refused = _tool(app, "claim", token, plan="other").text
    assert refused.startswith("refused, E101")
    assert refused.endswith('next: show(plan="work")')


def test_a_path_is_not_a_plan(served):
    app = served()
    for plan in ("/etc/passwd", "../../etc/passwd", "code.py", ".git/config"):
        for view in ("summary", "log"):
            text = _tool(app, "show", plan=plan, view=view).text
            assert text.startswith("refused, E041: "), text


def test_only_post_and_only_behind_the_guard(served):
    app = served()
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        assert app.send(method, "/mcp").status == 405
    assert _rpc(app, "ping", token=None).status == 401
    assert _rpc(app, "ping", token="tug_wrong").status == 401
    assert _rpc(app, "ping", headers={"host": "evil.example"}).status == 421
    assert _rpc(app, "ping", headers={"origin": "http://evil.example"}).status == 403
    assert _rpc(app, "ping", headers={"content-type": "text/plain"}).status == 415
    large = app.post("/mcp", b" " * (1 << 21))
    assert large.status == 413
    assert _rpc(app, "ping").status == 200


def test_messages_that_want_no_answer_are_accepted(served):
    app = served()
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    found = app.post("/mcp", message)
    assert (found.status, found.body) == (202, b"")
    modern = b'{"jsonrpc": "2.0", "id": 1, "method": [], "params": {"_meta": %s}}'
    for body, status in (
        (b"{", 400),
        (b"[]", 400),
        (json.dumps(request("x")).encode(), 404),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7, "params": "x"}', 400),
        (modern % json.dumps(MODERN).encode(), 400),
    ):
        found = app.post("/mcp", body, headers=HEADERS)
        assert found.status == status
        assert json.loads(found.body)["error"]["code"] in protocol_codes()


def protocol_codes() -> set[int]:
    return {protocol.PARSE_ERROR, protocol.INVALID_REQUEST, protocol.UNKNOWN_METHOD}


def test_in_the_second_era_the_headers_repeat_the_message(served):
    app = served()
    good = {**HEADERS, "mcp-method": "tools/call", "mcp-name": "status"}
    given = {"name": "status", "arguments": {}, "_meta": MODERN}
    assert _rpc(app, "tools/call", headers=good, **given).status == 200
    encoded = {**good, "mcp-name": "=?base64?c3RhdHVz?="}
    assert _rpc(app, "tools/call", headers=encoded, **given).status == 200
    for wrong in (
        {},
        {**good, "mcp-name": "claim"},
        {**good, "mcp-name": "=?base64?!?="},
        {**good, "mcp-method": "tools/list"},
        {**good, "mcp-protocol-version": "2025-06-18"},
    ):
        found = _rpc(app, "tools/call", headers=wrong, **given)
        assert found.status == 400
        assert json.loads(found.body)["error"]["code"] == -32020
