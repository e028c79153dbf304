"""Private folders on the node, locked while they are in use.

Runs on the cluster, Python 3.6 and later, standard library only. A process that is killed leaves
its folder behind. The user's next process on the node removes it.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Tuple


def make(prefix: str, longest_parent: int) -> "Tuple[str, int]":
    """Make a folder, and return it with the lock that marks it as used. Remove unused folders with
    the same prefix. Use /tmp if the path of TMPDIR is longer than `longest_parent`, because the
    path of a socket has at most 107 bytes (unix(7)). Raises OSError."""
    parent = tempfile.gettempdir()
    if len(parent) > longest_parent:
        parent = "/tmp"
    for name in os.listdir(parent):
        if name.startswith(prefix):
            with contextlib.suppress(OSError):  # another process has just removed it
                remove_unless_used(os.path.join(parent, name))
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=parent)  # 0700
        # Until the folder is locked, another process may remove it as unused.
        try:
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(path):
            return path, lock
        os.close(lock)


def remove_unless_used(path: str) -> None:
    if os.lstat(path).st_uid != os.getuid() or not os.path.isdir(path):
        return
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
