"""Ray on one node of a job, in the image. The first node also runs the user's code.

    python3 -uB launch_ray.py JOBDIR ATTEMPT INDEX

Python 3.6 and later, standard library and Ray only. It runs `ray start` as Ray's manual for Slurm
describes. Other users can connect to Ray's ports, so Ray requires a token that only this job has
(since Ray 2.52). Each Ray on the node has separate files and ports.
"""

import importlib.util
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_engine
import launch_network
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional

OLDEST = (2, 52)
"""The first Ray release that can require a token."""
UP = "--block"
"""The end of the last line that Ray prints when it starts."""
LATE = "timed out during startup"
"""Ray's message if it has not started after 30 s. No option changes that time (Ray's
_private/node.py)."""
MISSED, MISSED_CHECKS = "RAY_health_check_failure_threshold", "3"
"""Number of unanswered checks after which a node is lost. Each check takes 13 s; Ray's default is 5
checks."""
NOWHERE = "-1"
"""A port on which Ray cannot listen. Ray then continues without listening."""
SHARE = 0.3
"""The object store's fraction of the memory. Ray's default would leave too little for the code."""
SMALLEST_BYTES = 80 << 20
"""Minimum size of the object store. Ray accepts 75 MiB or more."""
OTHERS = (
    "RAY_ADDRESS RAY_API_SERVER_ADDRESS RAY_AUTH_TOKEN RAY_GCS_SERVER_PORT RAY_NODE_IP_ADDRESS "
    "RAY_NAMESPACE RAY_REDIS_ADDRESS RAY_JOB_ID"
)
"""Variables of the user's shell that may name another Ray cluster or token."""


class Ray(launch_engine.Engine):
    name = "Ray"
    module = "ray"
    needs = "Ray 2.52 or later"
    is_up = False
    is_late = False

    @classmethod
    def flaw(cls) -> "Optional[str]":
        spec = importlib.util.find_spec("ray")
        for place in list(spec.submodule_search_locations or []) if spec else []:
            found = version_in(os.path.join(place, "_version.py"))
            if found is not None and found < OLDEST:
                return "Ray %d.%d, which does not support tokens" % found
        return None

    def environment(self) -> "Dict[str, str]":
        """Return the environment variables of Ray and of the code. They name the file with the
        token."""
        path = os.path.join(self.node.folder, "token.%d" % self.node.index)
        if not os.path.exists(path):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(self.node.secret("ray"))
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": path,
            "RAY_TMPDIR": self.node.folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            # Turn metrics off, because Ray serves them without a token.
            "RAY_enable_metrics_collection": "0",
            "AUTOSCALER_METRIC_PORT": NOWHERE,
            "DASHBOARD_METRIC_PORT": NOWHERE,
            MISSED: os.environ.get(MISSED, MISSED_CHECKS),
        }

    def lead(self) -> None:
        self.dashboard = launch_network.free_port()
        words = ["--head", "--port=%d" % self.node.port]
        words += ["--dashboard-host=127.0.0.1", "--dashboard-port=%d" % self.dashboard]
        if importlib.util.find_spec("grpc") is not None:  # otherwise Ray does not open the port
            words.append("--ray-client-server-port=%d" % launch_network.free_port())
        self._start(words)

    def hear(self, line: str) -> None:
        self.is_up = self.is_up or line.endswith(UP)
        self.is_late = self.is_late or LATE in line

    def starts_again(self) -> bool:
        """Start Ray again if it timed out on a slow file system, because the second start is
        faster."""
        if not self.is_late or len(self.programs) > 1:
            return False
        self._start(self.own)
        return True

    def place(self) -> "Optional[Dict[str, Any]]":
        if not self.is_up:
            return None
        address = "%s:%d" % (self.node.head, self.node.port)
        return {"address": address, "dashboard": self.dashboard}

    def join(self, told: "Dict[str, Any]") -> None:
        self._start(["--address=%s" % told["address"]])

    def _start(self, own: "List[str]") -> None:
        """Run `ray start` with the options for every node and the options `own` for this node."""
        self.own = own
        node = self.node
        words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        words += ["--disable-usage-stats", "--log-color=false"]
        words += ["--node-name=" + node.name, "--node-ip-address=" + node.address]
        words += ["--num-cpus=%d" % node.cpus, "--num-gpus=%d" % node.gpus]
        words += ["--dashboard-agent-listen-port=0"]  # the default is a fixed port
        words += ["--temp-dir=" + os.path.join(node.folder, "r%d" % node.index)]
        env = self.environment_of_programs()
        for name in OTHERS.split():
            env.pop(name, None)
        words += self._memory() + own
        self.programs.append(launch_engine.Program(node.events, words, env))

    def _memory(self) -> "List[str]":
        """Return the options that keep Ray within the job's memory and /dev/shm."""
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


def version_in(path: str) -> "Optional[tuple[int, int]]":
    """Read Ray's version from its file `path`, because importing Ray would take seconds. Return
    None if the version is unknown."""
    try:
        with open(path, encoding="utf-8") as file:
            found = re.search(r"^version = [\"']([0-9]+)\.([0-9]+)", file.read(), re.M)
    except OSError:
        return None
    return (int(found.group(1)), int(found.group(2))) if found else None


if __name__ == "__main__":
    launch_engine.run(sys.argv, Ray)
