"""Agent clients and the plugin: where it is, and the commands that point a client at it.

The wheel has the plugin inside of the package, next to the marketplace file that names it;
a checkout has both at its top. Either directory is a marketplace that clients can add.
"""

from __future__ import annotations

import os

from tugtool import child, config
from tugtool.client_errors import ClientMissing, ClientRefused, HomeUnknown, PluginMissing
from tugtool.errors import CannotRun, quoted
from tugtool.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGIN = "tugplug"
MARKETPLACE = "tugtool"
#: `{}` is the marketplace's directory. Each of them may be repeated.
COMMANDS = {
    "claude": (
        ("claude", "plugin", "marketplace", "add", "{}"),
        ("claude", "plugin", "install", f"{PLUGIN}@{MARKETPLACE}"),
        # What is installed already stays as it is, also if the package is newer by now.
        ("claude", "plugin", "update", f"{PLUGIN}@{MARKETPLACE}"),
    ),
    "codex": (
        ("codex", "plugin", "marketplace", "add", "{}"),
        ("codex", "plugin", "add", f"{PLUGIN}@{MARKETPLACE}"),
    ),
}
#: What says where a client keeps what is its own, instead of HOME.
HOMES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}
#: How Codex says that it knows the marketplace, at another place; and what it says below.
_ELSEWHERE = "already added from a different source"
_LET_GO = f"codex plugin marketplace remove {MARKETPLACE}"
_BACKTRACE = "Stack backtrace:"
#: Clients start slowly, and some look for news of themselves first.
LIMIT_SECONDS = 120.0
#: Of what a client says, as much is told.
_TOLD = 2000


def marketplace() -> str:
    """The directory that clients add: the plugin is in it, and the file that names it."""
    package = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(package, "marketplace"), os.path.dirname(os.path.dirname(package))]
    for place in places:
        if os.path.isfile(os.path.join(place, PLUGIN, "plugin.json")):
            return place
    raise PluginMissing(places)


def plugin() -> str:
    """The plugin's own directory."""
    return os.path.join(marketplace(), PLUGIN)


def commands(client: str) -> list[list[str]]:
    """What has to be run for a client to have the plugin, word by word."""
    place = marketplace()
    return [[place if word == "{}" else word for word in words] for words in COMMANDS[client]]


def install(client: str, *, cwd: str) -> Iterator[tuple[str, str]]:
    """Run them one after the other; each with what the client said."""
    if not config.has_home(HOMES[client]):
        raise HomeUnknown(client, HOMES[client])
    for words in commands(client):
        line = " ".join(map(quoted, words))
        try:
            done = child.run(
                words,
                cwd=cwd,
                streams=Streams.keep(head=_TOLD, tail=_TOLD, merged=True),
                limit_seconds=LIMIT_SECONDS,
            )
        except CannotRun as error:
            raise ClientMissing(client) from error
        said = done.out.text().partition(_BACKTRACE)[0].strip()
        if done.timed_out or done.status:
            status = None if done.timed_out else done.status
            mend = _LET_GO if _ELSEWHERE in said else None
            raise ClientRefused(client, line, status=status, said=said, mend=mend)
        yield line, said
