"""torchrun on one node of a job, in the image.

    python3 -uB launch_torchrun.py JOBDIR ATTEMPT INDEX

Python 3.6 and later, standard library and PyTorch only. It runs torchrun with the options of its
manual. Without restarts, ranks use a static rendezvous at the first node's address: c10d would look
up that address by name (pytorch#73656) and unpickle data that other users can write.
"""

import contextlib
import json
import logging
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_network
import launch_processes
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List

MISSING = 65
"""Exit code EX_DATAERR of sysexits.h."""
STORE_S = 900


def words_of(
    run: "Any", world: "Dict[str, Any]", plan: "Dict[str, Any]", folder: str, index: int
) -> "List[str]":
    """Return torchrun's arguments. `run` is torchrun's module."""
    own, head = world["nodes"][index]["address"], world["nodes"][0]["address"]
    words = [
        "--log_dir=%s" % folder,  # the default is a folder in /tmp that is not removed
        "--nnodes=%d" % len(world["nodes"]),
        "--nproc_per_node=%d" % world["processes"][index],
        "--max_restarts=%d" % plan["max_restarts"],
        "--monitor_interval=0.2",
        "--rdzv_id=%s" % os.environ.get("SLURM_JOB_ID", "0"),
        "--rdzv_endpoint=%s:%d" % (head, world["port"]),
    ]
    if not plan["max_restarts"]:
        words += ["--rdzv_backend=static", "--node_rank=%d" % index]
        return words + ["--rdzv_conf=timeout=%d" % STORE_S]
    is_host = "false" if index else "true"
    words += ["--rdzv_backend=c10d", "--rdzv_conf=is_host=%s,timeout=%d" % (is_host, STORE_S)]
    if hasattr(run.parse_args(["-"]), "local_addr"):  # PyTorch 2
        words.append("--local_addr=%s" % own)
    return words


def hand_on(number: int, _frame: "Any") -> None:
    """Forward a signal to the ranks, because torchrun does not forward it."""
    for pid in launch_processes.children():
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def wait_for_ranks() -> None:
    """Wait for ranks that save data. torchrun does not wait after a second signal."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def main(argv: "List[str]") -> int:
    job_dir, attempt, index = os.path.abspath(argv[1]), argv[2], int(argv[3])
    with open(os.path.join(job_dir, "world.%s.json" % attempt), encoding="utf-8") as file:
        world = json.load(file)
    with open(os.path.join(job_dir, "launch.json"), encoding="utf-8") as file:
        plan = json.load(file)
    folder = os.path.join(job_dir, "torchrun.%s.%d" % (attempt, index))
    os.makedirs(folder, exist_ok=True)  # shows launch.py that this program has started
    os.environ.update(world["environment"])
    node = world["nodes"][index]
    for name, address in launch_network.interfaces():
        if address == node["address"]:  # otherwise Gloo looks up the node's name
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name.partition(":")[0])
    # Use one thread for each CPU of a process. By default, torchrun warns and uses one thread.
    threads = max(1, node["cpus"] // world["processes"][index])
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    level = os.environ.get("LOGLEVEL")
    os.environ.setdefault("LOGLEVEL", "CRITICAL")  # the ranks report failures
    try:
        from torch.distributed import run
        from torch.distributed.elastic.multiprocessing import (
            SignalException,
            Std,
        )
        from torch.distributed.elastic.multiprocessing.errors import (
            ChildFailedError,
        )
    except ImportError as error:
        python = "Python %d.%d.%d" % sys.version_info[:3]
        runner.complain(
            "torchrun needs PyTorch 1.10 or later, which %s cannot import: %s." % (python, error)
        )
        return MISSING
    if level is None:
        del os.environ["LOGLEVEL"]
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    words = words_of(run, world, plan, folder, index)
    if Std.from_str("0") is None:  # PyTorch 1 with Python 3.11 takes only a map
        words += ["--redirects=9:1", "--tee=9:1"]
    words += [os.path.join(job_dir, world["runner"]), job_dir, attempt, "torchrun"]
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # torchrun ends on other signals
        signal.signal(number, hand_on)
    try:
        run.main(words)
    except ChildFailedError:
        return 1
    except SignalException as error:
        for number in runner.FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        wait_for_ranks()
        return 128 + int(error.sigval)
    return 0


if __name__ == "__main__":
    ended = main(sys.argv)
    for late in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(late, signal.SIG_IGN)  # otherwise PyTorch raises an error
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)  # no user code ran here, and PyTorch's clean-up takes 0.2 s
