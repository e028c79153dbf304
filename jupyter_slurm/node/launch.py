"""The launcher of a job on many nodes: starts a part on each node, and lets the user's code begin
only when all of them have found each other.

    python3 -uBS launch.py JOBDIR ATTEMPT

Runs on the first node, outside any image, Python 3.6 and later, standard library only, without
`site`, whose files a home on NFS gives slowly. Slurm starts the parts (launch_part.py), which
connect to this program by whichever of its addresses reaches it, and then to each other. The rest
is launch_run.py's: the engine's program of each node (`launch_torchrun.py` …) in the image. The
engine `mpi` has none: Slurm starts its ranks as a step of their own.
Its exit code: the one of the rank that failed first; 69 when the nodes could not begin.
"""

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

import launch_line
import launch_step

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional, Tuple  # noqa: F401 - in comments

JOIN_S = 45.0
"""How long to wait for all parts once Slurm has been asked to start them: with the end of the
steps, 60 s at most go by until the job says what is wrong."""
END_S, LOST_S = 10.0, 2.0
"""How long the parts have to end what they have started; and how long srun has to notice, which
waits for nodes that are lost or never came."""
WORD_S = 5.0
CHECK_S = 20.0


class LaunchError(Exception):
    """The job's nodes cannot begin; says why, and what to do."""


class Launcher(object):
    """The state of one launch; what happens comes as `news` from threads that listen."""

    def __init__(self, job_dir, attempt):
        # type: (str, str) -> None
        self.job_dir = job_dir
        self.attempt = attempt
        with open(os.path.join(job_dir, "launch.json"), encoding="utf-8") as file:
            self.plan = json.load(file)
        self.shared = ["--overlap"] if self.plan["has_overlap"] else []
        """Options that let the steps share CPUs and GPUs."""
        if not self.plan["has_asked_for_gpus"]:
            self.shared += launch_step.gpus_of_node()
        self.key = launch_line.read_key(job_dir)
        self.names = launch_line.expand(os.environ.get("SLURM_JOB_NODELIST", ""))
        self.parts = {}  # type: Dict[int, launch_line.Part]
        self.news = queue.Queue()  # type: queue.Queue[Tuple[str, Any, Any]]
        self.listener = None  # type: Optional[socket.socket]
        self.step = None  # type: Optional[launch_step.Step]
        """The step of the parts."""
        self.ranks = None  # type: Optional[launch_step.Step]
        """That of the ranks of MPI."""
        self.signalled = None  # type: Optional[int]
        self.kind = ""
        """The way in which the ranks of MPI find each other."""
        self.kinds = []  # type: List[str]
        """Those that are left to try."""
        self.counts = []  # type: List[int]
        """Ranks on each node."""
        self.later = []  # type: List[Tuple[str, Any, Any]]
        """News of these ranks from before the nodes had found each other; read afterwards."""
        self.is_ready = False
        """Whether they have, so that the user's code may begin."""

    # --- the parts ---

    def start(self):
        # type: () -> None
        """Have Slurm start a part on each node. Raise LaunchError."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("", 0))
        listener.listen(512)
        self.listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        try:
            found = launch_line.addresses(self.plan["interface"])
        except OSError:
            raise LaunchError(
                "%s has no network interface %s, which the cluster's profile names as `interface`."
                % (self.names[0], self.plan["interface"])
            ) from None
        if self.plan["engine"] == "mpi" and self.plan["by_task"]:
            self.start_ranks(self.tasks())  # before the parts, since they take longer to begin
        program = os.path.join(self.job_dir, "launch_part.py")
        words = [self.job_dir, self.attempt, str(listener.getsockname()[1]), ",".join(found)]
        each = ["--nodes=%d" % len(self.names), "--ntasks=%d" % len(self.names)]
        each += ["--ntasks-per-node=1", "--mpi=none"] + self.shared
        if not self.plan["is_ranked"]:
            # Else Slurm kills the step on all nodes when it gives up one of them.
            each.append("--no-kill")
        self.step = launch_step.Step(each, [python(), "-uBS", program] + words, self.news)

    def join(self):
        # type: () -> None
        """Wait until all parts are there and reach each other. Raise LaunchError, Cancelled."""
        assert self.listener is not None
        try:
            self._join()
        finally:
            launch_line.shut(self.listener)
        self._check()

    def _accept(self, listener):
        # type: (socket.socket) -> None
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(sock,), daemon=True).start()

    def _talk(self, sock):
        # type: (socket.socket) -> None
        """Hear one part, to its end."""
        try:
            line = launch_line.Line(sock, self.key, b"launcher")
        except (OSError, launch_line.StrangerError):
            sock.close()
            return
        line.keep_alive()
        hello = line.read()
        if hello is None:
            return
        part = launch_line.Part(hello, line)
        self.news.put(("joined", part, None))
        message = line.read()
        while message is not None:
            self.news.put(("said", part, message))
            message = line.read()
        self.news.put(("gone", part, None))

    def next(self, deadline_s):
        # type: (Optional[float]) -> Optional[Tuple[str, Any, Any]]
        """Return what happens next, or None when the time is over."""
        while True:
            if self.signalled:
                number, self.signalled = self.signalled, None
                return "signal", None, number
            if self.is_ready and self.later:
                return self.later.pop(0)
            left_s = 1.0 if deadline_s is None else min(1.0, deadline_s - time.monotonic())
            try:
                event = self.news.get(timeout=max(left_s, 0.001))
            except queue.Empty:
                if deadline_s is not None and time.monotonic() >= deadline_s:
                    return None
                continue
            if event[0] == "gone" and event[1].code is None:
                event[1].gone = True
            if event[1] is None or event[1] is not self.ranks or self.is_ready:
                return event
            self.later.append(event)

    def _join(self):
        # type: () -> None
        deadline_s = time.monotonic() + JOIN_S
        waited = True
        late = ("time", None, None)  # type: Tuple[str, Any, Any]
        while len(self.parts) < len(self.names):
            what, part, more = self.next(deadline_s) or late
            if what == "joined":
                self.parts[part.index] = part
            elif what == "signal":
                raise Cancelled(more)
            elif what in ("gone", "bad exit"):
                # srun, which ends a step that it cannot start whole, or the part will say why.
                waited, deadline_s = False, time.monotonic() + WORD_S
            elif what in ("time", "step"):
                raise LaunchError(self._why_missing(waited and what == "time"))

    def _why_missing(self, waited):
        # type: (bool) -> str
        here = {part.name for part in self.parts.values()}
        missing = [name for name in self.names if name not in here]
        os.listdir(self.job_dir)  # makes NFS ask
        for index, name in enumerate(self.names):
            told = launch_line.read_json(self.path("part.%s.%d.json" % (self.attempt, index)))
            if told and name in missing:
                return "%s %s" % (told.get("why"), FIREWALL)
        text = "%s did not start within %d s." if waited else "Slurm could not start %s."
        text = text % (
            (launch_line.named(missing), JOIN_S) if waited else launch_line.named(missing)
        )
        return " ".join([text] + (self.step.said() if self.step else []))

    def _check(self):
        # type: () -> None
        """Let each part connect to all others. Raise LaunchError: names those that cannot."""
        where = {str(p.index): [p.name, p.address, p.port] for p in self.parts.values()}
        for part in self.parts.values():
            part.line.send({"check": where})
        deadline_s = time.monotonic() + CHECK_S
        waited = set(self.parts)
        while waited:
            event = self.next(deadline_s)
            if event is None:
                late = [self.parts[index].name for index in sorted(waited)]
                raise LaunchError(
                    "%s did not say whether it reaches the others." % launch_line.named(late)
                )
            what, part, more = event
            if what == "signal":
                raise Cancelled(more)
            if what == "gone":
                raise LaunchError("%s was lost before all nodes were there." % part.name)
            if what == "said" and "reached" in more:
                if more["reached"]:
                    raise LaunchError("%s %s" % (more["reached"][0], FIREWALL))
                waited.discard(part.index)

    def tasks(self):
        # type: () -> List[int]
        """Return how many tasks the job has on each node."""
        told = os.environ.get("SLURM_TASKS_PER_NODE", "1")
        return launch_step.tasks_of(told, len(self.names))

    def start_ranks(self, counts):
        # type: (List[int]) -> None
        """Have Slurm start the ranks, which wait for world.N.json (runner_ranks.py)."""
        # By its default, mixed, and by tree Slurm's PMIx lets some ranks go on from MPI_Init while
        # others are still in it, which ends those by SIGSEGV: with 22.05 and Open MPI 4.1 on busy
        # nodes 13 of 48 sessions of three ranks on two nodes by tree, and none of 64 by ring.
        os.environ.setdefault("SLURM_PMIX_FENCE", "ring")
        self.kinds = [self.plan["mpi"]] if self.plan["mpi"] else list(self.plan["mpi_types"])
        self.counts = counts
        self.kind = self.kinds.pop(0)
        self.step_of_ranks()

    def step_of_ranks(self):
        # type: () -> None
        """Start the ranks of MPI, which srun tells of each other."""
        kind, counts = self.kind, self.counts
        each = ["--nodes=%d" % len(counts), "--ntasks=%d" % sum(counts), "--mpi=%s" % kind]
        each += ["--distribution=block", "--ntasks-per-node=%d" % max(counts), "--overcommit"]
        each += self.shared
        inside = self.plan["inside"]
        words = ["python3" if self.plan["in_image"] else python(), "-uB"]
        words += ["%s/%s" % (inside, self.plan["runner"]), inside, self.attempt, "mpi"]
        step = self.plan["step"]  # the container is the step itself
        if step is None:
            engine = os.path.join(self.job_dir, "engine")
            self.ranks = launch_step.Step(each, ["/bin/bash", engine] + words, self.news)
            return
        each += step["options"]
        self.ranks = launch_step.Step(each, step["inside"] + words, self.news, step["before"])

    def signal(self, nodes, number):
        # type: (List[launch_line.Part], int) -> None
        for part in nodes:
            part.line.send({"signal": number})
        if self.ranks is not None and self.ranks.process.poll() is None:
            # The ranks get it from Slurm; srun would end the step.
            words = ["--signal=%s" % signal.Signals(number).name, os.environ["SLURM_JOB_ID"]]
            null = subprocess.DEVNULL  # of a job that ends already there is nothing to say
            subprocess.call(["scancel"] + words, stdin=null, stderr=null)

    def close(self):
        # type: () -> None
        """Let all parts end what is left on their nodes, and end the steps."""
        ending = [part for part in self.parts.values() if not part.gone]
        for part in ending:
            part.line.send({"over": True})
        if self.ranks is not None:
            self.ranks.end()
        is_whole = len(ending) == len(self.names)
        deadline_s = time.monotonic() + END_S
        while ending:
            event = self.next(deadline_s)
            ending = [one for one in ending if event is not None and event[:2] != ("gone", one)]
        if self.step is not None:
            try:
                self.step.process.wait(END_S if is_whole else LOST_S)
            except subprocess.TimeoutExpired:
                self.step.end()

    def path(self, name):
        # type: (str) -> str
        return os.path.join(self.job_dir, name)


class Cancelled(Exception):  # noqa: N818 - no error: somebody wanted it
    """A signal came before the user's code had begun."""


FIREWALL = (
    "Is there a firewall between the nodes? If they share another network, name its interface by "
    "`interface` in the cluster's profile."
)


def python():
    # type: () -> str
    return sys.executable or "python3"


def what_follows():
    # type: () -> Any
    """Import and return launch_run, which takes over after the handshake."""
    import launch_run  # noqa: PLC0415 - takes its time, in which Slurm starts the steps

    return launch_run


def run(launcher):
    # type: (Launcher) -> int
    """Run the engine to its end, and return the exit code. Raise LaunchError, Cancelled."""
    follows = what_follows().Run(launcher)
    launcher.join()
    return int(follows.to_its_end())


def main(argv):
    # type: (List[str]) -> int
    job_dir, attempt = os.path.abspath(argv[1]), argv[2]
    launcher = Launcher(job_dir, attempt)

    def note(number, _frame):
        # type: (int, Any) -> None
        launcher.signalled = number

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, note)
    try:
        launcher.start()
        return run(launcher)
    except LaunchError as error:
        return int(what_follows().fail(job_dir, attempt, str(error)))
    except Cancelled as cancelled:
        return 128 + int(cancelled.args[0])
    finally:
        launcher.close()


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stderr.flush()
    os._exit(code)  # threads may still wait for what will not come
