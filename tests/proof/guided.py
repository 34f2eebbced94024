"""Programs for a fuzzer that sees which lines its inputs reach, and one for where there is none.

    python guided.py TARGET SECONDS SEED DIRECTORY [--planted] [--blind]

Only errors that are declared may leave a target; any other ends the program with a traceback, and
the input lies in DIRECTORY. Beyond the standard library only what a target needs is imported.
"""

import contextlib
import importlib
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent
PLANS = TESTS / "plan" / "plans"
#: As long as most plans of the corpus; longer ones are slow, and reach nothing more.
LONGEST = 4096

SHELL = [
    *("git commit -m x", "a 'b c' \"d $e\" f\\ g", "a; b && c || d | e & f\ng", "a <<E\nx\nE\n"),
    *("if a; then b; else c; fi", "for x in *; do y $x; done", "case a in b) c;; esac", "(a; (b))"),
    *("x=$(a `b`) c <(d) >e 2>&1", "${a:-$(b)} $((1 + 2))", "env -i sh -c 'rm -rf /'", "[[ a ]]"),
]
ANSWERS = [
    *('{"success": true}', '```json\n{"a": [1, {"b": "c\\n"}]}\n```', '{"a": "\\ud800", "a": 1}'),
    '{"type": "result", "subtype": "success", "result": "{\\"a\\": 1}", "usage": {"tokens": 1}}\n',
    '{"type":"item.completed","item":{"type":"agent_message","text":"{}"}}\n',
    '{"response": "x {\\"a\\": 1}", "stats": {"models": {"m": {"tokens": {"total": 1}}}}}',
    '{"type":"text","part":{"text":"so: {\\"a\\":1}"}}\n{"type":"step_finish","part":{"cost":1}}\n',
]
WORDS = ("$(", "${", "<<-'E'\n", "\\\n", "$'", '{"type":"', '"usage":{', "\\u0000", "1e999", "NaN")


def _plan() -> Callable[[bytes], None]:
    from support.plan_sound import assert_sound
    from tugtool.errors import Unreadable
    from tugtool.plan import fingerprint
    from tugtool.system import files

    def one(data: bytes) -> None:
        with contextlib.suppress(Unreadable):
            plain = data.replace(b"\r", b"")
            assert fingerprint.of(plain) == fingerprint.of(plain.replace(b"\n", b"\r\n"))
            assert_sound(files.text("plan", data))

    return one


def _shell() -> Callable[[bytes], None]:
    from tugtool.agents.guard import rules
    from tugtool.agents.guard.judge import Refused
    from tugtool.agents.guard.line import CommandLine
    from tugtool.agents.guard.location import AgentLocation

    place, roles = AgentLocation("/nowhere"), [None, *rules.ROLES.values()]

    def one(data: bytes) -> None:
        role = roles[len(data) % len(roles)]
        with contextlib.suppress(Refused):
            CommandLine(role, place).judge(data.decode(errors="replace"))

    return one


def _answer() -> Callable[[bytes], None]:
    from tugtool.agents import answers, clis

    def one(data: bytes) -> None:
        found = answers.read_answer(data)
        assert (found.value is None) == (found.problem is not None)
        assert "\n" not in (found.problem or "")
        clis.of(found)

    return one


#: Name -> what makes the target, what is watched while it runs, what to begin with.
TARGETS: dict[str, tuple[Callable[[], Callable[[bytes], None]], list[str], list[bytes]]] = {
    "plan": (
        *(_plan, ["tugtool.plan"]),
        [path.read_bytes() for path in sorted(PLANS.glob("*/*.md")) if path.parent.name < "P"]
        + [(PLANS / "clean" / "good.md").read_bytes()],
    ),
    "shell": (_shell, ["tugtool.agents.guard"], [text.encode() for text in SHELL]),
    "answer": (_answer, ["tugtool.agents"], [text.encode() for text in ANSWERS]),
}


def fragments() -> list[str]:
    """What inputs are put together from."""
    from support.plan_sound import FRAGMENTS

    return [*dict.fromkeys([*(each for each in FRAGMENTS if each.strip()), *WORDS])]


#: Small: the fault is to be found in seconds.
NEAR_THE_FAULT = [b"### Step 1: a\n- [ ] b\n"]
THREE = ("[Q1b]", "through", "Phase 1.0")


def fault() -> None:
    """A parser that breaks where three things come together."""
    from tugtool.plan import parser

    read = parser.parse

    def parse(text: str):
        if THREE[0] in text:  # noqa: SIM102 (the fuzzer sees each line by itself)
            if THREE[1] in text:  # noqa: SIM102
                if THREE[2] in text:
                    raise IndexError("list index out of range")
        return read(text)

    parser.parse = _watched(parse)


def _watched(function):
    if "atheris" not in sys.modules:
        return function
    return sys.modules["atheris"].instrument_func(function)


def dictionary(words: Iterable[str]) -> str:
    """The words, as libFuzzer wants them."""
    escaped = ("".join(f"\\x{byte:02x}" for byte in each.encode()) for each in words)
    return "".join(f'"{each}"\n' for each in escaped)


def guided(make, watched: list[str], corpus: list[bytes], words: list[str], plant: bool) -> None:
    """Until time is up, or an input breaks the target; does not return."""
    import atheris

    seconds, seed, directory = words
    with atheris.instrument_imports(include=watched, enable_loader_override=False):
        for name in watched:
            importlib.import_module(name)
        if plant:
            fault()
        target = make()
    home = Path(directory)
    for number, data in enumerate(corpus):
        (home / "corpus").mkdir(exist_ok=True)
        (home / "corpus" / f"seed-{number}").write_bytes(data[:LONGEST])
    (home / "words").write_text(dictionary(THREE if plant else fragments()))
    options = {
        "max_total_time": seconds,
        "seed": seed,
        "max_len": 120 if plant else LONGEST,
        # From the beginning as long as they may be.
        "len_control": 0,
        "timeout": 30,
        "rss_limit_mb": 4096,
        "dict": home / "words",
        "artifact_prefix": f"{home}/broken-",
        "print_final_stats": 1,
    }
    line = [f"-{name}={value}" for name, value in options.items()]
    atheris.Setup(["guided", *line, str(home / "corpus")], target)
    atheris.Fuzz()


def mutations(corpus: list[bytes], words: Iterable[str], dice: random.Random) -> Iterator[bytes]:
    """The inputs to begin with, changed without knowing what that reaches."""
    pieces = [each.encode() for each in words]
    while True:
        data = bytearray(dice.choice(corpus)[:LONGEST])
        for _ in range(dice.randint(1, 8)):
            start = dice.randint(0, len(data))
            new = dice.choice(
                [dice.choice(pieces), dice.randbytes(2), b"", bytes(data[start:][:40])]
            )
            data[start : start + dice.choice([0, 0, 1, len(new), 30])] = new
        yield bytes(data)


def blind(make, corpus: list[bytes], words: list[str], plant: bool) -> None:
    """The same without seeing what an input reaches, for Pythons that no such fuzzer knows."""
    seconds, seed, directory = words
    if plant:
        fault()
    target, count, end = make(), 0, time.monotonic() + float(seconds)
    pieces = THREE if plant else fragments()
    for data in mutations(corpus, pieces, random.Random(int(seed))):
        (Path(directory) / "broken").write_bytes(data)
        target(data)
        count += 1
        if time.monotonic() > end:
            break
    print(f"stat::number_of_executed_units: {count}")


def main() -> None:
    sys.path[:0] = [str(TESTS)]
    name, *words = [word for word in sys.argv[1:] if not word.startswith("--")]
    make, watched, corpus = TARGETS[name]
    plant = "--planted" in sys.argv
    corpus = NEAR_THE_FAULT if plant else corpus
    if "--blind" in sys.argv:
        blind(make, corpus, words, plant)
    else:
        guided(make, watched, corpus, words, plant)


if __name__ == "__main__":
    main()
