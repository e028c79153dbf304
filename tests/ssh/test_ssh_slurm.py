"""The private cluster reached over SSH."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.profiles.reading import load_profiles
from tests.ssh.profile import SshSlurm


def test_its_profile_leads_over_ssh_to_the_same_slurm(
    ssh_slurm: SshSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    ssh_slurm.write_profile(tmp_path, poll_s=0.5)
    profile = load_profiles().get(ssh_slurm.cluster.name)
    assert (profile.host, profile.port) == ("127.0.0.1", ssh_slurm.sshd.port)
    assert profile.poll_s == 0.5
    words = [f"{name}={text}" for name, text in profile.env.items()]
    sinfo = [f"{profile.path[0]}/sinfo", "-h"]
    done = subprocess.run(
        ["ssh", "-F", ssh_slurm.sshd.config, ssh_slurm.sshd.host, *words, *sinfo],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout
