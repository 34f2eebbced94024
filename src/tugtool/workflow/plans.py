"""Read, parse, check and commit a plan file; `tugcode init`."""

from __future__ import annotations

from tugtool.errors import (
    NotInitialised,
    OutsideRepository,
    PlanInvalid,
    PlanNotFound,
    TugError,
    Unreadable,
    plan_argument,
    quoted,
)
from tugtool.errors.git import PlanUncommitted
from tugtool.git import command as git
from tugtool.git import refs, status
from tugtool.plan import catalog
from tugtool.system import config, crash, files, os
from tugtool.workflow.worktree import branches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Literal

    from tugtool.git import Repository
    from tugtool.plan.catalog import PlanFile
    from tugtool.plan.model import Diagnostic, Plan
    from tugtool.schemas import Init, InitClaude, Issue, PlanNew, Validate, ValidatePlan
    from tugtool.workflow.workspace import Workspace
    from tugtool.workflow.worktree.create import WorktreeRequest

    Level = Literal["lenient", "normal", "strict"]


#: The limit for one plan, which can have half a million mistakes.
MOST_FINDINGS = 1000
_SEVERITIES = ("error", "warning", "info")


class LoadedPlan:
    """A plan file as read: its place, text, meaning and diagnostics."""

    __slots__ = ("file", "hash", "issues", "parsed", "text")

    def __init__(self, file: PlanFile, data: bytes, *, level: str = "lenient") -> None:
        self.file = file
        self.text = files.text(file.path, data)
        self.hash = catalog.fingerprint(data)
        self.parsed = parse_text(self.text)
        self.issues = issues_of(self.parsed, file.key, level)


def load(space: Workspace, name: str, *, max_bytes: int | None = None) -> LoadedPlan:
    """Return the plan that a name means; refuse an invalid one."""
    try:
        file = catalog.resolve(space.repo, name, cwd=space.cwd)
    except PlanNotFound as error:
        known = space.recorded(name) if space.settings.state_url() else None
        if known is not None:
            said = "is not here, and its state is: this clone may be old"
            error.message, error.hint = f"the file of {plan_argument(known)} {said}", "git pull"
        raise
    most = max_bytes or space.settings.number("plan.max_bytes")
    data = files.read(file.path, max_bytes=most, raise_with="--max-bytes N")
    loaded = LoadedPlan(file, data, level=space.settings.word("plan.validation_level"))
    if not is_sound(loaded.issues):
        raise PlanInvalid(file.key, diagnostics=loaded.issues)
    return loaded


def read(
    repo: Repository, name: str | None, *, cwd: str, max_bytes: int | None = None
) -> tuple[PlanFile, Plan]:
    """Return the plan that a name means, or the only one; diagnostics do not matter."""
    file = catalog.only(repo) if name is None else catalog.resolve(repo, name, cwd=cwd)
    return file, parse(repo, file, limit(repo, max_bytes))


def parse(repo: Repository, file: PlanFile, max_bytes: int, *, allow_empty: bool = False) -> Plan:
    """Parse a plan file of the repository."""
    text = catalog.plan_text(catalog.inside(repo, file), max_bytes=max_bytes)
    if not allow_empty and not text.strip():
        raise Unreadable(file.key, "is empty", hint="tugcode plan new SLUG")
    return parse_text(text)


def parse_text(text: str) -> Plan:
    """Parse a plan's text."""
    # Imported here: commands are declared without it, and `re` is slow to load.
    from tugtool.plan import parser

    return parser.parse(text)


def limit(repo: Repository, asked: int | None) -> int:
    """Return the size limit of a plan file."""
    return asked or config.load(repo.root).number("plan.max_bytes")


def issues_of(plan: Plan, file: str, level: str) -> list[Issue]:
    """Return the diagnostics of a plan as entries of `issues`."""
    from tugtool.plan import rules

    return [issue_of(each, file, level) for each in rules.check(plan, level)]


def is_sound(issues: Sequence[Issue]) -> bool:
    """Return whether a plan with these issues may be recorded."""
    return not any(issue["severity"] == "error" for issue in issues)


def refuse_unfilled(plan: LoadedPlan) -> None:
    """Refuse an unfilled skeleton, which is valid but not a plan."""
    titles = {step.line: step.title.strip() for step in plan.parsed.every_step()}
    blank = [line for line, title in titles.items() if title[:1] == "<" and title[-1:] == ">"]
    if blank:
        found = issues_of(plan.parsed, plan.file.key, "normal")
        told = [issue for issue in found if issue.get("line") in blank]
        errors: list[Issue] = [{**issue, "severity": "error"} for issue in told]
        raise PlanInvalid(plan.file.key, diagnostics=errors)


def validate(
    repo: Repository, names: Sequence[str], *, cwd: str, level: Level, max_bytes: int | None = None
) -> tuple[Validate, list[Issue]]:
    """Check the named plans, or all. Return the verdict on each, and the findings."""
    chosen = [catalog.resolve(repo, name, cwd=cwd) for name in names]
    most = limit(repo, max_bytes)
    rows: list[ValidatePlan] = []
    issues: list[Issue] = []
    for file in chosen if names else catalog.plans(repo):
        found, plan = _judge(repo, file, level, most)
        issues += found[:MOST_FINDINGS]
        rows.append(_verdict(file, plan, found))
    return {"level": level, "valid": all(row["valid"] for row in rows), "plans": rows}, issues


def _judge(
    repo: Repository, file: PlanFile, level: str, most: int
) -> tuple[list[Issue], Plan | None]:
    try:
        plan = parse(repo, file, most, allow_empty=True)
    except TugError as error:
        return [{**error.issue(), "file": file.key}], None
    return issues_of(plan, file.key, level), plan


def _verdict(file: PlanFile, plan: Plan | None, found: Sequence[Issue]) -> ValidatePlan:
    counts = {s: sum(issue["severity"] == s for issue in found) for s in _SEVERITIES}
    return {
        "plan_path": file.key,
        "valid": not counts["error"],
        "errors": counts["error"],
        "warnings": counts["warning"],
        "infos": counts["info"],
        "left_out": max(0, len(found) - MOST_FINDINGS),
        "steps": len(plan.steps) if plan else None,
    }


def new(repo: Repository, slug: str, *, title: str | None, today: str) -> PlanNew:
    """Start a plan from the skeleton, for the branch that is checked out."""
    branch = refs.current_branch(repo.worktree)
    file = catalog.new(repo, slug, title=title, today=today, branch=branch)
    command = f"tugcode validate {file.slug}"
    return {"plan_path": file.key, "file": file.path, "slug": file.slug, "next": command}


def issue_of(diagnostic: Diagnostic, file: str, level: str) -> Issue:
    """Return one diagnostic as an entry of `issues`."""
    from tugtool.plan import rules

    issue: Issue = {
        "code": diagnostic.code,
        "severity": rules.severity(diagnostic.code, level),
        "message": diagnostic.message,
        "file": file,
        "line": diagnostic.line,
    }
    if diagnostic.suggestion:
        issue["hint"] = diagnostic.suggestion
    if diagnostic.anchor is not None:
        issue["anchor"] = diagnostic.anchor
    return issue


STATE_FILES = ("state.db", "state.db-wal", "state.db-shm", "state.lock")
IGNORE = "".join(f"{name}\n" for name in STATE_FILES)
#: Merged branches both add to the log, and git keeps both sides. Its line ends stay as they
#: are written: git may refuse to convert them.
ATTRIBUTES = "log.md merge=union -text\n"
#: The state files, and temporary files of a killed process.
EXCLUDE = (*(f"/.tugtool/{name}" for name in STATE_FILES), "/.tugtool/.tug-*.tmp", "/.tugtree/")
#: The same rule for merges on branches that lack the committed file.
LOG = "/.tugtool/log.md"
LOG_MERGE = f"{LOG} merge=union -text"


def set_up(
    repo: Repository, *, check: bool = False, claude: bool = False
) -> tuple[Init, list[str]]:
    """Prepare a repository, or with `check` refuse an unprepared one. Return the parts in order.

    With `claude` the rules for Claude Code are one of them.
    """
    added: InitClaude | None = None
    if claude:  # A person's file comes first: if it is unusable, nothing is made.
        from tugtool.agents import plugin

        added = plugin.add_rules(repo.root, check=check)
    changed = [added["file"]] if added and (added["allow"] or added["deny"]) else []
    try:
        report = init_repository(repo, check=check)
    except TugError as error:
        if changed and not check:
            error.message += f"; {changed[0]} has been written already"
        raise
    missing = [name for name, was_missing in report.items() if was_missing]
    if check and (missing or changed):
        command = "tugcode init --claude" if changed else "tugcode init"
        raise NotInitialised(repo.root, missing=[*missing, *changed], command=command)
    data: Init = {
        "root": repo.root,
        "created": missing,
        "kept": [name for name in report if name not in missing],
        "claude": added,
        "mcp": None,
        "next": "tugcode plan new SLUG",
    }
    return data, list(report)


def init_repository(repo: Repository, *, check: bool = False) -> dict[str, bool]:
    """Make the missing parts, or with `check` only look. Return part -> whether it was missing."""
    directory = os.path.join(repo.root, catalog.DIRECTORY)
    if os.path.realpath(directory) != directory and os.path.exists(directory):
        raise OutsideRepository(directory, root=repo.root)
    report: dict[str, bool] = {}
    for name, is_there, make in _parts(repo):
        report[name] = not is_there()
        if report[name] and not check:
            make()
    return report


def ignore_state(repo: Repository) -> None:
    """Make the directory of the state, and let git ignore it.

    Also let the log, which its steps will write, merge without conflict.
    """
    for name, is_there, make in _parts(repo):
        if name in _NEEDED and not is_there():
            make()


#: The parts that the state needs.
_NEEDED = (".tugtool/", "git's info/exclude", "git's info/attributes")


def _parts(repo: Repository) -> Iterator[tuple[str, Callable[[], bool], Callable[[], object]]]:
    """Yield the parts of `tugcode init`: name, whether it is there, and how it is made."""
    directory = os.path.join(repo.root, catalog.DIRECTORY)
    yield ".tugtool/", lambda: os.path.isdir(directory), lambda: files.make_directory(directory)
    for name, content in (
        (".gitignore", IGNORE.encode),
        (".gitattributes", ATTRIBUTES.encode),
        (catalog.SKELETON, catalog.built_in),
    ):
        yield f".tugtool/{name}", *_creation(os.path.join(directory, name), content)
    exclude, rules = (
        os.path.join(repo.common_dir, "info", name) for name in ("exclude", "attributes")
    )
    yield "git's info/exclude", lambda: not _unlisted(exclude), lambda: _list(exclude)
    yield "git's info/attributes", lambda: _has_rule(rules), lambda: _rule(rules)


def _creation(
    path: str, content: Callable[[], bytes]
) -> tuple[Callable[[], bool], Callable[[], object]]:
    return lambda: os.path.lexists(path), lambda: files.create(path, content())


def _unlisted(exclude: str) -> list[str]:
    present = _content(exclude).splitlines()
    return [line for line in EXCLUDE if line.encode() not in present]


def _list(exclude: str) -> None:
    _append(exclude, "# Tugtool: the state and the linked worktrees", *_unlisted(exclude))


def _has_rule(rules: str) -> bool:
    """Return whether a rule for merging the log exists, ours or a person's."""
    return any(line.split()[:1] == [LOG.encode()] for line in _content(rules).splitlines())


def _rule(rules: str) -> None:
    _append(rules, "# Tugtool: both sides' entries are kept", LOG_MERGE)


def _append(path: str, *lines: str) -> None:
    files.make_directory(os.path.dirname(path))
    content = _content(path)
    if content and not content.endswith(b"\n"):
        content += b"\n"
    files.replace(path, content + "".join(f"{line}\n" for line in lines).encode())


def _content(path: str) -> bytes:
    if not os.path.lexists(path):
        return b""
    try:
        return files.read(path)
    except Unreadable:
        if os.path.exists(path):
            raise
        return b""


#: A file name may look like a pattern.
_LITERAL = "--literal-pathspecs"


def require_committed(repo: Repository, order: WorktreeRequest, branch: str) -> bool:
    """Refuse an uncommitted plan, or commit it on request. Return whether it was committed."""
    known = _committed(repo, order, branch)
    if known is True:
        return False
    # A commit there brings the plan to the branch only if that is checked out.
    here = order.file.path == os.path.join(repo.root, order.file.key)
    at_home = here and branches.checked_out(repo.root) == branch
    hidden = status.ignored_by(repo.root, order.file.key) if at_home else None
    if order.commit_plan and at_home and not hidden:
        _commit(repo.root, order.file.key, slug=order.file.slug)
        crash.point("create.plan")
        if _committed(repo, order, branch) is True:
            return True
    raise PlanUncommitted(
        order.file.key,
        branch=branch,
        known=known is False,
        command=command(repo, order) if at_home else None,
        ignored=hidden,
    )


def command(repo: Repository, order: WorktreeRequest) -> str:
    """Return the command that commits the plan's file alone."""
    git_, path = f"git -C {quoted(repo.root)}", quoted(order.file.key)
    message = quoted(_message(order.file.slug))
    return f"{git_} add -- {path} && {git_} commit -m {message} -- {path}"


def _message(slug: str) -> str:
    return f"Plan {' '.join(slug.split())}"


def _committed(repo: Repository, order: WorktreeRequest, branch: str) -> bool | None:
    """Return whether the branch has the plan's present text; None if it has no plan."""
    blob = f"refs/heads/{branch}:{order.file.key}"
    there = refs.object_of(repo.root, blob)
    if there is None:
        return None
    text = git.run("cat-file", "blob", there, cwd=repo.root)
    if catalog.fingerprint(os.fsencode(text)) == order.hash:
        return True
    # Compare again after git's conversions of the file.
    words = ("hash-object", "--path", order.file.key, "--", order.file.path)
    return git.attempt(*words, cwd=repo.root).out.strip() == there


def _commit(root: str, key: str, *, slug: str) -> None:
    known = git.run(_LITERAL, "ls-files", "-z", "--", key, cwd=root)
    if not known:
        # Add the name only, so that other staged changes stay as they are.
        git.patiently(_LITERAL, "add", "--intent-to-add", "--", key, cwd=root)
    try:
        words = ("commit", "--quiet", "--only", "-m", _message(slug), "--", key)
        git.patiently(_LITERAL, *words, cwd=root)
    except BaseException:
        if not known:
            git.attempt(_LITERAL, "reset", "--quiet", "--", key, cwd=root, though_killed=True)
        raise
