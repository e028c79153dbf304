"""The way to the cluster breaks off, at every moment: nothing is lost, nothing happens twice, and
nobody is asked for what is not needed."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import psutil
import pytest

from jupyter_slurm.wire import ConnectionState, JobState
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.site import Site
from tests.ssh.waiting import wait_until

_COUNTS = """#!/bin/bash
i=0
while [ ! -e ~/{gate} ]; do
  [ -e ~/{gate}.hush ] || {{ i=$((i+1)); echo "line $i"; }}
  sleep 0.05
done
echo "the end, after $i lines"
"""


@pytest.fixture
def counting(laptop: Laptop) -> str:
    """A job that prints numbered lines until `open_gate`, and none while it is `hushed`; its id.
    Somebody has logged in for it."""
    laptop.log_in()
    script = laptop.home.folder / "counts.sh"
    script.write_text(_COUNTS.format(gate=f"gate-{laptop.home.folder.name}"))
    laptop.slurm("submit", str(script), "--name", "counts", "--detach")
    job_id = laptop.job().id
    wait_until(lambda: laptop.job().state is JobState.RUNNING, PATIENCE_S)
    return job_id


def open_gate(laptop: Laptop) -> None:
    laptop.site.run("touch", f"gate-{laptop.home.folder.name}")


@contextmanager
def hushed(laptop: Laptop) -> Iterator[None]:
    path = f"gate-{laptop.home.folder.name}.hush"
    laptop.site.run("touch", path)
    yield
    laptop.site.run("rm", path)


def agent_of(laptop: Laptop) -> int:
    pid = laptop.agent_pid()
    assert pid is not None
    return pid


@contextmanager
def asleep(pid: int) -> Iterator[None]:
    """The agent, and the `ssh` that it has started."""
    agent = psutil.Process(pid)
    sleeping = [agent, *agent.children(recursive=True)]
    for one in sleeping:
        one.suspend()
    try:
        yield
    finally:
        for one in sleeping:
            one.resume()


def leads_a_session(process: psutil.Process) -> bool:
    """Of setsid(2): a shell of ours does; what it runs comes and goes, perhaps this moment."""
    with suppress(ProcessLookupError):
        return os.getsid(process.pid) == process.pid
    return False


def shells_of(site: Site, session: int) -> list[psutil.Process]:
    """Return those on the login node, without the session's own process."""
    return [one for one in site.login.processes() if leads_a_session(one) and one.pid != session]


def knocks(site: Site) -> int:
    """How often somebody has connected to the gateway, logged in or not."""
    return site.gateway.log().count("Connection from ")


def follow(laptop: Laptop, job_id: str) -> subprocess.Popen[str]:
    """Start a reader and wait for its first line. A reader that connects while the agent is
    stopped gives up after ten seconds and reports a stuck agent."""
    reader = laptop.start(*laptop.command("logs", "--follow", job_id))
    assert reader.stdout is not None
    assert select.select([reader.stdout], [], [], PATIENCE_S)[0]
    return reader


def assert_whole(text: str) -> None:
    """Every line once, in order."""
    *numbered, last = text.strip().splitlines()
    lines = [line for line in numbered if line.startswith("line ")]
    assert lines == [f"line {i}" for i in range(1, len(lines) + 1)]
    assert last == f"the end, after {len(lines)} lines"


def assert_followed_to_its_end(reader: subprocess.Popen[str], laptop: Laptop) -> None:
    out, err = reader.communicate(timeout=PATIENCE_S)
    assert (reader.returncode, err) == (0, "")
    assert_whole(out)
    assert laptop.job().state is JobState.COMPLETED


def test_a_line_that_was_cut_and_healed_costs_no_output_and_no_login(
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


def test_a_gateway_that_restarts_costs_one_login_and_nothing_else(
    laptop: Laptop, counting: str
) -> None:
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


def test_an_agent_that_is_killed_costs_no_login_and_everything_is_found_again(
    laptop: Laptop, counting: str
) -> None:
    site = laptop.site
    before = site.logins()
    tunnel = json.loads(laptop.slurm("tunnel", "22", "--json"))
    left_behind = {one.pid for one in site.processes()}
    assert left_behind
    pid = agent_of(laptop)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    [found] = json.loads(laptop.slurm("jobs", "--json"))  # which starts another
    assert found["id"] == counting
    open_gate(laptop)
    wait_until(lambda: laptop.job().state is JobState.COMPLETED, PATIENCE_S)
    assert_whole(laptop.slurm("logs", counting))
    [again] = json.loads(laptop.slurm("tunnel", "--json"))
    assert again["local_port"] == tunnel["local_port"]
    assert site.logins() == before
    wait_until(lambda: not left_behind & {one.pid for one in site.processes()})


def test_a_laptop_that_slept_for_longer_than_a_ping_goes_on_without_a_login(
    laptop: Laptop, counting: str
) -> None:
    site = laptop.site
    before = site.logins()
    with asleep(agent_of(laptop)):
        open_gate(laptop)
        wait_until(lambda: site.run("squeue", "-h", "-t", "R").stdout == "", PATIENCE_S)
    wait_until(lambda: laptop.job().state is JobState.COMPLETED, PATIENCE_S)
    assert_whole(laptop.slurm("logs", counting))
    assert site.logins() == before


def test_a_laptop_that_slept_for_longer_than_the_gateway_waits_costs_one_login(
    impatient_gateway: Site, laptop: Laptop, counting: str
) -> None:
    site = impatient_gateway
    before, knocked = site.logins(), knocks(site)
    job = laptop.job()
    shown = io.StringIO()
    with laptop.terminal("logs", "--follow", counting) as reader:
        reader.logfile_read = shown
        reader.expect_exact("line 5\r\n")
        with hushed(laptop), asleep(agent_of(laptop)):
            wait_until(lambda: site.gateway.pids() == [], PATIENCE_S)
        # The reader hears that it is closed, or opens it first and hears what the gateway asks.
        wait_until(
            lambda: laptop.connection().state is ConnectionState.ASKING,
            PATIENCE_S,
            lambda: (laptop.connection(), site.gateway.log()),
        )
        assert laptop.job().state is JobState.RUNNING
        open_gate(laptop)
        wait_until(lambda: site.run("squeue", "-h", "-t", "R").stdout == "", PATIENCE_S)
        laptop.answer(reader)
        reader.expect(pexpect.EOF)
    assert reader.exitstatus == 0, shown.getvalue()
    assert_whole(shown.getvalue())
    assert shown.getvalue().count("Password: ") == 1
    assert_whole(laptop.slurm("logs", counting))
    last = laptop.job()
    assert (last.state, last.slurm_id) == (JobState.COMPLETED, job.slurm_id)
    wait_until(lambda: site.logins() == before + 1)
    # That it takes a person, and the login.
    assert knocks(site) <= knocked + 2, site.gateway.log()


def test_a_laptop_that_slept_for_longer_than_the_login_node_waits_goes_on_without_a_login(
    impatient_login_node: Site, laptop: Laptop, counting: str
) -> None:
    site = impatient_login_node
    before = knocks(site)
    reader = follow(laptop, counting)
    with hushed(laptop), asleep(agent_of(laptop)):
        wait_until(lambda: site.login.pids() == [], PATIENCE_S)
    wait_until(lambda: laptop.connection().state is ConnectionState.OPEN, PATIENCE_S)
    open_gate(laptop)
    assert_followed_to_its_end(reader, laptop)
    assert knocks(site) == before


def test_what_a_line_that_was_lost_for_good_has_left_ends_with_the_next_login(
    laptop: Laptop, counting: str
) -> None:
    """Neither sshd notices by itself: both wait for hours, as is usual."""
    site = laptop.site
    wait_until(lambda: len(site.login.pids()) == 1)  # those of who was here before end soon
    [session] = site.login.pids()
    shells = shells_of(site, session)
    time.sleep(2)  # what was only there for a moment is no shell of ours
    left = [one for one in shells_of(site, session) if one in shells]
    assert left
    other = site.run("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!").stdout.strip()
    with site.lost_for_good():
        laptop.slurm("logout")
        assert all(one.is_running() for one in left)
        laptop.log_in()
        wait_until(lambda: not any(one.is_running() for one in left), PATIENCE_S)
        wait_until(lambda: session not in site.login.pids() and len(site.login.pids()) == 1)
        assert site.run("kill", other).returncode == 0
    open_gate(laptop)
    wait_until(lambda: laptop.job().state is JobState.COMPLETED, PATIENCE_S)
    assert_whole(laptop.slurm("logs", counting))


def test_a_way_that_breaks_while_sbatch_waits_for_the_controller_makes_one_job(
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
