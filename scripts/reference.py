"""Write the generated pages of docs/: commands, configuration, parts of some others.

python scripts/reference.py           write them
python scripts/reference.py --check   exit status 1 if one is out of date
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import tugtool
from tugtool.agents import contracts
from tugtool.agents.guard import rules
from tugtool.cli import help, parse
from tugtool.server import deck, routes
from tugtool.system import agent_config, config, variables

DOCS = Path(__file__).resolve().parent.parent / "docs"
SCHEMAS = Path(tugtool.__file__).parent / "schemas"
WRITTEN = "<!-- From here on written by `make docs`; do not edit. -->"
END = "<!-- Up to here. -->"
NOTE = "<!-- Written by `make docs`; do not edit. -->\n"
#: What is said beside the paths of a group.
OF_AGENTS = ": agents may have printed what they should not have seen"
OF_STEER = ", `state/review` with a verdict, `state/release` with `force`"
OF_GIT = (
    "; `state/verify` needs `serve.run_commands = true` too, because it runs commands of the plan"
)


def commands() -> str:
    """Return the command reference, from the declarations and the schemas of the answers."""
    parts = [NOTE, "# Commands\n", _grammar()]
    shown = help.visible()
    parts += [f"- [`tugcode {path}`](#tugcode-{_slug(path)}): {shown[path]}" for path in shown]
    parts += [_json()]
    for command in filter(None, map(parse.find, parse.FAMILIES)):
        parts += [f"\n## tugcode {command.path}\n", "```text", help.for_command(command).rstrip()]
        parts += ["```\n", *_answer(_slug(command.path))]
    return "\n".join(parts) + "\n"


def _json() -> str:
    parts = [
        "\n## JSON answers\n",
        "With `--json` a command prints exactly one document on standard output, errors included.",
        "It is pure ASCII. The schemas are in the package, `tugtool/schemas/`, and the tests hold",
        "every answer against them. `?` marks a field that may be absent. Every answer is the",
        "`data` of an envelope:\n",
        *_answer("envelope"),
        "\nThe answer of `--help`:\n",
        *_answer("help"),
    ]
    return "\n".join(parts)


def _answer(name: str) -> list[str]:
    """Return the schema of that name as tables."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    parts = [f"{schema['description'].capitalize()}.\n", *_table(schema)]
    for each, definition in schema.get("$defs", {}).items():
        parts += [f"\n### {name}: {each}\n", *_table(definition)]
    return parts


def _table(schema: dict) -> list[str]:
    return ["| field | type | meaning |", "|---|---|---|", *_rows(schema, "")]


def _grammar() -> str:
    rows = "\n".join(
        f"| `{' '.join(filter(None, [option.short, help.option_form(option)]))}` | {option.help} |"
        for option in parse.GLOBAL_OPTIONS
    )
    return (
        "`tugcode COMMAND [ARGUMENTS] [OPTIONS]`. Options may stand anywhere before `--`, with\n"
        "their value as the next word or after `=`. What follows `--` is never an option.\n\n"
        f"| everywhere | |\n|---|---|\n{rows}\n\n"
        "| exit status | |\n|---|---|\n"
        "| 0 | done |\n| 1 | refused or failed |\n| 2 | the command line makes no sense |\n"
        "| 3 | a bug in Tugtool: a traceback, and where to report it |\n"
        "| 4 | the claim is not yours any more: stop working |\n| 130 | interrupted |\n"
    )


def _rows(schema: dict, prefix: str) -> list[str]:
    rows = []
    for field, value in schema.get("properties", {}).items():
        mark = "" if field in schema["required"] else "?"
        path = f"{prefix}{field}{mark}"
        rows.append(f"| `{path}` | {kind(value)} | {value['description']} |")
        inner = value.get("items", value)
        depth = "[]" if "items" in value else ""
        while "items" in inner:
            inner, depth = inner["items"], depth + "[]"
        inner = inner.get("anyOf", [inner])[0]
        rows += _rows(inner, f"{path}{depth}.")
    return rows


def kind(schema: dict) -> str:
    """Return what a field takes, in a few words."""
    if "enum" in schema:
        return ", ".join("null" if value is None else f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(map(kind, schema["anyOf"]))
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if schema["type"] == "array":
        return f"list of {kind(schema['items'])}"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(kinds)


def configuration() -> str:
    """Return the settings and the environment, from their tables."""
    rows = [
        f"| `{key}` | `{json.dumps(setting.default)}` | {setting.expects()} | {setting.meaning} |"
        for key, setting in config.all_settings().items()
    ]
    return (
        f"{NOTE}\n# Configuration\n\n"
        "Settings live in `.tugtool/config.toml` at the top of the main worktree, also for\n"
        "commands that run in a linked one. Every key is optional, `tugcode init` writes no such\n"
        "file, and without it nothing is paid for it. A key that does not exist, or a value it\n"
        "does not take, is an error (E071). `tugcode config` shows what is in force and why.\n\n"
        "```toml\n[plan]\nmax_bytes = 16777216\n```\n\n"
        "| key | default | takes | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "## Agents\n\n"
        "`[agents.ROLE]` says who plays a role ([agents](agents.md)); `[agents.default]` fills\n"
        "what the table of a role leaves out. A role for which neither names a preset or a\n"
        "command has no agent, nor has one with the preset `none`. The integrator pushes, so only\n"
        "its own table can hire it. A preset and a command together are an error.\n\n"
        '```toml\n[agents.default]\npreset = "claude"\n\n[agents.reviewer]\n'
        'command = ["my-reviewer", "--headless"]\ntimeout_seconds = 900\n```\n\n'
        "| key | default | takes | meaning |\n|---|---|---|---|\n" + "\n".join(_agents()) + "\n\n"
        "## Environment\n\n| variable | effect |\n|---|---|\n"
        + "\n".join(f"| `{name}` | {meaning} |" for name, meaning in variables.VARIABLES.items())
        + "\n"
    )


def _agents() -> list[str]:
    return [
        f"| `agents.ROLE.{key}` | {'none' if default is None else f'`{json.dumps(default)}`'} "
        f"| {takes} | {meaning} |"
        for key, (default, takes, meaning) in agent_config.KEYS.items()
    ]


def _parts(name: str) -> tuple[str, str]:
    """Return what stands on a page before and after its generated part."""
    before, rest = (DOCS / name).read_text().split(WRITTEN, 1)
    return before, rest.split(END, 1)[1]


def state() -> str:
    """Return the page about the state, with a new table of its commands."""
    before, after = _parts("reference/state.md")
    rows = ["| command | what it does | such as |", "|---|---|---|"]
    for path, summary in help.visible("state").items():
        command = parse.find(path)
        assert command is not None
        example = command.examples[0][0].replace("|", "\\|")
        rows += [f"| [`{help.short(path)}`](commands.md#tugcode-{_slug(path)}) | {summary} |"]
        rows[-1] += f" `{example}` |"
    lines = "\n".join(rows)
    return f"{before}{WRITTEN}\n\n{lines}\n\n{END}{after}"


def server() -> str:
    """Return the page about the server, with a new table of its paths."""
    before, after = _parts("reference/server.md")
    rows = ["| group | role | paths below `/api/v1/` |", "|---|---|---|"]
    own = [path for path in deck.PATHS if not path.startswith(f"{routes.API}transcript/")]
    printed = [path for path in deck.PATHS if path not in own]
    groups = (
        ("look, `GET`", "viewer", _served("look", "viewer"), ""),
        ("of the page, `GET`", "viewer", [*own, routes.LIVE, f"{routes.API}openapi.json"], ""),
        ("of agents, `GET`", "operator", [*_served("look", "operator"), *printed], OF_AGENTS),
        ("hold, `POST`", "worker", _served("hold"), ""),
        ("steer, `POST`", "operator", _served("steer"), OF_STEER),
        ("git, `POST`", "operator, and `serve.git = true`", _served("git"), OF_GIT),
    )
    for group, role, paths, note in groups:
        shown = " ".join(f"`{path.removeprefix(routes.API)}`" for path in paths)
        rows += [f"| {group} | {role} | {shown}{note} |"]
    lines = "\n".join(rows)
    return f"{before}{WRITTEN}\n\n{lines}\n\n{END}{after}"


def _served(group: str, role: str = "") -> list[str]:
    """Return the paths of a group, in the order of the commands."""
    found = [each for each in routes.ROUTES.values() if each.group == group]
    # `state review` steers with a verdict alone, and `state verify` has a condition of its own.
    noted = ("state review",) if group == "steer" else routes.RUNS
    return [each.path for each in found if role in ("", each.role) and each.command not in noted]


def agents() -> str:
    """Return the page about agents, with new tables of the contracts."""
    before, after = _parts("reference/agents.md")
    parts = [before.rstrip("\n"), "", WRITTEN]
    for role in agent_config.ROLES:
        parts += [f"\n### {role}\n"]
        for kind in ("input", "answer"):
            schema = contracts.schema(role, of_input=kind == "input")
            parts += [f"{'Gets' if kind == 'input' else 'Answers'} ({schema['description']}):\n"]
            parts += [*_table(schema), ""]
    return "\n".join(parts) + "\n" + END + after


def guard() -> str:
    """Return the page about the guard, with new tables of its rules."""
    before, after = _parts("internals/guard.md")
    return f"{before}{WRITTEN}\n\n{_roles()}\n{_lists()}\n{END}{after}"


def _roles() -> str:
    edits = {rules.NOTHING: "nothing", rules.PLANS: "plan files", rules.WORK: "its worktree"}
    programs = {rules.VIEWERS: "that only look", rules.ANY: "any"}
    lines = [
        "| role | edits | programs | of git, beside looking | of tugcode, beside looking | web |",
        "|---|---|---|---|---|---|",
    ]
    for role in rules.ROLES.values():
        runs = programs[role.programs] + (", `gh`, `glab`" if role.host else "")
        web = "yes" if role.tools >= rules.WEB else "no"
        own = (_codes(role.git), _codes(role.commands))
        lines += [f"| {role.name} | {edits[role.edits]} | {runs} | {' | '.join(own)} | {web} |"]
    return "\n".join(lines) + "\n"


def _lists() -> str:
    some = [
        f"{name} {word}".strip() for name, words in rules.GIT_LOOK_WITH.items() for word in words
    ]
    narrow = [f"{name} {word}" for name, words in rules.GIT_LOOK_OPTIONS.items() for word in words]
    plain = [f"{name} {word}" for name, words in rules.REMOTE_OPTIONS.items() for word in words]
    apart = [f"{name} {word}" for name, words in rules.APART_OPTIONS.items() for word in words]
    never = [f"{name} {word}" for name, words in rules.VIEWING_NEVER.items() for word in words]
    committing, hooking = (
        [f"{name} {word}".strip() for name, words in table.items() for word in words or [""]]
        for table in (rules.COMMITTING, rules.HOOKING)
    )
    changing = [
        f"{path} {word}" for path, words in rules.CHANGING_OPTIONS.items() for word in words
    ]
    host = [
        f"{tool} {subject} {verb}".strip()
        for tool, subjects in rules.HOST_TOOLS.items()
        for subject, verbs in subjects.items()
        for verb in verbs
    ]
    rows = {
        "tools, for every role": rules.LOOKING | rules.RUNNING,
        "tools for roles that edit": rules.EDITING,
        "tugcode, looking": rules.LOOK_COMMANDS,
        "but never": changing,
        "git, looking": [*rules.GIT_LOOK, *some, "config NAME", "format-patch --stdout"],
        "with no options but": narrow,
        "but never with": [*rules.GIT_NEVER, "grep -O"],
        "settings for `git -c`": rules.GIT_SETTINGS,
        "`git push REMOTE BRANCH`, `git fetch`, with no options but": plain,
        "a repository apart, with no options but": apart,
        "of a code host's tool, for the integrator": host,
        "for all other roles only": rules.HOST_LOOK,
        "programs that only look": rules.VIEWING,
        "but not with": never,
        "programs that change files": rules.CHANGING,
        "programs that write files if told to": rules.WRITING,
        "shells of databases": rules.DATABASES,
        "programs that forget the role": rules.FORGETTING,
        "programs that commit by themselves, for no role": committing,
        "programs that change the shared git directory, for no role": hooking,
        "variables that no role sets": rules.NEVER_SET,
        "variables set only for programs that the role may run without limits": rules.NOT_SET,
        "settings of them that are free": rules.HARMLESS_SETTINGS,
    }
    lines = [f"| {name} | {_codes(words)} |" for name, words in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines]) + "\n"


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words)) or "nothing"


def _slug(path: str) -> str:
    return path.replace(" ", "-")


PAGES = {
    "reference/commands.md": commands,
    "reference/configuration.md": configuration,
    "reference/agents.md": agents,
    "reference/state.md": state,
    "reference/server.md": server,
    "internals/guard.md": guard,
}


def main(check: bool) -> int:
    """Write or compare every page, and return the exit status."""
    stale = 0
    for name, page in PAGES.items():
        path = DOCS / name
        if path.exists() and path.read_text() == page():
            continue
        stale += 1
        if check:
            print(f"docs/{name} is out of date; run: make docs", file=sys.stderr)
        else:
            path.write_text(page())
            print(f"wrote docs/{name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
