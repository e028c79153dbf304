"""One of many ranks: whether they are in one world, before the user's code runs in it.

Runs on the cluster, Python 3.6 and later, standard library only. Ranks that do not find each other
would otherwise each do all of the work, and nobody would see it.
"""

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict

    import runner_display  # noqa: F401

INIT_S = 50
"""How long MPI may take until all ranks are there."""
TOGETHER_S = 1.0
"""Time for ranks to fail for the same reason as the first of them; then all end."""
SIZE_OF = {"torchrun": "WORLD_SIZE", "mpi": "SLURM_NTASKS"}


class WrongWorld(Exception):  # noqa: N818 - shown to people under this name
    """The ranks have not found each other."""


def check(job_dir: str, attempt: str, publisher: "runner_display.Publisher") -> None:
    """Raise WrongWorld as `check_size` does; watch over the import of mpi4py, which is when MPI
    begins."""
    world = read_world(job_dir, attempt)
    check_size(world)
    if world["engine"] == "mpi":
        watch_mpi(world, publisher)


def check_size(world: "Dict[str, Any]") -> None:
    """Raise WrongWorld where this rank was told of another number of ranks than was launched."""
    engine, ranks = world["engine"], world["ranks"]
    told = os.environ.get(SIZE_OF[engine])
    if told != str(ranks):
        raise WrongWorld(
            "%s told this rank that there are %s ranks, and Slurm gave the job %d."
            % (engine, told, ranks)
        )


def read_world(job_dir: str, attempt: str) -> "Dict[str, Any]":
    """Return the launcher's description of the nodes, and take over the job's variables."""
    with open(os.path.join(job_dir, "world.%s.json" % attempt), encoding="utf-8") as file:
        world: "Dict[str, Any]" = json.load(file)
    os.environ.update(world["environment"])
    return world


def end_torchrun() -> None:
    """Have torchrun end the other ranks of this node after one has failed: it would wait five
    minutes for those of the other nodes. If it starts ranks again, leave that to it."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == os.environ["TORCHELASTIC_MAX_RESTARTS"]:
        time.sleep(TOGETHER_S)
        os.kill(os.getppid(), signal.SIGTERM)


def watch_mpi(world: "Dict[str, Any]", publisher: "runner_display.Publisher") -> None:
    """Let the import of mpi4py.MPI raise WrongWorld where the ranks are alone; say why where MPI
    ends the process instead, or never begins."""
    if world["is_one_machine"]:
        os.environ.setdefault("OMPI_MCA_btl", "self,tcp")
    finder = next(one for one in sys.meta_path if hasattr(one, "before") and hasattr(one, "after"))
    others = "`srun --mpi=list` names %s here; --mpi NAME takes another."
    others %= ", ".join(world["mpi_types"])

    def begin() -> None:
        told = "MPI did not begin: its ranks do not find each other by --mpi=%s. %s"
        told = told % (os.environ.get("SLURM_MPI_TYPE", "none"), others)
        publisher.send({"type": "pending", "ename": "WrongWorld", "evalue": told})
        # MPI begins with Python's own lock held: no thread and no handler could end the wait.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(INIT_S)

    def compare() -> None:
        signal.alarm(0)
        publisher.send({"type": "pending"})
        size = sys.modules["mpi4py.MPI"].COMM_WORLD.Get_size()
        if size != world["ranks"]:
            told = "MPI made a world of %d, not of %d: it does not speak --mpi=%s. %s"
            kind = os.environ.get("SLURM_MPI_TYPE", "none")
            raise WrongWorld(told % (size, world["ranks"], kind, others))

    finder.before["mpi4py.MPI"] = begin
    finder.after["mpi4py.MPI"] = compare
