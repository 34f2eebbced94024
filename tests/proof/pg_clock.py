"""One command of a machine whose clock is wrong: SECONDS, PLANTED, then its words."""

import sys
import time


def shift(seconds: float) -> None:
    """From now on this process's clock is so many seconds ahead."""
    real, exact = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: exact() + int(seconds * 1e9)


def plant() -> None:
    """An engine that goes by the clock of its own machine."""
    from tugtool.store import postgres
    from tugtool.system import clock

    begin = postgres.PostgresStore.__init__

    def by_own_clock(self: postgres.PostgresStore, *words: object, **how: object) -> None:
        begin(self, *words, **{**how, "clock": clock.system_milliseconds})

    postgres.PostgresStore.__init__ = by_own_clock


if __name__ == "__main__":
    shift(float(sys.argv[1]))
    if sys.argv[2]:
        plant()
    from tugtool.cli.main import main

    sys.exit(main(sys.argv[3:]))
