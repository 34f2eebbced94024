"""The types of answers are what their schemas say."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "answers.py"


@pytest.fixture(scope="module")
def answers():
    spec = importlib.util.spec_from_file_location("answers", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_of_answers_are_current(answers):
    assert answers.main(["--check"]) == 0


def test_a_type_that_its_schema_does_not_have_any_more_is_noticed(answers, monkeypatch, tmp_path):
    for path in answers.SCHEMAS.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    changed = json.loads((tmp_path / "commit.json").read_text())
    del changed["properties"]["warnings"]
    (tmp_path / "commit.json").write_text(json.dumps(changed))
    monkeypatch.setattr(answers, "SCHEMAS", tmp_path)
    monkeypatch.setattr(answers, "FILE", tmp_path / "__init__.pyi")
    assert answers.main(["--check"]) == 1
    assert answers.main([]) == 0
    assert answers.main(["--check"]) == 0
    assert (
        "    warnings: list[str]\n" not in (tmp_path / "__init__.pyi").read_text().split("\n\n")[1]
    )


def test_what_a_schema_can_say_has_a_type(answers):
    schema = {
        "type": "object",
        "description": "a thing",
        "required": ["name"],
        "properties": {
            "name": {"type": ["string", "null"]},
            "try": {"type": "integer"},
            "kind": {"enum": ["a", None]},
            "parts": {"type": "array", "items": {"type": "object", "properties": {}}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "more": {"type": "object"},
            "self": {"$ref": "#/$defs/thing"},
            "claim": {"type": ["object", "null"], "description": "the answer of `state claim`"},
            "one": {"oneOf": [{"const": 1}, {"type": "boolean"}]},
        },
        "$defs": {"thing": {"type": "object", "properties": {"on": {"type": "number"}}}},
    }
    text = answers.Writer("Thing", schema).write()
    for line in (
        "    name: str | None\n",
        "_ThingWords = TypedDict(\"_ThingWords\", {'try': NotRequired[int]})",
        "class Thing(_ThingWords):\n",
        "    kind: NotRequired[Literal['a'] | None]\n",
        "    parts: NotRequired[list[ThingPart]]\n",
        "    counts: NotRequired[dict[str, int]]\n",
        "    more: NotRequired[dict[str, Any]]\n",
        "    self: NotRequired[ThingThing]\n",
        "    claim: NotRequired[StateClaim | None]\n",
        "    one: NotRequired[Literal[1] | bool]\n",
    ):
        assert line in text


def test_equal_objects_are_one_type(answers):
    point = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"from_": point, "to": point}}
    text = answers.Writer("Line", schema).write()
    assert text.count("    x: NotRequired[int]\n") == 1
    assert "LineTo = LineFrom\n" in text
    assert "    to: NotRequired[LineFrom]\n" in text
