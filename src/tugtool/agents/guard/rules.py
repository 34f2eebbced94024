"""The rules as data: for every role its tools, the files it may edit, the commands it may run.

A role may do only what these tables name, and `judge` checks that. The page
docs/internals/guard.md shows the same rules, kept equal by a test.
"""

from __future__ import annotations

#: The kinds of files that a role may edit.
NOTHING, PLANS, WORK = "nothing", "plans", "work"
#: The programs that a role may run beside git and tugcode: those that only read, or any.
VIEWERS, ANY = "viewers", "any"

#: Tools that change nothing, and those for an agent's own bookkeeping and answer.
LOOKING = frozenset(
    (
        *("Read", "Grep", "Glob", "LS", "NotebookRead", "LSP"),
        *("TodoRead", "TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"),
        *("ToolSearch", "StructuredOutput"),
        # These are about running commands.
        *("BashOutput", "KillBash", "KillShell", "TaskOutput", "TaskStop"),
    )
)
WEB = frozenset(("WebFetch", "WebSearch"))
EDITING = frozenset(("Edit", "MultiEdit", "NotebookEdit", "Write", "apply_patch"))
RUNNING = frozenset(("Bash",))

# From here on written by `make docs`; do not edit.
#: Commands of `tugcode` that change nothing, for every role.
LOOK_COMMANDS = frozenset(
    (
        *("complete-words", "completion", "config", "dash list", "dash show", "doctor"),
        *("hook pre-tool-use", "list", "plan graph", "plan show", "plugin path", "report"),
        *("state diff", "state log", "state ready", "state review", "state revisions"),
        *("state show", "state stats", "state why", "status", "validate", "version"),
        *("worktree list", "worktree salvage list", "worktree salvage show"),
    )
)
#: First words of `tugcode` commands that need a second word, and all first words.
GROUPS = (
    *("dash", "hook", "plan", "plugin", "serve token", "state", "worktree", "worktree salvage"),
)
FIRST_WORDS = (
    *("commit", "complete-words", "completion", "config", "dash", "doctor", "done", "hook"),
    *("implement", "init", "list", "mcp", "merge", "next", "open", "plan", "plugin", "report"),
    *("serve", "state", "status", "transcript", "trust", "validate", "version", "worktree"),
)
#: Commands of `state` that work without that word too.
STATE_WORDS = (
    *("archive", "artifact", "claim", "complete", "diff", "exec", "export", "heartbeat", "import"),
    *("log", "migrate", "move", "pause", "prune", "ready", "reconcile", "release", "reopen"),
    *("reset", "restore", "resume", "review", "revisions", "show", "start", "stats", "update"),
    *("verify", "why"),
)
# Up to here.
#: Options that make one of these commands change something.
CHANGING_OPTIONS = {
    "doctor": ("--fix",),
    "report": ("--output",),
    "state review": ("--accept", "--reject", "--accept-all", "--retry"),
}

#: Commands of git that change nothing, with any arguments.
GIT_LOOK = frozenset(
    (
        *("annotate", "blame", "cat-file", "check-attr", "check-ignore", "count-objects"),
        *("describe", "diff", "diff-files", "diff-index", "diff-tree", "for-each-ref", "grep"),
        *("help", "log", "ls-files", "ls-remote", "ls-tree", "merge-base", "name-rev"),
        *("range-diff", "rev-list", "rev-parse", "shortlog", "show", "show-branch", "show-ref"),
        *("status", "var", "verify-commit", "version", "whatchanged"),
    )
)
#: Commands of git that change nothing with one of these first arguments.
GIT_LOOK_WITH = {
    "config": ("--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"),
    "reflog": ("", "show"),
    "remote": ("", "-v", "--verbose", "show", "get-url"),
    "stash": ("list", "show"),
    "submodule": ("", "status", "summary"),
    "worktree": ("list",),
}
#: With one of these options git lists, and names are patterns.
GIT_LISTS = (
    *("--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged"),
    "--points-at",
)
_LISTING = (
    *GIT_LISTS,
    *("--sort", "--format", "--column", "--no-column", "--color", "--no-color", "-i"),
)
#: Commands of git that change nothing if they have only these options.
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
#: Commands of git with which a coder may change the worktree; none makes or moves a commit.
GIT_WORK = frozenset(("add", "apply", "mv", "restore", "rm"))
GIT_REMOTE = frozenset(("fetch", "push"))
#: Commands of git that change something; the guard also looks for them inside other commands.
GIT_CHANGES = frozenset(
    (
        *("add", "am", "apply", "bisect", "branch", "checkout", "cherry-pick", "clean", "clone"),
        *("commit", "commit-tree", "config", "fast-import", "fetch", "filter-branch", "gc", "init"),
        *("merge", "mv", "notes", "prune", "pull", "push", "read-tree", "rebase", "reflog"),
        *("remote", "replace", "reset", "restore", "revert", "rm", "stash", "submodule", "switch"),
        *("symbolic-ref", "tag", "update-index", "update-ref", "worktree", "write-tree"),
    )
)
#: The only options allowed for `git push` and `git fetch`.
REMOTE_OPTIONS = {
    "fetch": ("-q", "--quiet", "-v", "--verbose", "--no-tags", "--dry-run"),
    "push": ("-u", "--set-upstream"),
}
#: Options allowed for a new repository below the temporary directories.
APART_OPTIONS = {
    "clone": (
        *("-q", "--quiet", "-l", "--local", "--no-local", "--no-hardlinks", "--single-branch"),
        *("-n", "--no-checkout", "--bare", "--depth", "-b", "--branch"),
    ),
    "init": ("-q", "--quiet", "--bare", "-b", "--initial-branch"),
}
#: Settings that are safe to give to a single run of git. A star matches any ending.
GIT_SETTINGS = (
    *("advice.*", "color.*", "core.pager=cat", "core.quotepath=false", "core.quotepath=off"),
    "log.*",
)
#: Options of git that write a file, or run a program.
GIT_NEVER = ("--output", "--ext-diff", "--open-files-in-pager", "--upload-pack", "--exec")
#: Variables that no agent's command may set: they say who works on what, or make shells,
#: loaders and git run something else than the words say. A star matches any ending.
NEVER_SET = (
    *("TUGCODE_*", "GIT_*", "BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "DYLD_*", "ENV", "LD_AUDIT"),
    *("CDPATH", "LD_PRELOAD", "PERL5DB", "PERL5OPT", "PROMPT_COMMAND", "PS4", "PYTHONHOME"),
    *("PYTHONSTARTUP", "RUBYOPT", "SHELLOPTS", "XDG_CONFIG_*"),
)
#: Variables that redirect a program: allowed only for programs without restrictions.
NOT_SET = (
    *("BROWSER", "EDITOR", "GCONV_PATH", "GH_*", "GLAB_*", "GNUPGHOME", "HOME", "IFS"),
    *("JAVA_TOOL_OPTIONS", "LD_*", "LESS*", "LOCPATH", "LUA_*", "MAGIC", "MANPAGER", "NODE_*"),
    *("PAGER", "PATH", "PERL*", "PYTHON*", "RIPGREP_*", "RUBY*", "SHELL", "SSH_*", "TAR_OPTIONS"),
    *("TMPDIR", "VISUAL", "XDG_*"),
)
#: Settings of these variables that only change how output looks.
HARMLESS_SETTINGS = (
    *("GIT_EDITOR=true", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0"),
    *("GH_PAGER=cat", "GH_PROMPT_DISABLED=1", "GLAB_PAGER=cat", "LESS=FRX", "PAGER=cat"),
)

#: The words with which every role may call a code host's tool.
HOST_LOOK = ("checks", "diff", "list", "status", "view")
#: The words with which an integrator may call it: never to merge.
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

#: Programs that only read files or print, and run no other program.
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
#: Options that make one of them write, or run something.
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
#: Short options of theirs that take the rest of the word.
VIEWING_VALUED = {"date": "dfrI", "file": "fFmP", "sort": "kStT"}
#: Programs whose purpose is to change files.
CHANGING = frozenset(
    (
        *("chmod", "chown", "cp", "dd", "ed", "ex", "install", "ln", "mkdir", "mkfifo", "mv"),
        *("patch", "rm", "rmdir", "rsync", "shred", "tee", "touch", "truncate", "unlink", "vi"),
        "vim",
    )
)
#: Programs that write files if an option says so.
WRITING = frozenset(("curl", "tar", "unzip", "wget"))
#: Shells of databases: the state is a database that only tugcode may change.
DATABASES = frozenset(("duckdb", "litecli", "sqlite", "sqlite3", "sqlite-utils", "usql"))
#: Programs that run another one without the variables that tell its role.
FORGETTING = frozenset(
    (
        *("at", "batch", "chroot", "crontab", "doas", "machinectl", "runuser", "su", "sudo"),
        "systemd-run",
    )
)
#: Programs that commit, tag or move branches, and the words that make them do so;
#: no words: always.
COMMITTING: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn"), ("version",)),
    **dict.fromkeys(("bump2version", "bumpversion", "standard-version"), ()),
    **dict.fromkeys(("commit-and-tag-version", "release-it", "semantic-release"), ()),
    "bump-my-version": ("bump",),
    "cargo": ("release",),
    "cz": ("bump", "c", "commit"),
    "jj": (
        *("abandon", "bookmark", "branch", "commit", "describe", "edit", "git", "new", "rebase"),
        *("restore", "split", "squash", "undo"),
    ),
    "lerna": ("publish", "version"),
}
#: Programs that put hooks into the git directory, which all worktrees share.
HOOKING: dict[str, tuple[str, ...]] = {
    "husky": (),
    "lefthook": ("add", "install", "uninstall"),
    "overcommit": (),
    "pre-commit": ("init-templatedir", "install", "uninstall"),
    "simple-git-hooks": (),
}
SHELLS = frozenset(("ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"))
#: Programs that are given their code on the command line.
INTERPRETERS = ("awk", "gawk", "lua", "mawk", "node", "perl", "php", "python", "ruby")


class Role:
    """One role: what it may use, edit and run."""

    def __init__(
        self,
        name: str,
        task: str,
        *,
        web: bool = True,
        edits: str = NOTHING,
        programs: str = VIEWERS,
        commands: tuple[str, ...] = (),
        git: frozenset[str] = frozenset(),
        host: bool = False,
    ) -> None:
        #: The role's task, as a refusal says it.
        self.name, self.task = name, task
        self.tools = LOOKING | RUNNING
        if web:
            self.tools |= WEB
        if edits != NOTHING:
            self.tools |= EDITING
        self.edits, self.programs, self.git, self.host = edits, programs, git, host
        #: Commands of tugcode beside those that every role may run.
        self.commands = frozenset(commands)


ROLES = {
    role.name: role
    for role in (
        Role("clarifier", "asks what has to be known"),
        Role(
            "author",
            "writes plan files, and nothing else",
            edits=PLANS,
            commands=("plan new",),
        ),
        Role("critic", "judges a plan and changes nothing"),
        Role("architect", "decides how a step is done and changes nothing"),
        Role(
            "coder",
            "writes code; others review, commit and record it",
            edits=WORK,
            programs=ANY,
            git=GIT_WORK,
        ),
        Role("reviewer", "judges the work and changes nothing", programs=ANY),
        Role(
            "committer",
            "commits an approved step with `tugcode commit`, and does nothing else",
            web=False,
            commands=("commit",),
        ),
        Role("auditor", "judges the whole and changes nothing", programs=ANY),
        Role(
            "integrator",
            "brings the branch to its remote, and edits nothing",
            web=False,
            git=GIT_REMOTE,
            host=True,
        ),
    )
}

#: The files of the state, which no caller may edit.
STATE_FILES = ("state.db", "state.db-wal", "state.db-shm", "state.lock")
LOG_FILES = ("log.md", "archive")


def role_of(agent: str) -> str | None:
    """The role in a client's agent type, known or not; None if the agent is not ours."""
    origin, _, name = agent.rpartition(":")
    role = name.removesuffix("-agent")
    if origin == "tugplug" or (not origin and role in ROLES and role != name):
        return role
    return None


def may_run(role: Role, path: str, options: tuple[str, ...] | list[str] = ()) -> bool:
    """True if a role may run a command of `tugcode`; options by their names."""
    if path in role.commands:
        return True
    never = CHANGING_OPTIONS.get(path, ())
    return path in LOOK_COMMANDS and not any(option in never for option in options)


def wanted(role: Role) -> str:
    """The tugcode commands that a role may run, in words."""
    own = ", ".join(f"`tugcode {path}`" for path in sorted(role.commands))
    look = "commands that only look, such as `tugcode state show` and `tugcode validate`"
    return f"{own} and {look}" if own else look
