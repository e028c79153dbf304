"""Kernels in requeued jobs, and kernels with silent connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from tests.kernel.conftest import Home, MakeHome, RemoteKernel
from tests.ssh.plugin import Delayed
from tests.ssh.profile import SshSlurm

SLEEPS = "print('on', flush=True)\nimport time; time.sleep(1000)"


def busy(kernel: RemoteKernel) -> str:
    """Start a cell. Return its request once the cell runs on the node."""
    request = kernel.start(SLEEPS)
    kernel.until(lambda m: m["msg_type"] == "stream" and "on" in m["content"]["text"])
    return request


def test_requeued_job_is_reported_at_once(home: Home) -> None:
    home.add("--requeue")
    kernel = home.start()
    request = busy(kernel)
    slurm_id = str(kernel.job().slurm_id)
    home.cluster.run("scontrol", "requeuehold", slurm_id)
    reply = kernel.reply(request)
    assert reply.content["ename"] == "KernelDied"
    assert "requeued the kernel's job, so its variables are lost" in reply.content["evalue"]
    waits = kernel.start("print('again')")
    kernel.until_shown(waits, "hold")
    home.cluster.run("scontrol", "release", slurm_id)
    # Not within the second of the job's end, because slurmd considers credentials of that second
    # revoked.
    home.cluster.run("scontrol", "update", f"JobId={slurm_id}", "StartTime=now+3")
    reply = kernel.reply(waits)
    assert (reply.content["status"], reply.text) == ("ok", "again\n"), reply.content
    assert len(home.jobs()) == 1


def test_silent_connection_is_shown_in_the_running_cell(
    delayed: Delayed,
    make_home: MakeHome,
    ssh_slurm: SshSlurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The network silently drops all packets."""
    line = delayed(ssh_slurm.sshd.port, 0.0)
    home = make_home(far=ssh_slurm, port=line.port)
    sshd, known = ssh_slurm.sshd, tmp_path / "known_hosts"
    known.write_text(sshd.known_hosts_lines().replace(f":{sshd.port} ", f":{line.port} "))
    config = tmp_path / "config"
    config.write_text(sshd.stanza("*", f"UserKnownHostsFile {known}", "ServerAliveInterval 1"))
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    home.add()
    kernel = home.start()
    kernel.value("print(1)")
    go = tmp_path / "go"
    request = kernel.start(
        "print('on', flush=True)\nimport pathlib, time\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(.05)\nprint('off')"
    )
    kernel.until(lambda m: m["msg_type"] == "stream" and "on" in m["content"]["text"])
    line.freeze()
    shown = kernel.until_shown(request, "The connection to the kernel's job is down")
    assert "The cell keeps running" in shown["content"]["data"]["text/plain"]
    go.touch()
    line.thaw()
    reply = kernel.reply(request)
    assert reply.text == "on\noff\n"
    assert "No output was lost" in kernel.shown(request)[-1]["text/plain"]
    assert len({m["content"]["transient"]["display_id"] for m in reply.displays()}) == 1
    assert len(home.jobs()) == 1
