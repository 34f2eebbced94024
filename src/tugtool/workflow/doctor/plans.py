"""Checks of plans, claims, the log and the set-up."""

from __future__ import annotations

from functools import partial

from tugtool import state
from tugtool.errors import merge_command, plan_argument, quoted
from tugtool.errors.git import NoBaseBranch
from tugtool.errors.state import move_command
from tugtool.git import command as git
from tugtool.git import refs, status, worktrees
from tugtool.plan import catalog
from tugtool.state import proofs, record, reviews
from tugtool.state import worktrees as state_worktrees
from tugtool.store.owners import on_other_machine
from tugtool.system import agent_config, os
from tugtool.system import files as system_files
from tugtool.workflow import needs, plans, records
from tugtool.workflow.commit import log
from tugtool.workflow.doctor import error, machine, note, warning
from tugtool.workflow.sentences import unpushed
from tugtool.workflow.worktree import branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.store import Row
    from tugtool.workflow.doctor import DoctorFinding, Subject


def gone(subject: Subject) -> Iterator[DoctorFinding]:
    """Find plans without a file, or whose file the next claim would not find."""
    keys = list(record.plans(subject.store))
    places = worktrees.where(subject.repo, keys)
    renamed = records.renamed(subject.repo, subject.store, keys)
    for key in keys:
        if key in renamed:
            said = f"{key} is recorded, and its file is {renamed[key]} now"
            yield warning(said, hint=move_command(key, renamed[key]))
        elif key not in places:
            said = f"{key} is recorded, and its file is on no branch and in no worktree"
            yield warning(said, hint="tugcode prune --dry-run")
        elif not os.path.lexists(os.path.join(subject.repo.root, key)):
            yield from _not_in_main(subject, key)


def _not_in_main(subject: Subject, key: str) -> Iterator[DoctorFinding]:
    plan = record.find_plan(subject.store, key)
    if plan is None or plan["status"] != "active":
        return
    root = subject.repo.root
    said = f"{key} is being carried out, and its file is not in {root}; claims from there fail"
    known = git.attempt("cat-file", "-e", f"HEAD:{key}", cwd=root).status == 0
    if known:
        # A person probably deleted it by mistake.
        said += "; git restore brings it back"
        yield warning(said, hint=f"git -C {quoted(root)} status --short -- {quoted(key)}")
    else:
        yield note(said, hint=f"git log --all --oneline -- {quoted(key)}")


def changed(subject: Subject) -> Iterator[DoctorFinding]:
    """Find plans whose file differs from the agreed text."""
    for plan, trees in state_worktrees.of_every_plan(subject.store):
        key = str(plan["plan_path"])
        if plan["status"] == "done":
            yield from _outgrown(subject, key)
        if plan["status"] != "active":
            continue
        tops = (subject.top_of(row["path"]) for row in trees)
        for top in (subject.repo.root, *(top for top in tops if top)):
            path, is_main = os.path.join(top, key), top == subject.repo.root
            if os.path.lexists(path) and catalog.file_fingerprint(path) != plan["plan_hash"]:
                where, at = ("", "") if is_main else (f" in {top}", f" --worktree {quoted(top)}")
                said = f"{key}{where} was changed since its execution began; claims are refused"
                yield warning(said, hint=f"tugcode diff {plan_argument(key)}{at}")


def _outgrown(subject: Subject, key: str) -> Iterator[DoctorFinding]:
    facts = proofs.facts(subject.store, key)
    base = branches.outgrown(subject.repo, facts)
    if base is not None:
        said, hint = branches.outgrown_text(facts, base)
        yield warning(f"{said}, and it is done", hint=hint)


def merging(subject: Subject) -> Iterator[DoctorFinding]:
    """Find done plans that have not landed, and work that landed before its plan was done."""
    for plan, trees in state_worktrees.of_every_plan(subject.store):
        key = str(plan["plan_path"])
        if plan["status"] == "done" and plan["merged_commit"] is None and trees:
            hint = f"tugcode merge {plan_argument(key)} --dry-run"
            audit = proofs.audit_of(subject.store, key)
            if audit is not None:
                hint = f"tugcode review {plan_argument(key)}"
            but = "" if audit is None else f", nor approved: {audit['summary']}"
            yield note(f"{key} is done, and not merged{but}", hint=hint)
        if plan["merged_commit"] is not None and subject.settings.is_set("remote.name"):
            yield from _unpushed(subject, key)
        if plan["status"] == "active":
            for tree in trees:
                if _landed(subject, tree):
                    said = f"{tree['branch']} is on {tree['base_branch']}, and {key} is not done"
                    hint = f"tugcode reconcile {plan_argument(key)} --dry-run"
                    yield note(said, hint=hint)


def _unpushed(subject: Subject, key: str) -> Iterator[DoctorFinding]:
    """Find a merge that the remote lacks, as far as this clone knows."""
    merge = proofs.facts(subject.store, key).unpushed
    if merge is not None:
        found = {"unpushed_merge": merge}
        needs.settle_merge(subject, found)
        if found:
            yield warning(f"{key} is {unpushed(merge)}", hint=merge_command(key, push=True))


def _landed(subject: Subject, tree: Row) -> bool:
    root = subject.repo.root
    tip, onto = (refs.branch_tip(root, tree[name]) for name in ("branch", "base_branch"))
    if tip is None or onto is None or tip == tree["base_commit"]:
        return False
    return refs.is_ancestor(root, tip, onto)


def claims(subject: Subject) -> Iterator[DoctorFinding]:
    """Find expired leases, dead holders and missing worktrees of holders."""
    now = record.now(subject.store)
    # Without steps that no claim takes: `parked` reports those.
    for row, lost in reviews.claims(subject.store):
        plan, anchor, owner = row["plan_path"], row["anchor"], row["claimed_by"]
        until = row["lease_expires_at"]
        hint = f"tugcode why {plan_argument(plan)} {quoted(anchor)}"
        what = f"{anchor} of {plan} is held by {owner}"
        if row["heartbeat_at"] > now:
            said = f"{what} until {until}, by a clock that was ahead of this one"
            yield note(said, hint=hint, repair=partial(_judge_from_now, subject, plan))
        elif lost == "expired":
            said = f"{what}, whose lease ran out at {until}; the next claim takes it"
            yield note(said, hint=hint)
        elif lost == "gone":
            yield note(f"{what}, whose process is gone; the next claim takes it", hint=hint)
        elif on_other_machine(owner):
            # Only its own machine can tell more.
            continue
        elif subject.top_of(owner) is None and not os.path.isdir(owner):
            said = (
                f"{what}, a worktree that is not there; no other worker can claim it before {until}"
            )
            yield warning(said, hint=hint)


def _judge_from_now(subject: Subject, plan: str) -> str:
    state.judge_from_now(subject.live, plan)
    return "its lease lasts from now on"


def parked(subject: Subject) -> Iterator[DoctorFinding]:
    """Find steps that wait for a person."""
    for row in reviews.parked(subject.store):
        said = f"{row['anchor']} of {row['plan_path']} is parked: {row['park_reason']}"
        yield warning(said, hint=f"tugcode review {plan_argument(row['plan_path'])}")


_MARKERS = (b"<<<<<<< ", b">>>>>>> ")


def logs(subject: Subject) -> Iterator[DoctorFinding]:
    """Check the log of every worktree."""
    for facts in subject.worktrees():
        path = os.path.join(facts["worktree"], log.PATH)
        if os.path.lexists(path):
            yield from _judge_log(subject, path)


def _judge_log(subject: Subject, path: str) -> Iterator[DoctorFinding]:
    text = system_files.read(path, max_bytes=system_files.WHOLE_BYTES)
    lines = text.count(b"\n")
    most_lines = subject.settings.number("log.max_lines")
    most_bytes = subject.settings.number("log.max_bytes")
    if lines > most_lines or len(text) > most_bytes:
        said = f"{path} has {lines} lines and {len(text)} bytes, over its limits"
        yield note(f"{said}; the next commit rotates it", hint="tugcode config")
    if any(line.startswith(_MARKERS) for line in text.split(b"\n")):
        said = f"{path} has conflict markers: some merge did not keep both sides"
        yield warning(said, hint=f"grep -nE '^(<<<<<<<|>>>>>>>) ' {quoted(path)}")


#: This file is optional.
_OPTIONAL = ".tugtool/tugplan-skeleton.md"


def files(subject: Subject) -> Iterator[DoctorFinding]:
    """Find files that `tugcode init` would make."""

    def repair() -> str:
        made = [name for name, missing in plans.init_repository(subject.repo).items() if missing]
        return f"made {', '.join(made)}" if made else "it is there now"

    report = plans.init_repository(subject.repo, check=True)
    missing = [name for name, is_missing in report.items() if is_missing]
    if missing:
        severity = note if missing == [_OPTIONAL] else warning
        said = f"missing or incomplete: {', '.join(missing)}"
        yield severity(said, hint="tugcode init", repair=repair)


def ignored(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that git ignores the state and the worktrees."""
    wanted = [f".tugtool/{name}" for name in plans.STATE_FILES] + [".tugtree/any"]
    words = ("check-ignore", "--no-index", "-z", "--stdin")
    done = git.attempt(*words, cwd=subject.repo.root, given="".join(f"{w}\0" for w in wanted))
    seen = set(done.out.split("\0"))
    files = "".join(f"{file.key}\0" for file in catalog.plans(subject.repo))
    hidden = git.attempt("check-ignore", "-z", "--stdin", cwd=subject.repo.root, given=files)
    for key in hidden.out.split("\0")[:-1]:
        rule = status.ignored_by(subject.repo.root, key)
        said = f"git ignores {key} ({rule}), so it cannot be committed and carried out"
        yield warning(said, hint=f"git check-ignore --verbose -- {quoted(key)}")
    lacking = [name for name in wanted if name not in seen]
    if lacking:
        hint = f"git check-ignore --verbose --no-index {' '.join(lacking)}"
        shown = ", ".join(lacking).replace(".tugtree/any", ".tugtree/")
        # Missing rules of ours are reported, and written, by `files`.
        yield warning(f"git does not ignore {shown}", hint=hint)


def tracked(subject: Subject) -> Iterator[DoctorFinding]:
    """Find files of the state that were added to git."""
    names = [f".tugtool/{name}" for name in plans.STATE_FILES]
    words = ("--literal-pathspecs", "ls-files", "-z", "--", *names, ".tugtree")
    for name in git.run(*words, cwd=subject.repo.root).split("\0"):
        if name:
            # Once git forgets a link that it brought, the link would pass for a person's own.
            is_link = os.path.islink(os.path.join(subject.repo.root, name))
            hint = f"git rm {'' if is_link else '--cached '}-- {quoted(name)}"
            said = f"git tracks {name}, which belongs to this machine alone"
            yield error(said, hint=hint)


def settings(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that `.tugtool/config.toml` can be read."""
    if subject.unset is not None:
        broken = subject.unset
        yield error(f"{broken.code}: {broken.message}", hint=broken.hint or "tugcode config")


def runs(subject: Subject) -> Iterator[DoctorFinding]:
    """Find what would stop `implement`, except problems of a plan, which other checks find."""
    for wrong in (
        *machine.of_commits(subject.repo),
        *machine.of_programs(subject.settings, agent_config.ROLES),
    ):
        yield warning(wrong.message, hint=wrong.hint)


def targets(subject: Subject) -> Iterator[DoctorFinding]:
    """Find active plans whose target branch is missing."""
    repo, most = subject.repo, subject.settings.number("plan.max_bytes")
    for plan, _ in state_worktrees.of_every_plan(subject.store):
        file = catalog.PlanFile(plan["plan_path"], os.path.join(repo.root, plan["plan_path"]))
        if plan["status"] != "active" or not os.path.isfile(file.path):
            continue
        target = branches.target_branch(plans.parse(repo, file, most, allow_empty=True))
        try:
            if target is not None:
                branches.branch(repo, asked=None, target=target)
        except NoBaseBranch as wrong:
            yield warning(f"{file.key}: {wrong.message}", hint=wrong.hint)


def log_merging(subject: Subject) -> Iterator[DoctorFinding]:
    """Check that git keeps both sides' entries when it merges the log."""
    out = git.run("check-attr", "-z", "merge", "--", log.PATH, cwd=subject.repo.root)
    value = out.split("\0")[2]
    if value == "union":
        return
    hint = f"git check-attr merge -- {log.PATH}"
    if value == "unspecified":
        said = f"{log.PATH} is not merged by git's union driver, so branches will be in conflict"
        yield warning(said, hint=hint)
    else:
        yield note(f"{log.PATH} has the merge rule {value}, not union", hint=hint)
