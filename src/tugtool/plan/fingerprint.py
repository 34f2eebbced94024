"""A public path: the hash of a plan's text; `plan.catalog` has it."""

from __future__ import annotations

from tugtool.plan.catalog import file_fingerprint as of_file
from tugtool.plan.catalog import fingerprint as of

__all__ = ["of", "of_file"]
