"""Commands about the repository and the installation: init, config, version."""

from __future__ import annotations

import os
import sys

from tugtool import __version__, config, git, repository
from tugtool.cli import output
from tugtool.cli.output import Answer, clean
from tugtool.errors import NotInitialised, TugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tugtool.cli.parse import Call
    from tugtool.repository import Repository

    Data = dict[str, Any]


def init(call: Call) -> Answer:
    """Prepare a repository, or check that it is prepared."""
    from tugtool import init as operation

    repo = repository.discover(call.cwd)
    check = call.flag("check")
    # A person's file first: it is what may not be as it must, and then nothing is made.
    added = _rules(repo, check=check) if _wants_rules(call, repo) else None
    changed = [added["file"]] if added and _any(added) else []
    try:
        report = operation.init(repo, check=check)
    except TugError as error:
        if changed and not check:
            error.message += f"; {changed[0]} has been written already"
        raise
    missing = [name for name, was_missing in report.items() if was_missing]
    if check and (missing or changed):
        command = "tugcode init --claude" if changed else "tugcode init"
        raise NotInitialised(repo.root, missing=[*missing, *changed], command=command)
    data = {
        "root": repo.root,
        "created": missing,
        "kept": [name for name in report if name not in missing],
        "claude": added,
        "next": "tugcode plan new SLUG",
    }

    def text() -> str:
        lines = [f"{'created' if name in missing else 'kept   '}  {name}" for name in report]
        lines += [] if added is None else _told(added)
        state = "is set up" if not missing else "is ready"
        lines += [f"{clean(repo.root)} {state}. Next: tugcode plan new SLUG"]
        return "\n".join(lines) + "\n"

    return Answer(data, text)


def _rules(repo: Repository, *, check: bool) -> Data:
    from tugtool import client_rules

    added = client_rules.init(repo, check=check)
    return {"file": client_rules.FILE, "created": added.created, **added.rules}


def _any(added: Data) -> bool:
    return bool(added["allow"] or added["deny"])


def _told(added: Data) -> list[str]:
    if not _any(added):
        return [f"kept     {added['file']}"]
    first = f"{'created' if added['created'] else 'added to'} {added['file']}:"
    return [first, *(f"  {kind} {rule}" for kind in ("allow", "deny") for rule in added[kind])]


def _wants_rules(call: Call, repo: Repository) -> bool:
    """Whether rules for Claude Code are asked for, or a person says yes to them."""
    if call.flag("claude"):
        return True
    streams = (sys.stdin, sys.stdout, sys.stderr)
    person = all(stream is not None and stream.isatty() for stream in streams)
    if call.json or call.flag("check") or not person:
        return False
    if not os.path.isdir(os.path.join(repo.root, ".claude")) or not _any(_rules(repo, check=True)):
        return False
    output.mention(
        "Let Claude Code run tugcode here without asking (.claude/settings.json)? [y/N] "
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


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
