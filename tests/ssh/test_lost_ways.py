"""Connections to the cluster that drop at any moment. Output and calls are neither lost nor
repeated, and the user gets only necessary questions."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.wire import ConnectionState, JobState
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.site import Site
from tests.ssh.waiting import wait_until

_COUNTS = """#!/bin/bash
i=0
while [ ! -e ~/{gate} ]; do
  i=$((i+1)); echo "line $i"
  sleep 0.05
done
echo "the end, after $i lines"
"""


@pytest.fixture
def counting(laptop: Laptop) -> str:
    """Log in and start a job that prints numbered lines until `open_gate`. Return its ID."""
    laptop.log_in()
    script = laptop.home.folder / "counts.sh"
    script.write_text(_COUNTS.format(gate=f"gate-{laptop.home.folder.name}"))
    laptop.slurm("submit", str(script), "--name", "counts", "--detach")
    job_id = laptop.job().id
    wait_until(lambda: laptop.job().state is JobState.RUNNING, PATIENCE_S)
    return job_id


def open_gate(laptop: Laptop) -> None:
    laptop.site.run("touch", f"gate-{laptop.home.folder.name}")


def agent_of(laptop: Laptop) -> int:
    pid = laptop.agent_pid()
    assert pid is not None
    return pid


def follow(laptop: Laptop, job_id: str) -> subprocess.Popen[str]:
    """Start a reader of the job's output, and wait for its first line."""
    reader = laptop.start(*laptop.command("logs", "--follow", job_id))
    assert reader.stdout is not None
    assert select.select([reader.stdout], [], [], PATIENCE_S)[0]
    return reader


def assert_whole(text: str) -> None:
    """Check that every line appears once, in order."""
    *numbered, last = text.strip().splitlines()
    lines = [line for line in numbered if line.startswith("line ")]
    assert lines == [f"line {i}" for i in range(1, len(lines) + 1)]
    assert last == f"the end, after {len(lines)} lines"


def assert_followed_to_its_end(reader: subprocess.Popen[str], laptop: Laptop) -> None:
    out, err = reader.communicate(timeout=PATIENCE_S)
    assert (reader.returncode, err) == (0, "")
    assert_whole(out)
    assert laptop.job().state is JobState.COMPLETED


def test_interrupted_network_does_not_lose_output_or_need_a_login(
    laptop: Laptop, counting: str
) -> None:
    site = laptop.site
    before = site.logins()
    reader = follow(laptop, counting)
    site.cut()
    try:
        wait_until(lambda: laptop.connection().state is ConnectionState.LOST, PATIENCE_S)
        assert laptop.job().state is JobState.RUNNING
    finally:
        site.heal()
    wait_until(lambda: laptop.connection().state is ConnectionState.OPEN, PATIENCE_S)
    open_gate(laptop)
    assert_followed_to_its_end(reader, laptop)
    assert site.logins() == before


def test_restarted_gateway_needs_one_login(laptop: Laptop, counting: str) -> None:
    site = laptop.site
    before = site.logins()
    site.restart_gateway()
    wait_until(lambda: laptop.connection().state is ConnectionState.LOGIN_NEEDED, PATIENCE_S)
    job = laptop.job()
    assert job.state is JobState.RUNNING
    open_gate(laptop)
    laptop.log_in()
    wait_until(lambda: laptop.job().state is JobState.COMPLETED, PATIENCE_S)
    assert_whole(laptop.slurm("logs", counting))
    assert laptop.job().slurm_id == job.slurm_id
    wait_until(lambda: site.logins() == before + 1)


def test_next_agent_resumes_everything_without_a_login(laptop: Laptop, counting: str) -> None:
    site = laptop.site
    before = site.logins()
    tunnel = json.loads(laptop.slurm("tunnel", "22", "--json"))
    left_behind = {one.pid for one in site.processes()}
    assert left_behind
    pid = agent_of(laptop)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    [found] = json.loads(laptop.slurm("jobs", "--json"))  # this call starts another agent
    assert found["id"] == counting
    open_gate(laptop)
    wait_until(lambda: laptop.job().state is JobState.COMPLETED, PATIENCE_S)
    assert_whole(laptop.slurm("logs", counting))
    [again] = json.loads(laptop.slurm("tunnel", "--json"))
    assert again["local_port"] == tunnel["local_port"]
    assert site.logins() == before
    wait_until(lambda: not left_behind & {one.pid for one in site.processes()})


def test_job_is_submitted_once_if_the_connection_drops_during_sbatch(
    laptop: Laptop,
) -> None:
    site = laptop.site
    laptop.log_in()
    script = laptop.home.folder / "once.sh"
    script.write_text("#!/bin/bash\necho once >>~/once\n")
    site.stop_controller()
    try:
        submission = laptop.start(*laptop.command("submit", str(script), "--name", "once"))
        wait_until(lambda: "sbatch" in site.programs(), PATIENCE_S)
        site.restart_gateway()
        wait_until(lambda: laptop.connection().state is ConnectionState.LOGIN_NEEDED, PATIENCE_S)
    finally:
        site.cont_controller()
    submission.send_signal(signal.SIGINT)
    submission.communicate(timeout=PATIENCE_S)
    laptop.log_in()
    wait_until(lambda: laptop.job().state is JobState.COMPLETED, PATIENCE_S)
    assert site.run("cat", "once").stdout == "once\n"
    assert len(_named(site, "once")) == 1


def _named(site: Site, name: str) -> list[str]:
    told = site.run("squeue", "-h", "-t", "all", "-o", "%j").stdout.split()
    return [one for one in told if one.startswith(f"{name}.")]
