"""The program that plays coder and reviewer: `python unruly_agent.py STORY`.

The story is a JSON file: `coder step-1` -> a list of [deed, seed]. At its first call about a step
an agent does what stands there; later calls do as they are told. What a call did and which files
it made is written beside the story, for the judge.
"""

import json
import os
import random
import shutil
import sys
from pathlib import Path

from unruly_git import DEEDS
from unruly_hand import OWN, Entry, Hand, Impossible

from tugtool.agents import scripted as script
from tugtool.agents.scripted import acts, replies


def main(path: str) -> int:
    """Play one call; an agent always answers that all went well."""
    story = json.loads(Path(path).read_text())
    call = script.call(sys.stdin.read())
    book = script.Ledger(path)
    book.count(call)
    book.write(call, None)
    top = Path(str(call.given["worktree_path"]))
    role, step, number = (call.facts[name] for name in ("role", "step", "call"))
    chance = random.Random(f"{story['seed']} {role} {step} {number}")
    hand = Hand(top, Path(story["root"]), chance, f"{role} {step} {number}")
    deeds = story["deeds"].get(f"{role} {step}", []) if number == 1 else []
    if number != 1 and role == "coder":
        _heed(top)
    told = [_done(hand, name, seed) for name, seed in deeds]
    if role == "coder":
        # So that every step has something to commit.
        hand.write(f"work-{step}-{number}.txt")
    played = acts.Played(call)
    _account(hand, played)
    _keep(Path(path).parent / "calls", call.facts, told, hand)
    for each in hand.last:
        each()
    sys.stdout.buffer.write(replies.answer({}, call, played))
    return 0


def _done(hand: Hand, name: str, seed: int) -> list[str]:
    """One deed, and why it could not be done, if so."""
    hand.chance.seed(seed)
    try:
        DEEDS[name](hand)
    except (Impossible, OSError) as error:
        return [name, str(error)]
    return [name, ""]


def _heed(top: Path) -> None:
    """Agents put right what they are told was wrong: repositories inside, closed directories."""
    for directory, names, _ in os.walk(top):
        for name in names:
            path = Path(directory) / name
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o700)
        if ".git" in names and Path(directory) != top:
            shutil.rmtree(Path(directory) / ".git")
        names[:] = [name for name in names if name not in OWN]


def _account(hand: Hand, played: acts.Played) -> None:
    """The report is true: what is new, what is changed, what lies in the main checkout."""
    for name in hand.wrote():
        (played.modified if name in hand.before else played.created).append(name)
    played.created += [str(hand.root / name) for name in hand.in_main]


def _keep(directory: Path, facts: dict, told: list[list[str]], hand: Hand) -> None:
    directory.mkdir(exist_ok=True)
    made = {name: _plain(each) for name, each in hand.made().items()}
    left = {"made": made, "lies_there": list(hand.wrote()), "in_main": hand.in_main}
    text = json.dumps({**facts, "deeds": told, **left})
    (directory / f"{len(os.listdir(directory)):03}.json").write_text(text)


def _plain(each: Entry) -> list[object]:
    return [each.kind, each.content.hex(), each.executable]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
