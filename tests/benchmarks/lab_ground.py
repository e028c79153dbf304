"""The setup for measuring labs: a private cluster behind an sshd, the agent, and an ssh master."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from jupyter_slurm.api import Api
from jupyter_slurm.client import connect
from jupyter_slurm.wire import ConnectionState
from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.ssh.accounts import make_folder, oneself
from tests.ssh.kept import Keeper, keeping
from tests.ssh.profile import SshSlurm
from tests.ssh.slow_line import lay
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

CIPHER = "aes128-gcm@openssh.com"
"""OpenSSH's fastest cipher, used for both candidates."""
_PEER = "jupyter-forward==2025.1.16"
"""The compared tool. It has its own venv, so it is not a dependency of this project."""


@dataclass(frozen=True)
class Ground:
    delay_s: float
    keeper: Keeper
    cluster: SlurmCluster
    sshd: Sshd
    api: Api
    folder: Path
    control: Path
    peer: Path

    def ssh(self, *argv: str) -> list[str]:
        """Return an `ssh` command line that uses the open connection."""
        return ["ssh", "-F", str(self.sshd.config), "-S", str(self.control), *argv]

    def end_jobs(self) -> None:
        """Cancel all jobs and wait for their end, so that the next job has the whole machine."""
        for job in self.api.jobs():
            if not job.state.final:
                self.api.cancel(job.id)
        self.cluster.run("scancel", "--user", oneself().name)
        wait_until(lambda: not self.cluster.run("squeue", "-h").stdout)
        wait_until(lambda: all(job.state.final for job in self.api.jobs()))


@contextmanager
def ground(folder: Path, delay_s: float = 0.0) -> Iterator[Ground]:
    """Run the setup. Everything ends with the context, even if this process is killed. All
    candidates reach the sshd with a round trip of `delay_s`."""
    peer = _peer()
    # jupyter-forward uses a login shell, where /etc/profile would reset PATH.
    with keeping() as keeper, running_cluster(folder / "home", nodes=1, cpus=8) as cluster:
        place = make_folder(keeper, "bench-lab-")
        env = {
            # This keeps bash from reading .bashrc; see PLAIN_SHELL.
            "SHLVL": "2",
            "PATH": os.pathsep.join(
                [str(Path(sys.executable).parent), str(cluster.folder / "bin"), os.defpath]
            ),
            "SLURM_CONF": str(cluster.conf),
            "JUPYTER_CONFIG_DIR": str(_jupyter_config(place)),
            "TMPDIR": str(place),
        }
        words = " ".join(f'"{name}={text}"' for name, text in env.items())
        sshd = Sshd(keeper, place / "sshd", oneself(), [f"SetEnv {words}", f"Ciphers {CIPHER}"])
        sshd.start()
        os.environ.update(cluster.env)
        far = SshSlurm(cluster, sshd)
        os.environ.update(far.env)
        settings: dict[str, Any] = {"python": sys.executable}
        if delay_s:
            settings["port"] = _move_away(keeper, place, sshd, delay_s)
        far.write_profile(Path(os.environ["JUPYTER_CONFIG_DIR"]), **settings)
        api = connect()
        try:
            assert api.connect(wait_s=30.0).state is ConnectionState.OPEN
            control = place / "control"
            argv = ["ssh", "-F", str(sshd.config), "-M", "-N", "-S", str(control), sshd.alias]
            keeper.start(argv, place / "master.log", dict(os.environ))
            wait_until(control.exists)
            yield Ground(delay_s, keeper, cluster, sshd, api, place, control, peer)
        finally:
            agent = psutil.Process(api.status().pid)
            agent.terminate()
            agent.wait(30)


def _move_away(keeper: Keeper, folder: Path, sshd: Sshd, delay_s: float) -> int:
    """Start a slow line to the sshd, switch the client's configuration to it, and return its
    port."""
    port = lay(keeper, folder, sshd.port, delay_s / 2).port
    sshd.known_hosts.write_text(sshd.known_hosts_lines().replace(f"]:{sshd.port} ", f"]:{port} "))
    sshd.config.write_text(sshd.stanza("*", f"Port {port}"))
    return port


def _jupyter_config(folder: Path) -> Path:
    config = folder / "jupyter"
    config.mkdir()
    (config / "jupyter_server_config.py").write_text("c.ServerApp.allow_root = True\n")
    return config


def _peer() -> Path:
    """Return the path of jupyter-forward. Install it if it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "jupyter-slurm")
    venv = cache / "peers" / _PEER.replace("==", "-")
    program = venv / "bin" / "jupyter-forward"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "pip"), "-q", "install", _PEER], check=True)
    return program
