"""A folder on the node for one user alone, for as long as somebody uses it.

Runs on the cluster, Python 3.6 and later, standard library only. A process that is killed outright
(no memory left, a node that fails) removes nothing: the next one of this user's on the node does.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Tuple


def made(prefix: str, longest_parent: int) -> "Tuple[str, int]":
    """Make a folder and return it with its lock, which marks it as used; remove those of the same
    prefix that nobody uses. Make it below /tmp where the path of TMPDIR is longer than
    `longest_parent`: the path of a socket has 107 bytes at most (unix(7)). Raise OSError when there
    is no room."""
    parent = tempfile.gettempdir()
    if len(parent) > longest_parent:
        parent = "/tmp"
    for name in os.listdir(parent):
        if name.startswith(prefix):
            with contextlib.suppress(OSError):  # another process has just removed it
                remove_unless_used(os.path.join(parent, name))
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=parent)  # 0700
        # Another process that starts may take it for one left behind, before it is locked.
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
