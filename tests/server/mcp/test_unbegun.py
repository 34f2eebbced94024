"""A plan that has not begun: what is in it, and how it begins."""

import pytest

PLAN = """# Greet people
### Step 1: Say hello
- [ ] a
**Checkpoint:**
- [ ] `true`
### Step 2: Say it in French
**Depends on:** #step-1
- [ ] b
"""
BEGIN = "to begin, in a shell: tugcode worktree create greeter --new"


@pytest.fixture
def place(repo):
    repo.commit({".tugtool/tugplan-greeter.md": PLAN})
    return repo.path


@pytest.mark.parametrize("given", [{}, {"plan": "greeter"}, {"plan": "greeter", "view": "log"}])
def test_show_says_what_is_in_the_plan_and_how_it_begins(place, inside, given):
    text = inside(place).said("show", **given)
    assert text.startswith("plan: greeter\nGreet people: not begun, 2 steps\n")
    assert "  step-1: Say hello (1 task, 1 checkpoint)\n" in text
    assert "  step-2: Say it in French (1 task); depends on step-1\n" in text
    assert BEGIN in text
    assert 'or: claim(plan="greeter", worktree="the path that it prints")' in text


def test_a_step_is_shown_with_its_text(place, inside):
    text = inside(place).said("show", plan="greeter", view="step", step="step-2")
    assert "### Step 2: Say it in French\n" in text
    assert "### Step 1" not in text


def test_the_resource_of_the_plan_can_be_read(place, inside):
    answer = inside(place).rpc("resources/read", uri="tug://plan/greeter")
    assert BEGIN in answer["result"]["contents"][0]["text"]


@pytest.mark.parametrize("given", [{}, {"plan": "greeter"}])
def test_a_claim_is_refused_with_the_way_to_begin(place, inside, given):
    text = inside(place).refused("claim", **given)
    assert text.startswith("refused, E063: .tugtool/tugplan-greeter.md has no state yet\n")
    assert BEGIN in text
    assert "then start your client in that worktree" in text


def test_status_leads_to_show_and_what_it_says_works(place, inside, tugcode):
    assert 'Next: show(plan="greeter")' in inside(place).said("status")
    viewer = inside(place, "viewer")
    assert viewer.said("show", plan="greeter").count("claim(") == 0
    made = tugcode("-C", place, "worktree", "create", "greeter", "--new", "--json")
    path = made.data["worktree_path"]
    text = inside(place).said("claim", plan="greeter", worktree=path)
    assert text.startswith("claimed step-1 (attempt 1): Say hello\n")
    assert f"worktree: {path}\n" in text


def test_of_several_plans_one_has_to_be_named(place, inside, repo):
    repo.plan("other", PLAN)
    worker = inside(place)
    assert "tugcode worktree create PLAN --new" in worker.refused("claim")
    assert worker.refused("show").startswith("refused, E063: no plan here has an active state")
    assert "Greet people" in worker.said("show", plan="greeter")
    assert "refused, E041" in worker.refused("show", plan="neither")


def test_a_plan_that_cannot_be_read_is_refused(place, inside):
    (place / ".tugtool" / "tugplan-greeter.md").write_bytes(b"# x\xff")
    assert "refused, E063" in inside(place).refused("show", plan="greeter")
