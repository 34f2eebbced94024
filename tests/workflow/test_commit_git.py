"""tugcode commit in repositories as people have them: hooks, settings, odd names, locks."""

import os
import subprocess

import pytest

from conftest import Repo
from support.commit import LOG, Bench
from tugtool.store import open_store


def picture(b):
    """The worktree, its index and the state, as they were."""
    files = {
        str(path.relative_to(b.red)): path.read_bytes()
        for path in sorted(b.red.rglob("*"))
        if path.is_file() and path.name != ".git"
    }
    git = b.git("rev-parse", "HEAD"), b.git("status", "--porcelain"), b.git("ls-files", "--stage")
    return files, git, b.intents(), b.step("step-1")["status"]


def refused_by_git(b, said="", step="step-1", **how):
    before = picture(b)
    refused = b.commit_json(step, **how)
    assert (refused.status, refused.codes) == (1, ["E076"]), refused.out
    assert said in refused.envelope()["issues"][0]["message"]
    assert picture(b) == before
    assert not (b.repo.path / ".git/worktrees/red/tugtool-index").exists()


def staged_in_part(b):
    """Something staged, something not, and something that git does not know."""
    b.write({"code.py": "staged\n", "added": "x\n"})
    b.git("add", "code.py", "added")
    b.write({"code.py": "later\n", "unknown": "x\n"})


@pytest.mark.parametrize("hook", ["pre-commit", "prepare-commit-msg", "commit-msg"])
def test_a_hook_that_fails_leaves_everything_as_it_was(bench, hook):
    b = bench("1")
    b.hold("step-1")
    staged_in_part(b)
    b.hook(hook, "echo no such luck >&2; exit 1")
    refused_by_git(b, "no such luck")
    (b.hooks / hook).unlink()
    data = b.done("step-1")
    assert sorted(data["files_staged"]) == [LOG, "added", "code.py", "unknown"]
    assert b.entries() == ["step-1: Part 1"]


def test_a_hook_that_fails_after_it_rewrote_the_log_leaves_the_log_as_it_was(bench):
    b = bench("1", "2")
    b.hold("step-1", "step-2")
    b.done("step-1")
    b.hook("pre-commit", f"sed -i s/step/STEP/ {LOG}; exit 1")
    before = b.log.read_bytes()
    assert b.commit_json("step-2").codes == ["E076"]
    assert b.log.read_bytes() == before


def test_a_hook_that_fails_leaves_no_log_where_there_was_none(bench):
    b = bench("1")
    b.hold("step-1")
    b.hook("pre-commit", f"echo more >> {LOG}; exit 1")
    assert b.commit_json("step-1").codes == ["E076"]
    assert not b.log.exists()


def test_a_hook_that_fails_leaves_a_rotated_log_as_it_was(bench):
    b = bench("1")
    b.hold("step-1")
    b.write({LOG: "# Ours\n\n" + "line\n" * 600})
    b.hook("pre-commit", f"sed -i s/step/STEP/ {LOG}; exit 1")
    before = picture(b)
    assert b.commit_json("step-1").codes == ["E076"]
    assert picture(b) == before
    assert not (b.red / ".tugtool" / "archive").exists()


def test_what_git_said_is_told_though_the_database_fails_too(bench):
    b = bench("1")
    b.hold("step-1")
    home, away = b.repo.path / ".tugtool", b.repo.path / "away"
    away.mkdir()
    script = f"mv {home}/state.db* {away}; cp $0 {home}/state.db; echo no luck >&2; exit 1"
    b.hook("pre-commit", script)
    refused = b.commit_json("step-1")
    assert refused.codes == ["E076"]
    assert "no luck" in refused.envelope()["issues"][0]["message"]
    assert not b.log.exists()
    for path in away.iterdir():
        os.replace(path, home / path.name)
    (b.hooks / "pre-commit").unlink()
    assert len(b.intents()) == 1
    again = b.commit_json("step-1")
    assert (again.codes, again.data["completed"]) == (["W113"], True)
    assert (b.entries(), b.intents()) == (["step-1: Part 1"], [])


def test_a_log_that_cannot_be_rotated_is_left_as_it_was(bench):
    b = bench("1")
    b.hold("step-1")
    b.write({LOG: "# Ours\n\n" + "line\n" * 600, ".tugtool/archive": "in the way"})
    before = picture(b)
    assert b.commit_json("step-1").codes == ["E074"]
    assert picture(b) == before
    (b.red / ".tugtool" / "archive").unlink()
    assert b.done("step-1")["log_rotated"]


def test_a_huge_log_goes_into_the_archive_whole(bench):
    b = bench("1")
    b.hold("step-1")
    huge = "# Ours\n\n" + "- " + "y" * 5_000_000 + "\n"
    b.write({LOG: huge})
    data = b.done("step-1")
    assert (b.red / data["archived_path"]).read_text() == huge
    assert b.log.read_text().startswith("# Ours\n\n- 20")


def test_hooks_may_print_what_they_like(bench):
    b = bench("1")
    b.hold("step-1")
    for hook in ("pre-commit", "commit-msg", "post-commit", "reference-transaction"):
        b.hook(hook, "cat >/dev/null; echo '[main 1234567] out'; printf '\\377\\001' >&2")
    assert b.done("step-1")["commit_hash"] == b.head()


def test_a_hook_that_formats_and_adds_is_in_the_commit(bench):
    b = bench("1")
    b.hold("step-1")
    b.hook("pre-commit", "echo formatted > code.py; echo new > made; git add code.py made")
    b.write({"code.py": "raw\n"})
    data = b.done("step-1")
    assert sorted(data["files_staged"]) == [LOG, "code.py", "made"]
    assert b.git("show", "HEAD:code.py") == "formatted\n"


def test_a_hook_that_adds_a_trailer_leaves_ours_whole(bench):
    b = bench("1")
    b.hold("step-1")
    b.hook("prepare-commit-msg", 'git interpret-trailers --in-place --trailer "Change-Id: I1" "$1"')
    assert b.done("step-1")["warnings"] == []
    assert b.trailers() == [*b.set_of("step-1"), "Change-Id: I1"]


@pytest.mark.parametrize(
    "script",
    ['echo "feat: replaced" > "$1"', 'printf "\\nand more\\nprose\\n" >> "$1"'],
)
def test_a_hook_that_takes_our_trailers_away_is_told_of(bench, script):
    b = bench("1")
    b.hold("step-1")
    b.hook("commit-msg", script)
    done = b.commit_json("step-1")
    assert done.codes == ["W111"]
    assert (done.data["completed"], done.data["commit_hash"]) == (True, b.head())


def test_a_hook_that_forges_another_set_is_told_of(bench):
    b = bench("1", "2")
    b.hold("step-1")
    b.hook("commit-msg", 'printf "Tug-Step: step-2\\nTug-Claim: x/step-2/1\\n" >> "$1"')
    assert b.commit_json("step-1").codes == ["W111"]


def test_a_hook_that_amends_the_commit_gives_the_amended_one(bench):
    b = bench("1")
    b.hold("step-1")
    b.hook(
        "post-commit",
        '[ -n "$AMENDING" ] || { echo x > stamp; git add stamp;'
        " AMENDING=1 git commit --quiet --amend --no-edit; }",
    )
    data = b.done("step-1")
    assert data["commit_hash"] == b.head()
    assert "stamp" in data["files_staged"]
    assert len(b.commits()) == 1


def test_a_hooks_directory_of_the_person_s_own_counts(bench):
    b = bench("1")
    b.hold("step-1")
    b.hook("pre-commit", "exit 1")
    elsewhere = b.repo.path / "hooks-elsewhere"
    (b.hooks).rename(elsewhere)
    b.git("config", "core.hooksPath", str(elsewhere))
    refused_by_git(b)


def test_a_signature_that_cannot_be_made_is_a_refusal(bench):
    b = bench("1")
    b.hold("step-1")
    b.git("config", "commit.gpgSign", "true")
    b.git("config", "gpg.program", "/bin/false")
    refused_by_git(b, "gpg failed to sign")


def test_a_signature_that_can_be_made_is_in_the_commit(bench):
    b = bench("1")
    b.hold("step-1")
    program = b.repo.path / "sign"
    program.write_text(
        '#!/bin/sh\ncat >/dev/null\necho "-----BEGIN PGP SIGNATURE-----"\necho\n'
        'echo "[GNUPG:] SIG_CREATED D" >&2\n'
    )
    program.chmod(0o755)
    b.git("config", "commit.gpgSign", "true")
    b.git("config", "gpg.program", str(program))
    b.done("step-1")
    assert "gpgsig" in b.git("cat-file", "commit", "HEAD")


def test_nobody_to_commit_as_is_a_refusal(bench, monkeypatch):
    b = bench("1")
    b.hold("step-1")
    b.git("config", "user.useConfigOnly", "true")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{who}_EMAIL")
    before = b.log.exists()
    refused = b.commit_json("step-1")
    assert refused.codes == ["E076"]
    assert "no email was given" in refused.envelope()["issues"][0]["message"]
    assert (b.log.exists(), b.intents()) == (before, [])


def test_a_lock_of_another_git_is_a_refusal_and_its_index_is_left_alone(bench):
    b = bench("1")
    b.hold("step-1")
    staged_in_part(b)
    lock = b.repo.path / ".git" / "worktrees" / "red" / "index.lock"
    lock.write_text("busy")
    refused_by_git(b, "index.lock")
    assert lock.read_text() == "busy"
    lock.unlink()
    b.done("step-1")


def test_an_index_that_another_git_locks_meanwhile_is_left_as_it_is(bench):
    b = bench("1")
    b.hold("step-1")
    b.write({"new": "x\n"})
    lock = b.repo.path / ".git" / "worktrees" / "red" / "index.lock"
    b.hook("pre-commit", f"touch {lock}; exit 1")
    assert b.commit_json("step-1").codes == ["E076"]
    assert b.git("ls-files", "new") == "new\n"
    assert not b.log.exists()
    assert not lock.with_name("tugtool-index").exists()


def test_a_branch_that_cannot_be_moved_is_a_refusal(bench):
    b = bench("1")
    b.hold("step-1")
    staged_in_part(b)
    lock = b.repo.path / ".git" / "refs" / "heads" / "red.lock"
    lock.write_text("")
    refused_by_git(b, "red.lock")


def test_a_file_that_cannot_be_added_is_a_refusal(bench):
    b = bench("1")
    b.hold("step-1")
    staged_in_part(b)
    b.write({".gitattributes": "*.x filter=no\n", "a.x": "x"})
    b.git("config", "filter.no.clean", "false")
    b.git("config", "filter.no.required", "true")
    refused_by_git(b, "a.x")


ODD = ["with space", "-m", "--all", "quote\"'`$x", "new\nline", "tab\t", "ünïcödé", "*?[a]"]
ODD += [":(exclude)x", "%H", "a\\b", "#hash", "x" * 250, " lead", "trail ", "~", "HEAD"]


@pytest.mark.parametrize("name", ODD)
def test_a_file_may_be_called_anything(bench, name):
    b = bench("1")
    b.hold("step-1")
    b.write({name: "x\n", f"dir/{name}": "y\n"})
    data = b.done("step-1")
    assert sorted(data["files_staged"]) == sorted([LOG, name, f"dir/{name}"])
    assert b.git("status", "--porcelain") == ""


def test_a_name_that_is_no_text_is_committed(bench):
    b = bench("1")
    b.hold("step-1")
    with open(os.fsencode(b.red) + b"/caf\xe9", "w") as file:
        file.write("x")
    data = b.done("step-1")
    assert "caf\udce9" in data["files_staged"]
    assert b.git("status", "--porcelain") == ""


def test_deleted_renamed_moved_and_changed_modes_are_committed(bench):
    b = bench("1")
    b.hold("step-1")
    (b.red / "file").unlink()
    (b.red / "code.py").rename(b.red / "moved.py")
    (b.red / "moved.py").chmod(0o755)
    (b.red / "link").symlink_to("moved.py")
    data = b.done("step-1")
    assert sorted(data["files_staged"]) == [LOG, "code.py", "file", "link", "moved.py"]
    assert b.git("status", "--porcelain") == ""


def test_ignored_files_stay_out(bench):
    b = bench("1")
    b.hold("step-1")
    b.write({".gitignore": "*.log\nbuild/\n", "a.log": "x", "build/x": "x"})
    assert sorted(b.done("step-1")["files_staged"]) == [".gitignore", LOG]


def test_from_a_sub_directory_everything_is_committed(bench):
    b = bench("1")
    b.hold("step-1")
    b.write({"deep/down/x": "x", "top": "x"})
    data = b.done("step-1", at=b.red / "deep" / "down")
    assert sorted(data["files_staged"]) == [LOG, "deep/down/x", "top"]


def test_from_elsewhere_the_worktree_that_is_named_is_committed(bench):
    b = bench("1")
    b.hold("step-1")
    b.write({"new": "x"})
    data = b.done("step-1", "--worktree", str(b.red), at=b.repo.path)
    assert sorted(data["files_staged"]) == [LOG, "new"]


def test_the_environment_of_a_hook_does_not_redirect_it(bench, monkeypatch):
    b = bench("1")
    b.hold("step-1")
    monkeypatch.setenv("GIT_INDEX_FILE", str(b.repo.path / "nowhere"))
    monkeypatch.setenv("GIT_PREFIX", "x/")
    b.write({"new": "x"})
    assert sorted(b.done("step-1")["files_staged"]) == [LOG, "new"]


@pytest.mark.parametrize("safe", ["true", "false", "warn"])
@pytest.mark.parametrize("auto", ["true", "input"])
def test_line_ends_as_git_converts_them(bench, auto, safe):
    """Everything may be CRLF in the worktree; the log is what it is in git."""
    b = bench("1", "2")
    b.hold("step-1", "step-2")
    b.git("config", "core.autocrlf", auto)
    b.git("config", "core.safecrlf", safe)
    for path in b.red.rglob("*"):
        if path.is_file() and path.name != ".git":
            path.unlink()
    b.git("checkout", "--", ".")
    assert (b"\r\n" in (b.red / "code.py").read_bytes()) == (auto == "true")
    b.done("step-1")
    b.log.unlink()
    b.git("checkout", "--", LOG)
    b.done("step-2")
    assert b"\r" not in b.log.read_bytes()
    assert b.git("status", "--porcelain") == ""
    assert len(b.entries()) == 2


def test_a_log_whose_lines_end_in_crlf_keeps_them(bench):
    b = bench("1", "2")
    b.hold("step-1", "step-2")
    b.log.write_bytes(b"# Ours\r\n\r\n")
    b.done("step-1")
    text = b.log.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n") == 3
    b.hook("pre-commit", "exit 1")
    assert b.commit_json("step-2").codes == ["E076"]
    assert b.log.read_bytes() == text
    (b.hooks / "pre-commit").unlink()
    b.crash("commit.logged", "step-2")
    b.done("step-2")
    assert b.entries() == ["step-2: Part 2", "step-1: Part 1"]


def another(tmp_path, tugcode, monkeypatch, *options, lines=("1",)):
    from support.commit import IDENTITY

    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    repo = Repo.init(tmp_path / "another", *options)
    repo.commit()
    b = Bench(repo, tugcode, monkeypatch, *lines)
    b.ok("init", "work")
    return b


def test_a_sha_256_repository(tmp_path, tugcode, monkeypatch):
    b = another(tmp_path, tugcode, monkeypatch, "--object-format=sha256", lines=("1", "2 t"))
    b.hold("step-1")
    data = b.done("step-1")
    assert (len(data["commit_hash"]), data["commit_hash"]) == (64, b.head())
    b.ok("claim", "work")
    assert b.commit_json("step-2").data["state_failure_reason"] == "open_items"
    b.close("step-2")
    assert b.done("step-2")["recovered"]
    assert len(b.commits()) == 2


def test_a_shallow_clone(bench, tmp_path, tugcode, monkeypatch):
    b = bench("1")
    b.repo.commit({"more": "x\n"})
    subprocess.run(
        ["git", "clone", "--quiet", "--depth=1", f"file://{b.repo.path}", tmp_path / "shallow"],
        check=True,
        env={"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"},
    )
    shallow = Bench(Repo(tmp_path / "shallow"), tugcode, monkeypatch, "1", "2")
    shallow.ok("init", "work")
    shallow.hold("step-1")
    assert shallow.done("step-1")["commit_hash"] == shallow.head()


def test_a_submodule_s_new_commit_is_committed_and_its_dirt_is_not(bench, tmp_path):
    b = bench("1", "2")
    inner = Repo.init(tmp_path / "inner")
    inner.commit()
    b.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub")
    b.git("commit", "--quiet", "--message=sub")
    b.hold("step-1", "step-2")
    b.write({"sub/file": "dirty\n"})
    assert b.done("step-1")["files_staged"] == [LOG]
    b.git("commit", "--quiet", "--all", "--message=inner", at=b.red / "sub")
    assert sorted(b.done("step-2")["files_staged"]) == [LOG, "sub"]


def test_a_worktree_outside_the_repository_is_named_without_where_it_is(bench, tmp_path):
    b = bench("1")
    b.red = b.repo.linked(tmp_path / "far away", "far")
    b.hold("step-1")
    b.done("step-1")
    assert "worktree far away," in b.log.read_text()


def test_nothing_is_left_in_git_s_directory(bench):
    b = bench("1", "2")
    b.hold("step-1", "step-2")
    b.done("step-1")
    home = b.repo.path / ".git" / "worktrees" / "red"
    before = {path.name for path in home.iterdir()}
    b.done("step-2")
    assert {path.name for path in home.iterdir()} == before
    assert "tugtool-index" not in before


def test_the_commit_is_sound(bench):
    b = bench("1", "2")
    b.hold("step-1", "step-2")
    b.done("step-1")
    b.hook("pre-commit", "exit 1")
    b.commit_json("step-2")
    assert b.git("fsck", "--strict", "--full", "--no-dangling") == ""


def test_the_lease_lasts_while_hooks_take_their_time(bench):
    b = bench("1")
    b.ok("claim", "work", "--lease-duration", "1000")
    b.hook("post-commit", f"cp {b.repo.path}/.tugtool/state.db* {b.repo.path}/.git")
    before = b.step("step-1")["lease_expires_at"]
    b.done("step-1")
    store = open_store(f"sqlite://{b.repo.path}/.git/state.db")
    with store.read("") as tx:
        between = tx.value("select lease_expires_at from steps")
    store.close()
    assert between > before
