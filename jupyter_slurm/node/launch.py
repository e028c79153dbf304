"""The launcher of a job on many nodes.

    python3 -uBS launch.py JOBDIR ATTEMPT

Runs on the first node, outside any image, Python 3.6 and later, standard library only. It does not
import `site`, which is slow to read from a home on NFS. srun starts launch_node.py on each node or,
with MPI, in each rank. The first task on each node connects to one of this program's addresses.
When all have connected, world.N.json describes the nodes, and they start the engine's program in
the image. The connections stay open, so this program notices a lost node. Exit code: the code of
the first rank that failed; 69 if the nodes could not start.
"""

import hmac
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out

import launch_network
import launch_result
import launch_step
import runner
import runner_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional, Tuple

JOIN_S = 45.0
"""Timeout for all nodes to connect. Connecting and ending the step together take at most 60 s."""
HELLO_S = 5.0
WORD_S = 5.0
"""Time to wait for srun's reason after the first sign that the step cannot start."""
REST_S = {"torchrun": 20.0, "mpi": 3.0}
"""Time for the other ranks to end after a rank has failed. Calls of MPI ignore signals."""
END_S, LOST_S = 10.0, 2.0
"""Times for the step to end: normally, and after the loss of a node, because srun waits for that
node."""
SEEN_S, FAILED_S, HEARD_S = 60.0, 5.0, 1.0
"""Times to wait until files of other nodes appear (nfs(5)): after a success, after a failure of a
rank that may not have written files, and after a failure with a known reason."""


class LaunchError(Exception):
    """The nodes cannot start. The message gives the reason and a remedy."""


class Ended(Exception):  # after the reason was reported
    """The job ends before the user's code starts. The argument is the exit code."""


class Node:
    """A node of the job, as launch_node.py describes it."""

    def __init__(self, hello: "Dict[str, Any]", sock: socket.socket) -> None:
        self.index = int(hello["index"])
        self.name = str(hello["name"])
        self.step_id = str(hello["step_id"])
        self.reached = str(hello["reached"])
        """The launcher's address for this connection."""
        self.address = str(hello["address"])
        """The node's address for this connection."""
        self.cpus, self.gpus = int(hello["cpus"]), int(hello["gpus"])
        self.machine = str(hello["machine"])
        self.sock = sock
        self.code: "Optional[int]" = None
        """The exit code of the node's program; None while it runs."""
        self.tail = ""
        self.is_lost = False


class Launcher:
    """The state of a launch. Threads put events into `events`."""

    def __init__(self, job_dir: str, attempt: str) -> None:
        self.job_dir = job_dir
        self.attempt = attempt
        with open(self.path("launch.json"), encoding="utf-8") as file:
            self.plan = json.load(file)
        self.engine = str(self.plan["engine"])
        self.is_ranked = bool(self.plan["is_ranked"])
        self.names = launch_step.expand(os.environ.get("SLURM_JOB_NODELIST", ""))
        self.mpi_types = [self.plan["mpi"]] if self.plan["mpi"] else list(self.plan["mpi_types"])
        """The MPI types (`srun --mpi`) left to try."""
        self.counts: "List[int]" = []
        """Number of ranks on each node."""
        if self.plan["by_task"]:
            told = os.environ.get("SLURM_TASKS_PER_NODE", "1")
            self.counts = launch_step.tasks_of(told, len(self.names))
        elif self.engine == "mpi":
            told = os.environ.get("SLURM_GPUS_ON_NODE", "")
            each = int(told) if told.isdigit() else launch_step.gpus()
            self.counts = [each or 1] * len(self.names)
        self.nodes: "Dict[int, Node]" = {}
        self.events: "queue.Queue[Tuple[str, Any, Any]]" = queue.Queue()
        self.signalled: "Optional[int]" = None
        self.listener: "Optional[socket.socket]" = None
        self.step: "Optional[launch_step.Step]" = None
        self.first: "Optional[Node]" = None
        """The first node that failed."""
        self.lost: "List[str]" = []
        """Nodes lost before the job was killed by a signal."""
        self.is_ending = False

    def path(self, name: str) -> str:
        return os.path.join(self.job_dir, name)

    # --- the nodes ---

    def start(self) -> None:
        """Listen for the nodes, and start the step. Raises LaunchError."""
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.bind(("", 0))
        self.listener.listen(512)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()
        try:
            self.addresses = launch_network.addresses(self.plan["interface"])
        except OSError:
            raise LaunchError(
                "%s lacks the network interface %s, which the cluster's profile names as "
                "`interface`." % (self.names[0], self.plan["interface"])
            ) from None
        self.start_step()

    def start_step(self) -> None:
        """Start the step, with one task for each MPI rank or, without MPI, one on each node."""
        counts = self.counts if self.engine == "mpi" else [1] * len(self.names)
        options = ["--nodes=%d" % len(counts), "--ntasks=%d" % sum(counts)]
        options.append("--ntasks-per-node=%d" % max(counts))
        if self.engine == "mpi":
            options += ["--distribution=block", "--overcommit"]
            # With the defaults "mixed" and "tree", Slurm's PMIx lets some ranks return from
            # MPI_Init too early, and the others die of SIGSEGV (Slurm 22.05, Open MPI 4.1: 13 of 48
            # sessions with "tree", none of 64 with "ring").
            os.environ.setdefault("SLURM_PMIX_FENCE", "ring")
            if self.plan["in_image"]:
                # Otherwise PMIx looks for files in slurmd's folder, which images lack, and reports
                # an error.
                os.environ.setdefault("PMIX_MCA_gds", "hash")
            options.append("--mpi=%s" % self.mpi_types.pop(0))
        else:
            options.append("--mpi=none")
        if self.plan["has_overlap"]:
            options.append("--overlap")  # otherwise other steps would wait for the CPUs
        if not self.plan["has_asked_for_gpus"]:
            options += launch_step.gpus_of_node()
        if not self.is_ranked:
            options.append("--no-kill")  # otherwise Slurm ends the step when it loses a node
        assert self.listener is not None
        folder = self.job_dir
        before, inside = [], []  # type: List[str], List[str]
        python = sys.executable or "python3"
        if self.plan["step"] is not None:  # the container holds the step's tasks
            before, inside = self.plan["step"]["before"], self.plan["step"]["inside"]
            options += self.plan["step"]["options"]
            folder, python = self.plan["inside"], "python3"
        words = inside + [python, "-uBS", folder + "/launch_node.py", folder, self.attempt]
        words += [str(self.listener.getsockname()[1]), ",".join(self.addresses)]
        self.step = launch_step.Step(options, words, self.events, before)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=(sock,), daemon=True).start()

    def _hear(self, sock: socket.socket) -> None:
        """Authenticate a node, and read its messages until it disconnects."""
        sock.settimeout(HELLO_S)
        file = sock.makefile("rb")
        hello = launch_network.receive(file) or {}
        word = launch_network.password(self.job_dir)
        if not hmac.compare_digest(str(hello.get("password")), word):
            launch_network.close(sock)  # a port scanner, or another job's program
            return
        launch_network.send(sock, {"job": os.environ.get("SLURM_JOB_ID")})
        sock.settimeout(None)
        launch_network.keep_alive(sock)
        node = Node(hello, sock)
        self.events.put(("joined", node, None))
        message = launch_network.receive(file)
        while message is not None:
            launch_network.send(sock, {"heard": True})
            self.events.put(("said", node, message))
            message = launch_network.receive(file)
        self.events.put(("gone", node, None))

    def next(self, until_s: "Optional[float]") -> "Optional[Tuple[str, Any, Any]]":
        """Return the next event; None if none arrives by `until_s`."""
        while True:
            if self.signalled:
                number, self.signalled = self.signalled, None
                return "signal", None, number
            left_s = 1.0 if until_s is None else min(1.0, until_s - time.monotonic())
            try:
                return self.events.get(timeout=max(left_s, 0.001))
            except queue.Empty:
                if until_s is not None and time.monotonic() >= until_s:
                    return None

    def join(self) -> None:
        """Wait until all nodes have connected. Raises LaunchError or Ended."""
        until_s, is_late = time.monotonic() + JOIN_S, True
        while len(self.nodes) < len(self.names) or self._lost():
            late: "Tuple[str, Any, Any]" = ("late", None, None)
            what, node, more = self.next(until_s) or late
            if what == "joined":
                self.nodes[node.index] = node
            elif what == "signal":
                raise Ended(128 + more)
            elif what == "gone":
                node.is_lost = True  # srun will print the reason
                until_s, is_late = min(until_s, time.monotonic() + WORD_S), False
            elif what == "step" and self._can_start_again():
                self.start_step()
            elif what in ("step", "late"):
                raise self._not_there(is_late and what == "late")
            elif what == "bad exit":
                until_s, is_late = min(until_s, time.monotonic() + WORD_S), False
        if self.listener is not None:
            launch_network.close(self.listener)

    def _lost(self) -> "List[str]":
        return [node.name for node in self.nodes.values() if node.is_lost]

    def _can_start_again(self) -> bool:
        """Return whether srun lacks the library of this MPI type and another type is left to
        try."""
        assert self.step is not None
        return bool(self.mpi_types) and any("MPI type" in words for words in self.step.words)

    def _not_there(self, is_late: bool) -> Exception:
        """Return the exception for nodes that have not connected."""
        assert self.step is not None
        here = {node.name for node in self.nodes.values()}
        missing = [name for name in self.names if name not in here] or self._lost()
        if self.step.ours:
            return LaunchError(self.step.ours[0])
        if self.step.of_containers:  # in the job's log, which the verdict explains
            if here:
                runner.complain(alone(missing, 1))
            return Ended(1)
        text = "%s did not start within %d s." if is_late else "Slurm could not start %s."
        text %= (launch_step.named(missing), JOIN_S) if is_late else launch_step.named(missing)
        return LaunchError(" ".join([text] + self.step.said()))

    def go(self) -> None:
        """Describe the nodes in world.N.json, and let them start the engine. Raises LaunchError."""
        nodes = [self.nodes[index] for index in sorted(self.nodes)]
        reached = sorted({node.reached for node in nodes[1:]}) or [nodes[0].reached]
        if len(reached) > 1:
            raise LaunchError(
                "The nodes reach %s at different addresses: %s. Set `interface` in the cluster's "
                "profile to the interface of a network that all nodes share."
                % (self.names[0], ", ".join(reached))
            )
        nodes[0].address = reached[0]
        self.counts = self.counts or [node.gpus or 1 for node in nodes]
        ranks = sum(self.counts) if self.is_ranked else 0
        world = {
            "engine": self.engine,
            "nodes": [
                {
                    "name": node.name,
                    "address": node.address,
                    "cpus": node.cpus,
                    "gpus": node.gpus,
                    "memory_mib": launch_step.memory_mib(node.cpus, node.gpus),
                }
                for node in nodes
            ],
            "port": launch_network.free_port(),
            "processes": self.counts,
            "ranks": ranks,
            "runner": self.plan["runner"],
            "mpi_types": self.plan["mpi_types"],
            "environment": launch_step.kept_from_steps(),
            # Open MPI names shared memory after the host and the rank's index on its node, so two
            # nodes on one machine would share it.
            "is_one_machine": len({node.machine for node in nodes}) < len(nodes),
        }
        runner.put(self.path("world.%s.json" % self.attempt), json.dumps(world).encode("ascii"))
        self.tell({"ranks": ranks, "nodes": len(nodes)})
        for node in nodes:
            launch_network.send(node.sock, {"go": True})

    # --- the run ---

    def follow(self) -> int:
        """Wait for the end of the run. Return the exit code of the first failure. If only the first
        node runs the code, return the code's exit code."""
        code, until_s = 0, None  # type: int, Optional[float]
        of_step: "Optional[int]" = None
        nodes = self.nodes.values()
        while of_step is None or any(node.code is None and not node.is_lost for node in nodes):
            event = self.next(until_s)
            if event is None:
                break
            what, node, more = event
            failed = 0
            if what == "signal":
                self.is_ending |= more in (signal.SIGTERM, signal.SIGINT)
                self.signal(more)
            elif what == "step":
                of_step, until_s = more if more >= 0 else 128 - more, time.monotonic() + WORD_S
            elif what == "bad exit" and self.engine == "mpi":
                failed = more
            elif node is not None and self.nodes.get(node.index) is node:
                failed = self._ended(what, node, more)
            if failed and not self.is_ranked and node.index:
                self._report_loss(node)
            elif failed and self.is_ranked and not code:
                code, until_s = failed, self.end_others(node)
            first = self.nodes[0]
            if not self.is_ranked and (first.code is not None or first.is_lost):
                return failed
        return code or of_step or 0

    def _ended(self, what: str, node: "Any", more: "Any") -> int:
        """Record that a node's program ended or that the node is lost. Return an exit code or 0."""
        if what == "said" and "ended" in more:
            node.code, node.tail = int(more["ended"]), str(more["tail"])
            return int(node.code)
        if what != "gone" or node.code is not None:
            return 0
        node.is_lost = True
        if not self.is_ending:
            self.lost.append(node.name)
            runner.complain(launch_step.gone(node.name))
        return launch_result.UNAVAILABLE

    def end_others(self, node: "Optional[Node]") -> "Optional[float]":
        """End the other ranks. Return their deadline, or None if Slurm is ending them."""
        if self.is_ending:
            return None
        self.first = node
        if node is None or self.engine == "mpi" or not self.has_begun(node.index):
            time.sleep(runner_ranks.TOGETHER_S)  # others may fail for the same reason
        until_s = time.monotonic() + REST_S[self.engine]
        self.signal(signal.SIGTERM)  # scancel waits 10 s for a lost node
        return until_s

    def signal(self, number: int) -> None:
        """Send a signal to the step's tasks. srun itself would end the step."""
        words = ["scancel", "--signal=%s" % signal.Signals(number).name[3:]]
        words.append("%s.%s" % (os.environ["SLURM_JOB_ID"], self.nodes[0].step_id))
        null = subprocess.DEVNULL  # Slurm refuses it for a job that is ending
        subprocess.call(words, stdin=null, stdout=null, stderr=null)

    def has_begun(self, index: int) -> bool:
        """Return whether the engine's program on a node, or its first rank, has started."""
        os.listdir(self.job_dir)  # refreshes the NFS cache
        name = "torchrun.%s.%d" % (self.attempt, index)
        if self.engine == "mpi":
            before = sum(self.counts[:index])
            name = "output.%s.jsonl" % runner.of_rank(self.attempt, before or None)
        return os.path.exists(self.path(name))

    def tell(self, told: "Dict[str, Any]") -> None:
        """Write a line for the agent and, with an engine, for the user's code."""
        with open(self.path("launch.%s.jsonl" % self.attempt), "ab", 0) as file:
            file.write(runner.to_line(told))

    def _report_loss(self, node: Node) -> None:
        """Report the loss of a node to the user's code, which continues. If the code fails, the
        verdict uses the report."""
        self.tell({"said": launch_result.why(node)})
        if not self.is_ending:
            # Write a separate line, because the verdict reads only the end of this file.
            self.tell({"node": node.name, "was_lost": node.is_lost, "time_s": time.time()})

    # --- the end of the job ---

    def finish(self, code: int) -> int:
        """Write the job's result and return its exit code."""
        if self.is_ranked:
            return self._of_ranks(code)
        launch_result.end_engine(self.job_dir, self.attempt)
        event = self.next(time.monotonic())
        while event is not None:  # the code may have noticed a lost node first
            if event[1] is not None and self._ended(*event):
                self._report_loss(event[1])
            event = self.next(time.monotonic())
        first = self.nodes[0]
        has_result = os.path.exists(self.path("result.%s.json" % self.attempt))
        is_ours = launch_step.OURS in first.tail
        if has_result or not self.plan["has_result"] or not (is_ours or first.is_lost):
            return code  # the job's log has the container tool's reason
        why = first.tail.strip().splitlines()[-1].partition(launch_step.OURS)[2] if is_ours else ""
        why = why or launch_result.why(first)
        launch_result.fail(self.job_dir, self.attempt, "LaunchError", why, code or 1)
        return code or 1

    def _of_ranks(self, code: int) -> int:
        """Write the job's result, merged from the results of the ranks. Return the exit code."""
        assert self.step is not None
        where = self._where(code) if code else None
        nodes = self.nodes.values()
        is_told = any(launch_step.OURS in node.tail for node in nodes)
        is_known = is_told or bool(self.step.of_containers or self.lost)
        patience_s = HEARD_S if is_known else FAILED_S if code else SEEN_S
        ranks = sum(self.counts)
        found = launch_result.read_results(self.job_dir, self.attempt, ranks, patience_s)
        if code and self.lost:
            sentence = launch_result.loss(self.lost)
            launch_result.lose(self.job_dir, self.attempt, ranks, found, sentence, code)
            return code
        told = None
        if self.first is not None:
            told = launch_result.why(self.first)
        elif self.engine == "mpi":
            told = " ".join(([where] if where else []) + self.step.said()) or None
        statuses = {found[rank]["status"] for rank in found}
        has_no_cause = not found or (where and not statuses & {"error", "killed"})
        if code and has_no_cause and not is_told:
            # Do not write a result. The agent finds the container tool's error in the job's log.
            runner.complain(where or told or "The ranks ended with exit code %d." % code)
            return code
        made = launch_result.merge(self.job_dir, self.attempt, ranks, found, told, code)
        return int(made["exit_code"])

    def _where(self, code: int) -> "Optional[str]":
        """Return a message about the nodes that failed before their program started, if the program
        started on all other nodes."""
        assert self.step is not None
        bad = {node.name for node in self.nodes.values() if node.code == code}
        bad |= set(self.step.bad) if self.engine == "mpi" else set()
        begun = {node.name for node in self.nodes.values() if self.has_begun(node.index)}
        if not begun or not bad or set(self.names) - begun != bad:
            return None
        return alone(sorted(bad), code)

    def close(self) -> None:
        """Disconnect the nodes, which then end their programs, and end the step."""
        for node in self.nodes.values():
            launch_network.send(node.sock, {"over": True})
            launch_network.close(node.sock)
        if self.step is not None:
            is_whole = len(self.nodes) == len(self.names) and not self._lost()
            self.step.end(END_S if is_whole else LOST_S)


def alone(names: "List[str]", code: int) -> str:
    """Return a message about failed nodes, which the verdict parses."""
    return "On %s alone the program ended with exit code %d." % (launch_step.named(names), code)


def main(argv: "List[str]") -> int:
    job_dir, attempt = os.path.abspath(argv[1]), argv[2]
    launcher = Launcher(job_dir, attempt)

    def note(number: int, _frame: "Any") -> None:
        launcher.signalled = number

    for number in runner.FORWARDED:
        signal.signal(number, note)
    try:
        launcher.start()
        launcher.join()
        launcher.go()
        return launcher.finish(launcher.follow())
    except LaunchError as error:
        if (
            launcher.step is None or str(error) not in launcher.step.ours
        ):  # otherwise a node has printed it
            runner.complain(str(error))
        launch_result.fail(job_dir, attempt, "LaunchError", str(error), launch_result.UNAVAILABLE)
        return launch_result.UNAVAILABLE
    except Ended as ended:
        return int(ended.args[0])
    finally:
        launcher.close()


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stderr.flush()
    os._exit(code)  # threads may still wait
