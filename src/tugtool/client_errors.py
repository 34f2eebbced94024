"""The refusals of whoever brings the plugin to an agent client.

TugError
├── PluginMissing  E090  this installation has no plugin in it
├── ClientMissing  E091  the client to be pointed at the plugin is not installed
└── ClientRefused  E092  the client did not take the plugin
"""

from __future__ import annotations

from tugtool.errors import TugError


class PluginMissing(TugError):
    """Neither the package nor the directory around its sources has it."""

    code = "E090"

    def __init__(self, places: list[str]) -> None:
        super().__init__(
            f"this installation of Tugtool has no plugin; looked in {' and '.join(places)}",
            hint="tugcode version",
            places=places,
        )


class ClientMissing(TugError):
    """Nobody is there to be told about the plugin."""

    code = "E091"

    def __init__(self, client: str) -> None:
        super().__init__(
            f"there is no command {client} on the PATH: install it, and run this again; "
            "or run what the dry run shows where it is installed",
            hint=f"tugcode plugin install --client {client} --dry-run",
            client=client,
        )


class ClientRefused(TugError):
    """It was asked, and said no, or nothing for too long."""

    code = "E092"

    def __init__(self, command: str, *, status: int | None, said: str) -> None:
        how = "did not end in time" if status is None else f"ended with status {status}"
        super().__init__(
            f"`{command}` {how}: {said or 'it printed nothing'}",
            hint="tugcode plugin install --dry-run",
            command=command,
            status=status,
        )
