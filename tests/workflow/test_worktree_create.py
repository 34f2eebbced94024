"""worktree create: what it makes, what it takes, and that a failure leaves nothing."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from conftest import Repo, git
from support.proving import sampled
from support.state import KEY, Clock, markdown
from support.worktree import answered, fsck, process
from tugtool.errors.git import NotMade
from tugtool.state import worktrees
from tugtool.store import open_store
from tugtool.workflow import plans
from tugtool.workflow.workspace import Workspace
from tugtool.workflow.worktree import branches, build, create

LAPSE = """
update steps set lease_expires_at = '2020-01-01T00:00:00.000Z' where claimed_by is not null
"""
TODAY = re.compile(r"tugplan__work-\d{8}(-\d+)?")


def test_a_worktree_has_its_own_branch_from_the_base_and_says_what_there_is_to_do(yard):
    yard = yard()
    data = yard.ok("worktree", "create", "work")
    path = Path(data["worktree_path"])
    assert path.parent == yard.root / ".tugtree"
    assert TODAY.fullmatch(path.name)
    assert data["branch_name"] == path.name.replace("tugplan__", "tugplan/")
    assert git("rev-parse", "--abbrev-ref", "HEAD", cwd=path).strip() == data["branch_name"]
    assert git("rev-parse", "HEAD", cwd=path).strip() == yard.start
    assert git("status", "--porcelain", cwd=path) == ""
    assert (path / KEY).read_bytes() == yard.plan.read_bytes()
    wanted = {
        "base_branch": "main",
        "plan_path": KEY,
        "total_steps": 3,
        "all_steps": ["step-1", "step-2", "step-3"],
        "ready_steps": ["step-1", "step-2"],
        "completed_steps": [],
        "reused": False,
        "state_initialized": True,
        "plan_committed": False,
        "claim": None,
    }
    assert {key: data[key] for key in wanted} == wanted
    assert yard.rows("select kind from events")[-1]["kind"] == "worktree_create"
    assert yard.rows("select * from intents") == []
    assert yard.repo.git("status", "--porcelain") == ""


def test_the_base_commit_of_the_plan_is_the_one_that_brought_its_text(yard):
    yard = yard()
    yard.repo.commit({"later.txt": "x"})
    yard.create()
    assert yard.rows("select base_commit from plans") == [{"base_commit": yard.start}]


def test_state_init_notes_the_base_commit_too(yard):
    yard = yard()
    head = yard.repo.commit({"later.txt": "x"})
    yard.ok("state", "init", "work")
    yard.repo.plan("loose", markdown("1"))
    yard.ok("state", "init", "loose")
    yard.repo.commit({KEY.replace("work", "other"): markdown("1")})
    changed = yard.repo.commit({"last.txt": "x"})
    yard.repo.plan("other", markdown("1", "2"))
    yard.ok("state", "init", "other")
    found = {row["plan_path"]: row for row in yard.rows("select * from plans")}
    assert found[KEY]["base_commit"] == yard.start
    assert found[KEY.replace("work", "loose")]["base_commit"] == head
    assert found[KEY.replace("work", "other")]["base_commit"] == changed


def test_a_new_text_of_the_plan_brings_its_own_base_commit(yard):
    yard = yard("1 t")
    yard.ok("state", "init", "work")
    yard.plan.write_text(markdown("1 t", "2 t"))
    brought = yard.repo.commit({})
    yard.repo.commit({"later.txt": "later"})
    yard.ok("state", "init", "work", "--force", "--dry-run")
    assert yard.rows("select base_commit from plans") == [{"base_commit": yard.start}]
    yard.ok("state", "init", "work", "--force")
    assert yard.rows("select base_commit from plans") == [{"base_commit": brought}]


def test_a_lost_database_is_not_started_over(yard):
    yard = yard()
    yard.create()
    assert (yard.root / ".git" / "tugtool" / "backup.db").exists()
    for path in (yard.root / ".tugtool").glob("state.db*"):
        path.unlink()
    yard.refused("E046", "worktree", "create", "work")
    assert not (yard.root / ".tugtool" / "state.db").exists()


def test_the_log_tells_of_worktrees(yard):
    yard = yard()
    made = yard.create()
    branch = yard.repo.git("branch", "--list", "tugplan/*", "--format=%(refname:short)").strip()
    yard.ok("worktree", "remove", made.name)
    told = yard.said("state", "log", "work")
    assert f"worktree made: {made.name}, branch {branch} from main\n" in told
    assert f"worktree removed: {made.name}, branch {branch}\n" in told


def test_before_the_first_commit_a_plan_is_recorded_without_a_base(tmp_path, tugcode):
    repo = Repo.init(tmp_path / "fresh")
    repo.plan("work", markdown("1"))
    assert tugcode("-C", repo.path, "state", "init", "work", "--json").status == 0
    shown = tugcode("-C", repo.path, "state", "show", "work", "--json").data
    assert shown["base_commit"] is None


def test_a_second_call_gets_another_one_while_the_first_is_reserved(yard):
    yard = yard()
    first, second = yard.create(), yard.create()
    assert second.name == f"{first.name}-2"


def test_a_free_worktree_is_reused_unless_a_new_one_is_asked_for(yard):
    yard = yard()
    first = yard.create()
    yard.free(first)
    data = yard.ok("worktree", "create", "work")
    assert (data["worktree_path"], data["reused"]) == (str(first), True)
    assert data["reserved_until"] is not None
    yard.free(first)
    assert yard.create("--new") != first


def test_a_reservation_ends_by_itself_after_ten_minutes(yard):
    yard = yard()
    clock = Clock()
    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}", clock=clock)
    space = Workspace(str(yard.root))
    repo, order = space.repo, create.WorktreeRequest(plans.load(space, "work"))
    first = create.create(repo, store, order)["worktree_path"]
    clock.advance(worktrees.RESERVED_SECONDS)
    second = create.create(repo, store, order)["worktree_path"]
    clock.advance(0.001)
    third = create.create(repo, store, order)
    store.close()
    assert second != first
    assert (third["worktree_path"], third["reused"]) == (first, True)


@pytest.fixture
def orders(yard):
    """So many orders for a plan, each of another request; with the repository and the store."""
    made = yard()
    space = Workspace(str(made.root))
    repo, store, plan = space.repo, space.store, plans.load(space, "work")

    def order(number: int) -> create.WorktreeRequest:
        return create.WorktreeRequest(plan, request_id=f"request {number}")

    yield made, lambda *numbers: (repo, store, [order(number) for number in numbers])
    store.close()


def test_several_are_made_in_one_go_each_for_its_own_request(orders):
    yard, ask = orders
    first = [each["worktree_path"] for each in create.create_all(*ask(1, 2, 3))]
    assert len(set(first)) == 3
    assert yard.names() == sorted(os.path.basename(path) for path in first)
    again = create.create_all(*ask(1, 2, 3, 4))
    assert [each["worktree_path"] for each in again[:3]] == first
    assert [each["reused"] for each in again] == [True, True, True, False]
    assert len(yard.names()) == 4
    kinds = "select kind, count(*) as number from events group by kind"
    assert {row["kind"]: row["number"] for row in yard.rows(kinds)} == {
        "init": 1,
        "worktree_create": 4,
        "worktree_reserve": 3,
    }
    assert yard.rows("select * from intents") == []
    fsck(yard.root)


def test_of_several_all_are_taken_away_again_if_one_cannot_be_made(orders, monkeypatch):
    yard, ask = orders
    before, made = yard.refs(), []

    def failing(repo, path, branch):
        if made:
            raise NotMade(path, reason="the disk is full")
        made.append(path)
        directory(repo, path, branch)

    directory = build.directory
    monkeypatch.setattr(build, "directory", failing)
    with pytest.raises(NotMade, match="the disk is full"):
        create.create_all(*ask(1, 2, 3))
    assert (yard.refs(), yard.names(), os.path.exists(made[0])) == (before, [], False)
    assert yard.rows("select * from intents") == []


def test_a_worktree_with_a_live_claim_is_not_reused_and_one_with_a_lapsed_claim_is(yard):
    yard = yard()
    path = yard.create("--claim", "--lease-duration", "1000")
    (path / "unfinished.txt").write_text("of step-1\n")
    assert yard.create() != path
    store_write(yard, LAPSE)
    data = yard.ok("worktree", "create", "work", "--claim")
    assert (data["worktree_path"], data["claim"]["anchor"]) == (str(path), "step-1")
    assert (path / "unfinished.txt").exists()


def store_write(yard, statement: str) -> None:
    store = open_store(f"sqlite://{yard.root / '.tugtool' / 'state.db'}")
    with store.write(KEY) as tx:
        tx.run(statement)
    store.close()


def test_what_somebody_left_uncommitted_is_not_handed_to_another(yard):
    yard = yard()
    path = yard.create()
    yard.free(path)
    (path / "leftover.txt").write_text("whose?\n")
    assert yard.create() != path


def test_a_worktree_that_is_not_sound_is_not_reused(yard):
    yard = yard()
    paths = [yard.create("--new") for _ in range(4)]
    for path in paths:
        yard.free(path)
    git("checkout", "--quiet", "--detach", cwd=paths[0])
    (paths[1] / ".git").unlink()
    yard.repo.git("worktree", "lock", str(paths[2]))
    subprocess.run(["rm", "-rf", paths[3]], check=True)
    assert yard.create() not in paths


def test_a_worktree_whose_work_has_landed_is_not_reused(yard):
    yard = yard()
    path = yard.create()
    yard.free(path)
    yard.commit(path, {"new.txt": "x"})
    yard.repo.git("merge", "--quiet", git("rev-parse", "HEAD", cwd=path).strip())
    assert yard.create() != path


def test_a_worktree_from_another_base_is_not_what_was_asked_for(yard):
    yard = yard()
    yard.repo.git("branch", "develop")
    path = yard.create()
    yard.free(path)
    other = yard.ok("worktree", "create", "work", "--base", "develop")
    assert (other["reused"], other["base_branch"]) == (False, "develop")
    assert yard.create("--base", "main") == path


def test_claim_ends_the_reservation_and_comes_with_the_answer(yard):
    yard = yard()
    data = yard.ok("worktree", "create", "work", "--claim", "--step", "step-2")
    assert data["claim"]["claimed"] is True
    assert (data["claim"]["anchor"], data["claim"]["worktree"]) == ("step-2", data["worktree_path"])
    assert yard.rows("select reserved_until from worktrees") == [{"reserved_until": None}]
    assert data["reserved_until"] is None


def test_with_nothing_to_claim_the_worktree_is_there_all_the_same(yard):
    yard = yard("1")
    yard.create("--claim")
    data = yard.ok("worktree", "create", "work", "--claim")
    assert (data["claim"]["claimed"], data["claim"]["reason"]) == (False, "no_ready_steps")
    assert Path(data["worktree_path"]).is_dir()


def test_a_refused_claim_takes_the_new_worktree_away_again(yard):
    yard = yard()
    yard.ok("state", "init", "work")
    assert "waits for" in yard.refused(
        "E053", "worktree", "create", "work", "--claim", "--step", "step-3"
    )


def test_a_refused_claim_leaves_a_worktree_that_was_there_before(yard):
    yard = yard()
    path = yard.create()
    yard.free(path)
    done = yard.run("worktree", "create", "work", "--claim", "--step", "step-3")
    assert done.codes == ["E053"]
    assert path.is_dir()


def test_options_of_claim_need_claim(yard):
    assert yard().run("worktree", "create", "work", "--step", "step-1").codes == ["E070"]


def test_the_same_request_gets_the_same_worktree_and_the_same_claim(yard):
    yard = yard()
    words = ("worktree", "create", "work", "--new", "--claim", "--request-id", "r1")
    first, again = yard.ok(*words), yard.ok(*words)
    assert again["worktree_path"] == first["worktree_path"]
    assert (again["reused"], again["claim"]["replayed"]) == (True, True)
    assert again["claim"]["attempt"] == first["claim"]["attempt"]


def test_text_says_where_to_go(yard, tugcode):
    yard = yard()
    done = tugcode("-C", yard.root, "worktree", "create", "work", "--claim")
    assert done.status == 0
    assert re.search(r"^made .*/\.tugtree/tugplan__work-\d{8}$", done.out, re.MULTILINE)
    assert "branch tugplan/work-" in done.out
    assert "claimed step-1: Part 1" in done.out


# -- what is refused -------------------------------------------------------------------


def test_an_uncommitted_plan_is_refused_with_the_command_that_commits_it(yard, monkeypatch):
    yard = yard()
    yard.repo.plan("fresh", markdown("1"))
    (yard.root / "code.txt").write_text("staged\n")
    yard.repo.git("add", "code.txt")
    assert "is not committed on main" in yard.refused("E045", "worktree", "create", "fresh")
    hint = yard.run("worktree", "create", "fresh").envelope()["issues"][0]["hint"]
    assert hint.startswith(f"git -C {yard.root} add -- .tugtool/tugplan-fresh.md && git -C ")
    subprocess.run(["sh", "-c", hint], check=True, capture_output=True)
    assert yard.repo.git("diff", "--cached", "--name-only") == "code.txt\n"
    assert yard.create(plan="fresh").is_dir()


def test_a_plan_that_differs_from_what_is_committed_is_refused(yard):
    yard = yard()
    yard.plan.write_text(markdown("1", "2"))
    message = yard.refused("E045", "worktree", "create", "work")
    assert "differs from its committed text on main" in message


def test_commit_plan_commits_that_file_alone(yard):
    yard = yard()
    yard.repo.plan("fresh", markdown("1"))
    yard.repo.write({"code.txt": "staged\n", "other.txt": "untracked\n"})
    yard.repo.git("add", "code.txt")
    data = yard.ok("worktree", "create", "fresh", "--commit-plan")
    assert data["plan_committed"] is True
    shown = yard.repo.git("show", "--name-only", "--format=%s", "main")
    assert shown.split("\n\n") == ["Plan fresh", ".tugtool/tugplan-fresh.md\n"]
    assert yard.repo.git("status", "--porcelain") == "M  code.txt\n?? other.txt\n"
    assert yard.ok("worktree", "create", "fresh", "--commit-plan")["plan_committed"] is False


def test_commit_plan_that_git_refuses_leaves_the_index_as_it_was(yard):
    yard = yard()
    yard.repo.plan("fresh", markdown("1"))
    yard.repo.git("config", "commit.gpgSign", "true")
    yard.repo.git("config", "gpg.program", "/nonexistent/gpg")
    message = yard.refused("E076", "worktree", "create", "fresh", "--commit-plan")
    assert "gpg" in message


def test_commit_plan_never_commits_on_another_branch_than_the_base(yard):
    yard = yard()
    yard.repo.git("branch", "develop")
    yard.repo.plan("fresh", markdown("1"))
    words = ("worktree", "create", "fresh", "--commit-plan", "--base", "develop")
    assert "is not committed on develop" in yard.refused("E045", *words)


def test_an_invalid_plan_is_refused_with_its_errors(yard):
    yard = yard("1 < 2", "2 < 1")
    yard.refused("E043", "worktree", "create", "work")
    assert "E011" in yard.run("worktree", "create", "work").codes
    assert not yard.has_state()


def test_a_plan_that_is_recorded_with_another_text_is_refused(yard):
    yard = yard()
    yard.ok("state", "init", "work")
    yard.repo.commit({KEY: markdown("1", "2", "3")})
    yard.refused("E048", "worktree", "create", "work")


@pytest.mark.parametrize("name", ["nowhere", "-x", "--force", "main@{u}", "ma in", ""])
def test_a_base_that_is_no_branch_is_refused(yard, name):
    assert "there is no branch" in yard().refused(
        "E031", "worktree", "create", "work", f"--base={name}"
    )


def test_the_plan_s_target_branch_is_the_base_and_has_to_exist(yard):
    yard = yard()
    head = "# Work\n\n## Plan Metadata {#plan-metadata}\n\n| Field | Value |\n|---|---|\n"
    text = head + "| Target branch | `develop` |\n\n### Step 1: One\n"
    yard.repo.commit({".tugtool/tugplan-aimed.md": text})
    assert "the plan's Target branch" in yard.refused("E031", "worktree", "create", "aimed")
    yard.repo.git("branch", "develop")
    assert yard.ok("worktree", "create", "aimed")["base_branch"] == "develop"
    undecided = text.replace("`develop`", "TBD")
    yard.repo.commit({".tugtool/tugplan-open.md": undecided})
    assert yard.ok("worktree", "create", "open")["base_branch"] == "main"


def test_on_a_detached_head_a_base_has_to_be_named(yard):
    yard = yard()
    yard.repo.git("checkout", "--quiet", "--detach")
    assert "HEAD is detached" in yard.refused("E031", "worktree", "create", "work")
    assert yard.create("--base", "main").is_dir()


def test_before_the_first_commit_there_is_nothing_to_start_from(tmp_path, tugcode):
    repo = Repo.init(tmp_path / "fresh")
    repo.plan("work", markdown("1"))
    done = tugcode("-C", repo.path, "worktree", "create", "work", "--json")
    assert done.codes == ["E031"]
    assert "no commit yet" in done.out


@pytest.mark.parametrize("version", ["2.37.9", "2.9", "1.99.1 (Apple Git-1)"])
def test_a_git_that_is_too_old_is_refused(yard, tmp_path, monkeypatch, version):
    yard = yard()
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho 'git version {version}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    done = yard.run("worktree", "create", "work")
    assert done.codes == ["E029"]
    assert "2.38 or newer" in done.out


def test_something_in_the_place_of_the_directory_is_left_alone(yard, tmp_path):
    yard = yard()
    place = yard.root / ".tugtree"
    place.write_text("mine\n")
    assert "not a directory" in yard.run("worktree", "create", "work").out
    place.unlink()
    place.symlink_to(tmp_path)
    done = yard.run("worktree", "create", "work")
    assert done.codes == ["E028"]
    assert not list(tmp_path.glob("tugplan__*"))


# -- git's own ways --------------------------------------------------------------------


def hook(yard, name: str, body: str) -> None:
    path = yard.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_hook_that_fails_leaves_nothing_behind(yard):
    yard = yard()
    yard.ok("state", "init", "work")
    hook(yard, "post-checkout", "touch made-by-hook; echo hook says no >&2; exit 3")
    message = yard.refused("E033", "worktree", "create", "work")
    assert "hook says no" in message
    assert not (yard.root / "made-by-hook").exists()


def test_a_hook_that_prints_and_makes_files_is_no_trouble(yard):
    yard = yard()
    hook(yard, "post-checkout", "echo noise; echo noise >&2; echo $1 > made-by-hook")
    path = yard.create()
    assert (path / "made-by-hook").exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("rm .git", "something else than a worktree"),
        ("git commit --quiet --allow-empty -m x", "something else than a worktree"),
        ("git symbolic-ref HEAD refs/heads/main", "it is on refs/heads/main"),
        ("rm code.txt", "files are missing from it, such as code.txt"),
        ("echo more >> .tugtool/tugplan-work.md", "differs from the agreed text"),
    ],
)
def test_what_came_out_is_looked_at_before_anybody_gets_it(yard, body, said):
    """A hook stands for whatever may go wrong without git's saying so."""
    yard = yard()
    yard.ok("state", "init", "work")
    hook(yard, "post-checkout", f"{body}\nexit 0")
    done = yard.run("worktree", "create", "work")
    assert done.codes == ["E033"]
    assert said in done.out
    assert os.listdir(yard.root / ".tugtree") == []
    assert yard.rows("select * from worktrees") == yard.rows("select * from intents") == []
    assert yard.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_a_branch_that_git_cannot_make_leaves_nothing_behind(yard):
    yard = yard()
    yard.ok("state", "init", "work")
    yard.repo.git("branch", "tugplan")
    assert "a branch is called tugplan" in yard.refused("E033", "worktree", "create", "work")


def test_a_checkout_that_fails_leaves_nothing_behind(yard):
    yard = yard()
    yard.ok("state", "init", "work")
    yard.repo.git("config", "filter.broken.clean", "cat")
    yard.repo.git("config", "filter.broken.smudge", "false")
    yard.repo.git("config", "filter.broken.required", "true")
    yard.repo.commit({".gitattributes": "code.txt filter=broken\n"})
    assert "code.txt" in yard.refused("E033", "worktree", "create", "work")


def test_locks_of_git_s_own_do_not_stop_a_creation(yard):
    yard = yard()
    for name in ("index.lock", "config.lock", "HEAD.lock"):
        (yard.root / ".git" / name).touch()
    assert yard.create().is_dir()


def test_a_lock_that_goes_away_is_waited_for_and_one_that_stays_is_named(
    yard, tmp_path, monkeypatch
):
    yard = yard()
    yard.repo.plan("fresh", markdown("1"))
    lock = yard.root / ".git" / "index.lock"
    lock.touch()
    assert "index.lock" in yard.refused("E076", "worktree", "create", "fresh", "--commit-plan")
    # Whoever holds the lock lets go once git has been refused.
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    let_go = f'case " $* " in *" add "*) rm -f {lock};; esac; exit 128'
    fake.write_text(f'#!/bin/sh\n{shutil.which("git")} "$@" || {{ {let_go}; }}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    data = yard.ok("worktree", "create", "fresh", "--commit-plan")
    assert data["plan_committed"] is True


ODD_CONFIG = {
    "checkout.defaultRemote": "nowhere",
    "push.autoSetupRemote": "true",
    "merge.ff": "only",
    "pull.rebase": "true",
    "branch.autoSetupMerge": "always",
    "branch.autoSetupRebase": "always",
    "worktree.guessRemote": "true",
    "alias.worktree": "!false",
    "alias.update-ref": "!false",
    "core.autocrlf": "true",
    "core.quotePath": "true",
    "core.precomposeUnicode": "true",
    "status.showUntrackedFiles": "no",
    "status.relativePaths": "false",
    "status.short": "true",
    "status.branch": "true",
    "diff.noprefix": "true",
    "diff.external": "false",
    "diff.mnemonicPrefix": "true",
    "color.ui": "always",
    "column.ui": "always",
    "log.showSignature": "true",
    "log.date": "relative",
    "core.pager": "false",
    "core.fsyncMethod": "batch",
    "commit.gpgSign": "true",
    "commit.verbose": "true",
    "init.defaultBranch": "odd",
    "rerere.enabled": "true",
    "core.hooksPath": "nowhere",
    "advice.detachedHead": "false",
}


@pytest.mark.parametrize("name", sampled(ODD_CONFIG, 3))
def test_odd_configuration_changes_nothing(yard, name):
    yard = yard()
    yard.repo.git("config", name, ODD_CONFIG[name])
    path = yard.create()
    assert yard.ok("worktree", "list")["worktrees"][0]["clean"] is True
    assert yard.refused("E034", "worktree", "remove", yard.root)
    (path / "new.txt").write_text("x\n")
    assert "1 file not committed: new.txt" in yard.refused("E034", "worktree", "remove", path)
    assert yard.ok("worktree", "remove", path, "--force")["salvage_ref"]


def test_line_endings_that_git_changes_do_not_make_a_plan_look_changed(yard):
    yard = yard()
    yard.repo.git("config", "core.autocrlf", "true")
    data = yard.ok("worktree", "create", "work", "--claim")
    assert b"\r\n" in (Path(data["worktree_path"]) / KEY).read_bytes()
    yard.repo.git("checkout", "--quiet", "HEAD", "--", ".")


def test_a_shallow_clone_will_do(yard, tmp_path, tugcode):
    yard = yard()
    yard.repo.commit({"more.txt": "x"})
    git(
        "clone",
        "--quiet",
        "--depth=1",
        f"file://{yard.root}",
        str(tmp_path / "shallow"),
        cwd=tmp_path,
    )
    done = tugcode("-C", tmp_path / "shallow", "worktree", "create", "work", "--claim", "--json")
    assert (done.status, done.data["claim"]["anchor"]) == (0, "step-1")


def test_a_repository_with_the_other_hash_will_do(tmp_path, tugcode, yard):
    repo = Repo.init(tmp_path / "sha256", "--object-format=sha256")
    repo.commit({KEY: markdown("1", "2 < 1")})
    done = tugcode("-C", repo.path, "worktree", "create", "work", "--json")
    path = Path(done.data["worktree_path"])
    assert len(git("rev-parse", "HEAD", cwd=path).strip()) == 64
    (path / "x").write_text("x")
    done = tugcode("-C", repo.path, "worktree", "remove", path, "--force", "--json")
    assert done.data["salvage_ref"]
    assert tugcode("-C", repo.path, "worktree", "cleanup", "--json").status == 0


def test_a_submodule_is_a_repository_of_its_own(yard, tmp_path, tugcode):
    yard = yard()
    outer = Repo.init(tmp_path / "outer")
    outer.commit()
    outer.git("submodule", "--quiet", "add", str(yard.root), "part")
    data = tugcode("-C", outer.path / "part", "worktree", "create", "work", "--json").data
    assert data["worktree_path"].startswith(str(outer.path / "part" / ".tugtree"))
    assert tugcode("-C", data["worktree_path"], "state", "claim", "work", "--json").data["claimed"]


def test_from_a_linked_worktree_another_one_is_made_beside_it_and_not_inside(yard):
    yard = yard()
    first = yard.create()
    data = yard.ok("worktree", "create", "work", at=first)
    assert Path(data["worktree_path"]).parent == first.parent
    assert data["base_branch"] == "main"


# -- names -----------------------------------------------------------------------------

SLUGS = {
    "option": "--force",
    "spaces": "two  words",
    "quotes": 'it\'s "so"',
    "newline": "two\nlines",
    "long": "n" * 240,
    "long non-ASCII": "ö" * 115,
    "umlauts": "Größenwahn",
    "emoji": "plan 🚢 ahoy",
    "combining": "e\u0301tape",
    "right to left": "\u202eabc",
    "dots": "..a..b..",
    "lock": "x.lock",
    "at": "a@{b}~1^:?*[\\",
    "nothing left": "???",
    "glob": "[a-z]*",
    "colon": ":(top)x",
    "escape": "a\x1b[31mb",
}


@pytest.mark.parametrize("name", sampled(SLUGS, 3))
def test_any_name_of_a_plan_gives_a_sound_branch_and_directory(yard, name):
    yard = yard()
    slug = SLUGS[name]
    plan = yard.repo.plan(slug, markdown("1"))
    data = yard.ok("worktree", "create", plan, "--commit-plan", "--claim")
    path = Path(data["worktree_path"])
    assert data["claim"]["claimed"] is True
    yard.repo.git("check-ref-format", f"refs/heads/{data['branch_name']}")
    assert git("symbolic-ref", "HEAD", cwd=path).strip() == f"refs/heads/{data['branch_name']}"
    assert len(os.fsencode(path.name)) < 150
    yard.commit(path, {"x": "x"})
    gone = yard.ok("worktree", "remove", data["branch_name"], "--force")
    assert gone["salvage_ref"] in yard.refs()
    assert not path.exists()
    fsck(yard.root)


def test_plans_with_nearly_the_same_name_do_not_share_anything(yard):
    yard = yard()
    paths = []
    for slug in ("a b", "a?b", "A-B", "a-b"):
        plan = yard.repo.plan(slug, markdown("1"))
        paths.append(yard.ok("worktree", "create", plan, "--commit-plan")["worktree_path"])
    assert len({path.casefold() for path in paths}) == 4


@pytest.mark.parametrize(
    "slug",
    [
        "",
        ".",
        "-",
        "..",
        "a" * 400,
        "a..lock.lock",
        ".lock",
        "\udce4",
        "ß" * 90,
        "a" * 95 + ".lock",
    ],
)
def test_a_safe_name_is_never_empty_long_or_special(yard, slug):
    safe = branches.safe(slug)
    assert 0 < len(safe.encode()) <= branches.LONGEST_BYTES
    assert safe[0] not in ".-"
    yard().repo.git("check-ref-format", f"refs/tug/{safe}/{safe}")


# -- many at once ----------------------------------------------------------------------


@pytest.mark.proof(share=0)
@pytest.mark.parametrize("words", [["--claim"], []], ids=["claim", "create"])
def test_sixteen_creations_at_once_all_succeed_and_are_sixteen_different_ones(yard, words):
    yard = yard(*(str(n) for n in range(1, 17)))
    crew = [process(yard.root, "worktree", "create", "work", *words) for _ in range(16)]
    data = [answered(each) for each in crew]
    assert len({each["worktree_path"] for each in data}) == 16
    assert len({each["branch_name"] for each in data}) == 16
    assert not any(each["reused"] for each in data)
    if words:
        assert len({each["claim"]["anchor"] for each in data}) == 16
    listed = yard.ok("worktree", "list")["worktrees"]
    assert [(tree["exists"], tree["clean"]) for tree in listed] == [(True, True)] * 16
    fsck(yard.root)


@pytest.mark.parametrize("base", ["main~0", "main^0", "main@{0}", "main..main", "main:"])
def test_a_commit_that_is_no_branch_is_no_base(yard, base):
    yard = yard()
    yard.refused("E031", "worktree", "create", "work", "--base", base)
    yard.refused("E031", "dash", "create", "fix", "--base", base)
