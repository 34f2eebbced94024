"""Measure how well `implement` keeps its workers busy, and its cost beside its agents.

    python bench/implement.py [--quick] [--rounds N] [--self-test] [--results FILE]

Eight workers carry out a plan of 60 steps. The agents are a shell script that sleeps for 50 ms
and prints a fixed answer, two per step: they cost next to no CPU.

`busy`: a worker is busy from a step's claim to its commit. The best schedule of the same steps,
each as long as it took, gives the greatest possible share: the loss beside that is waiting for
a turn, a worktree or a wake-up. The worst round counts.
`agents` is stricter: only the agents' sleep is work, and the best schedule has steps that take
nothing else. The columns of the floor (`floor.py`) show what the machine allows of that: the
same steps by as many threads with the same agents and bare git, by turns with ours. It depends
on how many cores share git's work, so it has no budget.

Then the CPU time of a step, from the difference of a long and a short run without its agents,
beside the same `git add` and `git commit` by a script. Exit status 1 if a budget is broken.
`--self-test` plants workers that nap before each claim and look at git too often, and fails
unless both are caught.
"""

import heapq
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import budgets
import harness
import shapes
from harness import Bench

WORKERS = 8
STEPS = 60
AGENT_SECONDS = 0.05
AGENTS_PER_STEP = 2
#: Workers are busy for at least this share of the time that the plan's shape allows.
LEAST_BUSY = 0.8
#: A step may cost so many times what its bare git commands cost.
MOST_OVERHEAD = 6.0
#: Shapes with a budget, and one where every step waits for ten others.
SHAPES = ("free", "braid", "diamonds")
#: A short run and a long one, which differ only by steps.
FEW, MANY = 5, 35
AGENT = """\
sleep "$BENCH_SECONDS"
case $TUGCODE_ROLE in
coder)
  echo "$TUGCODE_STEP" >"$TUGCODE_STEP.txt"
  echo '{"success": true, "summary": "done", "files_created": [], "files_modified": [],
    "tests_passed": true, "build_passed": true,
    "checklist_status": {"tasks": [], "tests": [], "checkpoints": []},
    "drift_assessment": {"drift_severity": "none", "expected_files": [], "actual_changes": [],
      "unexpected_changes": []}}' ;;
reviewer)
  echo '{"plan_conformance": {"tasks": [], "checkpoints": []}, "tests_match_plan": true,
    "artifacts_produced": true, "issues": [], "drift_notes": null,
    "review_categories": {"structure": "PASS", "error_handling": "PASS", "security": "PASS"},
    "recommendation": "APPROVE"}' ;;
esac
"""
SETTINGS = """\
[agents.coder]
command = ["/bin/sh", "{agent}"]
env = {{ BENCH_SECONDS = "{seconds}" }}

[agents.reviewer]
command = ["/bin/sh", "{agent}"]
env = {{ BENCH_SECONDS = "{seconds}" }}
"""
#: Put before the launcher: workers that nap before each claim.
SLEEPY = """\
import time
from tugtool.implement import worker
next_ = worker.Worker._next
def sleepy(self):
    time.sleep(1)  # the fault itself
    return next_(self)
worker.Worker._next = sleepy
"""
#: Put before the launcher: workers that start git for nothing.
RESTLESS = """\
from tugtool.git import command as git
from tugtool.implement import step
carry_out = step.carry_out
def restless(work):
    for _ in range(60):
        git.run("status", "--porcelain", cwd=work.checkout.path)
    return carry_out(work)
step.carry_out = restless
"""
NOTE = (
    f"{WORKERS} workers, {STEPS} steps, agents that sleep for 50 ms, two per step. Busy: how near "
    "it comes to the best order of the same steps. Agents: the same if only their sleep counts "
    "as work; beside it what bare git and threads reach without any state (the floor), which "
    "depends on how many cores share git's work. CPU of a run beside the floor's."
)
STEP_NOTE = "CPU time of one step of `implement`, its agents taken off, beside bare git commands."


def _repository(bench: Bench, name: str, shape: str, steps: int, seconds: float) -> Path:
    """Make a repository with a committed plan, and agents that take so long."""
    path = bench.repository(name, shapes.plan(shape, steps), recorded=False)
    agent = bench.place / "agent.sh"
    agent.write_text(AGENT)
    settings = SETTINGS.format(agent=agent, seconds=seconds)
    (path / ".tugtool" / "config.toml").write_text(settings)
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "start"]):
        harness.run(["git", *words], bench.environment, path)
    return path


def main() -> int:
    with harness.bench(__doc__, rounds=3, quick=1) as bench:
        tugcode, rounds = bench.binaries / "tugcode", bench.options.rounds
        broken = _busy(bench, tugcode, rounds, "ours")
        broken += _overhead(bench, tugcode, rounds, "ours")
        if bench.options.self_test:
            print("\nslow on purpose:")
            broken += len(SHAPES) - _busy(bench, _planted(tugcode, SLEEPY), 1, "planted")
            broken += 1 - _overhead(bench, _planted(tugcode, RESTLESS), 1, "planted")
    print(f"\n{broken} budgets broken" if broken else "\nevery budget is kept")
    return 1 if broken else 0


def _planted(tugcode: Path, fault: str) -> Path:
    shebang, rest = tugcode.with_name("tugcode-python").read_text().split("\n", 1)
    slow = tugcode.with_name("tugcode-slow")
    slow.write_text(f"{shebang}\n{fault}{rest}")
    slow.chmod(0o755)
    return slow


def _busy(bench: Bench, tugcode: Path, rounds: int, who: str) -> int:
    """Print the table of shapes. Return how many leave workers idle."""
    heads = ("busy", "worst", "agents", "floor's", "wall s", "floor's", "CPU s", "floor's")
    print(f"{f'{WORKERS} workers, {STEPS} steps':<22}{''.join(f'{head:>9}' for head in heads)}")
    broken, rows = 0, []
    for shape in SHAPES:
        found = [
            _round(bench, tugcode, f"{who}-{shape}-{number}", shape) for number in range(rounds)
        ]
        medians = Round(*map(statistics.median, zip(*found, strict=True)))
        worst = min(each.busy for each in found)
        verdict = budgets.verdict(worst, LEAST_BUSY, at_least=True)
        broken += worst < LEAST_BUSY
        shares = (medians.busy, worst, medians.agents, medians.floor_agents)
        seconds = (medians.wall, medians.floor_wall, medians.cpu, medians.floor_cpu)
        cells = [*(f"{each:>9.0%}" for each in shares), *(f"{each:>9.2f}" for each in seconds)]
        print(f"{shape:<22}{''.join(cells)}  {verdict}", flush=True)
        rows.append((shape, *shares, medians.cpu / medians.floor_cpu, LEAST_BUSY, verdict))
    columns = (
        "shape",
        "busy",
        "busy, worst round",
        "agents",
        "agents, floor",
        "CPU x floor",
        "gate",
        "verdict",
    )
    if who == "ours":
        bench.results.table("implement", "Workers kept busy", NOTE, columns, rows)
    return broken


class Round(NamedTuple):
    """One run, and one of the floor right after it."""

    busy: float
    agents: float
    wall: float
    cpu: float
    floor_agents: float
    floor_wall: float
    floor_cpu: float


def _round(bench: Bench, tugcode: Path, name: str, shape: str) -> Round:
    path = _repository(bench, f"busy-{name}", shape, STEPS, AGENT_SECONDS)
    out, cpu = _implement(bench, tugcode, path, WORKERS)
    wall, busy, agents = _figures(out, shape)
    path = _repository(bench, f"floor-{name}", shape, STEPS, AGENT_SECONDS)
    script = [sys.executable, str(Path(__file__).with_name("floor.py"))]
    words = [*script, shape, str(STEPS), str(WORKERS), str(bench.place / "agent.sh")]
    environment = bench.environment | {"BENCH_SECONDS": str(AGENT_SECONDS)}
    said, floor_cpu = _cpu(words, path, environment)
    asleep = {f"step-{n}": AGENTS_PER_STEP * AGENT_SECONDS for n in range(STEPS)}
    floor = float(said)
    return Round(busy, agents, wall, cpu, _best(shape, asleep) / floor, floor, floor_cpu)


def _figures(out: str, shape: str) -> tuple[float, float, float]:
    """Return the time of a run, and its share of the best one: in all, and by agents alone."""
    begun: dict[str, float] = {}
    took: dict[str, float] = {}
    for line in out.splitlines():
        data = json.loads(line)["data"]
        if data["event"] == "claimed":
            begun[data["step_anchor"]] = data["elapsed_seconds"]
        elif data["event"] == "completed":
            anchor = data["step_anchor"]
            took[anchor] = data["elapsed_seconds"] - begun[anchor]
    assert data["status"] == "done", data
    wall: float = data["elapsed_seconds"]
    asleep = dict.fromkeys(took, AGENTS_PER_STEP * AGENT_SECONDS)
    return wall, _best(shape, took) / wall, _best(shape, asleep) / wall


def _best(shape: str, took: dict[str, float]) -> float:
    """Return the least time: a free worker takes the ready step with most dependents."""
    needs = {n: set(shapes.SHAPES[shape](n, STEPS)) for n in range(STEPS)}
    weight: dict[int, float] = {}
    for n in reversed(range(STEPS)):
        later = [weight[m] for m in range(n + 1, STEPS) if n in needs[m]]
        weight[n] = took[f"step-{n}"] + max(later, default=0.0)
    now, done, running = 0.0, set[int](), list[tuple[float, int]]()
    waiting = set(needs)
    while waiting or running:
        ready = sorted((n for n in waiting if needs[n] <= done), key=lambda n: -weight[n])
        for n in ready[: WORKERS - len(running)]:
            waiting.remove(n)
            heapq.heappush(running, (now + took[f"step-{n}"], n))
        now, n = heapq.heappop(running)
        done.add(n)
    return now


def _overhead(bench: Bench, tugcode: Path, rounds: int, who: str) -> int:
    """Measure a step's cost beside its git commands. Return 1 if it is too high."""
    ours, bare = [], []
    for number in range(rounds):
        costs = []
        for steps in (FEW, MANY):
            name = f"cost-{who}-{number}-{steps}"
            path = _repository(bench, name, "free", steps, 0)
            costs.append(_implement(bench, tugcode, path, 1)[1])
        bare.append(_by_script(bench, path) / MANY)
        agents = _cpu(["sh", "-c", _repeated(bench)], path, bench.environment)[1] / MANY
        ours.append((costs[1] - costs[0]) / (MANY - FEW) - agents)
    step, floor = statistics.median(ours) * 1000, statistics.median(bare) * 1000
    over = step / floor > MOST_OVERHEAD
    verdict = budgets.verdict(step / floor, MOST_OVERHEAD)
    print(f"\na step, agents aside: {step:.1f} ms of CPU; git add, git commit: {floor:.1f} ms")
    print(f"{step / floor:.2f} times as much, {verdict}")
    row = ("a step / git add, git commit", step / floor, MOST_OVERHEAD, verdict)
    if who == "ours":
        title = "A step of `implement`"
        columns = ("what", "x", "gate", "verdict")
        bench.results.table("implement-step", title, STEP_NOTE, columns, [row])
    return int(over)


def _repeated(bench: Bench) -> str:
    """Run as many agents as a long run has, and nothing else."""
    agent = f'BENCH_SECONDS=0 TUGCODE_ROLE=reviewer sh "{bench.place}/agent.sh" >/dev/null'
    return f"i=0; while [ $i -lt {MANY * AGENTS_PER_STEP} ]; do {agent}; i=$((i+1)); done"


def _by_script(bench: Bench, path: Path) -> float:
    """Return the CPU seconds of the bare commits of a long run."""
    commit = "git add --all && git commit --quiet --message 'feat: work'"
    line = f"i=0; while [ $i -lt {MANY} ]; do echo $i >file-$i; {commit}; i=$((i+1)); done"
    return _cpu(["sh", "-c", line], path, bench.environment)[1]


def _implement(bench: Bench, tugcode: Path, path: Path, workers: int) -> tuple[str, float]:
    words = [str(tugcode), "implement", "bench", "--workers", str(workers), "--json"]
    return _cpu(words, path, bench.environment)


def _cpu(words: list[str], cwd: Path, env: dict[str, str]) -> tuple[str, float]:
    """Return a command's output, and its CPU seconds with its children."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(words, cwd=cwd, env=env, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().decode()
    if child.returncode:
        sys.exit(f"{words}: exit status {child.returncode}\n{said[-2000:]}")
    return said, usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
