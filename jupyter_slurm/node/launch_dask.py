"""Dask on one node of a job, in the image: a worker, and on the first node the scheduler and the
user's code, too.

    python3 -uB launch_dask.py JOBDIR ATTEMPT INDEX

Python 3.6 and later, standard library, dask and distributed only; what it has in common with Ray is
in launch_engine.py. Dask checks who connects by TLS alone: all of the job's processes show
the certificate `tls.pem`, which was made for this job alone, and accept no other.
"""

import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_engine

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional  # noqa: F401 - in comments

CERTIFICATE, KEY = "tls.pem", "tls.key"
LOOPBACK = "127.0.0.1:0"
"""Where dashboards would listen (launch_dask_dashboard.py)."""


class Dask(launch_engine.Engine):
    name = "Dask"
    module = "distributed"
    needs = "Dask"

    @classmethod
    def flaw(cls):
        # type: () -> Optional[str]
        return None

    def start(self):
        # type: () -> None
        for name in (CERTIFICATE, KEY):
            if not os.path.exists(os.path.join(self.node.job_dir, name)):
                raise launch_engine.EngineError("the job's folder has no %s for Dask" % name)
        self.file = os.path.join(self.node.folder, "scheduler.%d.json" % self.node.index)
        self.env = self.environment_of_programs()
        self.env.pop("DASK_SCHEDULER_ADDRESS", None)
        if self.node.index == 0:
            self._run("scheduler", host=self.node.address, port=0, dashboard_address=LOOPBACK)
        self._run(
            "worker",
            host=self.node.address,
            name=self.node.name,
            nthreads=self.node.cpus,
            memory_limit=self.node.memory_bytes or "auto",
            local_directory=self.node.folder,
            dashboard_address=LOOPBACK,
        )

    def _run(self, kind, **options):
        # type: (str, Any) -> None
        program = os.path.join(self.node.job_dir, "launch_dask_program.py")
        told = json.dumps(dict(options, protocol="tls"))
        argv = [sys.executable, "-uB", program, kind, self.file, told]
        self.programs.append(launch_engine.Program(self.node.news, argv, self.env))

    def environment(self):
        # type: () -> Dict[str, str]
        """Return Dask's configuration, for the engine and for each `Client()` of the code's."""
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

    def lead(self):
        # type: () -> Optional[Dict[str, Any]]
        with contextlib.suppress(FileNotFoundError), open(self.file, encoding="utf-8") as file:
            return dict(json.load(file))
        return None

    def join(self, told):
        # type: (Dict[str, Any]) -> None
        with open(self.file + ".partial", "w", encoding="utf-8") as file:
            json.dump({"address": told["address"]}, file)
        os.rename(self.file + ".partial", self.file)


if __name__ == "__main__":
    launch_engine.run(sys.argv, Dask)
