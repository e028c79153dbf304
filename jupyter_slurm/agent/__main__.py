"""`python -m jupyter_slurm.agent [--detach] [--socket PATH]`: runs the agent; no logic but that."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_slurm.agent.detach import detach

if TYPE_CHECKING:
    from jupyter_slurm.agent.app import AgentService


def main(argv: Sequence[str], make_service: Callable[[], AgentService]) -> int:
    """Run an agent with that service to its end; return the exit code.

    0: it has ended in order, or another agent serves the socket already.
    """
    parser = argparse.ArgumentParser(prog="python -m jupyter_slurm.agent")
    parser.add_argument("--detach", action="store_true", help="leave the terminal behind")
    parser.add_argument("--socket", type=Path, help="where to listen (default: by the user)")
    options = parser.parse_args(argv)
    # Before anything heavy is imported: some libraries start threads, which a fork would lose.
    ready = detach() if options.detach else None

    from jupyter_slurm.agent.run import run  # noqa: PLC0415

    return run(options.socket, make_service, ready)


def service() -> AgentService:
    """Return the real service."""
    from jupyter_slurm.jobs.service import Service  # noqa: PLC0415 - once the fork is behind us

    return Service()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], service))
