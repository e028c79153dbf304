"""The processes below one of a job's own, of which some may have lost their parent.

Runs on the cluster, Python 3.6 and later, standard library only.
"""

import contextlib
import os
import signal
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


def kill(pids):
    # type: (List[int]) -> None
    """Kill processes, but not the trackers of Python's multiprocessing, which end with the others
    and remove what these have left in /dev/shm."""
    for pid in pids:
        with contextlib.suppress(OSError):
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                is_tracker = b"multiprocessing.resource_tracker" in file.read()
            if not is_tracker:
                os.kill(pid, signal.SIGKILL)


def end_below(patience_s):
    # type: (float) -> None
    """End all processes below this one, also those that take longer than `patience_s`."""
    for pid in below(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    if not wait_for_end(patience_s):
        kill(below(os.getpid()))
    if not wait_for_end(patience_s):
        for pid in below(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        wait_for_end(patience_s)


def wait_for_end(patience_s):
    # type: (float) -> bool
    """Tell whether all processes below this one end within that time."""
    deadline_s = time.monotonic() + patience_s
    while below(os.getpid()):
        if time.monotonic() > deadline_s:
            return False
        reap()
        time.sleep(0.02)
    return True


def reap():
    # type: () -> None
    """Take leave of the children that have ended."""
    with contextlib.suppress(OSError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
