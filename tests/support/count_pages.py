"""The numbers in the texts of `worktree list`, `dash list`, `doctor` and `review`, and in the data.

Each function draws the data at one width, reads the text back as a person would, and compares.
"""

import re
from collections import Counter

from support.count_reading import SIGNS, flat
from tugtool.cli import dash, repo, state_review
from tugtool.cli.draw import status
from tugtool.cli.draw.canvas import Canvas, local
from tugtool.errors import plan_name
from tugtool.system import clock
from tugtool.workflow import review

ROOT = "/the/repo"
_APART = re.compile(r"(\d+) ahead, (\d+) behind")
_CHANGED = re.compile(r"(\d+) files? not committed")
_HELD = re.compile(r"([→!]) (\S+) of (\S+), (?:(stale)|at work until (\S+ \S+) \(([^)]+) left\))")
_COMMIT = re.compile(r"joined (?:\S+ \S+ )?as (\w+)")


def _blocks(text: str) -> list[str]:
    """Each line that begins in column 0 with the lines below it, as one line."""
    return [flat(block) for block in re.split(r"\n(?! )", text) if block]


def _apart(block: str) -> tuple[int, int] | None:
    found = _APART.search(block)
    return (int(found[1]), int(found[2])) if found else None


def _changed(block: str) -> int | None:
    found = _CHANGED.search(block)
    return int(found[1]) if found else None


def _distance(row: dict) -> tuple[int, int] | None:
    return None if row["ahead"] is None else (row["ahead"], row["behind"])


def worktrees(data: dict, now: str, width: int) -> None:
    """Every worktree, its distance from its base, its changed files, its steps and their time."""
    canvas = Canvas(width)
    status.draw_worktrees(canvas, data, now)
    blocks = _blocks(canvas.text())
    if not data["worktrees"] and not data["branches"]:
        assert blocks[0] == "there is no worktree"
        return
    assert blocks.pop().startswith("Next: ")
    trees = [block for block in blocks if not block.endswith(" no worktree")]
    branches = [block.split()[0] for block in blocks if block not in trees]
    assert branches == [each["branch_name"] for each in data["branches"]]
    assert [block.split()[0] for block in trees] == [tree["name"] for tree in data["worktrees"]]
    for block, tree in zip(trees, data["worktrees"], strict=True):
        assert _apart(block) == _distance(tree), block
        changed = tree["changed_files"] if tree["exists"] else None
        assert _changed(block) == (changed or None), block
        assert (" clean" in block) == (changed == 0), block
        steps = [_held(step, now) for step in tree["held_steps"]]
        assert _HELD.findall(block) == steps, block
        until = re.search(r"reserved until (\S+ \S+)", block)
        reserved = tree["reserved_until"]
        assert (until and until[1]) == (reserved and local(reserved)), block


def _held(step: dict, now: str) -> tuple[str, ...]:
    names = (step["step_anchor"], plan_name(step["plan_path"]))
    if step["lease"] != "live":
        return ("!", *names, "stale", "", "")
    left = clock.duration(clock.seconds_between(now, step["lease_expires_at"]))
    return ("→", *names, "", local(step["lease_expires_at"]), left)


def dashes(data: dict, width: int) -> None:
    """Every dash, its rounds, its distance from its base and its changed files."""
    canvas = Canvas(width)
    dash.draw_dashes(canvas, data)
    blocks = _blocks(canvas.text())
    if not data["dashes"] and not data["unrecorded"]:
        assert blocks[0] == "there is no dash"
        return
    seen = [block for block in blocks if block[0] in "→✓"]
    lost = [block.split()[0] for block in blocks if " not recorded: " in block]
    assert lost == [f"tugdash/{name}" for name in data["unrecorded"]]
    assert len(seen) == len(data["dashes"])
    for block, each in zip(seen, data["dashes"], strict=True):
        active = each["status"] == "active"
        assert block.split()[:2] == ["→" if active else "✓", each["name"]]
        assert int(re.search(r"(\d+) rounds?", block)[1]) == each["rounds"], block
        joined = _COMMIT.search(block)
        assert (joined[1] if joined else "") == (each["joined_commit"] or "")[:10], block
        assert _apart(block) == (_distance(each) if active else None), block
        looked = active and each["exists"] and each["tip"] and not each["releasing"]
        changed = each["changed_files"] if looked else None
        assert _changed(block) == (changed or None), block
        assert (" everything is committed" in block) == (changed == 0), block


def doctor(data: dict, width: int) -> None:
    """Every finding has its line or is counted, and the verdict has the sums."""
    for every in (False, True):
        canvas = Canvas(width)
        repo.draw_doctor(canvas, data, ROOT, every=every)
        *blocks, verdict = _blocks(canvas.text())
        shown = Counter(block.split()[1] for block in blocks if block.startswith(("! ", "✓ fixed")))
        more = sum(int(n) for n in re.findall(r": and (\d+) more \(--all", canvas.text()))
        found = Counter(
            "fixed" if each["fixed"] else each["severity"]
            for check in data["checks"]
            for each in check["findings"]
        )
        notes = found.pop("note", 0)
        assert shown.total() + more == found.total(), canvas.text()
        assert shown <= found, canvas.text()
        assert not (every and more)
        assert _verdict(verdict) == _sums(data, found, 0 if every else notes), verdict


def _verdict(text: str) -> dict:
    head, _, facts = text.partition(": ")
    made = re.search(r"(?:(\d+) of )?(\d+) checks", facts)
    numbers = {word: int(n) for n, word in re.findall(r"(\d+) (error|warning|fixed|note)", facts)}
    made_all = (int(made[1] or made[2]), int(made[2]))
    return {"healthy": head == "all is well", "checks": made_all, **numbers}


def _sums(data: dict, found: Counter, notes: int) -> dict:
    total = len(data["checks"])
    assert total == sum(data["counts"].values())
    numbers = {kind: number for kind, number in found.items() if number}
    numbers |= {"note": notes} if notes else {}
    made = (total - data["counts"]["skipped"], total)
    return {"healthy": data["healthy"], "checks": made, **numbers}


_SIGNS_OF_LISTS = {
    "questions": "?",
    "parked_steps": "‖",
    "deferred_items": "~",
    "unproven_items": "~",
    "audits": "?",
}
_WORDS = {
    "questions": "questions?",
    "parked_steps": "parked steps?",
    "deferred_items": "deferred items?",
    "unproven_items": "unproven checkpoints?",
    "audits": "plans? that (?:was|were) not approved",
}
#: Field of the data -> the word before its time.
_SINCE = {
    "parked_at": "parked",
    "deferred_at": "deferred",
    "asked_at": "since",
    "recorded_at": "said",
}
_HERE = "|".join(re.escape(sign) for sign in SIGNS)


def reviewed(data: dict, width: int) -> None:
    """What waits is counted in the list, and each has its row or its page, with its numbers."""
    every = [(name, each) for name in review.LISTS for each in data[name]]
    assert data["deferred_count"] == len(data["deferred_items"])
    assert data["unproven_count"] == len(data["unproven_items"])
    assert data["parked_count"] == len(data["parked_steps"])
    for alone in (False, True):
        canvas = Canvas(width)
        state_review.draw_review(canvas, data, ROOT, alone=alone)
        text = canvas.text()
        if not every:
            assert text.startswith("Nothing waits for you.\n")
        elif alone or len(every) <= state_review.MOST_PAGES:
            _pages(data, every, text)
        else:
            _list(data, every, text)


def _list(data: dict, every: list[tuple[str, dict]], text: str) -> None:
    head, rows = text.split("\n\n", 1)
    total, told = re.fullmatch(r"(\d+) wait for you: (.*)", flat(head)).groups()
    assert int(total) == len(every)
    for name, words in _WORDS.items():
        found = re.search(rf"(\d+) {words}\b", told)
        assert int(found[1] if found else 0) == len(data[name]), name
    seen = re.findall(rf"(?m)^  ({_HERE}) (\S+(?: (?:task|test|checkpoint) \d+)?)(?=\s)", rows)
    wanted = [(_SIGNS_OF_LISTS[name], state_review._name(each)) for name, each in every]
    assert sorted(seen) == sorted(wanted)


def _pages(data: dict, every: list[tuple[str, dict]], text: str) -> None:
    pages = [flat(page) for page in re.split(rf"(?m)^(?={_HERE})", text) if page]
    assert len(pages) == len(every)
    for page, (name, each) in zip(pages, every, strict=True):
        title = "" if name == "audits" else f"{state_review._name(each)} of "
        title += f"{plan_name(each['plan_path'])} waits for you"
        assert page.startswith(f"{_SIGNS_OF_LISTS[name]} {title}"), page
        if "ordinal" in each:
            assert f"--kind {each['kind']} " in page
            assert {int(n) for n in re.findall(r"--ordinal (\d+)", page)} == {each["ordinal"]}, page
        for when, field in _SINCE.items():
            if when in each:
                ago = clock.duration(clock.seconds_between(each[when], data["as_of"]))
                assert f" {field} {local(each[when])} ({ago} ago)" in page, page
        if name == "parked_steps":
            _parked(each, page)


def _parked(each: dict, page: str) -> None:
    times = re.search(r" attempts (\d+) attempts?; the last", page)
    assert int(times[1]) == each["attempts"], page
    failed = re.search(r" failed attempt (\d+): ", page)
    if failed:
        assert int(failed[1]) == each["last_failure"]["attempt"], page
    others = re.search(r" and ([^,]+(?:, [^,]+)*), parked for the same reason", page)
    same = [name for name in each["same_cause"] if name != each["step_anchor"]]
    assert (others[1].split(", ") if others else []) == same, page
