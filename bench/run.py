"""Run all our benchmarks one after the other on one installation; `make bench`.

    python bench/run.py [--quick] [ONLY ...]

Prints each one's output. At the end the results are in `bench/results/ours.json`, except after
a quick run; a partial run replaces only its part. `report.py` makes the page from it. Exit
status 1 if any gate is broken.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "ours.json"
#: In the order of the page. Those of wall time come first, while nothing else is warm.
BENCHES = (
    *(
        "startup",
        "growth",
        "contention",
        "recovery",
        "endurance",
        "memory",
        "events",
        "live",
        "serve",
        "deck",
        "look",
    ),
    *(
        "operations",
        "backup",
        "commit",
        "implement",
        "reconcile",
        "large",
        "doctor",
        "hook",
        "confine",
    ),
    *("parser", "postgres", "watchers", "agents", "mcp"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run that writes nothing")
    parser.add_argument("only", nargs="*", metavar="ONLY", choices=[*BENCHES, []])
    options = parser.parse_args()
    chosen = options.only or BENCHES
    with tempfile.TemporaryDirectory(prefix="tugtool-bench-") as name:
        place = Path(name).resolve()
        env = harness.environment(place)
        binaries = harness.install(place / "venv", env)
        found = [_one(bench, place, binaries, quick=options.quick) for bench in chosen]
        versions = _versions(binaries)
    broken = [bench for bench, (status, _) in zip(chosen, found, strict=True) if status]
    if not options.quick:
        _gather({bench: each for bench, (_, each) in zip(chosen, found, strict=True)}, versions)
    print(f"\nbroken: {', '.join(broken)}" if broken else "\nall benchmarks: every gate is kept")
    return int(bool(broken))


def _one(bench: str, place: Path, binaries: Path, *, quick: bool) -> tuple[int, dict[str, Any]]:
    print(f"\n== {bench}", flush=True)
    begun, results = time.monotonic(), place / f"{bench}.json"
    argv = [sys.executable, str(HERE / f"{bench}.py"), "--results", str(results)]
    argv += ["--quick"] if quick else []
    done = subprocess.run(argv, env={**os.environ, harness.SHARED: str(binaries)})
    print(f"({time.monotonic() - begun:.0f} s)", flush=True)
    # A benchmark that failed has no results, and its former ones must not stay.
    nothing: dict[str, Any] = {"figures": {}, "tables": [], "plots": []}
    return done.returncode, json.loads(results.read_text()) if results.exists() else nothing


def _versions(binaries: Path) -> dict[str, object]:
    lines = harness.run([str(binaries / "tugcode"), "version"], dict(os.environ)).splitlines()
    found: dict[str, object] = {line.split()[0]: line.split()[1] for line in lines}
    kernel = f"{platform.system()} {platform.release().split('-')[0]}"
    return {**found, "kernel": kernel, "cpus": os.cpu_count()}


def _gather(found: dict[str, dict[str, Any]], versions: dict[str, object]) -> None:
    """Write the results; keep former ones of what was not measured now."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept: dict[str, list[dict[str, Any]]] = {}
    for kind in ("tables", "plots"):
        own = [{"from": bench, **each} for bench, part in found.items() for each in part[kind]]
        old = [each for each in before.get(kind, []) if each["from"] not in found]
        kept[kind] = sorted(own + old, key=lambda each: BENCHES.index(each["from"]))
    origins = {id: by for id, by in before.get("figures_from", {}).items() if by not in found}
    origins |= {id: bench for bench, part in found.items() for id in part["figures"]}
    new = {id: value for part in found.values() for id, value in part["figures"].items()}
    figures = {id: new.get(id, before.get("figures", {}).get(id)) for id in origins}
    whole = {
        "made_by": "make bench",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions,
        "figures": figures,
        "figures_from": origins,
        **kept,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
