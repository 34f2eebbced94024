"""validate, list, plan new, plan show, plan graph: what they print, for people and programs."""

import json
import os
from pathlib import Path

import pytest

SAMPLE = (Path(__file__).parents[2] / "examples" / "tugplan-bookshelf.md").read_text()

CYCLE = """# Round and round
### Step 1: One {#step-1}
**Depends on:** #step-3
### Step 2: Two {#step-2}
**Depends on:** #step-1
### Step 3: Three {#step-3}
**Depends on:** #step-2
"""


def test_a_sound_plan_is_ok_at_every_level(tugcode, repo):
    repo.plan("bookshelf", SAMPLE)
    for level in ("lenient", "normal", "strict"):
        result = tugcode("-C", repo.path, "validate", "--level", level)
        assert result.status == 0
        assert result.out == "bookshelf  ok · 8 steps\nNext: tugcode plan graph bookshelf\n"


def test_a_cycle_is_reported_with_its_path_and_lines(tugcode, repo):
    repo.plan("round", CYCLE)
    text = tugcode("-C", repo.path, "validate", "round", "--level", "lenient")
    path = "step-1 (line 2) -> step-3 (line 6) -> step-2 (line 4) -> step-1 (line 2)"
    assert text.status == 1
    assert f".tugtool/tugplan-round.md:2: error E011: these steps wait for each other: {path}" in (
        text.out
    )

    answer = tugcode("-C", repo.path, "validate", "round", "--level", "lenient", "--json")
    assert answer.codes == ["E011"]
    assert answer.envelope()["status"] == "error"
    assert answer.data["plans"][0]["valid"] is False
    assert path in answer.envelope()["issues"][0]["message"]


def test_an_unknown_dependency_names_the_closest_anchors(tugcode, repo):
    text = "### Step 1: A {#step-alpha}\n### Step 2: B {#step-2}\n**Depends on:** #step-alhpa\n"
    repo.plan("typo", text)
    issue = tugcode("-C", repo.path, "validate", "--level=lenient", "--json").envelope()["issues"][
        0
    ]
    assert (issue["code"], issue["line"], issue["anchor"]) == ("E010", 3, "step-2")
    assert issue["hint"].startswith("closest: #step-alpha")


def test_validate_says_that_a_plan_with_errors_can_be_carried_out(repo, tugcode):
    said = "It can be carried out as it is (tugcode validate work --level lenient)"
    steps = "# Work\n\n## Execution\n\n### Step 1: Do {#step-1}\n\n**Tasks:**\n- [ ] a\n"
    repo.plan("work", steps)
    done = tugcode("-C", repo.path, "validate", "work")
    assert (done.status, " error " in done.out) == (1, True)
    assert said in " ".join(done.out.split())
    assert tugcode("-C", repo.path, "validate", "work", "--level", "lenient").status == 0
    repo.plan("work", steps.replace("**Tasks", "**Depends on:** #step-9\n\n**Tasks"))
    done = tugcode("-C", repo.path, "validate", "work")
    assert (done.status, "carried out" in done.out) == (1, False)


def test_a_duplicate_anchor_names_both_lines(tugcode, repo):
    repo.plan("twice", "### Step 1: A {#step-1}\n\n### Step 2: B {#step-1}\n")
    issue = tugcode("-C", repo.path, "validate", "--level=lenient", "--json").envelope()["issues"][
        0
    ]
    assert issue["code"] == "E006"
    assert "line 1 and again on line 3" in issue["message"]


def test_strict_makes_warnings_errors(tugcode, repo):
    repo.plan("sample", SAMPLE.replace("**Commit:** `feat: find books by words`\n", ""))
    assert tugcode("-C", repo.path, "validate").status == 0
    strict = tugcode("-C", repo.path, "validate", "--level", "strict", "--json")
    assert strict.status == 1
    assert strict.codes == ["W009"]
    assert strict.envelope()["issues"][0]["severity"] == "error"


def test_no_plan_is_no_error(tugcode, repo):
    assert "tugcode plan new" in tugcode("-C", repo.path, "validate").out
    assert "tugcode plan new" in tugcode("-C", repo.path, "list").out


def test_one_bad_file_does_not_hide_the_others(tugcode, repo):
    repo.plan("bookshelf", SAMPLE)
    repo.write({".tugtool/tugplan-binary.md": b"# x\n\xff\n"})
    listed = tugcode("-C", repo.path, "list", "--json")
    assert listed.status == 0
    assert listed.codes == ["E072"]
    binary, bookshelf = listed.data["plans"]
    assert binary["counts"] is None
    assert "is not UTF-8" in binary["error"]
    assert bookshelf["counts"]["steps"] == 8

    judged = tugcode("-C", repo.path, "validate", "--json")
    assert judged.status == 1
    assert [plan["valid"] for plan in judged.data["plans"]] == [False, True]
    assert judged.envelope()["issues"][0]["line"] == 2


@pytest.mark.parametrize("command", [["validate"], ["plan", "show"], ["plan", "graph"]])
@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lambda path: path.write_bytes(b"\xff\xfe#\0"), "E072", "is not UTF-8"),
        (lambda path: path.mkdir(), "E072", "is a directory"),
        (lambda path: os.mkfifo(path), "E072", "is a FIFO"),
        (lambda path: path.symlink_to("/etc/hostname"), "E073", "is outside the repository"),
        (lambda path: path.write_bytes(b" \n"), "E072", "is empty"),
        (lambda path: None, "E041", "no plan is called"),
        (lambda path: path.write_bytes(b"x" * 101), "E072", "the limit is 100"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_with_its_code(tugcode, repo, command, make, code, says):
    make(repo.path / "odd.md")
    words = ["-C", repo.path, *command, "odd.md", "--max-bytes", "100"]
    answer = tugcode(*words, "--json")
    if command == ["validate"] and says == "is empty":
        code, says = "E013", "has no steps"
    assert answer.status == 1
    assert code in answer.codes
    text = tugcode(*words)
    assert text.status == 1
    assert says in text.out + text.err


def test_a_file_over_the_limit_names_the_limit_and_the_flag(tugcode, repo):
    path = repo.plan("big", SAMPLE)
    os.truncate(path, 8388609)
    refused = tugcode("-C", repo.path, "plan", "show", "big", "--json").envelope()["issues"][0]
    assert refused["code"] == "E072"
    assert refused["facts"] == {"size_bytes": 8388609, "limit_bytes": 8388608}
    assert "--max-bytes" in refused["hint"]
    assert tugcode("-C", repo.path, "plan", "show", "big", "--max-bytes", "8388609").status == 0
    repo.write({".tugtool/config.toml": "[plan]\nmax_bytes = 8388609\n"})
    assert tugcode("-C", repo.path, "plan", "show", "big").status == 0


def test_list_shows_every_plan_on_one_line(tugcode, repo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    repo.plan("bookshelf", SAMPLE)
    repo.plan("long", "# " + "very long title " * 40)
    lines = tugcode("-C", repo.path, "list").out.splitlines()
    assert lines[1] == "bookshelf  active      8     30  A bookshelf for the…"
    assert len(lines) == 3
    assert all(len(line) <= 60 for line in lines)


def test_list_shows_the_state_of_a_plan_from_its_first_claim_to_the_merge(tugcode, yard):
    yard = yard("1 t")
    yard.repo.plan("idea", "# An idea\n\n### Step 1: Think\n")

    def listed() -> tuple[str | None, str | None, str]:
        idea, work = yard.ok("list")["plans"]
        row = tugcode("-C", yard.root, "list").out.splitlines()[2].split()
        assert row[0] == "work"
        return idea["state"], work["state"], row[1]

    assert listed() == (None, None, "-")
    tree = yard.create()
    assert listed() == (None, "active", "active")
    yard.ok("state", "pause", "work")
    assert listed() == (None, "paused", "paused")
    yard.ok("state", "resume", "work")
    yard.do(tree, "step-1", {"new.txt": "new\n"})
    assert listed() == (None, "done", "done")
    yard.ok("merge", "work")
    assert listed() == (None, "merged", "merged")
    yard.ok("state", "archive", "work")
    assert listed() == (None, "archived", "archived")


def test_list_shows_plans_also_if_their_state_cannot_be_read(tugcode, yard):
    yard = yard("1 t")
    yard.create()
    for path in (yard.root / ".tugtool").glob("state.db*"):
        path.write_bytes(b"no database" * 999)
    listed = yard.run("list")
    assert (listed.status, listed.codes) == (0, ["E046"])
    assert [plan["state"] for plan in listed.data["plans"]] == [None]
    text = tugcode("-C", yard.root, "list")
    assert "work" in text.out
    assert "tugcode: E046: " in text.err


def test_plan_show_tells_everything_with_its_line(tugcode, repo):
    repo.plan("bookshelf", SAMPLE)
    data = tugcode("-C", repo.path, "plan", "show", "--json").data
    assert data["title"] == "A bookshelf for the terminal"
    assert data["counts"] == {
        "steps": 8,
        "substeps": 2,
        "task": 12,
        "test": 8,
        "checkpoint": 10,
        "dependencies": 12,
    }
    lines = SAMPLE.splitlines()
    for step in data["steps"]:
        for each in (step, *step["substeps"]):
            assert each["title"] in lines[each["line"] - 1]
            assert all(need["anchor"] in lines[need["line"] - 1] for need in each["needs"])
            assert all(item["text"] in lines[item["line"] - 1] for item in each["items"])
    assert data["steps"][7]["verification_only"] is True
    assert [d["line"] for d in data["decisions"]] == [35, 41]

    items = [item for step in data["steps"] for item in step["items"]]
    assert {item["checkpoint_kind"] for item in items if item["kind"] != "checkpoint"} == {None}
    assert "command" in {item["checkpoint_kind"] for item in items}

    text = tugcode("-C", repo.path, "plan", "show").out
    assert "checkpoint 0 (command): `" in text
    assert "2.1  Write atomically" in text
    assert "after 5, 6, 7 · verification only" in text


def test_plan_show_of_one_step_has_its_full_texts(tugcode, repo):
    repo.plan("bookshelf", SAMPLE)
    text = tugcode("-C", repo.path, "plan", "show", "bookshelf", "--step", "#step-2").out
    assert "Commit: `feat: load and save the shelf`" in text
    assert "2.2  Refuse what is not ours" in text
    data = tugcode("-C", repo.path, "plan", "show", "--step", "step-2-1", "--json").data
    assert [step["anchor"] for step in data["steps"]] == ["step-2-1"]
    unknown = tugcode("-C", repo.path, "plan", "show", "--step", "stpe-3", "--json")
    assert unknown.codes == ["E059"]
    assert "step-3" in unknown.envelope()["issues"][0]["facts"]["close"]


def test_the_only_plan_need_not_be_named(tugcode, repo):
    assert tugcode("-C", repo.path, "plan", "graph", "--json").codes == ["E041"]
    repo.plan("bookshelf", SAMPLE)
    assert tugcode("-C", repo.path, "plan", "graph").status == 0
    repo.plan("other", SAMPLE)
    assert tugcode("-C", repo.path, "plan", "graph", "--json").codes == ["E040"]


def test_plan_graph_shows_waves_and_critical_path(tugcode, repo):
    repo.plan("bookshelf", SAMPLE)
    data = tugcode("-C", repo.path, "plan", "graph", "--json").data
    assert data["waves"] == [
        ["step-1"],
        ["step-2", "step-3", "step-4"],
        ["step-5", "step-7"],
        ["step-6"],
        ["step-8"],
    ]
    assert data["widest_wave"] == {"wave": 2, "steps": 3}
    assert data["critical_path"][0] == "step-1"
    assert len(data["critical_path"]) == 5
    text = tugcode("-C", repo.path, "plan", "graph").out
    assert text.startswith("bookshelf  8 steps in 5 waves · at most 3 at once, in wave 2")
    assert "    7  Import the spreadsheet  " in text


def test_plan_graph_speaks_json_mermaid_and_dot(tugcode, repo):
    repo.plan("bookshelf", SAMPLE.replace("Find by words", 'Find "by" <b>words</b> \\ |'))
    data = tugcode("-C", repo.path, "plan", "graph", "--json").data
    assert json.loads(tugcode("-C", repo.path, "plan", "graph", "--format", "json").out) == data

    mermaid = tugcode("-C", repo.path, "plan", "graph", "--format", "mermaid").out
    assert mermaid.startswith("flowchart TD\n")
    assert '["step-3: Find #34;by#34; #60;b#62;words#60;/b#62; #92; #124;"]' in mermaid
    assert mermaid.count(" --> ") == 11

    dot = tugcode("-C", repo.path, "plan", "graph", "--format", "dot").out
    assert dot.startswith("digraph plan {\n")
    assert 'label="step-3: Find \\"by\\" <b>words</b> \\\\ |"' in dot
    assert dot.count(" -> ") == 11
    both = tugcode("-C", repo.path, "plan", "graph", "--format", "dot", "--json").data
    assert both["diagram"] == dot


def test_plan_graph_refuses_what_cannot_be_carried_out(tugcode, repo):
    repo.plan("round", CYCLE)
    assert tugcode("-C", repo.path, "plan", "graph", "--json").codes == ["E011", "E043"]
    text = tugcode("-C", repo.path, "plan", "graph")
    assert (text.status, text.out) == (1, "")
    assert "error E011" in text.err
    assert (
        "tugcode: E043: .tugtool/tugplan-round.md has errors and cannot be carried out" in text.err
    )


def test_a_new_plan_is_sound_once_its_placeholders_are_filled(tugcode, repo):
    created = tugcode("-C", repo.path, "plan", "new", "login", "--title", "Log in", "--json").data
    assert created["plan_path"] == ".tugtool/tugplan-login.md"
    path = Path(created["file"])
    fresh = tugcode("-C", repo.path, "validate", "login", "--json")
    assert set(fresh.codes) == {"W006"}
    assert "## Log in {#login}" in path.read_text()

    import re

    path.write_text(re.sub(r"<(?!!)[^<>]*>", "something", path.read_text()))
    assert tugcode("-C", repo.path, "validate", "login", "--level", "strict").status == 0


def test_a_new_plan_uses_the_repository_s_own_skeleton(tugcode, repo):
    repo.write({".tugtool/tugplan-skeleton.md": "# <plan title> of <plan-slug>\n"})
    tugcode("-C", repo.path, "plan", "new", "mine", "--title", "A plan")
    assert (repo.path / ".tugtool/tugplan-mine.md").read_text() == "# A plan of mine\n"


def test_a_new_plan_lands_in_the_caller_s_worktree(tugcode, repo, tmp_path):
    side = repo.linked(tmp_path / "side")
    tugcode("-C", side, "plan", "new", "here")
    assert (side / ".tugtool/tugplan-here.md").exists()
    assert not (repo.path / ".tugtool").exists()


def test_a_new_plan_never_overwrites(tugcode, repo):
    path = repo.plan("mine", "precious\n")
    again = tugcode("-C", repo.path, "plan", "new", "mine", "--json")
    assert (again.status, again.codes) == (1, ["E042"])
    assert path.read_text() == "precious\n"


@pytest.mark.parametrize(
    "slug", ["", "../x", "a/b", "A", "a b", "a--b", "-a", "a-", "skeleton", "x" * 65, "é", "a\nb"]
)
def test_a_slug_that_would_make_an_odd_file_name_is_refused(tugcode, repo, slug):
    refused = tugcode("-C", repo.path, "--json", "plan", "new", "--", slug)
    assert (refused.status, refused.codes) == (2, ["E070"])
    assert not (repo.path / ".tugtool").exists()


def test_a_link_out_of_the_repository_is_not_followed_by_a_listing(tugcode, repo, tmp_path):
    (tmp_path / "secret.md").write_text("# Secret\n### Step 1: x\n")
    (repo.path / ".tugtool").mkdir()
    (repo.path / ".tugtool/tugplan-link.md").symlink_to(tmp_path / "secret.md")
    for command in ("list", "validate"):
        answer = tugcode("-C", repo.path, command, "--json")
        assert answer.codes == ["E073"]
        assert "Secret" not in answer.out + tugcode("-C", repo.path, command).out


def test_findings_beyond_the_first_thousand_are_counted_and_not_listed(tugcode, repo):
    repo.plan("wrong", "### Step 1: x {#step-1}\n" * 1500)
    answer = tugcode("-C", repo.path, "validate", "--level", "lenient", "--json")
    assert len(answer.codes) == 1000
    assert answer.data["plans"][0]["errors"] == 1499
    assert answer.data["plans"][0]["left_out"] == 499
    text = tugcode("-C", repo.path, "validate", "--level", "lenient").out
    assert "1499 errors · 499 of them not listed" in text


def test_a_step_is_shown_whole_however_long_its_texts(tugcode, repo):
    repo.plan("long", f"### Step 1: x\n- [ ] {'word ' * 50_000}end\n")
    assert "word end\n" in tugcode("-C", repo.path, "plan", "show", "--step", "step-1").out


def test_nothing_is_cut_for_a_pipe(tugcode, repo):
    needs = ", ".join(f"#step-{n}" for n in range(1, 40))
    steps = "".join(f"### Step {n}: {'a long title ' * 8}{n}\n" for n in range(1, 40))
    repo.plan("wide", f"{steps}### Step 40: last\n**Depends on:** {needs}\n")
    assert ", 38, 39\n" in tugcode("-C", repo.path, "plan", "graph").out
    assert "…" not in tugcode("-C", repo.path, "plan", "show").out


@pytest.mark.parametrize("title", ["", "  ", "C {#x}", "a\nb", "a\x1b[31m", "x" * 201])
def test_a_title_that_is_not_one_line_of_text_is_refused(tugcode, repo, title):
    refused = tugcode("-C", repo.path, "plan", "new", "mine", f"--title={title}")
    assert refused.status == 2
    assert not (repo.path / ".tugtool").exists()


def test_a_plan_directory_that_leads_out_of_the_repository_is_refused(tugcode, repo, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo.path / ".tugtool").symlink_to(outside)
    assert tugcode("-C", repo.path, "--json", "plan", "new", "mine").codes == ["E073"]
    assert tugcode("-C", repo.path, "--json", "init").codes == ["E073"]
    assert list(outside.iterdir()) == []
