"""Durations in words, and times as text and back."""

import pytest

from tugtool.system import clock
from tugtool.system.clock import duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0s"),
        (0, "0s"),
        (0.999, "0s"),
        (45, "45s"),
        (59.9, "59s"),
        (60, "1m"),
        (12 * 60 + 59, "12m"),
        (3600, "1h"),
        (3900, "1h 05m"),
        (6300, "1h 45m"),
        (86399, "23h 59m"),
        (86400, "1d"),
        (3 * 86400 + 4 * 3600 + 3599, "3d 4h"),
        (1e9, "11574d 1h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize("milliseconds", [0, 1, 1_771_848_000_123, 253_402_300_799_999])
def test_a_time_can_be_read_back(milliseconds):
    assert clock.milliseconds(clock.text(milliseconds)) == milliseconds


def test_time_between_is_told_in_seconds():
    early, late = clock.text(1_000), clock.text(3_500)
    assert clock.seconds_between(early, late) == 2.5
    assert clock.seconds_between(late, early) == -2.5
