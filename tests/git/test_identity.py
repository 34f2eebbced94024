"""The name that a commit would carry, asked of git itself."""

import pytest

from tugtool.git import refs


@pytest.fixture
def nobody(repo, monkeypatch):
    """A repository in which nothing says who the person is."""
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    repo.git("config", "user.useConfigOnly", "true")
    return repo


def test_the_name_is_that_of_the_settings(nobody):
    nobody.git("config", "user.name", "Ada <3 Lovelace")
    nobody.git("config", "user.email", "ada@example.invalid")
    # Git itself takes angle brackets out of a name.
    assert refs.user_name(str(nobody.path)) == "Ada 3 Lovelace"


def test_the_environment_s_name_comes_first(nobody, monkeypatch):
    nobody.git("config", "user.name", "Ada")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Grace Hopper")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "grace@example.invalid")
    assert refs.user_name(str(nobody.path)) == "Grace Hopper"


def test_an_author_s_name_is_preferred_to_the_user_s(nobody):
    for key, value in {"user.name": "Ada", "author.name": "A. L", "user.email": "a@b"}.items():
        nobody.git("config", key, value)
    assert refs.user_name(str(nobody.path)) == "A. L"


def test_without_an_address_the_name_is_still_one(nobody):
    nobody.git("config", "user.name", "Ada")
    assert refs.user_name(str(nobody.path)) == "Ada"


def test_nobody_is_nobody(nobody, tmp_path, monkeypatch):
    assert refs.user_name(str(nobody.path)) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refs.user_name(str(nobody.path)) is None
