"""Reading and writing single files, whatever lies at the path."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tugtool.errors import Unreadable, Unwritable
from tugtool.system import files

#: Calls one function of `files` as somebody who is never the superuser.
CHILD = """
import os, resource, sys
from tugtool.errors import TugError
from tugtool.system import files
name, path, size, room = sys.argv[1:]
if int(room):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), int(room)))
if os.geteuid() == 0:
    os.seteuid(65534)
data = [b"x" * int(size)] if int(size) else []
try:
    print("returned", getattr(files, name)(path, *data))
except TugError as error:
    print(error.message)
"""


@pytest.fixture
def shared():
    """A directory that an ordinary user can reach and write to; pytest's own are private."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o777)
        yield Path(path)


def in_child(name: str, path: Path, *, size: int = 0, room: int = 0) -> str:
    """What the function says to an ordinary user who may write files of `room` bytes."""
    words = [sys.executable, "-c", CHILD, name, str(path), str(size), str(room)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout.removesuffix("\n")


def refusal(path: object, **options: object) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        files.read(str(path), **options)
    assert caught.value.code == "E072"
    return caught.value


@pytest.mark.parametrize("data", [b"", b"x", b"a\r\nb\n\0\xff", b"y" * (1 << 20)])
def test_a_regular_file_is_read_byte_for_byte(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    assert files.read(str(tmp_path / "file")) == data


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert files.read(str(tmp_path / "link")) == b"x"


def make_directory(path: Path) -> None:
    path.mkdir()


def make_socket(path: Path) -> None:
    # The address of a socket is short; the directory's path may not be.
    before = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
    os.chdir(before)


def make_device_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_directory, "a directory"),
        (os.mkfifo, "a FIFO"),
        (make_socket, "a socket"),
        (make_device_link, "a device"),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make, kind):
    path = tmp_path / "odd"
    make(path)
    assert refusal(path).message == f"{path} is {kind}, not a regular file"


@pytest.mark.parametrize("name", ["missing", "missing/deep", "file/below", "x" * 5000, "nul\0"])
def test_what_is_not_there_is_refused_with_the_reason(tmp_path, name):
    (tmp_path / "file").touch()
    assert "cannot be read: " in refusal(tmp_path / name).message


def test_a_link_that_leads_round_in_circles_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert "symbolic links" in refusal(tmp_path / "loop").message


def test_a_file_without_the_right_to_read_it_is_refused(shared):
    path = shared / "secret"
    path.write_bytes(b"x")
    path.chmod(0)
    said = in_child("read", path)
    assert said == f"{path} cannot be read: permission denied"


def test_a_file_of_just_the_limit_is_read_and_one_byte_more_is_not(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert files.read(str(path), max_bytes=5) == b"12345"
    error = refusal(path, max_bytes=4, raise_with="--max-bytes")
    assert error.message == f"{path} is too large: 5 bytes, and the limit is 4"
    assert error.hint == "--max-bytes raises the limit"
    assert (error.facts["size_bytes"], error.facts["limit_bytes"]) == (5, 4)


def test_a_huge_file_is_refused_before_any_of_it_is_read(tmp_path):
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 100 << 30)
    assert refusal(path).facts["size_bytes"] == 100 << 30


# On Linux a file of /proc says it has no bytes; elsewhere an ordinary one stands in.
LONGER = "/proc/self/status" if sys.platform == "linux" else __file__


def test_a_file_that_is_longer_than_it_said_is_refused():
    assert "is too large" in refusal(LONGER, max_bytes=100).message


def test_no_descriptor_stays_open_after_reading(tmp_path, uncollected):
    (tmp_path / "file").write_bytes(b"x")
    before = len(os.listdir("/dev/fd"))
    files.read(str(tmp_path / "file"))
    refusal(tmp_path)
    refusal(tmp_path / "file", max_bytes=0)
    assert len(os.listdir("/dev/fd")) == before


def test_text_is_utf_8_and_a_byte_order_mark_is_dropped():
    assert files.text("f", "größe\r\n".encode()) == "größe\r\n"
    assert files.text("f", b"\xef\xbb\xbfx\xef\xbb\xbf") == "x\ufeff"
    assert files.text("f", b"") == ""


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("data", "line", "byte"),
    [
        (b"\xff", 1, "0xff"),
        (b"a\nb\n\x80c\n", 3, "0x80"),
        (b"a\r\n\r\nxx\xc3(", 3, "0xc3"),
        (b"a\n\xed\xa0\x80", 2, "0xed"),
        (b"a\nb\xe2\x82", 2, "0xe2"),
    ],
)
def test_what_is_not_utf_8_is_refused_with_the_line(mark, data, line, byte):
    with pytest.raises(Unreadable) as caught:
        files.text("plan.md", mark + data)
    assert caught.value.facts["line"] == line
    assert caught.value.message == f"plan.md:{line} is not UTF-8: byte {byte} on line {line}"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_recognised(encoding):
    with pytest.raises(Unreadable, match="looks like UTF-16"):
        files.text("plan.md", "\ufeff# Plan\n".encode(encoding))


def test_a_new_file_is_written_whole(tmp_path):
    path = tmp_path / "new"
    assert files.create(str(path), b"text") is True
    assert path.read_bytes() == b"text"
    assert os.listdir(tmp_path) == ["new"]


def test_the_longest_name_a_file_can_have_will_do(tmp_path):
    path = tmp_path / ("x" * 255)
    assert files.create(str(path), b"1") is True
    files.replace(str(path), b"2")
    assert path.read_bytes() == b"2"


def make_file(path: Path) -> None:
    path.write_bytes(b"old")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [make_file, make_dangling_link, make_directory, os.mkfifo])
def test_create_never_replaces_what_is_there(tmp_path, make):
    path = tmp_path / "taken"
    make(path)
    before = os.lstat(path)
    assert files.create(str(path), b"new") is False
    assert os.lstat(path) == before
    assert os.listdir(tmp_path) == ["taken"]


CREATOR = """
import sys
from tugtool.system import files
path, letter = sys.argv[1:]
sys.stdin.read()
print(files.create(path, letter.encode() * 100_000))
"""


def test_of_many_creators_exactly_one_wins_and_its_text_is_whole(tmp_path):
    path = str(tmp_path / "new")
    # All of them wait for the end of the same pipe.
    gate, opener = os.pipe()
    creators = {
        letter: subprocess.Popen(
            [sys.executable, "-c", CREATOR, path, letter], stdin=gate, stdout=subprocess.PIPE
        )
        for letter in "abcdef"
    }
    os.close(gate)
    os.close(opener)
    said = {letter: creator.communicate()[0] for letter, creator in creators.items()}
    winners = [letter for letter, out in said.items() if out == b"True\n"]
    assert sorted(said.values()) == [b"False\n"] * 5 + [b"True\n"]
    assert files.read(path) == winners[0].encode() * 100_000
    assert os.listdir(tmp_path) == ["new"]


def test_a_new_file_obeys_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        files.create(str(tmp_path / "created"), b"x")
        files.replace(str(tmp_path / "replaced"), b"x")
    finally:
        os.umask(before)
    for name in ("created", "replaced"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640


@pytest.mark.parametrize("write", [files.create, files.replace])
@pytest.mark.parametrize("name", ["missing/new", "file/new", "x" * 256])
def test_what_cannot_be_written_is_refused_with_the_reason(tmp_path, write, name):
    (tmp_path / "file").touch()
    with pytest.raises(Unwritable) as caught:
        write(str(tmp_path / name), b"x")
    assert caught.value.code == "E074"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("write", ["create", "replace"])
def test_a_directory_without_the_right_to_write_stays_as_it_was(shared, write):
    shared.chmod(0o555)
    said = in_child(write, shared / "new", size=1)
    assert said == f"cannot write {shared}/new: permission denied"
    assert os.listdir(shared) == []
    shared.chmod(0o755)


def test_a_new_file_that_does_not_fit_leaves_nothing_behind(shared):
    said = in_child("create", shared / "new", size=5000, room=1000)
    assert said == f"cannot write {shared}/new: file too large"
    assert os.listdir(shared) == []


def test_a_file_whose_new_text_does_not_fit_keeps_the_old(shared):
    path = shared / "file"
    path.write_bytes(b"old")
    said = in_child("replace", path, size=5000, room=1000)
    assert said == f"cannot write {path}: file too large"
    assert path.read_bytes() == b"old"
    assert os.listdir(shared) == ["file"]


def test_a_replaced_file_is_a_new_one_for_those_who_read_the_old(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old text")
    with open(path, "rb") as reader:
        files.replace(str(path), b"new")
        assert reader.read() == b"old text"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_is_not_there_is_made_by_replace(tmp_path):
    files.replace(str(tmp_path / "file"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o777, 0o400])
def test_a_replaced_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    files.replace(str(path), b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_replace_writes_through_a_symbolic_link(tmp_path):
    (tmp_path / "store").mkdir()
    real, link = tmp_path / "store" / "real", tmp_path / "link"
    link.symlink_to("store/real")
    for text in (b"made", b"replaced"):
        files.replace(str(link), text)
        assert link.is_symlink()
        assert real.read_bytes() == text
    assert os.listdir(tmp_path / "store") == ["real"]


def make_fifo_link(path: Path) -> None:
    # Stands for a link to /dev/null, which a broken `replace` would really destroy.
    os.mkfifo(path.parent / "fifo")
    path.symlink_to("fifo")


@pytest.mark.parametrize("make", [make_directory, os.mkfifo, make_fifo_link])
def test_replace_never_replaces_what_is_no_regular_file(tmp_path, make):
    path = tmp_path / "odd"
    make(path)
    before, names = os.stat(path), os.listdir(tmp_path)
    with pytest.raises(Unwritable, match="not a regular file"):
        files.replace(str(path), b"x")
    after = os.stat(path)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert os.listdir(tmp_path) == names


def test_what_a_crash_left_behind_stops_nobody(tmp_path):
    path = tmp_path / "file"
    for n in range(3):
        (tmp_path / f"file.{os.getpid() + n}.tmp").touch()
    assert files.create(str(path), b"x") is True


def test_a_directory_is_made_once(tmp_path):
    assert files.make_directory(str(tmp_path / "new")) is True
    assert files.make_directory(str(tmp_path / "new")) is False
    (tmp_path / "link").symlink_to("new")
    assert files.make_directory(str(tmp_path / "link")) is False


@pytest.mark.parametrize("make", [make_file, make_dangling_link, os.mkfifo])
def test_something_else_in_a_directory_s_place_is_refused(tmp_path, make):
    make(tmp_path / "taken")
    with pytest.raises(Unwritable, match="not a directory is in the way"):
        files.make_directory(str(tmp_path / "taken"))


def test_a_directory_below_a_missing_one_is_refused(tmp_path):
    with pytest.raises(Unwritable, match="no such file or directory"):
        files.make_directory(str(tmp_path / "missing" / "new"))


def test_a_directory_without_the_right_to_make_it_is_refused(shared):
    shared.chmod(0o555)
    said = in_child("make_directory", shared / "new")
    assert said == f"cannot write {shared}/new: permission denied"
    shared.chmod(0o755)
