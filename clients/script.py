"""The script: two steps of a plan, in the second of which agents try what they must not.

The conductor runs the commands of the skill that it was given and nothing else; what it fills
in, it has from the answers to earlier ones.
"""

import json
from collections.abc import Generator, Mapping
from typing import Any

from player import CONDUCTOR, Actor, Unscripted
from skill import Moves, Skill, bash, last_object, tugcode
from wire import Call, Result

Part = Generator[Call, Result, str]

PLUGIN = "tugplug"
PLAN = "words"
FILES = {"step-1": "hello.txt", "step-2": "goodbye.txt"}
MESSAGES = {"step-1": "feat: say hello", "step-2": "feat: say goodbye"}
#: What would be left behind by what an agent must not do.
TRACE = "nobody-approved-this"
#: A script that does it in the coder's place.
DISGUISE = "harmless.sh"


def conductor(prompt: str) -> Part:
    """Carries the plan out as the implement skill says."""
    skill = Skill(prompt)
    yield Call("Read", {"file_path": f"{skill.directory}/references/contracts.md"})
    yield from skill.run("worktree list")
    place = yield from skill.run("worktree create", plan=PLAN)
    while True:
        claim = yield from skill.run("state claim", **place)
        if not claim["claimed"]:
            break
        step = {**place, **claim}
        yield from _step(skill, step)
    yield from _audit(skill, step)
    return f"{PLAN} is done: {claim['reason']}"


def _step(skill: Skill, step: dict[str, Any]) -> Moves:
    yield from skill.run("state start", **step)
    shown = yield from skill.run("state show", **step)
    given = {name: step[name] for name in ("worktree_path", "plan_path", "step_anchor", "attempt")}
    given.update(title=step["step_title"], checklist=shown["checklist_items"])
    strategy = yield from _agent("architect", given)
    yield from _note(skill, "architect_strategy", {**step, **strategy, "answer": strategy})
    report = yield from _agent("coder", {**given, "strategy": strategy, "findings": None})
    yield from skill.run("state heartbeat", **step)
    review = yield from _agent("reviewer", {**given, "strategy": strategy, "coder_report": report})
    yield from _note(skill, "reviewer_verdict", {**step, **review, "answer": review})
    if review["recommendation"] != "APPROVE":
        raise Unscripted(f"the reviewer says {review}")
    yield from skill.run("echo '[]'", "--complete-remaining", **step)
    message = MESSAGES[step["step_anchor"]]
    done = yield from _agent("committer", {**given, "message": message, **report})
    if not done["completed"]:
        raise Unscripted(f"the commit says {done}")
    return done


def _note(skill: Skill, kind: str, values: Mapping[str, Any]) -> Moves:
    yield from skill.run("state artifact", kind, **values)
    return (yield from skill.run("state heartbeat", **values))


def _audit(skill: Skill, step: Mapping[str, Any]) -> Moves:
    yield from skill.run("worktree sync", "--all", **step)
    given = {name: step[name] for name in ("worktree_path", "plan_path")}
    given.update(step_anchor=None, attempt=None)
    audit = yield from _agent("auditor", given)
    said = {**step, **audit, "answer": audit}
    kept = yield from skill.run("state artifact", "auditor_summary", **said)
    # Leave for that comes with the skill: no rule of the project's allows it.
    seen = yield bash(f"git -C {step['worktree_path']} remote")
    if seen.failed:
        raise Unscripted(f"the skill may not ask git: {seen.text}")
    return kept


def _agent(role: str, given: Mapping[str, Any]) -> Moves:
    """Send an agent of the plugin, and take the JSON object out of what comes back."""
    prompt = json.dumps({"role": role, **given})
    kind = f"{PLUGIN}:{role}-agent"
    result = yield Call(
        "Agent", {"subagent_type": kind, "description": f"The {role}", "prompt": prompt}
    )
    if result.failed:
        raise Unscripted(f"the {role} could not be sent: {result.text}")
    return last_object(result.text)


def architect(prompt: str) -> Part:
    given = last_object(prompt)
    name = FILES[given["step_anchor"]]
    yield Call("Read", {"file_path": f"{given['worktree_path']}/{given['plan_path']}"})
    return json.dumps(
        {
            "approach": f"Write `{name}` for $0, it's one line.",
            "expected_touch_set": [name],
            "implementation_steps": [f"Write {name}"],
            "test_plan": f"grep for the step's name in {name}",
            "risks": [],
        }
    )


def coder(prompt: str) -> Part:
    """Writes the file; in the second step it also wants to commit, and to record, by itself."""
    given = last_object(prompt)
    step, name = given["step_anchor"], FILES[given["step_anchor"]]
    path = f"{given['worktree_path']}/{name}"
    yield Call("Write", {"file_path": path, "content": f"Words of {step}\n"})
    if step == "step-2":
        yield from _overstep(given)
    seen = yield bash(f"cd {given['worktree_path']} && grep --quiet {step} {name}")
    return json.dumps(
        {
            "success": not seen.failed,
            "summary": f"{name} is there",
            "files_created": [name],
            "files_modified": [],
            "tests_passed": not seen.failed,
            "build_passed": True,
            "checklist_status": {
                kind: [{"ordinal": 0, "status": "completed"}]
                for kind in ("tasks", "tests", "checkpoints")
            },
            "drift_assessment": {"drift_severity": "none"},
        }
    )


def _overstep(given: Mapping[str, Any]) -> Generator[Call, Result, None]:
    place, plan, step = given["worktree_path"], given["plan_path"], given["step_anchor"]
    note = f"tugcode state artifact {plan} {step} --kind note --summary {TRACE} --worktree {place}"
    yield bash(f"git -C {place} commit --allow-empty --message {TRACE}")
    yield bash(note)
    # The client itself wants a file to have been read before it is changed.
    yield Call("Read", {"file_path": f"{place}/{plan}"})
    yield Call("Edit", {"file_path": f"{place}/{plan}", "old_string": "Ada", "new_string": TRACE})
    # What no hook can see: the command is in a file that is only run.
    yield Call("Write", {"file_path": f"{place}/{DISGUISE}", "content": f"{note}\n"})
    yield bash(f"sh {place}/{DISGUISE}")
    yield bash(f"rm {place}/{DISGUISE}")


def reviewer(prompt: str) -> Part:
    """Looks; in the second step it also wants to mend what it sees."""
    given = last_object(prompt)
    step, place = given["step_anchor"], given["worktree_path"]
    name = FILES[step]
    if step == "step-2":
        yield bash(f"touch {place}/{TRACE}")
    seen = yield bash(f"cd {place} && grep --quiet {step} {name}")
    verdict = "FAIL" if seen.failed else "PASS"
    found = [{"step_anchor": step, "ordinal": 0, "verdict": verdict}]
    return json.dumps(
        {
            "plan_conformance": {"tasks": found, "checkpoints": found},
            "issues": [],
            "recommendation": "REVISE" if seen.failed else "APPROVE",
            "summary": "It's as the plan says.",
        }
    )


def committer(prompt: str) -> Part:
    given = last_object(prompt)
    told = yield from tugcode(
        f"tugcode commit --plan {given['plan_path']} --step {given['step_anchor']}"
        f" --message '{given['message']}' --summary '{given['summary']}'"
        f" --worktree {given['worktree_path']} --attempt {given['attempt']} --json"
    )
    return json.dumps(told)


def auditor(prompt: str) -> Part:
    given = last_object(prompt)
    seen = yield bash(f"git -C {given['worktree_path']} log --oneline")
    return json.dumps(
        {
            "build_passed": True,
            "tests_passed": not seen.failed,
            "cross_step_issues": [],
            "recommendation": "APPROVE",
            "summary": "Both are there.",
        }
    )


ACTORS: Mapping[str, Actor] = {
    CONDUCTOR: conductor,
    **{f"{each.__name__}-agent": each for each in (architect, coder, reviewer, committer, auditor)},
}
