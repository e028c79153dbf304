"""Processes that may end while they are looked at."""

from __future__ import annotations

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
