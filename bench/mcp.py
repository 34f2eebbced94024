"""Measure `tugcode mcp` from its start to the list of its tools, beside a bare interpreter.

    python bench/mcp.py [--quick] [--rounds N] [--seed N] [--self-test] [--results FILE]

Clients wait about two seconds for a server, on a busy machine too; a slower one has no tools in
the first request, and the client says nothing. CPU time of whole processes of an installed,
compiled package, as `harness.py` says, and the largest resident size. Exit status 1 if a budget is
broken. `--self-test` adds a slow server and fails unless it is caught.
"""

import json
import os
import sys
from pathlib import Path

import harness
import shapes
from harness import Bench, Budget, Row

BUDGET = Budget(2.0, 4.0)
#: Of the process after it has listed its tools.
MOST_MEGABYTES = 20.0
#: The name of each era, and its messages up to the tools.
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
ERAS = {
    "with a handshake": [("initialize", {"protocolVersion": "2025-11-25"}), ("tools/list", {})],
    "without": [("server/discover", {"_meta": MODERN}), ("tools/list", {"_meta": MODERN})],
}
NOTE = (
    "CPU time of the server's process from its start to the answer of `tools/list`, and its end, "
    "beside a bare start."
)


def main() -> int:
    with harness.bench(__doc__, rounds=40, quick=5) as bench:
        rows = _rows(bench)
        if bench.options.self_test:
            rows.append(_planted(bench, rows[-1]))
        rounds, seed = bench.options.rounds, bench.options.seed
        times = harness.measure(rows, rounds, seed, bench.place, bench.environment)
        results = harness.compare(rows, times)
        harness.show(results)
        harness.tell(
            bench.results, "mcp", "The MCP server until it has listed its tools", NOTE, results
        )
        megabytes = _megabytes(rows[1], bench)
        print(f"largest resident size: {megabytes:.1f} MB (budget: {MOST_MEGABYTES:.0f})")
        _answers_tools(rows[1], bench)
    return harness.judge(results) or int(megabytes > MOST_MEGABYTES)


def _rows(bench: Bench) -> list[Row]:
    place = bench.repository("mcp", shapes.plan("diamonds", 12))
    rows = [Row(harness.BARE, [bench.python, "-c", "pass"])]
    for name, messages in ERAS.items():
        file = bench.place / f"mcp {name}.jsonl"
        file.write_text("".join(_line(*each) for each in messages))
        command = bench.tugcode("-C", str(place), "mcp")
        rows.append(Row(f"tools/list {name}", command, BUDGET, given=str(file)))
    return rows


def _planted(bench: Bench, like: Row) -> Row:
    assert isinstance(like.argv, list)
    slow = harness.planted(bench.binaries, "slow on purpose", like.argv[1:], BUDGET)
    return slow._replace(given=like.given)


def _line(method: str, params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n"


def _megabytes(row: Row, bench: Bench) -> float:
    """Return the largest resident size of one run."""
    _, usage = _ran(row, bench)
    return float(usage.ru_maxrss) / (1024 if sys.platform == "linux" else 1 << 20)


def _answers_tools(row: Row, bench: Bench) -> None:
    """Make sure that it is the whole way that was measured."""
    told, _ = _ran(row, bench)
    assert len(json.loads(told.splitlines()[-1])["result"]["tools"]) == 8, told


def _ran(row: Row, bench: Bench) -> tuple[str, "os.struct_rusage"]:
    assert isinstance(row.argv, list)
    told = Path(bench.place / "told")
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, row.given, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(told), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    ]
    pid = os.posix_spawn(row.argv[0], row.argv, bench.environment, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return told.read_text(), usage


if __name__ == "__main__":
    sys.exit(main())
