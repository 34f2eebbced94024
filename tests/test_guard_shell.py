"""Shell commands taken apart: nothing that would run is overlooked, and odd ones are refused."""

import pytest

from tugtool.guard import shell
from tugtool.guard.shell import UNKNOWN as X

#: A command, and the programs with their words that it would run, whatever comes of them.
CASES = {
    "a b": ["a b"],
    "a 'b c' \"d e\" f\\ g": ["a b c d e f g"],
    "a; b && c || d | e & f\ng": ["a", "b", "c", "d", "e", "f", "g"],
    "a |& b": ["a", "b"],
    "(a; (b))": ["a", "b"],
    "{ a; b; }": ["a", "b", ":"],
    "a $(b $(c)) `d`": ["b " + X, "c", "d", "a " + X + " " + X],
    'a "$(b)" "${x:-$(c)}"': ["b", "c", f"a {X} {X}"],
    "a <(b) >(c)": ["b", "c", f"a {X} {X}"],
    "if a; then b; else c; fi": ["a", "b", "c", ":"],
    "for x in $(a); do b $x; done": ["a", f": x in {X}", f"b {X}", ":"],
    "while ! a; do b; done": ["a", "b", ":"],
    "time a": ["a"],
    "X=1 Y='2 3' a": ["a"],
    "a # b; c\nd": ["a", "d"],
    "a\\\nb": ["ab"],
    "g\\it co'mm'it": ["git commit"],
    "a $x ${y} $1 $? *.py a[0] {b,c}": [f"a {X} {X} {X} {X} {X}.py a{X}0] {X}b,c}}"],
    "a $'\\x67it'": [f"a {X}"],
    'a $"b"': ["a b"],
    "a 'it costs $5' \"a $\"": ["a it costs $5 a $"],
    "[[ a > b && c < d ]] && e": ["[[", "e"],
    "a $((1 + $(b)))": ["b", f"a {X}"],
    "a '' \"\"": ["a  "],
}
WRITES = {
    "a > f": ["f"],
    "a >> f 2> g": ["f", "g"],
    "a &> f": ["f"],
    "a >& f": ["f"],
    "a > 1": ["1"],
    "a >| f": ["f"],
    "a <> f": ["f"],
    "> f a": ["f"],
    "> f": ["f"],
    "a 2>&1 >&2 3>&-": [],
    "a < f": [],
    "a <<< 'text > f'": [],
    "a 'x > f' \\> g": [],
    "a > $x": [X],
}
UNCLEAR = {
    "a <<EOF\nx\nEOF": "here-document",
    "a <<-EOF\nx\nEOF": "here-document",
    "a 'b": "' is missing",
    'a "b': '" is missing',
    "a $(b": ") is missing",
    "a `b": "` is missing",
    "a ${b": "} is missing",
    "a)": ") too many",
    "[[ a": "]] is missing",
    "f() { a; }": "defines a function",
    "function f { a; }": "defines a function",
    "case a in b) c;; esac": "has a case",
    "x=(a b)": "sets an array",
    "a\0b": "NUL",
    "a " + "$(a " * 50 + ")" * 50: "nested too deeply",
    "(" * 50 + "a" + ")" * 50: "nested too deeply",
    "a" * 100_001: "over 100000 characters",
}


@pytest.mark.parametrize("text", CASES)
def test_every_command_that_would_run_is_found(text):
    found = [" ".join(each.words) for each in shell.commands(text)]
    assert sorted(found) == sorted(CASES[text])


@pytest.mark.parametrize("text", WRITES)
def test_every_file_that_would_be_written_is_found(text):
    assert [path for each in shell.commands(text) for path in each.writes] == WRITES[text]


@pytest.mark.parametrize("text", UNCLEAR, ids=lambda text: text[:20].replace("\0", "NUL"))
def test_what_cannot_be_taken_apart_says_why(text):
    with pytest.raises(shell.Unclear, match=UNCLEAR[text].replace(")", "\\)")):
        shell.commands(text)


def test_variables_in_front_of_a_program_are_found():
    [found] = shell.commands("TUGCODE_ROLE= A=b tugcode x")
    assert found.assigned == ["TUGCODE_ROLE=", "A=b"]
    assert found.words == ["tugcode", "x"]
