"""The file system that a folder lies on: over a network SQLite's locks and shared memory are not what they are on a disk."""

from __future__ import annotations

from pathlib import Path

NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph"),
        *("glusterfs", "fuse.glusterfs", "afs", "ncpfs", "fuse.blobfuse", "fuse.blobfuse2", "wekafs", "orangefs"),
    }
)
"""Types of file systems, as the kernel names them, whose files other machines may have open too."""


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system that a path lies on, by the text of `/proc/self/mountinfo`; empty for none."""
    path = path.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, types = before.split(), after.split()
        if len(fields) < 5 or not types:
            continue
        point = Path(fields[4].encode().decode("unicode_escape"))  # a space is written as \040
        if path.is_relative_to(point) and len(point.parts) >= best:  # of two on one point the later hides the other
            best, kind = len(point.parts), types[0]
    return kind


def kind_of(path: Path) -> str:
    """The type of the file system that a path lies on now; empty where the kernel tells none."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return file_system(path, mounts)


def on_network(path: Path) -> bool:
    """Whether a path lies on a network file system."""
    return kind_of(path) in NETWORK
