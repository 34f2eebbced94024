"""worktree create, list, remove, clean, cleanup, sync, publish; worktree salvage."""

from __future__ import annotations

from tugtool import errors
from tugtool.cli import output
from tugtool.cli.output import Answer, answer, clean
from tugtool.cli.parse import (
    ANY_PLAN,
    LEASE,
    MAX_BYTES,
    PLAN,
    WORKTREE,
    Argument,
    Call,
    Command,
    Option,
)
from tugtool.system import clock
from tugtool.system.text import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tugtool import schemas


#: Options that need --claim.
_OF_CLAIM = ("step", "lease_duration", "wait", "holder_pid")


def worktree_create(call: Call) -> Answer:
    """Make a worktree or take a free one; with --claim also claim a step."""
    from tugtool.workflow import plans
    from tugtool.workflow.worktree import create

    extra = [key for key in _OF_CLAIM if key in call.values and not call.flag("claim")]
    if extra:
        raise errors.Usage(f"--{extra[0].replace('_', '-')} goes with --claim", command=call.path)
    space = call.workspace()
    order = create.WorktreeRequest(
        plans.load(space, call.text("plan") or "", max_bytes=call.number("max_bytes")),
        base=call.text("base"),
        new=call.flag("new"),
        commit_plan=call.flag("commit_plan"),
        request_id=call.text("request_id"),
        step=call.anchor() or None,
        announce=None if call.json else lambda said: output.mention(f"{output.clean(said)}\n"),
    )
    data, issues = create.create_and_claim(space, order, _terms(call))
    return answer(data, lambda: _created(data), issues, after=space.back_up)


def _terms(call: Call) -> dict[str, Any] | None:
    if not call.flag("claim"):
        return None
    from tugtool.cli.state import claim_terms, holder_pid

    return {**claim_terms(call), "holder_pid": holder_pid(call)}


def _created(data: schemas.WorktreeCreate) -> str:
    verb = "reuses" if data["reused"] else "made"
    import shlex

    lines = [
        f"{verb} {data['worktree_path']}",
        f"branch {data['branch_name']} from {data['base_branch']}",
        f"{len(data['completed_steps'])} of {data['total_steps']} steps completed, "
        f"{len(data['ready_steps'])} ready",
    ]
    lines += [f"setup: {shlex.join(e['command'])} ({e['seconds']:.1f} s)" for e in data["setup"]]
    lines += [f"copied {name}" for name in data["copied"]]
    if data["resumes"] is not None:
        lines.append(f"continue there with the uncommitted work on {data['resumes']}")
    text = output.lines(lines)
    if data["claim"] is not None:
        from tugtool.cli.state import claim_text

        text += claim_text(data["claim"])
    return text


def worktree_list(call: Call) -> Answer:
    """Show every worktree."""
    from tugtool.workflow import worktree

    space = call.workspace()
    data = worktree.list_worktrees(space.repo, space.store)

    def text() -> str:
        from tugtool.cli.draw import status
        from tugtool.state import history

        # By the clock of the leases, which may be a server's.
        known = space.store.exists()
        now = (
            history.last_change(space.store)[1]
            if known
            else clock.text(clock.system_milliseconds())
        )
        return status.worktrees(data, now)

    return Answer(data, text)


def worktree_remove(call: Call) -> Answer:
    """Remove a worktree."""
    from tugtool.workflow.worktree import remove

    space = call.workspace()
    name, force = call.text("name") or "", call.flag("force")
    data = remove.remove(space.repo, space.store, name, cwd=call.cwd, force=force)
    saved = f"; its work is saved as {data['salvage_ref']}" if data["salvage_ref"] else ""
    return answer(data, f"removed {data['worktree_path']}{saved}")


def worktree_clean(call: Call) -> Answer:
    """Save the uncommitted work in the caller's worktree, and clean it."""
    from tugtool.workflow.worktree import remove

    space = call.workspace()
    data = remove.clean(space)
    if not data["cleaned"]:
        return answer(data, f"{data['worktree_path']} is clean; next: tugcode next")
    lines = [
        f"cleaned {data['worktree_path']}; all that lay there is saved as {data['salvage_ref']}",
        *(f"a repository inside is now {path}" for path in data["kept"]),
        f"to bring it back: tugcode worktree salvage apply {data['salvage_ref']}",
        "next: tugcode next",
    ]
    return Answer(data, lambda: output.lines(lines))


def worktree_cleanup(call: Call) -> Answer:
    """Remove worktrees and branches that have landed."""
    from tugtool.workflow.worktree import remove

    space = call.workspace()
    dry_run = call.flag("dry_run")
    data = remove.cleanup(space.repo, space.store, cwd=call.cwd, dry_run=dry_run)
    return Answer(data, lambda: _cleaned(data))


def _cleaned(data: schemas.WorktreeCleanup) -> str:
    verb = "would remove" if data["dry_run"] else "removed"
    lines = [f"{verb} {_title(each)}" for each in data["removed"]]
    lines += [f"kept {_title(each)}: {'; '.join(each['reasons'])}" for each in data["kept"]]
    return output.lines(lines) or "nothing to clean up\n"


def _title(each: schemas.WorktreeCleanupKeptItem) -> str:
    return each["worktree_path"] or f"the branch {each['branch_name']}"


def worktree_sync(call: Call) -> Answer:
    """Merge the commits that the caller's steps depend on."""
    from tugtool.workflow.worktree import sync

    everything = call.flag("all")
    data = sync.sync_caller(call.workspace(), call.text("plan"), everything=everything)
    if data["up_to_date"]:
        return answer(data, "nothing to merge")
    names = ", ".join(each["step_anchor"] for each in data["merged"])
    lines = [f"merged {names} into {data['branch_name']}"] if names else []
    if data["plan_commit"]:
        lines.append(f"committed the agreed text of {data['plan_path']} as {data['plan_commit']}")
    return Answer(data, lambda: output.lines(lines))


def worktree_publish(call: Call) -> Answer:
    """Push the branches of this clone's worktrees, and saved work."""
    from tugtool.workflow import remote

    data, issues = remote.publish(call.workspace(), call.text("plan"))

    def text() -> str:
        output.print_issues(issues)
        return output.lines(_published(data))

    return Answer(data, text, issues=issues, status=1 if issues else 0)


def _published(data: schemas.WorktreePublish) -> Iterator[str]:
    for each in data["branches"]:
        steps = f" ({', '.join(each['steps'])})" if each["steps"] else ""
        if each["problem"] is None:
            yield f"{data['remote']} has {each['branch_name']} at {each['commit'][:12]}{steps}"
    for ref in data["salvage_refs"]:
        yield f"{data['remote']} has {ref}"
    if data["remote"] is None:
        yield "commits stay on this machine: [remote] name is not set in .tugtool/config.toml"
    elif not data["branches"] and not data["salvage_refs"]:
        yield "nothing to publish"


#: Lines of a diff are not cut: a cut diff does not apply.
_LONGEST_LINE = 1 << 24


def worktree_salvage_list(call: Call) -> Answer:
    """List saved work."""
    from tugtool.workflow.salvage import saved

    space = call.workspace()
    data = saved.list_salvages(space.repo, space.plan_or_all(call.text("plan")))

    def text() -> str:
        from tugtool.cli.draw import status

        return status.salvages(data, space.repo.root)

    return Answer(data, text, issues=saved.broken(space.repo))


def worktree_salvage_show(call: Call) -> Answer:
    """Show the files of saved work."""
    from tugtool.workflow.salvage import saved

    space = call.workspace()
    data = saved.show_salvage(space.repo, call.text("ref") or "", patch=call.flag("patch"))
    lines = _salvage_lines(data, space.repo.root)
    return Answer(data, lambda: output.lines(lines) + _patch(data))


def _salvage_lines(data: schemas.WorktreeSalvageShow, root: str) -> Iterator[str]:
    from tugtool.cli.draw import status

    yield data["salvage_ref"]
    yield f"  {status.whose(data, root)}"
    if data["base_commit"] is not None:
        yield f"  on top of {data['base_commit']}"
    for each in data["files"]:
        binary = each["insertions"] is None
        size = "binary" if binary else f"+{each['insertions']} -{each['deletions']}"
        yield f"  {each['status'].replace('_', ' ')}: {each['path']} ({size})"
    yield f"  {many(len(data['files']), 'file')}, +{data['insertions']} -{data['deletions']}"


def _patch(data: schemas.WorktreeSalvageShow) -> str:
    lines = (data["patch"] or "").splitlines()
    return "".join(clean(line.expandtabs(), _LONGEST_LINE) + "\n" for line in lines)


def worktree_salvage_apply(call: Call) -> Answer:
    """Apply saved work to the caller's worktree."""
    from tugtool.workflow.salvage import saved

    data = saved.apply_for_caller(call.workspace(), call.text("ref") or "")
    if data["already_there"]:
        return answer(data, f"all of {data['name']} is there already")
    files = many(len(data["files"]), "file")
    return answer(data, f"applied {data['name']}: {files} changed, nothing committed")


def worktree_salvage_prune(call: Call) -> Answer:
    """Drop saved work that has landed or that is named."""
    from tugtool.workflow.salvage import saved

    space = call.workspace()
    names, dry_run = call.words("ref"), call.flag("dry_run")
    data = saved.prune(space.repo, space.store, names, actor=space.owner, dry_run=dry_run)
    return Answer(data, lambda: output.lines(_pruned(data)), issues=saved.broken(space.repo))


def _pruned(data: schemas.WorktreeSalvagePrune) -> Iterator[str]:
    verb = "would drop" if data["dry_run"] else "dropped"
    for each in data["pruned"]:
        yield f"{verb} {each['name']} (commit {each['commit']})"
    for each in data["kept"]:
        yield f"kept {each['name']}: {each['reason']}"
    if not data["pruned"] and not data["kept"]:
        yield "nothing was saved"


SALVAGE = Argument("ref", "the saved work: its ref, its name, or the beginning of one")


COMMANDS = (
    Command(
        "worktree create",
        worktree_create,
        """\
Checks and records the plan, like state init. Makes the branch tugplan/<slug>-<date> and the
directory .tugtree/tugplan__<slug>-<date>, with -2, -3 if that is taken; or takes a free worktree
of the plan, without a live claim or a reservation. Reserves it for you for 10 minutes, or until
the first claim from it. The plan must be committed on the base branch. If anything fails,
nothing is left behind.""",
        (
            PLAN,
            Option(
                "--base BRANCH",
                "the base branch (default: the plan's Target branch, else the main worktree's)",
            ),
            Option("--new", "make one, even if another is free"),
            Option("--commit-plan", "first commit the plan file, and nothing else"),
            Option("--claim", "also claim a step from it; takes the options below"),
            Option("--step ANCHOR", "with --claim: only this step"),
            LEASE,
            Option("--wait SECONDS", "with --claim: wait this long for a step"),
            Option("--holder-pid PID", "with --claim: the process that will do the work"),
            Option("--request-id ID", "the same id again returns the same worktree and claim"),
            MAX_BYTES,
            WORKTREE,
        ),
        examples="""\
tugcode worktree create parser  # a place to work in
tugcode worktree create parser --claim --json  # and the first step
tugcode worktree create parser --base develop --new  # another, from develop""",
    ),
    Command(
        "worktree list",
        worktree_list,
        """\
Shows each with its branch, its base and the commits ahead and behind, its uncommitted files, the
steps it holds and the end of its reservation. Changes nothing.""",
        (WORKTREE,),
        examples="tugcode worktree list  # all worktrees",
    ),
    Command(
        "worktree remove",
        worktree_remove,
        """\
Refuses while the worktree has a live claim, uncommitted or untracked files, or commits that are
not on its base branch (merged, squashed or rebased). --force releases its claims and first saves
its files and commits under the ref that the answer names.""",
        (
            Argument("name", "the worktree: its path, its directory's name, or its branch"),
            Option("--force", "save its work under a salvage ref, then remove it"),
            WORKTREE,
        ),
        examples="""\
tugcode worktree remove tugplan__parser-20260223  # it is merged
tugcode worktree remove tugplan/parser-20260223  # the same, by its branch""",
    ),
    Command(
        "worktree clean",
        worktree_clean,
        """\
For a worktree with uncommitted work of a step that it lost; state claim refuses to mix it with
another step (E037). Makes sure that a salvage ref has every file, then resets the worktree to its
HEAD. Ignored files stay. Refuses while the worktree holds a step.""",
        (WORKTREE,),
        examples="tugcode worktree clean  # before the next claim",
    ),
    Command(
        "worktree cleanup",
        worktree_cleanup,
        """\
Removes a worktree or branch only if git proves that its commits, or their content, are on the
base branch. For each other one it gives the reason.""",
        (Option("--dry-run", "change nothing; list what it would remove"), WORKTREE),
        examples="""\
tugcode worktree cleanup --dry-run  # which ones?
tugcode worktree cleanup  # after a merge""",
    ),
    Command(
        "worktree sync",
        worktree_sync,
        """\
Merges the commits of dependencies from other worktrees (`missing_commits` of state claim) into
the branch of this one: all of them, or none if one is in conflict. Then commits the plan's agreed
text, if this worktree has an earlier one. With --all it merges the commits of every completed
step, so that you can look at the whole.""",
        (ANY_PLAN, Option("--all", "merge every completed step, not only dependencies"), WORKTREE),
        examples="""\
tugcode worktree sync parser  # after claim listed missing commits
tugcode worktree sync parser --all  # all completed work, before an audit""",
    ),
    Command(
        "worktree publish",
        worktree_publish,
        """\
With `[remote]`: pushes the branches of this clone's worktrees and the work saved under
refs/tug/salvage/ to the remote, never by force, and records which steps are published. commit
does that by itself; use this after a push that failed, or if the remote has lost a branch. If the
remote refuses a branch, the others are pushed all the same. Exit status 1 if one was refused.""",
        (ANY_PLAN, WORKTREE),
        examples="""\
tugcode worktree publish parser  # after the network is back
tugcode worktree publish --json  # of every plan""",
    ),
    Command(
        "worktree salvage list",
        worktree_salvage_list,
        """\
When a worktree loses a step (another worker claims it, a person resets it or releases it by
force, or the worktree is removed by force), Tugtool saves the uncommitted work there under a ref
below refs/tug/salvage/. This command lists those refs, the newest first. Changes nothing.""",
        (Argument("[plan]", "only saved work of this plan"), WORKTREE),
        examples="""\
tugcode worktree salvage list  # all saved work
tugcode worktree salvage list parser --json  # of one plan, for a program""",
    ),
    Command(
        "worktree salvage show",
        worktree_salvage_show,
        """\
Shows its worker, its base commit, and every file that it changes, untracked ones included.
Changes nothing. For the exact bytes of a diff, use git: git diff REF^ REF.""",
        (SALVAGE, Option("--patch", "also print the changes"), WORKTREE),
        examples="""\
tugcode worktree salvage show 20260223T120000000Z-step-3-attempt-1  # by its name
tugcode worktree salvage show parser/2026 --patch  # by the beginning of it""",
    ),
    Command(
        "worktree salvage apply",
        worktree_salvage_apply,
        """\
Merges the saved changes into the files of the worktree, as uncommitted changes: new, changed
and deleted files, modes and symbolic links. All of them or none: on a conflict the worktree is
unchanged, and the refusal names the files. The index and the ref are not touched. Running it
again changes nothing.""",
        (SALVAGE, WORKTREE),
        examples="""\
tugcode worktree salvage apply 20260223T120000000Z-step-3-attempt-1\
  # as previous_attempt of state claim says""",
    ),
    Command(
        "worktree salvage prune",
        worktree_salvage_prune,
        """\
Without names it drops only saved work that git proves to be on a base branch, together with its
parent commits. Named work is dropped even if it has not landed; that is for people, and refused
if TUGCODE_ATTEMPT is set. Until git's next garbage collection you can restore the commit that
the answer names.""",
        (
            Argument("[ref...]", "the saved work: its ref, name or beginning"),
            Option("--dry-run", "change nothing; list what it would drop"),
            WORKTREE,
        ),
        examples="""\
tugcode worktree salvage prune --dry-run  # what has landed
tugcode worktree salvage prune  # drop it""",
    ),
)
