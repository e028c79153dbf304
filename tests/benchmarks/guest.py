"""The load of many users on a login node and on Slurm's controller.

    scripts/bench guest [--users 1 10 25] [--computed 100] [--seconds 60]

Each user has an agent with its own folders, a running job that prints a line every five seconds,
and a client that shows the queue and follows that job. They first use the cluster over SSH. Then
their Jupyter runs on the login node. Agents, OpenSSH, sshd, Slurm and jobs are real. All users
share one account of this machine. A hundred users would overload it, so their figures are computed
from the measured figures. Needs root. Writes docs/administrators-figures.md.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Protocol

import psutil

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.wire import CellSpec, JobState, new_id
from tests.benchmarks.table import show
from tests.cluster.plugin import ROOT, SlurmCluster, running_cluster
from tests.server.served import agent_of, environment
from tests.ssh.accounts import make_folder
from tests.ssh.kept import keeping
from tests.ssh.processes import name_of, runs
from tests.ssh.profile import write_profile
from tests.ssh.site import Site, make_site
from tests.ssh.waiting import wait_until

FIGURES = ROOT / "docs" / "administrators-figures.md"
HEAD = (
    "users",
    "processes (most)",
    "memory",
    "CPU, % of a core",
    "connections",
    "listening ports",
    "requests to slurmctld per minute",
    "its CPU, % of a core",
)
_CELL = "import time\nwhile True:\n    print('a line', flush=True)\n    time.sleep(5)\n"
_SAMPLE_EVERY_S = 1.0
_WAIT_S = 30.0
"""Seconds that a client waits in one call, as a Jupyter server does for its pages."""
_PATIENCE_S = 600.0
_AT_ONCE = 4
_SOCKETS = ("ss", "--no-header", "--tcp", "--all", "--numeric", "--processes")
_OF_DAEMONS = ("MESSAGE_", "REQUEST_STATS_INFO", "REQUEST_COMPLETE_", "REQUEST_STEP_COMPLETE")
"""Requests that Slurm's own daemons and this benchmark make."""


@dataclass(frozen=True, slots=True)
class Load:
    """The average load of a number of users."""

    count: int
    users: str
    processes: float
    most_processes: int
    memory_mib: float
    cpu_percent: float
    connections: int
    ports: int
    requests_per_min: float
    controller_percent: float

    def cells(self) -> tuple[str, ...]:
        return (
            self.users,
            f"{self.processes:.0f} ({self.most_processes})",
            f"{self.memory_mib:,.0f} MiB",
            f"{self.cpu_percent:.1f}",
            str(self.connections),
            str(self.ports),
            f"{self.requests_per_min:.0f}",
            f"{self.controller_percent:.1f}",
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, nargs="+", default=[1, 10, 25])
    parser.add_argument("--computed", type=int, default=100, help="users in the last row")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of each measurement")
    args = parser.parse_args()
    with keeping() as keeper:
        folder = make_folder(keeper, "guest-")
        site = make_site(keeper, folder / "site", cpus=max(args.users))
        slurm = site.run("sinfo", "--version").stdout.strip()
        over_ssh = loads(Crowd(OverSsh(site)), args)
        spec = {"nodes": 1, "cpus": 2 * max(args.users), "memory_mib": 1024 * 1024}
        with running_cluster(folder / "home", **spec) as cluster:
            there = Crowd(OnLoginNode(cluster, folder))
            on_login_node = loads(there, args)
    show("On the login node, for users over SSH", [HEAD, *(one.cells() for one in over_ssh)])
    show("For users with Jupyter there", [HEAD, *(one.cells() for one in on_login_node)])
    text = document(over_ssh, on_login_node, args.seconds, slurm)
    FIGURES.write_text(text, encoding="utf-8")
    return 0


def loads(crowd: Crowd, args: argparse.Namespace) -> list[Load]:
    """Measure the load of each number of users. Repeat the last without jobs and clients. Compute
    the load of `args.computed` users."""
    measured: list[Load] = []
    try:
        for count in sorted(args.users):
            crowd.grow(count)
            measured.append(crowd.load(count, str(count), args.seconds))
        crowd.rest()
        resting = crowd.load(count, f"{count}, without jobs and pages", args.seconds)
    finally:
        crowd.close()
    return [*measured, computed(measured[0], measured[-1], args.computed), resting]


def computed(few: Load, many: Load, count: int) -> Load:
    """Return the load of more users, extrapolated from the two measured loads."""

    def at(name: str) -> float:
        low, high = float(getattr(few, name)), float(getattr(many, name))
        if few.count == many.count:
            return high * count / many.count
        return low + (high - low) * (count - few.count) / (many.count - few.count)

    return Load(
        count,
        f"{count} (computed)",
        at("processes"),
        round(at("most_processes")),
        at("memory_mib"),
        at("cpu_percent"),
        round(at("connections")),
        round(at("ports")),
        at("requests_per_min"),
        at("controller_percent"),
    )


class Place(Protocol):
    """The users' cluster, with their access to it."""

    def user(self, number: int) -> tuple[dict[str, str], list[str]]:
        """Make a home with a profile; return its environment and the agent's command line."""

    def processes(self, agents: Sequence[int]) -> list[psutil.Process]:
        """Return the users' processes on the login node."""

    def run(self, *argv: str) -> str:
        """Return the output of a command on the login node."""

    def controller(self) -> psutil.Process: ...


@dataclass(frozen=True)
class OverSsh:
    """Agents on other machines, each with its own login on the login node."""

    site: Site

    def user(self, number: int) -> tuple[dict[str, str], list[str]]:
        home = self.site.home()
        # The connection starts at the gateway, which reaches the login node without a code.
        config = home.client.config
        config.write_text("Host login\n  ProxyJump none\n" + config.read_text())
        home.write_profile(poll_s=None)
        return home.env | {"PYTHONPATH": str(ROOT)}, self.site.gateway_machine.argv(*COMMAND)

    def processes(self, agents: Sequence[int]) -> list[psutil.Process]:
        return self.site.login.processes()

    def run(self, *argv: str) -> str:
        return self.site.machines["login"].run(*argv).stdout

    def controller(self) -> psutil.Process:
        uid = self.site.person.account.uid
        [found] = [
            one for one in self.site.machines["login"].processes(uid) if name_of(one) == "slurmctld"
        ]
        return found


@dataclass(frozen=True)
class OnLoginNode:
    """Agents on the login node."""

    cluster: SlurmCluster
    folder: Path

    def user(self, number: int) -> tuple[dict[str, str], list[str]]:
        home = self.folder / f"u{number}"
        settings = tomllib.loads(self.cluster.profile_path.read_text(encoding="utf-8"))
        # squeue has the interval of a new profile, not that of `jupyter slurm up`.
        changes = {"origin": None, "poll_s": None}
        write_profile(home / "config", self.cluster.name, settings | changes)
        return environment(home), [*COMMAND]

    def processes(self, agents: Sequence[int]) -> list[psutil.Process]:
        found = [psutil.Process(pid) for pid in agents]
        return [*found, *(child for one in found for child in one.children(recursive=True))]

    def run(self, *argv: str) -> str:
        return self.cluster.run(*argv).stdout

    def controller(self) -> psutil.Process:
        found = self.cluster.daemons.find("slurmctld")
        assert found is not None
        return psutil.Process(found.pid)


@dataclass
class Crowd:
    """Users with agents, jobs and clients."""

    place: Place
    _agents: list[AgentClient] = field(default_factory=list)
    _pids: list[int] = field(default_factory=list)
    _clients: list[threading.Thread] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _stack: ExitStack = field(default_factory=ExitStack)

    def grow(self, count: int) -> None:
        """Add users up to `count`, and wait until their jobs run."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            new = [*pool.map(self._user, range(len(self._agents), count))]
        for agent, job_id in new:
            self._agents.append(agent)
            self._pids.append(agent.status().pid)
            for client in (self._show_queue, self._follow):
                self._clients.append(threading.Thread(target=client, args=(agent, job_id)))
                self._clients[-1].start()

    def rest(self) -> None:
        """Cancel the jobs, and end the clients."""
        for agent in self._agents:
            for job in agent.jobs():
                agent.cancel(job.id)
        wait_until(lambda: not any(a.status().live_jobs for a in self._agents), _PATIENCE_S)
        self._over.set()
        for one in self._clients:
            one.join()

    def close(self) -> None:
        self._over.set()
        self._stack.close()
        for one in self._clients:
            one.join()

    def load(self, count: int, users: str, seconds: float) -> Load:
        """Measure for `seconds`. First wait for one squeue interval, so that new users settle."""
        time.sleep(10)
        self.place.run("sdiag", "--reset")
        counts, began_s = [], time.monotonic()
        before_s = cpu_s(self._processes())
        controller_before_s = cpu_s([self.place.controller()])
        while time.monotonic() < began_s + seconds:
            counts.append(len(self._processes()))
            time.sleep(_SAMPLE_EVERY_S)
        took_s = time.monotonic() - began_s
        processes = self._processes()
        spent_s = cpu_s(processes) - before_s
        controller_s = cpu_s([self.place.controller()]) - controller_before_s
        requests = self._requests()
        print(users, requests, Counter(map(name_of, processes)), file=sys.stderr, flush=True)
        pids = {one.pid for one in processes}
        connections, ports = connections_and_ports(self.place.run(*_SOCKETS), pids)
        return Load(
            count,
            users,
            mean(counts),
            max(counts),
            memory_mib(processes),
            100 * spent_s / took_s,
            connections,
            ports,
            60 * sum(requests.values()) / took_s,
            100 * controller_s / took_s,
        )

    def _user(self, number: int) -> tuple[AgentClient, str]:
        env, program = self.place.user(number)
        started = self._stack.enter_context(agent_of(env, program))
        agent = AgentClient(started.socket, None)
        agent.connect(wait_s=_PATIENCE_S)
        job = agent.submit(CellSpec(id=new_id(), name=f"user{number}", code=_CELL))
        wait_until(lambda: agent.job(job.id).state is JobState.RUNNING, _PATIENCE_S)
        return agent, job.id

    def _show_queue(self, agent: AgentClient, _: str) -> None:
        look = tuple(one.name for one in agent.clusters())
        cursor = ""
        with suppress(JupyterSlurmError):  # this ends the agent
            while not self._over.is_set():
                cursor = agent.changes(cursor, _WAIT_S, look=look).cursor

    def _follow(self, agent: AgentClient, job_id: str) -> None:
        cursor = ""
        with suppress(JupyterSlurmError):
            while not self._over.is_set():
                page = agent.logs(job_id, cursor, _WAIT_S)
                cursor = page.cursor
                if page.end:
                    break

    def _processes(self) -> list[psutil.Process]:
        return [one for one in self.place.processes(self._pids) if runs(one)]

    def _requests(self) -> dict[str, int]:
        told = self.place.run("sdiag").partition("by message type")[2].partition("\n\n")[0]
        counts = re.findall(r"^\s*(\w+)\s*\(\s*\d+\)\s*count:(\d+)", told, re.MULTILINE)
        return {kind: int(text) for kind, text in counts if not kind.startswith(_OF_DAEMONS)}


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU time of the processes and of their children that have ended."""
    total_s = 0.0
    for one in processes:
        with suppress(psutil.Error):
            times = one.cpu_times()
            total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


def memory_mib(processes: Iterable[psutil.Process]) -> float:
    """Return the proportional set size, which counts shared pages once."""
    total_bytes = 0
    for one in processes:
        with suppress(psutil.Error):
            total_bytes += one.memory_full_info().pss
    return total_bytes / 2**20


def connections_and_ports(listed: str, pids: Container[int]) -> tuple[int, int]:
    """Count the TCP connections and listening sockets of these processes in the output of `ss`."""
    states = [
        line.split()[0]
        for line in listed.splitlines()
        if any(int(pid) in pids for pid in re.findall(r"pid=(\d+)", line))
    ]
    return states.count("ESTAB"), states.count("LISTEN")


def document(over_ssh: list[Load], on_login_node: list[Load], seconds: float, slurm: str) -> str:
    """Return the text of docs/administrators-figures.md."""
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=True)
    versions = f"{slurm} and {ssh.stderr.split(',')[0]}"
    return f"""\
<!-- Written by `scripts/bench guest`. -->

Each user has one running job that prints a line every five seconds, and a page that shows the \
queue and the job's output. The figures are averages over {seconds:.0f} s.

**Users who connect over SSH**: their sshd sessions and all processes that \
these start, on the login node.

{table(over_ssh)}

**Users whose Jupyter runs on the login node**: their agents and all processes that these \
start, in addition to Jupyter itself.

{table(on_login_node)}

Memory is the proportional set size, so shared pages count once. CPU time includes that of \
`squeue`. Parentheses contain the largest number of processes at one time. Requests of Slurm's \
own daemons are not counted. Measured with {versions} on a machine with {os.cpu_count()} cores and \
one account for all users. Rows marked "computed" extrapolate the measured rows linearly.
"""


def table(measured: list[Load]) -> str:
    rows = [HEAD, ("---:",) * len(HEAD), *(one.cells() for one in measured)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


if __name__ == "__main__":
    sys.exit(main())
