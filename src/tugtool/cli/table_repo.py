"""The commands about the repository and the installation."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option

FIRST = (
    Command(
        "init",
        "repo",
        "prepare a repository for Tugtool",
        description="""\
Makes .tugtool/ with its ignore rules and the skeleton of a plan, and tells git to ignore
the state and the linked worktrees on every branch. Run it as often as you like: what is
there is left alone, also what you have changed. Works before the first commit, and from
a linked worktree too; the files are made in the main one.

With --claude it also adds rules to .claude/settings.json: Claude Code may run tugcode without
asking, and may never edit the state or the log. What stands in that file stays as it is. On a
terminal, `tugcode init` offers this where there is a .claude/.""",
        options=(
            Option("--check", "", "change nothing; exit 1 if anything is missing"),
            Option("--claude", "", "write the permission rules for Claude Code too"),
        ),
        examples=(
            ("tugcode init", "set up the repository of the current directory"),
            ("tugcode init --claude", "and let Claude Code run tugcode"),
            ("tugcode init --check", "in CI: is it set up?"),
        ),
    ),
    Command(
        "status",
        "status",
        "show what is going on here, and what needs you",
        description="""\
Every plan with its progress, who works on it and whose claim is stale, the worktrees, and what
waits for a person, each with the command to look at it. A plan that nobody has begun to carry
out is judged by the boxes in its text. `tugcode state show PLAN` tells more of one plan.""",
        options=(Option("--all", "", "archived plans too"),),
        examples=(
            ("tugcode status", "on one screen"),
            ("tugcode status --json", "the same for a program"),
        ),
    ),
)

LAST = (
    Command(
        "doctor",
        "doctor",
        "look for what is wrong here, and say what to do about it",
        description="""\
Set-up and ignore rules, the database, plans, claims, work that was not saved, commands that
were stopped half-way, worktrees and branches, the log, and the machine; docs/doctor.md lists
every check. Changes nothing, unless --fix asks for the repairs that can do no harm. Exit
status 1 if there is anything to look at.""",
        options=(Option("--fix", "", "make the repairs that can do no harm"),),
        examples=(
            ("tugcode doctor", "is all well?"),
            ("tugcode doctor --fix", "put right what can be"),
            ("tugcode doctor --json", "every check, for a program"),
        ),
    ),
    Command(
        "config",
        "repo",
        "show the settings in force and where they come from",
        description="Settings live in .tugtool/config.toml of the main worktree; all are optional.",
        examples=(
            ("tugcode config", "every setting, its value and its source"),
            ("tugcode config --json", "the same for a program"),
        ),
        function="show_config",
    ),
    Command(
        "version",
        "repo",
        "show the versions of Tugtool and of what it stands on",
        description="Tugtool, Python, the linked SQLite and git, as a bug report needs them.",
        examples=(("tugcode version", "four lines"), ("tugcode --version", "the same")),
    ),
    Command(
        "completion",
        "completion",
        "print a completion script for a shell",
        description="""\
Completes commands, options, their values, plan names and step anchors. The script asks
tugcode itself, so it never goes out of date.""",
        arguments=(Argument("shell", "your shell", choices=("bash", "zsh", "fish")),),
        examples=(
            ('eval "$(tugcode completion bash)"', "in ~/.bashrc"),
            ('eval "$(tugcode completion zsh)"', "in ~/.zshrc, after compinit"),
            ("tugcode completion fish | source", "in ~/.config/fish/config.fish"),
        ),
    ),
    Command(
        "complete-words",
        "completion",
        "answer a completion script",
        description="One candidate per line, a tab and its description, for the last of WORDS.",
        arguments=(Argument("words", "the command line so far", optional=True, many=True),),
        examples=(("tugcode complete-words -- plan sh", "show"),),
        hidden=True,
    ),
)
