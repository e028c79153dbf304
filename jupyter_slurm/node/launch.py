"""The launcher of a job on many nodes: starts a part on each node, and lets the user's code begin
only when all of them have found each other.

    python3 -uBS launch.py JOBDIR ATTEMPT

Runs on the first node, outside any image, Python 3.6 and later, standard library only, without
`site`, whose files a home on NFS gives slowly. Slurm starts the parts (launch_part.py), which
connect to this program by whichever of its addresses reaches it, and then to each other. What is
then known of the nodes goes into `world.N.json`, for the engine's program of each node
(`launch_torchrun.py` …) in the image. The engine `mpi` has none: Slurm starts its ranks as a step
of their own.
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
import launch_result
import launch_step
import runner

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
REST_S = 20.0
"""How long the other nodes have to end after one has ended with a failure."""
SEEN_S, FAILED_S, HEARD_S = 60.0, 5.0, 1.0
"""How long to wait until what the ranks have written on other nodes is seen here (nfs(5)): where
all went well, where a rank may not have come to write anything, and where somebody said why."""
TOGETHER_S = 1.0
"""How long ranks have to fail for the same reason as the first of them; then all end."""
UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits.h."""
RENEW = 75
"""EX_TEMPFAIL: what the ranks of a session end with that are to be started anew."""


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
        self.key = launch_line.read_key(job_dir)
        self.names = launch_line.expand(os.environ.get("SLURM_JOB_NODELIST", ""))
        self.parts = {}  # type: Dict[int, launch_line.Part]
        self.news = queue.Queue()  # type: queue.Queue[Tuple[str, Any, Any]]
        self.step = None  # type: Optional[launch_step.Step]
        """The step of the parts."""
        self.ranks = None  # type: Optional[launch_step.Step]
        """That of the ranks of MPI."""
        self.signalled = None  # type: Optional[int]
        self.first = None  # type: Optional[launch_line.Part]
        """The first that failed."""
        self.ways = []  # type: List[str]
        """Ways of MPI that Slurm has here."""
        self.kind = ""
        """The one that is used."""
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
        """Start a part on each node and wait until all have joined. Raise LaunchError."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("", 0))
        listener.listen(512)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        try:
            found = launch_line.addresses(self.plan["interface"])
        except OSError:
            raise LaunchError(
                "%s has no network interface %s, which the cluster's profile names as `interface`."
                % (self.names[0], self.plan["interface"])
            ) from None
        program = os.path.join(self.job_dir, "launch_part.py")
        words = [self.job_dir, self.attempt, str(listener.getsockname()[1]), ",".join(found)]
        each = ["--nodes=%d" % len(self.names), "--ntasks=%d" % len(self.names)]
        each += ["--ntasks-per-node=1", "--mpi=none"]
        self.step = launch_step.Step(each, [python(), "-uBS", program] + words, self.news)
        if self.plan["engine"] == "mpi" and self.plan["by_task"]:
            self._start_ranks(self._tasks())
        try:
            self._join()
        finally:
            launch_line.shut(listener)
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

    def _next(self, deadline_s):
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
            what, part, more = self._next(deadline_s) or late
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
            told = launch_result.read_json(self._path("part.%s.%d.json" % (self.attempt, index)))
            if told and name in missing:
                return "%s %s" % (told.get("why"), FIREWALL)
        text = "%s did not start within %d s." if waited else "Slurm could not start %s."
        text = text % ((named(missing), JOIN_S) if waited else named(missing))
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
            event = self._next(deadline_s)
            if event is None:
                late = [self.parts[index].name for index in sorted(waited)]
                raise LaunchError("%s did not say whether it reaches the others." % named(late))
            what, part, more = event
            if what == "signal":
                raise Cancelled(more)
            if what == "gone":
                raise LaunchError("%s was lost before all nodes were there." % part.name)
            if what == "said" and "reached" in more:
                if more["reached"]:
                    raise LaunchError("%s %s" % (more["reached"][0], FIREWALL))
                waited.discard(part.index)

    # --- the user's code ---

    def run(self):
        # type: () -> int
        """Run the engine to its end and return the exit code."""
        nodes = [self.parts[index] for index in sorted(self.parts)]
        facts = [
            {"name": p.name, "address": p.address, "cpus": p.cpus, "gpus": p.gpus} for p in nodes
        ]
        engine = self.plan["engine"]
        counts = self._tasks() if self.plan["by_task"] else [part.gpus or 1 for part in nodes]
        if engine == "mpi" and self.ranks is None:
            self._start_ranks(counts)
        self.counts = counts
        ranks = sum(counts) if engine in launch_result.RANKED else 0
        world = {"engine": engine, "nodes": facts, "ranks": ranks}
        world.update(processes=counts, runner=self.plan["runner"], ways=self.ways)
        # Nodes that share a machine would take each other's memory: Open MPI names it after the
        # host's name and the rank's number on its node.
        world["is_one_machine"] = len({part.machine for part in nodes}) < len(nodes)
        data = json.dumps(world).encode("ascii")
        runner.put(self._path("world.%s.json" % self.attempt), data)
        self._tell({"ranks": ranks, "nodes": len(nodes)})
        for part in nodes:
            part.line.send({"go": engine != "mpi"})
        self.is_ready = True
        code = self._follow(nodes)
        if not ranks:
            return self._of_first(nodes[0], code)
        where = self._where(nodes, code) if code else None
        lost, said = self._lost(where), any(launch_result.OURS in part.tail for part in nodes)
        heard = [part.tail for part in nodes] + (self.ranks.of_containers if self.ranks else [])
        heard = [one for one in heard if launch_step.OF_CONTAINERS.search(one)]
        patience_s = HEARD_S if said or heard else FAILED_S if code else SEEN_S
        found = launch_result.read_results(self.job_dir, self.attempt, ranks, patience_s)
        begun = {found[rank]["status"] for rank in found}
        never = not found or (where and not begun & {"error", "killed"})
        if code and never and not said and (self.first is None or not self.first.gone):
            # The image's tool has told in the job's log why nothing began: the verdict reads that.
            complain(where or lost or "The ranks ended with exit code %d." % code)
            return code
        made = launch_result.merge(self.job_dir, self.attempt, ranks, found, lost, code)
        return int(made["exit_code"])

    def _tasks(self):
        # type: () -> List[int]
        """Return how many tasks the job has on each node."""
        told = os.environ.get("SLURM_TASKS_PER_NODE", "1")
        return launch_step.tasks_of(told, len(self.names))

    def _start_ranks(self, counts):
        # type: (List[int]) -> None
        """Have Slurm start the ranks, which wait for world.N.json (runner_ranks.py)."""
        self.ways = launch_step.ways_of_mpi()
        self.kinds = [self.plan["mpi"]] if self.plan["mpi"] else list(self.ways)
        self.counts = counts
        self.kind = self.kinds.pop(0)
        self.ranks = self._ranks(self.kind, counts)

    def _again(self, code):
        # type: (int) -> bool
        """Start the ranks again if they want that, or by the next way, where the library of this
        one is missing here although srun lists it; return False where neither is so."""
        assert self.ranks is not None
        is_missing = any("MPI type" in words for words in self.ranks.words)
        if is_missing and self.kinds:
            self.kind = self.kinds.pop(0)
        elif code != RENEW:
            return False
        self.ranks = self._ranks(self.kind, self.counts)
        return True

    def _ranks(self, kind, counts):
        # type: (str, List[int]) -> launch_step.Step
        """Start the ranks of MPI, which srun tells of each other."""
        each = ["--nodes=%d" % len(counts), "--ntasks=%d" % sum(counts), "--mpi=%s" % kind]
        each += ["--distribution=block", "--ntasks-per-node=%d" % max(counts), "--overcommit"]
        inside = self.plan["inside"]
        words = ["python3" if self.plan["in_image"] else python(), "-uB"]
        words += ["%s/%s" % (inside, self.plan["runner"]), inside, self.attempt, "mpi"]
        step = self.plan["step"]  # the container is the step itself
        if step is None:
            engine = os.path.join(self.job_dir, "engine")
            return launch_step.Step(each, ["/bin/bash", engine] + words, self.news)
        each += step["options"]
        return launch_step.Step(each, step["inside"] + words, self.news, step["before"])

    def _follow(self, nodes):
        # type: (List[launch_line.Part]) -> int
        """Wait for the end on all nodes; return the exit code of the first that failed."""
        code = 0
        deadline_s = None  # type: Optional[float]
        while self.ranks is not None or any(p.code is None and not p.gone for p in nodes):
            event = self._next(deadline_s)
            if event is None:
                return code
            what, one, more = event
            if what == "signal":
                self._signal(nodes, more)
            elif what == "bad exit" and more != RENEW and not code:
                code, deadline_s = more, time.monotonic() + TOGETHER_S
            elif what == "step" and one is self.ranks and not self._again(more):
                return code or (more if more >= 0 else 128 - more)
            failed = self._ended(what, one, more)
            if self.plan["engine"] not in launch_result.RANKED:
                if one in nodes[:1] and failed or nodes[0].code is not None:
                    return nodes[0].code or failed
                if failed:  # the code, which runs on the first node, goes on without others
                    self._tell({"said": launch_result.why(one)})
            elif failed and not code:
                code, deadline_s = failed, self._end_others(nodes, one)
        return code

    def _end_others(self, nodes, first):
        # type: (List[launch_line.Part], launch_line.Part) -> float
        """End what runs on the others; return until when they have time for that."""
        self.first = first
        if not self._has_begun(first.index):
            time.sleep(TOGETHER_S)  # theirs may be about to fail, too
        self._signal(nodes, signal.SIGTERM)
        return time.monotonic() + REST_S

    def _ended(self, what, one, more):
        # type: (str, Any, Any) -> int
        """Return the exit code of a part that has ended by this event, else 0."""
        if what == "said" and "ended" in more:
            one.code, one.tail = int(more["ended"]), str(more["tail"])
            return int(one.code)
        if what == "gone" and one.gone:
            complain("%s is gone: Slurm or the network has lost this node." % one.name)
            return UNAVAILABLE
        return 0

    def _signal(self, nodes, number):
        # type: (List[launch_line.Part], int) -> None
        for part in nodes:
            part.line.send({"signal": number})
        if self.ranks is not None and self.ranks.process.poll() is None:
            # The ranks get it from Slurm; srun would end the step.
            words = ["--signal=%s" % signal.Signals(number).name, os.environ["SLURM_JOB_ID"]]
            null = subprocess.DEVNULL  # of a job that ends already there is nothing to say
            subprocess.call(["scancel"] + words, stdin=null, stderr=null)

    def _of_first(self, part, code):
        # type: (launch_line.Part, int) -> int
        """Return the code of the one node that ran the user's code; where that left no result, say
        why."""
        is_told = os.path.exists(self._path("result.%s.json" % self.attempt))
        if is_told or not self.plan["has_result"]:
            return code
        own = launch_result.OURS in part.tail
        if not own and not part.gone:
            return code  # the image's tool has told why in the job's log
        self.first = part
        why = part.tail.strip().splitlines()[-1].partition(launch_result.OURS)[2] if own else ""
        why = why or launch_result.why(part)
        launch_result.fail(self.job_dir, self.attempt, "LaunchError", why, code or 1)
        return code or 1

    def _where(self, nodes, code):
        # type: (List[launch_line.Part], int) -> Optional[str]
        """Say on which nodes nothing began, if it did on all others; the verdict reads it."""
        bad = (
            self.ranks.bad if self.ranks is not None else [p.name for p in nodes if p.code == code]
        )
        begun = [part.name for part in nodes if self._has_begun(part.index)]
        if not begun or set(self.names) - set(begun) != set(bad):
            return None
        return "On %s alone the program ended with exit code %d." % (named(sorted(set(bad))), code)

    def _has_begun(self, index):
        # type: (int) -> bool
        engine, counts = self.plan["engine"], self.counts
        return launch_result.has_begun(self.job_dir, self.attempt, engine, index, counts)

    def _lost(self, where):
        # type: (Optional[str]) -> Optional[str]
        """Say on which node what went wrong, where no rank can have told of it."""
        if self.first is not None:
            return launch_result.why(self.first)
        if self.ranks is None:
            return None
        return " ".join(([where] if where else []) + self.ranks.said()) or None

    def _tell(self, told):
        # type: (Dict[str, Any]) -> None
        """Tell those who watch the job, and the code where an engine runs it."""
        with open(self._path("launch.%s.jsonl" % self.attempt), "ab", 0) as file:
            file.write(runner.to_line(told))

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
            event = self._next(deadline_s)
            ending = [one for one in ending if event is not None and event[:2] != ("gone", one)]
        if self.step is not None:
            try:
                self.step.process.wait(END_S if is_whole else LOST_S)
            except subprocess.TimeoutExpired:
                self.step.end()

    def _path(self, name):
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


def named(names):
    # type: (List[str]) -> str
    shown = ", ".join(names[:8]) + (" and %d more" % (len(names) - 8) if len(names) > 8 else "")
    return shown or "a node"


def complain(sentence):
    # type: (str) -> None
    sys.stderr.write("%s%s\n" % (launch_result.OURS, sentence))
    sys.stderr.flush()


def main(argv):
    # type: (List[str]) -> int
    job_dir, attempt = os.path.abspath(argv[1]), argv[2]
    launcher = Launcher(job_dir, attempt)

    def note(number, _frame):
        # type: (int, Any) -> None
        launcher.signalled = number

    for number in runner.FORWARDED:
        signal.signal(number, note)
    try:
        launcher.start()
        return launcher.run()
    except LaunchError as error:
        complain(str(error))
        launch_result.fail(job_dir, attempt, "LaunchError", str(error), UNAVAILABLE)
        return UNAVAILABLE
    except Cancelled as cancelled:
        return 128 + int(cancelled.args[0])
    finally:
        launcher.close()


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stderr.flush()
    os._exit(code)  # threads may still wait for what will not come
