"""Processes as the kernel tells of them: who lives, since when, whose child. Nothing of Slurm.

A process is known by its id and its start time, so that a recycled id is never taken for ours.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PARENT, _THREADS, _STARTED = 1, 17, 19
"""In /proc/PID/stat, counted from behind the name (proc_pid_stat(5))."""


@dataclass(frozen=True)
class Process:
    """`start_ticks` is field 22 of /proc/PID/stat, clock ticks since `boot_id` began (proc(5))."""

    pid: int
    start_ticks: int
    boot_id: str

    def alive(self) -> bool:
        """Whether this very process runs, or a thread of it; a zombie does not."""
        reap(self.pid)
        stat = _stat(self.pid)
        return stat is not None and stat.start_ticks == self.start_ticks and boot() == self.boot_id

    def send(self, number: signal.Signals) -> None:
        """Signal it if it still is this process."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True)
class _Stat:
    start_ticks: int
    parent: int
    program: str


def boot() -> str:
    """The id of this run of the machine's kernel."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process(pid: int) -> Process | None:
    """The process that has this id now."""
    stat = _stat(pid)
    return None if stat is None else Process(pid, stat.start_ticks, boot())


def reap(pid: int) -> None:
    """Take the exit status of a child that ended, else it would stay as a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def detach(argv: Sequence[str], env: Mapping[str, str], log: Path) -> Process:
    """Start a program in a session of its own, so that it outlives us and our terminal.

    Its words go to `log`, made anew. FileNotFoundError, PermissionError: it cannot be started.
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
    # A child that ended at once is a zombie until we reap it: its place is still ours to name.
    return found or Process(pid, -1, boot())


def wait_gone(processes: Iterable[Process], limit_s: float) -> bool:
    """Wait until all have ended; False when some still run after `limit_s`."""
    deadline = time.monotonic() + limit_s
    left = list(processes)
    while left := [one for one in left if one.alive()]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def kill(processes: Sequence[Process]) -> None:
    """SIGKILL all, and wait until they are gone."""
    for one in processes:
        one.send(signal.SIGKILL)
    wait_gone(processes, 5)


def with_open_file(program: str, below: Path) -> list[Process]:
    """Processes of `program` that hold a file below the folder `below` open."""
    prefix = os.path.realpath(below) + os.sep
    return [
        one
        for pid, stat in _all()
        if stat.program == program
        and any(link.startswith(prefix) for link in _open_files(pid))
        and (one := process(pid)) is not None
    ]


def with_environment(entries: Mapping[str, str]) -> list[Process]:
    """Processes that were started with all of these variables; "" as value means any value."""
    wanted = [f"{key}={text}".encode() for key, text in entries.items()]
    return [one for pid, _ in _all() if _has(pid, wanted) and (one := process(pid)) is not None]


def descendants(roots: Iterable[Process]) -> list[Process]:
    """The roots' children, their children and so on."""
    children: dict[int, list[int]] = {}
    for pid, stat in _all():
        children.setdefault(stat.parent, []).append(pid)
    queue = [one.pid for one in roots]
    found: list[Process] = []
    for pid in queue:
        for child in children.get(pid, ()):
            queue.append(child)
            if (one := process(child)) is not None:
                found.append(one)
    return found


def _all() -> Iterator[tuple[int, _Stat]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (stat := _stat(int(entry.name))) is not None:
            yield int(entry.name), stat


def _stat(pid: int) -> _Stat | None:
    """None when there is no such process, or a zombie. One whose other threads have not ended yet,
    and may be writing a file, is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    head, _, tail = text.rpartition(")")  # the name may hold blanks and brackets
    fields = tail.split()
    if fields[0] == "X" or (fields[0] == "Z" and fields[_THREADS] == "1"):
        return None
    return _Stat(int(fields[_STARTED]), int(fields[_PARENT]), head.partition("(")[2])


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(link.readlink())


def _has(pid: int, wanted: list[bytes]) -> bool:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return all(
        any(entry.startswith(one) if one.endswith(b"=") else entry == one for entry in entries)
        for one in wanted
    )
