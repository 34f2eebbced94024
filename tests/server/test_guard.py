"""Every check of the guard, one by one, in its order."""

import json

import pytest

from support.server import HOST, App
from tugtool.server import guard
from tugtool.system import clock


@pytest.fixture(scope="module")
def app(tmp_path_factory, templates):
    from conftest import Repo

    made = App(Repo.of(templates, tmp_path_factory.mktemp("guarded") / "repo").path)
    yield made
    made.close()


def status(got) -> tuple[int, str]:
    return got.status, got.code


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "localhost",
        "127.0.0.1",
        "127.0.0.1:8841",
        "127.0.0.1:8840.evil.example",
        "evil.example:8840",
        "evil.example@127.0.0.1:8840",
        "127.0.0.1:08840",
        "2130706433:8840",
        "[::1]:8840",
        " 127.0.0.1:8840",
        "127.0.0.1:8840,evil.example",
    ],
)
def test_a_foreign_host_is_refused(app, host):
    assert status(app.get("version", headers={"host": host})) == (421, "E102")


def test_a_host_that_stands_twice_is_refused(app):
    assert status(app.get("version", extra=(("host", HOST),))) == (421, "E102")


def test_the_name_of_the_host_may_have_capitals(served):
    app = served(hosts=frozenset(("tug.example",)))
    assert app.get("version", headers={"host": "Tug.Example"}).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "http://127.0.0.1:3000",
        "https://127.0.0.1:8840",
        "http://127.0.0.1:8840.evil.example",
        "http://127.0.0.1:8840/",
        "http://localhost:8840",
        "",
        "file://",
    ],
)
def test_a_page_of_another_origin_is_refused(app, origin):
    for send in (app.get, app.post):
        assert status(send("state/claim", headers={"origin": origin})) == (403, "E102")


def test_our_own_page_may_ask(app):
    own = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
    assert app.get("version", headers=own).status == 200


def test_behind_a_proxy_our_own_page_comes_over_tls(served):
    app = served(hosts=frozenset(("tug.example",)), scheme="https")
    host = {"host": "tug.example"}
    assert app.get("version", headers={**host, "origin": "https://tug.example"}).status == 200
    assert app.get("version", headers={**host, "origin": "http://tug.example"}).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "other"])
def test_what_a_browser_sends_for_another_site_is_refused(app, site):
    headers = {"sec-fetch-site": site}
    assert status(app.get("version", headers=headers)) == (403, "E102")
    assert app.get("/", headers=headers, token=None).status == 403
    # A link to the page must work; it holds no data.
    link = {**headers, "sec-fetch-dest": "document"}
    assert app.get("/", headers=link, token=None).status == 200
    assert status(app.get("version", headers=link)) == (403, "E102")
    assert app.get("/healthz", headers=link, token=None).status == 403


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "get", "head"])
def test_other_methods_are_refused(app, method):
    assert app.send(method, "version").status == 405
    assert app.send(method, "/").status == 405


def test_a_refused_method_is_told_those_of_the_path(app):
    for path, allowed in [
        ("version", b"GET, HEAD"),
        ("state/claim", b"POST"),
        ("state/review", b"GET, POST, HEAD"),
        ("openapi.json", b"GET, HEAD"),
        ("live", b"GET"),
        ("/mcp", b"POST"),
    ]:
        assert app.send("PUT", path).headers["allow"] == allowed.decode()


def test_a_path_takes_only_its_own_method(app):
    assert app.send("HEAD", "state/claim").status == 405
    assert app.send("HEAD", "live").status == 405
    assert app.get("state/claim").status == 405
    assert app.post("version").status == 405
    assert app.post("/healthz").status == 405
    assert app.get("version", query={"x": "y" * 5000}).status == 414


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonx",
    ],
)
def test_a_body_that_is_not_json_is_refused(app, kind):
    got = app.post("state/claim", headers={"content-type": kind})
    assert (got.status, got.code) == (415, "E070")


def test_a_compressed_body_is_refused(app):
    assert app.post("state/claim", headers={"content-encoding": "gzip"}).status == 415


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic dHVnOnR1Zw==",
        "Bearer tug_",
        "Bearer tug_" + "A" * 43,
        "Bearer tug_" + "A" * 500,
        "bearer null",
    ],
)
def test_without_a_valid_token_everything_is_refused(app, sent):
    app.guard._wrong.clear()
    for path in ("version", "nowhere", "/metrics", "openapi.json", "live", "whoami"):
        got = app.get(path, headers={"authorization": sent})
        assert status(got) == (401, "E100"), path
        assert got.headers["www-authenticate"] == "Bearer"


def test_two_headers_of_one_name_are_refused(app):
    extra = (("authorization", f"Bearer {app.token}"),)
    assert app.get("version", extra=extra, token="tug_x").status == 400


def test_after_ten_wrong_tokens_an_address_has_to_wait(app):
    app.guard._wrong.clear()
    wrong = [app.get("version", token=f"tug_{n}").status for n in range(12)]
    assert wrong == [401] * 10 + [429] * 2
    # The right token still counts, and other addresses do.
    assert app.get("version").status == 200
    assert app.get("version", token="tug_x", client=("10.0.0.9", 1)).status == 401
    app.guard._wrong.clear()


@pytest.mark.parametrize("role", ["viewer", "worker", "operator"])
def test_a_role_may_do_what_it_may_and_no_more(served, role):
    app = served()
    token, _ = app.tokens.add("anna", role)
    held = {"plan": "work", "step": "step-1"}
    asked = {
        "viewer": app.get("state/ready", {"plan": "work"}, token=token),
        "worker": app.post("state/claim", {"plan": "work"}, token=token),
        "operator": app.post("state/reset", held, token=token),
    }
    may = ["viewer", "worker", "operator"]
    for needed, got in asked.items():
        allowed = may.index(role) >= may.index(needed)
        assert (got.status == 200) == allowed, needed
        assert allowed or got.code == "E101"


def test_read_only_makes_everybody_a_viewer(served):
    app = served(read_only=True)
    assert app.get("state/ready", {"plan": "work"}).status == 200
    assert app.post("state/claim", {"plan": "work"}).code == "E101"
    assert app.get("whoami").data["role"] == "viewer"


def test_a_revoked_and_an_expired_token_count_no_more(served, monkeypatch):
    app = served()
    token, _ = app.tokens.add("anna", "viewer", expires="1h")
    again = type(app.tokens)(str(app.directory))
    assert app.get("version", token=token).status == 200
    later = clock.system_milliseconds() + 2 * 3600 * 1000
    with monkeypatch.context() as patch:
        patch.setattr(clock, "system_milliseconds", lambda: later)
        assert app.get("version", token=token).status == 401
    assert again.revoke("anna")
    assert app.get("version", token=token).status == 401
    assert not again.revoke("anna")


def test_writes_of_one_token_are_limited(served):
    app = served(writes_per_second=1)
    answers = [app.post("state/pause", {"plan": "work"}) for _ in range(6)]
    assert [got.status for got in answers][:4] == [200] * 4
    late = answers[-1]
    assert (late.status, late.code, late.headers["retry-after"]) == (429, "E104", "1")
    token, _ = app.tokens.add("anna", "operator")
    assert app.post("state/pause", {"plan": "work"}, token=token).status == 200
    assert app.get("state/ready", {"plan": "work"}).status == 200


def test_a_web_socket_passes_the_same_checks(app):
    app.guard._wrong.clear()
    own = {"origin": f"http://{HOST}"}
    for headers, wanted in (
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        (own, 401),
        ({**own, "sec-websocket-protocol": "tug.v1, tug.bearer.tug_x"}, 401),
    ):
        got = app.send("GET", "live", headers=headers, token=None, kind="websocket")
        assert got.status == wanted, headers


def test_only_a_trusted_proxy_names_the_sender(app):
    def address(*proxies: str, sent: str, peer: str = "127.0.0.1") -> str:
        terms = app.guard.terms._replace(trusted_proxies=frozenset(proxies))
        front = guard.Guard(app.guard.app, terms, app.tokens, ())
        headers = [(b"x-forwarded-for", sent.encode())]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        return guard.Visit({**scope, "server": ("x", 1), "client": (peer, 2)}, front).address

    assert address(sent="6.6.6.6") == "127.0.0.1"
    assert address("127.0.0.1", sent="6.6.6.6") == "6.6.6.6"
    assert address("127.0.0.1", sent="1.1.1.1, 6.6.6.6") == "6.6.6.6"
    assert address("127.0.0.1", "6.6.6.6", sent="1.1.1.1, 6.6.6.6") == "1.1.1.1"
    assert address("127.0.0.1", sent="6.6.6.6", peer="9.9.9.9") == "9.9.9.9"


def test_the_own_user_needs_no_token_at_the_unix_socket(app):
    there = {"server": ("/x.sock", None), "client": ("unix", 1), "token": None}
    got = app.get("whoami", headers={"host": "localhost"}, **there)
    assert got.data["role"] == "operator"
    assert app.get("whoami", headers={"host": "evil.example"}, **there).status == 421
    # At the port, that name is foreign, and a token is needed.
    assert app.get("whoami", headers={"host": "localhost"}, token=None).status == 421


def test_every_answer_has_the_headers_that_protect_it(app):
    for got in (app.get("version"), app.get("/", token=None), app.get("nowhere", token=None)):
        assert got.headers["content-security-policy"].startswith("default-src 'none'; ")
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["referrer-policy"] == "no-referrer"
        assert got.headers["cross-origin-resource-policy"] == "same-origin"
        assert got.headers["x-request-id"]
        assert got.headers["server-timing"].startswith("app;dur=")
        assert not [name for name in got.headers if name.startswith("access-control-")]
        assert "set-cookie" not in got.headers
    assert app.get("version").headers["cache-control"] == "no-store"


def test_refused_requests_are_logged_without_token_and_body(app, capsys):
    app.guard._wrong.clear()
    app.get("version")
    assert capsys.readouterr().err == ""
    app.post("state/claim", {"plan": "secret-plan"}, token="tug_secret")
    line = json.loads(capsys.readouterr().err)
    assert (line["status"], line["code"], line["path"]) == (401, "E100", "/api/v1/state/claim")
    assert line["address"] == "127.0.0.1"
    assert "secret" not in json.dumps(line)
    app.guard.terms = app.guard.terms._replace(log_all=True)
    app.get("version")
    assert json.loads(capsys.readouterr().err)["status"] == 200
    app.guard.terms = app.guard.terms._replace(log_all=False)


def test_the_checks_are_in_their_order():
    names = [check.__name__ for check in guard.CHECKS]
    wanted = "host origin site method kind token role rate"
    assert names == [f"check_{name}" for name in wanted.split()]
