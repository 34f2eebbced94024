"""Finding an agent's answer in whatever it printed, and what it cost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.agents import ANSWERS
from support.proving import examined, sampled
from tugtool.agents import answers, clis, contracts
from tugtool.agents.clis import AgentUsage
from tugtool.system import clock

REVIEW = ANSWERS["reviewer"]
LINE = json.dumps(REVIEW)
PRETTY = json.dumps(REVIEW, indent=2)
#: In the middle of a word: whoever puts the halves together wrongly changes it.
MIDDLE = PRETTY.index("BLOCKED") + 3


def read(output: str | bytes) -> dict | None:
    return answers.read_answer(output if isinstance(output, bytes) else output.encode()).value


def problem(output: str | bytes) -> str:
    found = answers.read_answer(output if isinstance(output, bytes) else output.encode())
    assert found.value is None
    return found.problem


@pytest.mark.parametrize(
    ("printed", "later"),
    [
        ({"retry_after_seconds": 90}, 90),
        ({"retry_after_seconds": "soon"}, None),
        ({"retry_after_seconds": -1}, None),
        ({"retry_after_seconds": True}, None),
        (
            {
                "type": "result",
                "is_error": True,
                "result": "Claude AI usage limit reached|1000000300",
            },
            300,
        ),
        ({"type": "result", "is_error": True, "result": "You've hit your limit · resets 7pm"}, 0),
        (
            {
                "type": "result",
                "is_error": True,
                "result": 'API Error: 429 {"error":{"type":"rate_limit_error"}}',
                "usage": {"input_tokens": 3},
            },
            0,
        ),
        ({"type": "result", "is_error": True, "result": "API Error: 529 Overloaded"}, 0),
        ({"type": "result", "is_error": True, "result": "Invalid API key"}, None),
        (
            {
                "type": "result",
                "is_error": True,
                "result": "Invalid API key",
                "usage": {"input_tokens": 429},
            },
            None,
        ),
        (
            {
                "type": "rate_limit_event",
                "rate_limit_info": {"status": "rejected", "resetsAt": 1000000060},
            },
            60,
        ),
        ({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}, None),
        (
            {
                "type": "error",
                "message": "exceeded retry limit, last status: 429 Too Many Requests",
            },
            0,
        ),
        (
            {
                "type": "turn.failed",
                "error": {
                    "message": "You've hit your usage limit. Try again in 2 hours 30 minutes."
                },
            },
            9000,
        ),
        (
            {
                "type": "error",
                "message": "x",
                "error": {"type": "usage_limit_reached", "message": "y", "resets_in_seconds": 13},
            },
            13,
        ),
        ({"session_id": "x", "error": {"message": "Resource has been exhausted", "code": 429}}, 0),
        (
            {"session_id": "x", "error": {"message": "Your quota will reset after 1h5m3s."}},
            3903,
        ),
        (
            {
                "type": "error",
                "error": {
                    "name": "APIError",
                    "data": {
                        "message": "slow down",
                        "statusCode": 429,
                        "responseHeaders": {"retry-after": "30"},
                    },
                },
            },
            30,
        ),
        ({"type": "error", "error": {"data": {"message": "slow down", "statusCode": 429}}}, 0),
        (
            {"type": "error", "error": {"data": {"message": "no such model", "statusCode": 404}}},
            None,
        ),
    ],
)
def test_what_clients_say_of_their_limits_is_understood(monkeypatch, printed, later):
    monkeypatch.setattr(clock, "system_milliseconds", lambda: 1_000_000_000_000)
    answer = answers.checked("coder", json.dumps(printed).encode())
    assert (answer.value, answer.later) == (None, later)


def test_a_limit_that_a_client_has_overcome_is_no_matter():
    output = clis_output({"type": "error", "message": "429 Too Many Requests, reconnecting"})
    answer = answers.checked("reviewer", output)
    assert (answer.value, answer.later) == (REVIEW, None)


def clis_output(*before: dict) -> bytes:
    """What Codex prints: these events, and then its answer."""
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": LINE}}
    return "".join(json.dumps(each) + "\n" for each in (*before, said)).encode()


@pytest.mark.parametrize(
    "output",
    [
        LINE,
        PRETTY,
        f"\ufeff{LINE}\r\n",
        f"Working...\nDone.\n{LINE}\n",
        f"Done: {LINE} as you asked.",
        f"```json\n{PRETTY}\n```\n",
        f"```\n{LINE}\n```",
        f"~~~~ json title=x\n{PRETTY}\n~~~~\nThat was it.",
        f"Use ```{LINE}```",
        f'{{"draft": 1}}\nNo, rather:\n{PRETTY}',
        f'It is 5" wide.\n{PRETTY}',
        f'I wrote "{{" and then {LINE}',
        f'{PRETTY}\nThe default "{{}}" stays, {{}} too, and 5" more }}',
        f"{{not json}} {{'nor': 'this'}} {LINE}",
        f"{{{LINE}}}",
        f"[{LINE}]",
        f"[1, 2, {LINE}]]",
        f'{{"cut": [1, 2\n```\n{LINE}',
        f"\x1b[32m{LINE}\x1b[0m",
        f"{'{' * 5000}{LINE}{'}' * 5000}",
        f"{'[' * 5000}{LINE}{']' * 5000}",
        f"\\\\\\{LINE}",
    ],
)
def test_the_answer_is_found_in_what_stands_around_it(output):
    assert read(output) == REVIEW


def test_it_is_the_last_object_and_not_the_last_that_would_do():
    assert read(f'{LINE}\nOn second thought:\n{{"recommendation": "REVISE"}}') == {
        "recommendation": "REVISE"
    }


def test_what_is_nested_is_a_part_and_no_answer():
    nested = {"a": [{"b": {"c": [{"d": 1}]}}]}
    assert read(json.dumps(nested)) == nested
    spoken = {"text": f"say {LINE} and {LINE}"}
    assert read(json.dumps(spoken)) == spoken


def test_what_looks_like_an_object_with_its_quotes_paired_wrongly_is_none():
    for text in ('{"a":"{",":1}":2}', '{"a":1,"b":"{",":1}":"{","c":"}"}'):
        assert read(text) == json.loads(text)


def test_of_an_answer_that_was_cut_off_no_part_is_taken():
    for end in range(1, len(LINE)):
        assert read(LINE[:end]) is None
        assert read(PRETTY[:end]) is None


@pytest.mark.parametrize("text", ['a "b" \\ / \n\t \u2028 {"x": 1} ```', "}{", "\\", '"', "\\\\"])
def test_any_text_may_stand_in_it(text):
    value = {"summary": text, text: [text, {text: text}]}
    for output in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert read(f'so "{{ here:\n{output}\nand }} "there') == value


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b"", "it printed nothing"),
        (b" \n", "it printed nothing"),
        (b"All done, thanks.", "no JSON object in its answer; it ends with: All done, thanks."),
        (b"{}", "there is no JSON object"),
        (b'{"a": NaN}', "there is no JSON object"),
        (b"{'a': 1}", "there is no JSON object"),
        (b'{"a": 1,}', "there is no JSON object"),
        (b'["a"]', "there is no JSON object"),
        (b'{"a": 01}', "there is no JSON object"),
        (b'{"a": 1 "b": 2}', "there is no JSON object"),
        (b'{"a" 1}', "there is no JSON object"),
        (b'{"a": [1,]}', "there is no JSON object"),
        (b'{"a": [1}]', "there is no JSON object"),
        (b'{"a": 1e999}', "cannot be taken: a number in it is out of range"),
        (b'{"a": [-1e999]}', "cannot be taken: a number in it is out of range"),
        (b'{"a": 1, "a": 1}', 'cannot be taken: "a" stands twice in one object'),
        (b'{"b": [{"a": 1, "\\u0061": 1}]}', 'cannot be taken: "a" stands twice in one object'),
        (b'{"a": "\\x"}', "cannot be taken: Invalid \\escape"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be taken: Exceeds the limit"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "cannot be taken: it is nested deeper than 100"),
        (b'{"a":' * 9999 + b"1" + b"}" * 9999, "cannot be taken: it is nested deeper than 100"),
    ],
)
def test_what_is_no_answer_is_told(output, reason):
    assert reason in problem(output)


def test_an_object_may_be_as_deep_as_the_limit():
    text = '{"a":' * answers.DEEPEST + "1" + "}" * answers.DEEPEST
    assert read(text) == json.loads(text)


def test_what_no_database_takes_is_replaced_and_line_breaks_are_forgiven():
    assert read(b'{"a": "\xff", "\\ud800": ["\\udc00x", "\\u0000", "\\ud83d\\ude00", "a\nb"]}') == {
        "a": "\ufffd",
        "\ufffd": ["\ufffdx", "\ufffd", "\U0001f600", "a\nb"],
    }


def test_only_the_end_of_much_output_is_looked_at():
    much = b"x" * answers.MOST_BYTES
    assert read(LINE.encode() + much) is None
    assert read(much + LINE.encode()) == REVIEW


@pytest.mark.parametrize(
    "part",
    [
        *("{", "}", '"', "\\", '{"', '{"a":', '{"a":[', "["),
        *('{"a":1}', '{"a":"\\"', "{ ", '{"a":1', "{\n"),
    ],
)
@pytest.mark.parametrize("length", sampled([40_000, 200_000], 1))
def test_much_of_anything_stops_nobody(part, length):
    # Quadratic work would take very long here, so this ends only because it is not.
    much = part * (length // len(part))
    assert read(f"{much} `` {LINE}") == REVIEW
    answers.read_answer((much + LINE + much).encode())


def events(*many: dict) -> str:
    return "".join(json.dumps(each) + "\n" for each in many)


CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": f"Here:\n```json\n{PRETTY}\n```",
    "session_id": "5f",
    "total_cost_usd": 0.1045789,
    "usage": {
        "input_tokens": 2,
        "cache_creation_input_tokens": 7924,
        "cache_read_input_tokens": 13368,
        "output_tokens": 9,
        "server_tool_use": {"web_search_requests": 0},
    },
}
CLAUDE_COST = AgentUsage(21303, 13368, 104579)
CLAUDE_STREAM = (
    {"type": "system", "subtype": "init", "session_id": "5f", "tools": ["Bash"]},
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": '{"no": 1}'}]}},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": f"So: {LINE}"}]}},
)
CODEX = (
    {"type": "thread.started", "thread_id": "0199"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "0", "type": "reasoning", "text": '{"no": 1}'}},
    {
        "type": "item.completed",
        "item": {"id": "1", "type": "command_execution", "aggregated_output": '{"no": 2}'},
    },
    {"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": PRETTY}},
    {"type": "item.completed", "item": {"id": "3", "type": "reasoning", "text": '{"no": 3}'}},
    {
        "type": "turn.completed",
        "usage": {"input_tokens": 24763, "cached_input_tokens": 24448, "output_tokens": 122},
    },
)
GEMINI = {
    "session_id": "5f",
    "response": f"Here it is.\n\n{PRETTY}\n",
    "stats": {
        "models": {
            "pro": {"tokens": {"prompt": 24, "candidates": 5, "total": 36, "cached": 20}},
            "flash": {"tokens": {"prompt": 2, "candidates": 1, "total": 3, "cached": 0}},
        },
        "tools": {"totalCalls": 1},
    },
}
GEMINI_STREAM = (
    {"type": "init", "session_id": "5f", "model": "pro"},
    {"type": "message", "role": "user", "content": 'Answer like {"this": 1}.'},
    {"type": "message", "role": "assistant", "content": PRETTY[:MIDDLE], "delta": True},
    {"type": "message", "role": "assistant", "content": PRETTY[MIDDLE:], "delta": True},
    {"type": "message", "role": "user", "content": '{"no": 2}'},
    {"type": "tool_result", "tool_id": "x", "status": "success", "output": '{"no": 1}'},
    {"type": "result", "status": "success", "stats": {"total_tokens": 39, "cached": 20}},
)
OPENCODE = (
    {"type": "step_start", "sessionID": "s", "part": {"type": "step-start"}},
    {"type": "tool_use", "sessionID": "s", "part": {"state": {"output": '{"no": 1}'}}},
    {
        "type": "step_finish",
        "sessionID": "s",
        "part": {
            "cost": 0.5,
            "tokens": {"input": 10, "output": 1, "reasoning": 2, "cache": {"read": 5, "write": 3}},
        },
    },
    {"type": "text", "sessionID": "s", "part": {"type": "text", "text": f"Result: {LINE}"}},
    {
        "type": "step_finish",
        "sessionID": "s",
        "part": {"cost": 0.25, "tokens": {"input": 1, "output": 1, "cache": {"read": 0}}},
    },
)
WRAPPED = {
    "claude": (json.dumps(CLAUDE), CLAUDE_COST),
    "claude, verbose": (json.dumps([*CLAUDE_STREAM, CLAUDE]), CLAUDE_COST),
    "claude, stream": (events(*CLAUDE_STREAM, CLAUDE), CLAUDE_COST),
    "claude, killed": (events(*CLAUDE_STREAM), AgentUsage()),
    "claude, structured": (
        json.dumps({**CLAUDE, "result": "Done.", "structured_output": REVIEW}),
        CLAUDE_COST,
    ),
    "codex": (events(*CODEX), AgentUsage(24885, 24448, None)),
    "codex, two turns": (events(*CODEX, *CODEX[1:]), AgentUsage(49770, 48896, None)),
    "gemini": (json.dumps(GEMINI, indent=2), AgentUsage(39, 20, None)),
    "gemini, one line": (json.dumps(GEMINI), AgentUsage(39, 20, None)),
    "gemini, stream": (events(*GEMINI_STREAM), AgentUsage(39, 20, None)),
    "opencode": (events(*OPENCODE), AgentUsage(23, 5, 750_000)),
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("noise", ["", "Loaded cached credentials.\n[warn] {odd}\n"])
def test_the_answer_is_found_in_what_a_cli_wraps_around_it_and_so_is_its_cost(name, noise):
    output, cost = WRAPPED[name]
    found = answers.checked("reviewer", f"{noise}{output}".encode())
    assert (found.value, found.problem) == (REVIEW, None)
    assert clis.of(found) == cost


def test_an_answer_before_the_last_words_still_is_the_last_object():
    bye = {"type": "item.completed", "item": {"type": "agent_message", "text": "That is all."}}
    assert read(events(*CODEX[:-1], bye, CODEX[-1])) == REVIEW


def test_what_is_printed_after_the_events_of_a_cli_goes_before_what_is_in_them():
    assert read(events(*CODEX) + 'The wrapper says:\n{"a": 1}\n') == {"a": 1}


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            events({"type": "result", "subtype": "error_max_turns", "is_error": True}),
            "its program says: error_max_turns",
        ),
        (
            events({**CLAUDE, "is_error": True, "result": "API Error: 529 overloaded"}),
            "its program says: API Error: 529 overloaded",
        ),
        (
            events(*CODEX[:2], {"type": "turn.failed", "error": {"message": "usage limit"}}),
            "its program says: usage limit",
        ),
        (events(*CODEX[:2], {"type": "error", "message": "no such model"}), "no such model"),
        (
            json.dumps({"session_id": "5f", "error": {"type": "Auth", "message": "log in"}}),
            "its program says: log in",
        ),
        (
            events({"type": "error", "error": {"name": "E", "data": {"message": "x"}}}),
            "its program says: x",
        ),
        (events(*CODEX[:2], CODEX[-1]), "it said nothing"),
        (events({**CLAUDE, "result": "I could not."}), "it ends with: I could not."),
    ],
)
def test_a_cli_s_own_words_are_told_where_there_is_no_answer(output, reason):
    assert reason in problem(output)


@pytest.mark.parametrize(
    ("structured", "value", "reason"),
    [
        ('{"a": "\\ud800\\u0000"}', {"a": "\ufffd\ufffd"}, None),
        ('{"a": NaN}', None, "there is no JSON object in its answer; it ends with: Done."),
        ('{"a": ' * 300 + "1" + "}" * 300, None, "nested deeper than 100"),
        ("{}", None, "there is no JSON object in its answer; it ends with: Done."),
    ],
)
def test_an_answer_that_a_cli_parsed_itself_is_held_to_the_same(structured, value, reason):
    event = {"type": "result", "subtype": "success", "result": "Done.", "structured_output": 0}
    found = answers.read_answer(json.dumps(event).replace(": 0}", f": {structured}}}").encode())
    assert found.value == value
    assert (found.problem is None) if reason is None else (reason in found.problem)


def test_what_is_told_can_be_stored():
    told = problem(json.dumps({"type": "error", "message": "no \ud800 \0 rights"}))
    assert told.endswith("its program says: no \ufffd \ufffd rights")


def test_what_is_told_of_much_is_short_and_on_one_line():
    told = problem(b"word\n" * 100_000)
    assert len(told) < 400
    assert "\n" not in told


def test_an_answer_that_breaks_its_contract_is_none_and_all_of_that_is_told():
    found = answers.checked("reviewer", b'{"recommendation": "OK", "issues": []}')
    assert found.value is None
    assert found.problem == (
        'it breaks its contract: recommendation is "OK", and must be one of "APPROVE", "REVISE", '
        '"ESCALATE"; plan_conformance is missing'
    )


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"tokens": 7, "cost_usd": 0.5}, AgentUsage(7, None, 500_000)),
        ({"input_tokens": 5, "output_tokens": 1, "cached_tokens": 4}, AgentUsage(6, 4, None)),
        ({"tokens": -1, "cost_usd": -1}, AgentUsage()),
        ({"tokens": True, "cost_usd": True}, AgentUsage()),
        ({"tokens": 1.5, "cost_usd": "1"}, AgentUsage()),
        ({"tokens": 1e9}, AgentUsage(1_000_000_000)),
        ({"tokens": 1 << 60, "cost_usd": 1e30}, AgentUsage()),
        ({"tokens": None, "cost_usd": 10**400}, AgentUsage()),
        ("much", AgentUsage()),
        (None, AgentUsage()),
    ],
)
def test_an_answer_may_tell_its_own_cost(own, told):
    assert clis.of(answers.AgentAnswer({"usage": own}, None, [])) == told


def test_without_a_word_about_it_the_cost_is_unknown_and_unknown_adds_nothing():
    assert clis.of(answers.read_answer(LINE.encode())) == AgentUsage(None, None, None)
    assert clis.of(answers.read_answer(b"")) == AgentUsage(None, None, None)
    assert clis.total(
        [AgentUsage(), AgentUsage(3), AgentUsage(4, 1, 5), AgentUsage()]
    ) == AgentUsage(7, 1, 5)
    assert clis.total([]) == AgentUsage()


@pytest.mark.parametrize("odd", [None, 3, "x", [], [1], {"a": "x"}])
@pytest.mark.parametrize("field", ["usage", "stats", "part", "message", "item", "total_cost_usd"])
def test_odd_events_are_no_trouble(odd, field):
    for event in (CLAUDE, GEMINI, *CODEX, *OPENCODE, *CLAUDE_STREAM, *GEMINI_STREAM):
        found = answers.read_answer(json.dumps({**event, field: odd}).encode())
        assert isinstance(clis.of(found), AgentUsage)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("ab{}\"'\\:,", max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)
OBJECTS = st.dictionaries(st.text('ab{}[]"\\,: \n', min_size=1, max_size=6), VALUES, min_size=1)
#: Prose that can end no string and close no object: nothing in it reaches what follows.
PROSE = st.text("ab \n`~'.,;:-!()<>#*", max_size=40)
SOUP = st.lists(
    st.sampled_from(
        [
            *('{"', "{", "}", "[", "]", '"', "\\", ":", ",", "1", "-", "e", "true", "null", " "),
            *('{"a":1}', '"type":"result"', '"result":"', "```", "\x00", "\u2028", "\n", "a"),
        ]
    ),
    max_size=60,
).map("".join)


@examined(short=100)
@given(
    value=OBJECTS,
    before=PROSE,
    after=PROSE,
    indent=st.sampled_from([None, 0, 2]),
    raw=st.booleans(),
)
def test_any_object_is_found_between_any_prose(value, before, after, indent, raw):
    output = before + json.dumps(value, indent=indent, ensure_ascii=raw) + after
    assert read(output) == value


@examined(short=100)
@given(value=OBJECTS, soup=SOUP)
def test_an_object_after_anything_that_ends_is_found(value, soup):
    # What ends all that may be open, whichever way the quotes are paired.
    output = soup + ' `" `" ` ' + json.dumps(value)
    assert read(output) == value


@examined(short=100)
@given(soup=SOUP)
def test_what_is_found_in_anything_is_the_last_there_is(soup):
    try:
        found = answers.last(soup)
    except answers.NotUsable:
        return
    assert found == slowly(soup)


class Noting(json.JSONDecoder):
    """Notes where it comes upon an object."""

    def __init__(self) -> None:
        super().__init__(strict=False, object_pairs_hook=answers._unique_fields)
        self.starts: list[int] = []
        self.parse_object = self._noted
        self.scan_once = json.scanner.py_make_scanner(self)

    def _noted(self, place: tuple[str, int], *how: object) -> tuple[dict, int]:
        self.starts.append(place[1] - 1)
        return json.decoder.JSONObject(place, *how)


def slowly(text: str) -> dict | None:
    """The same by trying every beginning: obviously right, and hopelessly slow."""
    best, parts = (0, 0, None), set()
    for start in (at for at, mark in enumerate(text) if mark == "{"):
        if start in parts:
            continue
        decoder = Noting()
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, answers.NotUsable):
            # Of what breaks off no part is taken, be it whole.
            parts.update(decoder.starts)
            continue
        if value and end > best[0]:
            best = (end, start, value)
    return best[2]


@examined(short=100)
@given(output=st.binary(max_size=300) | SOUP.map(str.encode))
def test_no_output_is_trouble(output):
    found = answers.checked("coder", output)
    assert (found.value is None) == (found.problem is not None)
    assert isinstance(clis.of(found), AgentUsage)


@examined(short=150)
@given(name=st.sampled_from(sorted(WRAPPED)), data=st.data())
def test_whatever_is_done_to_what_a_cli_wraps_an_answer_in_is_no_trouble(name, data):
    """Bytes replaced, doubled and left out; what is taken for an answer keeps the contract."""
    output = bytearray(WRAPPED[name][0].encode())
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(output)))
        new = data.draw(st.binary(max_size=3) | SOUP.map(str.encode) | st.just(bytes(output[:40])))
        output[start : start + data.draw(st.sampled_from([0, 1, len(new), 50]))] = new
    found = answers.checked("reviewer", bytes(output))
    assert (found.value is None) == (found.problem is not None)
    assert found.value is None or contracts.problems("reviewer", found.value) == []
    spent = clis.of(found)
    assert all(part is None or 0 <= part < 1 << 62 for part in spent)
