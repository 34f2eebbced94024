"""The dash commands."""

from __future__ import annotations

from tugtool.cli import output
from tugtool.cli.output import Answer, answer
from tugtool.cli.parse import WORKTREE, Argument, Call, Command, Option
from tugtool.errors import Usage
from tugtool.errors.git import MessageRefused
from tugtool.system import os
from tugtool.system.text import many
from tugtool.workflow import dash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tugtool.cli.draw.canvas import Canvas, Span
    from tugtool.schemas import DashCommit, DashList, DashListDash, DashShow


#: The most files that are named of one round; the others are counted.
_MOST_FILES = 8


def dash_create(call: Call) -> Answer:
    """Make a dash, or find the active one with that name."""
    from tugtool.workflow.dash import lifecycle

    order = lifecycle.DashRequest(
        call.text("name") or "", base=call.text("base"), description=call.text("description")
    )
    space = call.workspace()
    data = lifecycle.create(space.repo, space.store, order)
    verbs = (
        (data["created"], "made"),
        (data["repaired"], "repaired"),
        (data["adopted"], "took up"),
    )
    verb = next((word for done, word in verbs if done), "there is already")
    number = f", {many(data['rounds'], 'round')} so far" if data["rounds"] else ""
    lines = [
        f"{verb} the dash {data['name']}: {data['worktree_path']}",
        f"branch {data['branch_name']} from {data['base_branch']}{number}",
    ]
    return Answer(data, lambda: output.lines(lines), after=space.back_up)


def dash_commit(call: Call) -> Answer:
    """Commit the work in a dash, and record the round."""
    from tugtool.workflow.dash import rounds

    given = call.text("message")
    if given is None:
        raise Usage("dash commit needs --message", command=call.path)
    space = call.workspace()
    name, asked, summary = map(call.text, ("name", "instruction", "summary"))
    try:
        data = rounds.commit(space, name, given, instruction=asked, summary=summary)
    except MessageRefused as error:
        raise _with_help(call, error) from error
    return answer(data, _committed(data), after=space.back_up)


def _with_help(call: Call, error: MessageRefused) -> MessageRefused:
    """The refusal of a message, with the help of this command as the hint."""
    return MessageRefused(error.message, command=call.path)


def _committed(data: DashCommit) -> str:
    number, name = data["round"]["number"], data["name"]
    if not data["committed"]:
        return f"round {number} of {name} is recorded; nothing was changed in it"
    verb = "found" if data["recovered"] else "committed"
    files = many(len(data["round"]["files"]), "file")
    return f"{verb} {(data['commit_hash'] or '')[:12]} as round {number} of {name}: {files}"


def dash_join(call: Call) -> Answer:
    """Merge a dash into its base branch."""
    from tugtool.workflow.dash import lifecycle

    space = call.workspace()
    try:
        name, words = call.text("name") or "", call.text("message")
        squash = not call.flag("no_squash")
        data = lifecycle.join(space, name, words=words, squash=squash)
    except MessageRefused as error:
        raise _with_help(call, error) from error
    there = "was there already" if data["already_contained"] else "is joined"
    lines = [f"{data['name']} {there}: {data['base_branch']} is at {data['joined_commit']}"]
    lines += [f"  left {data['worktree_path']}: {reason}" for reason in data["left"]]
    return Answer(data, lambda: output.lines(lines), after=space.back_up)


def dash_release(call: Call) -> Answer:
    """Give a dash up."""
    from tugtool.workflow.dash import lifecycle

    space = call.workspace()
    data = lifecycle.release_dash(space, call.text("name") or "", force=call.flag("force"))
    saved = f"; its work is saved as {data['salvage_ref']}" if data["salvage_ref"] else ""
    return answer(data, f"released {data['name']}{saved}", after=space.back_up)


def dash_list(call: Call) -> Answer:
    """Show the dashes."""
    from tugtool.workflow.dash import rounds

    space = call.workspace()
    data = rounds.list_dashes(space.repo, space.store, every=call.flag("all"))
    return Answer(data, lambda: _drawn(lambda canvas: draw_dashes(canvas, data)))


def _drawn(draw: Callable[[Canvas], None]) -> str:
    from tugtool.cli.draw import canvas as canvases

    canvas = canvases.for_output()
    draw(canvas)
    return canvas.text()


def draw_dashes(canvas: Canvas, data: DashList) -> None:
    """Each dash in two lines, and the next command."""
    for each in data["dashes"]:
        _head(canvas, each)
    for name in data["unrecorded"]:
        branch = canvas.said(dash.branch_of(name))
        take = f"tugcode dash create {canvas.said(name)}"
        spans = (("bold", branch), ("you", "  not recorded: "), ("bold", take))
        canvas.write(*spans, hang=2)
    active = [each["name"] for each in data["dashes"] if each["status"] == "active"]
    if not data["dashes"] and not data["unrecorded"]:
        canvas.write(("", "there is no dash"))
        canvas.next("tugcode dash create NAME")
    elif active:
        canvas.write()
        canvas.next(f"tugcode dash show {canvas.said(active[0])}")


def _head(canvas: Canvas, each: DashListDash) -> None:
    """A dash's name, description and progress."""
    active = each["status"] == "active"
    style, sign = canvas.sign("work" if active else "completed")
    about = f"  {each['description']}" if each["description"] else ""
    name = ("bold", canvas.said(each["name"]))
    canvas.write((style, f"{sign} "), name, ("", canvas.said(about)), hang=2)
    canvas.facts(*_facts(canvas, each), lead=[("", "  ")], hang=2)


def _facts(canvas: Canvas, each: DashListDash) -> Iterator[Span]:
    from tugtool.cli.draw import canvas as canvases

    yield "", many(each["rounds"], "round")
    if each["status"] != "active":
        yield "dim", f"from {canvas.said(each['base_branch'])}"
        how = f" as {each['joined_commit'][:10]}" if each["joined_commit"] else ""
        how = f"; saved as {each['salvage_ref']}" if each["salvage_ref"] else how
        ended = f" {canvases.local(each['ended_at'])}" if each["ended_at"] else ""
        yield "", canvas.said(f"{each['status']}{ended}{how}")
        return
    yield "dim", canvas.said(f"{each['branch_name']} from {each['base_branch']}")
    if each["ahead"] is not None:
        yield "", f"{each['ahead']} ahead, {each['behind']} behind"
    yield "", f"last activity {canvases.local(each['updated_at'])}"
    style, work = _work(each)
    yield style, canvas.said(work)


def _work(each: DashListDash) -> Span:
    if each["exists"] is None:
        return "dim", f"on {each['worktree_path'].partition(':')[0]}"
    if each["releasing"]:
        again = f"tugcode dash release {each['name']}"
        return "you", f"a release was interrupted; {again} goes on with it"
    back = f"tugcode dash create {each['name']} brings it back"
    if each["tip"] is None:
        return "wrong", f"its branch is gone; {back}"
    if not each["exists"]:
        return "wrong", f"its directory is gone; {back}"
    where = "" if each["on_branch"] else ", and its worktree is on another branch"
    if not each["changed_files"]:
        return "done", f"everything is committed{where}"
    return "you", f"{many(each['changed_files'], 'file')} not committed{where}"


def dash_show(call: Call) -> Answer:
    """Show one dash and its rounds."""
    from tugtool.workflow.dash import rounds

    space = call.workspace()
    data = rounds.show_dash(space, call.text("name"))
    return Answer(data, lambda: _drawn(lambda canvas: draw_dash(canvas, data, space.repo.root)))


def draw_dash(canvas: Canvas, data: DashShow, root: str) -> None:
    """One dash: its place, and the instruction and result of each round."""
    from tugtool.cli.draw import canvas as canvases

    said = canvas.said
    _head(canvas, data)
    if data["status"] == "active":
        near = os.path.relpath(data["worktree_path"], root)
        canvas.write(("dim", f"  {said(near)}"), hang=4)
    for each in data["history"]:
        commit = each["commit_hash"][:10] if each["commit_hash"] else "nothing changed"
        canvas.write()
        when = canvases.local(each["recorded_at"])
        canvas.facts(("", commit), ("dim", when), lead=[("bold", f"round {each['number']}  ")])
        if each["instruction"]:
            canvas.write(("dim", "  asked  "), ("", said(each["instruction"])), hang=9)
        if each["summary"]:
            canvas.write(("dim", "  done   "), ("", said(each["summary"])), hang=9)
        for file in each["files"][:_MOST_FILES]:
            canvas.write(("dim", f"  {file['status']:<9}"), ("", said(file["path"])), hang=11)
        if len(each["files"]) > _MOST_FILES:
            canvas.write(("dim", f"  and {len(each['files']) - _MOST_FILES} more files"))
    if data["status"] == "active":
        canvas.write()
        canvas.next(f"tugcode dash join {said(data['name'])}")


NAME = Argument("name", "the dash: its name, its branch or its directory", kind="dash")
OWN_NAME = Argument("[name]", "the dash (default: the one whose worktree you are in)", kind="dash")

COMMANDS = (
    Command(
        "dash create",
        dash_create,
        """\
Makes the branch tugdash/<name> and the directory .tugtree/tugdash__<name>. If an active dash
has that name, the answer is that dash (`created` is false), and a lost worktree or branch is
made again. If there is a branch tugdash/<name> without a record, the command records it with the
rounds that its commits name. If anything fails, nothing is left behind.""",
        (
            Argument("name", "small letters, digits and hyphens, 50 at most, such as fix-typo"),
            Option("--base BRANCH", "the branch to start from (default: the main worktree's)"),
            Option("--description TEXT", "its subject; the title of its commit on the base branch"),
            WORKTREE,
        ),
        examples="""\
tugcode dash create fix-typo  # a place to work in
tugcode dash create retry --base develop --description "Retry uploads"  # from another branch""",
    ),
    Command(
        "dash commit",
        dash_commit,
        """\
Commits everything in the dash's worktree, through git's hooks, with the trailers Tug-Dash and
Tug-Round, and records the round: instruction, summary, files and commit. A round that changed
nothing is recorded without a commit. Run it in the dash's worktree or in the main one. After a
crash, run it again: it commits nothing twice.""",
        (
            OWN_NAME,
            Option("--message TEXT", "the commit message"),
            Option("--instruction TEXT", "the instruction for the round"),
            Option("--summary TEXT", "the result of the round (default: the message's first line)"),
            WORKTREE,
        ),
        examples="""\
tugcode dash commit --message "Fix the typo"  # in the dash's worktree
tugcode dash commit retry --message "Retry" --instruction "retry 3 times"  # with what was asked""",
    ),
    Command(
        "dash join",
        dash_join,
        """\
Makes one commit with the trailer Tug-Dash on the base branch. The main worktree must be clean
and on the base branch, and everything in the dash committed. The command finds conflicts before
it touches anything. Then it removes the dash's worktree and branch. If a join is stopped, run it
again.""",
        (
            NAME,
            Option("--message TEXT", "the message (default: from its description and commits)"),
            Option("--no-squash", "make a merge commit, which keeps the commits of the rounds"),
            WORKTREE,
        ),
        examples="""\
tugcode dash join fix-typo  # one commit on the base branch
tugcode dash join retry --message "Retry uploads" --no-squash  # with its history""",
    ),
    Command(
        "dash release",
        dash_release,
        """\
Removes its worktree and its branch. It refuses while the dash has uncommitted files or commits
that are not on its base branch; --force first saves them under the ref that the answer names.""",
        (NAME, Option("--force", "save its work under a salvage ref, then remove it"), WORKTREE),
        examples="tugcode dash release fix-typo  # nothing came of it",
    ),
    Command(
        "dash list",
        dash_list,
        """\
Shows the active ones, each with its rounds, its uncommitted files, its commits ahead of and
behind its base branch, and the time of its last change. Changes nothing.""",
        (Option("--all", "show joined and released dashes too"), WORKTREE),
        examples="""\
tugcode dash list  # the active dashes
tugcode dash list --all  # the ended ones too""",
    ),
    Command(
        "dash show",
        dash_show,
        """\
Shows the active dash with that name, or else the last one: its rounds with instruction,
summary, files and commit. Changes nothing.""",
        (OWN_NAME, WORKTREE),
        examples="tugcode dash show fix-typo  # what was done so far",
    ),
)
