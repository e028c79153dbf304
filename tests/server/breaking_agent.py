"""An agent in memory that loses a job's log in its middle. Run as a program, as memory_agent.py."""

from __future__ import annotations

import sys
from pathlib import Path

from jupyter_slurm.agent.__main__ import main
from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.wire import LogChunk, Stream
from tests.agent.memory_agent import MemoryService

SCRIPT = Path(__file__)


class BreakingService(MemoryService):
    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        if cursor:
            raise NotFoundError("The log is gone.")
        page = Stream(name="stdout", text="x" * 1_000_000)
        return LogChunk(job=self.job(job_id), outputs=(page,), cursor="1")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], BreakingService))
