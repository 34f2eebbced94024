"""What people can read off the texts of `show`, `status` and `stats`, as numbers again."""

import re
from collections import Counter

KINDS = {"Tasks": "task", "Tests": "test", "Checkpoints": "checkpoint"}
MARKS = {"✓": "done", "→": "at work", "○": "ready", "·": "blocked", "‖": "parked", "!": "lost"}
_TITLE = re.compile(r"( *)([✓→○·‖!]) (step-\S+) - .*?(?=\[)\[(\w+)\]")
_BAR = re.compile(
    r" +(Tasks|Tests|Checkpoints): +(\d+)/(\d+)(?: \+(\d+) deferred)? +(?:([█▒░]+) +)?(\d+)%"
)
_BOX = re.compile(r" +\[([ x~])\] (.*)")
_OVERALL = re.compile(r"Overall: (\d+)/(\d+) steps complete \((\d+)%\)")
_STANDS = re.compile(r"(\d+) (at work|abandoned|expired|parked|ready|blocked|items? deferred)")
_WAITING = re.compile(r"(\d+) (deferred|parked) (?:items?|steps?) waits?")
_FAR = re.compile(r"(\d+)/(\d+) steps (\d+)%  \[(\w+)(?:, paused)?\]")


def flat(text: str) -> str:
    """Folded lines as one."""
    return " ".join(text.split())


class Bar:
    """One line of a checklist's progress."""

    def __init__(self, found: re.Match) -> None:
        self.done, self.total = int(found[2]), int(found[3])
        self.deferred, self.percent = int(found[4] or 0), int(found[6])
        #: Cells; none where there was no room.
        self.cells = Counter(found[5] or "")
        self.boxes: Counter = Counter()


class Picture:
    """The text of `state show`."""

    def __init__(self, text: str) -> None:
        #: Anchor -> how it is marked, its status, and its bars by kind.
        self.marks: dict[str, str] = {}
        self.statuses: dict[str, str] = {}
        self.bars: dict[str, dict[str, Bar]] = {}
        steps, overall, tail = text.partition("\nOverall: ")
        anchor, bar = "", None
        for line in steps.split("\n"):
            if found := _TITLE.match(line):
                anchor, bar = found[3], None
                self.marks[anchor], self.statuses[anchor] = MARKS[found[2]], found[4]
                self.bars[anchor] = {}
            elif found := _BAR.fullmatch(line):
                bar = self.bars[anchor][KINDS[found[1]]] = Bar(found)
            elif found := _BOX.match(line):
                bar.boxes[_status(found[1], found[2])] += 1
        summary = flat(overall + tail)
        self.done, self.total, self.percent = map(int, _OVERALL.match(summary).groups())
        self.stands, self.deferred = _stands(_OVERALL.sub("", summary))


def _status(box: str, text: str) -> str:
    if text.endswith("← in_progress"):
        return "in_progress"
    return {" ": "open", "x": "completed", "~": "deferred"}[box]


def _stands(text: str) -> tuple[Counter, int]:
    found = Counter({word: int(number) for number, word in _STANDS.findall(text)})
    deferred = found.pop("item deferred", 0) + found.pop("items deferred", 0)
    return found, deferred


class Survey:
    """The text of `tugcode status`, of one plan."""

    def __init__(self, text: str) -> None:
        head, *rest = text.split("\n\n")
        plan = rest[0] if rest else ""
        words = dict(reversed(each.split(" ", 1)) for each in re.findall(r"\d+ [a-z ]+", head))
        numbers = {word.strip(): int(number) for word, number in words.items()}
        self.plans = numbers.get("plan", numbers.get("plans"))
        self.at_work, self.stale = numbers["at work"], numbers.get("stale", 0)
        self.for_you, self.archived = numbers.get("for you", 0), numbers.get("archived", 0)
        far = _FAR.search(plan)
        self.done, self.total, self.percent = map(int, far.groups()[:3])
        self.rows = Counter(MARKS[mark] for mark in re.findall(r"(?m)^  ([→!‖]) step-", plan))
        counts = [line for line in plan.split("\n") if re.match(r"  \d+ ", line)]
        self.stands, self.deferred = _stands(" ".join(counts))
        self.waiting = {what: int(n) for n, what in _WAITING.findall(flat(rest[-1]))}


class Table:
    """The text of `state stats`, of one plan, with columns or without."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")[:-1]
        start = next(n for n, line in enumerate(lines) if re.match(r"  (STEP|step-)", line))
        summary = flat(" ".join(lines[1:start]))
        self.facts = summary.split("; ")
        self.steps_done, self.steps = _fraction(self.facts[0], "steps")
        self.items_done, self.items = _fraction(self.facts[1], "items completed")
        put_off = [fact for fact in self.facts[2:] if re.fullmatch(r"\d+ deferred", fact)]
        self.deferred = int(put_off[0].split()[0]) if put_off else 0
        tried = next(f.partition(": ")[2] for f in self.facts if f.startswith("attempts: "))
        self.outcomes = Counter({} if tried == "none" else _named(tried.split(", ")))
        columns = lines[start].startswith("  STEP")
        rows = _columns(lines[start + 1 :]) if columns else _blocks(lines[start:])
        #: Anchor -> status, tries, and what is remarked.
        self.rows = {anchor: (status, int(tries), facts) for anchor, status, tries, facts in rows}


def _fraction(text: str, word: str) -> tuple[int, int]:
    found = re.fullmatch(rf"(\d+)/(\d+) {word}", text)
    return int(found[1]), int(found[2])


def _named(facts: list[str]) -> dict[str, int]:
    """`2 reclaims` -> `{"reclaims": 2}`; one is told in the singular, and `forced` is once."""
    plurals = {"recovery": "recoveries", "reclaim": "reclaims", "escalation": "escalations"}
    pairs = [fact.split(" ") if " " in fact else ["1", fact] for fact in facts if fact]
    return {plurals.get(name, name): int(number) for number, name in pairs}


def _columns(lines: list[str]) -> list[tuple]:
    rows = []
    # Remarks that do not fit stand on a line of their own.
    for line in re.sub(r"\n {4}", "  ", "\n".join(lines)).split("\n"):
        anchor, status, tries, _waited, _worked, *remarks = re.split(r"  +", line.strip())
        rows.append((anchor, status, tries, _named("".join(remarks).split(", "))))
    return rows


def _blocks(lines: list[str]) -> list[tuple]:
    rows = []
    for block in re.split(r"(?m)^  (?=step-)", "\n".join(lines))[1:]:
        head, _, rest = block.partition("\n")
        tries, _waited, _worked, *remarks = flat(rest).split("; ")
        anchor, status = re.fullmatch(r"(\S+) \[(\w+)\]", head).groups()
        rows.append((anchor, status, tries.split()[0], _named(remarks)))
    return rows
