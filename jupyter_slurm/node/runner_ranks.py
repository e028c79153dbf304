"""The check that all ranks have found each other, before the user's code runs.

Runs on the cluster, Python 3.6 and later, standard library only. Without the check, ranks that have
not found each other would each do all of the work unnoticed.
"""

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict

    import runner_display

INIT_S = 50
"""Timeout in seconds for MPI to start in all ranks."""
TOGETHER_S = 1.0
"""Seconds for other ranks to fail for the same reason, before the launcher ends them."""
SIZE_OF = {"torchrun": "WORLD_SIZE", "mpi": "SLURM_NTASKS"}


class WrongWorld(Exception):  # users see this name
    """The ranks have not found each other."""


def check(job_dir: str, attempt: str, publisher: "runner_display.Publisher") -> None:
    """Raise WrongWorld if the number of ranks is wrong. With MPI, check again when mpi4py starts
    it."""
    world = read_world(job_dir, attempt)
    check_size(world)
    if world["engine"] == "mpi":
        watch_mpi(world, publisher)


def check_size(world: "Dict[str, Any]") -> None:
    """Raise WrongWorld if this rank's environment has a different number of ranks."""
    engine, ranks = world["engine"], world["ranks"]
    told = os.environ.get(SIZE_OF[engine])
    if told != str(ranks):
        raise WrongWorld(
            "%s started this rank as one of %s ranks, and the job has %d." % (engine, told, ranks)
        )


def read_world(job_dir: str, attempt: str) -> "Dict[str, Any]":
    """Read the launcher's description of the nodes, and set the job's variables."""
    with open(os.path.join(job_dir, "world.%s.json" % attempt), encoding="utf-8") as file:
        world: "Dict[str, Any]" = json.load(file)
    os.environ.update(world["environment"])
    return world


def end_torchrun() -> None:
    """Make torchrun end the other ranks on this node after a rank has failed, unless it restarts
    ranks. Otherwise torchrun would wait five minutes for the ranks on other nodes."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == os.environ["TORCHELASTIC_MAX_RESTARTS"]:
        time.sleep(TOGETHER_S)
        os.kill(os.getppid(), signal.SIGTERM)


def watch_mpi(world: "Dict[str, Any]", publisher: "runner_display.Publisher") -> None:
    """Make the import of mpi4py.MPI raise WrongWorld if the ranks do not find each other. Explain
    the end of the process if MPI aborts it or does not start."""
    if world["is_one_machine"]:
        os.environ.setdefault("OMPI_MCA_btl", "self,tcp")
    finder = next(one for one in sys.meta_path if hasattr(one, "before") and hasattr(one, "after"))
    others = "`srun --mpi=list` names %s. Choose another type with --mpi NAME."
    others %= ", ".join(world["mpi_types"])

    def begin() -> None:
        told = "MPI did not start: its ranks did not find each other with --mpi=%s. %s"
        told = told % (os.environ.get("SLURM_MPI_TYPE", "none"), others)
        publisher.send({"type": "pending", "ename": "WrongWorld", "evalue": told})
        # MPI starts with the GIL held, so no thread or Python handler could end the wait.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(INIT_S)

    def compare() -> None:
        signal.alarm(0)
        publisher.send({"type": "pending"})
        size = sys.modules["mpi4py.MPI"].COMM_WORLD.Get_size()
        if size != world["ranks"]:
            told = "MPI made a world of size %d, not %d: it does not support --mpi=%s. %s"
            kind = os.environ.get("SLURM_MPI_TYPE", "none")
            raise WrongWorld(told % (size, world["ranks"], kind, others))

    finder.before["mpi4py.MPI"] = begin
    finder.after["mpi4py.MPI"] = compare
