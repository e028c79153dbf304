"""Samples of a job's CPU, memory and GPU usage on one of its nodes, taken while the program runs.

    usage.py FILE PID

Runs on the cluster, Python 3.6 and later, standard library only. FILE is usage.N.jsonl on the first
node, and usage.N.K.jsonl on node K. PID is the process that runs the job on that node. When that
process ends, it closes this program's standard input, and this program ends.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set, Tuple

EVERY_S = ((60.0, 2.0), (3600.0, 10.0))
"""Ages of the job in seconds, each with the seconds between samples up to that age."""
LATER_S = 60.0
LATER_PART = 1 / 300.0
"""Time between later samples as a fraction of the job's age, at least LATER_S. A month of samples
makes 2,000 lines."""
GPUS_WAIT_S = 10.0
GPUS_TRIES = 3

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 1048576.0


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    os.nice(10)
    job_id = os.environ.get("SLURM_JOB_ID", "")
    script = int(sys.argv[2])
    node = os.environ.get("SLURMD_NODENAME")
    processes = Processes(script, job_id, os.environ.get("SLURM_JOB_NAME"), node)
    meter = Meter(processes, Cgroup.of_job(job_id))
    follow(sys.argv[1], node or os.uname().nodename, meter, Gpus.of_job())


def follow(path: str, node: str, meter: "Meter", gpus: "Gpus") -> None:
    began_s = time.monotonic()
    meter.look()
    while not ended_within(pause_s(time.monotonic() - began_s)):
        cpus, memory_mib = meter.look()
        line = {
            "time_s": round(time.time(), 2),
            "node": node,
            "cpus": round(cpus, 3),
            "memory_mib": round(memory_mib, 1),
            "gpus": gpus.look(),
        }
        append(path, json.dumps(line))


def pause_s(age_s: float) -> float:
    """Return the time until the next sample of a job of that age."""
    for until_s, every_s in EVERY_S:
        if age_s < until_s:
            return every_s
    return max(LATER_S, age_s * LATER_PART)


def ended_within(rest_s: float) -> bool:
    """Return whether the job's process ends within `rest_s`. Standard input ends with that
    process."""
    ready, _, _ = select.select([0], [], [], rest_s)
    return bool(ready)


def append(path: str, line: str) -> None:
    """Append a line to a file. On a full disk, only this sample is lost."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        return
    try:
        data = (line + "\n").encode()
        if 0 < os.write(file, data) < len(data):
            os.write(file, b"\n")
    except OSError:
        pass
    finally:
        os.close(file)


class Meter:
    """A meter of the cores busy since the last sample, and of the memory in use."""

    def __init__(self, processes: "Processes", cgroup: "Cgroup") -> None:
        self._processes = processes
        self._cgroup = cgroup
        self._time_s = time.monotonic()
        self._cpu_s = 0.0

    def look(self) -> "Tuple[float, float]":
        """Return the cores and MiB in use by the job's cgroup and by its processes outside of it
        (containers of a container engine)."""
        inside, outside = self._processes.look()
        cpu_s, memory_mib = self._cgroup.cpu_s(), self._cgroup.memory_mib()
        cpu_s = outside.cpu_s + (inside.cpu_s if cpu_s is None else cpu_s)
        memory_mib = outside.memory_mib + (inside.memory_mib if memory_mib is None else memory_mib)
        now_s = time.monotonic()
        # The sum can decrease, because it misses ended processes whose parent was not in the job.
        used_s = max(0.0, cpu_s - self._cpu_s)
        cores = used_s / max(now_s - self._time_s, 0.001)
        self._time_s, self._cpu_s = now_s, cpu_s
        return cores, memory_mib


class Sum:
    """The total CPU time and memory of several processes."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.memory_mib = 0.0

    def add(self, stat: "Stat") -> None:
        self.cpu_s += stat.cpu_s
        self.memory_mib += stat.memory_mib


class Stat:
    """A line of /proc/PID/stat (proc(5)). The name in it may contain brackets."""

    def __init__(self, line: bytes) -> None:
        words = line[line.rindex(b")") + 2 :].split()
        self.parent = int(words[1])
        self.group = int(words[2])
        # Include the children for which the process has waited.
        self.cpu_s = sum(int(word) for word in words[11:15]) / float(TICKS)
        self.start = int(words[19])
        self.memory_mib = int(words[21]) * PAGE_MIB


class Processes:
    """The job's processes on this machine: the script's descendants, its process group, processes
    with the job's ID in their environment (steps of srun, containers), and their descendants."""

    def __init__(
        self, script: int, job_id: str, name: "Optional[str]", node: "Optional[str]" = None
    ) -> None:
        """Identify the job. `name`, the job's name in Slurm, distinguishes jobs of two clusters
        with the same ID. `node`, this node's name in Slurm, distinguishes several nodes on one
        machine."""
        self._script = script
        self._marks = [b"\0SLURM_JOB_ID=" + job_id.encode() + b"\0"]
        if name:
            self._marks.append(b"\0SLURM_JOB_NAME=" + os.fsencode(name) + b"\0")
        self._node = None if node is None else os.fsencode(node)
        self._in_job = re.compile(b"/job_" + job_id.encode() + b"(/|$)", re.MULTILINE)
        self._ours: "Dict[int, Tuple[int, bool]]" = {}
        """The start time of each process and whether it is outside the job's cgroup, by process
        ID."""

    def look(self) -> "Tuple[Sum, Sum]":
        """Return the sums of the processes inside and outside the job's cgroup."""
        stats = self._stats()
        ours = self._members(stats)
        inside, outside = Sum(), Sum()
        kept = {}
        for pid in ours:
            stat = stats[pid]
            known = self._ours.get(pid)
            if known is None or known[0] != stat.start:
                known = (stat.start, self._is_outside(pid))
            kept[pid] = known
            (outside if known[1] else inside).add(stat)
        self._ours = kept
        return inside, outside

    def _stats(self) -> "Dict[int, Stat]":
        found = {}
        uid = os.getuid()
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            folder = "/proc/" + name
            try:
                if os.stat(folder).st_uid == uid:
                    found[int(name)] = Stat(read(folder + "/stat"))
            except (OSError, ValueError):
                continue
        return found

    def _members(self, stats: "Dict[int, Stat]") -> "Set[int]":
        children: "Dict[int, List[int]]" = {}
        for pid, stat in stats.items():
            children.setdefault(stat.parent, []).append(pid)
        ours: "Set[int]" = set()
        own = os.getpid()

        def take(pid: int) -> None:
            waiting = [pid]
            while waiting:
                one = waiting.pop()
                if one in stats and one not in ours and one != own:
                    ours.add(one)
                    waiting += children.get(one, ())

        take(self._script)
        for pid, stat in stats.items():
            known = self._ours.get(pid)
            if (known and known[0] == stat.start) or stat.group == self._script:
                take(pid)
        for pid in stats:
            if pid not in ours and pid != own and self._is_named(pid):
                take(pid)
        return ours

    def _is_named(self, pid: int) -> bool:
        """Return whether the process's environment names the job."""
        try:
            environment = b"\0" + read("/proc/%d/environ" % pid)
        except OSError:
            return False
        if not all(mark in environment for mark in self._marks):
            return False
        _, found, rest = environment.partition(b"\0SLURMD_NODENAME=")
        return not found or self._node in (None, rest.partition(b"\0")[0])

    def _is_outside(self, pid: int) -> bool:
        try:
            return not self._in_job.search(read("/proc/%d/cgroup" % pid))
        except OSError:
            return False


class Cgroup:
    """The job's cgroup on this machine, if Slurm has made one."""

    def __init__(self, folders: "Dict[str, str]") -> None:
        """Use the folder of each controller in `folders`. The key "" stands for cgroup version 2,
        which has all controllers."""
        self._folders = folders

    @classmethod
    def of_job(
        cls, job_id: str, membership: str = "/proc/self/cgroup", mounts: str = "/sys/fs/cgroup"
    ) -> "Cgroup":
        folders = {}
        try:
            lines = read(membership).decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        for line in lines:
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            before, found, _ = (path + "/").partition("/job_" + job_id + "/")
            for controller in controllers.split(",") if found else ():
                for mounted in (controllers, controller):
                    folder = "/".join((mounts, mounted)).rstrip("/") + before + found
                    if os.path.isdir(folder):
                        folders[controller] = folder
        return cls(folders)

    def cpu_s(self) -> "Optional[float]":
        """Return the CPU time used; None if the cgroup does not count it."""
        if "cpuacct" in self._folders:
            return self._number("cpuacct", "cpuacct.usage", 1e9)
        stat = self._stat("", "cpu.stat")
        return stat["usage_usec"] / 1e6 if "usage_usec" in stat else None

    def memory_mib(self) -> "Optional[float]":
        """Return the memory in use without the page cache; None if the cgroup does not count it."""
        if "memory" in self._folders:
            stat = self._stat("memory", "memory.stat")
            names = ("total_rss", "total_shmem")
        else:
            stat = self._stat("", "memory.stat")
            names = ("anon", "shmem")
        return sum(stat.get(name, 0) for name in names) / 1048576.0 if names[0] in stat else None

    def _number(self, controller: str, name: str, unit: float) -> "Optional[float]":
        try:
            return int(read(self._folders[controller] + name)) / unit
        except (OSError, ValueError):
            return None

    def _stat(self, controller: str, name: str) -> "Dict[str, int]":
        if controller not in self._folders:
            return {}
        try:
            lines = read(self._folders[controller] + name).decode().splitlines()
            return {words[0]: int(words[1]) for words in map(str.split, lines) if len(words) == 2}
        except (OSError, ValueError):
            return {}


class Gpus:
    """The job's GPUs, as nvidia-smi reports them. If nvidia-smi is missing or has failed GPUS_TRIES
    times, this class does not call it again."""

    def __init__(self, devices: str) -> None:
        self._devices = devices
        self._tries = GPUS_TRIES if devices else 0

    @classmethod
    def of_job(cls) -> "Gpus":
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return cls("" if devices == "NoDevFiles" else devices)

    def look(self) -> "List[Dict[str, Any]]":
        if not self._tries:
            return []
        fields = "name,utilization.gpu,memory.used,memory.total"
        try:
            said = subprocess.run(
                [
                    "nvidia-smi",
                    "-i",
                    self._devices,
                    "--query-gpu=" + fields,
                    "--format=csv,noheader,nounits",
                ],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=GPUS_WAIT_S,
            )
        except OSError:
            self._tries = 0
            return []
        except subprocess.TimeoutExpired:
            self._tries -= 1
            return []
        found = [parse_gpu(line) for line in said.stdout.decode("utf-8", "replace").splitlines()]
        self._tries = GPUS_TRIES if any(found) else self._tries - 1
        return [gpu for gpu in found if gpu]


def parse_gpu(line: str) -> "Optional[Dict[str, Any]]":
    """Return a GPU's figures; None if the line is not about a GPU. A figure is None where
    nvidia-smi prints "[N/A]": the utilisation of a MIG instance, or memory on a GPU without
    separate memory (GB10: NordicHPC/sonar issue 460)."""
    words = [word.strip() for word in line.rsplit(",", 3)]
    try:
        busy, used_mib, total_mib = (number(word) for word in words[1:])
    except ValueError:
        return None
    return {
        "name": words[0],
        "utilisation": None if busy is None else busy / 100.0,
        "memory_mib": used_mib,
        "memory_total_mib": total_mib,
    }


def number(word: str) -> "Optional[float]":
    return None if word.startswith("[") else float(word)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    main()
    os._exit(0)  # exit at once, because Slurm waits for a job's last process
