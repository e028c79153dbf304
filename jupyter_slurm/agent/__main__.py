"""The program `python -m jupyter_slurm.agent [--detach] [--socket PATH]`, which runs the agent.

With --detach, the agent gets its own session (setsid(2)). So interrupts do not reach it, and it
outlives the kernel that started it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_slurm.agent.app import AgentService


def detach() -> Callable[[], None]:
    """Continue in a child with its own session, and return a function that reports readiness. The
    parent exits with 0 when the child is ready or ends successfully, and with 1 if the child fails.
    The child keeps stderr until `LogFile.hold_stdio` redirects it. Call this before starting
    threads.
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
        with suppress(BrokenPipeError):  # the parent was interrupted; other clients find the agent
            os.write(said, b"r")
        os.close(said)

    return ready


def _exit_as(child: int, heard: int) -> None:
    if os.read(heard, 1):
        os._exit(0)
    _, status = os.waitpid(child, 0)
    os._exit(1 if os.waitstatus_to_exitcode(status) else 0)


def main(argv: Sequence[str], make_service: Callable[[], AgentService]) -> int:
    """Run an agent with this service. Return the exit code, which is also 0 if another agent
    already serves the socket."""
    parser = argparse.ArgumentParser(prog="python -m jupyter_slurm.agent")
    parser.add_argument("--detach", action="store_true", help="detach from the terminal")
    parser.add_argument(
        "--socket", type=Path, help="the path of the socket (default: the user's socket)"
    )
    options = parser.parse_args(argv)
    # Fork before heavy imports, because some libraries start threads, which a fork would lose.
    ready = detach() if options.detach else None

    from jupyter_slurm.agent.app import run  # noqa: PLC0415

    return run(options.socket, make_service, ready)


def service() -> AgentService:
    """Return a new `Service`."""
    from jupyter_slurm.jobs.service import Service  # noqa: PLC0415 - after the fork

    return Service()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], service))
