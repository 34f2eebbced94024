"""commit and merge."""

from __future__ import annotations

from tugtool.cli import output
from tugtool.cli.output import Answer, answer
from tugtool.cli.parse import ATTEMPT, PLAN, WORKTREE, Call, Command, Option
from tugtool.errors import Usage, listing, plan_argument, quoted
from tugtool.errors.state import PeopleOnly
from tugtool.system import config
from tugtool.system.text import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tugtool.schemas import Commit as CommitAnswer
    from tugtool.schemas import Merge, MergeBranch, MergeLeftItem


def commit(call: Call) -> Answer:
    """Commit a step's work and complete the step."""
    from tugtool.workflow import commit as operation

    words, anchor = call.text("message"), call.text("step")
    if words is None or not anchor:
        raise Usage("commit needs --step and --message", command="commit")
    space = call.workspace()
    data, issues = operation.commit_for_caller(
        space,
        call.text("plan"),
        call.anchor(),
        words,
        summary=call.text("summary"),
        attempt=call.number("attempt"),
        verify=call.flag("verify"),
        strict=call.flag("strict"),
        hear=_progress_printer(call),
    )
    after = None if data["state_update_failed"] else space.back_up
    return answer(
        data, lambda: output.lines([_text(data), *_still_open(data, call)]), issues, after=after
    )


def _progress_printer(call: Call) -> Callable[[str], None]:
    """A function that shows people which checkpoint command runs."""

    def tell(command: str) -> None:
        if not call.json:
            output.mention(f"tugcode: running {output.clean(command)}\n")

    return tell


def _still_open(data: CommitAnswer, call: Call) -> Iterator[str]:
    """The open items of the step, and the commands that settle them."""
    items = data.get("open_items")
    if not items:
        return
    from tugtool.plan import checkpoints  # Loaded only if the step is still open.

    at = call.text("worktree")
    plan, where = plan_argument(data["plan_path"]), f" --worktree {quoted(at)}" if at else ""
    settled: dict[tuple[str, str], str] = {}
    for each in items:
        anchor, kind, ordinal = each["step_anchor"], each["kind"], each["ordinal"]
        yield f"  open: {anchor} {kind} {ordinal}: {each['text']}"
        proved_by = checkpoints.kind_of(each["text"]) if kind == "checkpoint" else ""
        status = "deferred" if proved_by == checkpoints.PERSON else "completed"
        if proved_by == checkpoints.COMMAND:
            settled[anchor, "verify"] = " --yes"
        else:
            words = settled.get((anchor, status), "")
            settled[anchor, status] = f"{words} --{kind} {ordinal} {status}"
    for (anchor, how), words in settled.items():
        command = "verify" if how == "verify" else "update"
        reason = ' --reason "it waits for a person"' if how == "deferred" else ""
        yield f"  next: tugcode {command} {plan} {quoted(anchor)}{words}{reason}{where}"
    step = f"{plan} {quoted(data['anchor'])}"
    yield f"  then: tugcode complete {step} --commit {data['commit_hash']}{where}"


def _text(data: CommitAnswer) -> str:
    remain = output.remaining(data.get("remaining_steps", 0))
    if not data["committed"]:
        return f"completed already {data['anchor']}; {remain}"
    verb = "found" if data["recovered"] else "committed"
    text = f"{verb} {(data['commit_hash'] or '')[:12]} for {data['anchor']}"
    if data["state_update_failed"]:
        return f"{text}; the step is NOT completed ({data['state_failure_reason']})"
    return f"{text}, which is completed; {remain}"


def merge(call: Call) -> Answer:
    """Merge a done plan's branches into its base branch."""
    from tugtool.workflow import merge as operation

    space = call.workspace()
    how = {name: call.flag(name) for name in ("squash", "dry_run", "unproven", "push")}
    # Refuse workers: a worker would merge its own work.
    if how["unproven"] and config.variable("TUGCODE_ATTEMPT") is not None:
        raise PeopleOnly("merge --unproven")
    data, issues = operation.merge(space, space.plan(call.text("plan")), **how)
    after = None if how["dry_run"] else space.back_up
    found = answer(data, lambda: output.lines(_lines(data)), issues, after=after)
    # A dry run answers whether it would go through.
    found.status = int(data.get("pushed") is False or bool(data["conflicts"]))
    return found


def _lines(data: Merge) -> list[str]:
    from tugtool.workflow import sentences

    plan, base = data["plan_path"], data["base_branch"]
    if data["merged"]:
        head = f"{plan} is merged to {base} as {data['merged_commit']}"
    elif data["conflicts"]:
        head = f"{plan} cannot be merged to {base} as it stands"
    else:
        head = f"{plan} would be merged to {base}{', squashed' if data['squash'] else ''}"
    return [
        head,
        *(f"  {_branch(part)}" for part in data["branches"]),
        *(
            f"  conflict: {each['branch_name']} in {listing(each['files'])}"
            + (f" (steps {listing(each['steps'])})" if each["steps"] else "")
            for each in data["conflicts"]
        ),
        *(
            f"  {_UNSETTLED[each['cause']]}: {each['step_anchor']} {each['kind']}"
            f" {each['ordinal']}: {each['text']}"
            for each in data["unsettled"]
        ),
        *(f"  passed: {ran['command']}" for ran in data["checks"]),
        *(f"  removed {path}" for path in data["removed_worktrees"]),
        *(line for each in data["left"] for line in _left(each, merged=data["merged"])),
        *_saved(data["salvages"]),
        *(f"  {each}" for each in sentences.of_push(data)),
    ]


def _left(each: MergeLeftItem, *, merged: bool) -> Iterator[str]:
    """A branch that stays, the reason, and the command that settles it."""
    there = each["worktree_path"]
    yield f"  {'left' if merged else 'would leave'} {each['branch_name']}: {each['reason']}"
    if there and "uncommitted work" in each["reason"]:
        yield f"    next: cd {quoted(there)} && tugcode worktree clean (it saves the work first)"


_UNSETTLED = {"deferred": "waits for a person", "unproven": "not proven"}


def _saved(number: int) -> list[str]:
    """The number of salvage refs that are left; most have landed by now."""
    are = "is" if number == 1 else "are"
    said = f"  {many(number, 'salvage ref')} of the plan {are} left: tugcode worktree salvage prune"
    return [f"{said} drops what has landed"] if number else []


def _branch(part: MergeBranch) -> str:
    steps = listing(part["steps"]) if part["steps"] else "no steps"
    there = ", is there already" if part["already_contained"] else ""
    return f"{part['branch_name']}: {many(part['commits'], 'commit')}, {steps}{there}"


COMMANDS = (
    Command(
        "commit",
        commit,
        """\
Adds an entry to .tugtool/log.md, commits everything in the worktree with trailers that name
step, plan and claim, and completes the step with the commit. If git refuses, the log is
unchanged. If the state cannot be updated, the commit stays: exit status 0, and
`state_update_failed` with the reason. Run it again, also after a crash: it commits nothing
twice. It works only in a linked worktree.""",
        (
            Option("--plan PLAN", "the plan; may be left out where exactly one is active"),
            Option("--step ANCHOR", "the step that was done"),
            Option("--message TEXT", "the commit's message, without Tugtool's trailers"),
            Option("--summary TEXT", "for the log (default: the message's first line)"),
            Option("--verify", "first run the commands of its checkpoints, like state verify"),
            Option("--strict", "commit nothing while items are open"),
            ATTEMPT,
            WORKTREE,
        ),
        examples="""\
tugcode commit --plan parser --step step-3 --message "feat: read numbers"\
  # done, in git and in the state""",
    ),
    Command(
        "merge",
        merge,
        """\
Run it in the main worktree, which must be clean and on the base branch. It first merges all
branches of the plan, in the order of their steps' dependencies, without touching anything; on a
conflict it names the files and steps. It refuses while items wait for a person, or command
checkpoints have no passing run; --unproven merges anyway and records who did. It runs the
commands of `[merge] check` on the merged result, in a worktree of their own; if one fails,
nothing moves. Then it moves the base branch once and removes the merged worktrees and branches;
it keeps those with uncommitted work or a live claim. If a merge is stopped, run it again. With
`[remote]` it first fetches the plan's branches from there; only --push pushes, never by force.""",
        (
            PLAN,
            Option("--squash", "one commit for the plan, with the trailers of every step"),
            Option("--unproven", "merge although items wait for a person or are not proven"),
            Option("--dry-run", "change nothing; show what it would merge, and conflicts"),
            Option("--push", "then push the base branch to the remote, even if it is merged"),
            WORKTREE,
        ),
        examples="""\
tugcode merge parser --dry-run  # will it go through?
tugcode merge parser  # one merge commit per branch
tugcode merge parser --squash  # one commit for all""",
    ),
)
