"""Commands about the repository and the installation: init, config, version."""

from __future__ import annotations

import sys

from tugtool import __version__, config, git, repository
from tugtool.cli.output import Answer, clean
from tugtool.errors import NotInitialised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.parse import Call


def init(call: Call) -> Answer:
    """Prepare a repository, or check that it is prepared."""
    from tugtool import init as operation

    repo = repository.discover(call.cwd)
    check = call.flag("check")
    report = operation.init(repo, check=check)
    missing = [name for name, was_missing in report.items() if was_missing]
    if check and missing:
        raise NotInitialised(repo.root, missing=missing)
    data = {
        "root": repo.root,
        "created": missing,
        "kept": [name for name in report if name not in missing],
        "next": "tugcode plan new SLUG",
    }

    def text() -> str:
        lines = [f"{'created' if name in missing else 'kept   '}  {name}" for name in report]
        state = "is set up" if not missing else "is ready"
        lines += [f"{clean(repo.root)} {state}. Next: tugcode plan new SLUG"]
        return "\n".join(lines) + "\n"

    return Answer(data, text)


def show_config(call: Call) -> Answer:
    """Show every setting, its value and where it comes from."""
    repo = repository.discover(call.cwd)
    settings = config.load(repo.root)
    rows: list[dict[str, object]] = [
        {
            "key": key,
            "value": settings.value(key),
            "source": settings.file if settings.is_set(key) else "default",
            "default": setting.default,
            "meaning": setting.meaning,
        }
        for key, setting in config.SETTINGS.items()
    ]
    rows += settings.agent_rows()

    def text() -> str:
        # What a table of an agent says is a person's text, and may be long.
        shown = [(row["key"], clean(_in_words(row["value"])), row["source"]) for row in rows]
        widths = [max(len(str(line[column])) for line in shown) for column in (0, 1)]
        width = min(widths[1], 40)
        lines = [f"{key:<{widths[0]}} {value:<{width}} {source}" for key, value, source in shown]
        return "\n".join(lines) + "\n"

    return Answer({"file": settings.file, "settings": rows}, text)


def _in_words(value: object) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    return " ".join(map(str, value)) if value else "-"


def version(call: Call) -> Answer:
    """Show the versions of Tugtool, Python, SQLite and git."""
    from tugtool.store import linked

    python = ".".join(map(str, sys.version_info[:3]))
    faulty = linked.has_wal_reset_bug()
    data = {
        "tugtool": __version__,
        "python": python,
        "sqlite": linked.VERSION,
        "sqlite_wal_reset_bug": faulty,
        "git": git.version(),
    }

    def text() -> str:
        note = " (has the WAL-reset bug; Tugtool's lock keeps clear of it)" if faulty else ""
        return (
            f"tugtool {__version__}\npython  {python}\nsqlite  {linked.VERSION}{note}\n"
            f"git     {data['git'] or 'not found'}\n"
        )

    return Answer(data, text)
