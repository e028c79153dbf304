"""Ray on one node of a job, in the image; on the first node also the user's code.

    python3 -uB launch_ray.py JOBDIR ATTEMPT INDEX

Python 3.6 and later, standard library and Ray only; what it has in common with Dask is in
launch_engine.py. Ray asks for a token since 2.52, and only this job's processes have it: Ray's
ports are open to everybody. No port is fixed, and all files lie in a folder of the job's, so that
another Ray on the node, of whomever, is not met.
"""

import importlib.util
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_engine
import launch_line
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional  # noqa: F401 - in comments

OLDEST = (2, 52)
"""The first Ray that can ask for a token."""
UP = "--block"
"""Ray's last words before it waits for its end."""
DASHBOARD = re.compile(r"RAY_API_SERVER_ADDRESS='http://[^':]+:([0-9]+)'")
NOWHERE = "-1"
"""A port at which Ray fails to listen, says so in its own log, and goes on."""
SHARE = 0.3
"""Ray's own share of the memory for its object store; more would leave the code too little."""
SMALLEST_BYTES = 80 << 20
"""The smallest object store that Ray accepts is 75 MiB."""
START = (
    "import json, sys\n"
    "from ray.scripts import scripts\n"
    "sys.argv = ['ray'] + json.loads(sys.stdin.readline())\n"
    "scripts.main()\n"
)
"""Imports Ray's command line while the first node starts, and then runs what it is given."""
OTHERS = (
    "RAY_ADDRESS RAY_API_SERVER_ADDRESS RAY_AUTH_TOKEN RAY_GCS_SERVER_PORT RAY_NODE_IP_ADDRESS "
    "RAY_NAMESPACE RAY_REDIS_ADDRESS RAY_JOB_ID"
)
"""Variables by which somebody's shell may lead to another Ray, or bring another token."""


class Ray(launch_engine.Engine):
    name = "Ray"
    module = "ray"
    needs = "Ray 2.52 or later"

    @classmethod
    def flaw(cls):
        # type: () -> Optional[str]
        spec = importlib.util.find_spec("ray")
        places = list(spec.submodule_search_locations or []) if spec else []
        for place in places:
            found = version_in(os.path.join(place, "_version.py"))
            if found is not None and found < OLDEST:
                return "Ray %d.%d, which asks nobody for a token" % found
        return None

    def start(self):
        # type: () -> None
        self.temporary = os.path.join(self.node.folder, "r%d" % self.node.index)
        token = os.path.join(self.node.folder, "token.%d" % self.node.index)
        with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.node.secret("ray"))
        env = self.environment_of_programs()
        for name in OTHERS.split():
            env.pop(name, None)
        words = [sys.executable, "-c", START]
        line = "" if self.node.index else json.dumps(self._words(None))
        self.ray = launch_engine.Program(self.node.news, words, env, line)
        self.programs.append(self.ray)
        self.is_up = False
        self.dashboard = None  # type: Optional[int]

    def environment(self):
        # type: () -> Dict[str, str]
        """Return what Ray and the code have to know; the token is not in it."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": os.path.join(self.node.folder, "token.%d" % self.node.index),
            "RAY_TMPDIR": self.node.folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            # Ray gives its metrics to whoever connects, without a token.
            "RAY_enable_metrics_collection": "0",
            "AUTOSCALER_METRIC_PORT": NOWHERE,
            "DASHBOARD_METRIC_PORT": NOWHERE,
        }

    def hear(self, line):
        # type: (str) -> None
        found = DASHBOARD.search(line)
        if found:
            self.dashboard = int(found.group(1))
        self.is_up = self.is_up or line.endswith(UP)

    def lead(self):
        # type: () -> Optional[Dict[str, Any]]
        if not self.is_up:
            return None
        with open(os.path.join(self.temporary, "ray_current_cluster")) as file:
            return {"address": file.read().strip(), "dashboard": self.dashboard}

    def join(self, told):
        # type: (Dict[str, Any]) -> None
        self.ray.give(json.dumps(self._words(str(told["address"]))))

    def _words(self, head):
        # type: (Optional[str]) -> List[str]
        """Return the command line: of the head, or of a node that joins the one at `head`."""
        node = self.node
        words = ["start", "--block", "--disable-usage-stats", "--log-color=false"]
        words += ["--node-name=" + node.name, "--node-ip-address=" + node.address]
        words += ["--num-cpus=%d" % node.cpus, "--num-gpus=%d" % node.gpus]
        words += ["--dashboard-agent-listen-port=0"]  # else the same for every Ray
        words += ["--temp-dir=" + self.temporary] + self._memory()
        if head is not None:
            return words + ["--address=" + head]
        words += ["--head", "--port=0"]
        words += ["--dashboard-host=127.0.0.1", "--dashboard-port=%d" % launch_line.free_port()]
        if importlib.util.find_spec("grpc") is not None:  # it opens a port of its own then: 10001
            words.append("--ray-client-server-port=%d" % launch_line.free_port())
        return words

    def _memory(self):
        # type: () -> List[str]
        """Return the options that keep Ray within the job's memory and the node's /dev/shm."""
        limit = self.node.memory_bytes
        whole = limit or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        wanted = int(whole * SHARE)
        shm = os.statvfs("/dev/shm")
        room = int(shm.f_bavail * shm.f_frsize * 0.9)
        words = [] if limit is None else ["--memory=%d" % max(limit - wanted, SMALLEST_BYTES)]
        if room < min(wanted, 2 * SMALLEST_BYTES):
            told = (room >> 20, self.node.name, self.node.folder)
            text = "/dev/shm has %d MiB free on %s, so Ray keeps its objects in %s, which is slower"
            runner.complain(text % told)
            disk = os.statvfs(self.node.folder)
            room = disk.f_bavail * disk.f_frsize // 2
            words.append("--plasma-directory=" + self.node.folder)
        store = max(SMALLEST_BYTES, min(wanted, room))
        return words + ["--object-store-memory=%d" % store]


def version_in(path):
    # type: (str) -> Optional[tuple[int, int]]
    """Return the version that Ray's own file tells, or None. Importing Ray would take seconds."""
    try:
        with open(path, encoding="utf-8") as file:
            found = re.search(r"^version = [\"']([0-9]+)\.([0-9]+)", file.read(), re.M)
    except OSError:
        return None
    return (int(found.group(1)), int(found.group(2))) if found else None


if __name__ == "__main__":
    launch_engine.run(sys.argv, Ray)
