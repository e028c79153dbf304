"""Dask on one node of a job, in the image. Each node runs a worker. The first node also runs the
scheduler and the user's code.

    python3 -uB launch_dask.py JOBDIR ATTEMPT INDEX
    python3 -uB launch_dask.py scheduler|worker FILE OPTIONS

Python 3.6 and later, standard library, dask and distributed only. The second command line runs a
scheduler or a worker. Dask's own commands would end at Slurm's SIGTERM, when the user's code may
still need the workers. OPTIONS are the arguments of Dask's class, as JSON. The scheduler writes its
address to FILE, and the worker on the same node waits for that file. TLS authenticates all
connections: the job's processes have the certificate `tls.pem`, created for this job, and accept no
other.
"""

import asyncio
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_engine
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, Optional

CERTIFICATE, KEY = "tls.pem", "tls.key"
LOOPBACK = "127.0.0.1:0"
"""The address of Dask's dashboards. launch_dask_dashboard.py closes their ports."""


class Dask(launch_engine.Engine):
    name = "Dask"
    module = "distributed"
    needs = "Dask"

    def __init__(self, node: launch_engine.Node) -> None:
        super().__init__(node)
        for name in (CERTIFICATE, KEY):
            if not os.path.exists(os.path.join(node.job_dir, name)):
                raise launch_engine.EngineError("the job's folder has no %s for Dask" % name)
        self.file = os.path.join(node.folder, "scheduler.json")

    @classmethod
    def flaw(cls) -> "Optional[str]":
        return None

    def environment(self) -> "Dict[str, str]":
        """Return Dask's configuration for the engine and for `Client()` in the user's code."""
        certificate = os.path.join(self.node.job_dir, CERTIFICATE)
        key = os.path.join(self.node.job_dir, KEY)
        tls = "DASK_DISTRIBUTED__COMM__TLS__"
        env = {tls + "CA_FILE": certificate, "DASK_TEMPORARY_DIRECTORY": self.node.folder}
        for role in ("SCHEDULER", "WORKER", "CLIENT"):
            env["%s%s__CERT" % (tls, role)] = certificate
            env["%s%s__KEY" % (tls, role)] = key
        env["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "True"
        env.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")
        return env

    def lead(self) -> None:
        node = self.node
        self._run("scheduler", host=node.head, port=node.port, dashboard_address=LOOPBACK)
        self._run_worker()

    def place(self) -> "Optional[Dict[str, Any]]":
        if not os.path.exists(self.file):
            return None
        with open(self.file, encoding="utf-8") as file:
            return dict(json.load(file))

    def join(self, told: "Dict[str, Any]") -> None:
        self._run_worker(scheduler_ip=told["address"])

    def _run_worker(self, **more: "Any") -> None:
        self._run(
            "worker",
            host=self.node.address,
            name=self.node.name,
            nthreads=self.node.cpus,
            memory_limit=self.node.memory_bytes or "auto",
            local_directory=self.node.folder,
            dashboard_address=LOOPBACK,
            **more,
        )

    def _run(self, kind: str, **options: "Any") -> None:
        told = json.dumps(dict(options, protocol="tls"))
        argv = [sys.executable, "-uB", os.path.abspath(__file__), kind, self.file, told]
        env = self.environment_of_programs()
        env.pop("DASK_SCHEDULER_ADDRESS", None)
        self.programs.append(launch_engine.Program(self.node.events, argv, env))


async def scheduler(path: str, options: "Any") -> None:
    import launch_dask_dashboard
    from distributed import Scheduler  # the launcher of the programs does not need it

    async with Scheduler(**options) as server:
        at = os.path.join(os.path.dirname(path), "dashboard")
        launch_dask_dashboard.listen(server, at)
        told = {"address": server.address, "dashboard": at}
        runner.put(path, json.dumps(told).encode("ascii"))
        await server.finished()


async def worker(options: "Any") -> None:
    from distributed import Nanny  # see `main`

    options["preload"] = [os.path.join(sys.path[0], "launch_dask_dashboard.py")]
    async with Nanny(**options) as server:
        await server.finished()


def main(argv: "Any") -> None:
    """Run a scheduler or a worker."""
    for number in runner.FORWARDED:
        signal.signal(number, signal.SIG_IGN)
    path, options = argv[2], json.loads(argv[3])
    if argv[1] == "scheduler":
        asyncio.run(scheduler(path, options))  # novermin: Dask needs Python 3.7
        return
    import distributed  # noqa: F401 - while the scheduler starts

    while "scheduler_ip" not in options:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                options["scheduler_ip"] = json.load(file)["address"]
        time.sleep(launch_engine.LOOK_S)
    asyncio.run(worker(options))  # novermin: Dask needs Python 3.7


if __name__ == "__main__":
    if sys.argv[1] in ("scheduler", "worker"):
        main(sys.argv)
    else:
        launch_engine.run(sys.argv, Dask)
