"""init, config, version."""

import sys

import pytest

import tugtool
from tugtool.store.sqlite import file
from tugtool.workflow.plans import EXCLUDE

FILES = [".tugtool/", ".tugtool/.gitignore", ".tugtool/.gitattributes"]
FILES += [".tugtool/tugplan-skeleton.md", "git's info/exclude", "git's info/attributes"]


def test_init_makes_everything_once(tugcode, repo):
    first = tugcode("-C", repo.path, "init", "--json").data
    assert (first["created"], first["kept"]) == (FILES, [])
    second = tugcode("-C", repo.path, "init", "--json").data
    assert (second["created"], second["kept"]) == ([], FILES)
    assert not (repo.path / ".tugtool/config.toml").exists()
    exclude = (repo.path / ".git/info/exclude").read_text().splitlines()
    assert [line for line in exclude if line.startswith("/")] == list(EXCLUDE)


def test_init_says_what_to_type_next(tugcode, repo):
    assert tugcode("-C", repo.path, "init").out.endswith("Next: tugcode plan new SLUG\n")


def test_init_works_before_the_first_commit_and_from_a_linked_worktree(tugcode, tmp_path):
    from conftest import Repo

    fresh = Repo.init(tmp_path / "fresh")
    assert tugcode("-C", fresh.path, "init").status == 0
    fresh.commit()
    side = fresh.linked(tmp_path / "side")
    assert tugcode("-C", side, "init", "--json").data["created"] == []


def test_git_ignores_the_state_and_the_worktrees_on_every_branch(tugcode, repo):
    tugcode("-C", repo.path, "init")
    repo.write({f".tugtool/{name}": "x" for name in ("state.db", "state.db-wal", "state.lock")})
    repo.write({".tugtree/tugplan__x/file": "x"})
    (repo.path / ".tugtool/.gitignore").unlink()
    status = repo.git("status", "--porcelain", "--untracked-files=all")
    assert "state" not in status
    assert ".tugtree" not in status
    assert "tugplan-skeleton.md" in status


def test_the_log_merges_without_conflict(tugcode, repo):
    tugcode("-C", repo.path, "init")
    repo.commit({".tugtool/log.md": "base\n"})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit({".tugtool/log.md": "from side\nbase\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({".tugtool/log.md": "from main\nbase\n"})
    repo.git("merge", "--quiet", "--no-edit", "side")
    merged = (repo.path / ".tugtool/log.md").read_text().splitlines()
    assert sorted(merged) == ["base", "from main", "from side"]


def test_init_changes_nothing_that_a_person_changed(tugcode, repo):
    mine = {
        ".tugtool/.gitignore": "mine\n",
        ".tugtool/tugplan-skeleton.md": "# mine\n",
        ".tugtool/.gitattributes": "*.md text\n",
        ".git/info/exclude": "*.swp",
    }
    repo.write(mine)
    tugcode("-C", repo.path, "init")
    for name, content in mine.items():
        assert (repo.path / name).read_text().startswith(content)
    assert (repo.path / ".git/info/exclude").read_text().startswith("*.swp\n")


def test_check_changes_nothing_and_says_what_is_missing(tugcode, repo):
    refused = tugcode("-C", repo.path, "init", "--check", "--json")
    assert (refused.status, refused.codes) == (1, ["E009"])
    assert refused.envelope()["issues"][0]["facts"]["missing"] == FILES
    assert not (repo.path / ".tugtool").exists()
    tugcode("-C", repo.path, "init")
    (repo.path / ".tugtool/.gitattributes").unlink()
    assert ".gitattributes" in tugcode("-C", repo.path, "init", "--check").err
    tugcode("-C", repo.path, "init")
    assert tugcode("-C", repo.path, "init", "--check").status == 0


def test_init_outside_a_repository_is_refused_and_makes_nothing(tugcode, tmp_path):
    refused = tugcode("-C", tmp_path, "init", "--json")
    assert (refused.status, refused.codes) == (1, ["E030"])
    hint = "cd to your repository; or, to make a new one here: git init"
    assert refused.envelope()["issues"][0]["hint"] == hint
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_of_the_directory_is_refused(tugcode, repo):
    repo.write({".tugtool": "a file"})
    assert tugcode("-C", repo.path, "init", "--json").codes == ["E074"]
    assert (repo.path / ".tugtool").read_text() == "a file"


def test_config_shows_what_is_in_force_and_from_where(tugcode, repo):
    repo.write({".tugtool/config.toml": '[plan]\nvalidation_level = "strict"\n'})
    data = tugcode("-C", repo.path, "config", "--json").data
    rows = {row["key"]: row for row in data["settings"]}
    assert data["file"] == ".tugtool/config.toml"
    assert rows["plan.validation_level"]["value"] == "strict"
    assert rows["plan.validation_level"]["source"] == ".tugtool/config.toml"
    assert rows["plan.validation_level"]["default"] == "lenient"
    assert rows["log.max_lines"]["source"] == "default"
    text = tugcode("-C", repo.path, "config").out
    shown = [line.split() for line in text.splitlines()]
    assert ["plan.validation_level", "strict", ".tugtool/config.toml"] in shown


def test_a_wrong_setting_is_refused_by_name(tugcode, repo):
    repo.write({".tugtool/config.toml": "[plan]\nmax_byte = 1\n"})
    refused = tugcode("-C", repo.path, "config", "--json")
    assert (refused.status, refused.codes) == (1, ["E071"])
    assert "plan.max_byte" in refused.envelope()["issues"][0]["message"]
    assert "did you mean plan.max_bytes?" in tugcode("-C", repo.path, "list").err


def test_version_names_all_that_a_report_needs(tugcode, monkeypatch):
    data = tugcode("version", "--json").data
    assert data["tugtool"] == tugtool.__version__
    assert data["python"] == ".".join(map(str, sys.version_info[:3]))
    assert data["sqlite"] == file.VERSION
    assert data["git"]
    assert tugcode("--version").out == tugcode("version").out
    lines = [line.split() for line in tugcode("version").out.splitlines()]
    assert lines == [[name, data[name]] for name in ("tugtool", "python", "sqlite", "git")]
    monkeypatch.setenv("PATH", "/nonexistent")
    assert tugcode("version", "--json").data["git"] is None
    assert "not found" in tugcode("version").out


@pytest.mark.parametrize(
    ("version", "faulty"),
    [
        ("3.6.23", False),
        ("3.7.0", True),
        ("3.40.1", True),
        ("3.44.5", True),
        ("3.44.6", False),
        ("3.45.0", True),
        ("3.50.6", True),
        ("3.50.7", False),
        ("3.51.2", True),
        ("3.51.3", False),
        ("3.54.1", False),
    ],
)
def test_the_faulty_sqlite_versions_are_known(version, faulty):
    assert file.has_wal_reset_bug(version) is faulty
