"""Docs that cannot rot: what exists is documented, and what is documented exists."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tugtool
from tugtool import (
    client_errors,
    commit,
    config,
    crash,
    dash_errors,
    errors,
    git_errors,
    people_errors,
    role_errors,
    state_errors,
)
from tugtool.cli import batch, parse, table
from tugtool.plan import rules

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SCHEMAS = Path(tugtool.__file__).parent / "schemas"
REFERENCE = ROOT / "scripts" / "reference.py"

#: The modules with refusals; each draws its part of the tree.
HOMES = (client_errors, dash_errors, errors, git_errors, people_errors, role_errors, state_errors)

CODE = re.compile(r"\b[EWPI]\d{3}\b")


def error_classes() -> list[type[errors.TugError]]:
    found, pending = [], [errors.TugError]
    while pending:
        pending += pending[0].__subclasses__()
        found.append(pending.pop(0))
    return [each for each in found if each.code]


def diagnostic_codes() -> set[str]:
    """Every code that the sources of the plan package can yield."""
    sources = "".join(path.read_text() for path in Path(rules.__file__).parent.glob("*.py"))
    return set(re.findall(r'"([EWPI]\d{3})"', sources))


def warning_codes() -> set[str]:
    """Every code of a warning that comes with an answer."""
    sources = (
        Path(table.__file__).parent.glob("*.py"),
        [Path(batch.__file__), Path(commit.__file__)],
    )
    return {
        code
        for each in sources
        for path in each
        for code in re.findall(r'"code": "(W\d{3})"', path.read_text())
    }


def test_the_generated_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, REFERENCE, "--check"], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_stale_page_is_noticed(tmp_path):
    """The check above can fail: a copy of the docs with one word changed is out of date."""
    program = REFERENCE.read_text().replace(
        'DOCS = Path(__file__).resolve().parent.parent / "docs"', f"DOCS = Path({str(tmp_path)!r})"
    )
    for page in DOCS.glob("*.md"):
        (tmp_path / page.name).write_text(page.read_text().replace("strict", "stern"))
    command = [sys.executable, "-c", program, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "docs/commands.md is out of date" in done.stderr


def test_codes_are_unique_and_classes_say_what_is_the_case():
    codes = [each.code for each in error_classes()]
    assert len(codes) == len(set(codes))
    assert diagnostic_codes().isdisjoint(codes)
    assert warning_codes() == {
        "W101",
        "W102",
        "W103",
        "W104",
        "W105",
        "W106",
        "W110",
        "W111",
        "W112",
        "W113",
        "W120",
        "W130",
        "W140",
        "W150",
    }
    assert warning_codes().isdisjoint(diagnostic_codes())
    bases = [each for each in errors.TugError.__subclasses__() if not each.code]
    assert all(base.__name__.endswith("Error") for base in bases)
    assert not [each for each in error_classes() if each.__name__.endswith("Error")]


def test_every_code_is_documented_and_every_documented_code_exists():
    documented = set(re.findall(r"^\| ([EWPI]\d{3}) \|", (DOCS / "errors.md").read_text(), re.M))
    refusals = {each.code for each in error_classes()}
    assert documented == refusals | diagnostic_codes() | warning_codes()


def test_the_error_table_has_the_right_names_and_severities():
    page = (DOCS / "errors.md").read_text()
    for each in error_classes():
        assert f"| {each.code} | {each.__name__} |" in page
        home = {home.__name__: home for home in HOMES}[each.__module__]
        assert re.search(rf"{each.__name__} +{each.code} ", home.__doc__), each
    for code in diagnostic_codes():
        assert f"| {code} | {rules.severity(code)} |" in page


def test_every_exit_status_is_documented():
    page = (DOCS / "commands.md").read_text()
    for each in error_classes():
        assert f"| {each.exit_status} |" in page


def test_every_command_and_option_is_documented():
    page = (DOCS / "commands.md").read_text()
    for command in table.visible():
        assert f"## tugcode {command.path}\n" in page
        for option in command.options:
            assert option.name in page


def test_every_command_has_a_schema_and_every_schema_a_command():
    commands = {command.path.replace(" ", "-") for command in table.COMMANDS.values()}
    assert {path.stem for path in SCHEMAS.glob("*.json")} == commands | {"envelope", "help"}


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_every_field_is_described_and_documented(path):
    page = (DOCS / "json.md").read_text()
    for name, field in fields(json.loads(path.read_text())):
        assert field["description"], name
        assert re.search(rf"`[^`|]*\b{name}\??` \|", page), name


def fields(schema: object):
    """Every property of a schema, however deep."""
    if isinstance(schema, dict):
        for name, value in schema.get("properties", {}).items():
            yield name, value
        for value in schema.values():
            yield from fields(value)


def test_every_setting_and_variable_is_documented():
    page = (DOCS / "configuration.md").read_text()
    for name in (*config.SETTINGS, *config.VARIABLES):
        assert f"| `{name}` |" in page


def test_every_variable_that_is_read_is_known():
    source = Path(config.__file__).read_text()
    read = set(re.findall(r'os\.environ\.get\("(\w+)"', source)) | set(
        config.GIT_LOCATION_VARIABLES
    )
    assert read == set(config.VARIABLES)


def test_links_between_pages_lead_somewhere():
    for page in (*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_changelog_begins_with_this_version():
    found = re.search(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert found
    assert found[1] == tugtool.__version__


def test_the_front_pages_stay_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 120
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:30])
    assert "make demo" in screen
    assert "make test" in screen


def test_the_readme_s_small_plan_and_the_format_page_s_can_be_carried_out():
    from tugtool.plan.parser import parse

    for page in (ROOT / "README.md", DOCS / "plan-format.md"):
        text = re.search(r"```markdown\n(.*?)```", page.read_text(), re.DOTALL)[1]
        plan = parse(text)
        assert [step.anchor for step in plan.steps] == ["step-1", "step-2"]
        assert rules.check(plan, "lenient") == []


def test_the_format_page_names_every_element_and_label():
    from tugtool.plan import parser

    page = (DOCS / "plan-format.md").read_text().casefold()
    for label in (*parser._CHECKLISTS, *parser._PASSAGES):
        assert f"`{label}`" in page


def test_the_project_names_no_download_address():
    for name in ("requirements-dev.txt", "pyproject.toml", "Makefile", ".ci/run"):
        assert "://" not in (ROOT / name).read_text()
    pins = [line for line in (ROOT / "requirements-dev.txt").read_text().splitlines() if line]
    assert all(
        line.startswith("#") or re.fullmatch(r"[a-z-]+==[\d.]+(; .*)?", line) for line in pins
    )


def test_the_demo_plays_to_its_end(tmp_path):
    tugcode = Path(sys.executable).with_name("tugcode")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py", tugcode],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    said = done.stdout
    assert "wave 5   * step-8  Everything together (verification only)" in said
    # A crash between commit and state is repaired, and makes no second commit.
    assert re.search(r"found [0-9a-f]{12} for step-1, which is completed; 7 steps remain", said)
    assert re.search(r"rev-list --count main\.\.HEAD\n1\n", said)
    # Workers in worktrees of their own, and what one has done comes to the other.
    places = re.findall(r"worker (\d): works,? .*in \S+/(tugplan__\S+)", said)
    assert len({worker for worker, _ in places}) == len({name for _, name in places}) >= 2
    assert re.search(r"step-5 +worker \d: has taken in [^\n]*step-[23]\b", said)
    # An agent dies, a reviewer wants a change, a checkpoint is left to a person.
    assert re.search(r"step-3 +worker \d: coder failed: it was killed by signal 9", said)
    assert re.search(r"step-4 +worker \d: round 1: REVISE: a book can be lent twice", said)
    assert "step-6 checkpoint 1 is left to a person: needs a neighbour" in said
    assert "done: 8 of 8 steps" in said
    assert "accepted step-6 checkpoint 1" in said
    # All is merged, each step once.
    assert "tugplan-bookshelf.md is merged to main as" in said
    assert all(said.count(f"Tug-Step: step-{number}\n") == 1 for number in range(1, 9))
    assert "no worktrees; tugcode worktree create PLAN makes one" in said
    assert list(tmp_path.iterdir()) == []


#: A command line of ours in a page, up to a comment, a pipe or a redirection.
COMMAND_LINE = re.compile(r"^(?:\$ )?(?:.*\| )?(tugcode .*?)(?: +#.*| \|.*| >.*)?$", re.MULTILINE)


def test_every_command_line_in_the_pages_can_be_typed():
    pages = [ROOT / "README.md", DOCS / "guide.md", DOCS / "orchestrators.md", DOCS / "state.md"]
    pages += [DOCS / "dash.md"]
    lines = []
    for page in pages:
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(), re.DOTALL):
            lines += [line for line in COMMAND_LINE.findall(block) if not line.endswith(":")]
    assert len(lines) > 60
    for line in lines:
        words = shlex.split(line.replace("$$", "4711"))
        assert parse.parse(words[1:]).path in table.COMMANDS, line


def test_the_orchestrators_page_knows_every_exit_status_and_only_codes_that_exist():
    page = (DOCS / "orchestrators.md").read_text()
    statuses = {0, *(each.exit_status for each in error_classes())}
    listed = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert {int(status) for status in listed} == statuses
    assert set(CODE.findall(page)) <= {each.code for each in error_classes()}
    reasons = ("all_completed", "no_ready_steps", "paused")
    assert all(f"| `{reason}` |" in page for reason in reasons)


PROOFS = ROOT / "tests"


def test_every_proof_is_listed_beside_what_it_holds():
    page = (DOCS / "reliability.md").read_text()
    mark = re.compile(r"^@(pytest\.mark\.proof|(proving\.)?examined)", re.MULTILINE)
    listed = set(re.findall(r"\(\.\./tests/([\w/]+\.py)\)", page))
    marked = {
        str(path.relative_to(PROOFS))
        for path in PROOFS.rglob("test_*.py")
        if mark.search(path.read_text())
    }
    all_ = {str(path.relative_to(PROOFS)) for path in (PROOFS / "proof").glob("test_*.py")}
    assert len(marked) > 20
    # Their own clockwork proves nothing about the product.
    assert (marked | all_) - {"proof/test_proving.py"} <= listed
    for words in re.findall(r'ONLY=(\w+|"[^"]*")', page):
        for word in words.strip('"').split(" or "):
            assert any(word in path for path in marked), word


def test_every_crash_point_is_documented_and_reached():
    page = (DOCS / "crash-points.md").read_text()
    listed = re.findall(r"^\| `([a-z.-]+)` \|", page, re.MULTILINE)
    assert listed == list(crash.POINTS)
    sources = "".join(path.read_text() for path in Path(tugtool.__file__).parent.rglob("*.py"))
    assert set(re.findall(r'crash\.point\("([^"]+)"\)', sources)) == set(crash.POINTS)
