"""Dask's scheduler, or a worker of it.

    python3 -uB launch_dask_program.py scheduler|worker FILE OPTIONS

Python 3.6 and later, standard library and distributed only. OPTIONS are those of its class, as
JSON. The scheduler tells in FILE where it is; a worker waits for that file. Dask's own commands
would end when Slurm asks a step's processes to, and the user's code may want to use it then.
"""

import asyncio
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any  # noqa: F401 - in comments

LOOK_S = 0.02


async def scheduler(path, options):
    # type: (str, Any) -> None
    import launch_dask_dashboard  # noqa: PLC0415
    from distributed import Scheduler  # noqa: PLC0415 - while the other programs start

    async with Scheduler(**options) as server:
        at = os.path.join(os.path.dirname(path), "dashboard")
        launch_dask_dashboard.listen(server, at)
        told = {"address": server.address, "dashboard": at}
        runner.put(path, json.dumps(told).encode("ascii"))
        await server.finished()


async def worker(path, options):
    # type: (str, Any) -> None
    from distributed import Nanny  # noqa: PLC0415 - while the scheduler starts

    options["preload"] = [os.path.join(sys.path[0], "launch_dask_dashboard.py")]
    async with Nanny(wait_for(path)["address"], **options) as server:
        await server.finished()


def wait_for(path):
    # type: (str) -> Any
    """Return what the file tells once it is there."""
    while not os.path.exists(path):
        time.sleep(LOOK_S)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    kind = scheduler if sys.argv[1] == "scheduler" else worker
    asyncio.run(kind(sys.argv[2], json.loads(sys.argv[3])))  # novermin: Dask needs Python 3.7
