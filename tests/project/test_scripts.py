"""The scripts that compare recordings and count crossings notice what they are for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
ROW = {"line": "state claim --json", "status": 0, "out": "{}", "err": ""}


def run(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False
    )


def compared(tmp_path: Path, before: dict, after: dict) -> subprocess.CompletedProcess:
    files = tmp_path / "before.json", tmp_path / "after.json"
    for file, recording in zip(files, (before, after), strict=True):
        file.write_text(json.dumps(recording))
    return run(SCRIPTS / "recording.py", "compare", *files)


def test_equal_recordings_have_no_differences(tmp_path):
    recording = {"schemas": {"a.json": {}}, "working-True": [ROW]}
    done = compared(tmp_path, recording, recording)
    assert (done.returncode, done.stdout) == (0, "0 differences\n")


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({"schemas": {}, "scene": [ROW | {"status": 1}]}, '- "status": 0\n+ "status": 1'),
        ({"schemas": {}, "scene": [ROW | {"out": "{ }"}]}, '- "out": "{}",\n+ "out": "{ }",'),
        ({"schemas": {}, "scene": [ROW | {"err": "oh"}]}, '- "err": "",\n+ "err": "oh",'),
        ({"schemas": {}, "scene": []}, "== scene: commands"),
        ({"schemas": {"b.json": {}}, "scene": [ROW]}, "== schemas"),
    ],
)
def test_a_planted_difference_is_found(tmp_path, after, said):
    done = compared(tmp_path, {"schemas": {}, "scene": [ROW]}, after)
    assert done.returncode == 1
    assert said in done.stdout


def test_a_claim_passes_through_as_many_modules_as_it_may():
    done = run(SCRIPTS / "crossings.py", "state claim")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proof(share=0)
def test_so_does_every_other_flow():
    done = run(SCRIPTS / "crossings.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_module_more_on_the_way_of_a_claim_is_noticed():
    planted = f"""
import sys
sys.path.insert(0, {str(SCRIPTS)!r})
import crossings
crossings.LIMITS["state claim"] = 10
sys.exit(crossings.main(["state claim"]))
"""
    done = run("-c", planted)
    assert done.returncode == 1, done.stdout + done.stderr
