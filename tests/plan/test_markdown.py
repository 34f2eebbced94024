"""Which lines of a Markdown text count, and what each one is."""

import pytest

from tugtool.plan import markdown
from tugtool.plan.markdown import Label


def fenced(text: str) -> list[int]:
    """Numbers of the lines that belong to fenced code."""
    return [line.number for line in markdown.lines(text) if line.fenced]


def bodies(text: str) -> list[str]:
    """What is left of each line."""
    return [line.body for line in markdown.lines(text)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("```\na\n```\nb", [1, 2, 3]),
        ("~~~\na\n~~~\nb", [1, 2, 3]),
        ("```python\na\n```\nb", [1, 2, 3]),
        ("```\na\n`````\nb", [1, 2, 3]),
        ("`````\na\n```\nb\n`````\nc", [1, 2, 3, 4, 5]),
        ("```\na\n~~~\nb\n```\nc", [1, 2, 3, 4, 5]),
        ("~~~ a`b\na\n~~~\nb", [1, 2, 3]),
        ("```\na\n``` b\nc\n```\nd", [1, 2, 3, 4, 5]),
        ("```\na\n```  \t\nb", [1, 2, 3]),
        ("```\n\na\n\n", [1, 2, 3, 4]),
        ("   ```\na\n   ```\nb", [1, 2, 3]),
        ("```\na\n    ```\nb", [1, 2, 3, 4]),
        ("a\n```\nb", [2, 3]),
    ],
)
def test_a_fence_runs_to_its_closing_line_or_to_the_end(text, numbers):
    assert fenced(text) == numbers


@pytest.mark.parametrize("text", ["``` a`b\na", "``\na\n``", "    ```\na", "\t~~~\na", "> ```\na"])
def test_what_is_not_a_fence_hides_nothing(text):
    assert fenced(text) == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("- a\n  ```\n  b\n  ```\n  c", [2, 3, 4]),
        ("- ```\n  b\n  ```\n- c", [1, 2, 3]),
        ("- a\n  - b\n    ```\n    c\n    ```\n    d", [3, 4, 5]),
        ("- a\n  - b\n    - c\n      ```\n      d\n      ```\n      e", [4, 5, 6]),
        ("1. a\n   ~~~\n   b\n   ~~~\n2. c", [2, 3, 4]),
        ("10) a\n    ```\n    b\n    ```\nc", [2, 3, 4]),
        ("- a\n\t```\n\tb\n\t```\nc", [2, 3, 4]),
        ("- - - ```\n      a\n      ```\nb", [1, 2, 3]),
    ],
)
def test_a_fence_inside_a_list_item_is_measured_from_the_items_text(text, numbers):
    assert fenced(text) == numbers


def test_the_end_of_the_list_item_ends_its_fence():
    assert fenced("- a\n  ```\n\n  b\nc\n- d") == [2, 3, 4]


def test_a_fence_beside_the_list_is_not_ended_by_it():
    assert fenced("- a\n```\n- b\n```\nc") == [2, 3, 4]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1. a\nlazy\n     ```\n     b\n     ```\nc", [3, 4, 5]),
        ("1. a\n    - b\n     ```\n     c", [3, 4]),
        ("   1. a\n    - b\n      ```\n      c", [3, 4]),
        ("1. a\n\nb\n     ```\n     c", []),
        ("1. # a\nb\n     ```\n     c", []),
        ("1. a\n> b\n     ```\n     c", []),
    ],
)
def test_a_lazy_line_goes_on_with_the_items_paragraph_and_keeps_the_item_open(text, numbers):
    assert fenced(text) == numbers


def test_lists_deeper_than_anybody_nests_them_in_one_line_are_text():
    assert fenced("- - - - ```\n        a\n        ```\nb") == [1, 2, 3]
    assert fenced("- - - - - ```\n          a\nb") == []


def test_four_more_spaces_than_the_items_text_are_no_fence():
    assert fenced("- a\n      ```\n  b") == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<!-- a -->\nb", ["", "b"]),
        ("<!--\na\n-->\nb", ["", "", "", "b"]),
        ("<!-- a\n\nb\n\n-->\nc", ["", "", "", "", "", "c"]),
        ("a <!-- b --> c", ["a  c"]),
        ("a <!-- b --> c <!-- d -->", ["a  c"]),
        ("a <!-- b\nc --> d\ne", ["a", "d", "e"]),
        ("<!-- a --> b", ["b"]),
        ("<!-- a\n--> b <!-- c -->", ["", "b"]),
        ("<!--> a\nb", ["a", "b"]),
        ("<!---> a\nb", ["a", "b"]),
        ("  <!-- a\nb -->\nc", ["", "", "c"]),
        ("- a\n  <!-- b\n  c -->\n- d", ["- a", "", "", "- d"]),
        ("    <!-- a -->\nb", ["", "b"]),
        ("<!-- a\n```\n-->\nb", ["", "", "", "b"]),
    ],
)
def test_comments_are_taken_out(text, left):
    assert bodies(text) == left


def test_an_unclosed_comment_at_the_start_of_a_line_runs_to_the_end():
    assert bodies("a\n<!-- b\n\nc\n# d") == ["a", "", "", "", ""]


@pytest.mark.parametrize(
    "text",
    [
        "a <!-- b",
        "a <!-- b\n\nc --> d",
        "a <!-- b\nc <!-- d\n\ne --> f",
        "a `<!--` b\nc --> d",
        "a `<!-- b` c --> d",
    ],
)
def test_an_opening_within_a_line_that_nothing_closes_is_text(text):
    assert bodies(text) == text.split("\n")


def test_a_closing_in_a_code_span_does_not_close():
    assert bodies("a <!-- b `-->` c --> d") == ["a  d"]


def test_a_comment_in_fenced_code_is_code():
    assert bodies("```\n<!-- a\n```\nb") == ["```", "<!-- a", "```", "b"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("# a", (1, "a")),
        ("###### a", (6, "a")),
        ("####### a", None),
        ("#a", None),
        ("#\ta", (1, "a")),
        ("## a ##", (2, "a")),
        ("## a ########  ", (2, "a")),
        ("## a#", (2, "a#")),
        ("## C# ##", (2, "C#")),
        ("##", (2, "")),
        ("## ##", (2, "")),
        ("#   a  b ", (1, "a  b")),
        ("a", None),
    ],
)
def test_a_heading_is_one_to_six_hashes_and_a_space(body, found):
    assert markdown.heading(body) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("**Tests:**", Label("tests", "")),
        ("**Tests**:", Label("tests", "")),
        ("**Tests** :", Label("tests", "")),
        ("**Tests**", Label("tests", "")),
        ("__Tests:__", Label("tests", "")),
        ("***Tests:***", Label("tests", "*")),
        ("**TESTS:** all of them ", Label("tests", "all of them")),
        ("**Tests**: all", Label("tests", "all")),
        ("**Tests (15 in all):** a", Label("tests", "a")),
        ("**Tests (15 in all)**", Label("tests", "")),
        ("**Tests** (15 in all):", Label("tests", "")),
        ("**Tests** (15 (or so) in all): a", Label("tests", "a")),
        ("**Depends on:** #a", Label("depends on", "#a")),
        ("**(Tests):**", Label("(tests)", "")),
        ("**Commit after the tests pass.**", Label("commit after the tests pass.", "")),
        ("**Tests** (15 in all)", None),
        ("**Tests** all", None),
        ("**Tests (a", None),
        ("*Tests:*", None),
        ("Tests:", None),
        ("- **Tests:**", None),
        ("**Tests** (a(b(c))):", None),
    ],
)
def test_a_label_is_bold_text_with_a_colon_or_alone(body, found):
    assert markdown.label(body) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("- [ ] a", (False, "a")),
        ("* [x] a", (True, "a")),
        ("+ [X] a ", (True, "a")),
        ("-   [ ]\ta", (False, "a")),
        ("-\t[ ] a", (False, "a")),
        ("- [ ]", None),
        ("- [ ]a", None),
        ("-[ ] a", None),
        ("- [] a", None),
        ("- [y] a", None),
        ("- (x) a", None),
        ("1. [ ] a", None),
        ("[ ] a", None),
        ("- a", None),
    ],
)
def test_a_box_is_a_bullet_a_bracket_and_text(body, found):
    assert markdown.box(body) == found


@pytest.mark.parametrize(
    ("body", "text"),
    [("- a", "a"), ("12. a", "a"), ("3) a", "a"), ("-", ""), ("a", None), ("-a", None)],
)
def test_a_list_item_is_its_text(body, text):
    assert markdown.without_marker(body) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("a", "a"),
        ("a `b` c", "a     c"),
        ("``a ` b`` c", "          c"),
        ("`a ``b`` c", "`a       c"),
        ("a ` b", "a ` b"),
        (r"\`a` b", r"\`a` b"),
        ("`a` `b`", "       "),
    ],
)
def test_code_spans_are_blanked_in_their_place(text, masked):
    assert markdown.mask_code(text) == masked


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_three_line_ends_count_alike(end):
    found = list(markdown.lines(end.join(["a", "", "  b", ""])))
    assert [(line.number, line.indent, line.body) for line in found] == [
        (1, 0, "a"),
        (2, 0, ""),
        (3, 2, "b"),
    ]


def test_an_empty_text_has_no_lines():
    assert list(markdown.lines("")) == []


def test_separators_that_are_no_line_ends_do_not_split():
    assert bodies("a\u2028b\x0cc\x85d") == ["a\u2028b\x0cc\x85d"]


def test_nul_becomes_the_replacement_character():
    assert bodies("a\0b") == ["a\ufffdb"]


@pytest.mark.parametrize(("text", "indent"), [("\ta", 4), ("  \ta", 4), ("   a", 3), ("a\t", 0)])
def test_a_tab_indents_to_the_next_multiple_of_four(text, indent):
    (line,) = markdown.lines(text)
    assert (line.indent, line.body) == (indent, "a")
