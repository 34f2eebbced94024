"""The question of trust: all that a repository's files would run or connect to, for its user."""

from __future__ import annotations

import contextlib
import shlex
import shutil

from tugtool.agents import clis, confinement
from tugtool.errors import TugError
from tugtool.git import discover
from tugtool.plan import checkpoints
from tugtool.state import record, revisions
from tugtool.system import agent_config, clock, config, os, secrets, text
from tugtool.workflow import plans, records, trust
from tugtool.workflow.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tugtool.plan.catalog import PlanFile
    from tugtool.schemas import Trust, TrustCommand, TrustSetting
    from tugtool.store import Store
    from tugtool.system.config import Settings


def no_question(root: str | None) -> Trust:
    """Return the answer where there is no repository to ask about, or only its root is known."""
    return {
        "root": root,
        "trusted": trust.by_environment(),
        "changed": [],
        "trust_file": trust.path(),
        "commands": [],
        "settings": [],
        "repositories": [],
    }


class TrustQuestion:
    """A repository, and all that trust lets its files do."""

    def __init__(self, cwd: str) -> None:
        self.repo = discover(cwd)
        self.settings = config.load(self.repo.root)
        self.plans: dict[str, list[str]] = {}
        # A state that cannot be read, or not without trust, names no commands.
        with contextlib.suppress(TugError):
            self.plans = dict(_recorded(Workspace(cwd).store))
        # The other plans are recorded when their first step is taken.
        for file in records.unrecorded(self.repo, self.plans):
            with contextlib.suppress(TugError, OSError):
                self._add(file)

    def _add(self, file: PlanFile) -> None:
        plan = plans.parse(self.repo, file, self.settings.number("plan.max_bytes"))
        found = checkpoints.commands_of(plan)
        if found:
            self.plans[file.key] = found

    @property
    def root(self) -> str:
        """The repository's root, under which the answer is recorded."""
        return self.repo.root

    def is_trusted(self) -> bool:
        """Return whether this user trusts the repository as it is."""
        return trust.is_trusted(self.root, self.settings) and not self._unseen()

    def is_answered(self) -> bool:
        """Return whether this user has said yes or no to these settings."""
        try:
            entry = trust.entry_of(self.root)
        except TugError:
            return False
        same = not entry.get("trusted") or trust.is_same(self.root, entry)
        return same and entry.get("settings") == trust.fingerprints(self.settings)

    def answer(self, *, trusted: bool) -> None:
        """Record this user's answer for the repository as it is now."""
        seen = {key: [trust.line_hash(line) for line in lines] for key, lines in self.plans.items()}
        entry = {
            "trusted": trusted,
            "settings": trust.fingerprints(self.settings),
            "plans": seen,
            "mark": trust.marked(self.root) if trusted else None,
            "at": clock.text(clock.system_milliseconds()),
        }
        trust.change(lambda known: known.update({self.root: entry}))

    def describe(self) -> Trust:
        """Return all that trust lets the files do, and whether this user has said so."""
        refusal = trust.refusal(self.root, self.settings, "")
        changed = self._unseen() if refusal is None else refusal.facts.get("changed")
        return {
            "root": self.root,
            "trusted": self.is_trusted(),
            "changed": list(changed) if isinstance(changed, list) else [],
            "trust_file": trust.path(),
            "commands": [*_of_settings(self.settings, self.root), *self._of_plans()],
            "settings": list(_other_settings(self.settings)),
            "repositories": [],
        }

    def _unseen(self) -> list[str]:
        """Return the commands of plans that this user has not agreed to."""
        return trust.unseen(self.root, (line for each in self.plans.values() for line in each))

    def _of_plans(self) -> Iterator[TrustCommand]:
        for key, lines in self.plans.items():
            for line in lines:
                yield {"source": key, "command": line, "program": None, "variables": {}}


def _of_settings(settings: Settings, root: str) -> Iterator[TrustCommand]:
    """Yield every command that the settings name, as it would be run."""
    for agent in filter(None, map(settings.agent, agent_config.ROLES)):
        made = clis.command(agent)
        env = {**config.command_environment(), **made.env}
        yield {
            "source": f"agents.{agent.role}",
            "command": shlex.join(made.argv),
            "program": _program(made.argv[0], env.get("PATH", os.defpath), root),
            "variables": {n: _shown(n, value) for n, value in sorted(agent.env.items())},
        }
    places = config.command_environment().get("PATH", os.defpath)
    for key in trust.COMMANDS:
        value = settings.value(key)
        assert isinstance(value, list)
        for line in [value] if key == "notify.command" and value else value:
            # A line is for a shell, which finds its programs itself.
            if isinstance(line, str):
                yield {"source": key, "command": line, "program": None, "variables": {}}
                continue
            words, program = shlex.join(map(str, line)), _program(str(line[0]), places, root)
            yield {"source": key, "command": words, "program": program, "variables": {}}


def _other_settings(settings: Settings) -> Iterator[TrustSetting]:
    """Yield what else the settings decide: addresses, files, and what agents may write."""
    for key in trust.ADDRESSES:
        if settings.is_set(key):
            yield {"source": key, "value": _written(settings.value(key))}
    for agent in filter(None, map(settings.agent, agent_config.ROLES)):
        yield {"source": f"agents.{agent.role}.confine", "value": confinement.described(agent)}


def _written(value: object) -> str:
    return value if isinstance(value, str) else text.encode(value)


def _shown(name: str, value: str) -> str:
    """Return the value of a variable; one like PATH can make a harmless command do anything."""
    return "..." if secrets.is_secret(name) else value


def _program(name: str, places: str, root: str) -> str | None:
    """Return the file that would be run; a relative place in the PATH is one of the worktree."""
    if os.sep in name:
        return name
    found = shutil.which(name, path=places)
    return found and os.path.join(root, found)


def _recorded(store: Store) -> Iterator[tuple[str, list[str]]]:
    """Yield the plans of the record with the commands of their checkpoints."""
    for key in record.plans(store) if store.exists() else ():
        yield key, checkpoints.commands_of(plans.parse_text(revisions.agreed_text(store, key)[0]))
