"""The rules as data: for every role its tools, the files it may edit, the commands it may run.

Whatever is not named here is refused to a role. What is named is judged by `judge`; the page
docs/guard.md shows the same, kept equal by a test.
"""

from __future__ import annotations

#: What a role may edit.
NOTHING, PLANS, WORK = "nothing", "plans", "work"
#: Which programs it may run beside git and tugcode: those that only look, or any.
VIEWERS, ANY = "viewers", "any"

#: Tools that change nothing, and those for an agent's own bookkeeping and answer.
LOOKING = frozenset(
    (
        *("Read", "Grep", "Glob", "LS", "NotebookRead", "LSP"),
        *("TodoRead", "TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"),
        *("ToolSearch", "StructuredOutput"),
        # About commands that are running already.
        *("BashOutput", "KillBash", "KillShell", "TaskOutput", "TaskStop"),
    )
)
WEB = frozenset(("WebFetch", "WebSearch"))
EDITING = frozenset(("Edit", "MultiEdit", "NotebookEdit", "Write", "apply_patch"))
RUNNING = frozenset(("Bash",))

#: Commands of `tugcode` that change nothing, for every role.
LOOK_COMMANDS = frozenset(
    (
        *("status", "validate", "list", "plan show", "plan graph"),
        *("state show", "state ready", "state why", "state log", "state stats", "state diff"),
        *("state review", "worktree list", "worktree salvage list", "worktree salvage show"),
        *("dash list", "dash show", "doctor", "config", "version", "completion"),
        *("complete-words", "hook pre-tool-use", "plugin path"),
    )
)
#: Options that make one of them change something.
CHANGING_OPTIONS = {"doctor": ("--fix",), "state review": ("--accept", "--reject")}

#: Words that a command of `tugcode` goes on behind, and those that it can begin with.
GROUPS = ("plan", "state", "worktree", "worktree salvage", "dash", "hook", "plugin")
FIRST_WORDS = (
    *("commit", "completion", "config", "dash", "doctor", "hook", "implement", "init", "list"),
    *("merge", "plan", "plugin", "state", "status", "validate", "version", "worktree"),
)

#: Commands of git that change nothing, whatever follows them.
GIT_LOOK = frozenset(
    (
        *("annotate", "blame", "cat-file", "check-attr", "check-ignore", "count-objects"),
        *("describe", "diff", "diff-files", "diff-index", "diff-tree", "for-each-ref", "grep"),
        *("help", "log", "ls-files", "ls-remote", "ls-tree", "merge-base", "name-rev"),
        *("range-diff", "rev-list", "rev-parse", "shortlog", "show", "show-branch", "show-ref"),
        *("status", "var", "verify-commit", "version", "whatchanged"),
    )
)
#: Those that change nothing with the right words behind them.
GIT_LOOK_WITH = {
    "config": ("--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"),
    "reflog": ("", "show"),
    "remote": ("", "-v", "--verbose", "show", "get-url"),
    "stash": ("list", "show"),
    "submodule": ("", "status", "summary"),
    "worktree": ("list",),
}
_LISTING = (
    *("--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"),
    *("--sort", "--format", "--column", "--no-column", "--color", "--no-color", "-i"),
)
#: Those that change nothing with no other options than these.
GIT_LOOK_OPTIONS = {
    "archive": ("--format", "--prefix", "-v", "--verbose", "--worktree-attributes"),
    "branch": (
        *(*_LISTING, "--abbrev", "--no-abbrev", "-a", "--all", "-r", "--remotes"),
        *("--show-current", "-v", "-vv", "-av", "-avv", "-rv", "-rvv", "--verbose"),
    ),
    "fsck": ("--full", "--strict", "--no-dangling", "--no-progress", "--connectivity-only"),
    "hash-object": ("-t", "--stdin", "--no-filters", "--path"),
    "symbolic-ref": ("--short", "-q", "--quiet", "--no-recurse"),
    "tag": (*_LISTING, "-n"),
}
#: What a coder may do to the worktree with git: nothing that makes or moves a commit.
GIT_WORK = frozenset(("add", "apply", "mv", "restore", "rm"))
GIT_REMOTE = frozenset(("fetch", "push"))
#: Known to change something; elsewhere in a command they are looked for by these names.
GIT_CHANGES = frozenset(
    (
        *("add", "am", "apply", "bisect", "branch", "checkout", "cherry-pick", "clean", "clone"),
        *("commit", "commit-tree", "config", "fast-import", "fetch", "filter-branch", "gc", "init"),
        *("merge", "mv", "notes", "prune", "pull", "push", "read-tree", "rebase", "reflog"),
        *("remote", "replace", "reset", "restore", "revert", "rm", "stash", "submodule", "switch"),
        *("symbolic-ref", "tag", "update-index", "update-ref", "worktree", "write-tree"),
    )
)
#: All that may stand between `git push` or `git fetch` and the names of a remote and a branch.
REMOTE_OPTIONS = {
    "fetch": ("-q", "--quiet", "-v", "--verbose", "--no-tags", "--dry-run"),
    "push": ("-u", "--set-upstream"),
}
#: Options for a repository of one's own below the temporary directories.
APART_OPTIONS = {
    "clone": (
        *("-q", "--quiet", "-l", "--local", "--no-local", "--no-hardlinks", "--single-branch"),
        *("-n", "--no-checkout", "--bare", "--depth", "-b", "--branch"),
    ),
    "init": ("-q", "--quiet", "--bare", "-b", "--initial-branch"),
}
#: Settings that are safe to give to a single run of git: all below a name, or just as they stand.
GIT_SETTINGS = (
    *("advice.", "color.", "core.pager=cat", "core.quotepath=false", "core.quotepath=off"),
    "log.",
)
#: Options of git's that write a file, or run a program.
GIT_NEVER = ("--output", "--ext-diff", "--open-files-in-pager", "--upload-pack", "--exec")
#: Variables that no command of an agent's may set: they say who works on what, or make shells,
#: loaders and git run something else than the words say. A star stands for any ending.
NEVER_SET = (
    *("TUGCODE_*", "GIT_*", "BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "DYLD_*", "ENV", "LD_AUDIT"),
    *("LD_PRELOAD", "PERL5DB", "PERL5OPT", "PROMPT_COMMAND", "PS4", "PYTHONHOME"),
    *("PYTHONSTARTUP", "RUBYOPT", "SHELLOPTS", "XDG_CONFIG_*"),
)
#: Those that lead a program elsewhere: only for programs that a role may run whatever they do.
NOT_SET = (
    *("BROWSER", "CDPATH", "EDITOR", "GCONV_PATH", "GH_*", "GLAB_*", "GNUPGHOME", "HOME", "IFS"),
    *("JAVA_TOOL_OPTIONS", "LD_*", "LESS*", "LOCPATH", "LUA_*", "MAGIC", "MANPAGER", "NODE_*"),
    *("PAGER", "PATH", "PERL*", "PYTHON*", "RIPGREP_*", "RUBY*", "SHELL", "SSH_*", "TAR_OPTIONS"),
    *("TMPDIR", "VISUAL", "XDG_*"),
)
#: Settings of them that change nothing but how something looks.
HARMLESS_SETTINGS = (
    *("GIT_EDITOR=true", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0"),
    *("GH_PAGER=cat", "GH_PROMPT_DISABLED=1", "GLAB_PAGER=cat", "LESS=FRX", "PAGER=cat"),
)

#: What anybody may ask the tool of a code host.
HOST_LOOK = ("checks", "diff", "list", "status", "view")
#: What it may be asked by an integrator: never to merge.
HOST_TOOLS = {
    "gh": {
        "pr": ("checks", "comment", "create", "diff", "edit", "list", "ready", "status", "view"),
        "run": ("list", "view", "watch"),
        "repo": ("view",),
        "auth": ("status",),
        "--version": ("",),
    },
    "glab": {
        "mr": ("create", "diff", "list", "note", "update", "view"),
        "ci": ("list", "status", "view"),
        "repo": ("view",),
        "auth": ("status",),
        "--version": ("",),
    },
}

#: Programs that only look at files or print something, and run no other program.
VIEWING = frozenset(
    (
        *(":", "[", "[[", "basename", "cat", "cd", "cmp", "column", "comm", "cut", "date", "df"),
        *("diff", "dirname", "du", "echo", "egrep", "exit", "false", "fgrep", "file", "fold"),
        *("grep", "head", "id", "jq", "ls", "md5sum", "nl", "od", "popd", "printf", "pushd"),
        *("pwd", "readlink", "realpath", "rev", "rg", "sed", "seq", "sha256sum", "sleep", "sort"),
        *("stat", "strings", "tac", "tail", "test", "tr", "tree", "true", "type", "uname"),
        *("uniq", "wait", "wc", "which", "whoami", "find", "set", "ulimit"),
    )
)
#: What makes one of them write, or run something.
VIEWING_NEVER = {
    "date": ("-s", "--set"),
    "file": ("-C", "--compile"),
    "find": ("-delete", "-exec", "-fls", "-fprint", "-ok"),
    "printf": ("-v",),
    "rg": ("--pre", "--hostname-bin"),
    "sed": ("-f", "--file", "-i", "--in-place"),
    "sort": ("-o", "--output", "--compress-program"),
    "tree": ("-o", "-R"),
    "wait": ("-p",),
}
#: Their short options that take the rest of the word.
VIEWING_VALUED = {"date": "dfrI", "file": "fFmP", "sort": "kStT"}
#: Programs whose purpose is to change files.
CHANGING = frozenset(
    (
        *("chmod", "chown", "cp", "dd", "ed", "ex", "install", "ln", "mkdir", "mkfifo", "mv"),
        *("patch", "rm", "rmdir", "rsync", "shred", "tee", "touch", "truncate", "unlink", "vi"),
        "vim",
    )
)
#: Those that write files if they are told to.
WRITING = frozenset(("curl", "tar", "unzip", "wget"))
#: Shells of databases: the state is one, and nobody's to change with them.
DATABASES = frozenset(("duckdb", "litecli", "sqlite", "sqlite3", "sqlite-utils", "usql"))
#: What runs a program without the variables that say who runs it.
FORGETTING = frozenset(
    (
        *("at", "batch", "chroot", "crontab", "doas", "machinectl", "runuser", "su", "sudo"),
        "systemd-run",
    )
)
SHELLS = frozenset(("ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"))
#: Programs that are given their code on the command line.
INTERPRETERS = ("awk", "gawk", "lua", "mawk", "node", "perl", "php", "python", "ruby")


class Role:
    """One role: what it may use, edit and run."""

    __slots__ = ("commands", "edits", "git", "host", "name", "programs", "task", "tools")

    def __init__(
        self,
        name: str,
        task: str,
        *,
        tools: frozenset[str],
        edits: str = NOTHING,
        programs: str = VIEWERS,
        commands: tuple[str, ...] = (),
        git: frozenset[str] = frozenset(),
        host: bool = False,
    ) -> None:
        self.name = name
        #: What it is there for, as a refusal says it.
        self.task = task
        self.tools = tools
        self.edits = edits
        self.programs = programs
        #: Beside those that everybody may run.
        self.commands = frozenset(commands)
        self.git = git
        self.host = host


_RUN = LOOKING | RUNNING
ROLES = {
    role.name: role
    for role in (
        Role("clarifier", "asks what has to be known", tools=_RUN | WEB),
        Role(
            "author",
            "writes plan files, and nothing else",
            tools=_RUN | WEB | EDITING,
            edits=PLANS,
            commands=("plan new",),
        ),
        Role("critic", "judges a plan and changes nothing", tools=_RUN | WEB),
        Role("architect", "decides how a step is done and changes nothing", tools=_RUN | WEB),
        Role(
            "coder",
            "writes code; others review, commit and record it",
            tools=_RUN | WEB | EDITING,
            edits=WORK,
            programs=ANY,
            git=GIT_WORK,
        ),
        Role(
            "reviewer",
            "judges the work and changes nothing",
            tools=_RUN | WEB,
            programs=ANY,
        ),
        Role(
            "committer",
            "commits an approved step with `tugcode commit`, and does nothing else",
            tools=_RUN,
            commands=("commit",),
        ),
        Role("auditor", "judges the whole and changes nothing", tools=_RUN | WEB, programs=ANY),
        Role(
            "integrator",
            "brings the branch to its remote, and edits nothing",
            tools=_RUN,
            git=GIT_REMOTE,
            host=True,
        ),
    )
}

#: The files of the state, and what git keeps: nobody's to edit, whoever asks.
STATE_FILES = ("state.db", "state.db-wal", "state.db-shm", "state.lock")
LOG_FILES = ("log.md", "archive")


def role_of(agent: str) -> str | None:
    """The role that a client's agent type stands for, known or not; None if it is not ours."""
    origin, _, name = agent.rpartition(":")
    role = name.removesuffix("-agent")
    if origin == "tugplug" or (not origin and role in ROLES and role != name):
        return role
    return None


def may_run(role: Role, path: str, options: tuple[str, ...] | list[str] = ()) -> bool:
    """Whether a role may run a command of `tugcode`; options by their names."""
    if path in role.commands:
        return True
    never = CHANGING_OPTIONS.get(path, ())
    return path in LOOK_COMMANDS and not any(option in never for option in options)


def wanted(role: Role) -> str:
    """What a role may run of `tugcode`, in words."""
    own = ", ".join(f"`tugcode {path}`" for path in sorted(role.commands))
    look = "commands that only look, such as `tugcode state show` and `tugcode validate`"
    return f"{own} and {look}" if own else look
