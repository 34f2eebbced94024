"""Docs that cannot rot: what exists is documented, and what is documented exists."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tugtool
from tugtool import errors
from tugtool.cli import help, parse
from tugtool.errors import git, repository, safety, server, state
from tugtool.plan import rules
from tugtool.store import sql
from tugtool.system import config, crash, variables

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SCHEMAS = Path(tugtool.__file__).parent / "schemas"
REFERENCE = ROOT / "scripts" / "reference.py"

#: The modules with refusals; each draws its part of the tree.
HOMES = (errors, repository, state, git, server, safety)

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
    sources = Path(tugtool.__file__).parent.rglob("*.py")
    found = (re.findall(r'"code": "(W\d{3})"', path.read_text()) for path in sources)
    return {code for codes in found for code in codes}


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
    for page in DOCS.rglob("*.md"):
        stale = tmp_path / page.relative_to(DOCS)
        stale.parent.mkdir(exist_ok=True)
        stale.write_text(page.read_text().replace("strict", "stern"))
    command = [sys.executable, "-c", program, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "docs/reference/commands.md is out of date" in done.stderr


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
        "W107",
        "W110",
        "W111",
        "W112",
        "W113",
        "W114",
        "W115",
        "W116",
        "W117",
        "W120",
        "W130",
        "W131",
        "W140",
        "W150",
        "W151",
        "W152",
        "W160",
        "W161",
        "W162",
        "W165",
        "W166",
        "W170",
        "W171",
        "W172",
        "W173",
        "W174",
        "W180",
        "W181",
        "W182",
        "W185",
        "W186",
    }
    assert warning_codes().isdisjoint(diagnostic_codes())
    bases = [each for each in errors.TugError.__subclasses__() if not each.code]
    assert all(base.__name__.endswith("Error") for base in bases)
    assert not [each for each in error_classes() if each.__name__.endswith("Error")]


def test_every_code_is_documented_and_every_documented_code_exists():
    documented = set(
        re.findall(r"^\| ([EWPI]\d{3}) \|", (DOCS / "reference" / "errors.md").read_text(), re.M)
    )
    refusals = {each.code for each in error_classes()}
    assert documented == refusals | diagnostic_codes() | warning_codes()


def test_the_error_table_has_the_right_names_and_severities():
    page = (DOCS / "reference" / "errors.md").read_text()
    for each in error_classes():
        assert f"| {each.code} | {each.__name__} |" in page
        home = {home.__name__: home for home in HOMES}[each.__module__]
        assert re.search(rf"{each.__name__} +{each.code} ", home.__doc__), each
    for code in diagnostic_codes():
        assert f"| {code} | {rules.severity(code)} |" in page


def test_every_exit_status_is_documented():
    page = (DOCS / "reference" / "commands.md").read_text()
    for each in error_classes():
        assert f"| {each.exit_status} |" in page


def test_every_command_and_option_is_documented():
    page = (DOCS / "reference" / "commands.md").read_text()
    for command in map(parse.find, help.visible()):
        assert f"## tugcode {command.path}\n" in page
        for option in command.options:
            assert option.name in page


def test_every_command_has_a_schema_and_every_schema_a_command():
    commands = {path.replace(" ", "-") for path in parse.FAMILIES}
    assert {path.stem for path in SCHEMAS.glob("*.json")} == commands | {"envelope", "help"}


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_every_field_is_described_and_documented(path):
    page = (DOCS / "reference" / "commands.md").read_text()
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
    page = (DOCS / "reference" / "configuration.md").read_text()
    for name in (*config.all_settings(), *variables.VARIABLES):
        assert f"| `{name}` |" in page


def test_every_variable_that_is_read_is_known():
    package = Path(config.__file__).parents[1]
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    read = set(re.findall(r'(?:os\.environ\.get|config\.variable)\("(\w+)"', source))
    read |= {config.ROLE_VARIABLE, *config.GIT_LOCATION_VARIABLES}
    assert read == set(variables.VARIABLES)
    # Whoever asks for one names it there.
    asked = re.findall(r"config\.variable\(([^)]*)\)", source)
    assert {word for word in asked if word[0] != '"'} == {"config.ROLE_VARIABLE"}


def test_the_changelog_begins_with_this_version():
    found = re.search(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert found
    assert found[1] == tugtool.__version__


def test_the_front_pages_stay_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 65
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) < 120
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:30])
    assert "make demo" in screen
    assert "make test" in screen


def test_the_format_page_s_small_plan_can_be_carried_out():
    from tugtool.plan.parser import parse

    page = (DOCS / "reference" / "plan-format.md").read_text()
    plan = parse(re.search(r"```markdown\n(.*?)```", page, re.DOTALL)[1])
    assert [step.anchor for step in plan.steps] == ["step-1", "step-2"]
    assert rules.check(plan, "lenient") == []


def test_the_format_page_names_every_element_and_label():
    from tugtool.plan import parser

    page = (DOCS / "reference" / "plan-format.md").read_text().casefold()
    for label in (*parser._CHECKLISTS, *parser._PASSAGES):
        assert f"`{label}`" in page


def test_the_project_names_no_download_address():
    for name in ("requirements-dev.txt", "pyproject.toml", "Makefile", ".ci/run"):
        assert "://" not in (ROOT / name).read_text()
    pins = [line for line in (ROOT / "requirements-dev.txt").read_text().splitlines() if line]
    assert all(
        line.startswith("#") or re.fullmatch(r"[a-z0-9-]+==[\d.]+(; .*)?", line) for line in pins
    )


def test_every_file_that_contributing_names_exists():
    named = re.findall(r"`([\w-]+/[\w/.-]*)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 30
    for name in named:
        found = [top / name for top in (ROOT, Path(tugtool.__file__).parent)]
        found += [Path(str(each).replace("ROLE", "coder")) for each in found]
        assert any(each.exists() for each in found), name


def test_every_function_on_the_walk_through_the_rooms_exists():
    page = (DOCS / "internals" / "architecture.md").read_text()
    walk = re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", page, re.MULTILINE)
    assert len(walk) > 15
    for file, function in walk:
        assert f"def {function}(" in (Path(tugtool.__file__).parent / file).read_text(), function
    named = set(re.findall(r"`sql\.([A-Z_]+)`", page))
    assert named <= set(vars(sql))


#: A command line of ours in a page, up to a comment, a pipe or a redirection.
COMMAND_LINE = re.compile(r"^(?:\$ )?(?:.*\| )?(tugcode .*?)(?: +#.*| \|.*| >.*)?$", re.MULTILINE)


def test_every_command_line_in_the_pages_can_be_typed():
    names = ("orchestrators", "state", "dash", "git", "implement", "plugin")
    pages = [ROOT / "README.md", *DOCS.glob("start/*.md"), *DOCS.glob("use/*.md")]
    pages += [DOCS / "reference" / f"{name}.md" for name in names]
    lines = []
    for page in pages:
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(), re.DOTALL):
            lines += [line for line in COMMAND_LINE.findall(block) if not line.endswith(":")]
    assert len(lines) > 60
    for line in lines:
        words = shlex.split(line.replace("$$", "4711"))
        assert parse.parse(words[1:]).path in parse.FAMILIES, line


def test_the_orchestrators_page_knows_every_exit_status_and_only_codes_that_exist():
    page = (DOCS / "reference" / "orchestrators.md").read_text()
    statuses = {0, *(each.exit_status for each in error_classes())}
    listed = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert {int(status) for status in listed} == statuses
    assert set(CODE.findall(page)) <= {each.code for each in error_classes()}
    reasons = ("all_completed", "no_ready_steps", "paused")
    assert all(f"| `{reason}` |" in page for reason in reasons)


PROOFS = ROOT / "tests"


def test_every_proof_is_listed_beside_what_it_holds():
    page = (DOCS / "internals" / "reliability.md").read_text()
    ways = (r"(@|pytestmark = )pytest\.mark\.proof", r"@(proving\.)?examined", r".*\bsampled\(")
    mark = re.compile(rf"^({'|'.join(ways)})", re.MULTILINE)
    listed = set(re.findall(r"\(\.\./\.\./tests/([\w/]+\.py)\)", page))
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
    page = (DOCS / "internals" / "crash-points.md").read_text()
    listed = re.findall(r"^\| `([a-z.-]+)` \|", page, re.MULTILINE)
    assert listed == list(crash.POINTS)
    sources = "".join(path.read_text() for path in Path(tugtool.__file__).parent.rglob("*.py"))
    reached = set(re.findall(r'crash\.point\("([^"]+)"\)', sources))
    # Where commands share their code, it is given the command's name.
    commands = set(re.findall(r'\bcommand="(join|merge|sync)"', sources))
    shared = re.findall(r'crash\.point\(f"\{command\}\.([^"]+)"\)', sources)
    reached |= {f"{command}.{point}" for command in commands for point in shared}
    assert reached == set(crash.POINTS)
