"""A real Slurm for tests: `slurm_cluster`, one for each pytest process, and `private_cluster`.

Use `slurm_cluster` for tests that do not change the cluster. Several tests share it, so inspect
only your own jobs. Use `private_cluster(**spec)` to break one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.local_cluster.cluster import load
from jupyter_slurm.local_cluster.daemons import Daemons
from jupyter_slurm.local_cluster.processes import kill
from tests.cluster.started import started

ROOT = Path(__file__).parents[2]
KEEPER = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True)
class SlurmCluster:
    """A running private cluster. The environment `env` selects the cluster and its profile."""

    name: str
    folder: Path
    profile_path: Path
    env: dict[str, str]
    daemons: Daemons

    @property
    def conf(self) -> Path:
        return self.daemons.paths.conf

    def run(
        self, *argv: str, check: bool = True, cwd: Path | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with the cluster's environment. Fail the test on a non-zero status."""
        done = subprocess.run(
            argv,
            env=self.env,
            cwd=cwd or self.folder / "jobs",
            input=stdin,
            capture_output=True,
            text=True,
            errors="backslashreplace",  # names of other tests' jobs may not be UTF-8
            timeout=60,
            check=False,
        )
        if check and done.returncode:
            pytest.fail(f"{argv} -> {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def submit(self, *argv: str, stdin: str = "") -> str:
        """Run sbatch, and return the job ID."""
        return self.run("sbatch", "--parsable", *argv, stdin=stdin).stdout.strip()

    def job_state(self, job_id: str) -> str:
        """Return the state in squeue's long form, "" for a job unknown to slurmctld."""
        told = self.run("squeue", "-h", "-t", "all", "-o", "%T", "-j", job_id, check=False)
        return told.stdout.strip()

    def wait_for(self, job_id: str, *states: str, limit_s: float = 120) -> str:
        """Wait until the job is in one of `states`. Fail the test on a timeout."""
        deadline = time.monotonic() + limit_s
        while (state := self.job_state(job_id)) not in states:
            if time.monotonic() > deadline:
                pytest.fail(f"job {job_id} is {state or 'unknown'}, not {' or '.join(states)}")
            time.sleep(0.05)
        return state

    def end_time_of(self, job_id: str) -> None:
        """End the time limit of a running job now, not at the end of a minute. slurmctld notices at
        its next check (every 30 s). slurmctld reads `now` as a whole second and rejects a second
        that has passed, so a second attempt may follow."""
        words = ("scontrol", "update", f"JobId={job_id}", "EndTime=now")
        if self.run(*words, check=False).returncode:
            self.run(*words)

    def stop_controller(self) -> None:
        """Send SIGSTOP: the daemon accepts connections, but does not answer them."""
        self._signal("slurmctld", signal.SIGSTOP)

    def cont_controller(self) -> None:
        self._signal("slurmctld", signal.SIGCONT)

    def kill_controller(self) -> None:
        """Send SIGKILL: connections are refused, and unsaved state is lost."""
        self._kill("slurmctld")

    def start_controller(self) -> None:
        """Start the daemon, and return when it listens."""
        self.daemons.start_slurmctld()

    def _signal(self, name: str, number: signal.Signals) -> None:
        found = self.daemons.find(name)
        assert found is not None, f"{name} does not run"
        found.send(number)

    def _kill(self, name: str) -> None:
        found = self.daemons.find(name)
        assert found is not None, f"{name} does not run"
        kill([found])


def jupyter_homes(home: Path) -> dict[str, str]:
    """Return the variables that move all of Jupyter's folders below `home`."""
    return {
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
    }


@contextmanager
def kept(home: Path, spec: dict[str, Any] | None) -> Iterator[dict[str, str]]:
    """Purge every private cluster below `home` at the end, even if pytest is killed.

    If `spec` is given, start a cluster. Yield the keeper's answer.
    """
    keeper = subprocess.Popen(
        [sys.executable, str(KEEPER)],
        env=_environment(home) | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        print(json.dumps(spec), file=keeper.stdin, flush=True)
        yield json.loads(keeper.stdout.readline() or '{"error": "the keeper died"}')
    assert keeper.returncode == 0, "a private cluster was not purged"


@contextmanager
def running_cluster(home: Path, **spec: Any) -> Iterator[SlurmCluster]:
    """Run a cluster with all files below `home`. It ends with the context, even if pytest is
    killed."""
    with kept(home, spec) as answer:
        assert "error" not in answer, answer["error"]
        yield _cluster(spec.get("name", "local"), Path(answer["folder"]), _environment(home))


def _environment(home: Path) -> dict[str, str]:
    ours = {key: text for key, text in os.environ.items() if not key.startswith("SLURM")}
    return ours | jupyter_homes(home)


def _cluster(name: str, folder: Path, env: dict[str, str]) -> SlurmCluster:
    daemons = load(folder)
    assert daemons is not None
    path = os.pathsep.join([str(folder / "bin"), env.get("PATH", os.defpath)])
    return SlurmCluster(
        name=name,
        folder=folder,
        profile_path=Path(env["JUPYTER_CONFIG_DIR"], "jupyter-slurm", "clusters.d", f"{name}.toml"),
        env=env | {"SLURM_CONF": str(daemons.paths.conf), "PATH": path},
        daemons=daemons,
    )


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """The shared cluster: two nodes, n1 and n2, each with 8 CPUs, 4 GPUs and 16 GiB."""
    home = tmp_path_factory.mktemp("cluster")
    spec = {"nodes": 2, "gpus": 4, "cpus": 8, "memory_mib": 16384}
    with ExitStack() as stack:
        begin = partial(running_cluster, home, **spec)
        yield started("The cluster that tests share", lambda: stack.enter_context(begin()))


@pytest.fixture
def private_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., SlurmCluster]]:
    """Return a factory of clusters for this test: `private_cluster(nodes=1, extra_conf=(...,))`."""
    with ExitStack() as stack:

        def make(**spec: Any) -> SlurmCluster:
            home = tmp_path_factory.mktemp("cluster")
            begin = partial(running_cluster, home, **spec)
            return started("A private cluster", lambda: stack.enter_context(begin()))

        yield make
