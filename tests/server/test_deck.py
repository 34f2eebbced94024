"""The page's files, and the paths that only the page needs."""

import gzip
import os

import pytest

from support.state import KEY
from tugtool.server import deck
from tugtool.state import attempts
from tugtool.workflow import review, timeline, transcripts
from tugtool.workflow.workspace import Workspace

STEP = {"plan": "work", "step": "step-1"}


@pytest.fixture
def page(tmp_path):
    (tmp_path / "vendor").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>" + " page" * 400)
    (tmp_path / "vendor" / "x.mjs").write_text("export {}")
    (tmp_path / "vendor" / "README.md").write_text("not served")
    return deck.Page(str(tmp_path))


def test_files_of_the_page_are_served_to_everybody_with_a_tag(served, page, monkeypatch):
    monkeypatch.setattr(deck, "Page", lambda: page)
    app = served()
    got = app.get("/vendor/x.mjs", token=None)
    assert (got.status, got.body) == (200, b"export {}")
    assert got.headers["content-type"] == "text/javascript; charset=utf-8"
    assert got.headers["cache-control"] == "no-cache"
    assert "trusted-types 'none'" in got.headers["content-security-policy"]
    for known in (got.headers["etag"], f"W/{got.headers['etag']}", f'"x", {got.headers["etag"]}'):
        again = app.get("/vendor/x.mjs", token=None, headers={"if-none-match": known})
        assert (again.status, again.body) == (304, b"")
    packed = app.get("/", token=None, headers={"accept-encoding": "gzip"})
    assert packed.headers["etag"] != app.get("/", token=None).headers["etag"]
    assert gzip.decompress(packed.body) == app.get("/", token=None).body
    for path in ("/vendor/README.md", "/vendor/", "/x.mjs", "/vendor/../index.html"):
        assert app.get(path, token=None).status == 401
        assert app.get(path).status == 404


def test_every_view_is_the_same_page(served, page, monkeypatch):
    monkeypatch.setattr(deck, "Page", lambda: page)
    app = served()
    body = app.get("/index.html", token=None).body
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    for path in ("/", "/review", "/workers", "/log", "/about", "/p/work", "/p/work/s/step-1"):
        assert app.get(path, token=None).body == body
        assert app.get(path, token=None, headers=link).status == 200
        assert app.send("POST", path, body=b"{}").status == 405


def test_attempts_have_the_roles_that_worked_in_them(served):
    app = served()
    app.post("state/claim", {"plan": "work"})
    store = Workspace(str(app.root)).store
    held = {"owner": app.get("whoami").data["acts_as"], "attempt": 1}
    for role in ("architect", "coder"):
        attempts.begin_role(store, KEY, "step-1", **held, role=role)
    attempts.report(store, KEY, "step-1", **held, role="coder", tokens=7)
    attempts.begin_role(store, KEY, "step-1", **held, role="reviewer")
    (attempt,) = app.get("plan/attempts", {"plan": "work"}).data["attempts"]
    roles = attempt["roles"]
    assert [each["role"] for each in roles] == ["architect", "coder", "reviewer"]
    assert roles[0]["until"] == roles[1]["since"]
    assert (roles[1]["until"] is None, roles[2]["until"]) == (False, None)
    assert (attempt["step_anchor"], attempt["tokens"]) == ("step-1", 7)
    app.post("state/release", STEP)
    (attempt,) = app.get("plan/attempts", {"plan": "work"}).data["attempts"]
    assert attempt["roles"][-1]["until"] == attempt["ended_at"]
    store.close()


def test_events_come_with_their_sentences(served):
    app = served()
    app.post("state/claim", {"plan": "work", "worktree": "red"})
    app.post("state/release", {**STEP, "worktree": "red"})
    found = app.get("events").data["events"]
    assert [each["words"] for each in found[-2:]] == [
        "claimed by red (attempt 1)",
        "released by red",
    ]
    logged = app.get("state/log").data["events"]
    assert [{**each, "words": 0} for each in found] == [{**each, "words": 0} for each in logged]
    asked = {**STEP, "kind": "claim", "limit": 1}
    assert [e["kind"] for e in app.get("events", asked).data["events"]] == ["claim"]
    assert app.get("events", {"limit": 1}).data["events"] == found[-1:]
    assert app.get("events", {"limit": "many"}).status == 400


def test_a_note_is_found_by_its_number_alone(served):
    app = served("1 t", "1.1 t")
    app.post("state/claim", {"plan": "work"})
    note = {"plan": "work", "step": "step-1-1", "kind": "note", "summary": "x", "content": "y"}
    number = app.post("state/artifact", note).data["artifact_id"]
    assert app.get("artifact", {"id": number}).data["content"] == "y"
    refused = app.get("artifact", {"id": 99})
    assert (refused.code, refused.envelope["issues"][-1]["hint"]) == ("E066", "tugcode show --json")
    token, _ = app.tokens.add("anna", "viewer", plan=KEY)
    assert app.get("artifact", {"id": number}, token=token).data["content"] == "y"


def recording(app, *, most: int = 1 << 20) -> transcripts.Recording:
    repo = Workspace(str(app.root)).repo
    return transcripts.begin(repo, KEY, "step-1", 1, "coder", most=most)


def test_a_transcript_is_read_in_parts_while_it_is_written(served, monkeypatch):
    monkeypatch.setattr(timeline, "PART_BYTES", 10)
    app = served()
    app.post("state/claim", {"plan": "work"})
    kept = recording(app)
    kept.write("coder\nsmörgås".encode()[:-2])
    asked = {**STEP, "attempt": 1, "call": 1}
    whole = ""
    part = app.get("transcript/part", asked).data
    while part["text"]:
        whole += part["text"]
        then = {**asked, "file": part["file"], "offset": part["offset"]}
        part = app.get("transcript/part", then).data
    # What is not complete comes with its rest.
    assert (whole, part["ended"]) == ("coder\nsmörg", False)
    kept.write("ås!".encode()[1:])
    kept.close("done")
    while not part["ended"]:
        then = {**asked, "file": part["file"], "offset": part["offset"], "wait": 5}
        part = app.get("transcript/part", then).data
        whole += part["text"]
    assert whole == "coder\nsmörgås!\n--- the end: done\n"
    (call,) = app.get("transcript/calls", STEP).data["calls"]
    size = len(whole.encode())
    about = {"attempt": 1, "call": 1, "role": "coder"}
    assert call == {**about, "size_bytes": size, "ended": True}


def test_a_transcript_that_lost_its_middle_is_read_again(served):
    app = served()
    app.post("state/claim", {"plan": "work"})
    kept = recording(app, most=4096)
    kept.write(b"a" * 4000)
    asked = {**STEP, "attempt": 1, "call": 1}
    first = app.get("transcript/part", asked).data
    kept.write(b"b" * 1000)
    then = {**asked, "file": first["file"], "offset": first["offset"]}
    again = app.get("transcript/part", then).data
    assert (again["from"], "bytes left out" in again["text"]) == (0, True)
    kept.close("done")


def test_transcripts_are_for_operators_and_of_recorded_steps_alone(served):
    app = served()
    app.post("state/claim", {"plan": "work"})
    recording(app).close("done")
    token, _ = app.tokens.add("anna", "worker")
    for path in ("transcript", "transcript/calls", "transcript/part"):
        assert app.get(path, STEP, token=token).code == "E101"
    assert app.get("transcript", STEP).status == 200
    wrong = ({**STEP, "call": 2}, {**STEP, "call": 1, "attempt": 9}, {**STEP, "call": "../x"})
    for each in wrong:
        assert app.get("transcript/part", each).status == 400
    for step in ("../step-1", "step-9", "_plan"):
        assert app.get("transcript/calls", {**STEP, "step": step}).code == "E059"
    assert app.get("transcript/calls", {"plan": "work"}).data["calls"] == []


def test_a_large_diff_is_cut_and_no_driver_of_git_runs(served, monkeypatch):
    app = served()
    root = app.root
    there = app.desk.repo
    ran = root / "ran"
    there.git("config", "diff.evil.command", f"touch {ran}")
    there.git("config", "diff.evil.textconv", f"touch {ran}")
    files = {".gitattributes": "*.txt diff=evil\n", "big.txt": "line\n" * 6000}
    commit = there.commit(files)
    app.post("state/claim", {"plan": "work", "step": "step-3"})
    done = {"plan": "work", "step": "step-3", "force": "x", "commit": commit}
    assert app.post("state/complete", done).status == 200
    told = app.get("git/commit", {"hash": commit}).data
    assert (told["cut"], told["diff"].count("\n")) == (True, 4999)
    assert not os.path.exists(ran)
    monkeypatch.setattr(review, "_MOST_DIFF", 1000)
    told = app.get("git/commit", {"hash": commit}).data
    assert (told["cut"], len(told["diff"])) == (True, 1000)
