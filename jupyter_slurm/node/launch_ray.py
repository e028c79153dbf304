"""The program of one node of a job that Ray spreads over its nodes, in the image.

    python3 -uB launch_ray.py JOBDIR ATTEMPT INDEX

Python 3.6 and later, standard library and Ray only. On the first node it also runs the user's code,
once, and ends with it. Ray asks for a token (since 2.52), which only this job's files hold; all its
ports are its own, and all its files lie in a folder of the job's, so that another Ray on the node,
of whomever, is not met. Its processes are ended by their ids: `ray stop` would end others'.
"""

import contextlib
import hashlib
import hmac
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_processes
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional  # noqa: F401 - in comments

MISSING = 65
FAILED = 70
OLDEST = (2, 52)
"""The first Ray that can ask for a token."""
START_S = 50.0
GRACE_S = 5.0
SHARE = 0.3
"""Ray's own share of the memory for its object store; more would leave the code too little."""
ADDRESS = re.compile(r"--address='?([^'\s]+:[0-9]+)")
PR_SET_CHILD_SUBREAPER = 36


class EngineError(Exception):
    """Ray does not begin; says why."""


def version():
    # type: () -> None
    """Raise EngineError where there is no Ray, or one that cannot ask for a token."""
    python = "Python %d.%d.%d" % sys.version_info[:3]
    try:
        from ray import _version  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(
            "--launch ray needs Ray 2.54 or later, which %s cannot import: %s" % (python, error)
        ) from None
    found = tuple(int(part) for part in _version.version.split(".")[:2])
    if found < OLDEST:
        raise EngineError(
            "--launch ray needs Ray 2.54 or later, which asks for a token; this is %s."
            % _version.version
        )


def free_port(address):
    # type: (str) -> int
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


def store_bytes():
    # type: () -> Optional[int]
    """Return how much memory of the job to give to Ray's object store; None: Ray's own guess, where
    the job has the whole node."""
    per_node = os.environ.get("SLURM_MEM_PER_NODE", "")
    per_cpu = os.environ.get("SLURM_MEM_PER_CPU", "")
    cpus = os.environ.get("SLURM_CPUS_ON_NODE", "1")
    mib = int(per_node) if per_node.isdigit() else 0
    if not mib and per_cpu.isdigit():
        mib = int(per_cpu) * int(cpus)
    if not mib:
        return None
    shm = os.statvfs("/dev/shm")
    return max(80 << 20, min(int(mib * SHARE) << 20, int(shm.f_bavail * shm.f_frsize * 0.9)))


class Ray(object):
    """Ray on this node."""

    def __init__(self, job_dir, attempt, index):
        # type: (str, str, int) -> None
        self.job_dir = job_dir
        self.attempt = attempt
        self.index = index
        with open(os.path.join(job_dir, "world.%s.json" % attempt), encoding="utf-8") as file:
            self.world = json.load(file)
        self.node = self.world["nodes"][index]
        self.folder = ""
        self.owns_folder = True
        self.process = None  # type: Optional[subprocess.Popen[str]]
        self.code = None  # type: Optional[subprocess.Popen[bytes]]
        self.told = []  # type: List[str]
        self.address = None  # type: Optional[str]

    def prepare(self, folder):
        # type: (Optional[str]) -> None
        """Make Ray's folder, which has the same name on all nodes (`folder`; None: this is the
        first), and put the token into it. Raise EngineError: it is somebody else's here."""
        if folder is None:
            # Short: the path of a socket in it may have 107 characters.
            self.folder = tempfile.mkdtemp(prefix="jslr-", dir="/tmp")
        else:
            self.folder = folder
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                if os.lstat(folder).st_uid != os.getuid():
                    told = "%s is another user's on %s." % (folder, self.node["name"])
                    raise EngineError(told) from None
                self.owns_folder = False  # both nodes are one machine
        with open(os.path.join(self.job_dir, "key"), "rb") as file:
            key = file.read().strip()
        token = hmac.new(key, b"ray " + self.attempt.encode(), hashlib.sha256).hexdigest()
        path = os.path.join(self.folder, "token")
        if self.owns_folder:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(token)
        os.environ.update(
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN_PATH=path,
            RAY_USAGE_STATS_ENABLED="0",
            RAY_DISABLE_IMPORT_WARNING="1",
        )

    def start(self, head):
        # type: (Optional[str]) -> None
        """Start Ray: the head, or a worker of the one at that address. Raise EngineError."""
        address = self.node["address"]
        words = ["--node-ip-address=%s" % address, "--num-cpus=%d" % self.node["cpus"]]
        words += ["--num-gpus=%d" % self.node["gpus"], "--disable-usage-stats", "--block"]
        words += ["--temp-dir=%s" % self.folder, "--log-color=false"]
        words += ["--dashboard-agent-listen-port=%d" % free_port(address)]
        room = store_bytes()
        if room is not None:
            words.append("--object-store-memory=%d" % room)
        if head is None:
            self.dashboard = free_port("127.0.0.1")
            words += ["--head", "--port=0", "--dashboard-host=127.0.0.1"]
            words += ["--dashboard-port=%d" % self.dashboard]
            if importlib.util.find_spec("grpc") is not None:  # it has a port by default then
                words.append("--ray-client-server-port=%d" % free_port(address))
        else:
            words.append("--address=%s" % head)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start"] + words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            bufsize=1,
        )
        threading.Thread(target=self._read, daemon=True).start()
        deadline_s = time.monotonic() + START_S
        while not any("--block" in line for line in self.told):
            if self.process.poll() is not None or time.monotonic() > deadline_s:
                last = [line for line in self.told if line.strip()][-3:]
                raise EngineError(
                    "Ray does not start on %s: %s" % (self.node["name"], " ".join(last))
                )
            time.sleep(0.02)
        if head is None:
            found = ADDRESS.search("\n".join(self.told))
            if found is None:
                raise EngineError(
                    "Ray has started on %s and does not say where." % self.node["name"]
                )
            self.address = found.group(1)

    def _read(self):
        # type: () -> None
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(line.strip())

    def run(self):
        # type: () -> int
        """Run the user's code on this, the first, node; return its exit code."""
        told = {"address": self.address, "dashboard": self.dashboard, "folder": self.folder}
        path = os.path.join(self.job_dir, "engine.%s.json" % self.attempt)
        runner.put(path, json.dumps(told).encode("ascii"))
        os.environ["RAY_ADDRESS"] = str(self.address)
        program = os.path.join(self.job_dir, "runner.py")
        words = [sys.executable, "-uB", program, self.job_dir, self.attempt]
        self.code = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        code = self.code.wait()
        return code if code >= 0 else 128 - code

    def head(self):
        # type: () -> Dict[str, Any]
        """Return what the first node tells of its Ray. Raise EngineError: it does not."""
        path = os.path.join(self.job_dir, "engine.%s.json" % self.attempt)
        deadline_s = time.monotonic() + START_S
        while not os.path.exists(path):
            if time.monotonic() > deadline_s:
                raise EngineError("Ray on %s does not start." % self.world["nodes"][0]["name"])
            os.listdir(self.job_dir)  # makes NFS ask
            time.sleep(0.05)
        with open(path, encoding="utf-8") as file:
            return json.load(file)  # type: ignore[no-any-return]

    def stay(self):
        # type: () -> int
        """Work for the first node until this one is told to end."""
        assert self.process is not None
        code = self.process.wait()
        last = [line for line in self.told if line.strip()][-2:]
        runner.complain("Ray has ended on %s: %s" % (self.node["name"], " ".join(last)))
        return code or FAILED

    def end(self):
        # type: () -> None
        for number in (signal.SIGTERM, signal.SIGKILL):
            launch_processes.end_below(number, GRACE_S)
        if self.owns_folder and self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def main(argv):
    # type: (List[str]) -> int
    job_dir, attempt, index = os.path.abspath(argv[1]), argv[2], int(argv[3])
    with contextlib.suppress(OSError, AttributeError):
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        version()
    except EngineError as error:
        runner.complain(str(error))
        return MISSING
    ray = Ray(job_dir, attempt, index)

    def hand_on(number, _frame):
        # type: (int, Any) -> None
        """Let the user's code hear it, and end with that; where it does not run, end."""
        if ray.code is not None and ray.code.poll() is None:
            ray.code.send_signal(number)
        elif number in (signal.SIGTERM, signal.SIGINT):
            raise SystemExit(0 if index else 128 + number)

    for number in runner.FORWARDED:
        signal.signal(number, hand_on)
    try:
        if index:
            head = ray.head()
            ray.prepare(head["folder"])
            ray.start(head["address"])
            return ray.stay()
        ray.prepare(None)
        ray.start(None)
        return ray.run()
    except EngineError as error:
        runner.complain(str(error))
        return FAILED
    finally:
        for number in runner.FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        ray.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
