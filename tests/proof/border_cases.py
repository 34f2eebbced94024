"""Every command that writes, with what has to happen before it; and every one that does not."""

from borders import PLAN, Case

from support.commands import plainest
from tugtool.cli.parse import FAMILIES

PLAN_FILE, GONE_FILE = ".tugtool/tugplan-work.md", ".tugtool/tugplan-gone.md"
INIT = (("root", "state", "init", "work"),)
HELD = (*INIT, ("red", "state", "claim", "work", "--step", "step-1"))
BATCH = ("red", "state", "update", "work", "step-1", "--batch", "--complete-remaining", "<[]")
CLOSED = (*HELD, BATCH)
DEFERRED = '<[{"kind": "checkpoint", "ordinal": 0, "status": "deferred", "reason": "later"}]'
COMPLETE = ("red", "state", "complete", "work", "step-1")
DONE = (*CLOSED, COMPLETE)
JUDGED = (*HELD, (*BATCH[:-1], DEFERRED), COMPLETE)
REVISED = (*INIT, ("write", "root", PLAN_FILE, PLAN.replace("of 3", "of three")))
FORGET = ("remove", ".tugtool/state.*", ".git/tugtool")
MOVED = (*DONE, ("root", "state", "export", "--output", "x.jsonl"), FORGET)
DROPPED = (("write", "root", GONE_FILE, PLAN), ("root", "state", "init", "gone"))
DROPPED = (*INIT, *DROPPED, ("remove", GONE_FILE))
RENAMED = (*HELD, ("write", "root", GONE_FILE, PLAN), ("remove", PLAN_FILE))
LOST = (*DONE, ("remove", ".tugtool/state.db*"))
DIRTY = (*HELD, ("write", "red", "new.txt", "new\n"))
READY = (*CLOSED, ("write", "red", "new.txt", "new\n"))
COMMIT = ("commit", "--plan=work", "--step=step-1", "--message=work")
TREE = (("root", "worktree", "create", "work"),)
DASH = (("root", "dash", "create", "fix"),)
DASH_FILE = ("write", "root", ".tugtree/tugdash__fix/new.txt", "new\n")
ROUND = (*DASH, DASH_FILE, ("root", "dash", "commit", "fix", "--message", "x"))
SALVAGED = (*DIRTY, ("root", "state", "reset", "work", "step-1"))
SYNC = (*READY, ("red", *COMMIT), ("blue", "state", "claim", "work", "--step", "step-2"))
ALONE = (
    *(("write", "root", ".tugtool/tugplan-one.md", "# One\n\n### Step 1: Only\n"),),
    *(("git", "root", "add", "."), ("git", "root", "commit", "-qm", "plan")),
    *(("root", "worktree", "create", "one"), ("one", "state", "claim", "one")),
    ("one", "commit", "--plan=one", "--step=step-1", "--message=all"),
)
# What is checked is new: the base branch has moved since.
CHECK = '[merge]\ncheck = ["test -e only.txt"]\n'
CHECKED = (
    *ALONE[:-1],
    *(("write", "one", "only.txt", "only\n"), ALONE[-1]),
    ("write", "root", ".tugtool/config.toml", CHECK),
    *(("git", "root", "add", "."), ("git", "root", "commit", "-qm", "check")),
)
PROVED = (*ALONE, FORGET, ("root", "state", "init", "one"))
NOTED = frozenset({"events"})


def _says(*words: str) -> frozenset[str]:
    return frozenset(words)


#: What it is -> how it is done. `again`: what docs/reference/state.md says of a repetition.
CASES = {
    "init": Case(
        ("state", "init", "work"),
        again=_says(
            *("already_initialized", "steps_created", "substeps_created"),
            "checklist_items_created",
        ),
        parts=True,
    ),
    "init of a changed plan": Case(
        ("state", "init", "work", "--force"),
        REVISED,
        again=_says("revised", "changed", "checklist_items_created", "kept"),
    ),
    "accepted text": Case(
        ("plan", "accept", "work"),
        REVISED,
        again=_says("revised", "changed", "checklist_items_created", "kept"),
    ),
    "claim": Case(
        ("state", "claim", "work", "--request-id", "r"), INIT, at="red", again=_says("replayed")
    ),
    "claim by force": Case(
        ("state", "claim", "work", "--step", "step-1", "--force", "--request-id", "r"),
        HELD,
        at="blue",
        again=_says("replayed"),
        parts=True,
    ),
    "start": Case(("state", "start", "work", "step-1"), HELD, at="red"),
    "heartbeat": Case(("state", "heartbeat", "work", "step-1"), HELD, at="red"),
    "update": Case(
        ("state", "update", "work", "step-1", "--all", "completed"),
        HELD,
        at="red",
        again=_says("updated"),
        traces=NOTED,
    ),
    "batch": Case(
        ("state", "update", "work", "step-1", "--batch", "--complete-remaining"),
        HELD,
        at="red",
        given="[]",
        again=_says("updated"),
        traces=NOTED,
    ),
    # Whoever says something twice has said it twice.
    "artifact": Case(
        ("state", "artifact", "work", "step-1", "--kind", "note", "--summary", "x"),
        HELD,
        at="red",
        again=_says("artifact_id"),
        traces=NOTED | {"step_artifacts"},
    ),
    "complete": Case(
        ("state", "complete", "work", "step-1"), CLOSED, at="red", again=_says("already_completed")
    ),
    "complete with a commit": Case(
        ("state", "complete", "work", "step-1", "--commit", "HEAD"),
        CLOSED,
        at="red",
        again=_says("already_completed"),
    ),
    "complete by force": Case(
        ("state", "complete", "work", "step-1", "--force", "enough"),
        HELD,
        at="red",
        again=_says("already_completed", "forced", "incomplete_items_auto_completed"),
    ),
    "verify": Case(
        ("state", "verify", "work", "step-1", "--yes"),
        HELD,
        at="red",
        again=_says("ticked", "checkpoints", "artifact_id"),
        traces=frozenset({"step_artifacts"}),
        parts=True,
    ),
    "release": Case(("state", "release", "work", "step-1"), HELD, at="red", again=_says("E050")),
    "reset": Case(
        ("state", "reset", "work", "step-1"),
        HELD,
        again=_says("reset", "was_claimed_by"),
        parts=True,
    ),
    "reopen": Case(
        ("state", "reopen", "work", "step-1", "--reason", "x"), DONE, again=_says("E050")
    ),
    "pause": Case(("state", "pause", "work"), INIT, again=_says("changed")),
    "resume": Case(
        ("state", "resume", "work"),
        (*INIT, ("root", "state", "pause", "work")),
        again=_says("changed"),
    ),
    "accept": Case(
        ("state", "review", "work", "--accept", "--step", "step-1"), JUDGED, again=_says("already")
    ),
    "reject": Case(
        ("state", "review", "work", "--reject", "--step", "step-1", "--note", "no"),
        JUDGED,
        again=_says("E066"),
    ),
    "accept all": Case(
        ("state", "review", "work", "--accept-all", "--yes"),
        JUDGED,
        again=_says("items", "confirmed"),
    ),
    "retry": Case(
        ("state", "review", "work", "--retry", "--yes", "--note", "again"),
        (*HELD, ("red", "state", "release", "work", "step-1", "--park", "--reason", "x")),
        again=_says("steps", "confirmed"),
    ),
    "archive": Case(("state", "archive", "work"), DONE, again=_says("changed")),
    "import": Case(("state", "import", "x.jsonl"), MOVED, again=_says("E064"), parts=True),
    "move": Case(
        ("state", "move", "work", "gone"), RENAMED, again=_says("changed", "moved_from"), parts=True
    ),
    # What was written down before somebody died is kept beside what is written down again.
    "prune": Case(
        ("state", "prune"),
        DROPPED,
        again=_says("pruned", "exported_to"),
        apart=frozenset({"files"}),
        parts=True,
    ),
    # Each time attempts are raised once more, and what lay there is set aside once more.
    "restore": Case(
        ("state", "restore"),
        LOST,
        again=_says("E077"),
        apart=frozenset({"files", "steps"}),
        parts=True,
    ),
}

#: The same for what also touches git, or files, or runs what somebody else wrote.
GIT_CASES = {
    "init of a repository": Case(
        ("init",), (("remove", ".tugtool/.gitignore"),), again=_says("created", "kept")
    ),
    "plan new": Case(("plan", "new", "fresh"), again=_says("E042")),
    "plan import": Case(
        ("plan", "import", "--from", "github", "issues.json"),
        (("write", "root", "issues.json", '[{"number": 1, "title": "x"}]'),),
        again=_says("E042"),
    ),
    "export": Case(("state", "export", "--output", "y.jsonl"), DONE, again=_says("E074")),
    "report": Case(("report", "work", "--output", "report.md"), DONE, again=_says("E074")),
    "exec": Case(
        ("state", "exec", "work", "--step", "step-1", "--", "true"),
        INIT,
        at="red",
        again=_says("attempt"),
        apart=NOTED | {"attempts", "steps"},
    ),
    "reconcile": Case(
        ("state", "reconcile", "one"), PROVED, again=_says("reconciled", "reconciled_count")
    ),
    "claim of dirty work": Case(
        ("state", "claim", "work", "--step", "step-1", "--force", "--request-id", "r"),
        DIRTY,
        at="blue",
        again=_says("replayed"),
    ),
    "reset of dirty work": Case(
        ("state", "reset", "work", "step-1"),
        DIRTY,
        again=_says("reset", "was_claimed_by", "salvage_ref"),
    ),
    "release of dirty work": Case(
        ("state", "release", "work", "step-1", "--force"),
        DIRTY,
        at="blue",
        again=_says("E050"),
        mended=True,
    ),
    "worktree create": Case(
        ("worktree", "create", "work"),
        again=_says("branch_name", "worktree_path"),
        traces=frozenset({"worktrees", "status", "trees", "refs"}),
    ),
    "worktree remove": Case(("worktree", "remove", "red", "--force"), DIRTY, again=_says("E034")),
    "worktree cleanup": Case(("worktree", "cleanup"), TREE),
    "worktree sync": Case(
        ("worktree", "sync", "work"), SYNC, at="blue", again=_says("merged", "up_to_date")
    ),
    "salvage apply": Case(
        ("worktree", "salvage", "apply", "work"),
        SALVAGED,
        at="blue",
        again=_says("files", "already_there"),
    ),
    "salvage prune": Case(("worktree", "salvage", "prune"), SALVAGED),
    "commit": Case(
        COMMIT,
        READY,
        at="red",
        again=_says("committed", "already_completed", "files_staged", "log_updated"),
    ),
    "worktree clean": Case(
        ("worktree", "clean"), SALVAGED, at="red", again=_says("cleaned", "files", "salvage_ref")
    ),
    "next": Case(("next", "work"), INIT, at="red", again=_says("resumed")),
    # Without a command in a checkpoint: one that is run again leaves a second verification.
    "done": Case(("done", "--all"), ALONE[:-1], at="one", again=_says("E050")),
    "merge": Case(("merge", "one"), ALONE, again=_says("E062")),
    "merge with a check": Case(("merge", "one"), CHECKED, again=_says("E062")),
    "dash create": Case(("dash", "create", "fix"), again=_says("created")),
    "dash commit": Case(
        ("dash", "commit", "fix", "--message", "x"), (*DASH, DASH_FILE), again=_says("recovered")
    ),
    "dash join": Case(("dash", "join", "fix"), ROUND, again=_says("E056")),
    "dash release": Case(
        ("dash", "release", "fix", "--force"), (*DASH, DASH_FILE), again=_says("E056")
    ),
    "doctor": Case(("doctor", "--fix"), SALVAGED),
}
GIT_CASES = {name: case._replace(git=True, parts=True) for name, case in GIT_CASES.items()}

#: What a client asks before a tool call.
ASKED = '<{"tool_name": "Read", "tool_input": {"file_path": "code.txt"}, "cwd": "."}'
#: Commands that are killed elsewhere -> by which test, or at which of the named points.
ELSEWHERE = {
    "implement": "implement.",
    "serve": "server/test_process.py::test_a_killed_server_leaves_nothing_in_the_way",
    "open": "server/test_process.py::test_a_killed_server_leaves_nothing_in_the_way",
    "serve token add": "server/test_process.py::test_a_token_is_added_whole_or_not_at_all",
    "serve token revoke": "server/test_process.py::test_a_token_is_added_whole_or_not_at_all",
    # Changes a client's settings, by the client's own commands.
    "plugin install": "agents/test_plugin_cli.py::"
    "test_an_installation_that_is_killed_at_any_command_is_made_whole_by_another",
}
_KILLED = {case.command for case in (*CASES.values(), *GIT_CASES.values())} | ELSEWHERE.keys()
#: How the others are run, which change nothing; they have no border worth dying at.
READING = {
    **{path: tuple(plainest(path, plan="work")) for path in FAMILIES if path not in _KILLED},
    "validate": ("validate", "work", "--level=lenient"),
    "worktree salvage show": ("worktree", "salvage", "show", "work"),
    "dash list": ("dash", "list", "--all"),
    "dash show": ("dash", "show", "fix"),
    # Whoever asked goes on without an answer as the client's own settings say.
    "hook pre-tool-use": ("hook", "pre-tool-use", ASKED),
    "serve token list": ("serve", "token", "list"),
    "completion": ("completion", "bash"),
    "complete-words": ("complete-words", "--", "plan", "sh"),
}
