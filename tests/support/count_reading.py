"""What people can read off the texts of `show`, `status` and `stats`, as numbers again."""

import re
from collections import Counter

KINDS = {"tasks": "task", "tests": "test", "checkpoints": "checkpoint"}
SIGNS = {
    "✓": "done",
    "~": "deferred",
    "→": "at work",
    "?": "asking you",
    "!": "stale",
    "‖": "parked",
    "○": "ready",
    "·": "waiting",
}
_STEP = re.compile(r"( *)([✓~→?!‖○·]) (\d[\d.]*|step-\S+)  (.*)")
_PROGRESS = re.compile(r"(\d+)/(\d+) (tasks|tests|checkpoints)(?: \+(\d+) deferred)?")
_BOX = re.compile(r" +\[([ x~])\] (.*)")
_MORE = re.compile(r" +… (\d+) more \(--checklist\)")
_HEAD = re.compile(r"([█░]+) (\d+)/(\d+) steps? (\d+)%")
_STANDS = re.compile(r"(\d+) (at work|asking you|stale|parked|ready|waiting|items? deferred)")
_WAITING = re.compile(r"(\d+) (?:(deferred|parked) (?:items?|steps?)|(question)s?) waits?")
_FAR = re.compile(r"(\d+)/(\d+) steps (\d+)%")


def flat(text: str) -> str:
    """Folded lines as one."""
    return " ".join(text.split())


def anchor_of(number: str) -> str:
    """A step is called by its number, or by its anchor where that is something else."""
    return number if number.startswith("step-") else "step-" + number.replace(".", "-")


class Counted:
    """What stands below the line of one step."""

    def __init__(self, sign: str, told: str) -> None:
        self.sign, self.told = sign, told
        #: Kind -> completed, all, deferred: of the step and its substeps, or before its items.
        self.progress: dict[str, tuple[int, int, int]] = {}
        #: The boxes: kind, if its items were announced, and status -> how many; those left out.
        self.boxes: Counter = Counter()
        self.more = 0

    def waits_for(self) -> list[str]:
        names = self.told.partition("waits for ")[2]
        return [anchor_of(each) for each in names.split(", ")] if names else []


class Picture:
    """The text of `state show`."""

    def __init__(self, text: str) -> None:
        head, steps, *_ = text.split("\n\n")
        found = _HEAD.search(flat(head))
        self.cells = Counter(found[1])
        self.done, self.total, self.percent = int(found[2]), int(found[3]), int(found[4])
        self.facts = flat(head)[found.end() :]
        self.stands, self.deferred = _stands(self.facts)
        #: Anchor -> what is shown of it.
        self.steps: dict[str, Counted] = {}
        kind = None
        for line in steps.split("\n"):
            if found := _STEP.match(line):
                at = self.steps[anchor_of(found[3])] = Counted(SIGNS[found[2]], found[4])
            elif found := _BOX.match(line):
                at.boxes[kind, _status(found[1], found[2])] += 1
            elif found := _MORE.match(line):
                at.more += int(found[1])
            for done, total, name, put_off in [] if _BOX.match(line) else _PROGRESS.findall(line):
                kind = KINDS[name]
                at.progress[kind] = (int(done), int(total), int(put_off or 0))


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
        head, plan, *rest = text.split("\n\n")
        words = dict(reversed(each.split(" ", 1)) for each in re.findall(r"\d+ [a-z ]+", head))
        numbers = {word.strip(): int(number) for word, number in words.items()}
        self.plans = numbers.get("plan", numbers.get("plans"))
        self.at_work, self.stale = numbers["at work"], numbers.get("stale", 0)
        self.for_you, self.archived = numbers.get("for you", 0), numbers.get("archived", 0)
        far = _FAR.search(plan)
        self.done, self.total, self.percent = map(int, far.groups()[:3])
        self.rows = Counter(SIGNS[sign] for sign in re.findall(r"(?m)^  ([→?!‖]) \S", plan))
        counts = [line for line in plan.split("\n") if re.match(r"  \d+ [a-z]", line)]
        self.stands, self.deferred = _stands(" ".join(counts))
        found = _WAITING.findall(flat(rest[-1]))
        self.waiting = {what or asked: int(n) for n, what, asked in found}


class Table:
    """The text of `state stats`, of one plan, with columns or without."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")[:-1]
        start = next(n for n, line in enumerate(lines) if re.match(r"  (STEP|step-)", line))
        summary = flat(" ".join(lines[1:start]).replace(" · ", " "))
        self.steps_done, self.steps = _fraction(summary, "steps")
        self.items_done, self.items = _fraction(summary, "items completed")
        before, _, tried = summary.partition("attempts: ")
        put_off = re.search(r"(\d+) deferred", before)
        self.deferred = int(put_off[1]) if put_off else 0
        self.outcomes = Counter({} if tried == "none" else _named(tried.split(", ")))
        columns = lines[start].startswith("  STEP")
        rows = _columns(lines[start + 1 :]) if columns else _blocks(lines[start:])
        #: Anchor -> status, tries, and what is remarked.
        self.rows = {anchor: (status, int(tries), facts) for anchor, status, tries, facts in rows}


def _fraction(text: str, word: str) -> tuple[int, int]:
    found = re.search(rf"(\d+)/(\d+) {word}", text)
    return int(found[1]), int(found[2])


def _named(facts: list[str]) -> dict[str, int]:
    """`2 reclaims` -> `{"reclaims": 2}`; one is told in the singular, and `forced` is once."""
    plurals = {"recovery": "recoveries", "reclaim": "reclaims", "escalation": "escalations"}
    pairs = [fact.split(" ") if " " in fact else ["1", fact] for fact in facts if fact]
    return {plurals.get(name, name): int(number) for number, name in pairs}


def _columns(lines: list[str]) -> list[tuple]:
    rows = []
    # Remarks that do not fit are folded below themselves.
    for line in re.sub(r"\n {9,}", " ", "\n".join(lines)).split("\n"):
        anchor, status, tries, _waited, _worked, *remarks = re.split(r"  +", line.strip())
        rows.append((anchor, status, tries, _named("".join(remarks).split(", "))))
    return rows


_BLOCK = re.compile(
    r"(\S+) status (.+) tries (\d+) waited [\w ]+ worked [\dhmsd ]+?(?: ?remarks (.*))?"
)


def _blocks(lines: list[str]) -> list[tuple]:
    rows = []
    for block in re.split(r"(?m)^  (?=step-)", "\n".join(lines))[1:]:
        found = _BLOCK.fullmatch(flat(block.replace(" · ", " ")))
        anchor, status, tries, remarks = found.groups(default="")
        rows.append((anchor, status, tries, _named(remarks.split(", "))))
    return rows


_NODE = re.compile(r"  (?:wave (\d+)|      +) +([* ]) (\S+)  (.*)")
_LISTED = re.compile(r"  [✓~→?!‖○·] (ready|at work|stale|parked|waiting|completed) +(\d+)  (.*)")


class Graph:
    """The text of `plan graph`, of steps whose titles are short."""

    def __init__(self, text: str) -> None:
        head, rows, path = re.fullmatch(
            r"(.*?critical path)\n(.*)critical path: (.*)\n", text, re.DOTALL
        ).groups()
        self.steps, self.waves = map(int, re.search(r"(\d+) steps? in (\d+) wave", head).groups())
        widest = re.search(r"at most (\d+) at once, in wave (\d+)", flat(head))
        self.widest = (int(widest[2]), int(widest[1])) if widest else None
        self.path = [anchor_of(each) for each in flat(path).split(" → ")]
        #: Step -> its wave, whether it is on the critical path, what is said of it.
        self.nodes: dict[str, tuple[int, bool, str]] = {}
        wave, name = 0, ""
        for line in rows.splitlines():
            if found := _NODE.fullmatch(line):
                wave, name = int(found[1] or wave), anchor_of(found[3])
                self.nodes[name] = (wave, found[2] == "*", found[4])
            else:
                wave, is_critical, said = self.nodes[name]
                self.nodes[name] = (wave, is_critical, f"{said} {line.strip()}")

    def needs(self, anchor: str) -> list[str]:
        found = re.search(r"after ([^)]*)", self.nodes[anchor][2])
        return [anchor_of(each) for each in flat(found[1]).split(", ")] if found else []

    def substeps(self, anchor: str) -> int:
        found = re.search(r"(\d+) substep", self.nodes[anchor][2])
        return int(found[1]) if found else 0


class Lists:
    """The text of `state ready`: each list with its count and its steps."""

    def __init__(self, text: str) -> None:
        head, *rows = text.splitlines()
        self.all = int(re.search(r"  (\d+) steps?$", head)[1])
        #: Word -> how many steps, and which.
        self.lists: dict[str, tuple[int, str]] = {}
        word = ""
        for line in rows:
            if line.startswith("Next: "):
                break
            if found := _LISTED.fullmatch(line):
                word = found[1]
                self.lists[word] = (int(found[2]), found[3])
            else:
                count, names = self.lists[word]
                self.lists[word] = (count, f"{names} {line.strip()}")

    def steps(self, word: str) -> tuple[int, list[str]]:
        count, names = self.lists.get(word, (0, "none"))
        return count, [] if names == "none" else [anchor_of(each) for each in names.split(", ")]


def plan_counts(text: str, slug: str) -> tuple[int, int] | None:
    """Steps and items of a plan in the text of `list`; none where it cannot be read."""
    row = flat(text[text.index(f"{slug} ") if f"{slug} " in text else text.index(f"{slug}\n") :])
    found = re.match(r"\S+ (?:status )?\S+ (?:· )?(?:steps )?(\S+) (?:· )?(?:items )?(\S+)", row)
    return None if found[1] == "-" else (int(found[1]), int(found[2]))
