"""The start of the job's dashboards (dashboards.py), in the process that runs the user's code.

Runs on the cluster, Python 3.6 and later, standard library only. It is a separate module so that
the user's code can import its own `dashboards`.
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
    """Start dashboards.py if this process is the only one or the first rank on the first node.
    Return a function that ends it. `engine` contains the arguments that name the launcher; `tell`
    shows the user a line."""
    if not is_first(engine):
        return lambda: None
    with open(os.path.join(job_dir, "dashboards.json"), encoding="utf-8") as file:
        names = json.load(file)["names"]
    if "tensorboard" in names and importlib.util.find_spec("tensorboard") is None:
        python = "Python %d.%d.%d" % sys.version_info[:3]
        tell("jupyter-slurm: %s lacks TensorBoard, so its dashboard does not start.\n" % python)
    program = os.path.join(job_dir, "dashboards.py")
    process = subprocess.Popen(
        [sys.executable, "-uB", program, job_dir, attempt, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # signals to the cell's group must not reach it
    )

    def end() -> None:
        process.kill()  # it leaves nothing to clean up
        process.wait(END_S)

    return end


def is_first(engine: "List[str]") -> bool:
    if engine == ["torchrun"]:
        return os.environ.get("SLURM_NODEID", "0") == "0" and os.environ["LOCAL_RANK"] == "0"
    return engine != ["mpi"] or os.environ["SLURM_PROCID"] == "0"
