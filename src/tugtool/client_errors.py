"""The refusals of whoever brings the plugin to an agent client.

TugError
├── PluginMissing  E090  this installation has no plugin in it
├── ClientMissing  E091  the client to be pointed at the plugin is not installed
├── ClientRefused  E092  the client did not take the plugin
└── HomeUnknown    E093  nobody has said whose client it is
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

    def __init__(
        self, client: str, command: str, *, status: int | None, said: str, mend: str | None = None
    ) -> None:
        how = "did not end in time" if status is None else f"ended with status {status}"
        again = f"tugcode plugin install --client {client}"
        super().__init__(
            f"`{command}` {how}: {said or 'it printed nothing'}",
            hint=f"{mend} && {again}" if mend else f"{again} --dry-run",
            client=client,
            command=command,
            status=status,
        )


class HomeUnknown(TugError):
    """It would go into the home that the system knows, which may be somebody else's."""

    code = "E093"

    def __init__(self, client: str, variable: str) -> None:
        super().__init__(
            f"HOME is not set, and neither is {variable}: {client} would install the plugin into "
            "whatever home the system has for this user; set one of them, and run this again",
            hint=f"tugcode plugin install --client {client} --dry-run",
            client=client,
        )
