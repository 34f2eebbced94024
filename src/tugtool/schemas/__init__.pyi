"""The types of all answers, one per object of the JSON schemas beside this file.

Written by scripts/answers.py from the schemas; `make docs` writes it anew. For annotations alone:
import it under TYPE_CHECKING, for there is nothing to load at run time.
"""

from typing import Any, Literal, NotRequired, TypedDict

class StepNames(TypedDict):
    """The names of a step in every answer about one."""

    step_anchor: str
    anchor: str

class CommitOpenItem(TypedDict):
    """An item."""

    step_anchor: str
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    status: Literal["open", "in_progress"]
    text: str

class Commit(TypedDict):
    """A step's commit and its result in the state."""

    committed: bool
    commit_hash: str | None
    recovered: bool
    files_staged: list[str]
    log_updated: bool
    log_rotated: bool
    archived_path: str | None
    state_update_failed: bool
    state_failure_reason: NotRequired[Literal["open_items", "drift", "ownership", "db_error"]]
    warnings: list[str]
    published: NotRequired[bool]
    completed: bool
    plan_path: str
    step_anchor: str
    anchor: str
    attempt: int
    already_completed: bool
    forced: NotRequired[bool]
    force_reason: NotRequired[str | None]
    incomplete_items_auto_completed: NotRequired[int]
    plan_completed: NotRequired[bool]
    remaining_steps: NotRequired[int]
    open_items: NotRequired[list[CommitOpenItem]]

class CompleteWordsCandidate(TypedDict):
    """One candidate."""

    value: str
    description: str

class CompleteWords(TypedDict):
    """Candidates for the last word."""

    candidates: list[CompleteWordsCandidate]

class Completion(TypedDict):
    """A completion script."""

    shell: Literal["bash", "zsh", "fish"]
    script: str

class ConfigSetting(TypedDict):
    """One setting."""

    key: str
    value: str | float | bool | list[str | int | list[str]]
    source: str
    default: str | float | bool | list[str | int] | None
    meaning: str

class Config(TypedDict):
    """The settings in force."""

    file: str | None
    settings: list[ConfigSetting]

class DashCommitRoundFile(TypedDict):
    """A file."""

    path: str
    status: Literal["added", "modified", "deleted", "type_changed"]

class DashCommitRound(TypedDict):
    """The recorded round."""

    number: int
    instruction: str | None
    summary: str | None
    commit_hash: str | None
    recorded_at: str
    files: list[DashCommitRoundFile]

class DashCommit(TypedDict):
    """A round of a dash."""

    name: str
    branch_name: str
    worktree_path: str
    committed: bool
    commit_hash: str | None
    recovered: bool
    round: DashCommitRound

class DashCreate(TypedDict):
    """A dash to work in."""

    name: str
    worktree_path: str
    branch_name: str
    base_branch: str
    base_commit: str
    description: str | None
    rounds: int
    created: bool
    repaired: bool
    adopted: bool

class DashJoin(TypedDict):
    """A dash that was merged into its base branch."""

    name: str
    joined: bool
    joined_commit: str
    base_branch: str
    branch_name: str
    worktree_path: str
    squash: bool
    commits: int
    already_contained: bool
    left: list[str]
    resumed: bool

class DashListDash(TypedDict):
    """A dash."""

    name: str
    description: str | None
    status: Literal["active", "joined", "released"]
    base_branch: str
    base_commit: str
    rounds: int
    created_at: str
    updated_at: str
    ended_at: str | None
    joined_commit: str | None
    salvage_ref: str | None
    branch_name: str
    worktree_path: str
    exists: bool | None
    on_branch: bool | None
    changed_files: int | None
    ahead: int | None
    behind: int | None
    tip: str | None
    releasing: bool | None

class DashList(TypedDict):
    """The dashes."""

    dashes: list[DashListDash]
    unrecorded: list[str]

class DashReleaseReleasedItem(TypedDict):
    """A claim."""

    plan_path: str
    step_anchor: str

class DashRelease(TypedDict):
    """A dash that was given up."""

    name: str
    status: Literal["released"]
    worktree_path: str
    branch_name: str
    branch_removed: bool
    released: list[DashReleaseReleasedItem]
    salvage_ref: str | None

DashShowHistoryItemFile = DashCommitRoundFile

DashShowHistoryItem = DashCommitRound

class DashShow(TypedDict):
    """A dash."""

    name: str
    description: str | None
    status: Literal["active", "joined", "released"]
    base_branch: str
    base_commit: str
    rounds: int
    created_at: str
    updated_at: str
    ended_at: str | None
    joined_commit: str | None
    salvage_ref: str | None
    branch_name: str
    worktree_path: str
    exists: bool | None
    on_branch: bool | None
    changed_files: int | None
    ahead: int | None
    behind: int | None
    tip: str | None
    releasing: bool | None
    history: list[DashCommitRound]

class DoctorCounts(TypedDict):
    """The number of checks by status."""

    ok: int
    fixed: int
    warning: int
    error: int
    skipped: int

class DoctorCheckFinding(TypedDict):
    """One problem or note."""

    severity: Literal["error", "warning", "note"]
    message: str
    hint: str | None
    fixable: bool
    fixed: bool
    outcome: str | None

class DoctorCheck(TypedDict):
    """One check."""

    name: str
    status: Literal["ok", "fixed", "warning", "error", "skipped"]
    reason: str | None
    findings: list[DoctorCheckFinding]

class DoctorVersions(TypedDict):
    """The versions of the software it uses."""

    tugtool: str
    python: str
    sqlite: str
    sqlite_wal_reset_bug: bool
    git: str | None
    state: NotRequired[Literal["PostgreSQL", "a server"]]
    state_url: NotRequired[str]

class DoctorStartUpMs(TypedDict):
    """Processor time for the start of Python here, in milliseconds."""

    bare: float | None
    usual: float | None

class Doctor(TypedDict):
    """The health of a repository."""

    healthy: bool
    fix: bool
    counts: DoctorCounts
    checks: list[DoctorCheck]
    versions: DoctorVersions
    start_up_ms: DoctorStartUpMs

class DoneCommand(TypedDict):
    """One command that ran."""

    command: str
    exit_status: int
    timed_out: bool
    duration_seconds: float
    output_tail: str
    output_bytes: int

class DoneCheckpointEvidenceJudged(TypedDict):
    """The verdict of a role on a checkpoint without a command."""

    role: str
    reason: str | None

class DoneCheckpointEvidence(TypedDict):
    """The commands that ran and their results."""

    passed: bool
    commands: list[DoneCommand]
    commit: str | None
    dirty: bool | None
    worktree: str
    attempt: int
    at: str
    note: str | None
    tree: str | None
    judged: DoneCheckpointEvidenceJudged | None

class DoneCheckpoint(TypedDict):
    """One checkpoint."""

    step_anchor: str
    ordinal: int
    text: str
    status: Literal["open", "in_progress", "completed", "deferred"]
    outcome: Literal["passed", "failed", "refused", "not_run"]
    ticked: bool
    reason: (
        Literal[
            "no_command",
            "person",
            "manual",
            "placeholder",
            "elsewhere",
            "alternatives",
            "unprintable",
        ]
        | None
    )
    commands: list[str]
    evidence: DoneCheckpointEvidence | None

class Done(TypedDict):
    """A step that was checked, committed and completed."""

    plan_path: str
    step_anchor: str
    anchor: str
    step_title: str
    attempt: int
    completed: bool
    ticked: int
    deferred: int
    checkpoints: list[DoneCheckpoint]
    commit: Commit
    next: str

class Issue(TypedDict):
    """One error, warning or note."""

    code: str
    severity: Literal["error", "warning", "info"]
    message: str
    hint: NotRequired[str]
    file: NotRequired[str]
    line: NotRequired[int]
    anchor: NotRequired[str]
    facts: NotRequired[dict[str, Any]]

class Help(TypedDict):
    """The output of --help."""

    help: str

class HookPreToolUse(TypedDict):
    """The decision about a tool call."""

    allowed: bool
    role: str | None
    tool: str
    reason: str | None
    updated_input: dict[str, Any] | None

class ImplementLeftItem(TypedDict):
    """One of them."""

    step_anchor: str
    title: str
    parked: bool
    reason: str
    frees: str | None

class ImplementAgent(TypedDict):
    """One role."""

    role: str
    command: list[str] | None
    timeout_seconds: float | None
    tries: int | None
    env: list[str]
    confinement: str | None

class ImplementCommand(TypedDict):
    """One command."""

    source: str
    command: str

class ImplementTodoItem(TypedDict):
    """A step."""

    step_anchor: str
    title: str
    status: str

class ImplementSetupItem(TypedDict):
    """A command."""

    command: list[str]
    seconds: float

_ImplementWords = TypedDict("_ImplementWords", {"try": NotRequired[int]})

class Implement(_ImplementWords):
    """One event of a run."""

    event: Literal[
        "started",
        "worktree",
        "claimed",
        "waiting",
        "conflict",
        "synced",
        "amended",
        "resumed",
        "agent_started",
        "agent_ended",
        "agent_failed",
        "cooling_down",
        "cooled_down",
        "coder_reported",
        "verifying",
        "verified",
        "revise",
        "deferred",
        "recovered",
        "escalated",
        "unanswered",
        "completed",
        "parked",
        "moved",
        "failed",
        "stopped",
        "saved",
        "lost",
        "gathered",
        "audited",
        "integrated",
        "warning",
        "worker_failed",
        "stopping",
        "finished",
        "dry_run",
    ]
    plan_path: str
    elapsed_seconds: NotRequired[float]
    worker: NotRequired[int]
    step_anchor: NotRequired[str]
    attempt: NotRequired[int]
    title: NotRequired[str]
    reclaimed: NotRequired[bool]
    worktree_path: NotRequired[str]
    reused: NotRequired[bool]
    role: NotRequired[Literal["architect", "coder", "reviewer", "auditor", "integrator"]]
    seconds: NotRequired[float]
    retry_seconds: NotRequired[float]
    round: NotRequired[int]
    recommendation: NotRequired[Literal["APPROVE", "REVISE", "ESCALATE"]]
    choice: NotRequired[str]
    message: NotRequired[str]
    signal: NotRequired[int]
    reason: NotRequired[str | None]
    code: NotRequired[str]
    commit: NotRequired[str]
    needs: NotRequired[str]
    files: NotRequired[list[str]]
    steps: NotRequired[list[str]]
    state_failure_reason: NotRequired[str | None]
    item: NotRequired[str]
    salvage_ref: NotRequired[str]
    status: NotRequired[
        Literal["done", "not_approved", "unfinished", "failed", "paused", "budget", "stopped"]
    ]
    completed_steps: NotRequired[int]
    total_steps: NotRequired[int]
    tokens: NotRequired[int]
    left: NotRequired[list[ImplementLeftItem]]
    workers: NotRequired[int]
    lease_seconds: NotRequired[float]
    review_rounds: NotRequired[int]
    budget_tokens: NotRequired[int]
    agents: NotRequired[list[ImplementAgent]]
    commands: NotRequired[list[ImplementCommand]]
    untrusted: NotRequired[str | None]
    budget_cost: NotRequired[float]
    cost: NotRequired[float]
    until: NotRequired[str | None]
    push_remote: NotRequired[str | None]
    todo: NotRequired[list[ImplementTodoItem]]
    reused_worktrees: NotRequired[list[str]]
    new_worktrees: NotRequired[int]
    next: NotRequired[str]
    done: NotRequired[bool]
    paused: NotRequired[bool]
    command: NotRequired[str]
    passed: NotRequired[int]
    failed: NotRequired[int]
    verify: NotRequired[bool]
    transcript: NotRequired[str]
    setup: NotRequired[list[ImplementSetupItem]]
    copied: NotRequired[list[str]]

class InitClaude(TypedDict):
    """The permission rules for Claude Code."""

    file: str
    created: bool
    allow: list[str]
    deny: list[str]

class InitMcpItem(TypedDict):
    """The entry of one client."""

    client: str
    file: str
    created: bool
    added: bool

class Init(TypedDict):
    """The result of `tugcode init`."""

    root: str
    created: list[str]
    kept: list[str]
    claude: InitClaude | None
    mcp: list[InitMcpItem] | None
    next: str

class ListPlanCounts(TypedDict):
    """The numbers of its parts."""

    steps: int
    substeps: int
    task: int
    test: int
    checkpoint: int
    dependencies: int

class ListPlan(TypedDict):
    """One plan."""

    plan_path: str
    slug: str
    state: Literal["active", "paused", "done", "merged", "archived"] | None
    title: str | None
    status: str | None
    counts: ListPlanCounts | None
    error: str | None

class List(TypedDict):
    """The plans of the repository."""

    plans: list[ListPlan]

class Mcp(TypedDict):
    """What a client would get."""

    role: Literal["viewer", "worker", "operator"]
    tools: list[str]
    tool_bytes: int

class MergeBranch(TypedDict):
    """A branch."""

    branch_name: str
    worktree_path: str | None
    tip: str
    commits: int
    steps: list[str]
    already_contained: bool

class MergeConflict(TypedDict):
    """A branch in conflict."""

    branch_name: str
    files: list[str]
    steps: list[str]

class MergeLeftItem(TypedDict):
    """A branch and the reason."""

    branch_name: str
    worktree_path: str | None
    reason: str

class MergeUnsettledItem(TypedDict):
    """An item."""

    step_anchor: str
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str
    cause: Literal["deferred", "unproven"]

MergeCheck = DoneCommand

class Merge(TypedDict):
    """A merged plan, or the merge that would be made."""

    plan_path: str
    merged: bool
    dry_run: bool
    resumed: bool
    squash: bool
    base_branch: str
    merged_commit: str | None
    pushed: NotRequired[bool]
    pushed_before: NotRequired[Literal[True]]
    unpushed_to: NotRequired[str]
    branches: list[MergeBranch]
    conflicts: list[MergeConflict]
    removed_worktrees: list[str]
    removed_branches: list[str]
    left: list[MergeLeftItem]
    salvages: int
    unsettled: list[MergeUnsettledItem]
    unproven_by: str | None
    checks: list[DoneCommand]

class NextChecklistItem(TypedDict):
    """An item of the step or of a substep."""

    step_anchor: str
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str
    status: Literal["open", "in_progress", "completed", "deferred"]
    reason: str | None

class NextMergedItem(TypedDict):
    """A commit."""

    step_anchor: str
    commit: str
    worktree: str | None
    branch: str | None

class NextPreviousAttemptReopened(TypedDict):
    """The last time that a person sent the completed step back."""

    at: str
    by: str | None
    reason: str

class NextPreviousAttemptCompletedItem(TypedDict):
    """An item."""

    step_anchor: str
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int

class NextPreviousAttemptArtifact(TypedDict):
    """A note."""

    step_anchor: str
    artifact_id: int
    kind: str
    summary: str

class NextPreviousAttempt(TypedDict):
    """The work that the attempt before left."""

    number: int
    worktree: str
    outcome: Literal["completed", "released", "reset", "expired", "superseded", "dead", "failed"]
    claimed_at: str
    ended_at: str
    reopened: NextPreviousAttemptReopened | None
    branch: str | None
    commits_ahead: int | None
    salvage_ref: str | None
    salvage_refs: list[str]
    recover: list[str]
    completed_items: list[NextPreviousAttemptCompletedItem]
    artifacts: list[NextPreviousAttemptArtifact]

class NextHolder(TypedDict):
    """A step under a live claim."""

    step_anchor: str
    worktree: str
    lease_expires_at: str

class NextUnpublishedStep(TypedDict):
    """An unpublished step."""

    step_anchor: str
    commit: str
    worktree: str
    branch: str | None
    problem: str | None

class Next(TypedDict):
    """A step to work on, with its text and checklist."""

    claimed: bool
    plan_path: str
    worktree_path: str | None
    branch_name: str | None
    made: bool
    resumed: bool
    step_anchor: str | None
    anchor: str | None
    step_title: str | None
    attempt: int | None
    lease_expires_at: str | None
    text: str | None
    checklist: list[NextChecklistItem]
    commit_message: str | None
    merged: list[NextMergedItem]
    previous_attempt: NextPreviousAttempt | None
    reason: Literal["no_ready_steps", "all_completed", "paused"] | None
    total_remaining: int
    held_steps: list[str]
    holders: list[NextHolder]
    parked_steps: list[str]
    unpublished_steps: NotRequired[list[NextUnpublishedStep]]
    waiting_items: int
    merged_commit: str | None
    next: str

class Open(TypedDict):
    """A server that now runs."""

    url: str
    socket: str | None
    pid: int

class PlanAcceptDroppedItem(TypedDict):
    """An object."""

    step_anchor: str
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str
    status: Literal["in_progress", "completed", "deferred"]
    reason: str | None

PlanAcceptResetItem = PlanAcceptDroppedItem

class PlanAcceptRefusal(TypedDict):
    """An object."""

    step: str
    why: str
    flag: Literal["--reopen-changed", "--drop-completed", "--drop-claimed", "--revert"]

class PlanAccept(TypedDict):
    """The effect of accepting the plan's text, or of a dry run."""

    plan_path: str
    plan_hash: str
    steps_created: int
    substeps_created: int
    checklist_items_created: int
    already_initialized: bool
    drift: bool
    restored_from_backup: bool
    dry_run: bool
    revised: bool
    added: NotRequired[list[str]]
    removed: NotRequired[list[str]]
    kept: NotRequired[list[str]]
    changed: NotRequired[list[str]]
    reopened: NotRequired[list[str]]
    retitled: NotRequired[list[str]]
    moved: NotRequired[list[str]]
    needs_changed: NotRequired[list[str]]
    items_reordered: NotRequired[list[str]]
    kept_claims: NotRequired[list[str]]
    dropped_claims: NotRequired[list[str]]
    kept_items: NotRequired[int]
    dropped_items: NotRequired[list[PlanAcceptDroppedItem]]
    reset_items: NotRequired[list[PlanAcceptDroppedItem]]
    completed_substeps: NotRequired[list[str]]
    ahead_of_needs: NotRequired[list[str]]
    was_completed: NotRequired[list[str]]
    refusals: NotRequired[list[PlanAcceptRefusal]]

class PlanGraphWidestWave(TypedDict):
    """The number of workers that can be at work at once."""

    wave: int
    steps: int

class PlanGraphStep(TypedDict):
    """One step."""

    anchor: str
    title: str
    line: int
    needs: list[str]
    substeps: int
    verification_only: bool

class PlanGraph(TypedDict):
    """The steps that can run in parallel, substeps counted with their step."""

    plan_path: str
    waves: list[list[str]]
    widest_wave: PlanGraphWidestWave
    critical_path: list[str]
    steps: list[PlanGraphStep]
    diagram: NotRequired[str]

class PlanImport(TypedDict):
    """The plan made from another tool's tasks."""

    plan_path: str
    file: str | None
    slug: str
    steps: int
    substeps: int
    done: int
    text: str | None
    next: str

class PlanNew(TypedDict):
    """The new plan."""

    plan_path: str
    file: str
    slug: str
    next: str

PlanShowCounts = ListPlanCounts

class PlanShowDecision(TypedDict):
    """One decision or question."""

    name: str
    kind: Literal["decision", "question"]
    title: str
    status: str | None
    anchor: str | None
    line: int

class PlanShowStepNeed(TypedDict):
    """A dependency."""

    anchor: str
    line: int

class PlanShowStepItem(TypedDict):
    """A box of a checklist."""

    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str
    line: int
    ticked: bool
    checkpoint_kind: Literal["command", "judgement", "person"] | None

class PlanShowStep(TypedDict):
    """A step or substep."""

    anchor: str
    number: str
    title: str
    line: int
    step_index: int
    parent: str | None
    needs: list[PlanShowStepNeed]
    depends_on: str | None
    commit: str | None
    references: str | None
    artifacts: str | None
    rollback: str | None
    verification_only: bool
    items: list[PlanShowStepItem]
    substeps: list[PlanShowStep]

class PlanShow(TypedDict):
    """A plan as the parser reads it."""

    plan_path: str
    slug: str
    title: str | None
    purpose: str | None
    metadata: dict[str, str]
    lines: int
    counts: ListPlanCounts
    decisions: list[PlanShowDecision]
    steps: list[PlanShowStep]

class PluginInstall(TypedDict):
    """The plugin, installed in a client."""

    client: Literal["claude", "codex"]
    installed: bool
    marketplace_path: str
    commands: list[str]
    said: list[str]

class PluginPath(TypedDict):
    """The directories of the plugin."""

    plugin_path: str
    marketplace_path: str

class ReportSummaryStepsByStanding(TypedDict):
    """The number of steps by standing."""

    completed: int
    deferred: int
    at_work: int
    stale: int
    question: int
    parked: int
    ready: int
    blocked: int

class ReportSummaryCheckpointsByStanding(TypedDict):
    """The number of steps by standing."""

    proved: int
    accepted: int
    judged: int
    ticked: int
    forced: int
    unproven: int
    deferred: int
    failed: int
    open: int

class ReportSummary(TypedDict):
    """Its progress in numbers."""

    steps: int
    steps_by_standing: ReportSummaryStepsByStanding
    checkpoints: int
    checkpoints_by_standing: ReportSummaryCheckpointsByStanding
    waits: int
    next: str | None

class ReportSpent(TypedDict):
    """Time and money."""

    wall_seconds: float
    working_seconds: float
    waiting_seconds: float
    attempts: int
    tokens: int | None
    cost_microdollars: int | None

class ReportItemsTask(TypedDict):
    """Tasks by status."""

    open: int
    in_progress: int
    completed: int
    deferred: int

ReportItemsTest = ReportItemsTask

ReportItemsCheckpoint = ReportItemsTask

class ReportItems(TypedDict):
    """Items by kind and status."""

    task: ReportItemsTask
    test: ReportItemsTask
    checkpoint: ReportItemsTask

class ReportStep(TypedDict):
    """A step."""

    step_anchor: str
    anchor: str
    title: str
    commit_hash: str | None
    completed_at: str | None
    completed_by: str | None
    claimed_by: str | None
    park_reason: str | None
    standing: Literal[
        "completed", "deferred", "at_work", "stale", "question", "parked", "ready", "blocked"
    ]
    forced: str | None
    attempts: int
    waiting_seconds: float
    working_seconds: float
    deferred: int
    tokens: int | None
    cost_microdollars: int | None
    rounds: int
    waiting_for: list[str]
    substeps: int

class ReportCheckpointCommand(TypedDict):
    """A command."""

    command: str
    exit_status: int
    timed_out: bool
    duration_seconds: float

class ReportCheckpoint(TypedDict):
    """A checkpoint."""

    step_anchor: str
    ordinal: int
    text: str
    checkpoint_kind: Literal["command", "judgement", "person"]
    status: Literal["open", "in_progress", "completed", "deferred"]
    reason: str | None
    standing: Literal[
        "proved", "accepted", "judged", "ticked", "forced", "unproven", "deferred", "failed", "open"
    ]
    judged_by: str | None
    judged_because: str | None
    commands: list[ReportCheckpointCommand]
    commit: str | None
    dirty: bool | None
    at: str | None

class ReportJudgement(TypedDict):
    """An item."""

    step_anchor: str
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str | None
    deferred_because: str | None
    verdict: Literal["accepted", "rejected", "waits"]
    by: str | None
    at: str | None
    note: str | None

class ReportAudit(TypedDict):
    """The auditor's last verdict on the whole plan."""

    summary: str
    at: str

class ReportIncident(TypedDict):
    """One of them."""

    at: str
    step_anchor: str | None
    attempt: int | None
    what: Literal[
        "taken_over_expired",
        "taken_over_dead",
        "taken_over_superseded",
        "failed",
        "agent_failed",
        "stopped",
        "released",
        "parked",
        "recovery",
        "escalation",
        "revised",
        "checkpoint_failed",
        "changed_outside",
        "cooling_down",
        "cooled_down",
        "reset",
        "unpark",
        "reopen",
        "restore",
        "reconcile",
        "clock_back",
        "salvage",
        "salvage_prune",
        "review_rejected",
    ]
    reason: str | None
    actor: str | None
    salvage_ref: str | None

class ReportWait(TypedDict):
    """One thing."""

    what: Literal[
        "changed_outside",
        "deferred",
        "unproven",
        "parked",
        "question",
        "audit",
        "paused",
        "unpublished",
    ]
    step_anchor: str | None
    text: str | None
    reason: str | None
    command: str
    reject: str | None

class ReportMerge(TypedDict):
    """The merge."""

    commit: str
    at: str | None
    unproven: int
    by: str | None
    unpushed_by: NotRequired[str | None]

class ReportLastRun(TypedDict):
    """The end of the last `implement`."""

    at: str
    status: str
    reason: str | None

class ReportTimelineItem(TypedDict):
    """One change."""

    seq: int
    at: str
    plan_path: str
    step_anchor: str | None
    kind: str
    actor: str | None
    attempt: int | None
    detail: dict[str, Any]

class Report(TypedDict):
    """The report of a plan, from the record alone."""

    plan_path: str
    slug: str
    title: str | None
    purpose: str | None
    status: Literal["active", "done", "archived"]
    as_of: str
    created_at: str
    completed_at: str | None
    paused_at: str | None
    merged_commit: str | None
    summary: ReportSummary
    spent: ReportSpent
    items: ReportItems
    steps: list[ReportStep]
    checkpoints: list[ReportCheckpoint]
    judgements: list[ReportJudgement]
    audit: ReportAudit | None
    incidents: list[ReportIncident]
    waits: list[ReportWait]
    merge: ReportMerge | None
    last_run: ReportLastRun | None
    run_since: str | None
    verify: bool
    timeline: list[ReportTimelineItem]
    written_to: NotRequired[str]

class ServeTokenAdd(TypedDict):
    """A new token."""

    name: str
    role: Literal["viewer", "worker", "operator"]
    plan_path: str | None
    created_at: str
    expires_at: str | None
    token: str

class ServeTokenListToken(TypedDict):
    """One token."""

    name: str
    role: Literal["viewer", "worker", "operator"]
    plan_path: str | None
    created_at: str
    expires_at: str | None

class ServeTokenList(TypedDict):
    """The tokens of this repository."""

    tokens: list[ServeTokenListToken]

class ServeTokenRevoke(TypedDict):
    """A token that is not valid any more."""

    name: str
    revoked: bool

Serve = Open

class StateArchive(TypedDict):
    """A plan that was archived or brought back."""

    plan_path: str
    archived: bool
    changed: bool
    plan_status: Literal["active", "done", "archived"]
    total_steps: int
    completed_steps: int

class StateArtifact(TypedDict):
    """A recorded note."""

    recorded: bool
    plan_path: str
    step_anchor: str
    anchor: str
    attempt: int
    kind: Literal[
        "architect_strategy",
        "reviewer_verdict",
        "auditor_summary",
        "verification",
        "recovery",
        "escalation",
        "note",
    ]
    artifact_id: int
    summary_cut: bool

class StateClaimSubstep(TypedDict):
    """A substep."""

    anchor: str
    title: str
    status: Literal["pending", "claimed", "in_progress", "completed"]

StateClaimMissingCommit = NextMergedItem

StateClaimPreviousAttemptReopened = NextPreviousAttemptReopened

StateClaimPreviousAttemptCompletedItem = NextPreviousAttemptCompletedItem

StateClaimPreviousAttemptArtifact = NextPreviousAttemptArtifact

StateClaimPreviousAttempt = NextPreviousAttempt

class StateClaimHeldStep(TypedDict):
    """A held step."""

    anchor: str
    owner: str
    lease_expires_at: str

StateClaimUnpublishedStep = NextUnpublishedStep

class StateClaim(TypedDict):
    """A step to work on, or the reason why there is none."""

    claimed: bool
    plan_path: str
    total_remaining: int
    step_anchor: NotRequired[str]
    anchor: NotRequired[str]
    step_title: NotRequired[str]
    worktree: NotRequired[str]
    step_index: NotRequired[int]
    attempt: NotRequired[int]
    lease_expires_at: NotRequired[str]
    reclaimed: NotRequired[bool]
    reclaimed_from_expired: NotRequired[bool]
    replayed: NotRequired[bool]
    remaining_ready: NotRequired[int]
    substeps: NotRequired[list[StateClaimSubstep]]
    missing_commits: NotRequired[list[NextMergedItem] | None]
    salvage_ref: NotRequired[str | None]
    previous_attempt: NotRequired[NextPreviousAttempt | None]
    reason: NotRequired[Literal["no_ready_steps", "all_completed", "paused"]]
    all_completed: NotRequired[bool]
    blocked_steps: NotRequired[list[str]]
    waiting_for: NotRequired[dict[str, list[str]]]
    held_steps: NotRequired[list[StateClaimHeldStep]]
    parked_steps: NotRequired[list[str]]
    unpublished_steps: NotRequired[list[NextUnpublishedStep]]
    lists_capped: NotRequired[bool]

class StateComplete(TypedDict):
    """A completed step."""

    completed: bool
    plan_path: str
    step_anchor: str
    anchor: str
    attempt: int
    commit_hash: str | None
    already_completed: bool
    forced: bool
    force_reason: str | None
    incomplete_items_auto_completed: int
    plan_completed: bool
    remaining_steps: int

StateDiffRevisionDroppedItem = PlanAcceptDroppedItem

StateDiffRevisionResetItem = PlanAcceptDroppedItem

StateDiffRevisionRefusal = PlanAcceptRefusal

class StateDiffRevision(TypedDict):
    """The effect of `state init --force` without further options."""

    added: list[str]
    removed: list[str]
    kept: list[str]
    changed: list[str]
    reopened: list[str]
    retitled: list[str]
    moved: list[str]
    needs_changed: list[str]
    items_reordered: list[str]
    kept_claims: list[str]
    dropped_claims: list[str]
    kept_items: int
    dropped_items: list[PlanAcceptDroppedItem]
    reset_items: list[PlanAcceptDroppedItem]
    completed_substeps: list[str]
    ahead_of_needs: list[str]
    was_completed: list[str]
    refusals: list[PlanAcceptRefusal]

class StateDiff(TypedDict):
    """The plan file compared with the agreed text, and the effect of accepting it."""

    plan_path: str
    file: str
    changed: bool
    agreed_hash: str
    found_hash: str | None
    valid: bool
    problem: str | None
    diff: str
    revision: StateDiffRevision | None

StateExecMissingCommit = NextMergedItem

class StateExec(TypedDict):
    """A command that ran for a step, or the reason why there was no step."""

    ran: bool
    plan_path: str
    total_remaining: int
    step_anchor: NotRequired[str]
    anchor: NotRequired[str]
    step_title: NotRequired[str]
    worktree: NotRequired[str]
    attempt: NotRequired[int]
    lease_expires_at: NotRequired[str]
    missing_commits: NotRequired[list[NextMergedItem] | None]
    recover: NotRequired[list[str]]
    exit_status: NotRequired[int]
    signal: NotRequired[int | None]
    outcome: NotRequired[Literal["kept", "completed", "released", "lost"]]
    reason: NotRequired[Literal["no_ready_steps", "all_completed", "paused"]]
    all_completed: NotRequired[bool]
    parked_steps: NotRequired[list[str]]

class StateExport(TypedDict):
    """An export to a file."""

    exported_to: str
    rows: int
    transcripts: int

class StateHeartbeat(TypedDict):
    """A renewed lease."""

    renewed: bool
    plan_path: str
    step_anchor: str
    anchor: str
    attempt: int
    lease_expires_at: str

class StateImportTables(TypedDict):
    """The number of rows of each table."""

    plans: int
    plan_counts: int
    plan_revisions: int
    steps: int
    step_deps: int
    checklist_items: int
    step_artifacts: int
    attempts: int
    events: int
    dashes: int
    dash_rounds: int

class StateImport(TypedDict):
    """Plans that were imported."""

    imported: bool
    plans: list[str]
    rows: int
    tables: StateImportTables
    renumbered: bool
    transcripts: int
    recounted: list[str]

StateInitDroppedItem = PlanAcceptDroppedItem

StateInitResetItem = PlanAcceptDroppedItem

StateInitRefusal = PlanAcceptRefusal

StateInit = PlanAccept

StateLogEvent = ReportTimelineItem

class StateLog(TypedDict):
    """The events, oldest first."""

    plan_path: str | None
    step_anchor: str | None
    since: str | None
    events: list[ReportTimelineItem]

class StateMigrate(TypedDict):
    """The migrated tables."""

    migrated: bool
    version: int

class StateMove(TypedDict):
    """A plan whose record was moved."""

    plan_path: str
    moved_from: str
    changed: bool
    drift: bool
    plan_status: Literal["active", "done", "archived"]
    total_steps: int
    completed_steps: int

class StatePause(TypedDict):
    """A paused plan."""

    plan_path: str
    paused: bool
    paused_at: str | None
    changed: bool
    reason: str | None

class StatePrunePrunedItem(TypedDict):
    """A plan."""

    plan_path: str
    status: Literal["active", "done", "archived"]
    total_steps: int
    completed_steps: int
    reason: str

StatePruneKeptItem = StatePrunePrunedItem

class StatePrune(TypedDict):
    """Plans whose records were dropped."""

    pruned: list[StatePrunePrunedItem]
    kept: list[StatePrunePrunedItem]
    exported_to: str | None
    dry_run: bool

StateReadyUnpublishedStep = NextUnpublishedStep

class StateReady(TypedDict):
    """The steps by what you can do with them."""

    plan_path: str
    ready_steps: list[str]
    all_steps: list[str]
    completed_steps: list[str]
    blocked_steps: list[str]
    claimed_steps: list[str]
    expired_claims: list[str]
    parked_steps: list[str]
    waiting_for: NotRequired[dict[str, list[str]]]
    unpublished_steps: NotRequired[list[NextUnpublishedStep]]

class StateReconcileReconciledItem(TypedDict):
    """A step and its commit."""

    step_anchor: str
    commit_hash: str
    attempt: int | None
    was: Literal["pending", "claimed", "in_progress", "completed"]
    previous_hash: str | None
    items_closed: int

class StateReconcileSkippedMismatch(TypedDict):
    """A step with two commits."""

    step_anchor: str
    db_hash: str
    git_hash: str

class StateReconcileIgnoredItem(TypedDict):
    """A set of trailers and the reason why it does not count."""

    step_anchor: str | None
    commit_hash: str
    reason: Literal[
        "another_commit",
        "malformed",
        "other_plan",
        "other_plan_hash",
        "reverted",
        "substep",
        "unknown_step",
    ]
    detail: str

class StateReconcile(TypedDict):
    """The steps whose commits git has, and the changes to the record."""

    plan_path: str
    dry_run: bool
    reconciled_count: int
    reconciled: list[StateReconcileReconciledItem]
    skipped_count: int
    skipped_mismatches: list[StateReconcileSkippedMismatch]
    ignored: list[StateReconcileIgnoredItem]
    commits_finished: list[str]
    plan_status: Literal["active", "done", "archived"]
    base_commit: str | None
    base_branch: str | None
    branches: list[str]
    commits_read: int

class StateRelease(TypedDict):
    """A claim that was given back."""

    released: bool
    plan_path: str
    step_anchor: str
    anchor: str
    was_claimed_by: str
    attempt: int
    parked: bool
    salvage_ref: str | None

class StateReopen(TypedDict):
    """A completed step that was reopened."""

    reopened: bool
    plan_path: str
    step_anchor: str
    anchor: str
    reason: str
    dependents: list[str]
    was_commit: str | None
    plan_status: Literal["active", "done", "archived"]

class StateReset(TypedDict):
    """A step that was reset."""

    reset: bool
    plan_path: str
    step_anchor: str
    anchor: str
    was_claimed_by: str | None
    unparked: bool
    reason: str | None
    salvage_ref: str | None

class StateRestoreLostStep(TypedDict):
    """An object."""

    completed_at: str
    plan_path: str
    step_anchor: str
    commit_hash: str | None

class StateRestorePlan(TypedDict):
    """An object."""

    plan_path: str
    status: Literal["active", "done", "archived"]
    completed_steps: int
    total_steps: int

class StateRestoreClaimsEndedItem(TypedDict):
    """An object."""

    plan_path: str
    step_anchor: str
    attempt: int
    worktree: str

class StateRestore(TypedDict):
    """A database that was replaced with a copy."""

    restored: bool
    source: str
    made_at: str
    missing_since: str
    lost_steps: list[StateRestoreLostStep]
    plans: list[StateRestorePlan]
    steps_completed: int
    claims_ended: list[StateRestoreClaimsEndedItem]
    set_aside: str | None

StateResume = StatePause

StateReviewCommand = DoneCommand

StateReviewDeferredItemEvidenceJudged = DoneCheckpointEvidenceJudged

class StateReviewDeferredItemEvidence(TypedDict):
    """The commands or the judgement, if there were any."""

    passed: bool
    commands: list[DoneCommand]
    commit: str | None
    dirty: bool | None
    worktree: str
    attempt: int
    at: str
    note: str | None
    stale: bool | None
    worktree_commit: str | None
    tree: str | None
    judged: DoneCheckpointEvidenceJudged | None

class StateReviewDeferredItemDiffstatFile(TypedDict):
    """A file."""

    path: str
    insertions: int | None
    deletions: int | None

class StateReviewDeferredItemDiffstat(TypedDict):
    """The changes of that commit."""

    files: list[StateReviewDeferredItemDiffstatFile]
    insertions: int
    deletions: int

class StateReviewDeferredItem(TypedDict):
    """An item."""

    plan_path: str
    step_anchor: str
    step_title: str
    step_status: Literal["pending", "claimed", "in_progress", "completed"]
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str
    reason: str | None
    deferred_at: str
    deferred_by: str | None
    attempt: int | None
    transcripts: NotRequired[list[str]]
    parent_anchor: str | None
    evidence: StateReviewDeferredItemEvidence | None
    commit: str | None
    built_on: list[str]
    commit_title: NotRequired[str | None]
    diffstat: NotRequired[StateReviewDeferredItemDiffstat | None]
    accept_command: NotRequired[str]
    reject_command: NotRequired[str]
    show_command: NotRequired[str]
    transcript_command: NotRequired[str | None]

class StateReviewParkedStepLastAttemptLeftItem(TypedDict):
    """An artifact."""

    step_anchor: str
    kind: Literal["escalation", "recovery", "note"]
    summary: str
    recorded_at: str

class StateReviewParkedStepLastAttempt(TypedDict):
    """The last attempt at it."""

    number: int
    worktree: str
    claimed_at: str
    ended_at: str | None
    outcome: str | None
    left: list[StateReviewParkedStepLastAttemptLeftItem]
    stale: Literal["expired", "gone"] | None

class StateReviewParkedStepLastFailure(TypedDict):
    """The last attempt that failed, if one did."""

    attempt: int
    at: str
    reason: str

class StateReviewParkedStepFailedCheckpoint(TypedDict):
    """A checkpoint."""

    step_anchor: str
    kind: Literal["checkpoint"]
    ordinal: int
    text: str
    command: str
    output_tail: str

class StateReviewParkedStep(TypedDict):
    """A step."""

    plan_path: str
    step_anchor: str
    step_title: str
    reason: str
    parked_at: str
    claimed_by: str | None
    attempts: int
    claims_without_progress: int
    last_attempt: StateReviewParkedStepLastAttempt
    last_failure: StateReviewParkedStepLastFailure | None
    transcripts: NotRequired[list[str]]
    cause: str
    same_cause: NotRequired[list[str]]
    salvage_ref: str | None
    retry_command: NotRequired[str]
    show_command: NotRequired[str]
    transcript_command: NotRequired[str | None]
    failed_checkpoints: list[StateReviewParkedStepFailedCheckpoint]

class StateReviewQuestion(TypedDict):
    """A question."""

    plan_path: str
    step_anchor: str
    step_title: str
    reason: str
    asked_at: str
    claimed_by: str
    attempt: int
    show_command: NotRequired[str]
    transcript_command: NotRequired[str | None]

class StateReviewItem(TypedDict):
    """An item."""

    plan_path: NotRequired[str]
    step_anchor: str
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str

class StateReviewAudit(TypedDict):
    """The last verdict on a whole plan that is not an approval."""

    plan_path: str
    step_anchor: str
    recommendation: Literal["REVISE", "ESCALATE"]
    summary: str
    recorded_at: str
    implement_command: NotRequired[str]
    show_command: NotRequired[str]
    transcript_command: NotRequired[str | None]

class StateReviewStaleStep(TypedDict):
    """An object."""

    plan_path: str
    step_anchor: str
    step_title: str
    claimed_by: str
    stale: Literal["expired", "gone"]
    implement_command: str

class StateReviewDiedRun(TypedDict):
    """An object."""

    plan_path: str
    ended_at: str
    implement_command: str

StateReviewUnprovenItemEvidenceJudged = DoneCheckpointEvidenceJudged

class StateReviewUnprovenItemEvidence(TypedDict):
    """The commands or the judgement, if there were any."""

    passed: bool
    commands: list[StateReviewCommand]
    commit: str | None
    dirty: bool | None
    worktree: str
    attempt: int
    at: str
    note: str | None
    stale: bool | None
    worktree_commit: str | None
    tree: str | None
    judged: DoneCheckpointEvidenceJudged | None

StateReviewUnprovenItemDiffstatFile = StateReviewDeferredItemDiffstatFile

StateReviewUnprovenItemDiffstat = StateReviewDeferredItemDiffstat

class StateReviewUnprovenItem(TypedDict):
    """A checkpoint."""

    plan_path: str
    step_anchor: str
    step_title: str
    step_status: Literal["pending", "claimed", "in_progress", "completed"]
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str
    reason: str | None
    checkpoint_kind: Literal["command", "person"]
    parent_anchor: str | None
    evidence: StateReviewUnprovenItemEvidence | None
    commit: str | None
    built_on: list[str]
    commit_title: NotRequired[str | None]
    diffstat: NotRequired[StateReviewDeferredItemDiffstat | None]
    accept_command: NotRequired[str]
    reject_command: NotRequired[str]
    show_command: NotRequired[str]
    transcript_command: NotRequired[str | None]

class StateReviewStep(TypedDict):
    """A parked step."""

    step_anchor: str
    step_title: str
    reason: str
    parked_at: str

class StateReviewPassedOverItem(TypedDict):
    """An item or a step."""

    plan_path: NotRequired[str]
    step_anchor: str
    kind: NotRequired[Literal["task", "test", "checkpoint"]]
    ordinal: NotRequired[int]
    text: NotRequired[str]
    step_title: NotRequired[str]
    reason: NotRequired[str]
    parked_at: NotRequired[str]

class StateReview(TypedDict):
    """The things that wait for a person."""

    as_of: NotRequired[str]
    deferred_items: NotRequired[list[StateReviewDeferredItem]]
    parked_steps: NotRequired[list[StateReviewParkedStep]]
    questions: NotRequired[list[StateReviewQuestion]]
    deferred_count: NotRequired[int]
    parked_count: NotRequired[int]
    accepted: NotRequired[bool]
    rejected: NotRequired[bool]
    already: NotRequired[bool]
    plan_path: NotRequired[str | None]
    step_anchor: NotRequired[str]
    anchor: NotRequired[str]
    items: NotRequired[list[StateReviewItem]]
    by: NotRequired[str]
    note: NotRequired[str | None]
    reopened: NotRequired[bool]
    artifact_id: NotRequired[int | None]
    audits: NotRequired[list[StateReviewAudit]]
    stale_steps: NotRequired[list[StateReviewStaleStep]]
    died_runs: NotRequired[list[StateReviewDiedRun]]
    unproven_items: NotRequired[list[StateReviewUnprovenItem]]
    unproven_count: NotRequired[int]
    confirmed: NotRequired[bool]
    accepted_all: NotRequired[Literal[True]]
    retried: NotRequired[Literal[True]]
    steps: NotRequired[list[StateReviewStep]]
    passed_over: NotRequired[list[StateReviewPassedOverItem]]

class StateRevisionsRevision(TypedDict):
    """An agreed text."""

    revision: int
    plan_hash: str
    agreed_at: str
    replaced_at: str | None

class StateRevisions(TypedDict):
    """The agreed texts of a plan."""

    plan_path: str
    revisions: list[StateRevisionsRevision]
    revision: int | None
    text: str | None

class StateShowPlanUnpushedMerge(TypedDict):
    """The merge that the remote lacks."""

    commit: str
    remote: str
    base_branch: str
    by: str | None

class StateShowPlanLastRun(TypedDict):
    """The end of the last `implement` of the plan."""

    ended_at: str
    status: str
    reason: str | None

StateShowCountsTask = ReportItemsTask

StateShowCountsTest = ReportItemsTask

StateShowCountsCheckpoint = ReportItemsTask

StateShowCounts = ReportItems

class StateShowAttempt(TypedDict):
    """One claim of a step."""

    number: int
    worktree: str
    holder_pid: int | None
    lease_seconds: float
    claimed_at: str
    seen_at: str
    ended_at: str | None
    outcome: (
        Literal["completed", "released", "reset", "expired", "superseded", "dead", "failed"] | None
    )
    salvage_ref: str | None
    tokens: int | None
    cost_microdollars: int | None
    role: str | None
    role_since: str | None

class StateShowArtifact(TypedDict):
    """A note."""

    artifact_id: int
    kind: str
    summary: str
    content: NotRequired[str | None]
    recorded_at: str

class StateShowStep(TypedDict):
    """A step or substep."""

    step_anchor: str
    anchor: str
    parent_anchor: str | None
    step_index: int
    title: str
    status: Literal["pending", "claimed", "in_progress", "completed"]
    standing: Literal[
        "completed", "deferred", "at_work", "stale", "question", "parked", "ready", "blocked"
    ]
    claimed_by: str | None
    claimed_at: str | None
    lease_expires_at: str | None
    heartbeat_at: str | None
    started_at: str | None
    completed_at: str | None
    completed_by: str | None
    commit_hash: str | None
    unpublished: NotRequired[str]
    waiting_for_publish: NotRequired[list[str]]
    complete_reason: str | None
    attempt: int
    claims_without_progress: int
    parked_at: str | None
    park_reason: str | None
    lease_expired: bool
    holder_gone: bool
    question: str | None
    role: str | None
    role_since: str | None
    needs: list[str]
    waiting_for: list[str]
    counts: ReportItems
    rolled_up: StateShowCounts
    attempts: list[StateShowAttempt]
    artifacts: list[StateShowArtifact]
    substeps: list[StateShowStep]

StateShowCommand = DoneCommand

StateShowItemEvidenceJudged = DoneCheckpointEvidenceJudged

StateShowItemEvidence = StateReviewDeferredItemEvidence

class StateShowItem(TypedDict):
    """An item."""

    step_anchor: str
    kind: Literal["task", "test", "checkpoint"]
    ordinal: int
    text: str
    status: Literal["open", "in_progress", "completed", "deferred"]
    reason: str | None
    evidence: StateReviewDeferredItemEvidence | None
    updated_at: str | None
    checkpoint_kind: Literal["command", "judgement", "person"] | None

class StateShowPlan(TypedDict):
    """One plan."""

    plan_path: str
    plan_hash: str
    phase_title: str | None
    status: Literal["active", "done", "archived"]
    created_at: str
    updated_at: str
    paused_at: str | None
    paused_by: str | None
    paused_reason: str | None
    base_commit: str | None
    merged_commit: str | None
    unpushed_merge: NotRequired[StateShowPlanUnpushedMerge]
    total_steps: int
    completed_steps: int
    as_of: str
    elapsed_seconds: float | None
    tokens: int | None
    cost_microdollars: int | None
    last_run: StateShowPlanLastRun | None
    run_since: str | None
    steps: list[StateShowStep]
    checklist_items: list[StateShowItem]

StateShowUnpushedMerge = StateShowPlanUnpushedMerge

StateShowLastRun = StateShowPlanLastRun

class StateShow(TypedDict):
    """One plan, or all of them."""

    plans: NotRequired[list[StateShowPlan]]
    plan_path: NotRequired[str]
    plan_hash: NotRequired[str]
    phase_title: NotRequired[str | None]
    status: NotRequired[Literal["active", "done", "archived"]]
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    paused_at: NotRequired[str | None]
    paused_by: NotRequired[str | None]
    paused_reason: NotRequired[str | None]
    base_commit: NotRequired[str | None]
    merged_commit: NotRequired[str | None]
    unpushed_merge: NotRequired[StateShowPlanUnpushedMerge]
    total_steps: NotRequired[int]
    completed_steps: NotRequired[int]
    as_of: NotRequired[str]
    elapsed_seconds: NotRequired[float | None]
    tokens: NotRequired[int | None]
    cost_microdollars: NotRequired[int | None]
    last_run: NotRequired[StateShowPlanLastRun | None]
    run_since: NotRequired[str | None]
    steps: NotRequired[list[StateShowStep]]
    checklist_items: NotRequired[list[StateShowItem]]

class StateStart(TypedDict):
    """A step at work."""

    started: bool
    plan_path: str
    step_anchor: str
    anchor: str
    status: Literal["in_progress"]
    started_at: str
    attempt: int
    lease_expires_at: str

class StateStatsPlanStepsByStatus(TypedDict):
    """The number of steps by status."""

    pending: int
    claimed: int
    in_progress: int
    completed: int

StateStatsPlanItemsTask = ReportItemsTask

StateStatsPlanItemsTest = ReportItemsTask

StateStatsPlanItemsCheckpoint = ReportItemsTask

StateStatsPlanItems = ReportItems

class StateStatsPlanAttemptsByOutcome(TypedDict):
    """The number of attempts by outcome."""

    running: int
    completed: int
    released: int
    reset: int
    expired: int
    superseded: int
    dead: int
    failed: int

class StateStatsPlanStep(TypedDict):
    """A step, its substeps included."""

    step_anchor: str
    anchor: str
    title: str
    status: Literal["pending", "claimed", "in_progress", "completed"]
    parked: bool
    attempts: int
    waiting_seconds: float
    working_seconds: float
    forced: bool
    times_forced: int
    deferred: int
    reclaims: int
    recoveries: int
    escalations: int
    tokens: int | None
    cost_microdollars: int | None
    completed_at: str | None

class StateStatsPlan(TypedDict):
    """A plan."""

    plan_path: str
    phase_title: str | None
    status: Literal["active", "done", "archived"]
    created_at: str
    completed_at: str | None
    wall_seconds: float
    working_seconds: float
    waiting_seconds: float
    parallelism: float | None
    steps_by_status: StateStatsPlanStepsByStatus
    items: ReportItems
    attempts: int
    attempts_by_outcome: StateStatsPlanAttemptsByOutcome
    times_forced: int
    deferred: int
    reclaims: int
    recoveries: int
    escalations: int
    tokens: int | None
    cost_microdollars: int | None
    steps: list[StateStatsPlanStep]

class StateStats(TypedDict):
    """Times and counts of plans and steps."""

    plans: list[StateStatsPlan]

StateUpdateTasks = ReportItemsTask

StateUpdateTests = ReportItemsTask

StateUpdateCheckpoints = ReportItemsTask

StateUpdatePassedOverItem = NextPreviousAttemptCompletedItem

StateUpdateLeftToPersonItem = NextPreviousAttemptCompletedItem

class StateUpdate(TypedDict):
    """The step's own items after an update."""

    updated: int
    plan_path: str
    step_anchor: str
    anchor: str
    attempt: int
    lease_expires_at: str
    tasks: ReportItemsTask
    tests: ReportItemsTask
    checkpoints: ReportItemsTask
    passed_over: list[NextPreviousAttemptCompletedItem]
    left_to_person: list[NextPreviousAttemptCompletedItem]

StateVerifyCommand = DoneCommand

StateVerifyCheckpointEvidenceJudged = DoneCheckpointEvidenceJudged

StateVerifyCheckpointEvidence = DoneCheckpointEvidence

StateVerifyCheckpoint = DoneCheckpoint

class StateVerify(TypedDict):
    """The results of a step's checkpoints."""

    plan_path: str
    step_anchor: str
    anchor: str
    attempt: int
    dry_run: bool
    confirmed: bool
    checkpoints: list[DoneCheckpoint]
    passed: int
    failed: int
    refused: int
    not_run: int
    ticked: int
    lease_expires_at: str | None
    artifact_id: int | None

StateWhyReopened = NextPreviousAttemptReopened

StateWhyReset = NextPreviousAttemptReopened

class StateWhyWaitingForItem(TypedDict):
    """One of them."""

    anchor: str
    parent_anchor: str | None
    title: str
    status: Literal["pending", "claimed", "in_progress", "completed"]
    situation: Literal[
        "completed", "ready", "held", "expired", "gone", "parked", "blocked", "paused", "archived"
    ]
    owner: str | None
    lease_expires_at: str | None
    attempt: int
    parked_at: str | None
    park_reason: str | None
    needed_by: list[str]
    waiting_for: list[str]

class StateWhyRootCause(TypedDict):
    """One end."""

    anchor: str
    parent_anchor: str | None
    title: str
    status: Literal["pending", "claimed", "in_progress", "completed"]
    situation: Literal[
        "completed", "ready", "held", "expired", "gone", "parked", "blocked", "paused", "archived"
    ]
    owner: str | None
    lease_expires_at: str | None
    attempt: int
    parked_at: str | None
    park_reason: str | None

StateWhyLastFailure = StateReviewParkedStepLastFailure

StateWhyFailedCheckpoint = StateReviewParkedStepFailedCheckpoint

class StateWhy(TypedDict):
    """The situation of a step, and what would free it."""

    plan_path: str
    step_anchor: str
    anchor: str
    parent_anchor: str | None
    title: str
    status: Literal["pending", "claimed", "in_progress", "completed"]
    situation: Literal[
        "completed", "ready", "held", "expired", "gone", "parked", "blocked", "paused", "archived"
    ]
    owner: str | None
    lease_expires_at: str | None
    attempt: int
    parked_at: str | None
    park_reason: str | None
    yours: bool
    claimed_at: str | None
    seen_at: str | None
    holder_gone: bool
    claims_without_progress: int
    max_attempts: int
    completed_at: str | None
    completed_by: str | None
    commit_hash: str | None
    forced: str | None
    claimable: bool
    drift: bool
    reopened: NextPreviousAttemptReopened | None
    reset: NextPreviousAttemptReopened | None
    plan_status: Literal["active", "done", "archived"]
    paused_at: str | None
    paused_by: str | None
    paused_reason: str | None
    waiting_for: list[StateWhyWaitingForItem]
    root_causes: list[StateWhyRootCause]
    sentences: list[str]
    frees: list[str]
    last_failure: StateReviewParkedStepLastFailure | None
    failed_checkpoints: list[StateReviewParkedStepFailedCheckpoint]
    transcripts: list[str]

class StatusPlanSteps(TypedDict):
    """The numbers of steps, without substeps."""

    total: int
    completed: int
    held: int
    ready: int
    blocked: int
    parked: int

class StatusPlanItems(TypedDict):
    """The numbers of checklist items."""

    total: int
    completed: int
    deferred: int

class StatusPlanClaim(TypedDict):
    """One claim."""

    anchor: str
    title: str
    status: Literal["claimed", "in_progress"]
    claimed_by: str
    attempt: int
    lease_expires_at: str
    heartbeat_at: str
    stale: Literal["expired", "gone"] | None
    question: str | None
    claimed_at: str
    role: str | None
    role_since: str | None

class StatusPlanParkedItem(TypedDict):
    """One step."""

    anchor: str
    title: str
    parked_at: str
    park_reason: str | None

class StatusPlanAudit(TypedDict):
    """The last verdict on a whole plan that is not an approval."""

    plan_path: str
    step_anchor: str
    recommendation: Literal["REVISE", "ESCALATE"]
    summary: str
    recorded_at: str

StatusPlanUnpushedMerge = StateShowPlanUnpushedMerge

StatusPlanUnpublishedItem = NextUnpublishedStep

StatusPlanLastRun = StateShowPlanLastRun

class StatusPlan(TypedDict):
    """One plan."""

    plan_path: str
    slug: str
    recorded: bool
    file: Literal["present", "changed", "gone", "renamed", "unreadable"]
    renamed_to: str | None
    title: str | None
    status: Literal["active", "done", "archived"] | None
    paused_at: str | None
    paused_by: str | None
    paused_reason: str | None
    steps: StatusPlanSteps
    items: StatusPlanItems
    claims: list[StatusPlanClaim]
    parked: list[StatusPlanParkedItem]
    audit: StatusPlanAudit | None
    merged_commit: str | None
    unpushed_merge: NotRequired[StateShowPlanUnpushedMerge]
    unpublished: NotRequired[list[NextUnpublishedStep]]
    last_run: StateShowPlanLastRun | None
    run_since: str | None
    commits: int
    changed_outside: int

class StatusDash(TypedDict):
    """One dash."""

    name: str
    description: str | None
    base_branch: str
    rounds: int
    updated_at: str
    branch_name: str
    worktree_path: str

class StatusWorktreeHold(TypedDict):
    """One step."""

    plan_path: str
    anchor: str
    stale: Literal["expired", "gone"] | None

class StatusWorktree(TypedDict):
    """One worktree."""

    path: str
    branch: str | None
    main: bool
    registered: bool
    exists: bool
    holds: list[StatusWorktreeHold]

class StatusNeedsYouItem(TypedDict):
    """One thing that waits for you."""

    plan_path: str
    what: Literal[
        "run_died",
        "deferred",
        "parked",
        "question",
        "audit",
        "changed_outside",
        "unmerged",
        "unpushed",
        "unpublished",
        "paused",
        "file_changed",
        "file_gone",
        "file_renamed",
        "file_unreadable",
        "worktree_gone",
        "worktree_moved",
    ]
    count: int
    command: str

class StatusServer(TypedDict):
    """The running server of the repository."""

    pid: int
    url: str
    socket: str | None
    started_at: str

class Status(TypedDict):
    """The plans, dashes and worktrees of this repository, and what waits for you."""

    root: str
    as_of: str | None
    plans: list[StatusPlan]
    dashes: list[StatusDash]
    worktrees: list[StatusWorktree]
    needs_you: list[StatusNeedsYouItem]
    archived: int
    state_url: NotRequired[str]
    server: StatusServer | None
    no_address: NotRequired[str]

class TranscriptTranscript(TypedDict):
    """A call of an agent."""

    path: str
    step_anchor: str | None
    attempt: int | None
    call: int
    role: str
    text: str

class Transcript(TypedDict):
    """The input and output of agents."""

    plan_path: str
    step_anchor: str | None
    transcripts: list[TranscriptTranscript]

class TrustCommand(TypedDict):
    """One command."""

    source: str
    command: str
    program: str | None
    variables: dict[str, str]

class TrustSetting(TypedDict):
    """One setting."""

    source: str
    value: str

class TrustRepository(TypedDict):
    """One answer."""

    root: str
    trusted: bool
    at: str | None
    reason: str | None

class Trust(TypedDict):
    """What the files of a repository run and connect to, and whether this user lets them."""

    root: str | None
    trusted: bool
    changed: list[str]
    trust_file: str
    commands: list[TrustCommand]
    settings: list[TrustSetting]
    repositories: list[TrustRepository]

class ValidatePlan(TypedDict):
    """One plan."""

    plan_path: str
    valid: bool
    errors: int
    warnings: int
    infos: int
    left_out: int
    steps: int | None

class Validate(TypedDict):
    """The verdict on each plan."""

    level: Literal["lenient", "normal", "strict"]
    valid: bool
    plans: list[ValidatePlan]

class Version(TypedDict):
    """The installed versions."""

    tugtool: str
    python: str
    sqlite: str
    sqlite_wal_reset_bug: bool
    git: str | None

class WorktreeClean(TypedDict):
    """A worktree that was cleaned after its uncommitted work was saved."""

    worktree_path: str
    cleaned: bool
    files: list[str]
    salvage_ref: str | None
    kept: list[str]

class WorktreeCleanupRemovedItem(TypedDict):
    """A worktree or branch."""

    worktree_path: str | None
    branch_name: str | None
    plan_path: str | None
    reasons: list[str]

WorktreeCleanupKeptItem = WorktreeCleanupRemovedItem

class WorktreeCleanup(TypedDict):
    """The removed worktrees and branches, and those that were kept."""

    dry_run: bool
    removed: list[WorktreeCleanupRemovedItem]
    kept: list[WorktreeCleanupRemovedItem]

WorktreeCreateSetupItem = ImplementSetupItem

class WorktreeCreateNotCopiedItem(TypedDict):
    """An entry."""

    path: str
    reason: str

class WorktreeCreate(TypedDict):
    """A worktree for the caller."""

    worktree_path: str
    branch_name: str
    base_branch: str
    plan_path: str
    total_steps: int
    all_steps: list[str]
    ready_steps: list[str]
    completed_steps: list[str]
    reused: bool
    resumes: str | None
    state_initialized: bool
    plan_committed: bool
    reserved_until: str | None
    claim: StateClaim | None
    setup: list[ImplementSetupItem]
    copied: list[str]
    not_copied: list[WorktreeCreateNotCopiedItem]
    left_by_setup: list[str]

class WorktreeListWorktreeHeldStep(TypedDict):
    """A held step."""

    plan_path: str
    step_anchor: str
    attempt: int
    lease_expires_at: str
    lease: Literal["live", "expired", "gone"]

class WorktreeListWorktree(TypedDict):
    """A worktree."""

    worktree_path: str
    name: str
    machine: str | None
    branch_name: str | None
    base_branch: str | None
    plan_path: str | None
    recorded: bool
    exists: bool
    locked: bool
    clean: bool | None
    changed_files: int | None
    ahead: int | None
    behind: int | None
    held_steps: list[WorktreeListWorktreeHeldStep]
    reserved_until: str | None

class WorktreeListBranch(TypedDict):
    """A branch."""

    branch_name: str
    commit: str

class WorktreeList(TypedDict):
    """Every worktree of a plan, and branches of plans that have none."""

    worktrees: list[WorktreeListWorktree]
    branches: list[WorktreeListBranch]

class WorktreePublishBranch(TypedDict):
    """A branch."""

    branch_name: str
    commit: str
    steps: list[str]
    problem: str | None

WorktreePublishUnpublishedStep = NextUnpublishedStep

class WorktreePublish(TypedDict):
    """The pushed branches and saved work, and the steps that are still unpublished."""

    remote: str | None
    plan_path: str | None
    branches: list[WorktreePublishBranch]
    salvage_refs: list[str]
    unpublished_steps: list[NextUnpublishedStep]

WorktreeRemoveReleasedItem = DashReleaseReleasedItem

class WorktreeRemove(TypedDict):
    """A removed worktree."""

    worktree_path: str
    branch_name: str | None
    plan_path: str | None
    branch_removed: bool
    released: list[DashReleaseReleasedItem]
    salvage_ref: str | None

class WorktreeSalvageApply(TypedDict):
    """Saved work that was applied to a worktree."""

    salvage_ref: str
    name: str
    commit: str
    saved_at: str
    plan_path: str | None
    step_anchor: str | None
    attempt: int | None
    worktree: str | None
    branch: str | None
    base_commit: str | None
    worktree_path: str
    files: list[str]
    already_there: bool

class WorktreeSalvageListSalvage(TypedDict):
    """Saved work."""

    salvage_ref: str
    name: str
    commit: str
    saved_at: str
    plan_path: str | None
    step_anchor: str | None
    attempt: int | None
    worktree: str | None
    branch: str | None
    base_commit: str | None

class WorktreeSalvageList(TypedDict):
    """Saved uncommitted work."""

    plan_path: str | None
    salvages: list[WorktreeSalvageListSalvage]
    more: NotRequired[str]

class WorktreeSalvagePrunePrunedItem(TypedDict):
    """Saved work."""

    salvage_ref: str
    name: str
    commit: str
    saved_at: str
    plan_path: str | None
    step_anchor: str | None
    attempt: int | None
    worktree: str | None
    branch: str | None
    base_commit: str | None
    reason: str | None

WorktreeSalvagePruneKeptItem = WorktreeSalvagePrunePrunedItem

class WorktreeSalvagePrune(TypedDict):
    """Saved work that was dropped."""

    dry_run: bool
    pruned: list[WorktreeSalvagePrunePrunedItem]
    kept: list[WorktreeSalvagePrunePrunedItem]

class WorktreeSalvageShowFile(TypedDict):
    """A file."""

    path: str
    status: Literal["added", "deleted", "modified", "type_changed"]
    insertions: int | None
    deletions: int | None

class WorktreeSalvageShow(TypedDict):
    """Saved work and its changes."""

    salvage_ref: str
    name: str
    commit: str
    saved_at: str
    plan_path: str | None
    step_anchor: str | None
    attempt: int | None
    worktree: str | None
    branch: str | None
    base_commit: str | None
    files: list[WorktreeSalvageShowFile]
    insertions: int
    deletions: int
    patch: str | None

WorktreeSyncMergedItem = NextMergedItem

class WorktreeSync(TypedDict):
    """The merged commits of dependencies."""

    plan_path: str
    worktree_path: str
    branch_name: str | None
    steps: list[str]
    merged: list[NextMergedItem]
    head: str
    up_to_date: bool
    plan_commit: str | None
