"""Z2: a plan that git ignores cannot be committed by the usual command, and that is said."""

from support.state import markdown


def test_a_plan_that_git_ignores_is_refused_with_the_rule_that_hides_it(yard):
    yard = yard()
    yard.repo.commit({".gitignore": ".tugtool/\n"})
    yard.repo.plan("fresh", markdown("1"))
    for more in ((), ("--commit-plan",)):
        refused = yard.run("worktree", "create", "fresh", *more).envelope()["issues"][-1]
        assert refused["code"] == "E045"
        assert "git ignores it (.gitignore:1: .tugtool/)" in refused["message"]
        assert refused["hint"] == "git check-ignore --verbose -- .tugtool/tugplan-fresh.md"
    checks = {check["name"]: check for check in yard.run("doctor").data["checks"]}
    said = [found["message"] for found in checks["ignored"]["findings"]]
    assert any("git ignores .tugtool/tugplan-fresh.md" in each for each in said), said
    assert yard.create(plan="work").exists()
