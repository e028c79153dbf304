"""The srun step of a job on many nodes, and the resources of the job.

Runs on the first node and, for launch_node.py, on each node; Python 3.6 and later, standard library
only. It does not import runner.py, because Python would compile that module in each task (8 ms).
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    import queue
    from typing import Any, Dict, List, Optional, Sequence

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a node forwards to its ranks, the same as `runner.FORWARDED`."""
WORDS = 12
"""Number of srun's lines to keep."""
OWN_WORDS = ("srun:", "slurmstepd")
OURS = "jupyter-slurm: "
"""The beginning of the lines that our programs print."""
BAD_EXIT = re.compile(r"(\S+): tasks? [0-9,-]+: (?:Exited with exit code (\d+)|\S)")
"""srun's message about failed tasks and their nodes."""
OF_CONTAINERS = re.compile(r" pyxis: |'--container-| execve\(\): ")
"""srun's messages about a container, which the verdict explains."""
STEP_OPTIONS = (
    "--export=ALL",
    "--input=none",
    "--cpu-bind=none",
    "--kill-on-bad-exit=0",
    "--wait=0",
    "--mem=0",
)
"""Options for every step. The launcher itself ends the other tasks, because Slurm would send them
SIGKILL. Steps do not request memory, because overlapping steps would then wait for each other."""
ASKED_BY_THE_JOB = (
    "NTASKS NPROCS NTASKS_PER_NODE TASKS_PER_NODE DISTRIBUTION CPUS_PER_TASK GPUS GPUS_PER_TASK "
    "TRES_PER_TASK MEM_PER_NODE MEM_PER_CPU MEM_PER_GPU"
)
"""SLURM_… variables that srun would read as options. Requests for each task would divide the step;
a step without requests gets all of the job's resources."""
OF_THE_CODE = ("SLURM_CPUS_PER_TASK",)
"""Variables of ASKED_BY_THE_JOB that the user's code gets in other jobs. srun does not set them
again."""


class Step:
    """A step of this job. The class puts the step's end and failed tasks into `events`."""

    def __init__(
        self,
        options: "List[str]",
        program: "List[str]",
        events: "queue.Queue[Any]",
        before: "Sequence[str]" = (),
    ) -> None:
        """Start the step. `before` contains the arguments before `srun`."""
        env = dict(os.environ)
        for name in ASKED_BY_THE_JOB.split():
            env.pop("SLURM_" + name, None)
        self.words: "List[str]" = []
        self.bad: "List[str]" = []
        """The nodes on which a task failed."""
        self.of_containers: "List[str]" = []
        self.ours: "List[str]" = []
        """The sentences that our programs on the nodes printed, without repetitions."""
        # Start srun in its own session, because a signal to its process group would end the step.
        self.process = subprocess.Popen(
            list(before) + ["srun"] + list(STEP_OPTIONS) + options + program,
            env=env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        threading.Thread(target=self._follow, args=(events,), daemon=True).start()

    def _follow(self, events: "queue.Queue[Any]") -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self._hear(line.decode("utf-8", "replace"), events)
        events.put(("step", None, self.process.wait()))

    def _hear(self, text: str, events: "queue.Queue[Any]") -> None:
        """Handle a line of srun or of a task. Print it unless it is srun's own message."""
        if text.startswith(OWN_WORDS) and OF_CONTAINERS.search(text):
            self.of_containers.append(text.strip())
        elif text.startswith(OWN_WORDS):
            self.words = (self.words + [text.strip()])[-WORDS:]
            bad = BAD_EXIT.search(text)
            if bad:
                self.bad += expand(bad.group(1))
                events.put(("bad exit", None, int(bad.group(2) or 1)))
            return
        elif text.startswith(OURS):
            sentence = text[len(OURS) :].strip()
            if sentence in self.ours:  # another node has reported the same error
                return
            self.ours = (self.ours + [sentence])[:WORDS]
        sys.stderr.write(text)
        sys.stderr.flush()

    def said(self) -> "List[str]":
        """Return a list with one message: the first error about a container, or else srun's last
        error that is not about a failed task. Return [] if neither exists."""
        errors = [one for one in self.words if one.startswith("srun: error:")]
        errors = [one for one in errors if not BAD_EXIT.search(one)]
        return ["Slurm said: %s" % one for one in self.of_containers[:1] or errors[-1:]]

    def end(self, patience_s: float) -> None:
        """Wait up to `patience_s` for the end of the step, then make srun kill it."""
        for order in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                order()
                patience_s = min(patience_s, 5.0)


def complain(sentence: str) -> None:
    """Write a message to the job's log."""
    with contextlib.suppress(OSError):
        os.write(2, (OURS + sentence + "\n").encode("utf-8", "replace"))


def gone(name: str) -> str:
    """Return the log's sentence about a lost node, which the verdict parses."""
    return "%s is gone: Slurm or the network lost it." % name


def kept_from_steps() -> "Dict[str, str]":
    """Return the job's variables that its steps lack."""
    return {name: os.environ[name] for name in OF_THE_CODE if name in os.environ}


def memory_mib(cpus: int, gpus: int) -> "Optional[int]":
    """Return the job's memory in MiB on a node where the job has this many CPUs and GPUs; None
    without a limit."""
    for name, count in (("NODE", 1), ("CPU", cpus), ("GPU", gpus)):
        asked = os.environ.get("SLURM_MEM_PER_" + name, "")
        if asked.isdigit() and int(asked) * count:
            return int(asked) * count
    return None


def gpus() -> int:
    """Count the job's GPUs on this node."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES") or ""
    return 0 if told in ("", "NoDevFiles") else len(told.split(","))


def gpus_of_node() -> "List[str]":
    """Return the option that gives a step all GPUs of the job on a node, also those that come with
    `--exclusive` or a partition of whole nodes. Without the option, a step gets only the requested
    GPUs (seen with Slurm 22.05)."""
    count = os.environ.get("SLURM_GPUS_ON_NODE", "")
    return ["--gres=gpu:%s" % count] if count.isdigit() and int(count) else []


def tasks_of(text: str, nodes: int) -> "List[int]":
    """Parse Slurm's numbers of tasks on each node, such as `2(x3),1`."""
    counts: "List[int]" = []
    for part in text.split(","):
        count, _, times = part.rstrip(")").partition("(x")
        counts += [int(count)] * int(times or 1)
    return (counts + [1] * nodes)[:nodes]


def expand(nodelist: str) -> "List[str]":
    """Expand Slurm's list of nodes, such as `n[1-3,07],login`, without `scontrol`."""
    names: "List[str]" = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodelist):
        made = [""]
        for text, numbers in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            ends = [text] if text else [one for run in numbers.split(",") for one in _run(run)]
            made = [beginning + end for beginning in made for end in ends]
        names += made
    return names


def _run(run: str) -> "List[str]":
    first, _, last = run.partition("-")
    if not last:
        return [first]
    return ["%0*d" % (len(first), number) for number in range(int(first), int(last) + 1)]


def named(names: "Sequence[str]") -> str:
    """Return a phrase with at most eight of the names."""
    shown = ", ".join(names[:8]) + (" and %d more" % (len(names) - 8) if len(names) > 8 else "")
    return shown or "a node"
