"""Leaves the process that started the agent behind; nothing about what the agent does.

The agent becomes no child of a notebook's kernel: it has a session of its own, so that neither an
interrupt nor the kernel's end reaches it, and nobody has to wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress


def detach() -> Callable[[], None]:
    """Go on in a child, in its own session, and return what tells the starter "ready".

    The starter's process exits with 0 at that moment, or with 1 when the child ends before. The
    child keeps stderr until it points it elsewhere. Must be called before there are threads.
    """
    heard, said = os.pipe()
    if child := os.fork():
        os.close(said)
        _exit_as(child, heard)
    os.close(heard)
    os.setsid()
    os.chdir("/")
    os.umask(0o077)

    def ready() -> None:
        with suppress(BrokenPipeError):  # the starter was interrupted; others will find us
            os.write(said, b"r")
        os.close(said)

    return ready


def _exit_as(child: int, heard: int) -> None:
    if os.read(heard, 1):
        os._exit(0)
    _, status = os.waitpid(child, 0)
    os._exit(1 if os.waitstatus_to_exitcode(status) else 0)
