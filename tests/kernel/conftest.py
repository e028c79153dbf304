"""Kernels in jobs as clients use them: kernelspecs, Jupyter's own clients, a real Slurm."""

from __future__ import annotations

import os
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.cli import main
from jupyter_slurm.client import AgentClient
from jupyter_slurm.wire import Job, JobKind, JobState
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.magics.kernel import Kernel
from tests.ssh.profile import SshSlurm, write_profile

PATIENCE_S = 180.0
QUICK = {"poll_s": 0.3, "lost_after_s": 2.0, "exit_grace_s": 20.0, "lookup_gap_s": 1.0}
"""Short times in a profile, for tests of events that normally take minutes."""


class RemoteKernel(Kernel):
    """A remote kernel started by a Jupyter client."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient, home: Home) -> None:
        super().__init__(manager, client)
        self.home = home

    @property
    def proxy(self) -> int:
        """The PID of the process started by Jupyter."""
        pid: int | None = self.manager.provisioner.pid  # type: ignore[union-attr]
        assert pid is not None
        return pid

    def job(self) -> Job:
        """Return the newest job of this home."""
        (job, *_) = self.home.jobs()
        return job

    def until_job(self, *states: JobState) -> Job:
        """Return the job once it is in one of these states (default: once it has ended)."""
        return self.home.until_job(self.job().id, *states)

    def value(self, code: str) -> str:
        """Run a cell; return its output."""
        reply = self.run(code)
        assert reply.content["status"] == "ok", reply.content
        return reply.text

    def shown(self, request: str) -> list[dict[str, Any]]:
        """Return the data of a cell's displays and their updates so far."""
        self.take()
        return [
            m["content"]["data"]
            for m in self.messages
            if "display_data" in m["msg_type"] and m["parent_header"].get("msg_id") == request
        ]

    def take(self) -> None:
        while self.client.iopub_channel.msg_ready():
            self.messages.append(self.client.get_iopub_msg(timeout=PATIENCE_S))

    def until_shown(self, request: str, text: str) -> dict[str, Any]:
        """Return the cell's display once it contains `text`."""
        return self.until(
            lambda m: (
                m["parent_header"].get("msg_id") == request
                and text in str(m["content"].get("data", {}).get("text/plain"))
            )
        )

    def stop(self) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


class Home:
    """A user's Jupyter, with its own agent and a cluster."""

    def __init__(self, folder: Path, cluster: SlurmCluster, socket: Path) -> None:
        self.folder = folder
        self.cluster = cluster
        self.api = AgentClient(socket, COMMAND)
        self.kernels: list[RemoteKernel] = []

    def add(self, *words: str, name: str = "far") -> str:
        assert main(["kernel", "add", "--name", name, *words], lambda: self.api) == 0
        return name

    def start(self, name: str = "far", *, file: str | None = None, **env: str) -> RemoteKernel:
        """Start a kernel. `file` is the connection file of an earlier kernel to reconnect to."""
        manager = KernelManager(kernel_name=name)
        if file is not None:
            manager.connection_file = file
        manager.start_kernel(env={**os.environ, **env}, cwd=str(self.folder))
        return self.attach(manager)

    def attach(self, manager: KernelManager) -> RemoteKernel:
        """Connect a client to a running kernel."""
        client = manager.blocking_client()
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE_S)
        kernel = RemoteKernel(manager, client, self)
        self.kernels.append(kernel)
        return kernel

    def jobs(self) -> list[Job]:
        return [job for job in self.api.jobs() if job.kind is JobKind.KERNEL]

    def until_job(self, job_id: str, *states: JobState) -> Job:
        cursor, give_up_s = "", time.monotonic() + PATIENCE_S
        while True:
            job = self.api.job(job_id)
            if job.state in states or (not states and job.state.final):
                return job
            assert time.monotonic() < give_up_s, f"{job.state}, {job.why}"
            cursor = self.api.changes(cursor, 5.0).cursor

    def kill_proxy(self, kernel: RemoteKernel) -> None:
        """Kill the proxy, as Linux would on a machine without free memory."""
        process = psutil.Process(kernel.proxy)
        process.send_signal(signal.SIGKILL)
        kernel.manager.provisioner.process.wait()  # type: ignore[union-attr]

    def close(self) -> None:
        for kernel in self.kernels:
            with suppress(psutil.NoSuchProcess):
                kernel.stop()
        for job in self.jobs():
            if not job.state.final:
                self.api.cancel(job.id)
                self.until_job(job.id)
        self.api.close()


MakeHome = Callable[..., Home]


@pytest.fixture
def make_home(
    agent_home: AgentHome,
    slurm_cluster: SlurmCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeHome]:
    """Yield a factory of homes. Its keywords are settings of the cluster's profile."""
    homes: list[Home] = []

    def make(
        cluster: SlurmCluster = slurm_cluster, far: SshSlurm | None = None, **settings: Any
    ) -> Home:
        own = {
            **QUICK,
            "python": sys.executable,
            "job_root": str(agent_home.folder / "it's a root"),
            **settings,
        }
        if far is not None:
            far.write_profile(agent_home.folder / "config", **own)
            for name, value in far.env.items():
                monkeypatch.setenv(name, value)
        else:
            told = tomllib.loads(cluster.profile_path.read_text(encoding="utf-8"))
            write_profile(agent_home.folder / "config", cluster.name, {**told, **own})
        monkeypatch.setenv("IPYTHONDIR", str(agent_home.folder / "ipython"))
        monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
        homes.append(Home(agent_home.folder, cluster, agent_home.socket))
        return homes[-1]

    yield make
    for home in homes:
        home.close()


@pytest.fixture
def home(make_home: MakeHome) -> Home:
    return make_home()
