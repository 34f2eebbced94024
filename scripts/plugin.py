"""Write the parts of the plugin that follow from the package: its agents and its versions.

An agent is the prompt of its role, as `tugcode implement` uses it, behind a front matter for
agent clients. `--check` only compares.
"""

import re
import sys
from pathlib import Path

from reference import kind

from tugtool import __version__
from tugtool.agents import clis, contracts
from tugtool.system.agent_config import ROLES

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = (
    "tugplug/.claude-plugin/plugin.json",
    "tugplug/plugin.json",
    ".claude-plugin/marketplace.json",
)
#: When a client should use an agent; the skills of the plugin always name theirs.
WHEN = {
    "clarifier": "Finds out what has to be known before a plan can be written",
    "author": "Writes a plan that agents can carry out, or changes one after a review",
    "critic": "Judges whether a plan can be carried out by agents that cannot ask back",
    "architect": "Decides how one step of a plan is to be done, and changes nothing",
    "coder": "Carries out one step of a plan in its git worktree, and never commits",
    "reviewer": "Judges the work on one step of a plan item by item, and edits nothing",
    "committer": "Commits one approved step of a plan with tugcode commit, and edits nothing",
    "auditor": "Judges the whole of a plan after its last step, and edits nothing",
    "integrator": "Brings the branch of a done plan to its remote and reports the checks",
}
#: The tools that a client gives an agent; the plugin's guard limits their use.
TOOLS = {
    clis.LOOK: ("Read", "Grep", "Glob"),
    clis.RUN: ("Read", "Grep", "Glob", "Bash"),
    clis.EDIT: ("Read", "Grep", "Glob", "Edit", "Write", "Bash"),
}

#: Skill -> the roles whose contracts it has to know.
CASTS = {
    "plan": ("clarifier", "author", "critic"),
    "implement": ("architect", "coder", "reviewer", "committer", "auditor", "integrator"),
}
#: A program sets this field, so a skill does not ask for it.
NOT_ASKED = ("usage",)


def agent(role: str) -> str:
    """Return the whole file of one agent."""
    tools = ", ".join(TOOLS[clis.ACCESS[role]])
    when = f"{WHEN[role]}. For the skills of tugplug; gets one JSON object and answers with one."
    front = f"name: {role}-agent\ndescription: {when}\ntools: {tools}\nmodel: inherit\n"
    return f"---\n{front}---\n\n{contracts.prompt_text(role)}"


def quoted(skill: str) -> str:
    """Return the contracts of a skill's agents from the schemas."""
    parts = [
        "# Contracts\n",
        "What each agent gets and answers: one JSON object each. `?` marks a field that may be",
        "left out. Further fields are accepted. Written from the schemas; do not edit.",
    ]
    for role in CASTS[skill]:
        for title, of_input in (("gets", True), ("answers", False)):
            schema = contracts.schema(role, of_input=of_input)
            parts += [f"\n## {role} {title}\n", "| field | type | meaning |", "|---|---|---|"]
            parts += rows(schema)
    return "\n".join(parts) + "\n"


def rows(schema: dict, prefix: str = "") -> list[str]:
    """Return one row per field of a schema, at every depth."""
    found = []
    for name, value in schema.get("properties", {}).items():
        if prefix + name in NOT_ASKED:
            continue
        path = f"{prefix}{name}{'' if name in schema['required'] else '?'}"
        found.append(f"| `{path}` | {kind(value)} | {value['description']} |")
        inner = value.get("anyOf", [value])[0]
        listed = "items" in inner
        inner = inner.get("items", inner)
        found += rows(inner.get("anyOf", [inner])[0], f"{path}{'[]' if listed else ''}.")
    return found


def manifest(name: str) -> str:
    """Return a manifest with this package's version."""
    text = (ROOT / name).read_text()
    return re.sub(r'("version": )"[^"]*"', rf'\1"{__version__}"', text)


def pages() -> dict[str, str]:
    """Return every generated file with its text."""
    agents = {f"tugplug/agents/{role}-agent.md": agent(role) for role in ROLES}
    quotes = {f"tugplug/skills/{skill}/references/contracts.md": quoted(skill) for skill in CASTS}
    return {**agents, **quotes, **{name: manifest(name) for name in MANIFESTS}}


def main(check: bool) -> int:
    """Write or compare every file, and return the exit status."""
    stale = 0
    for name, text in pages().items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        if check:
            print(f"{name} is out of date; run: make docs", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
