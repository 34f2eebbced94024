"""Notifications of the page in a real Chromium: only when what needs you grows, and if allowed.

The browser is spoken to directly, because the usual library tells every tab that it is in front.
"""

from collections.abc import Iterator

import pytest

from support import deck_scenes
from support.browser import tabs
from support.server import Process

pytestmark = pytest.mark.proof(share=0)

#: Notes every notification, every question for the permission, and how often the page looked.
NOTED = """
window.told = []; window.asked = 0; window.looks = 0;
const Plain = Notification;
window.Notification = class extends Plain {
  constructor(title, how) { super(title, how); told.push(how.body); }
  static requestPermission() { asked += 1; return Promise.resolve("denied"); }
};
const again = setInterval;
window.setInterval = (does, time) => again(() => { does(); looks += 1; }, time);
"""


class Page:
    """The page in a tab, and the hand that pauses and resumes: what needs you grows and shrinks."""

    def __init__(self, browser, server: Process, setting: str) -> None:
        self.browser, self.server = browser, server
        permission = {"permission": {"name": "notifications"}, "setting": setting}
        origin = server.url.rstrip("/")
        browser.send("Browser.setPermission", **permission, origin=origin)
        self.tab = browser.tab()
        self.tab.open(f"{server.url}about#t={server.token}", NOTED)
        self.tab.until("document.documentElement?.dataset.live === 'live'")
        self.tab.run("window.store = (await import('/store.js')).store")
        self.looked()

    def hide(self):
        front = self.browser.tab()
        self.tab.until("document.hidden")
        return front

    def looked(self) -> None:
        """Wait until the page has looked at least twice at what needs you."""
        self.tab.run("window.from = looks")
        self.tab.until("looks >= from + 4")

    def write(self, command: str) -> int:
        """Pause or resume the plan. Return what needs you once the page knows of it."""
        body = b'{"plan": "long", "reason": "to see"}'
        answer = self.server.request("POST", f"/api/v1/state/{command}", body)
        assert answer.status == 200, answer.body
        self.tab.until(f"store.seq >= {answer.headers['tug-seq']}")
        self.looked()
        return self.tab.run("return store.needs()")

    def told(self) -> list[str]:
        return self.tab.run("return told")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Process]:
    with Process(deck_scenes.make(tmp_path_factory.mktemp("notices") / "long", 7)) as made:
        yield made


@pytest.fixture
def page(server, request) -> Iterator[Page]:
    with tabs().chromium() as browser:
        yield Page(browser, server, request.param)


@pytest.mark.parametrize("page", ["granted"], indirect=True)
def test_a_hidden_tab_notifies_when_what_needs_you_grows_and_never_else(page):
    page.hide()
    page.looked()
    assert page.told() == []
    many = page.write("pause")
    assert page.told() == [f"{many} for you"]
    assert page.tab.run("return document.title").startswith(f"({many}) ")
    assert page.write("resume") == many - 1
    assert page.tab.run("return document.title").startswith(f"({many - 1}) ")
    assert page.told() == [f"{many} for you"]
    page.write("pause")
    assert page.told() == [f"{many} for you"] * 2
    page.write("resume")
    assert len(page.told()) == 2
    assert page.tab.run("return asked") == 0


@pytest.mark.parametrize("page", ["granted"], indirect=True)
def test_a_tab_in_front_does_not_notify(page):
    page.write("pause")
    page.write("resume")
    assert page.told() == []


@pytest.mark.parametrize("page", ["denied", "prompt"], indirect=True)
def test_without_permission_nothing_is_told_and_nothing_is_asked(page):
    front = page.hide()
    page.write("pause")
    page.write("resume")
    assert (page.told(), page.tab.run("return asked")) == ([], 0)
    # About asks for it, once a person presses the button.
    front.close()
    page.tab.show()
    every = "[...document.querySelectorAll('main button')]"
    buttons = f"{every}.filter((each) => /needs me/.test(each.textContent))"
    offered = page.tab.run(f"return {buttons}.length")
    assert offered == int(page.tab.run("return Notification.permission") == "default")
    page.tab.run(f"{buttons}[0]?.click()")
    assert page.tab.run("return asked") == offered


@pytest.mark.parametrize("page", ["granted"], indirect=True)
def test_a_notification_without_a_reason_is_noticed(page):
    """The planted fault: the count grows by itself."""
    page.hide()
    page.tab.run(
        "let more = 0; const own = store.needs.bind(store); store.needs = () => own() + more++"
    )
    page.looked()
    assert page.told() != []
