"""Which repository and which worktree a directory belongs to, with git as the judge."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from conftest import Repo, git
from support.work import other_file_system
from tugtool import git as tugtool_git
from tugtool.errors import GitFailed, GitUnusable, NoRepository
from tugtool.git import command as tool


@pytest.fixture
def other_mount(tmp_path):
    """A directory on another file system than the repository, where the machine has one."""
    # macOS has no such mount: there it is only a directory outside the repository.
    path = tempfile.mkdtemp(dir=other_file_system(tmp_path))
    yield Path(os.path.realpath(path))
    shutil.rmtree(path)


@pytest.fixture
def no_git(monkeypatch, tmp_path):
    """From the call on, no program can be found."""

    def switch_off():
        (tmp_path / "empty").mkdir()
        monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    return switch_off


def answer(start: Path, *question: str) -> str:
    return git("rev-parse", *question, cwd=start).removesuffix("\n")


def main_worktree(start: Path) -> str:
    first = git("worktree", "list", "--porcelain", "-z", cwd=start).split("\0")[0]
    return first.removeprefix("worktree ")


def found(start: Path) -> tugtool_git.Repository:
    """What we find, after comparing it with what git finds."""
    repo = tugtool_git.discover(str(start))
    common_dir = os.path.join(os.path.realpath(start), answer(start, "--git-common-dir"))
    assert repo.worktree == answer(start, "--show-toplevel")
    assert repo.common_dir == os.path.realpath(common_dir)
    return repo


def found_with_root(start: Path) -> tugtool_git.Repository:
    repo = found(start)
    assert repo.root == main_worktree(start)
    return repo


def refusal(start: Path) -> str:
    with pytest.raises(NoRepository) as caught:
        tugtool_git.discover(str(start))
    assert caught.value.code == "E030"
    return caught.value.message


def submodule(repo: Repo, tmp_path: Path) -> Path:
    library = Repo.init(tmp_path / "library")
    library.commit()
    repo.git("submodule", "--quiet", "add", str(library.path), "lib")
    repo.commit()
    return repo.path / "lib"


def bare(path: Path) -> Repo:
    """A bare repository with one commit."""
    source = Repo.init(path.parent / "source")
    source.commit()
    source.git("clone", "--quiet", "--bare", "--template=", ".", str(path))
    return Repo(path)


def test_the_main_worktree_is_its_own_root(repo):
    here = found_with_root(repo.path)
    assert (here.root, here.worktree) == (str(repo.path), str(repo.path))


def test_a_sub_directory_leads_to_the_top(repo):
    deep = repo.path / "a" / "b"
    deep.mkdir(parents=True)
    assert found_with_root(deep).worktree == str(repo.path)


def test_a_repository_before_its_first_commit_is_one(tmp_path):
    assert found(Repo.init(tmp_path / "new").path).root == str(tmp_path / "new")


def test_a_directory_that_does_not_exist_belongs_to_what_would_enclose_it(repo):
    assert tugtool_git.discover(str(repo.path / "a" / "b")).root == str(repo.path)


@pytest.mark.parametrize("where", [".tugtree/side", "../side", "a/b/side"])
@pytest.mark.parametrize("below", [".", "sub/dir"])
def test_a_linked_worktree_leads_to_the_main_one(repo, where, below):
    linked = repo.linked(Path(os.path.normpath(repo.path / where)))
    start = linked / below
    start.mkdir(parents=True, exist_ok=True)
    here = found_with_root(start)
    assert (here.root, here.worktree) == (str(repo.path), str(linked))


def test_a_linked_worktree_may_be_on_another_mount(repo, other_mount):
    linked = repo.linked(other_mount / "side")
    deep = linked / "deep"
    deep.mkdir()
    assert found_with_root(linked).root == str(repo.path)
    assert found_with_root(deep).worktree == str(linked)


def test_a_link_to_another_mount_leaves_the_repository_as_for_git(repo, other_mount):
    (repo.path / "data").symlink_to(other_mount)
    assert "is not inside a git repository" in refusal(repo.path / "data")


def test_a_path_through_a_symbolic_link_is_made_real(repo, tmp_path):
    (repo.path / "sub").mkdir()
    (tmp_path / "link").symlink_to(repo.path)
    assert found_with_root(tmp_path / "link" / "sub").root == str(repo.path)


def test_a_git_directory_may_be_a_symbolic_link(repo, tmp_path):
    (repo.path / ".git").rename(tmp_path / "store")
    (repo.path / ".git").symlink_to(tmp_path / "store")
    here = found(repo.path)
    assert (here.root, here.common_dir) == (str(repo.path), str(tmp_path / "store"))


def test_a_submodule_is_a_repository_of_its_own(repo, tmp_path):
    lib = submodule(repo, tmp_path)
    (lib / "deep").mkdir()
    assert found(lib).root == str(lib)
    assert found(lib / "deep").root == str(lib)


def test_a_linked_worktree_of_a_submodule_leads_to_the_submodule(repo, tmp_path):
    lib = submodule(repo, tmp_path)
    linked = Repo(lib).linked(tmp_path / "side")
    here = found(linked)
    assert (here.root, here.worktree) == (str(lib), str(linked))


def test_an_empty_git_directory_is_looked_past_as_git_does(repo):
    (repo.path / "sub" / ".git").mkdir(parents=True)
    assert found_with_root(repo.path / "sub").root == str(repo.path)


def test_a_bare_repository_has_no_working_tree(tmp_path):
    path = bare(tmp_path / "bare.git").path
    assert "is a git directory and not a working tree" in refusal(path)
    assert "is a git directory" in refusal(path / "refs")


def test_a_bare_repository_below_a_git_file_has_no_working_tree(tmp_path):
    bare(tmp_path / "project" / ".bare")
    (tmp_path / "project" / ".git").write_text("gitdir: ./.bare\n")
    assert "belongs to a bare repository" in refusal(tmp_path / "project")


def test_a_git_directory_in_the_usual_place_may_be_bare(repo):
    repo.git("config", "core.bare", "true")
    assert "belongs to a bare repository" in refusal(repo.path)


@pytest.mark.parametrize("inside", [".git", ".git/refs", ".git/worktrees/side"])
def test_inside_git_s_own_directory_is_no_working_tree(repo, tmp_path, inside):
    repo.linked(tmp_path / "side")
    assert "is a git directory" in refusal(repo.path / inside)


def test_a_linked_worktree_of_a_bare_repository_is_refused_with_the_reason(tmp_path):
    linked = tmp_path / "side"
    bare(tmp_path / "bare.git").git("worktree", "add", "--quiet", str(linked))
    assert refusal(linked) == (
        f"{linked} is a linked worktree of a bare repository; work in a clone, which has a main one"
    )


def test_no_repository_is_refused_with_where_it_was_looked_for(tmp_path):
    (tmp_path / "plain").mkdir()
    assert refusal(tmp_path / "plain") == f"{tmp_path}/plain is not inside a git repository"


def test_a_separate_git_directory_leaves_the_root_where_the_files_are(tmp_path):
    path = Repo.init(tmp_path / "work", f"--separate-git-dir={tmp_path / 'store.git'}").path
    (path / "deep").mkdir()
    here = found(path / "deep")
    assert (here.root, here.common_dir) == (str(path), str(tmp_path / "store.git"))


def test_a_worktree_of_a_separate_git_directory_cannot_know_the_main_one(tmp_path):
    repo = Repo.init(tmp_path / "work", f"--separate-git-dir={tmp_path / 'store.git'}")
    repo.commit()
    assert "which names no main working tree" in refusal(repo.linked(tmp_path / "side"))


def test_git_dir_in_the_environment_decides(repo, tmp_path, monkeypatch):
    Repo.init(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git"))
    here = found(tmp_path / "other")
    assert (here.root, here.worktree) == (str(repo.path), str(tmp_path / "other"))


def test_git_dir_relative_as_hooks_get_it_is_fine(repo, monkeypatch):
    monkeypatch.setenv("GIT_DIR", ".git")
    assert found_with_root(repo.path).root == str(repo.path)


def test_git_dir_as_a_hook_in_a_linked_worktree_gets_it_is_fine(repo, tmp_path, monkeypatch):
    linked = repo.linked(tmp_path / "side")
    monkeypatch.setenv("GIT_DIR", answer(linked, "--absolute-git-dir"))
    here = found_with_root(linked)
    assert (here.root, here.worktree) == (str(repo.path), str(linked))


def test_a_real_hook_in_a_linked_worktree_finds_the_main_one(repo, tmp_path, monkeypatch):
    linked = repo.linked(tmp_path / "side")
    hook = repo.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nenv >{tmp_path}/seen\npwd >{tmp_path}/cwd\n")
    hook.chmod(0o755)
    Repo(linked).commit({"new": "x\n"})
    for line in (tmp_path / "seen").read_text().splitlines():
        name, _, value = line.partition("=")
        if name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"):
            monkeypatch.setenv(name, value)
    assert os.environ["GIT_DIR"]
    here = found_with_root(Path((tmp_path / "cwd").read_text().strip()))
    assert (here.root, here.worktree) == (str(repo.path), str(linked))


@pytest.mark.parametrize("value", ["", "/nonexistent/.git", "."])
def test_git_dir_that_leads_nowhere_is_refused(repo, monkeypatch, value):
    monkeypatch.setenv("GIT_DIR", value)
    assert "is not inside a git repository with a working tree" in refusal(repo.path)


def test_git_work_tree_in_the_environment_decides_about_the_worktree(repo, tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(checkout))
    here = found_with_root(checkout)
    assert (here.root, here.worktree) == (str(repo.path), str(checkout))


def test_a_bare_git_dir_with_a_work_tree_beside_it_is_rooted_in_the_work_tree(
    tmp_path, monkeypatch
):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("GIT_DIR", str(bare(tmp_path / "dotfiles").path))
    monkeypatch.setenv("GIT_WORK_TREE", str(home))
    assert found(home).root == str(home)


def test_a_ceiling_in_the_environment_is_respected(repo, monkeypatch):
    deep = repo.path / "deep"
    deep.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repo.path))
    assert "is not inside a git repository" in refusal(deep)
    assert found_with_root(repo.path).root == str(repo.path)


def test_the_environment_does_not_move_what_encloses_a_path(repo, tmp_path, monkeypatch):
    other = Repo.init(tmp_path / "other")
    other.git("config", "core.worktree", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git"))
    assert tugtool_git.containing(str(other.path)).common_dir == str(other.path / ".git")


@pytest.mark.parametrize("form", ["absolute", "relative"])
def test_core_worktree_moves_the_root(repo, tmp_path, form):
    files = tmp_path / "files"
    files.mkdir()
    repo.git("config", "core.worktree", str(files) if form == "absolute" else "../../files")
    assert found(repo.path).root == str(files)
    # Git's own list says otherwise: it does not look at core.worktree there.
    assert found(repo.linked(tmp_path / "side")).root == str(files)


def test_core_worktree_is_read_with_git_s_quoting(repo, tmp_path):
    files = tmp_path / 'odd "#; name '
    files.mkdir()
    repo.git("config", "core.worktree", str(files))
    assert found(repo.linked(tmp_path / "side")).root == str(files)


def test_a_sparse_checkout_changes_nothing(repo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    Repo(linked).git("sparse-checkout", "set", "docs")
    assert "worktreeconfig" in repo.git("config", "--list").lower()
    assert found_with_root(repo.path).root == str(repo.path)
    assert found_with_root(linked).root == str(repo.path)


def test_a_configuration_of_the_main_worktree_alone_counts(repo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "core.bare", "true")
    assert "is a linked worktree of a bare repository" in refusal(linked)


def test_what_a_configuration_includes_does_not_move_the_root(repo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    repo.git("config", "include.path", str(tmp_path / "more"))
    (tmp_path / "more").write_text(f"[core]\n\tworktree = {tmp_path}\n\tbare = true\n")
    assert found_with_root(repo.path).root == str(repo.path)
    assert found_with_root(linked).root == str(repo.path)


BARE = {
    "indented": "  [core]\n  bare = true\n",
    "upper case": "[CORE]\n\tBARE = TRUE\n",
    "no blanks": "[core]\nbare=yes\n",
    "a key alone": "[core]\n\tbare\n",
    "a number": "[core]\n\tbare = 1\n",
    "one line": "[core] bare = true\n",
    "two sections in a line": "[user] [core]\n\tbare = true\n",
    "a bracket in a comment": "[core] # ]\n\tbare = true\n",
    "a comment after it": "[core]\n\tbare = true # really\n",
    "quotes": '[core]\n\tbare = "true"\n',
    "carriage returns": "[core]\r\n\tbare = true\r\n",
    "the last one counts": "[core]\n\tbare = false\n[core]\n\tbare = on\n",
    "a byte order mark": "\ufeff[core]\n\tbare = true\n",
}
NOT_BARE = {
    "empty": "",
    "false": "[core]\n\tbare = false\n",
    "no value": "[core]\n\tbare =\n",
    "zero": "[core]\n\tbare = 0\n",
    "a comment": "[core]\n\t# bare = true\n\t; bare = true\n",
    "another section": "[other]\n\tbare = true\n",
    "a sub-section": '[core "x"]\n\tbare = true\n',
    "a continued line": "[core]\n\teditor = a \\\nbare = true\n",
    "a quoted other value": '[core]\n\teditor = "code --wait"\n',
}


def set_configuration(repo: Repo, text: str) -> None:
    # Without a version git does not look at the rest.
    version = "[core]\n\trepositoryformatversion = 0\n"
    (repo.path / ".git" / "config").write_bytes((text + version).encode())


@pytest.mark.parametrize("text", BARE.values(), ids=BARE)
def test_a_configuration_that_says_bare_is_understood_in_any_form(repo, tmp_path, text):
    linked = repo.linked(tmp_path / "side")
    set_configuration(repo, text)
    assert answer(repo.path, "--is-bare-repository") == "true"
    assert "bare repository" in refusal(repo.path)
    assert "bare repository" in refusal(linked)


@pytest.mark.parametrize("text", NOT_BARE.values(), ids=NOT_BARE)
def test_a_configuration_that_does_not_say_bare_is_understood_in_any_form(repo, tmp_path, text):
    linked = repo.linked(tmp_path / "side")
    set_configuration(repo, text)
    assert answer(repo.path, "--is-bare-repository") == "false"
    assert found_with_root(repo.path).root == str(repo.path)
    assert found_with_root(linked).root == str(repo.path)


def test_a_missing_configuration_is_an_empty_one(repo):
    (repo.path / ".git" / "config").unlink()
    assert tugtool_git.discover(str(repo.path)).root == str(repo.path)


def test_a_huge_configuration_is_read_all_the_same(repo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    with open(repo.path / ".git" / "config", "a") as config:
        config.writelines(f'[branch "b{n}"]\n\tremote = origin\n' for n in range(40_000))
    assert found_with_root(repo.path).root == str(repo.path)
    assert found_with_root(linked).root == str(repo.path)


def test_a_broken_configuration_is_refused_with_what_git_says(repo):
    (repo.path / ".git" / "config").write_text("[core\n")
    with pytest.raises(GitFailed, match="bad config line 1"):
        tugtool_git.discover(str(repo.path))


def test_relative_paths_in_git_s_files_are_followed(repo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    (linked / ".git").write_text("gitdir: ../repo/.git/worktrees/side\n")
    assert found_with_root(linked).root == str(repo.path)


def test_a_git_file_may_lead_to_a_name_that_ends_in_a_blank(tmp_path):
    path = Repo.init(tmp_path / "work", f"--separate-git-dir={tmp_path / 'store '}").path
    assert found(path).common_dir == str(tmp_path / "store ")


BROKEN = ["", "nonsense\n", "gitdir:\n", "gitdir: /nonexistent/x\n", "gitdir: ..\n", "\xff\0\n"]


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_git_file_is_refused_and_not_looked_past(repo, content):
    (repo.path / "sub").mkdir()
    (repo.path / "sub" / ".git").write_bytes(content.encode("latin-1"))
    assert "has a .git file that leads nowhere" in refusal(repo.path / "sub")


def test_a_linked_worktree_whose_repository_is_gone_is_refused(repo, tmp_path):
    linked = repo.linked(tmp_path / "side")
    repo.path.rename(tmp_path / "moved")
    assert "has a .git file that leads nowhere" in refusal(linked)


@pytest.mark.parametrize(
    "name", ["with blanks ", "new\nline", "größe ☃", "-dash", "a=b;#", "'\"\\"]
)
def test_any_name_will_do(tmp_path, name):
    repo = Repo.init(tmp_path / name)
    repo.commit()
    linked = repo.linked(tmp_path / "side")
    inner = repo.linked(repo.path / ".tugtree" / name, branch="inner")
    assert found_with_root(repo.path).root == str(repo.path)
    assert found_with_root(linked).root == str(repo.path)
    assert found_with_root(inner).worktree == str(inner)


def test_a_repository_of_sha256_objects_is_one_like_any_other(tmp_path):
    repo = Repo.init(tmp_path / "repo", "--object-format=sha256")
    assert len(repo.commit()) == 64
    assert found_with_root(repo.path).root == str(repo.path)
    assert found_with_root(repo.linked(tmp_path / "side")).root == str(repo.path)


def test_the_plain_cases_never_start_git(repo, tmp_path, no_git):
    lib = submodule(repo, tmp_path)
    linked = repo.linked(tmp_path / "side")
    of_lib = Repo(lib).linked(tmp_path / "of-lib")
    Repo(linked).git("sparse-checkout", "init")
    repo.git("config", "include.path", "more")
    (repo.path / "sub").mkdir()
    (tmp_path / "plain").mkdir()
    no_git()
    roots = {repo.path: repo.path, repo.path / "sub": repo.path, linked: repo.path}
    roots |= {lib: lib, of_lib: lib}
    for start, root in roots.items():
        assert tugtool_git.discover(str(start)).root == str(root)
    assert "is not inside" in refusal(tmp_path / "plain")


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_CEILING_DIRECTORIES"])
def test_a_repository_located_by_the_environment_needs_git(repo, no_git, monkeypatch, name):
    monkeypatch.setenv(name, str(repo.path / ".git"))
    no_git()
    with pytest.raises(GitUnusable) as caught:
        tugtool_git.discover(str(repo.path))
    assert caught.value.code == "E029"


@pytest.mark.parametrize("value", ["[core]\n\tworktree = ..\n", "[core]\n\tbare\n"])
def test_an_unusual_configuration_needs_git(repo, no_git, value):
    (repo.path / ".git" / "config").write_text(value)
    no_git()
    with pytest.raises(GitUnusable):
        tugtool_git.discover(str(repo.path))


def test_a_ceiling_that_agents_have_from_us_leaves_nothing_to_ask_git(repo, no_git, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repo.path / ".tugtree"))
    no_git()
    assert tugtool_git.discover(str(repo.path)).root == str(repo.path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repo.path.parent))
    with pytest.raises(GitUnusable):
        tugtool_git.discover(str(repo.path))


def test_git_in_a_worktree_that_lost_its_git_file_does_not_work_on_the_main_one(repo):
    at = repo.path / ".tugtree" / "lost" / "deep"
    at.mkdir(parents=True)
    for where in (at, at.parent):
        assert tool.attempt("status", cwd=str(where)).status == 128
        with pytest.raises(NoRepository, match="so it is not a worktree"):
            tugtool_git.discover(str(where))
    assert tool.attempt("status", cwd=str(repo.path / ".tugtree")).status == 0
    assert tugtool_git.discover(str(repo.path / ".tugtree")).root == str(repo.path)


#: How the index is written; the last keeps its entries in a second file.
INDEXES = {
    "version 2": ("update-index", "--index-version", "2"),
    "version 4": ("update-index", "--index-version", "4"),
    "split": ("update-index", "--split-index"),
}


@pytest.mark.parametrize("how", INDEXES)
def test_submodules_are_found_in_any_index(repo, tmp_path, how):
    for number in range(30):
        (repo.path / f"file{number}").write_text("x")
    repo.git("add", "--all")
    submodule(repo, tmp_path)
    repo.git(*INDEXES[how])
    assert tool.submodules(str(repo.path)) == ["lib"]


def test_git_is_not_asked_for_submodules_where_the_index_has_none(repo, no_git):
    (repo.path / "links").write_text("x")
    repo.git("add", "--all")
    no_git()
    assert tool.submodules(str(repo.path)) == []


def test_an_index_that_cannot_be_read_may_have_submodules(repo):
    file = repo.path / ".git" / "index"
    file.unlink(missing_ok=True)
    assert tool.submodules(str(repo.path)) == []
    file.mkdir()
    with pytest.raises(GitFailed):
        tool.submodules(str(repo.path))
