"""A job on many nodes from the moment when they have found each other: tells the engine's programs
of the nodes, waits for them, and says how the job has ended.

Runs on the first node as a part of launch.py; Python 3.6 and later, standard library only.
"""

import json
import os
import signal
import time

import launch_line
import launch_result
import launch_step
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional  # noqa: F401 - in comments

    from launch import Launcher  # noqa: F401

REST_S = 20.0
"""How long the other nodes have to end after one has ended with a failure."""
SEEN_S, FAILED_S, HEARD_S = 60.0, 5.0, 1.0
"""How long to wait until what the ranks have written on other nodes is seen here (nfs(5)): where
all went well, where a rank may not have come to write anything, and where somebody said why."""
UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits.h."""


def fail(job_dir, attempt, sentence):
    # type: (str, str, str) -> int
    """Say why the nodes cannot begin; return the launcher's exit code."""
    runner.complain(sentence)
    launch_result.fail(job_dir, attempt, "LaunchError", sentence, UNAVAILABLE)
    return UNAVAILABLE


class Run(object):
    def __init__(self, launcher):
        # type: (Launcher) -> None
        self.launch = launcher
        self.job_dir = launcher.job_dir
        self.attempt = launcher.attempt
        self.plan = launcher.plan
        self.first = None  # type: Optional[launch_line.Part]
        """The first that failed."""
        self.gone = []  # type: List[str]
        """Nodes that were lost before anybody told the job to end."""
        self.is_told_to_end = False

    def to_its_end(self):
        # type: () -> int
        """Run the engine to its end and return the exit code."""
        launch = self.launch
        nodes = [launch.parts[index] for index in sorted(launch.parts)]
        facts = [
            {
                "name": part.name,
                "address": part.address,
                "cpus": part.cpus,
                "gpus": part.gpus,
                "memory_mib": launch_step.memory_mib(part.cpus, part.gpus),
            }
            for part in nodes
        ]
        engine = self.plan["engine"]
        counts = launch.tasks() if self.plan["by_task"] else [part.gpus or 1 for part in nodes]
        if engine == "mpi" and launch.ranks is None:
            launch.start_ranks(counts)
        launch.counts = counts
        ranks = sum(counts) if self.plan["is_ranked"] else 0
        world = {"engine": engine, "nodes": facts, "ranks": ranks}
        world.update(processes=counts, runner=self.plan["runner"])
        world["mpi_types"] = self.plan["mpi_types"]
        world["environment"] = launch_step.kept_from_steps()
        # Nodes that share a machine would take each other's memory: Open MPI names it after the
        # host's name and the rank's number on its node.
        world["is_one_machine"] = len({part.machine for part in nodes}) < len(nodes)
        data = json.dumps(world).encode("ascii")
        runner.put(launch.path("world.%s.json" % self.attempt), data)
        self._tell({"ranks": ranks, "nodes": len(nodes)})
        for part in nodes:
            part.line.send({"go": engine != "mpi"})
        launch.is_ready = True
        code = self._follow(nodes)
        if not ranks:
            # Where the first node's program was killed, nobody else has told the others.
            path = launch.path("engine.%s.json" % self.attempt)
            runner.put(path, json.dumps({"over": True}).encode("ascii"))
            self._hear_the_rest()
            return self._of_first(nodes[0], code)
        return self._of_ranks(nodes, ranks, code)

    def _of_ranks(self, nodes, ranks, code):
        # type: (List[launch_line.Part], int, int) -> int
        """Make the job's result of those of the ranks, and return the job's exit code."""
        launch = self.launch
        where = self._where(nodes, code) if code else None
        lost, said = self._lost(where), any(launch_result.OURS in part.tail for part in nodes)
        heard = [part.tail for part in nodes]
        heard += launch.ranks.of_containers if launch.ranks is not None else []
        heard = [one for one in heard if launch_step.OF_CONTAINERS.search(one)]
        patience_s = HEARD_S if said or heard else FAILED_S if code else SEEN_S
        found = launch_result.read_results(self.job_dir, self.attempt, ranks, patience_s)
        self._hear_the_rest()
        if code and self.gone:
            sentence = launch_result.loss(self.gone)
            launch_result.lose(self.job_dir, self.attempt, ranks, found, sentence, code)
            return code
        begun = {found[rank]["status"] for rank in found}
        never = not found or (where and not begun & {"error", "killed"})
        if code and never and not said:
            # The image's tool has told in the job's log why nothing began: the verdict reads that.
            runner.complain(where or lost or "The ranks ended with exit code %d." % code)
            return code
        made = launch_result.merge(self.job_dir, self.attempt, ranks, found, lost, code)
        return int(made["exit_code"])

    def _again(self, code):
        # type: (int) -> bool
        """Start the ranks again if they want that, or by the next way, where the library of this
        one is missing here although srun lists it; return False where neither is so."""
        launch = self.launch
        assert launch.ranks is not None
        is_missing = any("MPI type" in words for words in launch.ranks.words)
        if is_missing and launch.kinds:
            launch.kind = launch.kinds.pop(0)
        elif code != launch_result.RENEW:
            return False
        launch.step_of_ranks()
        return True

    def _follow(self, nodes):
        # type: (List[launch_line.Part]) -> int
        """Wait for the end on all nodes; return the exit code of the first that failed."""
        code = 0
        deadline_s = None  # type: Optional[float]
        while self.launch.ranks is not None or any(p.code is None and not p.gone for p in nodes):
            event = self.launch.next(deadline_s)
            if event is None:
                return code
            what, one, more = event
            if what == "signal":
                self.is_told_to_end |= more in (signal.SIGTERM, signal.SIGINT)
                self.launch.signal(nodes, more)
            elif what == "bad exit" and more != launch_result.RENEW and not code:
                code, deadline_s = more, time.monotonic() + launch_result.TOGETHER_S
            elif what == "step" and one is self.launch.ranks and not self._again(more):
                return code or (more if more >= 0 else 128 - more)
            failed = self._ended(what, one, more)
            if not self.plan["is_ranked"]:
                if one in nodes[:1] and failed or nodes[0].code is not None:
                    return nodes[0].code or failed
                if failed:
                    self._tell_of_loss(one)
            elif failed and not code:
                code, deadline_s = failed, self._end_others(nodes, one)
        return code

    def _hear_the_rest(self):
        # type: () -> None
        """Take notice of what has come in by now: the code may have noticed sooner than this that a
        node is lost."""
        event = self.launch.next(time.monotonic())
        while event is not None:
            if self._ended(*event) and not self.plan["is_ranked"]:
                self._tell_of_loss(event[1])
            event = self.launch.next(time.monotonic())

    def _tell_of_loss(self, part):
        # type: (launch_line.Part) -> None
        """Tell the code, which runs on the first node and goes on without this one; and the
        verdict, if the code fails."""
        self._tell({"said": launch_result.why(part)})
        if not self.is_told_to_end:
            # A line of its own: of this file no more than the end is read.
            self._tell({"node": part.name, "was_lost": part.gone, "time_s": time.time()})

    def _end_others(self, nodes, first):
        # type: (List[launch_line.Part], launch_line.Part) -> float
        """End what runs on the others; return until when they have time for that."""
        self.first = first
        if not self._has_begun(first.index):
            time.sleep(launch_result.TOGETHER_S)  # theirs may be about to fail, too
        self.launch.signal(nodes, signal.SIGTERM)
        return time.monotonic() + REST_S

    def _ended(self, what, one, more):
        # type: (str, Any, Any) -> int
        """Return the exit code of a part that has ended by this event, else 0."""
        if what == "said" and "ended" in more:
            one.code, one.tail = int(more["ended"]), str(more["tail"])
            return int(one.code)
        if what == "gone" and one.gone:
            if not self.is_told_to_end:  # else it is Slurm that ends what is left
                self.gone.append(one.name)
                runner.complain("%s is gone: Slurm or the network has lost this node." % one.name)
            return UNAVAILABLE
        return 0

    def _of_first(self, part, code):
        # type: (launch_line.Part, int) -> int
        """Return the code of the one node that ran the user's code; where that left no result, say
        why."""
        is_told = os.path.exists(self.launch.path("result.%s.json" % self.attempt))
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
        bad = [part.name for part in nodes if part.code == code]
        if self.launch.ranks is not None:
            bad = self.launch.ranks.bad
        begun = [part.name for part in nodes if self._has_begun(part.index)]
        if not begun or not bad or set(self.launch.names) - set(begun) != set(bad):
            return None
        alone = launch_line.named(sorted(set(bad)))
        return "On %s alone the program ended with exit code %d." % (alone, code)

    def _has_begun(self, index):
        # type: (int) -> bool
        engine, counts = self.plan["engine"], self.launch.counts
        return launch_result.has_begun(self.job_dir, self.attempt, engine, index, counts)

    def _lost(self, where):
        # type: (Optional[str]) -> Optional[str]
        """Say on which node what went wrong, where no rank can have told of it."""
        if self.first is not None:
            return launch_result.why(self.first)
        if self.launch.ranks is None:
            return None
        return " ".join(([where] if where else []) + self.launch.ranks.said()) or None

    def _tell(self, told):
        # type: (Dict[str, Any]) -> None
        """Tell those who watch the job, and the code where an engine runs it."""
        with open(self.launch.path("launch.%s.jsonl" % self.attempt), "ab", 0) as file:
            file.write(runner.to_line(told))
