"""Read the prompt from standard input, find the rule that fits, play it."""

from __future__ import annotations

import os
import sys

from tugtool.agents.scripted import acts, ledger, replies, script


def main(words: list[str]) -> int:
    """The exit status: that of the rule, or 2 if the script or the input makes no sense."""
    if len(words) != 1:
        return _refuse("give the script, and nothing else")
    try:
        rules = script.load(words[0])
        call = script.call(sys.stdin.buffer.read().decode(errors="replace"))
    except script.BadScript as error:
        return _refuse(str(error))
    book = ledger.Ledger(words[0])
    call = book.counted(call)
    index, rule = script.chosen(rules, call, book)
    book.write(call, index)
    try:
        played = acts.play(rule, call)
    except (OSError, acts.Failed) as error:
        print(f"scripted agent: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(replies.answer(rule, call, played))
    sys.stdout.buffer.flush()
    status = rule.get("status", 0)
    return status if isinstance(status, int) else 0


def _refuse(reason: str) -> int:
    print(f"scripted agent: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    # Not `sys.exit`: what the interpreter does on its way out could hold a killed agent up.
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)
