"""A lab behind a gateway with a one-time code, whose job, time or line ends: it goes on at the same
address, or says why not, and nothing is left."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from jupyter_slurm.wire import ConnectionState, JobState
from tests.ssh.lab_guest import LabGuest
from tests.ssh.laptop import PATIENCE_S, Laptop
from tests.ssh.processes import words_of
from tests.ssh.waiting import wait_until


@pytest.fixture
def guest(laptop: Laptop) -> Iterator[LabGuest]:
    """In a lab on c2, where nobody can log in; nothing is left of it on the node."""
    laptop.home.write_profile(python=sys.executable)
    laptop.notice_soon()
    laptop.log_in()
    laptop.slurm("lab", "start", "--nodelist", "c2", "--no-browser", "--time", "60")
    [page] = laptop.home.folder.rglob(f"labs/{laptop.job().id}.html")
    with LabGuest(laptop, page) as guest:
        yield guest
        laptop.site.run("scancel", "--me")
        wait_until(lambda: laptop.site.run("squeue", "-h").stdout == "", PATIENCE_S)
    wait_until(lambda: left_on_the_node(laptop) == [], PATIENCE_S)


def left_on_the_node(laptop: Laptop) -> list[list[str]]:
    """Command lines of the lab's there."""
    return [words_of(one) for one in laptop.site.processes("c2")]


def listens(laptop: Laptop, port: int) -> bool:
    told = laptop.site.laptop_machine.run("ss", "-tlnH", "sport", "=", f":{port}")
    return told.stdout != ""


def over(laptop: Laptop, port: int, state: JobState) -> str:
    """Why; its port is closed, and no relay is left on the login node."""
    wait_until(lambda: laptop.job().state is state, PATIENCE_S)
    wait_until(lambda: laptop.job().lab is None, PATIENCE_S)
    wait_until(lambda: not listens(laptop, port), PATIENCE_S)
    wait_until(lambda: "srun" not in laptop.site.programs(), PATIENCE_S)
    return str(laptop.job().why)


def port_of(guest: LabGuest) -> int:
    return int(guest.address.rstrip("/").rpartition(":")[2])


def test_a_lab_goes_on_through_a_cut_line_and_a_new_login_until_it_is_cancelled_on_the_cluster(
    laptop: Laptop, guest: LabGuest
) -> None:
    """At the same address, with the same cookies and the same kernel."""
    before = laptop.site.logins()
    cell_runs_through_a_cut(laptop, guest)
    assert laptop.site.logins() == before
    who_comes_while_a_login_is_needed_is_told(laptop, guest)
    lab = laptop.job().lab
    assert lab is not None
    assert lab.url == guest.address
    laptop.site.run("scancel", str(laptop.job().slurm_id))
    assert "Cancelled." in over(laptop, port_of(guest), JobState.CANCELLED)


def cell_runs_through_a_cut(laptop: Laptop, guest: LabGuest) -> None:
    gate = f"gate-{laptop.home.folder.name}"
    guest.begin(
        f"import os, time\n"
        f"open(os.path.expanduser('~/{gate}.begun'), 'x').close()\n"
        f"while not os.path.exists(os.path.expanduser('~/{gate}')): time.sleep(0.05)\n"
        f"print('through')"
    )
    begun = ("test", "-e", f"{gate}.begun")
    wait_until(lambda: laptop.site.run(*begun, check=False).returncode == 0, PATIENCE_S)
    laptop.site.cut()
    try:
        wait_until(lambda: laptop.connection().state is ConnectionState.LOST, PATIENCE_S)
        laptop.site.run("touch", gate)
    finally:
        laptop.site.heal()
    assert guest.end() == "through\n"


def who_comes_while_a_login_is_needed_is_told(laptop: Laptop, guest: LabGuest) -> None:
    laptop.site.restart_gateway()
    wait_until(lambda: laptop.connection().state is ConnectionState.LOGIN_NEEDED, PATIENCE_S)
    status, said = guest.look("/lab")
    assert status == 503
    assert "The connection to site is closed until you log in again." in said
    assert "slurm login" in said
    laptop.log_in()
    wait_until(lambda: guest.look("/api/status")[0] == 200, PATIENCE_S)
    assert guest.run("print('the same kernel', time.__name__)") == "the same kernel time\n"


def test_a_lab_whose_time_is_over(laptop: Laptop, guest: LabGuest) -> None:
    """slurmctld looks each 30 s."""
    now = ("scontrol", "update", f"jobid={laptop.job().slurm_id}", "endtime=now")
    if laptop.site.run(*now, check=False).returncode:  # the second was over
        laptop.site.run(*now)
    assert "time limit" in over(laptop, port_of(guest), JobState.TIMEOUT).lower()
