"""Add the plugin to a wheel, where agent clients can find it."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Its place in a checkout, and in the wheel; `tugtool.agents.plugin` looks in both.
PLACES = {
    "tugplug": "tugtool/marketplace/tugplug",
    ".claude-plugin/marketplace.json": "tugtool/marketplace/.claude-plugin/marketplace.json",
}


class Plugin(BuildHookInterface):
    """Adds the plugin, except to an editable install, whose copy would become outdated."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Called before a wheel is built; `version` is the kind of wheel."""
        if version != "editable":
            build_data["force_include"].update(PLACES)
