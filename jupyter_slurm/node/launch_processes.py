"""The processes below one of a job's own, of which some may have lost their parent.

Runs on the cluster, Python 3.6 and later, standard library only.
"""

import contextlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Dict, List  # noqa: F401 - in comments


def below(top):
    # type: (int) -> List[int]
    """Return the processes below this one that have not ended."""
    parents = {}  # type: Dict[int, int]
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                parents[int(name)] = int(fields[1])
    found = []
    for pid in parents:
        above = pid
        while above in parents and above != top:
            above = parents[above]
        if above == top and pid != top:
            found.append(pid)
    return found


def signal_children(number):
    # type: (int) -> None
    """Send a signal to each child of this process."""
    own = os.getpid()
    for pid in below(own):
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open("/proc/%d/stat" % pid, "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            if parent == own:
                os.kill(pid, number)


def end_below(number, patience_s):
    # type: (int, float) -> None
    """Send a signal to all processes below this one, and wait until they have ended, or for so
    long."""
    deadline_s = time.monotonic() + patience_s
    for pid in below(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, number)
    while below(os.getpid()) and time.monotonic() < deadline_s:
        reap()
        time.sleep(0.02)


def reap():
    # type: () -> None
    """Take leave of the children that have ended."""
    with contextlib.suppress(OSError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
