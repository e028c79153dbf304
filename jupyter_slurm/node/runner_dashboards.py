"""Starts the program of the job's dashboards (dashboards.py) beside the user's code, and ends it.

Runs on the cluster, Python 3.6 and later, standard library only; only in jobs that have any.
"""

import importlib.util
import json
import os
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Callable, List

END_S = 2.0


def start(
    job_dir: str, attempt: str, engine: "List[str]", tell: "Callable[[str], None]"
) -> "Callable[[], None]":
    """Start it where this process runs the code, or is the first rank on the first node; return
    what ends it. `engine`: what of argv says how the ranks began; `tell`: takes a line for the
    code's reader."""
    if not is_first(engine):
        return lambda: None
    with open(os.path.join(job_dir, "dashboards.json"), encoding="utf-8") as file:
        names = json.load(file)["names"]
    if "tensorboard" in names and importlib.util.find_spec("tensorboard") is None:
        python = "Python %d.%d.%d" % sys.version_info[:3]
        tell("jupyter-slurm: %s has no TensorBoard, so the job has none.\n" % python)
    program = os.path.join(job_dir, "dashboards.py")
    process = subprocess.Popen(
        [sys.executable, "-uB", program, job_dir, attempt, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what is sent to the cell's group is not for it
    )

    def end() -> None:
        process.kill()  # it keeps nothing that has to be put away
        process.wait(END_S)

    return end


def is_first(engine: "List[str]") -> bool:
    if engine == ["torchrun"]:
        return os.environ.get("SLURM_NODEID", "0") == "0" and os.environ["LOCAL_RANK"] == "0"
    return engine != ["mpi"] or os.environ["SLURM_PROCID"] == "0"
