"""plugin path, plugin install: parse, one call, show."""

from __future__ import annotations

from tugtool import clients
from tugtool.cli.output import Answer, clean
from tugtool.cli.place import said
from tugtool.errors import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.cli.parse import Call


def plugin_path(call: Call) -> Answer:
    """Where the plugin is."""
    data: dict[str, object] = {
        "plugin_path": clients.plugin(),
        "marketplace_path": clients.marketplace(),
    }
    return said(data, clients.plugin())


def plugin_install(call: Call) -> Answer:
    """Point a client at the plugin, or show how that is done."""
    client = call.text("client") or "claude"
    dry = call.flag("dry_run")
    lines = [" ".join(map(quoted, words)) for words in clients.commands(client)]
    told = [] if dry else [words for _, words in clients.install(client, cwd=call.cwd)]
    data: dict[str, object] = {
        "client": client,
        "installed": not dry,
        "marketplace_path": clients.marketplace(),
        "commands": lines,
        "said": told,
    }

    def text() -> str:
        if dry:
            return "".join(f"{clean(line)}\n" for line in lines)
        pairs = zip(lines, told, strict=True)
        shown = "".join(f"$ {clean(line)}\n{clean(words)}\n" for line, words in pairs)
        return f"{shown}Restart {client}: the plugin is there from its next start on.\n"

    return Answer(data, text)
