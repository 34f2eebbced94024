"""The contracts of the roles: what they ask for, and how a broken one is told."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.agents import ANSWERS, FIELDS, GATES, INPUTS
from support.proving import examined
from tugtool import agents
from tugtool.agents import contracts
from tugtool.system.agent_config import ROLES

HOME = Path(agents.__file__).parent / "contracts"

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def changed(role: str, path: str, value: object) -> dict:
    """A good answer of `role` with one field replaced; `a.b[0].c` is the path."""
    answer = json.loads(json.dumps(ANSWERS[role]))
    *before, last = path.replace("[", ".[").split(".")
    place = answer
    for part in before:
        place = place[int(part[1:-1])] if part.startswith("[") else place[part]
    place[last] = value
    return answer


def test_the_roles_are_those_of_the_specification():
    assert tuple(FIELDS) == ROLES
    assert {path.name for path in HOME.iterdir()} == {
        f"{role}{kind}.json" for role in ROLES for kind in ("", ".input")
    }


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("of_input", [False, True])
def test_a_contract_is_a_schema_that_describes_every_field(role, of_input):
    schema = contracts.schema(role, of_input=of_input)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    for place in places(schema):
        assert place["description"].strip()
        if "properties" in place:
            assert set(place["required"]) <= set(place["properties"])
            assert "additionalProperties" not in place


def places(schema: dict):
    """A schema and every schema within it."""
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from places(inner)
    if "items" in schema:
        yield from places(schema["items"])
    for inner in schema.get("anyOf", []):
        yield from places(inner)


@pytest.mark.parametrize("role", ROLES)
def test_a_contract_requires_what_the_specification_names(role):
    schema = contracts.schema(role)
    assert set(schema["required"]) == set(FIELDS[role])
    assert set(ANSWERS[role]) == set(FIELDS[role])


@pytest.mark.parametrize("role", ROLES)
def test_a_good_answer_keeps_its_contract_and_may_say_more(role):
    assert contracts.problems(role, ANSWERS[role]) == []
    more = {**ANSWERS[role], "mood": "fine", "usage": {"tokens": 3, "cost_usd": None, "x": 1}}
    assert contracts.problems(role, more) == []


@pytest.mark.parametrize(("role", "field"), [(r, f) for r in ROLES for f in FIELDS[r]])
def test_each_required_field_is_missed(role, field):
    answer = {name: value for name, value in ANSWERS[role].items() if name != field}
    assert contracts.problems(role, answer) == [f"{field} is missing"]


@pytest.mark.parametrize(("role", "field"), [(r, f) for r in ROLES for f in FIELDS[r]])
def test_each_field_has_its_type(role, field):
    wrong = contracts.problems(role, {**ANSWERS[role], field: {"odd": 1}})
    if isinstance(ANSWERS[role][field], dict):
        wrong = contracts.problems(role, {**ANSWERS[role], field: "odd"})
    assert len(wrong) == 1
    assert wrong[0].startswith(f"{field} is ")
    assert " and must be " in wrong[0]


@pytest.mark.parametrize("role", GATES)
def test_a_gate_answers_one_of_three_words(role):
    for word in ("APPROVE", "REVISE", "ESCALATE"):
        assert contracts.problems(role, {**ANSWERS[role], "recommendation": word}) == []
    assert contracts.problems(role, {**ANSWERS[role], "recommendation": "approve"}) == [
        'recommendation is "approve", and must be one of "APPROVE", "REVISE", "ESCALATE"'
    ]


@pytest.mark.parametrize(
    ("role", "path", "value", "told"),
    [
        (
            "reviewer",
            "plan_conformance.checkpoints[0].verdict",
            "OK",
            'plan_conformance.checkpoints[0].verdict is "OK", and must be one of "PASS", "FAIL", '
            '"BLOCKED", "UNVERIFIED"',
        ),
        (
            "reviewer",
            "plan_conformance.tasks[0].ordinal",
            "0",
            'plan_conformance.tasks[0].ordinal is "0", and must be a whole number',
        ),
        (
            "coder",
            "checklist_status.tests[0].status",
            "done",
            'checklist_status.tests[0].status is "done", and must be one of "completed", "skipped"',
        ),
        (
            "coder",
            "checklist_status.tasks[0].ordinal",
            -1,
            "checklist_status.tasks[0].ordinal is -1, and must be at least 0",
        ),
        (
            "coder",
            "drift_assessment.drift_severity",
            None,
            "drift_assessment.drift_severity is null, and must be one of "
            '"none", "minor", "moderate", "major"',
        ),
        ("coder", "files_created", ["a", 3], "files_created[1] is 3, and must be text"),
        ("coder", "success", "yes", 'success is "yes", and must be true or false'),
        ("architect", "risks", "none", 'risks is "none", and must be a list'),
        ("committer", "commit_hash", 7, "commit_hash is 7, and must be text or null"),
        ("reviewer", "issues", [{}], "issues[0].severity is missing"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(role, path, value, told):
    assert contracts.problems(role, changed(role, path, value))[0] == told


@pytest.mark.parametrize("answer", [None, 3, "text", [], [{}]])
def test_what_is_no_object_is_no_answer(answer):
    (told,) = contracts.problems("coder", answer)
    assert told.startswith("the answer is ")
    assert told.endswith(", and must be an object")


def test_an_issue_between_steps_may_be_words_or_an_object_and_nothing_else():
    for issue in ("two parsers", {"severity": "major", "description": "two parsers"}):
        assert contracts.problems("auditor", changed("auditor", "cross_step_issues", [issue])) == []
    assert contracts.problems("auditor", changed("auditor", "cross_step_issues", [3])) == [
        "cross_step_issues[0] is 3, and must be an object or text as the contract has it"
    ]


def test_many_problems_are_told_by_a_few_and_long_values_by_their_beginning():
    answer = changed("reviewer", "issues", [{"severity": 1, "description": "x"}] * 10_000)
    told = contracts.problems("reviewer", answer)
    assert len(told) == contracts.MOST_PROBLEMS
    assert told[0] == "issues[0].severity is 1, and must be text"
    long = contracts.problems("reviewer", changed("reviewer", "recommendation", "x" * 10_000))
    assert 'recommendation is "xxx' in long[0]
    assert len(long[0]) < 200


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_gets_has_a_contract_too(role):
    assert contracts.problems(role, INPUTS[role], of_input=True) == []
    assert contracts.problems(role, {**INPUTS[role], "role": "cook"}, of_input=True) == [
        f'role is "cook", and must be "{role}"'
    ]
    required = contracts.schema(role, of_input=True)["required"]
    assert contracts.problems(role, {}, of_input=True) == [
        f"{name} is missing" for name in required
    ]


@pytest.mark.parametrize("role", ROLES[3:])
def test_a_role_at_work_on_a_plan_is_told_where_and_under_which_attempt(role):
    required = contracts.schema(role, of_input=True)["required"]
    assert {"role", "worktree_path", "plan_path", "step_anchor", "attempt"} <= set(required)


def test_a_role_that_does_not_exist_has_no_contract():
    for name in ("cook", "../schemas/commit", ""):
        with pytest.raises(KeyError):
            contracts.schema(name)


@examined(short=60)
@given(role=st.sampled_from(ROLES), data=st.data())
def test_any_answer_is_judged_as_the_schema_does_and_in_printable_words(role, data):
    fields = {name: st.just(ANSWERS[role][name]) | TREES for name in FIELDS[role]}
    answer = data.draw(st.fixed_dictionaries({}, optional=fields) | TREES)
    told = contracts.problems(role, answer)
    valid = jsonschema.Draft202012Validator(contracts.schema(role)).is_valid(answer)
    assert (told == []) == valid
    assert all(sentence.isascii() and "\n" not in sentence for sentence in told)


def test_the_library_that_checks_is_loaded_only_to_check():
    import subprocess

    probe = (
        "import sys\n"
        "from tugtool.agents import answers, clis, contracts\n"
        "contracts.schema('coder'), contracts.prompt_text('coder')\n"
        "answers.read_answer(b'{\"a\": 1}')\n"
        "print('jsonschema' in sys.modules)\n"
        "contracts.problems('coder', {})\n"
        "print('jsonschema' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"
