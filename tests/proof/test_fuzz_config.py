"""Whatever stands in `.tugtool/config.toml`: in force as it stands there, or refused by name.

What a file says is read here by Python's own reader and held against what the documents promise.
"""

import math
import random
import re
import tomllib

import pytest

from tugtool.errors import BadSetting, TugError, Unreadable
from tugtool.system import agent_config, config

#: All but what is random here has an end of its own.
pytestmark = pytest.mark.proof(share=0)

LEVELS = ("lenient", "normal", "strict")
MOST = 1_000_000_000
#: As TOML has them.
VALUES = [
    *("1", "2", "60", "0", "-1", "+7", "0x10", "1_000", str(MOST), str(MOST + 1), "9" * 30),
    *("9" * 5000, "0.5", "1.0", "nan", "inf", "-inf", "true", "false", '""', '"lenient"'),
    *("'strict'", '"Strict"', '"normal"', "[]", "[1]", "{}", "{a = 1}", "2026-02-23", "07:32:00"),
    *('"postgresql://db/x"', '"postgresql://a:b@db/x"', '"https://x"'),
    *("2026-02-30", '"""\nx\n"""', '"\\u0000"', '"\\u202e\\u001b[2J"', '"\\ud800"', "-0", "01"),
]
AGENTS = [
    *('preset = "claude"', 'preset = "none"', 'command = ["a", "b"]', "command = []", "tries = 3"),
    *(
        "tries = 0",
        "timeout_seconds = 5",
        "timeout_seconds = 1e3",
        'env = {A = "b"}',
        "env = {A = 1}",
    ),
    *(
        'env = {"A=" = "b"}',
        'command = "a"',
        'command = ["a\\u0000"]',
        "other = 1",
        "env = {A = 1}",
    ),
]
PIECES = [
    "[",
    "]",
    "=",
    '"',
    "'",
    "\n",
    "\r",
    "#",
    ".",
    "{",
    "}",
    "\0",
    "\x1b",
    "ü",
    "\u2028",
    "plan",
]


def document(dice: random.Random) -> bytes:
    """Some settings, most of them as they should be, and sometimes something else among them."""
    lines = []
    for key in dice.sample(sorted(config.all_settings()), dice.choice([0, 1, 2, 3])):
        section, name = key.split(".")
        form = dice.choice(["{s}.{n} = {v}\n", "[{s}]\n{n} = {v}\n", "{s} = {{ {n} = {v} }}\n"])
        lines.append(form.format(s=section, n=name, v=_value(dice, key)))
    if dice.random() < 0.3:
        role = dice.choice([*agent_config.ROLES, "default", "cook"])
        lines.append(f"[agents.{role}]\n" + "\n".join(dice.sample(AGENTS, 2)) + "\n")
    data = "".join(lines).encode()
    for _ in range(dice.choice([0, 0, 0, 1, 2])):
        at = dice.randint(0, len(data))
        new = dice.choice([dice.choice(PIECES).encode(), dice.randbytes(1), b"", b"\xff"])
        data = data[:at] + new + data[at + dice.choice([0, 0, 1, 3]) :]
    if dice.random() < 0.01:
        data += b"# " + b"x" * 10_000_000
    if dice.random() < 0.02:
        data += b"x = " + b"[" * dice.randint(100, 2000)
    return data


def _value(dice: random.Random, key: str) -> str:
    if dice.random() < 0.3:
        return dice.choice(VALUES)
    return f'"{dice.choice(LEVELS)}"' if key.endswith("level") else str(dice.randint(1, MOST))


def meant(data: bytes) -> dict[str, object] | None:
    """Key -> value as the file has it; None if it is no file of ours."""
    try:
        text = data.decode().removeprefix("\ufeff") if len(data) <= 1 << 20 else "["
        tables = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    agents = tables.pop("agents", {})
    if not isinstance(agents, dict):
        return None
    found: dict[str, object] = {}
    for section, table in tables.items():
        if not isinstance(table, dict) or section not in SECTIONS:
            return None
        found |= {f"{section}.{name}": value for name, value in table.items()}
    return found if all(_right(key, value) for key, value in found.items()) else None


def _right(key: str, value: object) -> bool:
    if key not in config.all_settings():
        return False
    if key == "plan.validation_level":
        return isinstance(value, str) and value in LEVELS
    if key in SWITCHES:
        return isinstance(value, bool)
    if key in TEXTS:
        return isinstance(value, str) and value.isprintable() and bool(TEXTS[key].match(value))
    if key in LISTS:
        return isinstance(value, list) and all(map(LISTS[key], value))
    if key == "implement.budget_cost" and isinstance(value, float):
        return 0 <= value <= MOST
    return _is_whole(value, 0 if key in FROM_ZERO else 1)


SWITCHES = ("implement.verify", "serve.behind_proxy", "serve.git", "serve.run_commands")
SWITCHES += ("state.plain_http",)
#: Texts, and their form: an address has no password.
TEXTS = {
    "state.url": re.compile(r"$|postgres(ql)?://([^:@/]*@)?[^:@]*$|http(s|\+unix)?://[^@#]*$"),
    "state.repository": re.compile(""),
    "state.ca_file": re.compile(""),
    "remote.name": re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*$"),
    "mcp.role": re.compile("(viewer|worker)$"),
    **{f"serve.{name}": re.compile("") for name in ("host", "unix", "tls_cert", "tls_key")},
}


def _is_word(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_word, value))


def _is_whole(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST


SECTIONS = ("plan", "state", "log", "implement", "worktree", "merge", "notify", "serve", "mcp")
SECTIONS += ("remote",)
FROM_ZERO = [
    f"implement.{name}"
    for name in ("budget_tokens", "budget_cost", "patience_seconds", "transcript_bytes")
] + ["serve.port"]
LISTS = {
    "worktree.setup": lambda words: bool(words) and _is_list(words) and bool(words[0]),
    "worktree.copy": lambda word: _is_word(word),
    "merge.check": lambda word: _is_word(word),
    "implement.retry_seconds": _is_whole,
    "notify.command": lambda word: isinstance(word, str) and "\0" not in word,
    "serve.hosts": lambda word: isinstance(word, str) and word.isprintable(),
    "serve.trusted_proxies": lambda word: isinstance(word, str) and word.isprintable(),
    "notify.on": lambda word: word in ("needs_person", "done", "stopped", "cooling_down"),
}


def try_one(root, data: bytes) -> bool:
    """Whether the settings are in force; whichever it is, rightly."""
    (root / ".tugtool" / "config.toml").write_bytes(data)
    wanted = meant(data)
    try:
        settings = config.load(str(root))
    except (BadSetting, Unreadable) as error:
        _clear(error, data, may_be_of_an_agent=wanted is not None)
        return False
    assert wanted is not None, data[:500]
    for key, setting in config.all_settings().items():
        value = wanted.get(key, setting.default)
        assert settings.value(key) == value, (key, data[:500])
        assert settings.is_set(key) == (key in wanted)
    for row in settings.agent_rows():
        assert _is_plain(row["value"]), row
    return True


def _clear(error: TugError, data: bytes, *, may_be_of_an_agent: bool) -> None:
    """The refusal names the file, and the key or the line if it is one of them."""
    assert error.code in ("E071", "E072"), error
    assert ".tugtool/config.toml" in str(error.issue()["file"])
    assert not may_be_of_an_agent or str(error.facts.get("key")).startswith("agents"), data[:500]
    if error.code == "E071" and error.facts.get("key") is None:
        assert "is not TOML" in error.message


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_plain(each) for each in value)
    return isinstance(value, str | int) and not (isinstance(value, float) and math.isnan(value))


@pytest.mark.proof(share=1)
def test_a_setting_is_in_force_as_it_stands_there_or_refused_by_name(tmp_path, spell):
    (tmp_path / ".tugtool").mkdir()
    taken = 0
    for seed in spell.seeds(least=800):
        taken += try_one(tmp_path, document(random.Random(seed)))
    spell.tell(f"{taken} files in force, {spell.rounds - taken} refused")


def _is_truthy(self: config.Setting, value: object) -> bool:
    return value in self.choices if self.choices else bool(value)


def _is_alike(self: config.Setting, value: object) -> bool:
    return value in self.choices if self.choices else self.least <= value <= MOST  # type: ignore


@pytest.mark.parametrize("fault", [_is_truthy, _is_alike])
def test_a_check_that_is_too_kind_is_noticed(tmp_path, monkeypatch, fault):
    (tmp_path / ".tugtool").mkdir()
    monkeypatch.setattr(config.Setting, "takes", fault)
    documents = (document(random.Random(seed)) for seed in range(1000))
    with pytest.raises((AssertionError, TypeError)):
        all(try_one(tmp_path, data) in (True, False) for data in documents)


def test_a_setting_that_is_dropped_silently_is_noticed(tmp_path, monkeypatch):
    (tmp_path / ".tugtool").mkdir()
    checked = config._checked

    def drop(given: dict) -> dict:
        return {key: value for key, value in checked(given).items() if key != "log.max_lines"}

    monkeypatch.setattr(config, "_checked", drop)
    documents = (document(random.Random(seed)) for seed in range(1000))
    with pytest.raises(AssertionError):
        all(try_one(tmp_path, data) in (True, False) for data in documents)
