"""`plan import`: tasks of other tools become a plan that parses, and what is lost is said.

The exports of Backlog.md and Task Master were written by these tools, the others by hand in the
form that beads writes to its own repository and that `gh` documents.
"""

import graphlib
import json
import resource
import string
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.proving import examined
from tugtool.errors import Unreadable
from tugtool.plan import conversion, exports, parser, rules

EXPORTS = Path(__file__).parent / "exports"
SOURCES = {
    "backlog": EXPORTS / "backlog",
    "beads": EXPORTS / "issues.jsonl",
    "github": EXPORTS / "issues.json",
    "taskmaster": EXPORTS / "tasks.json",
}
TODAY = "2026-01-01"


def converted(tool: str, *texts: str, **how: bool) -> conversion.Conversion:
    sources = [(f"file-{number}", text) for number, text in enumerate(texts)]
    return conversion.convert(tool, sources, today=TODAY, **how)


def shape(text: str) -> dict[str, tuple[str, list[str]]]:
    """Anchor -> title and dependencies, as the parser reads them."""
    plan = parser.parse(text)
    assert rules.check(plan, "lenient") == []
    return {
        step.anchor: (step.title, [need.anchor for need in step.needs])
        for step in plan.every_step()
    }


def boxes(text: str) -> dict[str, list[tuple[str, bool, str]]]:
    steps = parser.parse(text).every_step()
    return {step.anchor: [(i.kind, i.ticked, i.text) for i in step.items] for step in steps}


def imported(tugcode, repo, tool: str, *words: str) -> dict:
    answer = tugcode(
        "-C", repo.path, "plan", "import", SOURCES[tool], "--from", tool, *words, "--json"
    )
    assert answer.status == 0
    return answer.envelope()


SHELF = {
    "step-1": ("Model of a book", []),
    "step-2": ("Read a shelf from a file", ["step-1"]),
}


def test_backlog_md(repo, tugcode):
    found = imported(tugcode, repo, "backlog")
    text = (repo.path / ".tugtool" / "tugplan-backlog.md").read_text()
    assert shape(text) == {
        **SHELF,
        "step-2-1": ("Parse one line", ["step-1"]),
        "step-2-2": ("Report errors", ["step-2-1"]),
        "step-3": ('Print "the" shelf: # all of it', ["step-1", "step-2"]),
        "step-4": (
            "A very long title that goes on and on past eighty columns, with: a colon, "
            "'quotes' and a # in it, until it ends",
            [],
        ),
    }
    assert boxes(text)["step-1"] == [
        ("task", True, "Model of a book"),
        ("checkpoint", True, "A book has a title"),
        ("checkpoint", True, "`python -m unittest tests/test_model.py` passes"),
    ]
    assert boxes(text)["step-2"][1:] == [
        ("checkpoint", False, "Broken lines are named"),
        ("checkpoint", False, "Reviewed"),
    ]
    assert "\n> ## Fake heading\n" in text
    assert boxes(text)["step-4"] == [("task", False, "a box")]
    said = " ".join(issue["message"] for issue in found["issues"])
    assert "labels, priority, assignee" in said
    assert "TASK-2 (in_progress)" in said
    assert "1 task done there" in said
    assert "`python -m unittest tests/test_model.py` passes" in said
    assert (found["data"]["steps"], found["data"]["substeps"], found["data"]["done"]) == (4, 2, 1)


def test_task_master(repo, tugcode):
    imported(tugcode, repo, "taskmaster", "--name", "shop")
    text = (repo.path / ".tugtool" / "tugplan-shop.md").read_text()
    assert shape(text) == {
        **SHELF,
        "step-2-1": ("Parse one line", []),
        "step-2-2": ("Report errors", ["step-2-1"]),
        "step-3": ("Print the shelf: # all of it", ["step-1", "step-2"]),
    }
    assert boxes(text)["step-2-1"] == [("task", True, "Parse one line")]
    assert "> One line per book\n>\n> Name broken lines.\n" in text


def test_beads(repo, tugcode):
    found = imported(tugcode, repo, "beads", "--dry-run")
    assert shape(found["data"]["text"]) == {
        "step-1": ("A shelf that people can read", ["step-2", "step-3"]),
        "step-2": ("Model of a book", []),
        "step-3": ("Read a shelf from a file", ["step-2"]),
        "step-3-1": ("Parse one line", []),
    }
    assert boxes(found["data"]["text"])["step-2"][1:] == [
        ("checkpoint", True, "a book has a title"),
        ("checkpoint", True, "`python -m unittest tests/test_model.py` passes"),
    ]
    said = " ".join(issue["message"] for issue in found["issues"])
    assert "links of other kinds: discovered-from" in said
    assert "cancelled, or no work: shop-m1" in said
    assert "wait for their tasks: shop-e1" in said


def test_github(repo, tugcode):
    found = imported(tugcode, repo, "github", "--dry-run")
    assert shape(found["data"]["text"]) == {
        "step-1": ("Model of a book", []),
        "step-2": ("Read a shelf from a file", []),
        "step-3": ("An empty shelf ends in a traceback", ["step-1", "step-2"]),
    }
    assert boxes(found["data"]["text"])["step-3"] == [
        ("task", True, "find it"),
        ("task", False, "mend it"),
        ("checkpoint", False, "`python -m unittest` passes"),
        ("checkpoint", False, "no traceback"),
    ]
    assert "dependencies on tasks it does not have: 7 on 99" in str(found["issues"])


def test_only_what_is_open(repo, tugcode):
    text = imported(tugcode, repo, "github", "--dry-run", "--open")["data"]["text"]
    assert shape(text) == {
        "step-1": ("Read a shelf from a file", []),
        "step-2": ("An empty shelf ends in a traceback", ["step-1"]),
    }


def test_a_plan_that_is_imported_can_be_carried_out(repo, tugcode):
    imported(tugcode, repo, "taskmaster")
    at = ("-C", repo.path)
    assert tugcode(*at, "state", "init", "taskmaster").status == 0
    assert tugcode(*at, "claim", "taskmaster", "--json").data["anchor"] == "step-1"


def test_nothing_is_overwritten_and_a_dry_run_writes_nothing(repo, tugcode):
    plan = repo.path / ".tugtool" / "tugplan-github.md"
    imported(tugcode, repo, "github", "--dry-run")
    assert not plan.exists()
    imported(tugcode, repo, "github")
    plan.write_text("mine")
    words = ("plan", "import", "--from", "github", SOURCES["github"])
    assert tugcode("-C", repo.path, *words, "--json").codes == ["E042"]
    assert plan.read_text() == "mine"


@pytest.mark.parametrize(
    ("tool", "content", "message"),
    [
        ("github", "[", "is not JSON"),
        ("github", "[" * 100_000, "is not JSON"),
        ("github", "{}", "has no list of tasks"),
        ("github", "[1]", "has no list of tasks"),
        ("github", "[]", "has no tasks of GitHub"),
        ("github", b"\xff", "is not UTF-8"),
        ("taskmaster", "{}", "has no list of tasks"),
        ("taskmaster", '{"tasks": 3}', "has no list of tasks"),
        ("taskmaster", '{"tasks": [{"subtasks": [3]}]}', "has no list of tasks"),
        ("beads", '{"id": "a"}\n{', "source:2 is not JSON"),
        ("beads", "\n\n", "has no tasks of beads"),
        ("backlog", "no front matter", "has no tasks of Backlog.md"),
    ],
)
def test_what_is_no_export_is_refused_and_nothing_is_written(repo, tugcode, tool, content, message):
    repo.write({"source": content})
    words = ("plan", "import", "--from", tool, repo.path / "source")
    answer = tugcode("-C", repo.path, *words, "--json")
    assert answer.codes == ["E072"]
    assert message in answer.envelope()["issues"][0]["message"]
    assert list(repo.path.glob(".tugtool/tugplan-*")) == []


def test_command_lines_that_make_no_sense(repo, tugcode, tmp_path):
    at = ("-C", repo.path, "--json", "plan", "import")
    issues = SOURCES["github"]
    assert tugcode(*at, issues).codes == ["E070"]
    assert tugcode(*at, issues, "--from", "github", "--name", "../x").codes == ["E070"]
    assert tugcode(*at, "--from", "github", repo.path / "missing").codes == ["E072"]
    assert tugcode(*at, "--from", "github", tmp_path).codes == ["E072"]
    assert tugcode(*at, "--from", "github", issues, "--max-bytes", "9").codes == ["E072"]
    size = issues.stat().st_size
    larger = tugcode(*at, "--from", "github", issues, "--max-bytes", size)
    assert "would make a plan of" in larger.envelope()["issues"][0]["message"]


def test_a_link_among_the_tasks_is_not_followed(repo, tugcode, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("---\nid: TASK-9\ntitle: Secret\n---\nhidden\n")
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "-rf.md").write_text("---\nid: TASK-1\ntitle: Mine\n---\n")
    (tasks / "link.md").symlink_to(secret)
    answer = tugcode("-C", repo.path, "plan", "import", "--from", "backlog", tmp_path, "--dry-run")
    assert "Step 1: Mine" in answer.out
    assert "Secret" not in answer.out


def test_a_directory_that_cannot_be_read_is_refused(tmp_path):
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Root may read any directory, but not with more files than it may open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, open_files[1]))
    try:
        with pytest.raises(Unreadable, match="cannot be read: too many open files"):
            exports.exported("backlog", str(tmp_path), max_bytes=1000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, open_files)


HOSTILE = {
    "id": "a",
    "title": "\x1b[31m## Fake {#step-2} <!-- title\r\n#### Step 7: no",
    "description": (
        "```\nnever closed\n#### Step 8: In a fence {#step-8}\n"
        "~~~\n<!-- open\n**Tasks:**\n**Depends on:** #step-9\n"
        "#### Step 9: Out of it {#step-9}\n- [ ] a {#box} <!-- x\n---\n\x00\u2028\ud800"
    ),
    "acceptance_criteria": "#### Step 10: no\n\n- [ ]\n- [x] ok\n**Commit:** `evil`",
    "dependencies": [{"depends_on_id": "a"}, {"depends_on_id": "b"}, {"depends_on_id": "nobody"}],
}


def test_hostile_text_makes_nothing_but_text():
    other = {"id": "b", "title": "-- ", "dependencies": [{"depends_on_id": "a"}]}
    again = {"id": "a", "title": "<again>", "dependencies": [{"depends_on_id": "b"}]}
    made = converted("beads", "\n".join(map(json.dumps, (HOSTILE, other, again))))
    assert shape(made.text) == {
        "step-1": ("## Fake { #step-2} &lt;!-- title #### Step 7: no", ["step-2"]),
        "step-2": ("(no title)", []),
        "step-3": ("&lt;again>", ["step-2"]),
    }
    assert [kind for kind, _, _ in boxes(made.text)["step-1"]].count("checkpoint") == 3
    assert "\x1b" not in made.text
    assert {line[0] for line in made.text.split("\n") if line} <= set("#*>-|M")
    said = " ".join(made.lost)
    assert "wait for each other: a on a, b on a" in said
    assert "a on nobody" in said
    assert "ids that two tasks have" in said


def test_tasks_that_are_nested_deep_or_in_a_circle_are_steps_or_substeps():
    rows = [{"id": i, "title": f"T{i}", "state": "OPEN", "number": i} for i in range(1, 5)]
    for row, parent in zip(rows, (2, 1, 2, 77), strict=True):
        row["parent"] = {"number": parent}
    made = converted("github", json.dumps(rows))
    assert list(shape(made.text)) == ["step-1", "step-1-1", "step-1-2", "step-2"]
    assert any("one level is kept: 3" in each for each in made.lost)
    assert any("parents" in each and "1, 4" in each for each in made.lost)


@pytest.mark.proof(share=0)
def test_ten_thousand_tasks_in_a_chain_take_no_time_to_speak_of():
    rows = [
        {"number": n, "title": f"T{n}", "body": f"Depends on #{n - 1}", "parent": {"number": n - 1}}
        for n in range(1, 10_001)
    ]
    assert converted("github", json.dumps(rows)).substeps == 9_999
    for row in rows:
        row["parent"] = None
    assert converted("github", json.dumps(rows)).steps == 10_000


def test_front_matter_as_yaml_writers_may_write_it():
    text = (
        "---\nid: 'TASK-1'\ntitle: \"a \\\"b\\\"\"\nlabels: [x, 'y']\n"
        "dependencies: ['TASK-2', TASK-3]\n"
        "note: |\n  two\n\n  lines\n---\nbody\n"
    )
    others = [f"---\nid: TASK-{n}\ntitle: T\ndependencies:\n  - TASK-1\n---\n" for n in (2, 3)]
    made = converted("backlog", text, *others)
    found = shape(made.text)
    assert found["step-1"][0] == 'a "b"'
    assert len([need for _, needs in found.values() for need in needs]) == 2


def test_what_has_an_id_twice_or_a_long_title_is_kept_and_said():
    rows = [{"id": each, "title": f"T {each}"} for each in ("a", "a (2)", "a")]
    rows.append({"id": "long", "title": "x" * (conversion.LONGEST_TITLE + 1)})
    made = converted("beads", "\n".join(map(json.dumps, rows)))
    titles = [title for title, _ in shape(made.text).values()]
    assert titles[:3] == ["T a", "T a (2)", "T a"]
    assert len(titles[3]) <= conversion.LONGEST_TITLE
    said = " ".join(made.lost)
    assert "ids that two tasks have: the second gets another: a" in said
    assert f"ends of titles longer than {conversion.LONGEST_TITLE} characters: long" in said


def test_of_several_tags_master_is_taken_and_the_others_are_said():
    tags = {name: {"tasks": [{"id": 1, "title": name}]} for name in ("next", "master")}
    made = converted("taskmaster", json.dumps({**tags, "empty": {"tasks": []}}))
    assert shape(made.text) == {"step-1": ("master", [])}
    assert [each for each in made.lost if "tags" in each] == ["tags: next"]


words = st.text(max_size=40) | st.sampled_from(
    ["# x", "#### Step 1: y {#step-1}", "```", "~~~", "<!--", "-->", "- [ ] z", "**Tasks:**", "\r"]
)
prose = st.lists(words, max_size=5).map("\n".join)
ids = st.sampled_from(["1", "2", "3", "2.1", "a b", "#1", "", "-x"])
states = st.sampled_from(["open", "CLOSED", "done", "in-progress", "cancelled", "\x1b", ""])


class Row(NamedTuple):
    """A task, as each tool could have it."""

    id: str
    title: str
    text: str
    needs: list[str]
    state: str


def _beads(rows: list[Row]) -> list[str]:
    return ["\n".join(json.dumps(_bead(row)) for row in rows)]


def _bead(row: Row) -> dict:
    links = [{"depends_on_id": need, "type": "blocks"} for need in row.needs]
    known = {"id": row.id, "title": row.title, "description": row.text, "status": row.state}
    return {**known, "acceptance_criteria": row.text, "dependencies": links}


def _taskmaster(rows: list[Row]) -> list[str]:
    tasks = [
        {
            "id": row.id,
            "title": row.title,
            "details": row.text,
            "dependencies": row.needs,
            "status": row.state,
        }
        for row in rows
    ]
    return [json.dumps({"master": {"tasks": tasks}})]


def _github(rows: list[Row]) -> list[str]:
    issues = [
        {
            "number": row.id,
            "title": row.title,
            "body": row.text,
            "state": row.state,
            "blockedBy": {"nodes": [{"number": need} for need in row.needs]},
        }
        for row in rows
    ]
    return [json.dumps(issues)]


def _backlog(rows: list[Row]) -> list[str]:
    return [
        f"---\nid: {json.dumps(row.id)}\ntitle: {json.dumps(row.title)}\n"
        f"status: {json.dumps(row.state)}\n"
        f"dependencies: [{', '.join(map(json.dumps, row.needs))}]\n---\n{row.text}"
        for row in rows
    ]


WRITERS = {"beads": _beads, "taskmaster": _taskmaster, "github": _github, "backlog": _backlog}
some_rows = st.lists(
    st.builds(Row, ids, words, prose, st.lists(ids, max_size=3), states),
    max_size=6,
    unique_by=lambda row: row.id,
)
#: In the YAML that Backlog.md writes, other characters are not escaped as JSON has it.
PLAIN = set(string.printable) - set('\\"\t\r\n\v\f')


def outcome(tool: str, *texts: str, **how: bool) -> conversion.Conversion | None:
    """The plan, or nothing if the export was refused as it should be."""
    try:
        return converted(tool, *texts, **how)
    except Unreadable:
        return None


@examined(150)
@given(st.sampled_from(sorted(WRITERS)), some_rows, st.booleans())
def test_any_tasks_make_a_plan_with_their_titles_and_dependencies(tool, rows, only_open):
    # Numbered, so that each can be told from the others in the plan.
    rows = [row._replace(title=f"T{n} {row.title}") for n, row in enumerate(rows)]
    if tool == "backlog":
        rows = [row._replace(title="".join(filter(PLAIN.__contains__, row.title))) for row in rows]
    done = ("CLOSED", "done") if only_open else ()
    kept = {row.id: row for row in rows if row.state not in ("cancelled", *done)}
    if tool == "backlog":
        kept.pop("", None)
    made = outcome(tool, *WRITERS[tool](rows), only_open=only_open)
    if not kept:
        assert made is None
        return
    found = shape(made.text)
    assert (made.steps, made.substeps) == (len(kept), 0)
    anchors = {title: anchor for anchor, (title, _) in found.items()}
    assert sorted(anchors) == sorted(conversion.title_of(row.title) for row in kept.values())
    home = {id: anchors[conversion.title_of(row.title)] for id, row in kept.items()}
    wanted = {
        home[id]: {home[need] for need in row.needs if need in home} for id, row in kept.items()
    }
    given_needs = {anchor: set(needs) for anchor, (_, needs) in found.items()}
    if any("wait for each other" in each for each in made.lost):
        with pytest.raises(graphlib.CycleError):
            graphlib.TopologicalSorter(wanted).prepare()
        assert all(given_needs[anchor] <= wanted[anchor] for anchor in wanted)
    else:
        assert given_needs == wanted


@examined(150)
@given(st.sampled_from(sorted(WRITERS)), st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_any_text_at_all_is_a_plan_or_a_refusal(tool, text):
    made = outcome(tool, text)
    assert made is None or shape(made.text)


KEYS = (
    *("id", "title", "tasks", "subtasks", "dependencies", "body", "number", "parent", "status"),
    *("priority", "description", "blockedBy", "nodes", "depends_on_id", "type", "issue_type"),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=20,
)


@examined(200)
@given(st.sampled_from(["beads", "taskmaster", "github"]), values)
def test_any_json_at_all_is_a_plan_or_a_refusal(tool, value):
    for document in (value, [value], {"tasks": [value]}, {"master": {"tasks": value}}):
        made = outcome(tool, json.dumps(document))
        assert made is None or shape(made.text)
