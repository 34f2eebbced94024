"""The trailers of a step's commit, written and read."""

import pytest

from tugtool.git import trailers

HASH = "0123456789abcdef" * 4


def test_a_set_is_three_lines():
    text = trailers.written(".tugtool/tugplan-foo.md", "step-0", plan_hash=HASH, attempt=3)
    assert text == (
        "Tug-Step: step-0\nTug-Plan: .tugtool/tugplan-foo.md\nTug-Claim: 0123456789ab/step-0/3\n"
    )


def test_a_claim_is_read_back():
    assert trailers.claim_of("0123456789ab/step-0/3", "step-0") == ("0123456789ab", 3)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0123456789ab",
        "0123456789ab/step-0",
        "0123456789ab/step-1/3",
        "0123456789a/step-0/3",
        "0123456789aX/step-0/3",
        "0123456789ab/step-0/x",
        "0123456789ab/step-0/٣",
        "0123456789ab/step-0/3333333333",
    ],
)
def test_whatever_else_is_no_claim(value):
    assert trailers.claim_of(value, "step-0") is None
