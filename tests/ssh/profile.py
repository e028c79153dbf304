"""Profile files of clusters over SSH, and the tests' private cluster over SSH."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from tests.cluster.plugin import SlurmCluster
from tests.ssh.sshd import Sshd


@dataclass(frozen=True)
class SshSlurm:
    """The private cluster `cluster` on this machine, reached through `sshd`."""

    cluster: SlurmCluster
    sshd: Sshd

    @property
    def env(self) -> dict[str, str]:
        """Return the environment for connecting: a key and known hosts."""
        return {CONFIG_VARIABLE: str(self.sshd.config)}

    def write_profile(self, config: Path, **changes: Any) -> Path:
        """Write a copy of the cluster's profile below Jupyter's configuration folder `config`. The
        copy uses SSH. In `changes`, None removes a setting."""
        settings = tomllib.loads(self.cluster.profile_path.read_text(encoding="utf-8"))
        way = {"host": self.sshd.host, "port": self.sshd.port, "user": self.sshd.user}
        return write_profile(config, self.cluster.name, settings | {"origin": None} | way | changes)


def without_profiles(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the user's home to the empty folder `home`; return the folder for profiles."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(home / "config"))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(home / "none"))
    for name in ("JUPYTER_SLURM_CLUSTER", "JUPYTER_SLURM_SSH_CONFIG", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
    return home / "config" / "jupyter-slurm" / "clusters.d"


def write_profile(config: Path, name: str, settings: dict[str, Any]) -> Path:
    """Write a cluster's profile below Jupyter's configuration folder `config`. Settings that are
    None are not written."""
    path = config / "jupyter-slurm" / "clusters.d" / f"{name}.toml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = {key: value for key, value in settings.items() if value is not None}
    tables = {key: value for key, value in told.items() if isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in told.items() if key not in tables]
    for table, content in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(text)}" for key, text in content.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
