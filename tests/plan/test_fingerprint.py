"""The hash of a plan: the same whatever computes it, and whatever the line ends."""

import hashlib
import sys

import pytest

from tugtool.plan import fingerprint


@pytest.mark.parametrize("size", [0, 1, 1000, 256 * 1024, 256 * 1024 + 1, 2_000_000])
def test_it_is_sha_256_at_every_size(size):
    data = b"# plan\n" * (size // 7) + b"x" * (size % 7)
    assert fingerprint.of(data) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("missing", [["_sha256"], ["_sha256", "_sha2"]])
def test_it_is_the_same_where_the_small_modules_are_missing(monkeypatch, missing):
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    assert fingerprint.of(b"a plan") == hashlib.sha256(b"a plan").hexdigest()


def test_line_ends_of_another_system_are_no_change():
    assert fingerprint.of(b"a\r\nb\r\n") == fingerprint.of(b"a\nb\n")
    assert fingerprint.of(b"a\rb") != fingerprint.of(b"a\nb")


def test_a_file_has_the_hash_of_its_text_whatever_its_size(tmp_path):
    for text in (b"", b"a plan\r\n", b"x" * 3_000_000):
        (tmp_path / "plan.md").write_bytes(text)
        assert fingerprint.of_file(str(tmp_path / "plan.md")) == fingerprint.of(text)
