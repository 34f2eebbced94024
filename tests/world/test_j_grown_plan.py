"""J: a plan that grew while it was carried out is not forgotten once it is done."""

import os
from pathlib import Path

from conftest import git
from support.state import KEY

MORE = "\n### Step 3: Part 3\n\n**Tasks:**\n- [ ] one more thing\n"
LOOK = "tugcode diff work"


def grow(root: Path) -> None:
    """Append a step to the plan on main, and commit it."""
    with open(root / KEY, "a", encoding="utf-8") as plan:
        plan.write(MORE)
    git("commit", "--quiet", "--all", "--message=One step more", cwd=root)


def test_a_step_that_was_added_during_the_last_one_is_told_everywhere(play):
    play = play("1 t", "2 t < 1")
    bell, go = play.root.parent / "bell", play.root.parent / "go"
    os.mkfifo(bell)
    waits = [{"tell": str(bell)}, {"wait_for": str(go)}]
    play.rules({"role": "coder", "step": "step-2", "do": waits})
    run = play.start()
    bell.read_text()
    grow(play.root)
    go.touch()
    out, err = run.communicate()
    assert run.returncode == 0, err
    last = out.splitlines()[-1]
    assert '"status": "done"' in last
    assert "on main has another text" in last
    assert f'"next": "{LOOK}"' in last

    seen = play.ok("status")
    assert [(need["what"], need["command"]) for need in seen["needs_you"]] == [
        ("changed_outside", "tugcode report work"),
        ("file_changed", "tugcode diff work"),
    ]
    checks = {check["name"]: check for check in play.tugcode("doctor").data["checks"]}
    (found,) = checks["plan-texts"]["findings"]
    assert found["hint"] == LOOK
    assert "is done" in found["message"]

    merged = play.tugcode("merge", "work")
    assert merged.codes == ["W151"], merged.out
    assert merged.envelope()["issues"][0]["hint"] == LOOK
    assert merged.data["merged"]
    assert play.ok("status")["needs_you"]

    play.ok("state", "init", "work", "--force")
    assert play.ok("status")["needs_you"] == []
    play.rules()
    assert play.run()[0] == 0
    assert play.steps()["step-3"] == "completed"
    assert play.tugcode("merge", "work").codes == []


def test_a_done_plan_with_the_same_text_is_not_mentioned(play):
    play = play("1 t")
    (play.root / ".gitattributes").write_text("*.md text eol=crlf\n")
    (play.root / KEY).write_bytes(play.text.replace("\n", "\r\n").encode())
    git("add", "--all", cwd=play.root)
    git("commit", "--quiet", "--message=Attributes", cwd=play.root)
    assert play.run()[0] == 0
    assert [need["what"] for need in play.ok("status")["needs_you"]] == ["unmerged"]
    assert play.tugcode("merge", "work").codes == []
