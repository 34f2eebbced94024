"""`tugcode init --claude`: rules are added to a person's settings, and nothing else changes."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tugtool.agents import plugin

FILE = ".claude/settings.json"
TEXTS = {
    "empty object": "{}",
    "nothing": "",
    "blank lines": "\n{\n}\n\n",
    "four spaces": '{\n    "model": "opus",\n    "permissions": {\n        "allow": [\n'
    '            "Bash(make:*)",\n            "Bash(ls:*)"\n        ]\n    },\n    "x": 1.50\n}\n',
    "tabs": '{\n\t"permissions": {\n\t\t"deny": []\n\t}\n}\n',
    "one line": '{"permissions": {"allow": ["Bash(make:*)"], "defaultMode": "plan"}, "z": [1, 2]}',
    "windows": '{\r\n  "env": {"A": "b"}\r\n}\r\n',
    "odd spaces": '{ "permissions" :{"allow":[ ] ,"ask" :["Bash(rm:*)"]} , "a":{ } }',
    "not ascii": '{"note": "käse \\u00e4 日本", "permissions": {"deny": ["Read(.env)"]}}\n',
    "large numbers": '{"n": 12345678901234567890123, "f": 1e5, "permissions": {}}',
}
BAD = {
    "no json": ("{x}", "is not JSON"),
    "comments": ('{"a": 1 // b\n}', "is not JSON"),
    "a list": ("[]", "is not a JSON object"),
    "permissions are text": ('{"permissions": "all"}', "permissions that are not an object"),
    "allow is text": ('{"permissions": {"allow": "Bash"}}', "permissions.allow that is not a list"),
    "a name twice": ('{"permissions": {}, "permissions": {"allow": []}}', "a name stands twice"),
    "deep": ("[" * 100_000, "is not JSON"),
    "no number": ('{"a": NaN}', "is not JSON"),
    "no end": ('{"a": [-Infinity]}', "is not JSON"),
    "cut off": ('{"permissions": {"allow": [', "is not JSON"),
}


def _init(tugcode, repo, *words):
    return tugcode("-C", repo.path, "init", "--claude", "--json", *words)


def test_without_being_asked_for_nothing_is_written(repo, tugcode):
    (repo.path / ".claude").mkdir()
    done = tugcode("-C", repo.path, "init", "--json")
    assert done.data["claude"] is None
    assert not (repo.path / FILE).exists()


def test_a_new_file_has_the_rules_and_nothing_else(repo, tugcode):
    done = _init(tugcode, repo)
    rules = {"allow": list(plugin.ALLOW), "deny": list(plugin.DENY)}
    assert done.data["claude"] == {"file": FILE, "created": True, **rules}
    assert json.loads((repo.path / FILE).read_text()) == {"permissions": rules}
    assert "Bash(tugcode:*)" in rules["allow"]
    assert "Edit(**/.tugtool/state.db*)" in rules["deny"]


@pytest.mark.parametrize("name", TEXTS)
def test_what_stands_there_stays_as_it_is_and_where_it_is(repo, tugcode, name):
    before = TEXTS[name]
    repo.write({FILE: before})
    assert _init(tugcode, repo).status == 0
    after = (repo.path / FILE).read_bytes().decode()
    rest = iter(after)
    assert all(mark in rest for mark in before), "something was taken away or moved"
    old, new = json.loads(before or "{}"), json.loads(after)
    assert list(new)[: len(old)] == list(old)
    was = old.get("permissions", {})
    for kind in ("allow", "deny"):
        wanted = plugin.ALLOW if kind == "allow" else plugin.DENY
        assert new["permissions"][kind] == [*was.get(kind, []), *wanted]
    others = {key: value for key, value in new["permissions"].items() if key not in wanted}
    assert {**was, **others} == others
    assert {**new, "permissions": 0} == {**old, "permissions": 0}
    assert after.count("\r\n") == (after.count("\n") if "\r\n" in before else 0)


@pytest.mark.parametrize("name", TEXTS)
def test_a_second_time_changes_nothing(repo, tugcode, name):
    repo.write({FILE: TEXTS[name]})
    _init(tugcode, repo)
    before = (repo.path / FILE).read_bytes(), (repo.path / FILE).stat().st_mtime_ns
    done = _init(tugcode, repo)
    assert done.data["claude"] == {"file": FILE, "created": False, "allow": [], "deny": []}
    assert before == ((repo.path / FILE).read_bytes(), (repo.path / FILE).stat().st_mtime_ns)


def test_a_rule_that_a_person_has_turned_round_is_left_alone(repo, tugcode):
    repo.write({FILE: '{"permissions": {"ask": ["Bash(tugcode:*)"]}}'})
    done = _init(tugcode, repo)
    assert "Bash(tugcode:*)" not in done.data["claude"]["allow"]
    now = json.loads((repo.path / FILE).read_text())["permissions"]
    assert "Bash(tugcode:*)" not in now["allow"]


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_added_to_is_named_and_left_alone(repo, tugcode, name):
    text, said = BAD[name]
    repo.write({FILE: text})
    done = _init(tugcode, repo)
    assert (done.status, done.codes) == (1, ["E089"])
    assert said in done.envelope()["issues"][0]["message"]
    assert (repo.path / FILE).read_text() == text
    assert not (repo.path / ".tugtool").exists(), "a refused command changes nothing"


def test_a_directory_that_leads_out_of_the_repository_is_refused(repo, tugcode, tmp_path):
    (tmp_path / "home").mkdir()
    (repo.path / ".claude").symlink_to(tmp_path / "home")
    assert _init(tugcode, repo).codes == ["E073"]
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing yet"])
def test_a_file_that_leads_out_of_the_repository_is_refused(repo, tugcode, tmp_path, there):
    target = tmp_path / "dotfiles.json"
    if there:
        target.write_text("{}")
    (repo.path / ".claude").mkdir()
    (repo.path / FILE).symlink_to(target)
    done = _init(tugcode, repo)
    assert done.codes == ["E073"]
    [issue] = done.envelope()["issues"]
    assert f"{repo.path / FILE} is outside the repository" in issue["message"]
    assert issue["hint"] == f"ls -l {repo.path / FILE}"
    assert (target.read_text() if target.exists() else None) == ("{}" if there else None)
    assert not (repo.path / ".tugtool").exists()


def test_a_link_to_another_file_of_the_repository_is_written_through(repo, tugcode):
    repo.write({"shared.json": "{}"})
    (repo.path / ".claude").mkdir()
    (repo.path / FILE).symlink_to("../shared.json")
    assert _init(tugcode, repo).status == 0
    assert (repo.path / FILE).is_symlink()
    assert "Bash(tugcode:*)" in (repo.path / "shared.json").read_text()


def test_a_byte_order_mark_stays(repo, tugcode):
    repo.write({FILE: ""})
    (repo.path / FILE).write_bytes(b"\xef\xbb\xbf{}\n")
    assert _init(tugcode, repo).status == 0
    assert (repo.path / FILE).read_bytes().startswith(b"\xef\xbb\xbf{\n")
    assert _init(tugcode, repo).data["claude"]["allow"] == []


def test_settings_that_cannot_be_written_leave_nothing_half_made(repo, tugcode):
    repo.write({".claude": "a file"})
    done = _init(tugcode, repo)
    assert done.codes == ["E074"]
    assert not (repo.path / ".tugtool").exists()


def test_what_was_written_before_a_failure_is_said(repo, tugcode):
    repo.write({".tugtool": "a file"})
    done = _init(tugcode, repo)
    assert done.codes == ["E074"]
    message = done.envelope()["issues"][0]["message"]
    assert message.endswith("; .claude/settings.json has been written already")
    assert (repo.path / FILE).exists()
    assert not _init(tugcode, repo).envelope()["issues"][0]["message"].endswith("already")


def test_check_says_that_rules_are_missing_and_writes_none(repo, tugcode):
    assert tugcode("-C", repo.path, "init").status == 0
    done = _init(tugcode, repo, "--check")
    assert done.codes == ["E009"]
    [issue] = done.envelope()["issues"]
    assert (issue["facts"]["missing"], issue["hint"]) == ([FILE], "tugcode init --claude")
    assert not (repo.path / FILE).exists()
    _init(tugcode, repo)
    assert _init(tugcode, repo, "--check").status == 0


def test_text_names_every_rule_that_was_added(repo, tugcode):
    told = tugcode("-C", repo.path, "init", "--claude").out
    assert "created .claude/settings.json:\n  allow Bash(tugcode:*)\n" in told
    assert "  deny Edit(**/.tugtool/log.md)\n" in told
    assert "kept     .claude/settings.json\n" in tugcode("-C", repo.path, "init", "--claude").out


@pytest.mark.parametrize(("said", "written"), [("y\n", True), ("\n", False), ("n\n", False)])
def test_on_a_terminal_it_is_offered_where_claude_is_used(repo, said, written):
    (repo.path / ".claude").mkdir()
    out = _on_a_terminal(repo, said)
    assert "without asking (.claude/settings.json)? [y/N]" in out
    assert (repo.path / FILE).exists() == written


def test_on_a_terminal_nothing_is_offered_where_nobody_uses_claude(repo):
    assert "[y/N]" not in _on_a_terminal(repo, "")
    assert not (repo.path / FILE).exists()


def _on_a_terminal(repo, said: str) -> str:
    """What a person sees who types that."""
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "tugtool", "-C", str(repo.path), "init"]
    child = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, said.encode())
    seen = b""
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:
        # How Linux says that nobody has the terminal open any more.
        pass
    os.close(master)
    assert child.wait() == 0
    return seen.decode()
