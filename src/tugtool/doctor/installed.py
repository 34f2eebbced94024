"""What agent clients have of the plugin, by their own records.

A copy that lies in a client's cache and is in no record is left over, and nobody runs it.
"""

from __future__ import annotations

import os

from tugtool import config, files, jsontext
from tugtool.errors import TugError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PLUGIN = "tugplug"


class Copy:
    """The plugin as one client has it."""

    __slots__ = ("client", "name", "path", "scope", "version")

    def __init__(
        self, client: str, name: str, path: str, version: str | None, scope: str | None = None
    ) -> None:
        self.client = client
        #: As the client calls it, with its marketplace; and for whom it has it.
        self.name, self.scope = name, scope
        self.path = path
        self.version = version

    @property
    def hooks(self) -> str:
        """The file that says what to ask before a tool is used."""
        return os.path.join(self.path, "hooks", "hooks.json")

    def install(self) -> str:
        """What a person types to have it as this installation has it."""
        return f"tugcode plugin install --client {self.client}"

    def anew(self) -> str:
        """The same where the copy itself is broken."""
        if self.client == "codex":
            return self.install()
        # It keeps its copy of a version, whatever has become of that.
        scope = "" if self.scope in (None, "user") else f" --scope {quoted(self.scope)}"
        return f"claude plugin uninstall {quoted(self.name)}{scope} && {self.install()}"


def copies(root: str) -> list[Copy]:
    """Every copy that a client would use in this repository."""
    claude, codex = config.client_directories()
    found = {each.path: each for each in (*_of_claude(claude, root), *_of_codex(codex))}
    return [found[path] for path in sorted(found)]


def _of_claude(directory: str, root: str) -> Iterator[Copy]:
    recorded = _json(os.path.join(directory, "plugins", "installed_plugins.json"))
    for name, entries in _ours(recorded.get("plugins")):
        if not _is_enabled(name, directory, root):
            continue
        for entry in entries if isinstance(entries, list) else [entries]:
            path, project = (_text(entry, key) for key in ("installPath", "projectPath"))
            if path and (project is None or os.path.realpath(project) == root):
                version, scope = (_text(entry, key) for key in ("version", "scope"))
                yield Copy("claude", name, path, version, scope)


def _is_enabled(name: str, directory: str, root: str) -> bool:
    """Whether a person has switched it off; what is nearer to the project counts more."""
    here = os.path.join(root, ".claude")
    for file in (
        os.path.join(here, "settings.local.json"),
        os.path.join(here, "settings.json"),
        os.path.join(directory, "settings.json"),
    ):
        said = dict(_ours(_json(file).get("enabledPlugins"))).get(name)
        if said is not None:
            return bool(said)
    return True


def _of_codex(directory: str) -> Iterator[Copy]:
    for name, entry in _ours(_toml(os.path.join(directory, "config.toml")).get("plugins")):
        if isinstance(entry, dict) and entry.get("enabled") is False:
            continue
        market = name.partition("@")[2]
        above = os.path.join(directory, "plugins", "cache", market, PLUGIN)
        # It keeps one version; what is recorded and not there is told of under any name.
        for version in _inside(above) or [""]:
            yield Copy("codex", name, os.path.join(above, version), version or None)


def _ours(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((name, value[name]) for name in value if name.startswith(f"{PLUGIN}@"))


def _text(entry: object, key: str) -> str | None:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else None


def _inside(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _json(path: str) -> dict[str, Any]:
    """What a client has written down; what cannot be read is no record."""
    try:
        value = jsontext.decode(files.text(path, files.read(path)))
    except (TugError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(files.text(path, files.read(path)))
    except (TugError, ValueError):
        return {}
