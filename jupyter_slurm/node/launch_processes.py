"""The descendants of a process, including orphans that Slurm's proctrack/linuxproc does not find.

Runs on the cluster, Python 3.6 and later, standard library only.
"""

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Dict, List

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends."""
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes  # an image's Python may lack this module

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> "Dict[int, int]":
    """Return the parent of each running process, by process ID."""
    found: "Dict[int, int]" = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                found[int(name)] = int(fields[1])
    return found


def children() -> "List[int]":
    """Return the children of this process."""
    return [pid for pid, parent in parents().items() if parent == os.getpid()]


def below(top: int) -> "List[int]":
    """Return the descendants of the process `top`."""
    known = parents()
    found = []
    for pid in known:
        above = pid
        while above in known and above != top:
            above = known[above]
        if above == top and pid != top:
            found.append(pid)
    return found


def kill(pids: "List[int]") -> None:
    """Kill processes except the resource trackers of Python's multiprocessing. The trackers then
    clean up /dev/shm and end."""
    for pid in pids:
        with contextlib.suppress(OSError):
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                is_tracker = b"multiprocessing.resource_tracker" in file.read()
            if not is_tracker:
                os.kill(pid, signal.SIGKILL)


def end_below(patience_s: float) -> None:
    """End all descendants of this process. Kill those that take longer than `patience_s`."""
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


def wait_for_end(patience_s: float) -> bool:
    """Wait up to `patience_s`. Return whether all descendants have ended."""
    until_s = time.monotonic() + patience_s
    while below(os.getpid()):
        if time.monotonic() > until_s:
            return False
        with contextlib.suppress(OSError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)
    return True
