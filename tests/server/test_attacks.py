"""No attack succeeds; with any check of the guard taken out, one does."""

import pytest

from support.attacks import ORIGINS, RAW, SCRIPTS, SITES, Target, browse, other_server
from support.browser import browser_path
from tugtool.server import guard
from tugtool.server.tokens import Tokens

pytestmark = pytest.mark.proof(share=0)

#: Check -> an attack that only this check refuses.
NEEDED = {
    "check_host": "foreign_hosts",
    "check_origin": "null_origin",
    "check_site": "cross_site",
    "check_method": "long_url",
    "check_kind": "plain_text_post",
    "check_token": "no_token",
    "check_role": "viewer_claims",
    "check_rate": "flood",
}
#: Check -> an attack of a browser's page that succeeds without it.
SEEN_BY_PAGES = {"check_host": "a page after DNS rebinding reads the state with the stolen token"}


@pytest.fixture
def target(desk):
    made: list[Target] = []

    def make(without: str = "") -> Target:
        root = desk("1 t", "2 t", "3 t", "4 t", "5 t", "6 t", "7 t", "8 t").repo.path
        (root / ".git" / "tugtool").mkdir(exist_ok=True)
        made.append(Target(root, Tokens(str(root / ".git" / "tugtool")), without))
        return made[-1]

    yield make
    for each in made:
        each.__exit__()


def test_no_attack_over_raw_sockets_succeeds(target):
    there = target()
    assert [name for name, attack in RAW.items() if attack(there)] == []
    assert there.lives()


@pytest.mark.parametrize("check", [each.__name__ for each in guard.CHECKS])
def test_with_any_check_taken_out_an_attack_succeeds(target, check):
    assert RAW[NEEDED[check]](target(check))


@pytest.fixture
def browser():
    from playwright.sync_api import sync_playwright

    path = browser_path()
    rules = ", ".join(f"MAP {site} 127.0.0.1" for site in SITES)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=path,
            args=[
                f"--host-resolver-rules={rules}",
                # The server has to hold where the browser does not ask about local addresses.
                "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
                *("--no-sandbox", "--disable-dev-shm-usage"),
            ],
        )
        yield made
        made.close()


def test_no_attack_of_a_page_succeeds(target, browser):
    there = target()
    with other_server() as port:
        assert list(browse(browser, there, port)) == []
    assert len(RAW) + len(ORIGINS) * len(SCRIPTS) >= 25


@pytest.mark.parametrize("check", SEEN_BY_PAGES)
def test_a_page_notices_that_a_check_is_missing(target, browser, check):
    with other_server() as port:
        assert SEEN_BY_PAGES[check] in browse(browser, target(check), port)
