"""The command line against the declarations: usage errors, help, global options."""

import json

import pytest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["validte"], 'there is no command "validte"; did you mean validate?'),
        (["plan", "shwo"], 'there is no command "plan shwo"; did you mean show?'),
        (["plan", "show", "--stp", "x"], 'there is no option "--stp"; did you mean --step?'),
        (["validate", "--level"], "option --level needs a value: LEVEL"),
        (["validate", "--level=soft"], 'option --level takes lenient, normal, strict, not "soft"'),
        (["list", "--max-bytes", "0"], 'takes a whole number above 0, not "0"'),
        (["list", "--max-bytes", "-1"], 'takes a whole number above 0, not "-1"'),
        (["list", "--max-bytes", "\N{ARABIC-INDIC DIGIT ONE}"], "takes a whole number above 0"),
        (["list", "--max-bytes", "9" * 5000], "takes a whole number above 0"),
        (["init", "--check=yes"], "option --check takes no value"),
        (["plan", "show", "--step", "--help"], "needs a value, and --help is an option"),
        (["plan", "new"], "plan new needs SLUG"),
        (["list", "extra"], 'list does not know what to do with "extra"'),
        (["completion", "tcsh"], 'SHELL takes bash, zsh, fish, not "tcsh"'),
        (["plan", "show", "--step", "a", "--step", "b"], "option --step was given twice"),
        (["--", "list"], "there is no command before --"),
        (["shw"], 'there is no command "shw"; did you mean show?'),
        (["grph"], 'there is no command "grph"; did you mean plan graph?'),
        (["validate", "--level", "strct"], 'not "strct"; did you mean strict?'),
        (["validate", "--levl", "x"], 'there is no option "--levl"; did you mean --level?'),
        (["-C", "/nonexistent/dir", "list"], "there is no directory /nonexistent/dir"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(tugcode, words, message):
    text = tugcode(*words)
    assert (text.status, text.out) == (2, "")
    assert text.err.startswith("tugcode: E070: ")
    assert message in text.err
    assert "next: tugcode" in text.err

    answer = tugcode("--json", *words)
    assert answer.status == 2
    assert answer.envelope()["status"] == "error"
    assert message in answer.envelope()["issues"][0]["message"]


def test_json_may_stand_anywhere_before_the_double_dash(tugcode, repo):
    for words in (["--json", "list"], ["list", "--json"]):
        assert tugcode("-C", repo.path, *words).data == {"plans": []}
    refused = tugcode("-C", repo.path, "validate", "--", "--json")
    assert refused.out == ""
    assert "E041" in refused.err


def test_the_envelope_names_the_command(tugcode, repo):
    answer = tugcode("-C", repo.path, "--json", "plan", "show", "nothing").envelope()
    assert list(answer) == ["schema_version", "command", "status", "data", "issues"]
    assert answer["schema_version"] == "1"
    assert answer["command"] == "plan show"
    assert answer["status"] == "error"


def test_the_envelope_of_a_usage_error_names_the_command_as_far_as_it_was_recognised(tugcode):
    assert tugcode("--json", "plan", "show", "--stp").envelope()["command"] == "plan show"
    assert tugcode("--json", "plan", "shwo").envelope()["command"] == "plan"
    assert tugcode("--json", "shwo").envelope()["command"] == ""


def test_an_option_may_have_its_value_after_an_equals_sign(tugcode, repo):
    assert tugcode("-C", repo.path, "validate", "--level=strict").status == 0
    assert tugcode(f"--directory={repo.path}", "list").status == 0


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_overview_is_what_all_these_show(tugcode, words):
    from tugtool.cli import help

    shown = tugcode(*words)
    assert shown.status == 0
    assert shown.out == help.for_group("")


def test_a_group_lists_its_commands(tugcode):
    shown = tugcode("plan")
    assert "plan graph" in shown.out
    assert "completion" not in shown.out


def test_every_command_has_help_with_examples_that_parse():
    import shlex

    from tugtool.cli import help, parse

    for command in map(parse.find, parse.FAMILIES):
        assert command.examples
        shown = help.for_command(command)
        for option in command.options:
            assert option.help.split()[0] in shown
        for example, meaning in command.examples:
            assert meaning in " ".join(shown.split())
            start = example.index("tugcode")
            words = shlex.split(example[start:].removesuffix(')"').split(" | ")[0])
            assert parse.parse(words[1:]).path in parse.FAMILIES


def test_state_may_be_left_out_where_that_is_no_other_command(tugcode, desk):
    from tugtool.cli import help, parse

    for name in help.short_names():
        assert parse.parse([name, "--help"]).path == f"state {name}"
    assert parse.parse(["init"]).path == "init"
    at = desk("1 t").repo.path
    assert tugcode("-C", at, "show", "work", "--json").envelope()["command"] == "state show"
    assert "`tugcode show` is short" in tugcode("--help").out
    assert "\nclaim\t" in tugcode("complete-words", "--", "").out


def test_help_is_one_json_document_too(tugcode):
    answer = tugcode("validate", "--help", "--json")
    assert answer.data["help"].startswith("usage: tugcode validate")
    assert json.loads(answer.out)["command"] == "validate"


def test_help_wins_over_a_missing_argument(tugcode):
    assert tugcode("plan", "new", "--help").status == 0
