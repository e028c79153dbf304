"""Labs on a real Slurm: the job, the local port, access, and cleanup."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from jupyter_slurm import places
from jupyter_slurm.client import lab_page
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Job, JobKind, JobState, LabEntry, LabStep
from tests.cluster.plugin import SlurmCluster
from tests.containers.leftovers import processes, processes_of
from tests.jobs.conftest import Site, over_ssh, spec
from tests.lab_visitor import LabVisitor
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

PATIENCE_S = 120.0
"""Timeout for the start of JupyterLab on a busy machine."""
SYSTEM_PYTHON = "/usr/bin/python3"
"""A Python without JupyterLab."""


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """Yield a site whose nodes run the tests' Python, which has JupyterLab."""
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=way, python=sys.executable)
    yield site
    site.service.close()


@pytest.fixture(autouse=True)
def no_lab_is_left(site: Site) -> Iterator[None]:
    yield
    for job in site.service.jobs():
        if not job.state.final:
            site.service.cancel(job.id)
            site.wait(job.id)
    wait_until(lambda: not processes_of(site))
    wait_until(lambda: not doors(site))  # a process that ends closes its files last


def doors(site: Site) -> set[str]:
    """Return the sockets of this site's labs."""
    table = Path("/proc/net/unix").read_text(encoding="utf-8")
    names = {f"jslurm-lab-{job.id}" for job in site.service.jobs()}
    return names & set(re.findall(r"@(jslurm-lab-\S+)", table))


def submitted(site: Site, **changes: Any) -> Job:
    wanted = {"runtime": "none", "kind": JobKind.LAB, **changes}
    return site.service.submit(spec("", **wanted))


def ready(site: Site, job: Job) -> Job:
    """Return the lab once it accepts logins."""

    def is_ready() -> bool:
        now = site.service.job(job.id)
        assert not now.state.final, (now.why, site.text(job.id))
        return now.lab is not None and now.lab.step is LabStep.READY

    wait_until(is_ready, PATIENCE_S)
    return site.service.job(job.id)


def started(site: Site, **changes: Any) -> Job:
    return ready(site, submitted(site, **changes))


def visitor(site: Site, job: Job) -> LabVisitor:
    """Return a client that is logged in to the lab."""
    one = LabVisitor.of(job)
    answer = one.log_in(site.service.lab_entry(job.id))
    assert (answer.status_code, answer.headers["Location"]) == (302, "/lab")
    return one


def is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def folder_of(job: Job) -> Path:
    """Return the folder of the lab server's socket."""
    [found] = {
        Path(word.removeprefix("--config=")).parent
        for _, words in processes(job)
        for word in words.split()
        if word.startswith("--config=")
    }
    return found


@over_ssh
def test_lab_runs_a_notebook_and_leaves_nothing_behind(site: Site, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    job = submitted(site, **site.at(tmp_path / "here"))
    assert job.lab is not None
    name = f"lab-{job.id}-[0-9a-f]{{20}}"
    assert re.fullmatch(f"http://{name}\\.localhost:{job.lab.port}/", job.lab.url)
    job = ready(site, job)
    assert job.python == tuple(sys.version_info[:3])
    assert job.idle_s == 3600
    one = visitor(site, job)
    kernel = one.start_kernel()
    printed = one.run(kernel, "import os; print(os.environ['SLURM_JOB_ID'], os.getcwd())")
    assert printed == f"{job.slurm_id} {tmp_path / 'here'}\n"
    left_behind = Path(one.run(kernel, "import tempfile; print(tempfile.mkdtemp())").strip())
    assert left_behind.is_dir()
    assert doors(site) == {f"jslurm-lab-{job.id}"}
    folder, port = folder_of(job), one.port
    assert (folder / "server").is_socket()
    site.service.cancel(job.id)
    ended = site.wait(job.id)
    assert (ended.state, ended.why, ended.lab) == (JobState.COMPLETED, "Shut down.", None)
    wait_until(lambda: is_free(port))
    wait_until(lambda: not processes_of(site))
    wait_until(lambda: not doors(site))
    assert not folder.exists()
    assert not left_behind.exists()
    with pytest.raises(RequestError, match="has ended"):
        site.service.lab_entry(job.id)


def test_only_the_token_and_the_right_host_name_open_a_lab(site: Site) -> None:
    """One test covers every kind of access, since a lab starts slowly."""
    job = started(site, idle_s=3600)
    only_who_has_the_token_and_comes_by_its_name_gets_in(site, job)
    one = visitor(site, job)
    kernel = one.start_kernel()
    neither_it_nor_its_kernels_have_a_port_at_which_others_on_the_node_could_read(job, one, kernel)
    its_token_is_in_no_command_line_environment_script_or_log(site, job)
    another_user_of_the_node_is_not_let_in_and_not_spoken_to(job)


def only_who_has_the_token_and_comes_by_its_name_gets_in(site: Site, job: Job) -> None:
    stranger = LabVisitor.of(job)
    assert stranger.get("/api/kernels").status_code == 403
    assert stranger.get("/lab").url.endswith("/login?next=%2Flab")
    entry = site.service.lab_entry(job.id)
    wrong = LabEntry(login_url=entry.login_url, token="0" * 64)
    assert stranger.log_in(wrong).status_code in (403, 404)  # jupyter_server 2.15 answers with 403
    assert stranger.get("/api/kernels").status_code == 403
    right = {"Authorization": f"token {entry.token}"}
    assert stranger.get("/api/kernels", **right).status_code == 200
    # The connection was opened with the right name. The lab's own server checks the name, too.
    assert stranger.get("/api/kernels", Host="evil.example", **right).status_code == 403
    for name in ("evil.example", "127.0.0.1", "localhost", f"lab-{job.id}.localhost"):
        stranger.hang_up()
        with pytest.raises(requests.ConnectionError):
            stranger.get("/api/kernels", Host=f"{name}:{stranger.port}", **right)


def neither_it_nor_its_kernels_have_a_port_at_which_others_on_the_node_could_read(
    job: Job, one: LabVisitor, kernel: str
) -> None:
    """Any client of a kernel's port can read its output, since only requests are signed."""
    assert one.run(kernel, "import socket; print('it works')") == "it works\n"
    # A kernel receives the output of its forks on a port (a PULL socket in IOPubThread of
    # ipykernel). The port sends nothing, and senders need its secret.
    assert [ports for process, _ in processes(job) if len(ports := listening(process)) > 1] == []
    sockets = sorted(folder_of(job).glob("*/kernel-*-ipc-*"))
    assert len(sockets) == 5
    assert {path.parent.stat().st_mode & 0o777 for path in sockets} == {0o700}


def listening(process: psutil.Process) -> list[Any]:
    return [one for one in connections(process) if one.status == psutil.CONN_LISTEN]


def connections(process: psutil.Process) -> list[Any]:
    """Return the process's connections, or an empty list if the process has just ended."""
    with suppress(psutil.NoSuchProcess):
        return process.net_connections("inet")
    return []


def its_token_is_in_no_command_line_environment_script_or_log(site: Site, job: Job) -> None:
    token = site.service.lab_entry(job.id).token
    found = [process for process, _ in processes(job)]
    assert len(found) > 3
    for process in found:
        with suppress(psutil.Error):  # the process has just ended
            assert token not in " ".join(process.cmdline())
            assert token not in "".join(process.environ().values())
    folder = folder_of(job)
    holds = [path for path in folder.rglob("*") if path.is_file() and holds_text(path, token)]
    assert folder / "jupyter_lab_config.py" in holds
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "jupyter_lab_config.py").stat().st_mode & 0o777 == 0o600
    kept = [Path(job.job_dir), places.data_dir()]
    paths = [path for root in kept for path in root.rglob("*") if path.is_file()]
    assert len(paths) > 8
    assert not [path for path in paths if holds_text(path, token)]


def another_user_of_the_node_is_not_let_in_and_not_spoken_to(job: Job) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can act as another user")
    come = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('\\0' + sys.argv[1]); "
    come += "s.sendall(b'GET /api HTTP/1.0\\r\\n\\r\\n'); print(s.recv(99))"
    words = [sys.executable, "-c", come, f"jslurm-lab-{job.id}"]
    mine = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "HTTP/1" in mine.stdout
    theirs = subprocess.run(
        [SYSTEM_PYTHON, *words[1:]], capture_output=True, text=True, check=False, user="nobody"
    )
    assert "HTTP" not in theirs.stdout
    folder = folder_of(job)
    looks = subprocess.run(["ls", str(folder)], check=False, capture_output=True, user="nobody")
    assert looks.returncode != 0


def holds_text(path: Path, text: str) -> bool:
    with suppress(FileNotFoundError):  # the file is just being replaced
        return text.encode() in path.read_bytes()
    return False


@over_ssh
def test_lab_survives_an_agent_restart_and_gets_a_new_host_name(
    site: Site,
) -> None:
    """Another user could have read requests to the old port while no agent ran."""
    job = started(site)
    assert job.lab is not None
    one = visitor(site, job)
    kernel = one.start_kernel()
    one.run(kernel, "kept = 42")
    site.service.close()
    page = lab_page.write(job, site.service.lab_entry(job.id))
    ended = places.lab_page("unknown")
    ended.touch()
    site.restart()
    assert not page.exists()  # the page contains the old name and the token
    assert not ended.exists()
    again = site.service.job(job.id)
    assert again.lab is not None
    assert (again.lab.port, again.lab.step) == (job.lab.port, LabStep.READY)
    assert again.lab.url != job.lab.url
    one.hang_up()
    with pytest.raises(requests.ConnectionError):
        one.get("/api/kernels")
    one = visitor(site, again)
    assert one.run(kernel, "print(kept)") == "42\n"
    assert site.service.tunnels() == []
    site.service.close()
    with socket.create_server(("127.0.0.1", one.port)):
        site.restart()
        moved = site.service.job(job.id)
        assert moved.lab is not None
        assert moved.lab.port != one.port
        assert moved.lab.step is LabStep.READY
        assert visitor(site, moved).get("/api/kernels").status_code == 200


def facts(one: LabVisitor) -> dict[str, Any]:
    """Return the facts in the bar of the lab's page."""
    told = one.get("/lab/extensions/jupyter-slurm-lab/static/facts.json")
    found: dict[str, Any] = told.json()
    return found


def knows_its_end(one: LabVisitor) -> bool:
    return facts(one)["end_s"] is not None


def each_says_which_it_is(site: Site, jobs: list[Job], visitors: list[LabVisitor]) -> None:
    for job, one in zip(jobs, visitors, strict=True):
        page = one.get("/lab").text
        assert f'"appName": "{job.name} \\u00b7 n1 \\u00b7 JupyterLab"' in page
        told = facts(one)
        assert (told["id"], told["name"], told["node"]) == (job.id, job.name, "n1")
        wait_until(partial(knows_its_end, one), PATIENCE_S)
        told = facts(one)
        assert job.started_s is not None
        assert told["end_s"] == pytest.approx(job.started_s + 3600, abs=30)
    before_s = facts(visitors[0])["end_s"]
    longer = site.service.extend(jobs[0].id, "2h")
    assert longer.limit_s == 7200
    wait_until(lambda: facts(visitors[0])["end_s"] == before_s + 3600, PATIENCE_S)


def test_two_labs_are_separate_and_shutting_down_one_completes_only_its_job(
    site: Site, tmp_path: Path
) -> None:
    names = ("first", "second")
    wanted = [submitted(site, name=name, **site.at(tmp_path, time="60")) for name in names]
    jobs = [ready(site, job) for job in wanted]
    first, second = (visitor(site, job) for job in jobs)
    each_says_which_it_is(site, jobs, [first, second])
    assert first.host != second.host
    assert first.port != second.port
    assert first.get("/api/kernels").status_code == 200
    astray = LabVisitor.of(jobs[1])
    astray.take_cookies(first)
    assert astray.get("/api/kernels").status_code == 403
    first.get("/lab")
    page = lab_page.write(jobs[0], site.service.lab_entry(jobs[0].id))
    assert page.exists()
    first.post("/api/shutdown")
    ended = site.wait(jobs[0].id, limit_s=PATIENCE_S)
    wait_until(lambda: not page.exists())  # the URL contains the token
    assert (ended.state, ended.why) == (JobState.COMPLETED, "Shut down.")
    assert second.get("/api/kernels").status_code == 200


def test_idle_lab_ends_and_shows_the_reason(site: Site) -> None:
    job = submitted(site, idle_s=3)
    assert job.idle_s == 3
    ended = site.wait(job.id, limit_s=PATIENCE_S)
    assert (ended.state, ended.exit_code) == (JobState.COMPLETED, 0), site.text(job.id)
    assert str(ended.why) == "Stopped after 3 s without use."


def test_lab_with_a_killed_server_fails(site: Site) -> None:
    job = started(site)
    folder = folder_of(job)
    server(job).send_signal(signal.SIGKILL)
    over = site.wait(job.id)
    assert (over.state, over.lab) == (JobState.FAILED, None)
    wait_until(lambda: not folder.exists())


def server(job: Job) -> psutil.Process:
    found = [
        one for one, words in processes(job) if "-m jupyterlab" in words and "lab.py" not in words
    ]
    # The server's forks have its command line until they execute another program.
    return min(found, key=psutil.Process.create_time)


def test_lab_without_jupyterlab_fails_at_once(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    site.service.close()
    bare = Site(
        slurm_cluster,
        tmp_path,
        monkeypatch,
        python=SYSTEM_PYTHON,
        setup="PATH=/usr/bin:/bin",
    )
    try:
        ended = bare.wait(submitted(bare).id)
        assert (ended.state, ended.exit_code, ended.lab) == (JobState.FAILED, 65, None)
        assert str(ended.why) == "JupyterLab not found."
        assert "pip install jupyterlab" in str(ended.advice or "")
        assert f"{SYSTEM_PYTHON} has no JupyterLab" in bare.text(ended.id)
    finally:
        bare.service.close()


def test_waiting_lab_has_an_address_until_it_is_cancelled(
    site: Site,
) -> None:
    job = submitted(site, options={"hold": ""})
    assert job.lab is not None
    assert job.lab.step is LabStep.WAITING
    with pytest.raises(requests.ConnectionError):
        LabVisitor.of(job).get("/lab")
    with pytest.raises(RequestError, match="is not ready: it is waiting, and its job is PENDING"):
        site.service.lab_entry(job.id)
    site.service.cancel(job.id)
    ended = site.wait(job.id)
    assert str(ended.why) == "Cancelled by you before it started."
    assert ended.lab is None
    port = job.lab.port
    wait_until(lambda: is_free(port))
