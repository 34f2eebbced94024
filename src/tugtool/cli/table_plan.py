"""The commands about plans."""

from __future__ import annotations

from tugtool.cli.grammar import Argument, Command, Option

_PLAN = Argument(
    "plan",
    "a path, a file name, a slug, or the beginning of one; may be left out where there is only one",
    kind="plan",
    optional=True,
)
_MAX_BYTES = Option(
    "--max-bytes",
    "N",
    "accept plan files up to N bytes (default: plan.max_bytes of the configuration)",
    kind="number",
)

COMMANDS = (
    Command(
        "validate",
        "plan",
        "check plans against the rules of the format",
        description="""\
Without PLAN, checks all plans. Lenient looks only for what would break the execution,
normal for everything, and strict makes warnings errors. Exit status 1 if there is an
error.""",
        arguments=(Argument("plan", "plans to check", kind="plan", optional=True, many=True),),
        options=(
            Option(
                "--level",
                "LEVEL",
                "how strict to be (default: normal)",
                choices=("lenient", "normal", "strict"),
            ),
            _MAX_BYTES,
        ),
        examples=(
            ("tugcode validate", "all plans, at the normal level"),
            ("tugcode validate parser --level strict", "one plan, warnings are errors"),
            ("tugcode validate --json", "for a program: every finding with its line"),
        ),
    ),
    Command(
        "list",
        "plan",
        "list the plans of this repository",
        description="""\
Each plan with its slug, title, status, and how many steps and checklist items it has. A
plan that cannot be read is listed with the reason.""",
        options=(_MAX_BYTES,),
        examples=(
            ("tugcode list", "what is there"),
            ("tugcode list --json", "the same for a program"),
        ),
        function="list_plans",
    ),
    Command(
        "plan new",
        "plan",
        "start a plan from the skeleton",
        description="""\
Writes .tugtool/tugplan-SLUG.md in the current worktree, from .tugtool/tugplan-skeleton.md
if the repository has one and from the built-in skeleton otherwise. Never overwrites.""",
        arguments=(
            Argument("slug", "lower-case letters, digits and hyphens, e.g. parser-rewrite"),
        ),
        options=(Option("--title", "TITLE", "put this title in"),),
        examples=(
            ("tugcode plan new parser-rewrite", "a new plan, to be filled in"),
            ('tugcode plan new login --title "Log in with a passkey"', "with its title"),
        ),
    ),
    Command(
        "plan show",
        "plan",
        "show what the parser understood of a plan",
        description="""\
Title, metadata, decisions, and every step with its dependencies, substeps and checklist
items, each with its line. What is missing here is not there for Tugtool either.""",
        arguments=(_PLAN,),
        options=(
            Option("--step", "ANCHOR", "only this step, with its full texts", kind="step"),
            _MAX_BYTES,
        ),
        examples=(
            ("tugcode plan show parser", "the whole plan"),
            ("tugcode plan show parser --step step-3", "one step in full"),
            ("tugcode plan show parser --json", "all of it as data"),
        ),
    ),
    Command(
        "plan graph",
        "plan",
        "show what can run in parallel and what must wait",
        description="""\
Waves are the steps that can run at the same time once the wave before is done; the widest
wave is how many workers can be busy at once; the critical path is the longest chain.
Substeps count with their step. A plan with an unknown dependency or a cycle is refused
with the diagnostics of `tugcode validate`.""",
        arguments=(_PLAN,),
        options=(
            Option(
                "--format",
                "FORMAT",
                "how to print it (default: text)",
                choices=("text", "mermaid", "dot", "json"),
            ),
            _MAX_BYTES,
        ),
        examples=(
            ("tugcode plan graph parser", "waves and critical path"),
            ("tugcode plan graph parser --format mermaid", "for a Markdown page"),
            ("tugcode plan graph parser --format dot | dot -Tsvg > plan.svg", "a picture"),
        ),
    ),
)
