"""The part of a job on many nodes that runs on one of them, outside any image.

    srun … python3 -uBS launch_part.py JOBDIR ATTEMPT PORT ADDRESS,ADDRESS…

Runs on each node, Python 3.6 and later, standard library only. It connects to the launcher
(launch.py) by the first of these addresses that reaches it, tries whether it reaches the other
parts, and starts the engine's program of this node, in the image (the script `engine`). It ends
with the launcher, and ends before what it has started.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_line
import launch_processes

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional, Tuple  # noqa: F401 - in comments

REACH_S = 15.0
"""How long to try to reach the launcher, which listens before this starts."""
TRY_S = 3.0
SEEN_S = 60.0
"""How long a file that another node has written may take to be seen here (NFS)."""
MEASURE_AFTER_S = 1.0
"""What measures the node begins later than the program, which needs the CPUs then."""
GRACE_S = 5.0
"""How long programs have to end after SIGTERM."""
TAIL_BYTES = 2000
PR_SET_CHILD_SUBREAPER = 36
FAILED = 70
"""EX_SOFTWARE of sysexits.h."""


class Part(object):
    def __init__(self, job_dir, attempt):
        # type: (str, str) -> None
        self.job_dir = job_dir
        self.attempt = attempt
        self.index = int(os.environ.get("SLURM_NODEID", "0"))
        self.name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        self.key = launch_line.read_key(job_dir)
        self.program = None  # type: Optional[subprocess.Popen[bytes]]
        self.measures = None  # type: Optional[threading.Timer]
        """What will start `usage`."""
        self.usage = None  # type: Optional[subprocess.Popen[bytes]]
        self.listener = None  # type: Optional[socket.socket]
        with open(os.path.join(job_dir, "launch.json"), encoding="utf-8") as file:
            self.plan = json.load(file)

    # --- the others ---

    def reach(self, port, addresses):
        # type: (int, List[str]) -> launch_line.Line
        """Return the line to the launcher. Exit when there is none, and leave the reason in a file:
        there is no other way to tell."""
        deadline_s = time.monotonic() + REACH_S
        failed = {}  # type: Dict[str, str]
        while time.monotonic() < deadline_s:
            for address in addresses:
                try:
                    sock = socket.create_connection((address, port), TRY_S)
                    return launch_line.Line(sock, self.key, b"part")
                except (OSError, launch_line.StrangerError) as error:
                    failed[address] = words(error)
            time.sleep(0.2)
        # Loopback leads to the launcher only where the nodes are one machine.
        far = {one: told for one, told in failed.items() if not one.startswith("127.")}
        tried = "; ".join("at %s: %s" % one for one in (far or failed).items())
        first = launch_line.expand(os.environ.get("SLURM_JOB_NODELIST", "")) or ["the first node"]
        why = "%s cannot reach %s %s." % (self.name, first[0], tried)
        path = os.path.join(self.job_dir, "part.%s.%d.json" % (self.attempt, self.index))
        with open(path + ".partial", "w") as file:
            json.dump({"why": why}, file)
        os.replace(path + ".partial", path)
        raise SystemExit(FAILED)

    def listen(self, address):
        # type: (str) -> int
        """Let the other parts in, at this address alone; return the port."""
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.bind((address, 0))
        self.listener.listen(512)
        threading.Thread(target=self._answer, args=(self.listener,), daemon=True).start()
        return int(self.listener.getsockname()[1])

    def _answer(self, listener):
        # type: (socket.socket) -> None
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._prove, args=(sock,), daemon=True).start()

    def _prove(self, sock):
        # type: (socket.socket) -> None
        try:
            launch_line.Line(sock, self.key, b"launcher").close()
        except (OSError, launch_line.StrangerError):
            sock.close()

    def check(self, others):
        # type: (Dict[str, Any]) -> List[str]
        """Return a sentence for each of the others that cannot be reached."""
        wrong = []
        for index, (name, address, port) in sorted(others.items()):
            if int(index) == self.index:
                continue
            try:
                sock = socket.create_connection((address, port), TRY_S)
                launch_line.Line(sock, self.key, b"part").close()
            except (OSError, launch_line.StrangerError) as error:
                told = (self.name, name, address, words(error))
                wrong.append("%s cannot reach %s at %s: %s." % told)
        return wrong

    # --- what runs here ---

    def go(self, line, with_engine):
        # type: (launch_line.Line, bool) -> None
        if self.listener is not None:
            launch_line.shut(self.listener)
        if self.index:  # on the first node the batch script does it
            self.measures = threading.Timer(MEASURE_AFTER_S, self._measure)
            self.measures.start()
        if with_engine:
            threading.Thread(target=self._engine, args=(line,), daemon=True).start()

    def _measure(self):
        # type: () -> None
        out = "usage.%s.%d.jsonl" % (self.attempt, self.index)
        self.usage = subprocess.Popen(
            [sys.executable, "-ISB", os.path.join(self.job_dir, "usage.py")]
            + [os.path.join(self.job_dir, out), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _engine(self, line):
        # type: (launch_line.Line) -> None
        """Run the engine's program to its end, and tell the launcher."""
        import ctypes  # noqa: PLC0415 - takes its time, and parts of an MPI job do not need it

        # What a program leaves behind comes to this one, and is ended with it.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        world = os.path.join(self.job_dir, "world.%s.json" % self.attempt)
        deadline_s = time.monotonic() + SEEN_S
        while not os.path.exists(world) and time.monotonic() < deadline_s:
            os.listdir(self.job_dir)  # makes NFS ask
            time.sleep(0.05)
        inside = self.plan["inside"]
        python = "python3" if self.plan["in_image"] else sys.executable
        name = "launch_%s.py" % self.plan["engine"]
        env = dict(os.environ)
        # Each node's files and containers have names of their own.
        env["JSLURM_NODE"] = ".%d" % self.index if self.index else ""
        self.program = subprocess.Popen(
            ["/bin/bash", os.path.join(self.job_dir, "engine"), python, "-uB"]
            + ["%s/%s" % (inside, name), inside, self.attempt, str(self.index)],
            env=env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        tail = b""
        assert self.program.stderr is not None
        for text in self.program.stderr:
            tail = (tail + text)[-TAIL_BYTES:]
            os.write(2, launch_line.PASSED_ON.encode() + text)
        code = self.program.wait()
        told = {"ended": code if code >= 0 else 128 - code, "tail": tail.decode("utf-8", "replace")}
        line.send(told)

    def signal(self, number):
        # type: (int) -> None
        """Hand a signal on to the engine's program; where its container is still being made, once
        that is there."""
        if self.program is None or self.program.poll() is not None:
            return
        pid = self._pid_inside()
        if self.plan["pid_file"] and pid is None:
            threading.Thread(target=self._signal_later, args=(number,), daemon=True).start()
        with contextlib.suppress(OSError):  # it has just ended: Slurm signals steps, too
            os.kill(pid or self.program.pid, number)

    def _signal_later(self, number):
        # type: (int) -> None
        assert self.program is not None
        pid = None  # type: Optional[int]
        while pid is None and self.program.poll() is None:
            time.sleep(0.1)
            pid = self._pid_inside()
        if pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _pid_inside(self):
        # type: () -> Optional[int]
        """Return the process id that the engine's program has told; None: it has told none yet."""
        name, ending = os.path.splitext(self.plan["pid_file"] or "")
        path = name + (".%d" % self.index if self.index else "") + ending
        try:
            with open(path) as file:
                return int(file.read())
        except (OSError, ValueError):
            return None

    def end(self):
        # type: () -> None
        """End all that was started here, whoever its parent is by now."""
        if self.measures is not None:
            self.measures.cancel()
        if self.usage is not None and self.usage.stdin is not None:
            self.usage.stdin.close()
        self.signal(signal.SIGTERM)
        launch_processes.end_below(GRACE_S)


def words(error):
    # type: (Exception) -> str
    told = getattr(error, "strerror", None) or str(error)
    return told[:1].lower() + told[1:]


def cpus():
    # type: () -> int
    """Count the CPUs that the job has on this node."""
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return int(given) if given.isdigit() else len(os.sched_getaffinity(0))


def gpus():
    # type: () -> int
    """Count the GPUs that the job has on this node."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES") or ""
    return 0 if told in ("", "NoDevFiles") else len(told.split(","))


def main(argv):
    # type: (List[str]) -> int
    job_dir, attempt, port, addresses = argv[1:5]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)  # Slurm sends them to all; the launcher says more
    part = Part(job_dir, attempt)
    line = part.reach(int(port), addresses.split(","))
    line.keep_alive()
    address = line.sock.getsockname()[0]
    hello = {"index": part.index, "name": part.name, "address": address, "cpus": cpus()}
    hello.update(
        machine=launch_line.machine(),
        gpus=gpus(),
        port=part.listen(address),
    )
    line.send(hello)
    message = line.read()
    while message is not None and "over" not in message:
        if "check" in message:
            line.send({"reached": part.check(message["check"])})
        elif "go" in message:
            part.go(line, message["go"])
        elif "signal" in message:
            part.signal(message["signal"])
        message = line.read()
    part.end()
    return 0


if __name__ == "__main__":
    ended = main(sys.argv)
    os._exit(ended)
