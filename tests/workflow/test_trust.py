"""Trust: nothing of a repository's files runs before its user has said so."""

import json
import os
import stat

import pytest

from support.commands import plainest
from support.terminals import Terminal, tugcode
from tugtool.cli.parse import CHANGING_NOTHING, FAMILIES, access
from tugtool.system import config
from tugtool.workflow import trust
from workflow.test_shared_record import url

__all__ = ["url"]

CONFIG = """\
[agents.default]
command = ["{0}", "agent"]
env = {{ PATH = "bin:/usr/bin", ANTHROPIC_BASE_URL = "http://elsewhere", A_TOKEN = "hidden" }}
[worktree]
setup = [["{0}", "setup"]]
[merge]
check = ["{0} check"]
[notify]
command = ["{0}", "notify"]
"""
PLAN = """\
## Work {{#work}}
#### Step 1: One {{#step-1}}
**Tasks:**
- [ ] do it
**Checkpoint:**
- [ ] `{0} checkpoint`
"""


class Place:
    """A repository of somebody else, whose every command leaves a mark."""

    def __init__(self, yard, tmp_path) -> None:
        self.mark, program = tmp_path / "ran", tmp_path / "program"
        program.write_text(f'#!/bin/sh\necho "$@" >>"{self.mark}"\n')
        program.chmod(0o755)
        self.program = program
        self.y = yard("1 t")
        self.y.repo.commit({".tugtool/tugplan-work.md": PLAN.format(program)})
        self.file = tmp_path / "state" / "tugtool" / "trust.json"
        self.config = self.y.root / ".tugtool" / "config.toml"

    def settle(self, monkeypatch, *, config: str = CONFIG) -> None:
        """From now on nothing is trusted unless somebody says so."""
        if config:
            self.config.write_text(config.format(self.program))
        monkeypatch.delenv("TUGCODE_TRUST")
        monkeypatch.setenv("XDG_STATE_HOME", str(self.file.parent.parent))

    def run(self, line: str, at=None):
        return self.y.run(*line.split(), at=at or self.y.root)


@pytest.fixture
def place(yard, tmp_path):
    return Place(yard, tmp_path)


@pytest.fixture
def held(place, monkeypatch):
    """A step is held in a worktree, and the plan has commands to run."""
    tree = place.y.create("--new")
    place.y.ok("state", "claim", "work", at=tree)
    (tree / "new").write_text("x\n")
    place.settle(monkeypatch)
    return place, tree


@pytest.mark.parametrize(
    "line",
    [
        "implement work",
        "worktree create work --new",
        "dash create fix",
        "next work",
    ],
)
def test_what_the_settings_name_does_not_run_unasked(place, monkeypatch, line):
    place.settle(monkeypatch)
    before = place.y.refs()
    done = place.run(line)
    assert done.codes == ["E110"]
    (issue,) = done.envelope()["issues"]
    assert issue["hint"] == "tugcode trust"
    assert "is not a repository that you trust" in issue["message"]
    assert not place.mark.exists()
    assert place.y.refs() == before
    assert not (place.y.root / ".tugtree").exists()
    assert not place.file.exists()


@pytest.mark.parametrize(
    "line",
    [
        "state verify work step-1 --yes",
        "done --all",
        "commit --plan work --step step-1 --message x --verify",
    ],
)
def test_the_commands_of_checkpoints_do_not_run_unasked(held, line):
    place, tree = held
    assert place.run(line, at=tree).codes == ["E110"]
    assert not place.mark.exists()
    assert place.run("trust --yes").data["trusted"]
    place.run(line, at=tree)
    assert place.mark.read_text() == "checkpoint\n"


def test_nor_those_of_a_merge(place, monkeypatch):
    tree = place.y.create("--new")
    place.y.do(tree, "step-1", {"code.txt": "ours\n"})
    place.settle(monkeypatch)
    head = place.y.repo.git("rev-parse", "main")
    assert place.run("merge work --unproven").codes == ["E110"]
    assert place.y.repo.git("rev-parse", "main") == head
    assert place.run("merge work --dry-run").status == 0
    assert place.run("trust --yes").status == 0
    assert place.run("merge work --unproven").status == 0
    assert place.mark.read_text() == "check\n"


def test_it_shows_what_would_run_with_what_redirects_it(held, monkeypatch):
    place, _ = held
    data = place.run("trust --list").data
    assert not data["trusted"]
    found = {each["source"]: each for each in data["commands"]}
    assert found["agents.coder"]["program"] == str(place.program)
    assert found["agents.coder"]["variables"] == {
        "A_TOKEN": "...",
        "ANTHROPIC_BASE_URL": "http://elsewhere",
        "PATH": "bin:/usr/bin",
    }
    assert found["worktree.setup"]["command"] == f"{place.program} setup"
    assert found["worktree.setup"]["program"] == str(place.program)
    assert found["notify.command"]["program"] == str(place.program)
    assert found["merge.check"]["command"] == f"{place.program} check"
    assert found["notify.command"]["command"] == f"{place.program} notify"
    assert found[".tugtool/tugplan-work.md"]["command"] == f"{place.program} checkpoint"
    shown = place.y._tugcode("-C", place.y.root, "trust").err
    assert shown.count(" agent  (") == 1
    assert "  agents.clarifier, agents.author and 6 other roles: " in shown
    text = place.y._tugcode("-C", place.y.root, "trust", "--yes").out
    assert "  agents.clarifier, agents.author and 6 other roles: " in text
    assert "not confined: it can write all that you can" in text
    assert text.endswith(f"{place.y.root} is trusted\n")


def test_a_program_that_the_repository_puts_into_the_path_is_named(place, monkeypatch):
    place.y.repo.write({"bin/claude": "#!/bin/sh\n"})
    (place.y.root / "bin" / "claude").chmod(0o755)
    place.settle(
        monkeypatch, config='[agents.coder]\npreset = "claude"\nenv = {{ PATH = "bin" }}\n'
    )
    monkeypatch.chdir(place.y.root)
    (coder, _) = place.run("trust --list").data["commands"]
    assert coder["program"] == str(place.y.root / "bin" / "claude")


def test_a_changed_setting_asks_again_and_is_named(held):
    place, tree = held
    place.run("trust --yes")
    place.config.write_text(place.config.read_text().replace(' check"', ' other"'))
    done = place.run("state verify work step-1 --yes", at=tree)
    assert done.codes == ["E110"]
    (issue,) = done.envelope()["issues"]
    assert issue["facts"]["changed"] == ["merge.check"]
    assert "has changed since you trusted it: merge.check" in issue["message"]
    assert not place.mark.exists()
    # What names no command may change.
    place.config.write_text("[state]\nmax_attempts = 9\n" + CONFIG.format(place.program))
    assert place.run("state verify work step-1 --yes", at=tree).status == 0


def test_the_record_is_the_users_alone_and_outside(held):
    place, tree = held
    place.run("trust --yes")
    assert place.file.stat().st_mode & 0o777 == 0o600
    assert place.file.parent.stat().st_mode & 0o077 == 0
    assert os.listdir(place.file.parent) == ["trust.json"]
    known = json.loads(place.file.read_text())["repositories"]
    assert list(known) == [str(place.y.root)]
    assert "hidden" not in place.file.read_text()
    place.file.chmod(0o666)
    done = place.run("state verify work step-1 --yes", at=tree)
    assert done.codes == ["E110"]
    assert "only you can write" in done.envelope()["issues"][0]["message"]


def test_revoked_means_that_nothing_runs(held):
    place, tree = held
    place.run("trust --yes")
    listed = place.run("trust --list").data["repositories"]
    assert [(each["root"], each["trusted"]) for each in listed] == [(str(place.y.root), True)]
    assert not place.run("trust --revoke").data["trusted"]
    assert place.run("trust --list").data["repositories"] == []
    assert place.run("state verify work step-1 --yes", at=tree).codes == ["E110"]


def test_the_environment_can_say_so(held, monkeypatch):
    place, tree = held
    monkeypatch.setenv("TUGCODE_TRUST", "0")
    assert place.run("state verify work step-1 --yes", at=tree).codes == ["E110"]
    monkeypatch.setenv("TUGCODE_TRUST", "1")
    assert place.run("state verify work step-1 --yes", at=tree).status == 0
    assert not place.file.exists()


def test_an_agent_may_not_say_so(held, monkeypatch):
    place, _ = held
    monkeypatch.setenv("TUGCODE_ATTEMPT", "1")
    assert place.run("trust --yes").codes == ["E068"]
    monkeypatch.setenv("TUGCODE_ROLE", "coder")
    assert place.run("trust --yes").codes == ["E088"]
    assert not place.file.exists()


def test_the_commands_of_a_plan_that_came_later_are_asked_about(place, monkeypatch):
    """As a pull brings it: with trust in the repository, and not recorded by this user."""
    place.settle(monkeypatch)
    place.run("trust --yes")
    evil = PLAN.format(place.program).replace("{#work}", "{#evil}").replace("checkpoint`", "evil`")
    place.y.repo.commit({".tugtool/tugplan-evil.md": evil})
    for line in ("implement evil", "trust"):
        done = place.run(line)
        assert done.codes == (["E070"] if line == "trust" else ["E110"]), done.out
    assert f"{place.program} evil" in place.run("trust --list").data["changed"]
    assert place.run("doctor").envelope()["issues"]
    taken = place.run("next evil")
    assert taken.codes == ["W186"]
    assert "have not seen" in taken.envelope()["issues"][0]["message"]
    tree = taken.data["worktree_path"]
    assert place.run("done --all", at=tree).codes == ["E110"]
    assert "evil" not in place.mark.read_text()
    place.run("trust --yes")
    place.run("done --all", at=tree)
    assert place.mark.read_text().endswith("evil\n")


@pytest.mark.parametrize("line", ["state init own", "plan accept own"])
def test_the_commands_of_a_plan_that_one_records_oneself_count_as_seen(place, monkeypatch, line):
    place.settle(monkeypatch, config="")
    place.run("trust --yes")
    own = PLAN.format(place.program).replace("{#work}", "{#own}").replace("checkpoint`", "own`")
    place.y.repo.commit({".tugtool/tugplan-own.md": own})
    assert place.run(line).status == 0
    taken = place.run("next own")
    assert taken.codes == []
    place.run("done --all", at=taken.data["worktree_path"])
    assert place.mark.read_text() == "own\n"


def test_an_agents_plan_does_not_count_as_seen(place, monkeypatch):
    place.settle(monkeypatch, config="")
    place.y.repo.write({".tugtool/tugplan-work.md": "# none\n"})
    place.run("trust --yes")
    place.y.repo.write({".tugtool/tugplan-work.md": PLAN.format(place.program)})
    with monkeypatch.context() as agent:
        agent.setenv("TUGCODE_ATTEMPT", "1")
        assert place.run("state init work").status == 0
    place.run("state claim work")
    assert place.run("state verify work step-1 --yes").codes == ["E110"]


def test_another_repository_at_the_same_path_is_asked_about(held):
    place, tree = held
    place.run("trust --yes")
    mark = place.y.root / ".git" / "tugtool" / "trust"
    assert mark.stat().st_mode & 0o777 == 0o600
    mark.rename(mark.with_name("away"))
    done = place.run("state verify work step-1 --yes", at=tree)
    assert done.codes == ["E110"]
    assert "is not the repository that you trusted" in done.out
    # Somebody else's mark is not this one.
    mark.write_text("0" * 32 + "\n")
    assert place.run("state verify work step-1 --yes", at=tree).codes == ["E110"]
    assert place.run("trust --list").data["repositories"][0]["reason"]
    mark.unlink()
    os.mkfifo(mark)
    assert place.run("state verify work step-1 --yes", at=tree).codes == ["E110"]
    assert place.run("trust --yes").status == 0
    place.run("state verify work step-1 --yes", at=tree)
    assert place.mark.exists()


def test_commands_that_look_say_that_trust_is_missing_or_has_changed(place, monkeypatch):
    place.y.ok("state", "init", "work")
    place.settle(monkeypatch)

    def told(*words: str) -> str:
        done = place.y._tugcode("-C", place.y.root, *words)
        return done.out + done.err

    for words in (("status",), ("show", "work"), ("doctor",), ("implement", "work", "--dry-run")):
        assert "is not a repository that you trust" in told(*words).replace("\n", " "), words
        assert "tugcode trust" in told(*words), words
    place.run("trust --yes")
    for words in (("status",), ("show", "work"), ("doctor",), ("implement", "work", "--dry-run")):
        assert "you trust" not in told(*words), words
    place.config.write_text(place.config.read_text().replace('"agent"', '"other"'))
    for words in (("status",), ("show", "work"), ("doctor",), ("trust", "--list")):
        said = told(*words).replace("\n", " ")
        assert "has changed since you trusted it" in said, words
        assert "agents.default.command" in said, words
    assert not place.run("doctor").data["healthy"]


def test_a_dry_run_shows_every_command_and_who_is_confined(place, monkeypatch):
    place.settle(monkeypatch, config=CONFIG + '[agents.coder]\nconfine = "worktree"\n')
    data = place.run("implement work --dry-run").data
    assert [each["source"] for each in data["commands"]] == [
        "worktree.setup",
        "notify.command",
        ".tugtool/tugplan-work.md",
    ]
    roles = {each["role"]: each["confinement"] for each in data["agents"]}
    assert roles["coder"] == "confined: it can write its worktree, a temporary directory"
    assert roles["reviewer"] == "not confined: it can write all that you can"
    text = place.y._tugcode("-C", place.y.root, "implement", "work", "--dry-run").out
    assert f"worktree.setup: {place.program} setup" in text
    assert f".tugtool/tugplan-work.md: {place.program} checkpoint" in text
    assert not place.mark.exists()


def test_almost_everything_is_named_as_such(place, monkeypatch):
    wide = '[agents.coder]\ncommand = ["sh"]\nconfine = "worktree"\nwritable = ["~", "x"]\n'
    place.settle(monkeypatch, config=wide)
    (row,) = place.run("trust --list").data["settings"]
    assert "(almost everything: ~)" in row["value"]


def test_answers_are_listed_and_withdrawn_wherever_one_is(held, tmp_path, monkeypatch):
    place, _ = held
    place.run("trust --yes")
    place.config.write_text("[nonsense\n")
    (row,) = place.run("trust --list").data["repositories"]
    assert row["trusted"]
    assert "config.toml" in row["reason"]
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    done = place.run("trust --list", at=outside)
    assert (done.status, done.data["root"], len(done.data["repositories"])) == (0, None, 1)
    assert place.run("trust elsewhere").codes == ["E070"]
    assert place.run("trust --revoke").status == 0
    assert place.run("trust --list").data["repositories"] == []


def test_the_answer_for_a_repository_that_is_gone_can_be_withdrawn(held, tmp_path):
    place, _ = held
    place.run("trust --yes")
    place.y.root.rename(tmp_path / "moved")
    (row,) = place.run("trust --list", at=tmp_path).data["repositories"]
    assert row["reason"] == "it is gone"
    done = place.run(f"trust --revoke {place.y.root}", at=tmp_path)
    assert done.status == 0
    assert place.run("trust --list", at=tmp_path).data["repositories"] == []


def test_a_word_in_the_environment_that_does_not_count_is_named(held, monkeypatch):
    place, tree = held
    monkeypatch.setenv("TUGCODE_TRUST", "yes")
    done = place.run("state verify work step-1 --yes", at=tree)
    assert "TUGCODE_TRUST is 'yes', and only 1 counts" in done.envelope()["issues"][0]["message"]
    monkeypatch.setenv("TUGCODE_TRUST", "1")
    assert "trusts every repository" in place.y._tugcode("-C", place.y.root, "trust", "--list").out


def test_without_a_terminal_there_is_no_question(held):
    place, _ = held
    done = place.run("trust")
    assert (done.status, done.codes) == (2, ["E070"])
    assert not place.file.exists()


def _typed(place: Place, answer: str, *words: str) -> str:
    """What a person sees who answers the question; without an answer none may be asked."""
    terminal = Terminal(tugcode(*words, at=place.y.root), columns=200)
    try:
        if answer:
            terminal.until_text("[y/N]")
            terminal.press(f"{answer}\n")
        terminal.end()
        return terminal.raw.decode()
    finally:
        terminal.close()


@pytest.mark.parametrize(("answer", "trusted"), [("y", True), ("n", False)])
def test_on_a_terminal_it_asks_and_init_asks_once(place, monkeypatch, answer, trusted):
    place.settle(monkeypatch)
    said = _typed(place, answer, "init")
    assert "worktree.setup" in said
    (entry,) = json.loads(place.file.read_text())["repositories"].values()
    assert entry["trusted"] is trusted
    # Known: the second time nothing is asked.
    assert "[y/N]" not in _typed(place, "", "init")
    if not trusted:
        assert "is trusted" in _typed(place, "y", "trust")


def test_a_link_in_place_of_the_state_is_followed_only_with_trust(place, tmp_path, monkeypatch):
    place.y.ok("state", "init", "work")
    database = place.y.root / ".tugtool" / "state.db"
    (tmp_path / "disk").mkdir()
    for end in ("", "-wal", "-shm"):
        if os.path.exists(f"{database}{end}"):
            os.rename(f"{database}{end}", tmp_path / "disk" / f"work.db{end}")
    database.symlink_to(tmp_path / "disk" / "work.db")
    place.settle(monkeypatch, config="")
    before = sorted(os.listdir(tmp_path / "disk"))
    for line in ("state show work", "state claim work", "state restore --dry-run"):
        done = place.run(line)
        assert done.codes == ["E046"]
        assert done.envelope()["issues"][0]["hint"] == "tugcode trust"
    assert sorted(os.listdir(tmp_path / "disk")) == before
    place.run("trust --yes")
    assert place.run("state show work").status == 0


def test_every_command_says_whether_it_changes_something():
    words = {path: access(path) for path in FAMILIES}
    assert set(words.values()) == {"", *CHANGING_NOTHING, "hold", "steer", "git"}
    # Who writes may not say that it looks: tests/proof/test_borders.py runs those that say so.
    for path in ("state claim", "state prune", "trust", "init", "serve token add", "plan new"):
        assert words[path] not in CHANGING_NOTHING


STATE = '[state]\nurl = "{}"\nrepository = "x"\nbusy_seconds = 1\n'


@pytest.mark.parametrize("address", ["postgresql://127.0.0.1:1/x", "http+unix:///nowhere/socket"])
def test_the_address_of_the_state_needs_trust(place, monkeypatch, address):
    place.y.ok("state", "init", "work")
    place.settle(monkeypatch, config=STATE.format(address))
    done = place.run("state show work")
    assert done.codes == ["E110"]
    (issue,) = done.envelope()["issues"]
    assert f"state.url would have tugcode connect to {address}" in issue["message"]
    assert issue["hint"] == "tugcode trust"
    # What needs no state works, and shows the address.
    (row,) = (e for e in place.run("config").data["settings"] if e["key"] == "state.url")
    assert row["value"] == address
    # Your own environment may name any place.
    with monkeypatch.context() as own:
        own.setenv("TUGCODE_STATE_URL", "")
        assert place.run("state show work").status == 0
    assert place.run("trust --list").data["settings"] == [{"source": "state.url", "value": address}]
    place.run("trust --yes")
    assert place.run("state show work").codes in (["E046"], ["E047"], ["E109"])
    place.config.write_text(STATE.format("https://127.0.0.1:2/"))
    assert place.run("trust --list").data["changed"] == ["state.url"]


@pytest.mark.parametrize("setting", ['ca_file = "theirs.pem"', "plain_http = true"])
def test_settings_that_weaken_your_own_address_need_trust(place, monkeypatch, setting):
    place.settle(monkeypatch, config=f"[state]\n{setting}\n")
    assert place.run("state ready work").codes != ["E110"]
    monkeypatch.setenv("TUGCODE_SERVER", "https://127.0.0.1:1/")
    done = place.run("state ready work")
    assert done.codes == ["E110"]
    assert f"state.{setting.split()[0]} would have tugcode connect" in done.out


@pytest.mark.parametrize(
    "setting", ['host = "0.0.0.0"', 'unix = "/nowhere/socket"', 'hosts = ["evil.example"]']
)
def test_how_the_server_listens_needs_trust(place, monkeypatch, setting):
    place.settle(monkeypatch, config=f"[serve]\n{setting}\n")
    done = place.run("serve")
    assert done.codes == ["E110"]
    assert f"serve.{setting.split()[0]} would decide who reaches the server" in done.out


def test_a_remote_is_not_asked_without_trust(place, tmp_path, monkeypatch):
    tree = place.y.create("--new")
    place.y.ok("state", "claim", "work", at=tree)
    place.y.repo.git("init", "--quiet", "--bare", str(tmp_path / "remote"))
    place.y.repo.git("remote", "add", "origin", str(tmp_path / "remote"))
    place.settle(monkeypatch, config='[remote]\nname = "origin"\n')
    (tree / "new").write_text("x\n")
    place.run("state update work step-1 --all completed --reason x", at=tree)
    done = place.run("commit --plan work --step step-1 --message x", at=tree)
    assert (done.status, done.codes) == (0, ["W170"])
    (issue,) = done.envelope()["issues"]
    assert "it is not asked (you do not trust this repository" in issue["message"]
    assert issue["hint"] == "tugcode trust"
    (issue,) = place.run("worktree publish work").envelope()["issues"]
    assert issue["hint"] == "tugcode trust"
    assert os.listdir(tmp_path / "remote" / "refs" / "heads") == []
    place.run("trust --yes")
    assert place.run("worktree publish work").data["unpublished_steps"] == []
    assert os.listdir(tmp_path / "remote" / "refs" / "heads") != []


def test_plans_of_a_shared_record_are_asked_about_when_they_can_be_read(place, url, monkeypatch):
    place.settle(monkeypatch, config=f'[state]\nurl = "{url}"\nrepository = "team/trust"\n')
    monkeypatch.setenv("TUGCODE_STATE_URL", url)
    place.run("state init work --create-database")
    monkeypatch.delenv("TUGCODE_STATE_URL")
    place.y.repo.path.joinpath(".tugtool/tugplan-work.md").unlink()
    data = place.run("trust --yes").data
    assert data["trusted"]
    assert [each["command"] for each in data["commands"]] == [f"{place.program} checkpoint"]
    # Another person agrees to another command.
    place.y.repo.path.joinpath(".tugtool/tugplan-work.md").write_text(
        PLAN.format(place.program).replace(" checkpoint", " other")
    )
    with monkeypatch.context() as other:
        other.setenv("TUGCODE_TRUST", "1")
        assert place.run("plan accept work").status == 0
    place.run("state claim work")
    refused = place.run("state verify work step-1 --yes")
    assert refused.codes == ["E110"]
    assert not place.mark.exists()
    data = place.run("trust --list").data
    assert (data["trusted"], data["changed"]) == (False, [f"{place.program} other"])
    assert "is trusted" in _typed(place, "y", "trust")
    place.run("state verify work step-1 --yes")
    assert place.mark.read_text() == "other\n"


def test_commands_of_plans_that_nobody_has_begun_are_shown_too(place, monkeypatch):
    # A command in a task is only text.
    plan = place.y.root / ".tugtool" / "tugplan-work.md"
    plan.write_text(plan.read_text().replace("do it", "`do it`"))
    place.settle(monkeypatch, config="")
    (each,) = place.run("trust --list").data["commands"]
    assert (each["source"], each["command"]) == (
        ".tugtool/tugplan-work.md",
        f"{place.program} checkpoint",
    )


@pytest.mark.parametrize("name", [".tugtool/log.md", ".tugtool/archive", ".tugtree"])
def test_links_in_place_of_what_is_written_do_not_lead_out(place, tmp_path, monkeypatch, name):
    """Tracked by git, as a stranger would have it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "log.md").write_text("mine\n" * 600)
    target = outside / "log.md" if name.endswith("log.md") else outside
    (place.y.root / name).symlink_to(target)
    if name.endswith("archive"):
        place.y.repo.write({".tugtool/log.md": "old\n" * 600})
    place.y.repo.git("add", "--force", name)
    place.y.repo.commit()
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    place.settle(monkeypatch, config="")
    made = place.run("worktree create work --new")
    if made.status == 0:
        tree = made.data["worktree_path"]
        place.run("state claim work", at=tree)
        place.run("state update work step-1 --all completed --reason x", at=tree)
        place.run("commit --plan work --step step-1 --message x", at=tree)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


#: Settings of other kinds than numbers and choices that need no trust, and why.
FREE = {
    "implement.verify": "whether commands run that trust covers",
    "implement.retry_seconds": "numbers",
    "state.repository": "a name within the state's address",
    "worktree.copy": "only files of the repository itself",
}


def test_a_setting_that_names_something_needs_trust_or_a_reason():
    """A new setting is put behind trust, or listed here."""
    plain = (
        key for key, each in config.all_settings().items() if type(each.default) in (int, float)
    )
    chosen = (key for key, each in config.all_settings().items() if each.choices)
    rest = set(config.all_settings()) - {*plain, *chosen} - {*trust.COMMANDS, *trust.ADDRESSES}
    assert rest == set(FREE)


#: These go on until they are ended, or open a browser.
LASTING = ("serve", "mcp", "open")


@pytest.mark.proof(share=0)
def test_no_command_of_all_runs_unasked_what_the_files_name(held):
    place, tree = held
    # Those that only look: tests/proof/test_hostile_repository.py.
    changing = [each for each in FAMILIES if access(each) not in CHANGING_NOTHING]
    for path in (each for each in changing if each not in LASTING):
        words = plainest(path, plan="work")
        for at in (place.y.root, tree):
            place.y.run(*words, at=at)
            assert not place.mark.exists(), words
    # With trust the same words do, so that this can fail.
    assert place.run("trust --yes").status == 0
    place.run("worktree create work --new")
    assert place.mark.exists()


@pytest.mark.parametrize("given", ["relative/place", ""])
def test_without_a_place_that_means_something_the_record_is_in_the_home(
    held, monkeypatch, tmp_path, given
):
    place, _ = held
    monkeypatch.setenv("XDG_STATE_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert place.run("trust --yes").data["trusted"]
    file = tmp_path / "home" / ".local" / "state" / "tugtool" / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (place.y.root / "relative").exists()


@pytest.mark.parametrize("odd", ["a directory that cannot be made", "a FIFO", "others' to write"])
def test_a_record_that_cannot_be_the_users_gives_no_trust(held, monkeypatch, odd):
    place, tree = held
    assert place.run("trust --yes").data["trusted"]
    if odd == "a FIFO":
        place.file.unlink()
        os.mkfifo(place.file, 0o600)
    elif odd == "others' to write":
        place.file.chmod(0o666)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    assert place.run("done --all", at=tree).codes == ["E110"]
    assert place.run("trust --yes").codes == ["E074" if odd.endswith("made") else "E072"]
    assert not place.mark.exists()
