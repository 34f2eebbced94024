"""Z4: two plans with the same file name are told apart."""

from support.state import markdown


def test_two_plans_of_one_name_are_told_apart(yard):
    yard = yard()
    names = [f"{place}/plan.md" for place in ("one", "two")]
    texts = {name: markdown("1", f"{number + 2}") for number, name in enumerate(names)}
    yard.repo.commit(texts)
    yard.create(plan=names[0])
    made = yard.run("worktree", "create", names[1])
    assert made.codes == [], made.out
    shown = [plan["slug"] for plan in yard.ok("status")["plans"]]
    assert shown == [*names, "work"]
    assert "one/plan.md" in yard.said("status")
