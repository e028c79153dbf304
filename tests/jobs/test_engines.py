"""A cell with Ray or Dask on all nodes of its job: real Slurm, real engines."""

from __future__ import annotations

import re
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.job import read_result_variables
from jupyter_slurm.jobs.submission.certificate import of_key
from jupyter_slurm.wire import Job, JobState, Stream
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.ssh.waiting import wait_until

RAY = """
import os, time
ray.init(namespace="of the cell")  # as notebooks begin that know nothing of this
namespace = ray.get_runtime_context().namespace
names = sorted(node["NodeName"] for node in ray.nodes())
open({runs!r}, "w").close()
while not os.path.exists({goes!r}):
    time.sleep(0.05)

@ray.remote(num_cpus=1)
def square(number):
    time.sleep(0.2)
    return number**2

numbers = ray.get([square.remote(number) for number in range(8)])
"""
DASK = """
import os, time, dask
namespace = str(distributed.Client().scheduler.address == client.scheduler.address)
names = sorted(client.run(lambda dask_worker: dask_worker.name).values())
open({runs!r}, "w").close()
while not os.path.exists({goes!r}):
    time.sleep(0.05)

def square(number):
    time.sleep(0.2)
    return number**2

numbers = client.gather(client.map(square, range(8)))
assert dask.delayed(sum)([1, 2]).compute() == 3
"""
CODE = {"ray": RAY, "dask": DASK}
SAVES = {
    "ray": "print('saved', ray.get(ray.put(3)))",
    "dask": "print('saved', client.submit(sum, [1, 2]).result())",
}
GONE_S = 10.0
SHARED = Path("/dev/shm")


@pytest.fixture
def site(
    slurm_cluster: SlurmCluster,
    engines_python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """A site whose nodes' Python has Ray and Dask."""
    site = Site(slurm_cluster, tmp_path, monkeypatch, python=str(engines_python))
    yield site
    site.service.close()


class EngineJob:
    """A job on two nodes, whose code waits until it may go on."""

    def __init__(self, site: Site, folder: Path, engine: str, code: str) -> None:
        self.site, self.runs, self.goes = site, folder / "runs", folder / "goes"
        self.shared = set(SHARED.iterdir())
        folder.mkdir()
        job = site.service.submit(
            spec(
                code.format(runs=str(self.runs), goes=str(self.goes)),
                launch=engine,
                options={"nodes": "2", "cpus-per-task": "4"},
                names_out=("numbers", "names", "namespace"),
            )
        )
        self.id = job.id
        wait_until(lambda: self.runs.exists() or site.service.job(job.id).state.final, 120)
        assert self.runs.exists(), self.told()
        self.folder = site.service.job(job.id).slurm_id

    def told(self) -> object:
        job = self.site.service.job(self.id)
        return self.site.service.result(self.id), job, self.text("stderr")

    def text(self, name: str = "stdout") -> str:
        chunk = self.site.service.logs(self.id, budget_bytes=None)
        streams = [one for one in chunk.outputs if isinstance(one, Stream)]
        return "".join(one.text for one in streams if one.name == name)

    def processes(self) -> list[psutil.Process]:
        """All that runs in this job, whoever their parents are."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("SLURM_JOB_ID") == self.folder and self.id in (
                    process.environ().get("SLURM_JOB_COMMENT", self.id)
                ):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def folders(self) -> list[Path]:
        """The folders in /tmp of this job's engine: those that its processes have."""
        found: set[Path] = set()
        for process in self.processes():
            for word in (*process.environ().values(), *process.cmdline()):
                found.update(map(Path, re.findall(r"/tmp/jse-[0-9a-f]{12}", word)))
        return sorted(found)

    def job_folder(self) -> Path:
        [runner] = {
            Path(word)
            for process in self.processes()
            for word in process.cmdline()
            if word.endswith(self.id)
        }
        return runner

    def finish(self) -> Job:
        self.goes.touch()
        return self.site.wait(self.id)

    def left(self, folders: list[Path]) -> list[object]:
        """What is still there of it."""
        shared = set(SHARED.iterdir()) - self.shared
        return [*self.processes(), *(one for one in folders if one.exists()), *shared]


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_the_code_uses_all_nodes_survives_the_death_of_one_and_nothing_is_left(
    site: Site, tmp_path: Path, engine: str
) -> None:
    job = EngineJob(site, tmp_path / "job", engine, CODE[engine])
    folders = job.folders()
    assert [oct(one.stat().st_mode & 0o777) for one in folders] == ["0o700"]
    secrets = [one.read_text() for one in folders[0].glob("token.*")]
    assert len(secrets) == (2 if engine == "ray" else 0)
    for process in job.processes():
        words = " ".join((*process.cmdline(), *process.environ().values()))
        assert not [secret for secret in secrets if secret in words]
    for process in job.processes():
        if process.environ().get("SLURMD_NODENAME") == "n2" and is_worker(process):
            process.kill()
    name = engine.capitalize()
    wait_until(lambda: f"{name} has ended on n2" in job.text("stderr"), 30)
    ended = job.finish()
    assert ended.state is JobState.COMPLETED, job.told()
    variables = read_result_variables(site.service.result(job.id))
    assert variables == {
        "numbers": [number**2 for number in range(8)],
        "names": ["n1", "n2"],
        "namespace": "of the cell" if engine == "ray" else "True",
    }
    wait_until(lambda: not job.left(folders), GONE_S)


def is_worker(process: psutil.Process) -> bool:
    words = " ".join(process.cmdline())
    return "--raylet_socket_name" in words or "distributed.cli.dask_worker" in words


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_two_jobs_do_not_meet_and_an_interrupt_is_the_codes(
    site: Site, tmp_path: Path, engine: str
) -> None:
    waits = f"try:{{body}}\nexcept KeyboardInterrupt:\n    {SAVES[engine]}\n    raise\n"
    code = waits.replace("{body}", CODE[engine].replace("\n", "\n    "))
    jobs = [EngineJob(site, tmp_path / name, engine, code) for name in "ab"]
    folders = [one for job in jobs for one in job.folders()]
    assert len(folders) == 2
    site.service.cancel(jobs[0].id)
    assert site.wait(jobs[0].id).state is JobState.CANCELLED
    assert jobs[0].text() == "saved 3\n"
    assert jobs[1].finish().state is JobState.COMPLETED, jobs[1].told()
    assert read_result_variables(site.service.result(jobs[1].id))["names"] == ["n1", "n2"]
    wait_until(lambda: not [one for job in jobs for one in job.left(folders)], GONE_S)


def test_only_the_jobs_certificate_opens_its_ports(site: Site, tmp_path: Path) -> None:
    job = EngineJob(site, tmp_path / "job", "dask", DASK)
    made = of_key(b"another job's")
    for name, data in zip(("tls.pem", "tls.key"), made, strict=True):
        (tmp_path / name).write_bytes(data)
    ports = {
        where.laddr.port: where.laddr.ip
        for process in job.processes()
        for where in process.net_connections("tcp")
        if where.status == psutil.CONN_LISTEN
    }
    own = job.job_folder()
    dashboards = {port for port, ip in ports.items() if not answers(ip, port, own)}
    assert {ports[port] for port in dashboards} <= {"127.0.0.1"}
    assert len(ports) > len(dashboards)
    assert not [port for port, ip in ports.items() if answers(ip, port, tmp_path)]
    assert job.finish().state is JobState.COMPLETED, job.told()


def answers(host: str, port: int, folder: Path) -> bool:
    """Tell whether somebody with the certificate in this folder is let in there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(folder / "tls.pem", folder / "tls.key")
    try:
        with (
            socket.create_connection((host, port), 10.0) as plain,
            context.wrap_socket(plain) as sock,
        ):
            return bool(sock.recv(1))  # Dask's own first words
    except OSError:
        return False


def test_a_node_on_which_the_engine_does_not_start_is_named(
    site: Site, engines_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("")
    (tmp_path / "ray" / "_version.py").write_text('version = "2.40.0"\n')
    site.edit_profile(
        python=str(engines_python),
        setup=f'[ "$SLURMD_NODENAME" != n2 ] || export PYTHONPATH={tmp_path}',
    )
    site.restart()
    job = site.run("1", launch="ray", options={"nodes": "2"})
    result = site.service.result(job.id)
    assert result.ename == "EngineError"
    assert result.evalue is not None
    assert "n2" in result.evalue
    assert "has Ray 2.40, which asks nobody for a token." in result.evalue


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_a_python_without_the_engine_is_said_at_once(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch, python="/usr/bin/python3")
    job = site.run("1", launch=engine, options={"nodes": "2"})
    result = site.service.result(job.id)
    assert result.ename == "EngineError"
    assert result.evalue is not None
    assert f"--launch {engine} needs {engine.capitalize()}" in result.evalue
    site.service.close()


def test_code_whose_engine_dies_is_ended(site: Site, tmp_path: Path) -> None:
    job = EngineJob(site, tmp_path / "job", "dask", DASK)
    for process in job.processes():
        if "distributed.cli.dask_scheduler" in process.cmdline():
            process.send_signal(signal.SIGKILL)
    wait_until(lambda: "Dask has ended on n1 (signal 9)" in job.text("stderr"), 30)
    assert site.wait(job.id).state is not JobState.COMPLETED
