"""Git's objects as bytes; git itself is the judge."""

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import git
from tugtool import objects
from tugtool.objects import Object


def unpacked(path, pack: bytes) -> None:
    subprocess.run(["git", "unpack-objects", "-q", "--strict"], cwd=path, input=pack, check=True)


def raw(path, kind: str, name: str) -> bytes:
    words = ["git", "cat-file", kind, name]
    return subprocess.run(words, cwd=path, check=True, capture_output=True).stdout


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=64), st.integers(0, 70_000).map(bytes)))
def test_git_finds_what_was_packed_under_the_name_we_gave_it(repo, data):
    made = Object("blob", data, 20)
    unpacked(repo.path, objects.packed([made]))
    assert raw(repo.path, "blob", made.name.hex()) == data


@pytest.mark.parametrize(("form", "length"), [("sha1", 20), ("sha256", 32)])
def test_a_tree_with_one_entry_replaced_is_a_tree(tmp_path, form, length):
    git("init", "--quiet", f"--object-format={form}", str(tmp_path), cwd=tmp_path)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    (tmp_path / "b").chmod(0o755)
    git("add", "--all", cwd=tmp_path)
    tree = git("write-tree", cwd=tmp_path).strip()
    blob = Object("blob", b"other", length)
    changed = objects.replaced(raw(tmp_path, "tree", tree), "b", blob)
    made = Object("tree", changed, length)
    unpacked(tmp_path, objects.packed([blob, made]))
    before = git("ls-tree", tree, cwd=tmp_path).splitlines()
    after = git("ls-tree", made.name.hex(), cwd=tmp_path).splitlines()
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1] == f"100755 blob {blob.name.hex()}\tb"
    assert git("cat-file", "blob", f"{made.name.hex()}:b", cwd=tmp_path) == "other"


def test_a_name_that_a_tree_does_not_have_cannot_be_replaced():
    with pytest.raises(KeyError):
        objects.replaced(b"100644 a\0" + bytes(20), "b", Object("blob", b"", 20))
