"""Good inputs and answers of every role, and where the specification names their fields."""

GATES = ("critic", "reviewer", "auditor", "integrator")

#: What a role must return, by the specification's table.
FIELDS = {
    "clarifier": ("questions", "assumptions"),
    "author": ("plan_path", "validation_status"),
    "critic": ("findings", "recommendation"),
    "architect": ("approach", "expected_touch_set", "implementation_steps", "test_plan", "risks"),
    "coder": (
        "success",
        "summary",
        "files_created",
        "files_modified",
        "tests_passed",
        "build_passed",
        "checklist_status",
        "drift_assessment",
    ),
    "reviewer": ("plan_conformance", "issues", "recommendation"),
    "committer": ("completed", "committed", "commit_hash", "state_update_failed"),
    "auditor": ("build_passed", "tests_passed", "cross_step_issues", "recommendation"),
    "integrator": ("pushed", "recommendation"),
}

ANSWERS = {
    "clarifier": {"questions": ["Which?"], "assumptions": []},
    "author": {"plan_path": ".tugtool/tugplan-x.md", "validation_status": "valid"},
    "critic": {
        "findings": [{"severity": "minor", "description": "long"}],
        "recommendation": "APPROVE",
    },
    "architect": {
        "approach": "extend it",
        "expected_touch_set": ["a.py"],
        "implementation_steps": ["do"],
        "test_plan": "make test",
        "risks": [],
    },
    "coder": {
        "success": True,
        "summary": "done",
        "files_created": ["a.py"],
        "files_modified": [],
        "tests_passed": True,
        "build_passed": True,
        "checklist_status": {
            "tasks": [{"ordinal": 0, "status": "completed"}],
            "tests": [{"ordinal": 0, "status": "skipped", "reason": "no time"}],
            "checkpoints": [],
        },
        "drift_assessment": {"drift_severity": "none"},
    },
    "reviewer": {
        "plan_conformance": {
            "tasks": [{"step_anchor": "step-1", "ordinal": 0, "verdict": "PASS"}],
            "checkpoints": [
                {"step_anchor": "step-1", "ordinal": 0, "verdict": "BLOCKED", "reason": "no net"}
            ],
        },
        "issues": [{"severity": "minor", "description": "a name", "file": "a.py"}],
        "recommendation": "APPROVE",
    },
    "committer": {
        "completed": True,
        "committed": True,
        "commit_hash": "ab" * 20,
        "state_update_failed": False,
    },
    "auditor": {
        "build_passed": True,
        "tests_passed": True,
        "cross_step_issues": [],
        "recommendation": "APPROVE",
    },
    "integrator": {"pushed": True, "recommendation": "APPROVE"},
}

CHECKLIST = [
    {"step_anchor": "step-1", "kind": "task", "ordinal": 0, "text": "Do it"},
    {"step_anchor": "step-1", "kind": "task", "ordinal": 1, "text": "Do more"},
    {"step_anchor": "step-1", "kind": "test", "ordinal": 0, "text": "Test it"},
    {"step_anchor": "step-1", "kind": "checkpoint", "ordinal": 0, "text": "make test"},
    {"step_anchor": "step-1-1", "kind": "checkpoint", "ordinal": 0, "text": "look at it"},
]

_STEP = {
    "worktree_path": "/tree",
    "plan_path": ".tugtool/tugplan-x.md",
    "step_anchor": "step-1",
    "attempt": 2,
}
_WHOLE = {**_STEP, "step_anchor": None, "attempt": None}

INPUTS = {
    "clarifier": {"role": "clarifier", "idea": "faster"},
    "author": {"role": "author", "idea": "faster", "answers": None, "feedback": None},
    "critic": {"role": "critic", "plan_path": ".tugtool/tugplan-x.md"},
    "architect": {"role": "architect", **_STEP, "title": "One", "previous_attempt": None},
    "coder": {
        "role": "coder",
        **_STEP,
        "strategy": None,
        "findings": None,
        "checklist": CHECKLIST,
        "round": 1,
    },
    "reviewer": {
        "role": "reviewer",
        **_STEP,
        "strategy": None,
        "coder_report": {},
        "checklist": CHECKLIST,
    },
    "committer": {"role": "committer", **_STEP, "message": "Do it"},
    "auditor": {"role": "auditor", **_WHOLE, "round": 1},
    "integrator": {"role": "integrator", **_WHOLE, "branch": "tug/x", "base": "main"},
}
