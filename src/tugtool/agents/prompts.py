"""What goes to an agent's standard input: the prompt of its role and, last, its JSON."""

from __future__ import annotations

import functools
import os

from tugtool import files, jsontext
from tugtool.agent_settings import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

HEADING = "## Your input"


@functools.cache
def text(role: str) -> str:
    """The prompt of `role`, as the package has it."""
    if role not in ROLES:
        raise KeyError(role)
    return files.read(path(role)).decode()


def path(role: str) -> str:
    """Where the prompt of `role` is."""
    return os.path.join(os.path.dirname(__file__), "prompts", f"{role}.md")


def given(role: str, values: Mapping[str, object]) -> bytes:
    """All that an agent reads: its prompt, and one line of JSON at the very end."""
    return f"{text(role)}\n{HEADING}\n\n{jsontext.encode(dict(values))}\n".encode()
