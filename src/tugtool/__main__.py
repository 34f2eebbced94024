"""`python -m tugtool` is `tugcode`, and starts as `scripts/tugcode` does."""

import gc

gc.set_threshold(100_000)
from tugtool.cli.main import run  # noqa: E402 (loading is what it is for)

run()
