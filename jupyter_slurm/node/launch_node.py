"""The program that srun starts on each node of a job, or in each rank of MPI.

    srun … python3 -uBS launch_node.py JOBDIR ATTEMPT PORT ADDRESS,ADDRESS…

Runs outside any image or, with pyxis, in the container of the step; Python 3.6 and later, standard
library only. The first task on a node connects to launch.py, waits for all nodes, and starts the
engine's program in the image (the script `engine`). It forwards signals, and ends its processes
when the connection closes. If the first node is lost, it ends the job. The other MPI ranks on
the node execute the runner instead.
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

import launch_network
import launch_processes
import launch_step

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional, Tuple

REACH_S = 15.0
"""Timeout for connecting to the launcher, which is already listening."""
TRY_S = 3.0
SEEN_S = 60.0
"""Time to wait until a file of another node appears (NFS)."""
MEASURE_AFTER_S = 1.0
"""Delay before usage.py starts, because the program needs the CPUs first."""
ALONE_S = 10.0
"""Seconds after which the first node counts as lost, if its connection has closed and its files do
not grow. Slurm ends all nodes of a job at about the same time."""
OF_THE_FIRST = "log.%s launch.%s.jsonl output.%s.jsonl usage.%s.jsonl exit.%s.json"
"""Files that only the first node writes."""
GRACE_S = 5.0
"""Time between SIGTERM and SIGKILL for the programs."""
TAIL_BYTES, LOG_BYTES = 2000, 1 << 16
FAILED = 70
"""Exit code EX_SOFTWARE of sysexits.h."""
FIREWALL = (
    "Check for a firewall between the nodes. If they share another network, set `interface` in the "
    "cluster's profile to its interface."
)


class Program:
    """The engine's program on this node."""

    def __init__(self, job_dir: str, attempt: str) -> None:
        self.job_dir = job_dir
        self.attempt = attempt
        self.index = int(os.environ.get("SLURM_NODEID", "0"))
        with open(os.path.join(job_dir, "launch.json"), encoding="utf-8") as file:
            self.plan = json.load(file)
        self.process: "Optional[subprocess.Popen[bytes]]" = None
        self.is_ending = False
        """True after a signal that ends the job."""
        self.usage: "Optional[subprocess.Popen[bytes]]" = None
        self.measures = threading.Timer(MEASURE_AFTER_S, self._measure)
        self.measures.daemon = True

    def words(self) -> "List[str]":
        """Return the program's command line."""
        inside = self.plan["inside"]
        if self.plan["engine"] == "mpi":
            words = ["%s/%s" % (inside, self.plan["runner"]), inside, self.attempt, "mpi"]
        else:
            name = "launch_%s.py" % self.plan["engine"]
            words = ["%s/%s" % (inside, name), inside, self.attempt, str(self.index)]
        words = ["python3" if self.plan["in_image"] else sys.executable, "-uB"] + words
        if self.plan["step"] is not None:
            return words
        return ["/bin/bash", os.path.join(self.job_dir, "engine")] + words

    def wait_for_world(self) -> None:
        """Wait for the description of the nodes in world.N.json."""
        path = os.path.join(self.job_dir, "world.%s.json" % self.attempt)
        until_s = time.monotonic() + SEEN_S
        while not os.path.exists(path) and time.monotonic() < until_s:
            os.listdir(self.job_dir)  # refreshes the NFS cache
            time.sleep(0.05)

    def become(self) -> None:
        """Replace this process with the runner of an MPI rank."""
        self.wait_for_world()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        words = self.words()
        os.execvp(words[0], words)

    def run(self) -> "Dict[str, Any]":
        """Run the program. Return its exit code and last lines for the launcher."""
        self.wait_for_world()
        env = dict(os.environ)
        if self.plan["engine"] != "mpi":
            # JSLURM_NODE is part of the names of the node's files and containers.
            env["JSLURM_NODE"] = ".%d" % self.index if self.index else ""
        self.process = subprocess.Popen(
            self.words(),
            env=env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            close_fds=False,  # PMI-2 needs an inherited file descriptor
        )
        tail = b""
        assert self.process.stderr is not None
        for text in self.process.stderr:
            tail = (tail + text)[-TAIL_BYTES:]
            with contextlib.suppress(OSError):  # srun, which reads it, may be lost
                os.write(2, text)
        code = self.process.wait()
        told: "Dict[str, Any]" = {"ended": code if code >= 0 else 128 - code}
        return dict(told, tail=tail.decode("utf-8", "replace"))

    def on_signal(self, number: int, _frame: "Any") -> None:
        """Handle a signal from Slurm."""
        self.is_ending |= number in (signal.SIGTERM, signal.SIGINT)
        self.signal(number)

    def signal(self, number: int) -> None:
        """Forward a signal. If the program in the container has not started yet, forward the signal
        later."""
        if self.process is None or self.process.poll() is not None:
            return
        pid = self._pid_inside()
        if self._pid_path() and pid is None:
            threading.Thread(target=self._signal_later, args=(number,), daemon=True).start()
        with contextlib.suppress(OSError):  # it has just ended
            os.kill(pid or self.process.pid, number)

    def _signal_later(self, number: int) -> None:
        assert self.process is not None
        pid: "Optional[int]" = None
        while pid is None and self.process.poll() is None:
            time.sleep(0.1)
            pid = self._pid_inside()
        if pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _pid_path(self) -> str:
        """Return the file with the process ID of the program in the image; "" if signals go to the
        started process."""
        path = str(self.plan["pid_file"] or "")
        if not path or self.plan["step"] is not None or self.plan["engine"] == "mpi":
            return ""
        name, ending = os.path.splitext(path)
        return name + (".%d" % self.index if self.index else "") + ending

    def _pid_inside(self) -> "Optional[int]":
        try:
            with open(self._pid_path()) as file:
                return int(file.read())
        except (OSError, ValueError):
            return None

    def _measure(self) -> None:
        out = "usage.%s.%d.jsonl" % (self.attempt, self.index)
        self.usage = subprocess.Popen(
            [sys.executable, "-ISB", os.path.join(self.job_dir, "usage.py")]
            + [os.path.join(self.job_dir, out), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> None:
        """End all processes that this program has started, and their orphans."""
        self.measures.cancel()
        if self.usage is not None and self.usage.stdin is not None:
            self.usage.stdin.close()
        self.signal(signal.SIGTERM)
        launch_processes.end_below(GRACE_S)

    def is_alone(self) -> bool:
        """After the first node's connection has closed, return whether that node is lost."""
        known, until_s = self._signs(), time.monotonic() + ALONE_S
        while self.index and not self.is_ending and not self._is_reported():
            if "exit.%s.json" % self.attempt in known or self._is_given_up():
                return False
            if time.monotonic() > until_s:
                return True
            time.sleep(0.5)
            seen = self._signs()
            if seen != known:  # the node's programs may be dying one after the other
                known, until_s = seen, time.monotonic() + ALONE_S
        return bool(self.index) and not self.is_ending

    def _is_reported(self) -> bool:
        """Return whether another node is reporting the loss of the first node. That node then
        writes the first node's files."""
        return "lost" in os.listdir(os.path.join(self.job_dir, "claim.%s" % self.attempt))

    def _signs(self) -> "Dict[str, int]":
        """Return the sizes of the files that the first node writes."""
        os.listdir(self.job_dir)  # refreshes the NFS cache
        found: "Dict[str, int]" = {}
        for form in OF_THE_FIRST.split():
            name = form % self.attempt
            with contextlib.suppress(OSError), open(os.path.join(self.job_dir, name), "rb") as file:
                found[name] = file.seek(0, os.SEEK_END)
        return found

    def _is_given_up(self) -> bool:
        """Return whether the launcher reported the loss of this node, and so is still running."""
        name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        with open(os.path.join(self.job_dir, "log.%s" % self.attempt), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
            return (launch_step.OURS + launch_step.gone(name)).encode("utf-8") in file.read()


def reach(
    port: int, addresses: "List[str]", hello: "Dict[str, Any]"
) -> "Tuple[socket.socket, Any]":
    """Connect to the launcher. Return the socket and its reader. Exit if no address works."""
    until_s = time.monotonic() + REACH_S
    failed: "Dict[str, str]" = {}
    while time.monotonic() < until_s:
        for address in addresses:
            try:
                sock = socket.create_connection((address, port), TRY_S)
            except OSError as error:
                failed[address] = words_of(error)
                continue
            file = sock.makefile("rb")
            own = dict(hello, reached=address, address=sock.getsockname()[0])
            launch_network.send(sock, own)
            answer = launch_network.receive(file)
            if answer == {"job": os.environ.get("SLURM_JOB_ID")}:
                sock.settimeout(None)
                return sock, file
            failed[address] = "another program answers" if answer else "no answer"
            launch_network.close(sock)
        time.sleep(0.2)
    # Loopback reaches the launcher only if the nodes are one machine.
    remote = {one: told for one, told in failed.items() if not one.startswith("127.")}
    tried = "; ".join("at %s: %s" % one for one in (remote or failed).items())
    head = launch_step.expand(os.environ.get("SLURM_JOB_NODELIST", "")) or ["the first node"]
    launch_step.complain("%s cannot reach %s %s. %s" % (hello["name"], head[0], tried, FIREWALL))
    raise SystemExit(FAILED)


def words_of(error: Exception) -> str:
    told = getattr(error, "strerror", None) or str(error)
    return told[:1].lower() + told[1:]


def main(argv: "List[str]") -> int:
    job_dir, attempt, port, addresses = argv[1:5]
    program = Program(job_dir, attempt)
    if program.plan["engine"] == "mpi" and os.environ.get("SLURM_LOCALID", "0") != "0":
        program.become()
    for number in launch_step.FORWARDED:
        signal.signal(number, program.on_signal)
    cpus = os.environ.get("SLURM_CPUS_ON_NODE", "")
    hello = {
        "password": launch_network.password(job_dir),
        "index": program.index,
        "name": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "step_id": os.environ.get("SLURM_STEP_ID", "0"),
        "cpus": int(cpus) if cpus.isdigit() else len(os.sched_getaffinity(0)),
        "gpus": launch_step.gpus(),
        "machine": launch_network.machine(),
    }
    sock, file = reach(int(port), addresses.split(","), hello)
    launch_network.keep_alive(sock)
    launch_processes.adopt_orphans()  # takes milliseconds, while other nodes connect
    if launch_network.receive(file) != {"go": True}:
        return 0  # the launcher has ended
    if program.index:  # on the first node the batch script measures
        program.measures.start()
    launcher = threading.Thread(target=end_with, args=(file, program), daemon=True)
    launcher.start()
    launch_network.send(sock, program.run())
    program.end()
    launcher.join()
    return 0


def end_with(file: "Any", program: Program) -> None:
    """End the program and this process when the launcher ends or the launcher's node is lost.
    Return once the launcher has confirmed the end of the program."""
    told = launch_network.receive(file)
    if told == {"heard": True}:
        return
    try:
        if told is None and program.is_alone():
            import launch_result  # compiling it takes milliseconds

            # Report the loss first, because Slurm's PMIx kills the step when an MPI rank ends
            # early.
            launch_result.lose_first(program.job_dir, program.attempt, program.plan)
    finally:  # also if the job's folder cannot be read or written
        program.end()
        os._exit(0)


if __name__ == "__main__":
    ended = main(sys.argv)
    os._exit(ended)
