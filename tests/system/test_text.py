"""What other programs wrote, made harmless and short."""

import json

import pytest

from tugtool.system import text


def tail(data: bytes, characters: int = 100, lines: int = 3) -> str:
    return text.tail(data, most_characters=characters, most_lines=lines)


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b"", ""),
        (b"\n\nplain\n\n", "plain"),
        (b"a\nb\nc\nd\n", "b\nc\nd"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        (b"bell\x07 nul\x00 del\x7f", "bell nul del"),
        (b" 10%\r 50%\r100%\r\ndone", "100%\ndone"),
        (b"a\tb", "a       b"),
        ("bidi \u202e\u200bx".encode(), "bidi x"),
        (b"\xff\xfe bytes", "\ufffd\ufffd bytes"),
        ("grün €".encode(), "grün €"),
        (b"x" * 500, "x" * 100),
        (b"half \x1b[31", "half"),
    ],
)
def test_the_end_of_it_is_kept_without_what_could_act_on_a_terminal(data, kept):
    assert tail(data) == kept


def test_every_line_of_random_bytes_can_be_printed():
    data = bytes(range(256)) * 20
    assert all(line.isprintable() for line in tail(data, 5000, 200).split("\n"))


@pytest.mark.parametrize(
    "value",
    [
        {"a": None, "b": True, "c": False, "d": -7, "e": "plain", "f": {}, "g": []},
        {"nested": [{"x": ["y", {"z": 1}]}, [], {}]},
        {"long": list(range(9)), "short": list(range(8))},
        {1: "a key that is a number", None: 2},
        {'"': "quoted", "back\\slash": "x"},
        ["\x7f", "\x00", "\n", "\u202e", "grün €", "\U0001f600", '"', "\\", ""],
        [1.5, -0.0, 1e300, 10**30, (1, 2)],
        "a text by itself",
    ],
)
def test_an_answer_is_the_json_that_the_ordinary_encoder_writes(value, monkeypatch):
    """By the first texts of a process, which are written without the encoder, and by later ones."""
    for left in (1, 0):
        monkeypatch.setattr(text, "_left", left)
        assert text.encode(value) == json.dumps(value)


def test_a_value_that_json_does_not_know_is_refused_by_name():
    with pytest.raises(TypeError, match="no JSON for set"):
        text.encode({"a": {1}})
