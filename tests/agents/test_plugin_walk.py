"""The skills' command lines, each run for real, in the order in which the skills have them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import DATES, Repo
from support import plugin_lint as lint
from support.worktree import IDENTITY

ROOT = Path(__file__).parents[2]

PLAN = """\
# Books

#### Step 1: Shelf {#step-1}

**Tasks:**
- [ ] Make it

**Checkpoint:**
- [ ] `true`

#### Step 2: Door {#step-2}

**Depends on:** #step-1

**Tasks:**
- [ ] Make it

**Checkpoint:**
- [ ] `true`
- [ ] A person opens it on a phone

#### Step 3: Key {#step-3}

**Depends on:** #step-2

**Tasks:**
- [ ] Make it
"""


#: As the skill has it: nothing else is left alone by clients, shells and their checks.
APOSTROPHE = "\N{RIGHT SINGLE QUOTATION MARK}"


#: What a new session learns from the list of worktrees.
KEPT = ("plan", "plan_path", "worktree_path")


class Session:
    """What an orchestrator does that follows a skill to the letter: lines, and what they answer."""

    def __init__(self, skill: str, repo: Repo, **values: object) -> None:
        self.text = (ROOT / "tugplug" / "skills" / skill / "SKILL.md").read_text()
        self.repo, self.values = repo, values
        self.lines = lint.blocks(self.text)
        self.run_lines: set[str] = set()

    def line(self, *parts: str) -> str:
        """The first line of the skill with these parts in it."""
        return next(line for line in self.lines if all(part in line for part in parts))

    def do(self, *parts: str, **values: object) -> dict:
        """Run it; the data of its answer."""
        line = self.line(*parts)
        self.run_lines.add(line)
        return self.type(line, **values)

    def type(self, line: str, **values: object) -> dict:
        """Run any line of ours; the data of its answer."""
        answer = json.loads(self.print(line, **values))
        assert answer["status"] == "ok"
        return answer["data"]

    def print(self, line: str, **values: object) -> str:
        """Run any line with the values in it, as the shell of a client does; what it prints."""
        for name, value in {**self.values, **values}.items():
            text = value if isinstance(value, str) else json.dumps(value)
            line = line.replace(f"{{{name}}}", text.replace("'", APOSTROPHE))
        assert not re.search(r"\{[a-z_]+\}", line), line
        bin_ = os.path.dirname(sys.executable)
        env = {**os.environ, **DATES, **IDENTITY, "PATH": f"{bin_}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.repo.path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def left(self) -> set[str]:
        """Lines that were never run."""
        return set(self.lines) - self.run_lines


@pytest.fixture
def books(repo):
    repo.plan("books", PLAN)
    repo.commit()
    return repo


def begin(session: Session) -> str:
    """Section 2: claim, sync, start, show; the step."""
    claim = session.do("state claim {plan_path} --worktree {worktree_path} --json")
    session.values |= {"step_anchor": claim["step_anchor"], "attempt": claim["attempt"]}
    session.do("worktree sync {plan_path} --worktree")
    session.do("state start")
    shown = session.do("state show {plan_path} --step")
    assert {item["step_anchor"] for item in shown["checklist_items"]} == {claim["step_anchor"]}
    return claim["step_anchor"]


def work(session: Session) -> None:
    """Sections 3 to 5, for agents that say something with quotes in it."""
    strategy = {"approach": 'don\'t "guess"', "risks": ["a\nb"]}
    said = session.do("architect_strategy", answer=strategy, approach=strategy["approach"])
    assert said["recorded"]
    session.do("state heartbeat")
    step = str(session.values["step_anchor"])
    (Path(str(session.values["worktree_path"])) / step).write_text("x\n")
    verdict = {"recommendation": "APPROVE", "summary": "it's good"}
    session.do("reviewer_verdict", answer=verdict, **verdict)
    session.do("state heartbeat")
    assert session.do("state verify")["failed"] == 0


@pytest.mark.proof(share=0)
def test_the_implement_skill_carries_a_plan_out_line_by_line(books):
    session = Session("implement", books, plan="books", message="feat: it's done", summary="it is")
    assert session.do("worktree list")["worktrees"] == []
    made = session.do("worktree create {plan}")
    session.values |= {key: made[key] for key in ("worktree_path", "plan_path")}
    # A step whose every checkpoint passed.
    assert begin(session) == "step-1"
    work(session)
    session.do("echo '[]'")
    done = session.do("tugcode commit")
    assert (done["state_update_failed"], done["plan_completed"]) == (False, False)
    # One of whose checkpoints was left to a person.
    assert begin(session) == "step-2"
    work(session)
    session.do("<<<", "deferred")
    put_the_plan_back(session, made["base_branch"])
    # A session that is given up, and another that takes its place.
    assert begin(session) == "step-3"
    session.do("--kind escalation", reason="the reviewer asks for a person")
    assert session.do("release", "--attempt {attempt}", "step_anchor} --worktree")["released"]
    assert begin(session) == "step-3"
    assert session.values["attempt"] == 2
    parked = session.do("release", "--park", reason="it's late")
    assert parked["parked"]
    session.type("tugcode state reset {plan_path} {step_anchor} --json")
    assert begin(session) == "step-3"
    work(session)
    # The state cannot follow the commit, and is brought after it.
    failed = session.do("tugcode commit")
    assert failed["state_failure_reason"] == "open_items"
    session.values |= {"commit_hash": failed["commit_hash"], "n": 1}
    assert open_items(session) == ["step-3"]
    session.do("echo '[]'")
    assert open_items(session) == []
    assert session.do("state complete")["plan_completed"]
    session.do("--kind recovery")
    # Nothing is left, also for those who would wait.
    assert session.do("--wait 540")["reason"] == "all_completed"
    assert session.do("worktree sync", "--all")["up_to_date"]
    audit = {"recommendation": "APPROVE", "summary": "all well"}
    session.do("auditor_summary", answer=audit, **audit)
    assert session.left() == set()
    check_record(session)


def put_the_plan_back(session: Session, base: str) -> None:
    """Drift: an agent has edited the plan, and it was committed with the work."""
    copy = Path(str(session.values["worktree_path"])) / str(session.values["plan_path"])
    copy.write_text(PLAN.replace("on a phone", "in a browser"))
    failed = session.do("tugcode commit")
    assert (failed["completed"], failed["state_failure_reason"]) == (False, "drift")
    assert "+- [ ] A person opens it in a browser" in session.do("state diff")["diff"]
    section = session.text.split("\n### Drift\n")[1].split("\n## ")[0]
    restore, record = re.findall(r"`(git -C [^`]*)`", section)
    session.print(restore, base_branch=base)
    assert not session.do("state diff")["changed"]
    session.print(record)
    done = session.do("tugcode commit")
    assert (done["completed"], done["commit_hash"]) == (True, failed["commit_hash"])
    assert session.print("git -C {worktree_path} status --short") == ""


def open_items(session: Session) -> list[str]:
    """What step 1 of the recovery loop finds."""
    line = next(
        line
        for line in lint.command_lines(session.text)
        if line == "tugcode state show {plan_path} --json"
    )
    items = session.type(line)["checklist_items"]
    return [item["step_anchor"] for item in items if item["status"] in ("open", "in_progress")]


def check_record(session: Session) -> None:
    shown = session.type("tugcode state show {plan_path} --full --json")
    assert shown["status"] == "done"
    notes = {step["anchor"]: step["artifacts"] for step in shown["steps"]}
    kinds = [note["kind"] for note in notes["step-3"]]
    assert {"escalation", "recovery", "auditor_summary"} <= set(kinds)
    strategy = next(note for note in notes["step-1"] if note["kind"] == "architect_strategy")
    assert json.loads(strategy["content"])["approach"] == f'don{APOSTROPHE}t "guess"'
    deferred = [item for item in shown["checklist_items"] if item["status"] == "deferred"]
    assert [(item["step_anchor"], item["ordinal"]) for item in deferred] == [("step-2", 1)]
    assert not any(step["complete_reason"] for step in shown["steps"])


@pytest.mark.proof(share=0)
def test_an_interrupted_session_is_taken_up_where_it_was(books):
    first = Session("implement", books, plan="books")
    made = first.do("worktree create {plan}")
    first.values |= {key: made[key] for key in ("worktree_path", "plan_path")}
    begin(first)
    first.do("architect_strategy", answer={"approach": "so"}, approach="so")
    # The next one finds the claim in the list, and is that worktree again.
    second = Session("implement", books, plan="books", plan_path=made["plan_path"])
    [held] = second.do("worktree list")["worktrees"]
    assert (held["held_steps"][0]["lease"], held["worktree_path"]) == (
        "live",
        made["worktree_path"],
    )
    second.values["worktree_path"] = held["worktree_path"]
    claim = second.do("state claim {plan_path} --worktree {worktree_path} --json")
    assert (claim["reclaimed"], claim["attempt"]) == (True, 2)
    assert [note["kind"] for note in claim["previous_attempt"]["artifacts"]] == [
        "architect_strategy"
    ]


@pytest.mark.proof(share=0)
def test_a_session_that_died_between_commit_and_state_leaves_no_second_commit(books):
    first = Session("implement", books, plan="books", message="m", summary="s")
    made = first.do("worktree create {plan}")
    first.values |= {key: made[key] for key in ("worktree_path", "plan_path")}
    begin(first)
    work(first)
    assert first.do("tugcode commit")["state_update_failed"]
    second = Session("implement", books, n=1, **{key: first.values[key] for key in KEPT})
    begin(second)
    # The commit is told by its trailer.
    look = re.search(r"`(git -C \{worktree_path\} log [^`]*)`", second.text)[1]
    hash, *words = second.print(look).splitlines()
    assert "Tug-Step: step-1" in words
    second.values["commit_hash"] = hash
    second.do("echo '[]'")
    assert open_items(second) == ["step-2", "step-2", "step-2", "step-3"]
    assert second.do("state complete")["commit_hash"] == hash
    second.do("--kind recovery")
    assert books.git("rev-list", "--count", f"main..{made['branch_name']}") == "1\n"


@pytest.fixture
def done(books):
    """The plan, carried out."""
    session = Session("implement", books, plan="books", message="m", summary="s")
    made = session.do("worktree create {plan}")
    session.values |= {key: made[key] for key in ("worktree_path", "plan_path")}
    for _ in range(3):
        begin(session)
        session.do("state verify")
        session.do("echo '[]'")
        session.do("tugcode commit")
    return books


@pytest.mark.proof(share=0)
def test_the_merge_skill_s_lines_merge(done):
    session = Session("merge", done, plan="books")
    session.do("state review")
    assert session.do("--dry-run")["dry_run"]
    assert session.do("merge {plan} --json")["merged"]
    session.do("worktree cleanup")
    assert session.do("worktree list")["worktrees"] == []
    assert session.left() == set()


@pytest.mark.proof(share=0)
def test_what_the_merge_skill_goes_by_is_in_the_refusals(done, tugcode):
    told = []

    def refused() -> None:
        answer = tugcode("-C", done.path, "merge", "books", "--json")
        assert answer.codes == ["E062"]
        told.append(set(answer.envelope()["issues"][0]["facts"]) - {"plan"})

    tugcode("-C", done.path, "state", "reopen", "books", "step-3", "--reason", "x")
    refused()
    session = Session("implement", done, plan="books", message="m", summary="s")
    made = session.do("worktree create {plan}")
    session.values |= {key: made[key] for key in ("worktree_path", "plan_path")}
    begin(session)
    session.do("echo '[]'")
    session.do("tugcode commit")
    done.write({"file": "changed\n"})
    refused()
    done.git("checkout", "--quiet", "--", "file")
    assert Session("merge", done, plan="books").do("merge {plan} --json")["merged"]
    refused()
    assert told == [{"steps"}, {"files"}, {"merged_commit"}]
    table = re.findall(r"^\| `(\w+)`", Session("merge", done).text, re.MULTILINE)
    assert {"steps", "files", "merged_commit"} <= set(table)


@pytest.mark.proof(share=0)
def test_the_dash_skill_s_lines_make_rounds_and_end(repo):
    session = Session("dash", repo, name="fix-typo", description="Fix a typo")
    assert session.do("dash list")["dashes"] == []
    made = session.do("dash create")
    (Path(made["worktree_path"]) / "fixed").write_text("x\n")
    session.values |= {"message": "Fix it", "instruction": "fix it, don't ask", "summary": "done"}
    assert session.do("dash commit")["committed"]
    assert session.do("dash join")["joined"]
    session.do("dash create", name="other")
    assert session.do("dash release", name="other")["branch_removed"]
    assert session.left() == set()


def test_the_plan_skill_s_lines_look_at_a_plan(books):
    session = Session("plan", books)
    session.do("init")
    [plan] = session.do("list")["plans"]
    session.values["plan_path"] = plan["plan_path"]
    session.type(session.line("validate").replace("strict", "lenient"))
    session.run_lines.add(session.line("validate"))
    session.do("plan graph")
    assert session.left() == set()
