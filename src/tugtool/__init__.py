"""Tugtool: the shared record between coding agents that carry out one plan together."""

from sys import meta_path

__version__ = "0.2.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tugtool.workflow.library import open as open
else:

    def __getattr__(name: str) -> object:
        if name != "open":
            raise AttributeError(f"module 'tugtool' has no attribute {name!r}")
        from tugtool.workflow import library

        return library.open

    class _OldPaths:
        """Asked for modules that nobody else has found."""

        def find_spec(self, name: str, *_: object) -> object:
            if not name.startswith("tugtool."):
                return None
            from tugtool.workflow import library

            return library.find_spec(name)

    meta_path.append(_OldPaths())
