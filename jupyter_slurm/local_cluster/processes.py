"""Processes, from the kernel's process table. PID and start time identify a process, so a reused
PID never counts as ours.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_THREADS, _STARTED = 17, 19
"""Fields in /proc/PID/stat, counted from the end of the name (proc_pid_stat(5))."""


@dataclass(frozen=True)
class Process:
    """A process. `start_ticks` is its start time in clock ticks after the boot with ID `boot_id`
    (field 22 of /proc/PID/stat, proc(5))."""

    pid: int
    start_ticks: int
    boot_id: str

    def alive(self) -> bool:
        """Return whether this process or one of its threads is running. A zombie is not running."""
        reap(self.pid)
        return _start_ticks(self.pid) == self.start_ticks and boot() == self.boot_id

    def send(self, number: signal.Signals) -> None:
        """Send a signal if this process is still running."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def boot() -> str:
    """Return the boot ID of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process(pid: int) -> Process | None:
    """Return the process that has this PID now; None for a zombie or an unknown PID."""
    start_ticks = _start_ticks(pid)
    return None if start_ticks is None else Process(pid, start_ticks, boot())


def reap(pid: int) -> None:
    """Collect the exit status of an ended child, which would otherwise stay a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def detach(argv: Sequence[str], env: Mapping[str, str], log: Path) -> Process:
    """Start a program in its own session, so that it outlives this process and its terminal. Its
    output replaces `log`. Raise FileNotFoundError or PermissionError if it cannot start.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP, signal.SIGQUIT),
    )
    found = process(pid)
    # A child that exits at once stays a zombie until reaped, so its PID is not reused.
    return found or Process(pid, -1, boot())


def wait_gone(processes: Iterable[Process], limit_s: float) -> bool:
    """Wait until all have ended; return False if any are still running after `limit_s`."""
    deadline = time.monotonic() + limit_s
    left = list(processes)
    while left := [one for one in left if one.alive()]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def kill(processes: Sequence[Process]) -> None:
    """Send SIGKILL to all, and wait until they have ended."""
    for one in processes:
        one.send(signal.SIGKILL)
    wait_gone(processes, 5)


def with_open_file(program: str, below: Path) -> list[Process]:
    """Return the processes of `program` that have a file below the folder `below` open."""
    prefix = os.path.realpath(below) + os.sep
    return _those(
        lambda one: (
            one.name() == program and any(file.path.startswith(prefix) for file in one.open_files())
        )
    )


def with_environment(entries: Mapping[str, str]) -> list[Process]:
    """Return the processes started with all these variables; the value "" means any value."""

    def fits(one: psutil.Process) -> bool:
        environment = one.environ()
        return all(
            key in environment and text in ("", environment[key]) for key, text in entries.items()
        )

    return _those(fits)


def descendants(roots: Iterable[Process]) -> list[Process]:
    """Return the roots' children, their children and so on."""
    found: list[Process | None] = []
    for root in roots:
        with suppress(psutil.Error):
            found += [process(one.pid) for one in psutil.Process(root.pid).children(recursive=True)]
    return [one for one in found if one is not None]


def _those(fits: Callable[[psutil.Process], bool]) -> list[Process]:
    """Return all matching processes, except those that end during the search or belong to another
    user."""
    found: list[Process | None] = []
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            found += [process(one.pid)] if fits(one) else []
    return [one for one in found if one is not None]


def _start_ticks(pid: int) -> int | None:
    """Return the start time in ticks; None for a zombie or an unknown process. A process with
    running threads, which may be writing a file, is not a zombie, although psutil reports a zombie.
    psutil also does not return ticks."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name may contain blanks and brackets
    if fields[0] == "X" or (fields[0] == "Z" and fields[_THREADS] == "1"):
        return None
    return int(fields[_STARTED])
