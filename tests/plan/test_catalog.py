"""Which plan a name means, and that every way to name it gives the same key."""

import os
import sys
from pathlib import Path

import pytest

from conftest import Repo
from tugtool import git
from tugtool.errors import OutsideRepository, PlanAmbiguous, PlanNotFound, Unreadable
from tugtool.plan import catalog
from tugtool.system import files

KEY = ".tugtool/tugplan-foo.md"


def resolve(name: object, cwd: Path) -> catalog.PlanFile:
    """What `name` means to somebody in `cwd`."""
    return catalog.resolve(git.discover(str(cwd)), str(name), cwd=str(cwd))


def refused(name: object, cwd: Path) -> str:
    with pytest.raises(OutsideRepository) as caught:
        resolve(name, cwd)
    assert caught.value.code == "E073"
    return caught.value.message


def unknown(name: str, cwd: Path) -> PlanNotFound:
    with pytest.raises(PlanNotFound) as caught:
        resolve(name, cwd)
    assert caught.value.code == "E041"
    return caught.value


@pytest.fixture
def foo(repo) -> Path:
    """The plan foo, committed."""
    path = repo.plan("foo", "# Foo\n")
    repo.commit()
    return path


@pytest.fixture
def deep(repo) -> Path:
    """A directory two levels down."""
    path = repo.path / "a" / "b"
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "foo",
        "fo",
        "f",
        "foo.md",
        "tugplan-foo",
        "tugplan-foo.md",
        "tugplan-f",
        ".tugtool/tugplan-foo.md",
        "./.tugtool/tugplan-foo.md",
    ],
)
@pytest.mark.parametrize("where", [".", "a/b", ".tugtool"])
def test_every_short_name_means_the_plan_from_anywhere(repo, foo, deep, name, where):
    plan = resolve(name, repo.path / where)
    assert (plan.key, plan.path, plan.slug) == (KEY, str(foo), "foo")


@pytest.mark.parametrize(
    "name",
    ["../../.tugtool/tugplan-foo.md", "../b/../../.tugtool/tugplan-foo.md", "../../a/../.tugtool/"],
)
def test_a_relative_path_starts_at_the_current_directory(repo, foo, deep, name):
    path = name if name.endswith(".md") else name + "tugplan-foo.md"
    assert resolve(path, deep).key == KEY


def test_an_absolute_path_means_the_plan_from_anywhere(foo, deep):
    assert resolve(foo, deep).key == KEY


def test_a_symbolic_link_means_what_it_leads_to(repo, foo, tmp_path, deep):
    (deep / "link.md").symlink_to(foo)
    (tmp_path / "outer.md").symlink_to(foo)
    (tmp_path / "entrance").symlink_to(repo.path)
    for name in (deep / "link.md", "link.md", tmp_path / "outer.md"):
        assert resolve(name, deep).key == KEY
    through = resolve(tmp_path / "entrance" / ".tugtool" / "tugplan-foo.md", repo.path)
    assert (through.key, through.path) == (KEY, str(foo))


def test_a_plan_that_is_a_link_has_the_key_of_the_real_file(repo):
    repo.write({"docs/real.md": "# Real\n", ".tugtool/config": ""})
    (repo.path / ".tugtool" / "tugplan-link.md").symlink_to("../docs/real.md")
    assert resolve("link", repo.path).key == "docs/real.md"
    assert catalog.only(git.discover(str(repo.path))).key == "docs/real.md"


def test_the_copy_in_a_linked_worktree_has_the_same_key_and_is_preferred(repo, foo, tmp_path):
    for linked in (repo.path / ".tugtree" / "side", tmp_path / "outer"):
        repo.linked(linked, branch=linked.name)
        copy = linked / ".tugtool" / "tugplan-foo.md"
        for name in ("foo", KEY, copy, "tugplan-foo.md"):
            plan = resolve(name, linked)
            assert (plan.key, plan.path) == (KEY, str(copy))


def test_a_plan_only_the_main_worktree_has_is_found_from_a_linked_one(repo, foo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    new = repo.plan("new", "# New\n")
    repo.write({"docs/plan.md": "# Docs\n"})
    for name in ("new", ".tugtool/tugplan-new.md", new):
        assert resolve(name, linked).path == str(new)
    assert resolve("docs/plan.md", linked).path == str(repo.path / "docs" / "plan.md")
    slugs = [plan.slug for plan in catalog.plans(git.discover(str(linked)))]
    assert slugs == ["foo", "new"]


def test_a_path_in_another_worktree_of_the_repository_has_the_same_key(repo, foo, tmp_path):
    repo.commit({"docs/plan.md": "# Docs\n"})
    one = repo.linked(tmp_path / "one", branch="one")
    two = repo.linked(repo.path / ".tugtree" / "two", branch="two")
    for here in (repo.path, one, two):
        for there in (repo.path, one, two):
            assert resolve(there / KEY, here).key == KEY
            plan = resolve(there / "docs" / "plan.md", here)
            assert (plan.key, plan.path) == ("docs/plan.md", str(there / "docs" / "plan.md"))


def test_a_plan_may_live_anywhere_in_the_repository(repo, deep):
    repo.write({"docs/plan.md": "# Docs\n", "notes": "# Notes\n"})
    for name, cwd in (
        ("docs/plan.md", repo.path),
        ("docs/plan.md", deep),
        ("plan.md", repo.path / "docs"),
        (repo.path / "docs" / "plan.md", deep),
    ):
        assert resolve(name, cwd).key == "docs/plan.md"
    assert resolve("notes", repo.path).key == "notes"


def test_a_file_in_the_current_directory_comes_before_a_plan_of_that_name(repo, foo, deep):
    (deep / "foo.md").write_text("# Other\n")
    assert resolve("foo.md", deep).key == "a/b/foo.md"
    assert resolve("foo", deep).key == KEY


def test_a_slug_comes_before_a_directory_of_that_name(repo, foo):
    (repo.path / "foo").mkdir()
    (repo.path / "fo").mkdir()
    assert resolve("foo", repo.path).key == KEY
    assert resolve("fo", repo.path).key == KEY


def test_an_exact_slug_comes_before_a_longer_one(repo, foo):
    repo.plan("foo-bar", "# Foo bar\n")
    assert resolve("foo", repo.path).key == KEY
    assert resolve("foo.md", repo.path).key == KEY
    assert resolve("foo-", repo.path).slug == "foo-bar"


def test_a_beginning_of_several_plans_is_ambiguous_and_names_them(repo, foo):
    repo.plan("foo-bar", "# Foo bar\n")
    with pytest.raises(PlanAmbiguous) as caught:
        resolve("fo", repo.path)
    assert caught.value.code == "E040"
    assert caught.value.facts["candidates"] == ["foo", "foo-bar"]
    assert caught.value.message == '"fo" fits 2 plans: foo, foo-bar'


def test_an_unknown_name_gets_the_closest_ones(repo, foo):
    repo.plan("authentication", "# A\n")
    error = unknown("authetication", repo.path)
    assert error.facts["close"] == ["authentication"]
    assert error.message == 'no plan is called "authetication"; closest: authentication'
    assert "close" not in unknown("zzz", repo.path).facts


def test_an_unknown_path_inside_the_repository_is_just_unknown(repo, foo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    for name in ("docs/none.md", str(repo.path / "none.md"), str(linked / "x" / "none.md")):
        for cwd in (repo.path, linked):
            unknown(name, cwd)


@pytest.mark.parametrize("exists", [True, False])
def test_a_path_that_leaves_the_repository_is_refused(repo, deep, tmp_path, exists):
    if exists:
        (tmp_path / "plan.md").write_text("# Plan\n")
    for name in (tmp_path / "plan.md", "../../../plan.md"):
        assert f"is outside the repository {repo.path}" in refused(name, deep)


def test_a_path_that_only_begins_like_the_repository_is_outside(repo, tmp_path):
    Path(f"{repo.path}-2").mkdir()
    refused(f"{repo.path}-2/plan.md", repo.path)


def test_a_symbolic_link_out_of_the_repository_is_refused(repo, tmp_path):
    (tmp_path / "plan.md").write_text("# Plan\n")
    repo.write({".tugtool/config": ""})
    for link in (repo.path / "out.md", repo.path / ".tugtool" / "tugplan-out.md"):
        link.symlink_to(tmp_path / "plan.md")
        refused(link, repo.path)
    refused("out.md", repo.path)
    refused("out", repo.path)


def test_a_path_in_a_submodule_belongs_to_another_repository(repo, tmp_path):
    library = Repo.init(tmp_path / "library")
    library.plan("inner", "# Inner\n")
    library.commit()
    repo.git("submodule", "--quiet", "add", str(library.path), "lib")
    refused("lib/.tugtool/tugplan-inner.md", repo.path)
    refused("lib/missing.md", repo.path)
    refused("lib/", repo.path)
    assert resolve("inner", repo.path / "lib").key == ".tugtool/tugplan-inner.md"


def test_a_path_in_git_s_own_directory_is_no_plan(repo):
    refused(".git/config", repo.path)


def test_the_skeleton_is_not_a_plan(repo, foo):
    repo.write({".tugtool/tugplan-skeleton.md": "#\n", ".tugtool/log.md": "", ".tugtool/x.md": ""})
    here = git.discover(str(repo.path))
    assert [plan.key for plan in catalog.plans(here)] == [KEY]
    assert catalog.only(here).key == KEY
    unknown("skeleton", repo.path)


def test_plans_are_listed_by_name_and_once(repo, tmp_path):
    for slug in ("b", "a", "c"):
        repo.plan(slug, "#\n")
    repo.commit()
    linked = repo.linked(tmp_path / "side")
    (linked / ".tugtool" / "tugplan-b.md").unlink()
    plans = catalog.plans(git.discover(str(linked)))
    assert [plan.slug for plan in plans] == ["a", "b", "c"]
    tops = [plan.path.removesuffix(f"/{plan.key}") for plan in plans]
    assert tops == [str(linked), str(repo.path), str(linked)]


def make_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [make_directory, os.mkfifo])
def test_what_is_not_a_file_is_found_and_then_refused_by_the_reader(repo, foo, make):
    make(repo.path / ".tugtool" / "tugplan-odd.md")
    make(repo.path / "odd")
    for name in ("odd", "tugplan-odd.md", "./odd"):
        with pytest.raises(Unreadable, match="not a regular file"):
            files.read(resolve(name, repo.path).path)


@pytest.mark.parametrize(("name", "key"), [(".", "."), ("./", "."), (".tugtool/", ".tugtool")])
def test_a_directory_of_the_repository_is_not_said_to_be_outside(repo, foo, name, key):
    assert resolve(name, repo.path).key == key


def test_a_name_may_look_like_an_option(repo):
    repo.write({"--foo.md": "#\n", ".tugtool/tugplan---bar.md": "#\n"})
    assert resolve("--foo.md", repo.path).key == "--foo.md"
    assert resolve("--bar", repo.path).key == ".tugtool/tugplan---bar.md"


# A name that is not UTF-8 cannot exist on macOS.
ODD_NAMES = ["\x1b[31mred", "new\nline", "größe ☃", "a b", "'\"\\", "*?[", "\udcff"]
ODD_NAMES = ODD_NAMES if sys.platform == "linux" else ODD_NAMES[:-1]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_a_file_can_have_will_do(repo, deep, name):
    path = repo.plan(name, "# Odd\n")
    for given in (name, name[0], f"tugplan-{name}.md", path):
        plan = resolve(given, deep)
        assert (plan.key, plan.slug) == (f".tugtool/tugplan-{name}.md", name)
    assert files.read(plan.path) == b"# Odd\n"


@pytest.mark.parametrize(
    "name",
    [
        "x" * 255,
        "x" * 4096,
        "/" * 4096 + "x",
        "a/" * 2048,
        "nul\0",
        "a/nul\0.md",
        "/nul\0",
        "\udcff",
    ],
)
def test_a_name_no_file_can_have_is_refused_like_any_other(repo, foo, name):
    with pytest.raises((PlanNotFound, OutsideRepository)):
        resolve(name, repo.path)


@pytest.mark.parametrize("name", ["", ".md", "tugplan-", "tugplan-.md"])
def test_an_empty_name_is_no_plan_s_beginning(repo, foo, name):
    assert unknown(name, repo.path).message == f'no plan is called "{name}"'


def test_an_empty_name_is_not_the_plan_with_the_empty_slug(repo):
    repo.plan("", "#\n")
    unknown("", repo.path)
    assert resolve("tugplan-.md", repo.path).key == ".tugtool/tugplan-.md"


def test_the_only_plan_is_meant_when_none_is_named(repo, foo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    assert catalog.only(git.discover(str(repo.path))).path == str(foo)
    only = catalog.only(git.discover(str(linked)))
    assert (only.key, only.path) == (KEY, str(linked / KEY))


def test_no_plan_at_all_is_said_so(repo):
    with pytest.raises(PlanNotFound) as caught:
        catalog.only(git.discover(str(repo.path)))
    assert caught.value.message == "there is no plan here"
    assert caught.value.hint == "tugcode plan new SLUG"


def test_several_plans_and_none_named_is_ambiguous(repo, foo):
    repo.plan("bar", "#\n")
    with pytest.raises(PlanAmbiguous) as caught:
        catalog.only(git.discover(str(repo.path)))
    assert caught.value.message == "no plan was named, and there are 2 plans: bar, foo"


def test_a_plan_directory_that_is_a_file_holds_no_plans(repo):
    repo.write({".tugtool": "not a directory\n"})
    unknown("foo", repo.path)


def test_a_plan_directory_that_leads_round_in_circles_is_not_taken_for_empty(repo):
    (repo.path / ".tugtool").symlink_to(".tugtool")
    with pytest.raises(Unreadable, match="symbolic links"):
        resolve("foo", repo.path)


def test_plan_files_are_found_by_their_text(repo):
    repo.plan("first", "# One\n")
    repo.plan("second", "# One\n")
    os.mkfifo(repo.path / ".tugtool" / "tugplan-pipe.md")
    files = catalog.plans_in(str(repo.path))
    hash = catalog.file_fingerprint(files[0].path)
    assert catalog.by_text(files) == {hash: ".tugtool/tugplan-first.md"}


def test_a_new_plan_without_a_branch_keeps_the_skeleton_s(repo):
    made = catalog.new(git.discover(str(repo.path)), "x", title=None, today="2026-01-01")
    assert "| Target branch | main |" in Path(made.path).read_text()


def test_a_directory_that_happens_to_have_the_name_is_not_a_plan(repo, deep):
    unknown("a", repo.path)
    unknown("b", repo.path / "a")
    repo.plan("app", "# App\n")
    assert resolve("a", repo.path).key == ".tugtool/tugplan-app.md"
