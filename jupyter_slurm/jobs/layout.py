"""All paths in a job's folder, on the cluster and on this machine. No I/O.

`attempt` is Slurm's restart count. Each attempt of a requeued job writes its own files. Each file
has one writer. Readers wait for files that are renamed into place, or for lines so short that they
are written at once (`started.N.json` and `exit.N.json`, which are ignored while empty).

The files and their writers (N is an attempt, and "us" is the agent):

    job.sh cell.py task.json key env.sh inputs.vars runner*.py   by us, before sbatch
    kernel.py kernel_frames.py kernel_process.py framing.py private_folder.py
                                                                  by us, for a kernel
    enter                           by us: runs its arguments in the image, beside the job's program
    submit.lock submitted submit.err                              by submission/submit.py
    work/                     by the submission: the working directory of a job with a pushed folder
    stage                     by job.sh: a link to the node's copy of work/ (submission/script.py)
    bind.K                    by job.sh: links to mounts that depend on a variable of the node
    slurm.out                 by Slurm: output before and after the script (banners, slurmstepd)
    claim.N/ started.N.json log.N exit.N.json                     by job.sh
    usage.N.jsonl             by node/usage.py, on the first node: the job's usage there
    usage.N.K.jsonl           by node/usage.py, on each other node; K is 1 on the second node
    lab.N.jsonl               by node/lab.py: the lab's progress; only the last line counts
    limit                     by access/labs.py: the job's time limit in seconds, for the lab's page
    output.N.jsonl vars.N result.N.json                           by node/runner.py

A job with `--launch` also has these files (R is a rank, and K is a node):

    launch.json launch*.py engine   by us; `engine` runs its arguments in the image
    world.N.json launch.N.jsonl result.N.json                     by node/launch.py
    claim.N/lost                    by node/launch_node.py on another node if the first node is
                                    lost; this program then writes log.N, result.N.json and
                                    exit.N.json
    engine.N.json                   by Ray or Dask on the first node: the engine's address
    output.N.R.jsonl vars.N.R result.N.R.json                     by node/runner.py; rank 0 writes
                                    output.N.jsonl

A job with dashboards (Ray, Dask, TensorBoard) also has these files:

    dashboards.json dashboards.py socket_proxy.py …   by us
    dashboards.N.json               by node/dashboards.py: the token or problem of each dashboard

A session also has these files, and a folder `cells/ID` for each of its cells. In the
folder of a cell, N is 0:

    cells/ID/task.json inputs.vars                                by us; the task has the code
    cells/requests                                                by us, a line for each request
    poke                            by node/session.py: a FIFO that wakes the session
    cells/ID/claim.0/ started.0.json output.0.jsonl vars.0 result.0.json exit.0.json
                                                                  by node/session.py

A sweep has files that its tasks share, and a folder for each task I:

    inputs.vars params.vars         by us; params.vars has a dict for each task
    params.json                     by us: the values of each parameter as text
    news                            by job.sh: a line for each start and end of a task, as a hint
    arrays/TOKEN/submit.lock submitted submit.err    for each array but the first
    tasks/I/claim.N/ started.N.json log.N exit.N.json usage.N.jsonl
    tasks/I/output.N.jsonl vars.N result.N.json      as in a job's folder

With many ranks a session also has `poke.R`, `cells/orders.N` by the first rank, and
`cells/ID/launch.0.jsonl`. For each cell it also has `output.0.R.jsonl vars.0.R result.0.R.json`,
like a job with `--launch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class JobDir:
    path: PurePosixPath

    @property
    def work(self) -> PurePosixPath:
        """The job's own working directory, which may not exist."""
        return self.path / "work"

    @property
    def stage(self) -> PurePosixPath:
        """The link to the node's copy of `work`, which exists while the job runs."""
        return self.path / "stage"

    @property
    def slurm_out(self) -> PurePosixPath:
        return self.path / "slurm.out"

    @property
    def submitted(self) -> PurePosixPath:
        """The file with sbatch's output, which is complete once the file exists."""
        return self.path / "submitted"

    @property
    def submit_err(self) -> PurePosixPath:
        """The file with sbatch's error output, which grows while sbatch runs."""
        return self.path / "submit.err"

    def claim(self, attempt: int) -> PurePosixPath:
        """Return the folder that the script creates first, to claim the attempt."""
        return self.path / f"claim.{attempt}"

    def started(self, attempt: int) -> PurePosixPath:
        return self.path / f"started.{attempt}.json"

    def log(self, attempt: int) -> PurePosixPath:
        """Return the log of the script, the container tool, and a program that does not use our
        runner."""
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
        """The file to which the agent appends the requests for a session."""
        return self.path / "cells" / "requests"

    @property
    def poke(self) -> PurePosixPath:
        """The FIFO that wakes a session."""
        return self.path / "poke"

    def cell(self, cell_id: str) -> JobDir:
        """Return the folder of a session's cell."""
        return JobDir(self.path / "cells" / cell_id)

    def array(self, token: str) -> JobDir:
        """Return the folder of any array of a sweep except the first."""
        return JobDir(self.path / "arrays" / token)

    def task(self, index: int) -> JobDir:
        """Return the folder of a sweep's task."""
        return JobDir(self.path / "tasks" / str(index))

    @property
    def news(self) -> PurePosixPath:
        """The file that grows when a task of a sweep starts or ends."""
        return self.path / "news"

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
PARAMS = "params.vars"
PARAMS_TEXT = "params.json"
CLOUDPICKLE = "cloudpickle.zip"
