"""Processes that may end during inspection."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil


def name_of(process: psutil.Process) -> str:
    """Return the program's name, or "" if the process has ended."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def words_of(process: psutil.Process) -> list[str]:
    """Return the command line, or an empty list if the process has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def runs(one: psutil.Process) -> bool:
    """Return whether the process is running. Zombies count as ended."""
    with suppress(psutil.Error):
        return one.is_running() and one.status() != psutil.STATUS_ZOMBIE
    return False


def kill(process: psutil.Process) -> None:
    """Kill the process unless it has ended, perhaps together with another process."""
    with suppress(psutil.NoSuchProcess):
        process.kill()


def process_text(process: psutil.Process) -> str:
    """Return details on why the process still exists, including its kernel wait channel."""
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
