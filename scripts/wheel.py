"""What a wheel has beside the package's own files: the plugin, where agent clients can add it."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Where it is in a checkout, and where in the wheel; `tugtool.clients` looks in both places.
PLACES = {
    "tugplug": "tugtool/marketplace/tugplug",
    ".claude-plugin/marketplace.json": "tugtool/marketplace/.claude-plugin/marketplace.json",
}


class Plugin(BuildHookInterface):
    """Puts it in; not into an editable install, which would get a copy that grows old."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Called before a wheel is put together; `version` is what kind of wheel."""
        if version != "editable":
            build_data["force_include"].update(PLACES)
