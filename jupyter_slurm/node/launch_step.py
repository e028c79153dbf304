"""Steps of a job on many nodes, as its launcher (launch.py) has Slurm start them.

Runs on the first node, Python 3.6 and later, standard library only. Nothing here knows what runs in
a step.
"""

import os
import re
import subprocess
import sys
import threading

import launch_line

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    import queue  # noqa: F401 - in comments
    from typing import Any, Dict, List, Optional, Sequence  # noqa: F401 - in comments

WORDS = 12
"""How many of srun's own last lines are kept."""
OWN_WORDS = ("srun:", "slurmstepd")
BAD_EXIT = re.compile(r"(\S+): tasks? [0-9,-]+: (?:Exited with exit code (\d+)|\S)")
"""How srun says that tasks have failed, and on which nodes."""
OF_CONTAINERS = re.compile(r" pyxis: |'--container-")
"""Recognizes srun's words about a container, which the verdict explains."""
STEP_OPTIONS = (
    "--export=ALL",
    "--input=none",
    "--cpu-bind=none",
    "--kill-on-bad-exit=0",
    "--wait=0",
    "--mem=0",
)
"""A step waits for memory that another one holds, even where they overlap."""
ASKED_BY_THE_JOB = (
    "NTASKS NPROCS NTASKS_PER_NODE TASKS_PER_NODE DISTRIBUTION CPUS_PER_TASK GPUS GPUS_PER_TASK "
    "TRES_PER_TASK MEM_PER_NODE MEM_PER_CPU MEM_PER_GPU"
)
"""Variables (SLURM_…) that srun takes for options: what the job asked for by task would divide the
step in the same way. Slurm gives a step that asks for nothing all that the job has there."""
OF_THE_CODE = ("SLURM_CPUS_PER_TASK",)
"""Those of them that the user's code has in any job, and that no step says anew."""


class Step(object):
    """A step of this job that srun runs; its own words are kept, and all others passed on. Its end
    is news, and so is a task that has failed."""

    def __init__(self, options, program, news, before=()):
        # type: (List[str], List[str], queue.Queue[Any], Sequence[str]) -> None
        """`before`: words before srun's own."""
        env = dict(os.environ)
        for name in ASKED_BY_THE_JOB.split():
            env.pop("SLURM_" + name, None)
        argv = list(before) + ["srun"] + list(STEP_OPTIONS) + options + program
        self.words = []  # type: List[str]
        self.bad = []  # type: List[str]
        """Nodes on which a task has failed."""
        self.of_containers = []  # type: List[str]
        # srun takes a signal for its process group as an order to end the step.
        self.process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        thread = threading.Thread(target=self._follow, args=(news,))
        thread.daemon = True
        thread.start()

    def _follow(self, news):
        # type: (queue.Queue[Any]) -> None
        assert self.process.stderr is not None
        for line in self.process.stderr:
            text = line.decode("utf-8", "replace")
            if text.startswith(OWN_WORDS) and OF_CONTAINERS.search(text):
                self.of_containers.append(text.strip())
            elif text.startswith(OWN_WORDS):
                bad = BAD_EXIT.search(text)
                if bad:
                    self.bad += launch_line.expand(bad.group(1))
                    news.put(("bad exit", self, int(bad.group(2) or 1)))
                self.words = (self.words + [text.strip()])[-WORDS:]
                continue
            passed_on = text.startswith(launch_line.PASSED_ON)
            sys.stderr.write(text[len(launch_line.PASSED_ON) :] if passed_on else text)
            sys.stderr.flush()
        news.put(("step", self, self.process.wait()))

    def said(self):
        # type: () -> List[str]
        """Return a sentence with the first error about a container, or else the last of srun's that
        is not about the end of a task; or nothing."""
        errors = [one for one in self.words if one.startswith("srun: error:")]
        errors = [one for one in errors if not BAD_EXIT.search(one)]
        return ["Slurm said: %s" % one for one in self.of_containers[:1] or errors[-1:]]

    def end(self):
        # type: () -> None
        """End the step. srun passes TERM on as its order to kill it."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5.0)
            except subprocess.TimeoutExpired:
                self.process.kill()


def kept_from_steps():
    # type: () -> Dict[str, str]
    """Return the variables of the job that its steps lack, for the user's code in them."""
    return {name: os.environ[name] for name in OF_THE_CODE if name in os.environ}


def memory_mib(cpus, gpus):
    # type: (int, int) -> Optional[int]
    """Return the memory that the job has on a node with so many of its CPUs and GPUs, or None when
    it has no limit there."""
    for name, count in (("NODE", 1), ("CPU", cpus), ("GPU", gpus)):
        asked = os.environ.get("SLURM_MEM_PER_" + name, "")
        if asked.isdigit() and int(asked) * count:
            return int(asked) * count
    return None


def gpus_of_node():
    # type: () -> List[str]
    """Return the option by which a step gets the GPUs of each node where the job asked for none and
    has them all the same: by `--exclusive`, or since the partition gives whole nodes. To a step
    that asks for nothing Slurm gives what the job has asked for, which is none then (seen with
    22.05)."""
    count = os.environ.get("SLURM_GPUS_ON_NODE", "")
    return ["--gres=gpu:%s" % count] if count.isdigit() and int(count) else []


def tasks_of(text, nodes):
    # type: (str, int) -> List[int]
    """Return how many tasks each node has by a text of Slurm's, `2(x3),1`."""
    counts = []  # type: List[int]
    for part in text.split(","):
        count, _, times = part.rstrip(")").partition("(x")
        counts += [int(count)] * int(times or 1)
    return (counts + [1] * nodes)[:nodes]
