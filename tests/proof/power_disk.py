"""What a disk could hold if the power were cut just now, from the system calls that led there.

A disk keeps what was synced. Of what was written since, it may keep any part: all, nothing, some
sectors. The same goes for the names in a directory, and a name may be there before its contents.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import notified

SECTOR = 512
WATCHED = (
    *("openat", "write", "pwrite64", "ftruncate", "fsync", "fdatasync"),
    *("unlink", "unlinkat", "rename", "renameat", "link", "linkat", "mkdir", "mkdirat"),
)
Keeps = Callable[[], bool]


class File:
    """One file: what is certain, and what was written since the last sync."""

    def __init__(self, synced: bytes = b"") -> None:
        self.synced = synced
        #: In order: (offset, bytes), or (length, None) for a new end.
        self.loose: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        self.synced, self.loose = _applied(self.synced, self.loose), []

    def image(self, keeps: Keeps) -> bytes:
        """What might be found: `keeps` decides about every sector that was not synced."""
        if not self.loose:
            return self.synced
        kept: list[tuple[int, bytes | None]] = []
        for offset, data in self.loose:
            if data is None:
                kept += [(offset, None)] if keeps() else []
                continue
            pieces = range(0, len(data), SECTOR)
            kept += [(offset + at, data[at : at + SECTOR]) for at in pieces if keeps()]
        return _applied(self.synced, kept)


def _applied(content: bytes, changes: list[tuple[int, bytes | None]]) -> bytes:
    found = bytearray(content)
    for offset, data in changes:
        if data is None:
            del found[offset:]
        found.extend(bytes(max(0, offset + len(data or b"") - len(found))))
        if data is not None:
            found[offset : offset + len(data)] = data
    return bytes(found)


class Folder:
    """One directory: the names in it now, those that are certain, and what changed since."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}
        self.loose: list[Naming] = []

    def change(self, naming: "Naming") -> None:
        """Give a name, or take it away."""
        self.loose.append(naming)
        naming.apply(self.names)

    def sync(self) -> None:
        """Certain from now on, and so is where that which was moved away has gone."""
        for naming in self.loose:
            if naming.needs is not None:
                naming.needs[0].settle(naming.needs[1])
        self.synced, self.loose = dict(self.names), []

    def settle(self, naming: "Naming") -> None:
        if naming in self.loose:
            self.loose = [each for each in self.loose if each.name != naming.name]
            naming.apply(self.synced)

    def image(self, kept: Callable[["Naming"], bool]) -> dict[str, "Node"]:
        found = dict(self.synced)
        for naming in self.loose:
            if kept(naming):
                naming.apply(found)
        return found


class Naming:
    """A change of one name in a directory."""

    def __init__(self, name: str, node: "Node | None", old: str | None = None) -> None:
        #: A renaming within one directory is one change.
        self.name, self.node, self.old = name, node, old
        #: What was moved to another directory is never in neither of the two.
        self.needs: tuple[Folder, Naming] | None = None

    def apply(self, names: dict[str, "Node"]) -> None:
        if self.old is not None:
            names.pop(self.old, None)
        if self.node is None:
            names.pop(self.name, None)
        else:
            names[self.name] = self.node


Node = File | Folder
#: What is found: for each path its content.
Image = dict[str, bytes]


class Disk:
    """The database and its logs, and the directory of its backup, as they are written."""

    def __init__(self, root: Path, cares: Callable[[str], bool]) -> None:
        self.root, self._cares = str(root), cares
        self.top = Folder()
        for name in (".tugtool", ".git"):
            self.top.synced[name] = self.top.names[name] = Folder()

    def put(self, path: str, content: bytes | None) -> None:
        """Lay a file there, or take it away, for certain."""
        folder, name = self._place(path)
        folder.change(Naming(name, None if content is None else File(content)))
        folder.sync()
        real = Path(self.root, path)
        real.unlink(missing_ok=True) if content is None else real.write_bytes(content)

    def note(self, call: notified.Call) -> bool:
        """Take in a call that is about to be made; whether it changes what may be found."""
        path = self._inside(call.path)
        if path is None or not self._is_there(os.path.dirname(path)):
            # It is none of ours, or fails.
            return False
        return bool(getattr(self, f"_{call.name}")(path, call))

    def watches(self, call: notified.Call) -> bool:
        """Whether a call is about what is kept here."""
        return self._inside(call.path) is not None

    def _inside(self, path: str) -> str | None:
        """The path from the top, if it is one that is watched."""
        inner = path.removeprefix(self.root + "/")
        if inner in (".git", ".tugtool", ".git/tugtool"):
            return inner
        if not inner.startswith((".git/tugtool/", ".tugtool/state.db")):
            return None
        # What lies in shared memory is made anew, and locks are nothing to keep.
        return None if inner.endswith(("-shm", ".lock")) else inner

    def _place(self, path: str) -> tuple[Folder, str]:
        *parts, name = path.split("/")
        folder = self.top
        for part in parts:
            below = folder.names[part]
            assert isinstance(below, Folder), path
            folder = below
        return folder, name

    def _node(self, path: str) -> Node | None:
        folder, name = self._place(path)
        return folder.names.get(name)

    def _file(self, path: str) -> File | None:
        """None for one that has no name any more."""
        node = None if path.endswith(" (deleted)") else self._node(path)
        return node if isinstance(node, File) else None

    # -- each system call --------------------------------------------------------------

    def _openat(self, path: str, call: notified.Call) -> bool:
        flags, file = call.words[2], self._file(path)
        if file is None and flags & os.O_CREAT and not self._is_there(path):
            folder, name = self._place(path)
            folder.change(Naming(name, File()))
        elif file is not None and flags & os.O_TRUNC:
            file.loose.append((0, None))
        else:
            return False
        return self._cares(path)

    def _pwrite64(self, path: str, call: notified.Call) -> bool:
        return self._written(path, call, call.words[3])

    def _write(self, path: str, call: notified.Call) -> bool:
        about = Path(f"/proc/{call.pid}/fdinfo/{call.words[0]}").read_text()
        return self._written(path, call, int(about.split()[1]))

    def _written(self, path: str, call: notified.Call, offset: int) -> bool:
        file = self._file(path)
        if file is not None:
            file.loose.append((offset, notified.memory(call.pid, *call.words[1:3])))
        return self._cares(path)

    def _ftruncate(self, path: str, call: notified.Call) -> bool:
        file = self._file(path)
        if file is not None:
            file.loose.append((call.words[1], None))
        return self._cares(path)

    def _fsync(self, path: str, call: notified.Call) -> bool:
        node = None if path.endswith(" (deleted)") else self._node(path)
        if node is not None:
            node.sync()
        return isinstance(node, Folder) or self._cares(path)

    _fdatasync = _fsync

    def _unlink(self, path: str, call: notified.Call) -> bool:
        folder, name = self._place(path)
        if name in folder.names:
            folder.change(Naming(name, None))
        return self._cares(path)

    _unlinkat = _unlink

    def _mkdir(self, path: str, call: notified.Call) -> bool:
        folder, name = self._place(path)
        if name not in folder.names and not self._is_there(path):
            folder.change(Naming(name, Folder()))
        return False

    _mkdirat = _mkdir

    def _rename(self, path: str, call: notified.Call) -> bool:
        return self._named_anew(path, call, moved=True)

    def _link(self, path: str, call: notified.Call) -> bool:
        return self._named_anew(path, call, moved=False)

    _renameat, _linkat = _rename, _link

    def _named_anew(self, path: str, call: notified.Call, *, moved: bool) -> bool:
        new = self._inside(notified.second(call))
        node = self._node(path)
        assert new is not None, f"{path} leaves what is watched"
        if node is None:
            return False
        (folder, name), (home, old) = self._place(new), self._place(path)
        given = Naming(name, node, old if moved and home is folder else None)
        folder.change(given)
        if moved and home is not folder:
            gone = Naming(old, None)
            gone.needs = folder, given
            home.change(gone)
        return self._cares(path) or self._cares(new)

    def _is_there(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self.root, path))

    # -- what may be found -------------------------------------------------------------

    def images(self, chance: random.Random) -> Iterator[Image]:
        """All of what is loose, nothing, some; names without contents; one name, all but one."""
        loose = [each for each in _loose(self.top, "") if self._cares(each[0])]
        namings = {naming for _, naming in loose}
        no, yes, some = (lambda: False), (lambda: True), (lambda: chance.random() < 0.5)
        yield self._image(namings, yes)
        yield self._image(set(), no)
        yield self._image(namings, no)
        yield self._image({each for _, each in loose if some()}, some)
        for naming in namings if len(namings) > 1 else ():
            yield self._image({naming}, yes)
            yield self._image(namings - {naming}, yes)

    def _image(self, names: set[Naming], contents: Keeps) -> Image:
        needed = {each.needs[1] for each in names if each.needs is not None}

        def kept(naming: Naming) -> bool:
            return naming in names or naming in needed

        found: Image = {}
        for path, file in _files(self.top, "", kept):
            if self._cares(path):
                found[path] = file.image(contents)
        return found


def _loose(folder: Folder, path: str) -> Iterator[tuple[str, Naming]]:
    """All names that are uncertain, in a certain order, each with its path."""
    yield from ((f"{path}{each.name}", each) for each in folder.loose)
    for name, node in folder.names.items():
        if isinstance(node, Folder):
            yield from _loose(node, f"{path}{name}/")


def _files(folder: Folder, path: str, kept: Callable[[Naming], bool]) -> Iterator[tuple[str, File]]:
    for name, node in folder.image(kept).items():
        if isinstance(node, Folder):
            yield from _files(node, f"{path}{name}/", kept)
        else:
            yield f"{path}{name}", node
