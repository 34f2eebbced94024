"""What must be true of the plugin, as rules over a directory that has it.

Each rule yields complaints. Clients take most faults in silence: an agent's key that is
ignored, a hook that cannot be found, a command that does not exist any more.
"""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import tugtool
from agents.test_prompts import paths_in, paths_of
from project.test_docs import error_classes
from tugtool.agents import contracts
from tugtool.agents.guard import rules
from tugtool.cli import parse
from tugtool.errors import TugError
from tugtool.system.agent_config import ROLES

PLUGIN, MARKETPLACE = "tugplug", "tugtool"
SKILLS = ("dash", "implement", "merge", "plan")

#: Of Claude Code; what an agent or a skill may name.
TOOLS = {
    *("Agent", "AskUserQuestion", "Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read"),
    *("Skill", "TodoWrite", "WebFetch", "WebSearch", "Write"),
}
MODELS = {"inherit", "haiku", "sonnet", "opus"}
EVENTS = {"PreToolUse", "PostToolUse", "SessionStart", "Stop", "SubagentStop", "UserPromptSubmit"}
#: Keys of an agent's front matter. In a plugin `permissionMode`, `hooks` and `mcpServers` are
#: ignored, and `initialPrompt` is for agents that run a whole session.
AGENT_KEYS = {
    *("name", "description", "tools", "disallowedTools", "model", "color", "effort", "maxTurns"),
    *("skills", "memory", "background", "isolation"),
}
#: Of the Agent Skills specification, with its limits.
SKILL_KEYS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
LONGEST = {"name": 64, "description": 1024, "compatibility": 500}
MOST_LINES = 500
MANIFEST_KEYS = {
    f"{PLUGIN}/.claude-plugin/plugin.json": {
        *("name", "version", "description", "author", "homepage", "repository", "license"),
        *("keywords",),
    },
    # Of the Agent Plugins specification, version 1.0.0.
    f"{PLUGIN}/plugin.json": {
        *("$schema", "name", "version", "description", "author", "homepage", "repository"),
        *("license", "keywords", "extensions"),
    },
    ".claude-plugin/marketplace.json": {"name", "description", "owner", "plugins"},
}
PORTABLE = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
HOOK_KEYS = {"description", "hooks"}, {"matcher", "hooks"}, {"type", "command", "timeout"}

#: The commands of whoever holds a step: they say who and under which attempt.
OWNERS = ("state start", "state heartbeat", "state update", "state artifact", "state complete")
OWNERS += ("state release", "commit")
#: What stands for a number; every other placeholder stands for a word.
NUMBERS = ("{attempt}", "{n}")
#: Lines that a skill names for the user, or by the way, and does not run as they stand.
TOLD = {
    "tugcode ...",
    "tugcode commit",
    "tugcode doctor",
    "tugcode state review {plan_path}",
    "tugcode state update {plan_path} {step_anchor} --batch --complete-remaining",
    "tugcode validate --help",
}
FORCED = re.compile(r"--force\b|\breconcile\b|--no-verify\b|--drop-|--reopen-")


def written(root: Path) -> list[Path]:
    """Every text of the plugin that an agent reads."""
    return sorted((root / PLUGIN).rglob("*.md"))


def named(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def front(path: Path) -> tuple[dict[str, str], str]:
    """The front matter of a file, key by key, and its body."""
    _, head, body = path.read_text().split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.splitlines()), body


def blocks(text: str) -> list[str]:
    """The lines of a text's shell blocks."""
    found = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for block in found for line in block.splitlines() if line]


def command_lines(text: str) -> list[str]:
    """Every command line of ours in a text: in blocks, after a pipe, and between backticks."""
    inline = re.findall(r"`(tugcode [^`]*)`", text.replace("```", ""))
    own = [line.rpartition("| ")[2].partition(" <<< ")[0] for line in blocks(text)]
    return [line for line in (*own, *inline) if line.startswith("tugcode ")]


def parsed(line: str) -> parse.Call:
    """A command line as the real parser reads it, with something in every placeholder."""
    for name in NUMBERS:
        line = line.replace(name, "1")
    return parse.parse(shlex.split(re.sub(r"\{\w+\}", "word", line))[1:])


def manifests_say_only_what_is_read(root: Path) -> Iterator[str]:
    for name, keys in MANIFEST_KEYS.items():
        unknown = set(json.loads((root / name).read_text())) - keys
        yield from (f"{name}: nobody reads {key}" for key in sorted(unknown))
    if json.loads((root / PLUGIN / "plugin.json").read_text()).get("$schema") != PORTABLE:
        yield f"{PLUGIN}/plugin.json does not name the specification that it follows"


def names_agree(root: Path) -> Iterator[str]:
    market = json.loads((root / ".claude-plugin/marketplace.json").read_text())
    if market["name"] != MARKETPLACE or [each["name"] for each in market["plugins"]] != [PLUGIN]:
        yield "the marketplace has another name, or other plugins"
    for each in market["plugins"]:
        if not (root / each["source"] / "plugin.json").is_file():
            yield f"the marketplace's source {each['source']} is no plugin"
    for name in list(MANIFEST_KEYS)[:2]:
        if json.loads((root / name).read_text())["name"] != PLUGIN:
            yield f"{name} has another name than its folder"


def names_are_those_of_files(root: Path) -> Iterator[str]:
    for path in (root / PLUGIN).glob("skills/*/SKILL.md"):
        if front(path)[0].get("name") != path.parent.name:
            yield f"{named(root, path)} has another name than its folder"
    for path in (root / PLUGIN).glob("agents/*.md"):
        if front(path)[0].get("name") != path.stem:
            yield f"{named(root, path)} has another name than its file"


def everybody_is_there(root: Path) -> Iterator[str]:
    agents = {path.name for path in (root / PLUGIN).glob("agents/*")}
    skills = {path.name for path in (root / PLUGIN).glob("skills/*")}
    for name in sorted(agents ^ {f"{role}-agent.md" for role in ROLES}):
        yield f"agents/{name}: a role without its agent, or an agent without a role"
    for name in sorted(skills ^ set(SKILLS)):
        yield f"skills/{name} is missing, or unknown"


def versions_are_the_package_s(root: Path) -> Iterator[str]:
    for name in MANIFEST_KEYS:
        manifest = json.loads((root / name).read_text())
        for each in manifest.get("plugins", [manifest]):
            if each.get("version") != tugtool.__version__:
                yield f"{name} has version {each.get('version')}, not {tugtool.__version__}"


def hooks_can_be_run(root: Path) -> Iterator[str]:
    top, entry, handler = HOOK_KEYS
    hooks = json.loads((root / PLUGIN / "hooks/hooks.json").read_text())
    unknown = set(hooks) - top
    for event, entries in hooks["hooks"].items():
        unknown |= set() if event in EVENTS else {event}
        for each in entries:
            unknown |= set(each) - entry
            for hook in each["hooks"]:
                unknown |= set(hook) - handler
                yield from _hook_problems(hook)
    yield from (f"hooks.json: nobody reads {key}" for key in sorted(unknown))


def _hook_problems(hook: dict) -> Iterator[str]:
    words = shlex.split(hook["command"])
    # As for a person who has installed the package: its commands are on the path.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    if hook["type"] != "command" or shutil.which(words[0], path=path) is None:
        yield f"hooks.json: {words[0]} is no command that can be run"
    elif words[0] == "tugcode":
        try:
            parsed(hook["command"])
        except TugError as error:
            yield f"hooks.json: `{hook['command']}`: {error.message}"


def front_matter_is_read_as_it_stands(root: Path) -> Iterator[str]:
    """No value that YAML would take for something else than its text."""
    for path in (*(root / PLUGIN).glob("agents/*.md"), *(root / PLUGIN).glob("skills/*/SKILL.md")):
        for line in path.read_text().split("---\n", 2)[1].splitlines():
            key, colon, value = line.partition(": ")
            odd = ": " in value or " #" in value or value[:1] in "[]{}&*!|>'\"%@`- "
            if not colon or not re.fullmatch(r"[\w-]+", key) or odd:
                yield f"{named(root, path)}: `{line}` may be read as something else"


def agents_name_what_exists(root: Path) -> Iterator[str]:
    for path in (root / PLUGIN).glob("agents/*.md"):
        keys, _ = front(path)
        for key in sorted(set(keys) - AGENT_KEYS):
            yield f"{named(root, path)}: {key} is ignored in a plugin, or unknown"
        for tool in sorted(set(keys.get("tools", "").split(", ")) - TOOLS):
            yield f"{named(root, path)}: there is no tool {tool}"
        if keys.get("model", "inherit") not in MODELS:
            yield f"{named(root, path)}: there is no model {keys['model']}"
        if not 0 < len(keys.get("description", "")) <= LONGEST["description"]:
            yield f"{named(root, path)}: its description is missing, or too long"


def agents_may_do_what_they_are_told(root: Path) -> Iterator[str]:
    """What the guard would refuse an agent is not asked of it, and not among its tools."""
    for role, rights in rules.ROLES.items():
        path = root / PLUGIN / f"agents/{role}-agent.md"
        keys, body = front(path)
        for tool in sorted(set(keys["tools"].split(", ")) - rights.tools):
            yield f"{named(root, path)}: the guard refuses {tool} to the {role}"
        for line in command_lines(body):
            if not rules.may_run(rights, parsed(line).path):
                yield f"{named(root, path)}: the guard refuses `{line}` to the {role}"


def skills_keep_the_specification(root: Path) -> Iterator[str]:
    for path in (root / PLUGIN).glob("skills/*/SKILL.md"):
        keys, body = front(path)
        for key in sorted(set(keys) - SKILL_KEYS):
            yield f"{named(root, path)}: {key} is no key of a skill"
        for key, most in LONGEST.items():
            if len(keys.get(key, "")) > most or not keys.get(key):
                yield f"{named(root, path)}: {key} is missing, or longer than {most}"
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", keys.get("name", "")):
            yield f"{named(root, path)}: {keys.get('name')} is no name of a skill"
        tools = re.findall(r"([^\s(]+)(?:\([^)]*\))?", keys.get("allowed-tools", ""))
        for tool in sorted(set(tools) - TOOLS):
            yield f"{named(root, path)}: there is no tool {tool}"
        if len(body.splitlines()) >= MOST_LINES:
            yield f"{named(root, path)} has {len(body.splitlines())} lines"


def links_lead_somewhere(root: Path) -> Iterator[str]:
    for path in written(root):
        text = path.read_text()
        heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([\w-]*))?\)", text):
            if target and not (path.parent / target).is_file():
                yield f"{named(root, path)}: {target} is not there"
            if anchor and not target and anchor not in anchors:
                yield f"{named(root, path)}: there is no heading for #{anchor}"


def commands_can_be_typed(root: Path) -> Iterator[str]:
    for path in written(root):
        for line in command_lines(path.read_text()):
            try:
                known = parsed(line).path in parse.FAMILIES
            except (TugError, ValueError) as error:
                yield f"{named(root, path)}: `{line}`: {error}"
                continue
            if not known:
                yield f"{named(root, path)}: `{line}` is no command"


def skills_run_single_lines_for_programs(root: Path) -> Iterator[str]:
    for path in (root / PLUGIN).glob("skills/*/SKILL.md"):
        for line in blocks(path.read_text()):
            if line.endswith("\\") or re.search(r"(?<!<)<<(?!<)|mktemp|/tmp/| > ", line):
                yield f"{named(root, path)}: `{line}` is not one line, or needs a file"
            elif not line.rpartition("| ")[2].startswith("tugcode ") or " --json" not in line:
                yield f"{named(root, path)}: `{line}` is no `tugcode ... --json`"


def skills_may_run_what_they_run(root: Path) -> Iterator[str]:
    """Nobody is there to be asked for leave: what a skill runs is among its allowed tools."""
    for path in (root / PLUGIN).glob("skills/*/SKILL.md"):
        keys, body = front(path)
        leave = re.findall(r"Bash\(([^)]*):\*\)", keys.get("allowed-tools", ""))
        inline = re.findall(r"`((?:tugcode|git|echo) [^`]*)`", body.replace("```", ""))
        for line in (*blocks(body), *inline):
            for part in line.partition(" <<< ")[0].split(" | "):
                if part != "..." and not any(f"{part} ".startswith(f"{each} ") for each in leave):
                    yield f"{named(root, path)}: `{part}` is not among its allowed tools"


def skills_read_answers_for_programs(root: Path) -> Iterator[str]:
    for path in (root / PLUGIN).glob("skills/*/SKILL.md"):
        for line in command_lines(path.read_text()):
            if " --json" not in line and line not in TOLD:
                yield f"{named(root, path)}: `{line}` is not for programs"


def drift_is_looked_for_where_it_is(root: Path) -> Iterator[str]:
    """The main worktree's copy is what was agreed when it is another's that changed."""
    path = root / PLUGIN / "skills/implement/SKILL.md"
    for line in command_lines(path.read_text()):
        if line.startswith("tugcode state diff") and "--worktree {worktree_path}" not in line:
            yield f"{named(root, path)}: `{line}` compares another copy"


def holders_say_who_they_are(root: Path) -> Iterator[str]:
    path = root / PLUGIN / "skills/implement/SKILL.md"
    for line in command_lines(
        "".join(f"```sh\n{each}\n```\n" for each in blocks(path.read_text()))
    ):
        words = line.removeprefix("tugcode ")
        fenced = "--worktree {worktree_path}" in line and "--attempt {attempt}" in line
        if words.startswith(OWNERS) and not fenced:
            yield f"{named(root, path)}: `{line}` says not who, or under which attempt"


def nothing_is_forced(root: Path) -> Iterator[str]:
    for path in written(root):
        text = path.read_text()
        for line in (*command_lines(text), *blocks(text)):
            if FORCED.search(line):
                yield f"{named(root, path)}: `{line}` forces"
        for passage in re.split(r"\n\n|\n(?=- |\| |\d+\. )", text):
            if FORCED.search(passage) and not re.search(r"\bnever\b", passage, re.IGNORECASE):
                yield f"{named(root, path)}: force is spoken of, and not forbidden: {passage[:60]}"


def codes_exist(root: Path) -> Iterator[str]:
    known = {each.code for each in error_classes()}
    for path in written(root):
        for code in sorted(set(re.findall(r"\bE\d{3}\b", path.read_text())) - known):
            yield f"{named(root, path)}: there is no code {code}"


def contracts_are_the_schemas(root: Path) -> Iterator[str]:
    for role in ROLES:
        path = root / PLUGIN / f"agents/{role}-agent.md"
        found = re.findall(r"^```json\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)
        schema = contracts.schema(role)
        asked = {name: inner for name, inner in schema["properties"].items() if name != "usage"}
        if len(found) != 1 or paths_of(json.loads(found[0])) != paths_in({"properties": asked}):
            yield f"{named(root, path)} shows another answer than its contract"
        elif contracts.problems(role, json.loads(found[0])):
            yield f"{named(root, path)} shows an answer that breaks its contract"


def skills_know_the_contracts(root: Path) -> Iterator[str]:
    """A skill names all that its agents must get, and its reference all fields there are."""
    for path in (root / PLUGIN).glob("skills/*/references/contracts.md"):
        page, skill = path.read_text(), (path.parent.parent / "SKILL.md").read_text()
        for role, kind, rows in re.findall(
            r"^## (\w+) (gets|answers)\n(.*?)(?=^## |\Z)", page, re.S | re.M
        ):
            schema = contracts.schema(role, of_input=kind == "gets")
            names = {n.replace("?", "") for n in re.findall(r"^\| `([^`]*)` \|", rows, re.M)}
            wanted = {p[1:] for p in paths_in(schema) if not p.startswith(".usage")}
            for name in sorted(names ^ wanted):
                yield f"{named(root, path)}: {role} {kind}: {name} is on one side only"
            for name in schema["required"] if kind == "gets" else ():
                if f"`{name}`" not in skill:
                    yield f"{named(root, path.parent.parent)} never gives {role} its {name}"


def sections_are_there(root: Path) -> Iterator[str]:
    for name, heading in (
        ("skills/implement/SKILL.md", "## State lifecycle"),
        ("skills/implement/SKILL.md", "### After APPROVE"),
        ("agents/coder-agent.md", "## Tool Usage"),
    ):
        if f"\n{heading}\n" not in (root / PLUGIN / name).read_text():
            yield f"{PLUGIN}/{name} has no section {heading}"


RULES = (
    manifests_say_only_what_is_read,
    names_agree,
    names_are_those_of_files,
    everybody_is_there,
    versions_are_the_package_s,
    hooks_can_be_run,
    front_matter_is_read_as_it_stands,
    agents_name_what_exists,
    agents_may_do_what_they_are_told,
    skills_keep_the_specification,
    links_lead_somewhere,
    commands_can_be_typed,
    skills_run_single_lines_for_programs,
    skills_may_run_what_they_run,
    skills_read_answers_for_programs,
    drift_is_looked_for_where_it_is,
    holders_say_who_they_are,
    nothing_is_forced,
    codes_exist,
    contracts_are_the_schemas,
    skills_know_the_contracts,
    sections_are_there,
)
