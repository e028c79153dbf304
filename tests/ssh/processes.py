"""Processes that may end while they are looked at."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil


def name_of(process: psutil.Process) -> str:
    """Its program's name; "" where it has ended."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def words_of(process: psutil.Process) -> list[str]:
    """Of its command line; none where it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def runs(one: psutil.Process) -> bool:
    """Whether it has not ended; whose parent is gone is nobody's to wait for."""
    with suppress(psutil.Error):
        return one.is_running() and one.status() != psutil.STATUS_ZOMBIE
    return False


def kill(process: psutil.Process) -> None:
    """Kill it unless it has ended, perhaps with another one."""
    with suppress(psutil.NoSuchProcess):
        process.kill()


def process_text(process: psutil.Process) -> str:
    """All that says why it is still there: also what the kernel has it wait in."""
    try:
        with process.oneshot():
            parent = process.parent()
            wchan = Path(f"/proc/{process.pid}/wchan").read_text()
            return (
                f"{process.name()} ({process.pid}, {process.status()} in {wchan}, since "
                f"{time.time() - process.create_time():.0f} s, child of "
                f"{parent and name_of(parent)} {parent and parent.pid}): {words_of(process)}"
            )
    except (psutil.Error, OSError) as error:
        return f"{process.pid}: {error}"
