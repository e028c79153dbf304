"""The daemons of one cluster. This module starts, finds and stops each of them.

`conf` returns their configuration, and `cluster` defines their order.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from jupyter_slurm.errors import LocalClusterError
from jupyter_slurm.local_cluster import processes
from jupyter_slurm.local_cluster.conf import Ports
from jupyter_slurm.local_cluster.paths import Paths
from jupyter_slurm.local_cluster.processes import Process
from jupyter_slurm.local_cluster.software import Software
from jupyter_slurm.local_cluster.spec import DaemonStatus, LocalSpec
from jupyter_slurm.places import write_private

_START_S = 120.0
"""Seconds to wait on a busy machine until a started daemon is ready. A daemon that exits is
reported at once."""
_STOP_S = 10.0
_TICK_S = 0.02
_KILL_ROUNDS = 4


@dataclass(frozen=True)
class Daemons:
    """The daemons of the cluster whose files are at `paths`."""

    spec: LocalSpec
    paths: Paths
    ports: Ports
    software: Software

    def start_munged(self) -> None:
        """Start the authentication daemon; `--force` lets any user run it, including root
        (munged(8))."""
        paths = self.paths
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={paths.munge_key}",
            f"--socket={paths.munge_socket}",
            f"--pid-file={paths.base}/run/munged.pid",
            f"--log-file={paths.log('munged')}",
            f"--seed-file={paths.base}/run/munged.seed",
        )
        self.wait("munged", lambda: _listens_unix(paths.munge_socket))

    def start_slurmctld(self) -> None:
        """Start the controller with the state that it saved when it stopped."""
        self._start("slurmctld", "-D", "-f", str(self.paths.conf))
        self.wait("slurmctld", lambda: listens(self.ports.slurmctld))

    def start_slurmd(self, node: str) -> None:
        """Start the daemon of one node."""
        conf, name = self.paths.conf, slurmd(node)
        stepd = self.software.stepd
        where = ["-d", str(stepd)] if stepd else []
        self._start("slurmd", "-D", "-N", node, "-f", str(conf), *where, name=name)
        port = self.ports.slurmd[self.spec.node_names().index(node)]
        self.wait(name, lambda: listens(port))

    def find(self, name: str) -> Process | None:
        """Return the running daemon with this name ("slurmctld", "slurmd-n1", ...), or None."""
        try:
            found = msgspec.json.decode(self.paths.daemon(name).read_bytes(), type=Process)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return found if found.alive() else None

    def stop(self, name: str) -> None:
        """Ask the daemon to end, wait, and kill it if necessary. Continue it first if it is
        suspended."""
        found = self.find(name)
        if found is not None:
            found.send(signal.SIGTERM)
            found.send(signal.SIGCONT)
            if not processes.wait_gone([found], _STOP_S):
                processes.kill([found])
        self.paths.daemon(name).unlink(missing_ok=True)

    def wake(self, name: str) -> None:
        """Continue the daemon if it was suspended (SIGSTOP)."""
        found = self.find(name)
        if found is not None:
            found.send(signal.SIGCONT)

    def kill_jobs(self) -> None:
        """Kill every slurmstepd of this cluster and the processes left by jobs. Raise
        LocalClusterError if any do not end, e.g. because of a dead file system.
        """
        for _ in range(_KILL_ROUNDS):  # jobs may start more processes before they are killed
            found = self._job_processes()
            if not found:
                return
            processes.kill(found)
        pids = ", ".join(str(one.pid) for one in found)
        raise LocalClusterError(f"Cannot kill processes of jobs: {pids}.")

    def _job_processes(self) -> list[Process]:
        steps = processes.with_open_file("slurmstepd", self.paths.folder)
        marks = {"SLURM_CONF": str(self.paths.conf), "SLURM_JOB_ID": ""}
        found = [*steps, *processes.descendants(steps), *processes.with_environment(marks)]
        return [one for one in found if one.pid != os.getpid()]  # a job may call `down`

    def status(self) -> tuple[DaemonStatus, ...]:
        """Return an entry for each daemon of this cluster."""
        spec, ports = self.spec, self.ports
        pids = {name: found.pid for name in self.names() if (found := self.find(name))}
        told = [DaemonStatus("munged", None, pids.get("munged"), None)]
        told.append(DaemonStatus("slurmctld", None, pids.get("slurmctld"), ports.slurmctld))
        for node, port in zip(spec.node_names(), ports.slurmd, strict=True):
            told.append(DaemonStatus("slurmd", node, pids.get(slurmd(node)), port))
        return tuple(told)

    def names(self) -> tuple[str, ...]:
        """Return every daemon's name in start order."""
        nodes = tuple(slurmd(node) for node in self.spec.node_names())
        return ("munged", "slurmctld", *nodes)

    def run(
        self, command: str, *args: str, limit_s: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's commands. Raise subprocess.TimeoutExpired after `limit_s`."""
        return subprocess.run(
            [self.software.programs[command], *args],
            env=self.software.environment(self.paths.conf),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def wait(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until a daemon is `ready`. Raise LocalClusterError, with its last output, if it
        failed."""
        deadline = time.monotonic() + _START_S
        while not ready():
            if self.find(name) is None:
                raise LocalClusterError(f"{name} did not start.", detail=self._last_words(name))
            if time.monotonic() > deadline:
                raise LocalClusterError(
                    f"{name} is not ready after {_START_S:.0f} s.",
                    detail=self._last_words(name),
                )
            time.sleep(_TICK_S)

    def _start(self, program: str, *args: str, name: str = "") -> None:
        name = name or program
        if self.find(name) is not None:
            return
        argv = [str(self.software.programs[program]), *args]
        env = self.software.environment(self.paths.conf)
        found = processes.detach(argv, env, self._words(name))
        write_private(self.paths.daemon(name), msgspec.json.encode(found).decode())

    def _words(self, name: str) -> Path:
        return self.paths.log(f"{name}.out")

    def _last_words(self, name: str) -> str:
        paths = [path for path in (self._words(name), self.paths.log(name)) if path.exists()]
        lines = [line for path in paths for line in path.read_text(errors="replace").splitlines()]
        return "\n".join(lines[-12:])


def slurmd(node: str) -> str:
    """Return the name of a node's slurmd."""
    return f"slurmd-{node}"


def listens(port: int) -> bool:
    """Return whether a process listens (state 0A, proc(5)) on 127.0.0.1:`port`."""
    # Do not connect: Slurm's daemons log an error about a silent client.
    addresses = (f"0100007F:{port:04X}", f"00000000:{port:04X}")  # 127.0.0.1 or any address
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
    return any(fields[1] in addresses and fields[3] == "0A" for fields in map(str.split, lines))


def _listens_unix(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
