"""How long something lasts, in words: one function for whatever the cli shows."""

from __future__ import annotations

from tugtool.spans import duration

__all__ = ["duration"]
