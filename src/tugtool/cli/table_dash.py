"""The commands about dashes, small work without a plan."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option
from tugtool.cli.table_state import WORKTREE

NAME = Argument("name", "the dash: its name, its branch or its directory", kind="dash")
OWN_NAME = Argument(
    "name", "the dash (default: the one whose worktree you are in)", kind="dash", optional=True
)

COMMANDS = (
    Command(
        "dash create",
        "dash",
        "begin small work without a plan, in a worktree of its own",
        description="""\
Makes the branch tugdash/<name> and the directory .tugtree/tugdash__<name>. If there is an
active dash of that name, that is the answer (`created` is false); should it have lost its
worktree or its branch, it gets them back. A branch tugdash/<name> that is not recorded is
taken up, with the rounds that its commits name. If anything fails, nothing is left behind.""",
        arguments=(
            Argument("name", "small letters, digits and hyphens, 50 at most, such as fix-typo"),
        ),
        options=(
            Option("--base", "BRANCH", "start from it (default: the main worktree's branch)"),
            Option("--description", "TEXT", "what it is about; the title of the commit it becomes"),
            WORKTREE,
        ),
        examples=(
            ("tugcode dash create fix-typo", "a place to work in"),
            (
                'tugcode dash create retry --base develop --description "Retry uploads"',
                "from another branch",
            ),
        ),
    ),
    Command(
        "dash commit",
        "dash",
        "commit what was done in a dash, and record the round",
        description="""\
Commits everything in the dash's worktree, hooks and all, with the trailers Tug-Dash and
Tug-Round, and records the round: what was asked, what was done, the files, the commit. A
round that changed nothing is recorded without a commit. Run it in the dash's worktree or in
the main one. After a crash the same command again commits nothing twice.""",
        arguments=(OWN_NAME,),
        options=(
            Option("--message", "TEXT", "the commit message"),
            Option("--instruction", "TEXT", "what the round was asked to do"),
            Option("--summary", "TEXT", "what it did (default: the message's first line)"),
            WORKTREE,
        ),
        examples=(
            ('tugcode dash commit --message "Fix the typo"', "in the dash's worktree"),
            (
                'tugcode dash commit retry --message "Retry" --instruction "retry 3 times"',
                "with what was asked",
            ),
        ),
    ),
    Command(
        "dash join",
        "dash",
        "bring a dash to its base branch, and end it",
        description="""\
As one commit with the trailer Tug-Dash. The main worktree has to be clean and on the base
branch, and everything in the dash committed. Conflicts are found before anything is touched.
Then the dash's worktree and branch go. A join that was stopped is finished by the next.""",
        arguments=(NAME,),
        options=(
            Option(
                "--message",
                "TEXT",
                "of the commit (default: from its description and commits)",
            ),
            Option("--no-squash", "", "a merge commit, which keeps the commits of the rounds"),
            WORKTREE,
        ),
        examples=(
            ("tugcode dash join fix-typo", "one commit on the base branch"),
            ('tugcode dash join retry --message "Retry uploads" --no-squash', "with its history"),
        ),
    ),
    Command(
        "dash release",
        "dash",
        "give a dash up",
        description="""\
Removes its worktree and its branch. Refused while it has files that are not committed or
commits that are not on its base branch; with --force they are saved first under the ref
that the answer names.""",
        arguments=(NAME,),
        options=(
            Option("--force", "", "save its work under a salvage ref, then remove it"),
            WORKTREE,
        ),
        examples=(("tugcode dash release fix-typo", "nothing came of it"),),
    ),
    Command(
        "dash list",
        "dash",
        "list the dashes",
        description="""\
The active ones, each with its rounds, what is not committed, how far it and its base have
parted, and when something was last done in it. Changes nothing.""",
        options=(Option("--all", "", "also those that were joined or released"), WORKTREE),
        examples=(
            ("tugcode dash list", "what is going on"),
            ("tugcode dash list --all", "and what was"),
        ),
    ),
    Command(
        "dash show",
        "dash",
        "show a dash and its rounds",
        description="""\
The active dash of that name, or else the last that had it: its rounds with what was asked,
what was done, the files and the commit. Changes nothing.""",
        arguments=(OWN_NAME,),
        options=(WORKTREE,),
        examples=(("tugcode dash show fix-typo", "what was done so far"),),
    ),
)
