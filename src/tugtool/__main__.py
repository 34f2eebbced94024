"""`python -m tugtool` is `tugcode`, and starts as `scripts/tugcode-python` does."""

from __future__ import annotations

import gc

from tugtool.cli.main import run

gc.set_threshold(100_000)

run()
