"""Shell commands taken apart: nothing that would run is overlooked, and odd ones are refused."""

import random
import shutil
import subprocess

import pytest

from tugtool.agents.guard import rules, shell
from tugtool.agents.guard.judge import Refused
from tugtool.agents.guard.line import CommandLine
from tugtool.agents.guard.location import UNKNOWN as X
from tugtool.agents.guard.location import AgentLocation

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
    "a \\\n b": ["a b"],
    "a \"b\\\nc\" 'd\\\ne'": ["a bc d\\\ne"],
    "# a \\\nb": ["b"],
    "a # b \\\nc": ["a", "c"],
    "g\\it co'mm'it": ["git commit"],
    "a $x ${y} $1 $? *.py a[0] {b,c}": [f"a {X} {X} {X} {X} {X}.py a{X} {X}"],
    "a .t{b,'c'$(d)}e .[t]f {b": [f"a .t{X}e .{X}f {X}", "d"],
    "x=$(mktemp -d); a $(mktemp) $(mktemp ./b)": [
        *("mktemp -d", "mktemp", "mktemp ./b", "", f"a /tmp/tmp.XXXXXXXXXX {X}"),
    ],
    "a <<EOF | b\n$(c) `d` 'e\nEOF\nf": ["c", "d", "a", "b", "f"],
    "a <<'EOF' <<-X\n$(c)\nEOF\n\t$(d)\n\tX\nf": ["a", "d", "f"],
    "a $(b <<EOF\n)\nEOF\n) c": [f"a {X} c", "b"],
    "a <<EOF": ["a"],
    "a <<EOF\nx": ["a"],
    "a $'\\x67it'": [f"a {X}"],
    'a $"b"': ["a b"],
    "a 'it costs $5' \"a $\"": ["a it costs $5 a $"],
    "[[ a > b && c < d ]] && e": ["[[", "e"],
    "[[ a == <(b) ]]": ["[[", "b"],
    "a ${x:-<(b)}": [f"a {X}", "b"],
    "a $((1 + $(b)))": ["b", f"a {X}"],
    "a '' \"\"": ["a  "],
    "case $x in a|b) c;; (*.d) e; f ;;& 'g h') ;& esac; i": ["c", "e", "f", ":", "i"],
    "case $(a) in\n b) c\n esac": ["a", "c", ":"],
    "a $(case b in c) d;; esac)": [f"a {X}", "d", ":"],
    "x=(a 'b c'\n d); e \"${x[@]}\" ${#x[@]}": ["", f"e a b c d {X}"],
    'x=(); for y in "${x[@]}"; do a $y; done': ["", ": y in", f"a {X}", ":"],
    "f() { a $1 $#; }; f b; f c": [f"a {X} {X}", ":", f"a b {X}", f"a c {X}"],
    'function f { a "$@"; }; x=$(f b)': [f"a {X}", ":", "a b", ""],
    "f ()\n{ a\n}\nf | b": ["a", ":", "a", "b"],
    "f() { g; }; g() { a; }; f": ["g", ":", "a", ":", "a"],
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
    "a <<EOF\nx\\\nEOF": "lines that go on",
    "a <<$(b)\nx\nEOF": "the end of its here-document",
    "a <<EOF$PWD\n$(b)\nEOF": "the end of its here-document",
    "a {-b,c}": "options in braces",
    "a 'b": "' is missing",
    'a "b': '" is missing',
    "a $(b": ") is missing",
    "a `b": "` is missing",
    "a ${b": "} is missing",
    "a)": ") too many",
    "[[ a": "]] is missing",
    "f() ( a )": "defines a function",
    "if a; then f() { a; }; fi": "defines a function",
    "f() { a; } > x": "defines a function",
    "f() { a; }; f() { b; }": "defines a function",
    "f() { g() { a; }; }": "defines a function",
    "f() { shift; }; f x": "defines a function",
    "f() { f; }; f": "nested too deeply",
    "f() { a ${1:-x}; }; f y": "parameter in an odd way",
    "f() { a $1; }; f": "parameter in an odd way",
    "f() { a $1; }; f 'x y'": "parameter in an odd way",
    "f() { a; }; A=b f": "settings or a text",
    "f() { a; }; trap f EXIT": "defines a function",
    "f() { a; }; export -f f": "defines a function",
    "case a in b c;; esac": "pattern that cannot be read",
    "case a on b) c;; esac": "without an in",
    "a ;; b": "outside of a case",
    "a (b)": "defines a function",
    "a b(c)": "sets an array",
    "declare -a x=(a)": "sets an array",
    "x=(a); x+=(b)": "sets an array",
    "x=(a); x=b": "sets an array",
    "x=(a); unset x": "sets an array",
    "x=(a); y=(b); eval c": "sets an array",
    "x=([1]=a)": "sets an array",
    "(x=(a))": "sets an array",
    "x=(a); b $x": "array or a parameter",
    "x=(a); b ${x[0]}": "array or a parameter",
    'x=(a); b c"${x[@]}"': "array or a parameter",
    'x=(git); "${x[@]}" commit': "part of a command",
    "a &>(b)": "a word is missing",
    "a\0b": "NUL",
    "a " + "$(a " * 50 + ")" * 50: "nested too deeply",
    "(" * 50 + "a" + ")" * 50: "nested too deeply",
    "a && " * 200 + "a": "joins very many commands",
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


#: What odd commands are made of.
PIECES = (
    *("`git commit`", "$(git commit)", "(git commit)", "<(git commit)"),
    *("git commit", "\ngit commit\n", " git commit ", "'git commit'", '"git commit"', "git", "f"),
    *(" ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{ ", "; }", "'", '"', "`", "$(", "\\", "#"),
    *("$((", "))", "${x:-", "}", "$'", "$", "*", "\\\n", "=", "x=", "A=1 ", "$x", "2>&1", "<("),
    *("if true; then ", "; fi", "for x in a b; do ", "; done", "while false; do ", "! ", "time "),
    *("<<EOF", "<<'EOF'", "<<-EOF", "\nEOF\n", "\n\tEOF\n", "<<E\\\nOF", "{a,", "[", "]", "<<< "),
    *("x=git", "$PWD", "$(pwd)", "timeout 5 ", "exec -a b ", "exec env A=b "),
    *("case a in a) ", " ;; ", ";; esac", "x=(git commit) ", '"${x[@]}"', "f() { ", "; }; f "),
    *("function f { ", "f git", ' "$@"', " $1"),
    *("echo ", "sh -c ", "eval ", "env ", "xargs ", "exec ", "command ", "[[ ", " ]]", "f() "),
)


def test_whatever_bash_would_run_was_seen(tmp_path):
    binaries, here = tmp_path / "bin", tmp_path / ".tugtree" / "here"
    binaries.mkdir()
    here.mkdir(parents=True)
    (here / ".git").write_text("gitdir: elsewhere\n")
    ran = tmp_path / "ran"
    (binaries / "git").write_text(f'#!/bin/sh\ntest "$1" != commit || echo > {ran}\n')
    (binaries / "git").chmod(0o755)
    for name in ("sh", "env", "xargs", "echo", "timeout"):
        (binaries / name).symlink_to(shutil.which(name))
    draw = random.Random(7)
    let = 0
    for _ in range(1500):
        text = "".join(draw.choice(PIECES) for _ in range(draw.randint(1, 8)))
        try:
            CommandLine(rules.ROLES["coder"], AgentLocation(str(here))).judge(text)
        except Refused:
            continue
        let += 1
        subprocess.run(
            [shutil.which("bash"), "-c", text],
            env={"PATH": str(binaries)},
            cwd=here,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert not ran.exists(), text
    assert let > 100


def test_a_tilde_before_what_is_not_known_is_a_name_like_any_other(tmp_path):
    names = AgentLocation(str(tmp_path)).names(f"~{X}/a")
    assert names[0] == f"{tmp_path}/~{X}/a"
    AgentLocation(str(tmp_path)).go(f"~{X}")
