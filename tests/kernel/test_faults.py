"""What becomes of a kernel whose job, node or disk fails: what the cell says, and what is left."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from jupyter_slurm.wire import JobState
from tests.cluster.plugin import SlurmCluster
from tests.kernel.conftest import PATIENCE_S, Home, MakeHome, RemoteKernel, Reply
from tests.kernel.test_remote import nothing_left
from tests.ssh.plugin import Delayed
from tests.ssh.profile import SshSlurm
from tests.ssh.waiting import wait_until

SLEEPS = "print('on', flush=True)\nimport time; time.sleep(1000)"
SOON = "SlurmdTimeout=5"
"""A node that does not answer is down after that, not after minutes."""


def busy(kernel: RemoteKernel) -> str:
    """A cell that runs on the node."""
    request = kernel.start(SLEEPS)
    kernel.until(lambda m: m["msg_type"] == "stream" and "on" in m["content"]["text"])
    return request


def ended(home: Home, kernel: RemoteKernel, reply: Reply, state: JobState) -> str:
    """What the cell said of the end of its job, of which nothing is left, and no other begun."""
    assert reply.content["ename"] == "JobEnded"
    assert "Restart the kernel" in "".join(reply.content["traceback"])
    job = kernel.until_job(state)
    assert kernel.run("1").content["evalue"] == reply.content["evalue"]
    assert len(home.jobs()) == 1
    ended_too = ("CANCELLED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "")
    wait_until(lambda: home.cluster.job_state(str(job.slurm_id)) in ended_too)
    nothing_left(home, job.id)
    return str(reply.content["evalue"])


def test_a_node_that_is_set_down_is_told(
    make_home: MakeHome, private_cluster: Callable[..., SlurmCluster]
) -> None:
    home = make_home(private_cluster())
    home.add()
    kernel = home.start()
    request = busy(kernel)
    words = ("scontrol", "update", "nodename=n1", "state=down", "reason=test")
    home.cluster.run(*words)
    why = ended(home, kernel, kernel.reply(request), JobState.NODE_FAIL)
    assert "ended (node failed): A node of it failed." in why


def test_a_node_that_dies_is_told(
    make_home: MakeHome, private_cluster: Callable[..., SlurmCluster]
) -> None:
    home = make_home(private_cluster(extra_conf=(SOON,)))
    home.add()
    kernel = home.start()
    request = busy(kernel)
    home.cluster.kill_slurmd()
    home.cluster.kill_jobs()
    why = ended(home, kernel, kernel.reply(request), JobState.NODE_FAIL)
    assert "ended (node failed): A node of it failed." in why


def test_a_job_that_has_no_memory_left_is_told(home: Home) -> None:
    home.add("--mem", "300M")
    kernel = home.start()
    request = kernel.start("hog = b'x' * (900 << 20)\nimport time; time.sleep(1000)")
    reply = kernel.reply(request)
    why = ended(home, kernel, reply, JobState.OUT_OF_MEMORY)
    assert "--mem" in "".join(reply.content["traceback"])
    assert "memory" in why


def test_a_job_that_is_put_back_into_the_queue_is_told_at_once(home: Home) -> None:
    home.add("--requeue")
    kernel = home.start()
    request = busy(kernel)
    slurm_id = str(kernel.job().slurm_id)
    home.cluster.run("scontrol", "requeuehold", slurm_id)
    reply = kernel.reply(request)
    assert reply.content["ename"] == "KernelDied"
    assert "back into the queue, so its variables are gone" in reply.content["evalue"]
    waits = kernel.start("print('again')")
    kernel.until_shown(waits, "held")
    home.cluster.run("scontrol", "release", slurm_id)
    # Not in the second of its end, whose credentials slurmd takes for revoked.
    home.cluster.run("scontrol", "update", f"JobId={slurm_id}", "StartTime=now+3")
    reply = kernel.reply(waits)
    assert (reply.content["status"], reply.text) == ("ok", "again\n"), reply.content
    assert len(home.jobs()) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return


@pytest.mark.skipif(os.getuid() != 0, reason="file systems are mounted by root only")
def test_a_home_that_is_full_when_the_kernel_starts_is_told(
    make_home: MakeHome, small_disk: Path
) -> None:
    home = make_home(job_root=str(small_disk / "jobs"))
    home.add()
    fill(small_disk)
    kernel = home.start()
    reply = kernel.run("1")
    assert reply.content["ename"] == "JobEnded"
    assert "cannot be written" in reply.content["evalue"]
    assert kernel.manager.is_alive()


@pytest.mark.skipif(os.getuid() != 0, reason="file systems are mounted by root only")
def test_a_kernel_whose_home_fills_up_goes_on_and_ends_well(
    make_home: MakeHome, small_disk: Path
) -> None:
    home = make_home(job_root=str(small_disk / "jobs"))
    home.add("--env", f"HOME={small_disk}")
    kernel = home.start()
    assert kernel.value("import os; x = 1; print(os.environ['HOME'])") == f"{small_disk}\n"
    fill(small_disk)
    # As results: IPython, whose history has no room either, prints so at any moment, even between
    # what `print` writes and its end of line.
    assert kernel.result("x += 1; x") == "2"
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(timeout=PATIENCE_S)
    assert kernel.result("3") == "3"
    job = kernel.job()
    kernel.manager.shutdown_kernel()
    job = home.until_job(job.id)
    assert (job.state, job.why) == (JobState.COMPLETED, "Shut down.")
    nothing_left(home, job.id)


def test_a_line_that_falls_silent_is_told_in_the_cell_that_runs_and_goes_on(
    delayed: Delayed,
    make_home: MakeHome,
    ssh_slurm: SshSlurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the network is cut: nobody is told, nothing passes."""
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
    shown = kernel.until_shown(request, "Nothing comes from the kernel's job now")
    assert "the cell runs on there" in shown["content"]["data"]["text/plain"]
    go.touch()
    line.thaw()
    reply = kernel.reply(request)
    assert reply.text == "on\noff\n"
    assert "nothing is lost" in kernel.shown(request)[-1]["text/plain"]
    assert len({m["content"]["transient"]["display_id"] for m in reply.displays()}) == 1
    assert len(home.jobs()) == 1
