"""Which machine this is: from the host's own id, which nobody else learns, or from a variable."""

import ctypes
import hashlib
import os
import sys
from types import SimpleNamespace

import pytest

from tugtool.store import owners


@pytest.fixture
def no_host(monkeypatch, tmp_path):
    """A host without an id of its own; the file in which it would be."""
    monkeypatch.setattr(owners, "_ID_FILES", (str(tmp_path / "no"), str(tmp_path / "id")))
    monkeypatch.setattr(owners.sys, "platform", "linux")
    return tmp_path / "id"


def test_the_id_is_made_from_the_hosts_own_and_does_not_tell_it(no_host):
    no_host.write_text("0123456789abcdef\n")
    digest = hashlib.blake2s(b"0123456789abcdef", key=b"tugtool", digest_size=6).hexdigest()
    here = owners.this_machine()
    assert here.id == digest
    assert here.name == owners.machine_name(os.uname().nodename)


@pytest.mark.parametrize("content", [None, "", "\n", "uninitialized\n"])
def test_a_host_without_an_id_is_known_by_its_name(no_host, content):
    if content is not None:
        no_host.write_text(content)
    here = owners.this_machine()
    assert here.id == here.name == owners.machine_name(os.uname().nodename)


def test_a_name_can_be_given_to_a_container_that_shares_the_hosts_id(no_host):
    no_host.write_text("0123456789abcdef\n")
    here = owners.this_machine("runner:7/a")
    assert (here.id, here.name) == ("runner-7-a", "runner-7-a")
    assert owners.this_machine("::").id == owners.this_machine().id


def test_the_id_is_the_same_where_the_small_module_is_missing(no_host, monkeypatch):
    no_host.write_text("0123456789abcdef\n")
    before = owners.this_machine().id
    monkeypatch.setitem(sys.modules, "_blake2", None)
    assert owners.this_machine().id == before


def test_a_mac_has_its_id_in_no_file(no_host, monkeypatch):
    """Elsewhere there is no such function, and the name has to do."""
    monkeypatch.setattr(owners.sys, "platform", "darwin")
    there = owners._darwin_id()
    assert len(there) in (0, 16)
    assert owners.this_machine().id


@pytest.mark.parametrize("status", [0, -1])
def test_a_macs_id_is_what_its_system_fills_in_unless_it_fails(no_host, monkeypatch, status):
    """A function with the system's signature stands in for it: 16 bytes, and a timespec."""
    waits = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_ubyte), ctypes.c_void_p)
    def gethostuuid(uuid, wait):
        waits.append([*(ctypes.c_long * 2).from_address(wait)])
        for number in range(16):
            uuid[number] = number
        return status

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(gethostuuid=gethostuuid))
    monkeypatch.setattr(owners.sys, "platform", "darwin")
    digest = hashlib.blake2s(bytes(range(16)), key=b"tugtool", digest_size=6).hexdigest()
    here = owners.this_machine()
    assert here.id == (here.name if status else digest)
    assert waits == [[1, 0]]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("till", "till"),
        ("a.b_c-D9", "a.b_c-D9"),
        ("-x-", "x"),
        ("ä:b/ c", "b--c"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_name_can_stand_before_a_colon_and_a_path(name, kept):
    assert owners.machine_name(name) == kept
