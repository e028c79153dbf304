"""Every path of a job's folder, there and here: names only, no I/O.

`attempt` is Slurm's restart count: a requeued job starts from zero, and writes files of its own.
Each file has one writer, and a file that is waited for is put in place by a rename, or is a line so
short that it arrives in one piece (`started.N.json` and `exit.N.json`; empty, they say nothing):

    job.sh cell.py task.json key env.sh inputs.vars runner*.py   by us, before sbatch
    kernel.py kernel_frames.py kernel_process.py framing.py private_folder.py
                                                                  by us, where it is a kernel
    enter                           by us: runs its words in the image, beside the job's own program
    submit.lock submitted submit.err                              by submission/submit.py
    work/                     by the submission, where a folder was pushed; the job runs there
    stage                     by job.sh: a link to the node's copy of work/ (submission/staging.py)
    bind.K                    by job.sh: links to what is mounted by a variable of the node
    slurm.out                 by Slurm: what happens around the script (login banners, slurmstepd)
    claim.N/ started.N.json log.N exit.N.json                     by job.sh
    usage.N.jsonl             by node/usage.py, on the first node: what the job uses there
    usage.N.K.jsonl           the same on node K of several (1: the second)
    lab.N.jsonl               by node/lab.py: how far it is; the last line counts
    limit                     by access/labs.py: the job's time limit in seconds, for the lab's page
    output.N.jsonl vars.N result.N.json                           by node/runner.py

A job that a launcher spreads over nodes (`--launch`) has besides, R being a rank and K a node:

    launch.json launch*.py engine   by us; `engine` runs its words in the image
    world.N.json launch.N.jsonl result.N.json                     by node/launch.py
    engine.N.json                   by Ray's or Dask's program of the first node: where it is
    output.N.R.jsonl vars.N.R result.N.R.json                     by node/runner.py; rank 0 writes
                                    output.N.jsonl

A job with dashboards (Ray's, Dask's, TensorBoard) has besides:

    dashboards.json dashboards.py socket_proxy.py …   by us
    dashboards.N.json               by node/dashboards.py: which of them work; has secrets

A session has the same; `cells/ID` is the folder of each of its cells, where N is 0:

    cells/ID/cell.py task.json key inputs.vars                    by us
    cells/requests                                                by us, a line for each request
    poke                                                          a FIFO, for clients on the node
    cells/ID/claim.0/ started.0.json output.0.jsonl vars.0 result.0.json exit.0.json
                                                                  by node/session.py

In many ranks it has `poke.R`, `cells/orders.N` by the first one, `cells/ID/launch.0.jsonl`,
and of each cell `output.0.R.jsonl vars.0.R result.0.R.json`, as a job of its own has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class JobDir:
    path: PurePosixPath

    @property
    def work(self) -> PurePosixPath:
        """The folder that the job runs in, where it has one of its own."""
        return self.path / "work"

    @property
    def stage(self) -> PurePosixPath:
        """The link to the copy of `work` on the node, while the job runs."""
        return self.path / "stage"

    @property
    def slurm_out(self) -> PurePosixPath:
        return self.path / "slurm.out"

    @property
    def submitted(self) -> PurePosixPath:
        """sbatch's output, once it has printed it."""
        return self.path / "submitted"

    @property
    def submit_err(self) -> PurePosixPath:
        """sbatch's error output, as it comes."""
        return self.path / "submit.err"

    def claim(self, attempt: int) -> PurePosixPath:
        """Return the folder by which the script claims the attempt, before anything else."""
        return self.path / f"claim.{attempt}"

    def started(self, attempt: int) -> PurePosixPath:
        return self.path / f"started.{attempt}.json"

    def log(self, attempt: int) -> PurePosixPath:
        """Return the log of the script, the container tool and a program without our runner."""
        return self.path / f"log.{attempt}"

    def output(self, attempt: int, rank: int = 0) -> PurePosixPath:
        name = f"{attempt}.{rank}" if rank else str(attempt)
        return self.path / f"output.{name}.jsonl"

    def usage(self, attempt: int, node: int = 0) -> PurePosixPath:
        name = f"{attempt}.{node}" if node else str(attempt)
        return self.path / f"usage.{name}.jsonl"

    def lab(self, attempt: int) -> PurePosixPath:
        return self.path / f"lab.{attempt}.jsonl"

    def launch(self, attempt: int) -> PurePosixPath:
        return self.path / f"launch.{attempt}.jsonl"

    def dashboards(self, attempt: int) -> PurePosixPath:
        return self.path / f"dashboards.{attempt}.json"

    def variables(self, attempt: int) -> PurePosixPath:
        return self.path / f"vars.{attempt}"

    def gathered(self, attempt: int, rank: int) -> PurePosixPath:
        return self.path / f"vars.{attempt}.{rank}"

    def result(self, attempt: int) -> PurePosixPath:
        return self.path / f"result.{attempt}.json"

    @property
    def requests(self) -> PurePosixPath:
        """A session's requests, of all its cells."""
        return self.path / "cells" / "requests"

    @property
    def poke(self) -> PurePosixPath:
        """The FIFO that wakes a session."""
        return self.path / "poke"

    def cell(self, cell_id: str) -> JobDir:
        """Return the folder of one of a session's cells."""
        return JobDir(self.path / "cells" / cell_id)

    def exit(self, attempt: int) -> PurePosixPath:
        return self.path / f"exit.{attempt}.json"


SCRIPT = "job.sh"
USAGE = "usage.py"
CELL = "cell.py"
RUNNER = "runner.py"
SESSION = "session.py"
SESSION_RANKS = "session_ranks.py"
KERNEL = "kernel.py"
LAB = "lab.py"
LIMIT = "limit"
PROGRAM = "program"
ENTER = "enter"
DASHBOARDS = "dashboards.json"
LAUNCHER = "launch.py"
LAUNCH = "launch.json"
ENGINE = "engine"
TASK = "task.json"
KEY = "key"
CERTIFICATE = "tls.pem"
CERTIFICATE_KEY = "tls.key"
ENVIRONMENT = "env.sh"
INPUTS = "inputs.vars"
CLOUDPICKLE = "cloudpickle.zip"
