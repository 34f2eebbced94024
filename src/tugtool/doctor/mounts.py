"""What kind of file system a path is on, as the system's table of mounts says."""

from __future__ import annotations

import os

#: Locks and shared memory work on none of these as a database needs them.
NETWORK = (
    *("nfs", "cifs", "smb", "9p", "afs", "ceph", "gfs2", "glusterfs", "lustre", "ocfs2", "webdav"),
    *("afpfs", "acfs", "davfs", "ncpfs", "orangefs", "pvfs", "beegfs", "gpfs", "vboxsf"),
    "virtiofs",
    *("prl_fs", "vmhgfs", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "macfuse"),
    *("osxfuse", "fuse.glusterfs", "fuse.vmhgfs", "fuse.davfs", "fuse.ceph", "fuse.juicefs"),
    *("fuse.grpcfuse", "fuse.osxfs", "fuse.portal"),
)


def kind_at(path: str, table: str) -> str | None:
    """The type of the mount that holds the path, from either system's table; None: not told."""
    entries = _linux(table) if " - " in table else _darwin(table)
    # The longest wins; of two at the same place, the later one lies on top.
    best, found = -1, None
    for place, kind in entries:
        inside = path == place or path.startswith(os.path.join(place, ""))
        if inside and len(place) >= best:
            best, found = len(place), kind
    return found


def is_network(kind: str) -> bool:
    """Whether a database is not safe there."""
    return any(kind == name or (name in _VERSIONED and kind.startswith(name)) for name in NETWORK)


#: nfs4, smb3, smbfs, and whatever number comes.
_VERSIONED = ("nfs", "smb", "cifs", "webdav")


def _linux(table: str) -> list[tuple[str, str]]:
    """`36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/root rw`."""
    found = []
    for line in table.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if separator and len(fields) > 4 and rest:
            found.append((_unescaped(fields[4]), rest[0]))
    return found


def _unescaped(text: str) -> str:
    """The kernel writes a blank as \\040, and so on."""
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text


def _darwin(table: str) -> list[tuple[str, str]]:
    """`//me@server/share on /Volumes/share (smbfs, nodev, nosuid)`."""
    found = []
    for line in table.splitlines():
        place, opened, options = line.partition(" on ")[2].rpartition(" (")
        if opened:
            found.append((place, options.partition(",")[0].rstrip(")")))
    return found
