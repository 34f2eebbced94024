"""Read the prompt from standard input, find the rule that fits, play it."""

from __future__ import annotations

import os
import sys

from tugtool.agents import scripted as script
from tugtool.agents.scripted import acts, replies


def main(words: list[str]) -> int:
    """Play a call; the exit status of the rule, or 2 if the script or the input is invalid."""
    if len(words) != 1:
        return _refuse("give one argument, the script")
    try:
        rules = script.load(words[0])
        call = script.call(sys.stdin.buffer.read().decode(errors="replace"))
    except script.BadScript as error:
        return _refuse(str(error))
    book = script.Ledger(words[0])
    book.count(call)
    index, rule = script.chosen(rules, call, book)
    book.write(call, index)
    try:
        played = acts.play(rule, call)
    except (OSError, acts.ActFailed) as error:
        print(f"scripted agent: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(replies.answer(rule, call, played))
    sys.stdout.buffer.flush()
    status = rule.get("status", 0)
    return status if isinstance(status, int) else 0


def _refuse(reason: str) -> int:
    print(f"scripted agent: {reason}", file=sys.stderr)
    return 2


def play_and_end() -> None:
    """Play as a whole process, and end it."""
    # Not `sys.exit`: the interpreter's clean-up could delay a killed agent.
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    play_and_end()
