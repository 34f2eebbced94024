"""Other tools for the same work beside Tugtool, in one run.

    PYTHONPATH=bench python -m peers [--quick] [--seed N] [--only NAME ...] [--self-test]

`make bench-peers` installs the peers first, in the versions of `bench/peers/versions.mk`. Writes
`bench/results/peers.json`. Exit status 1 if a step of ours had two owners, if an acknowledged
write of ours is missing, if we accepted a superseded worker's finish, if a peer is ahead in a
row that does not say why, or if ours could not be measured. A peer that cannot be installed or
run has rows that say so. `--self-test` plants a tool of ours with each of the first four faults,
and fails unless all are caught.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import harness

from peers import contending, faulty, judging, measuring, speed
from peers.ground import HERE, Ground, package

RESULTS = harness.PROJECT / "bench" / "results" / "peers.json"


def main() -> int:
    options = _options()
    if options.self_test:
        return faulty.self_test()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tugtool-peers-") as name:
        ground = Ground(Path(name).resolve(), options)
        print(f"seed {ground.seed}, {harness.versions(ground.ours)}")
        for size in measuring.SIZES:
            measuring.commands(ground, size)
        measuring.jobs(ground)
        contending.races(ground)
        contending.writes(ground)
        contending.late(ground)
        # A smoke run or a partial run is not a result.
        if not (options.quick or options.only):
            _keep(ground, options.write)
    expected = {"jobs", *speed.DOES} - {"start"}
    bad = [*judging.unmeasured(ground.found, expected), *judging.faults(ground.found)]
    print("", *(bad or ["nothing of ours is at fault"]), sep="\n")
    print(f"{time.monotonic() - begun:.0f} s")
    return 1 if bad else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rounds and jobs; writes nothing")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="only these peers")
    parser.add_argument("--write", default=str(RESULTS), metavar="FILE")
    parser.add_argument("--self-test", action="store_true", help="plant what must be caught")
    return parser.parse_args()


def _versions(ground: Ground) -> dict[str, str]:
    said = harness.run([str(ground.ours / "tugcode"), "version"], ground.environment).splitlines()
    ours = {line.split()[0]: line.split()[1] for line in said}
    node = shutil.which("node")
    version = harness.run([node, "--version"], ground.environment).strip("v\n") if node else "none"
    words = (HERE / "versions.mk").read_text().split()
    return {**ours, "node": version, **dict(package(word) for word in words if word[-1].isdigit())}


def _keep(ground: Ground, file: str) -> None:
    found = {
        "made_by": f"make bench-peers{' QUICK=1' if ground.quick else ''}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": _versions(ground),
        "tables": ground.tables,
        "plots": ground.plots,
    }
    # A tool's error message may name the directory it ran in.
    text = json.dumps(found, indent=1, ensure_ascii=False)
    for path, name in ((ground.place, "PLACE"), (harness.PROJECT, "PROJECT")):
        text = text.replace(str(path), name)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
