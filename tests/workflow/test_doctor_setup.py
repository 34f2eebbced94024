"""Set-up, settings, the log and the machine: broken for real, named, and mended where harmless."""

import os
import sqlite3
import stat
import sys
from pathlib import Path

import pytest

from tugtool.workflow.doctor import machine


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_a_file_that_init_makes_is_named_and_made_again(clinic, name):
    c = clinic()
    path = c.root / ".tugtool" / name
    before = path.read_bytes()
    path.unlink()
    assert f".tugtool/{name}" in c.one("set-up")["message"]
    assert c.mends("set-up") == f"made .tugtool/{name}"
    assert path.read_bytes() == before


def test_a_missing_skeleton_alone_is_a_note(clinic):
    c = clinic()
    (c.root / ".tugtool" / "tugplan-skeleton.md").unlink()
    assert c.doctor().status == 0
    assert c.one("set-up")["severity"] == "note"
    c.mends("set-up")


def test_rules_that_git_s_own_files_lack_are_named_and_written(clinic):
    c = clinic()
    exclude = c.root / ".git" / "info" / "exclude"
    attributes = c.root / ".git" / "info" / "attributes"
    before = exclude.read_bytes(), attributes.read_bytes()
    exclude.write_text("mine\n")
    attributes.unlink()
    found = c.findings()
    assert set(found) == {"set-up", "ignored"}
    assert "git's info/exclude, git's info/attributes" in found["set-up"][0]["message"]
    assert "git does not ignore .tugtree/" in found["ignored"][0]["message"]
    assert c.doctor("--fix").status == 0
    assert exclude.read_bytes() == b"mine\n" + before[0]
    assert attributes.read_bytes() == before[1]


def test_a_symbolic_link_in_place_of_tugtool_is_named(clinic, tmp_path):
    c = clinic()
    c.rest()
    (c.root / ".tugtool").rename(tmp_path / "elsewhere")
    (c.root / ".tugtool").symlink_to(tmp_path / "elsewhere")
    (finding,) = c.findings()["set-up"]
    assert finding["message"].startswith("cannot be looked at: ")
    assert str(tmp_path / "elsewhere") in finding["message"] or ".tugtool" in finding["message"]


def test_a_rule_that_undoes_ours_is_named(clinic):
    c = clinic()
    (c.root / ".tugtool" / ".gitignore").write_text("!state.db\n")
    finding = c.one("ignored")
    assert finding["message"] == "git does not ignore .tugtool/state.db"
    assert "git check-ignore --verbose" in finding["hint"]
    # Our own rule is there, and is overruled: that is for a person.
    finding = c.one("ignored", "--fix")
    assert not finding["fixed"]
    assert (c.root / ".tugtool" / ".gitignore").read_text() == "!state.db\n"


def test_worktrees_that_git_does_not_ignore_are_named_and_mended(clinic):
    c = clinic()
    exclude = c.root / ".git" / "info" / "exclude"
    exclude.write_text(exclude.read_text().replace("/.tugtree/\n", ""))
    assert set(c.findings()) == {"set-up", "ignored"}
    assert c.doctor("--fix").status == 0
    assert c.repo.git("status", "--porcelain") == ""


def test_state_files_that_git_tracks_are_named_and_left_to_a_person(clinic):
    c = clinic()
    c.repo.git("add", "--force", ".tugtool/state.db")
    finding = c.one("tracked")
    assert finding["severity"] == "error"
    assert finding["hint"] == "git rm --cached -- .tugtool/state.db"
    assert not finding["fixable"]
    assert c.doctor("--fix").status == 1
    c.repo.git("rm", "--cached", "--quiet", "--", ".tugtool/state.db")
    assert c.findings() == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[state\n", "is not TOML"),
        ("[state]\nleese_seconds = 5\n", "did you mean state.lease_seconds?"),
        ("[other]\nx = 1\n", "there is no section other"),
        ("[log]\nmax_lines = 'many'\n", "must be a whole number"),
    ],
)
def test_settings_that_no_command_can_read_are_named(clinic, text, said):
    c = clinic()
    c.repo.write({".tugtool/config.toml": text})
    finding = c.one("settings")
    assert finding["message"].startswith("E071: ")
    assert said in finding["message"]
    assert finding["severity"] == "error"
    assert c.run("state", "ready", "work").codes == ["E071"]


def test_a_log_that_is_not_merged_by_union_is_named_and_mended(clinic):
    c = clinic()
    (c.root / ".tugtool" / ".gitattributes").write_text("# nothing\n")
    (c.root / ".git" / "info" / "attributes").write_text("*.py text\n")
    assert set(c.findings()) == {"set-up", "log-merging"}
    assert c.doctor("--fix").status == 0
    assert (c.root / ".git" / "info" / "attributes").read_text().startswith("*.py text\n")
    assert c.repo.git("check-attr", "merge", "--", ".tugtool/log.md").endswith(": union\n")


def test_another_way_of_merging_the_log_is_somebody_s_choice(clinic):
    c = clinic()
    attributes = c.root / ".git" / "info" / "attributes"
    attributes.write_text("/.tugtool/log.md merge=ours\n")
    finding = c.one("log-merging")
    assert finding["severity"] == "note"
    assert "ours, not union" in finding["message"]
    assert c.doctor("--fix").status == 0
    assert attributes.read_text() == "/.tugtool/log.md merge=ours\n"


# -- the log ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["- entry\n" * 501, "x" * 102_401])
def test_a_log_over_its_limits_is_a_note(clinic, text):
    c = clinic()
    c.ok("state", "claim", "work", at=c.tree)
    (c.tree / ".tugtool" / "log.md").write_text(text)
    finding = c.one("log")
    assert finding["severity"] == "note"
    assert "the next commit rotates it" in finding["message"]


def test_conflict_markers_in_a_log_are_named(clinic):
    c = clinic()
    text = "# Implementation log\n\n<<<<<<< HEAD\n- a\n=======\n- b\n>>>>>>> side\n"
    c.repo.commit({".tugtool/log.md": text})
    finding = c.one("log")
    assert finding["severity"] == "warning"
    assert f"{c.root}/.tugtool/log.md has conflict markers" in finding["message"]


# -- git -------------------------------------------------------------------------------


def fake_git(tmp_path: Path, monkeypatch, script: str) -> None:
    """Another git comes first; the real one is still found by the script as `$GIT`."""
    real = next(
        path
        for place in os.environ["PATH"].split(os.pathsep)
        if os.access(path := os.path.join(place, "git"), os.X_OK)
    )
    place = tmp_path / "bin"
    place.mkdir()
    (place / "git").write_text(f"#!/bin/sh\nGIT={real}\n{script}\n")
    (place / "git").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")


def test_a_git_that_is_too_old_is_named(clinic, tmp_path, monkeypatch):
    c = clinic()
    # As every call of ours begins: settings, -C and where.
    script = 'case "$*" in *--version*) echo git version 2.20.1;; *) exec $GIT "$@";; esac'
    fake_git(tmp_path, monkeypatch, script)
    finding = c.one("git")
    assert "version 2.20.1, and worktrees need 2.38 or newer" in finding["message"]
    assert finding["severity"] == "warning"


def test_without_git_what_needs_it_is_skipped_and_the_rest_is_looked_at(clinic, monkeypatch):
    c = clinic()
    c.sql("update plan_counts set steps_ready = 9")
    monkeypatch.setenv("PATH", "/nonexistent")
    data = c.doctor().data
    assert set(c.findings()) == {"git", "counts"}
    reasons = {check["name"]: check["reason"] for check in data["checks"]}
    assert reasons["worktrees"] == "git cannot be used"
    assert reasons["claims"] == "git cannot be used"
    assert data["versions"]["git"] is None
    assert "git not found" in c.text().out


# -- the machine -----------------------------------------------------------------------

LINUX = """\
22 27 0:20 / /sys rw,nosuid - sysfs sysfs rw
27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 27 0:35 / /home rw,relatime shared:2 - {kind} server:/home rw
41 40 8:2 / /home/me/local rw - xfs /dev/sda2 rw
42 27 0:36 / /mnt/with\\040blank rw - {kind} server:/x rw
43 27 0:37 / /mnt/covered rw - {kind} server:/y rw
44 27 0:38 / /mnt/covered rw - tmpfs tmpfs rw
cut off
"""
DARWIN = """\
/dev/disk1s1 on / (apfs, local, journaled)
//me@server/share on /Volumes/share (name) ({kind}, nodev, nosuid, mounted by me)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
"""


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "virtiofs", "ceph", "vboxsf"]
)
def test_a_network_file_system_under_the_database_is_named(kind):
    table = LINUX.format(kind=kind)
    for path in ("/home/me/repo/.tugtool", "/home", "/mnt/with blank/x"):
        (finding,) = machine.on_network(path, table)
        assert finding.severity == "warning"
        assert f"{path} is on a network file system ({kind})" in finding.message
    for path in ("/homework", "/home/me/local/repo", "/srv", "/mnt/covered/x"):
        assert list(machine.on_network(path, table)) == []


@pytest.mark.parametrize("kind", ["smbfs", "nfs", "afpfs", "webdav", "macfuse"])
def test_a_network_file_system_is_known_on_macos_too(kind):
    table = DARWIN.format(kind=kind)
    (finding,) = machine.on_network("/Volumes/share (name)/repo/.tugtool", table)
    assert f"({kind})" in finding.message
    assert list(machine.on_network("/Users/me/repo", table)) == []


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk"])
def test_a_file_system_of_this_machine_is_none(kind):
    assert list(machine.on_network("/home/me", LINUX.format(kind=kind))) == []


def test_a_table_that_nobody_has_tells_nothing():
    assert machine.kind_at("/x", "") is None
    assert list(machine.on_network("/x", "")) == []


def test_little_room_is_named():
    (finding,) = machine.little_room("/x", (100 << 20) - 1)
    assert finding.message == "only 99 MiB are free at /x"
    assert list(machine.little_room("/x", 100 << 20)) == []


def test_code_that_is_compiled_at_every_start_is_named(tmp_path):
    source = tmp_path / "module.py"
    source.write_text("")
    cached = tmp_path / "__pycache__" / "module.pyc"
    (finding,) = machine.uncompiled(str(cached), str(source))
    assert finding.severity == "note"
    assert f"no compiled code is kept for {tmp_path}" in finding.message
    cached.parent.mkdir()
    cached.write_text("")
    assert list(machine.uncompiled(str(cached), str(source))) == []
    # Inside a zip archive there is neither.
    assert list(machine.uncompiled("/x/gone.pyc", "/x/gone.py")) == []


def test_what_makes_every_python_slow_is_named(tmp_path):
    (tmp_path / "heavy.pth").write_text("# a comment\nimport heavy; heavy.start()\n")
    (tmp_path / "plain.pth").write_text("/some/where\n")
    (tmp_path / "other.txt").write_text("import x\n")
    (tmp_path / "directory.pth").mkdir()
    places = [str(tmp_path), "/nonexistent", ""]
    (finding,) = machine.slow_start(10, 46, places)
    assert finding.severity == "note"
    text = "Python starts in 46 ms here and in 10 ms without its site"
    assert finding.message == f"{text}: {tmp_path}/heavy.pth"
    (finding,) = machine.slow_start(10, 46, [])
    assert finding.message == text
    assert list(machine.slow_start(10, 29, places)) == []
    assert list(machine.slow_start(5, 24, places)) == []


def test_a_start_is_measured_by_its_processor_time(tmp_path):
    least = machine.milliseconds(sys.executable, "-I", "-S", "-c", "pass")
    assert least is not None
    assert least > 0
    assert machine.milliseconds(str(tmp_path / "none")) is None
    assert machine.milliseconds(sys.executable, "-c", "raise SystemExit(1)", times=1) is None


def test_what_a_command_of_the_system_prints_is_read(tmp_path):
    assert machine.output("echo", "x") == "x\n"
    assert machine.output(str(tmp_path / "none")) == ""


# -- each is asked of the machine itself -------------------------------------------------


def of_machine(c, check: str) -> list[dict]:
    data = c.doctor().data
    return next(each["findings"] for each in data["checks"] if each["name"] == check)


def test_the_room_that_is_asked_about_is_that_of_the_repository(clinic, monkeypatch):
    c = clinic()
    monkeypatch.setattr(machine, "LEAST_BYTES", 1 << 70)
    (finding,) = of_machine(c, "disk-space")
    assert finding["message"].endswith(f"MiB are free at {c.root}")


def test_the_sqlite_that_is_asked_about_is_the_linked_one(clinic, monkeypatch):
    c = clinic()
    monkeypatch.setattr(machine, "OLDEST_SQLITE", (99, 0, 0))
    (finding,) = of_machine(c, "sqlite")
    assert f"SQLite {sqlite3.sqlite_version}, and the state needs 99.0.0" in finding["message"]


def test_the_mounts_that_are_asked_about_are_this_machine_s(clinic, monkeypatch):
    c = clinic()
    kind = machine.kind_at(str(c.db.parent), machine._mount_table())
    assert kind is not None
    monkeypatch.setattr(machine, "NETWORK", (kind,))
    (finding,) = of_machine(c, "file-system")
    assert f"{c.db.parent} is on a network file system ({kind})" in finding["message"]


def test_the_start_that_is_asked_about_is_this_python_s(clinic, monkeypatch):
    c = clinic()
    monkeypatch.setattr(machine, "MOST_STARTS", 0)
    monkeypatch.setattr(machine, "MOST_MILLISECONDS", -1000)
    assert any("Python starts in " in each["message"] for each in of_machine(c, "start-up"))
    assert all(each > 0 for each in c.doctor().data["start_up_ms"].values())
