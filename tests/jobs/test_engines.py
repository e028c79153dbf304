"""A cell with Ray or Dask on all nodes of its job: real Slurm, real engines."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_slurm.job import read_result_variables
from jupyter_slurm.jobs.submission.certificate import of_key
from jupyter_slurm.wire import Engine, Job, JobState, SessionSpec, Stream
from tests.cluster.apptainer import ApptainerEngine
from tests.cluster.docker import DockerEngine
from tests.cluster.plugin import SlurmCluster
from tests.cluster.pyxis import EnrootStandIn
from tests.jobs.conftest import Site, spec
from tests.ssh.processes import kill
from tests.ssh.waiting import wait_until

RAY = """
import os, time
ray.init(namespace="of the cell")  # as notebooks begin that know nothing of this
@ray.remote(num_cpus=1)
def square(number):
    time.sleep(0.2)
    return number**2
namespace = ray.get_runtime_context().namespace
names = sorted(node["NodeName"] for node in ray.nodes())
open({runs!r}, "w").close()
while not os.path.exists({goes!r}):
    time.sleep(0.05)
numbers = ray.get([square.remote(number) for number in range(8)])
"""
DASK = """
import os, time, dask
def square(number):
    time.sleep(0.2)
    return number**2
namespace = str(distributed.Client().scheduler.address == client.scheduler.address)
names = sorted(client.run(lambda dask_worker: dask_worker.name).values())
open({runs!r}, "w").close()
while not os.path.exists({goes!r}):
    time.sleep(0.05)
numbers = client.gather(client.map(square, range(8)))
assert dask.delayed(sum)([1, 2]).compute() == 3
"""
CODE = {"ray": RAY, "dask": DASK}
SAVES = {
    "ray": "print('saved', sorted(n['NodeName'] for n in ray.nodes() if n['Alive']))",
    "dask": "print('saved', sorted(client.run(lambda dask_worker: dask_worker.name).values()))",
}
NAMES = {
    "ray": "names = sorted(node['NodeName'] for node in ray.nodes())",
    "dask": "names = sorted(client.run(lambda dask_worker: dask_worker.name).values())",
}
MEMORY = {
    "ray": "memory = int(ray.cluster_resources()['memory']) >> 20",
    "dask": "memory = sum(client.run(lambda dask_worker: "
    "dask_worker.memory_manager.memory_limit).values()) >> 20",
}
"""Of both nodes; Ray keeps three tenths for its objects."""
OWN = {"ray": "ray.init()", "dask": "distributed.Client()"}
GONE_S = 60.0


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
    for job in site.service.jobs():
        if not job.state.final:  # of a test that has failed: others would wait for its nodes
            site.service.cancel(job.id)
            site.wait(job.id)
    site.service.close()


class Seen:
    """A process, and what it had when it was looked at."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.environ = process.environ()
        self.argv = process.cmdline()

    @property
    def words(self) -> str:
        return " ".join((*self.argv, *self.environ.values()))

    def is_of(self, job_id: str) -> bool:
        """Tell whether it is of this job: other clusters of the tests have the same numbers."""
        return job_id in self.words

    def is_worker(self) -> bool:
        words = " ".join(self.argv)
        return "--raylet_socket_name" in words or "launch_dask.py worker" in words


class EngineJob:
    """A job on two nodes, whose code waits until it may go on."""

    def __init__(self, site: Site, folder: Path, engine: str, code: str, **changes: Any) -> None:
        """`changes` of the spec."""
        wanted = {
            "options": {"nodes": "2", "cpus-per-task": "4"},
            "names_out": ("numbers", "names", "namespace"),
        }
        self.engine = engine
        self.site, self.runs, self.goes = site, folder / "runs", folder / "goes"
        folder.mkdir()
        job = site.service.submit(
            spec(
                code.format(runs=str(self.runs), goes=str(self.goes)),
                launch=engine,
                **(wanted | changes),
            )
        )
        self.id = job.id
        wait_until(lambda: self.runs.exists() or site.service.job(job.id).state.final, 120)
        assert self.runs.exists(), self.told()
        self.slurm_id = site.service.job(job.id).slurm_id

    def told(self) -> str:
        service = self.site.service  # as text, since pytest cuts other values short
        return f"{self.text('stderr')}\n{service.result(self.id)}\n{service.job(self.id)}"

    def text(self, name: str = "stdout") -> str:
        chunk = self.site.service.logs(self.id, budget_bytes=None)
        streams = [one for one in chunk.outputs if isinstance(one, Stream)]
        return "".join(one.text for one in streams if one.name == name)

    def processes(self) -> list[Seen]:
        """All that runs in this job, whoever their parents are."""
        found = []
        for process in psutil.process_iter():
            try:
                seen = Seen(process)
            except psutil.Error:  # it has just ended
                continue
            if seen.environ.get("SLURM_JOB_ID") == self.slurm_id and seen.is_of(self.id):
                found.append(seen)
        return found

    def folders(self) -> list[Path]:
        """The folders in /tmp of this job's engine: those that its processes have."""
        words = " ".join(process.words for process in self.processes())
        return sorted({Path(one) for one in re.findall(r"/tmp/jse-[0-9a-f]{12}", words)})

    def memory(self) -> list[Path]:
        """Return the files in /dev/shm that its processes share."""
        mapped = set()
        for seen in self.processes():
            with suppress(OSError):  # it has just ended
                lines = Path(f"/proc/{seen.process.pid}/maps").read_text().splitlines()
                mapped |= {int(line.split()[4]) for line in lines if "/dev/shm/" in line}
        # By number: glibc maps a semaphore before it gives it its name.
        return [Path(one.path) for one in os.scandir("/dev/shm") if one.inode() in mapped]

    def finish(self) -> Job:
        self.goes.touch()
        return self.site.wait(self.id)

    def left(self, paths: list[Path]) -> list[object]:
        """Return what is still there of it, and of these."""
        return [*self.processes(), *(one for one in paths if one.exists())]


def test_the_code_goes_on_when_slurm_gives_up_a_node(
    private_cluster: Callable[..., SlurmCluster],
    engines_python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With Dask alone: what Slurm does to the job is the same with Ray."""
    cluster = private_cluster(nodes=2, extra_conf=("SlurmdTimeout=20",))
    site = Site(cluster, tmp_path, monkeypatch, python=str(engines_python))
    job = EngineJob(site, tmp_path / "job", "dask", DASK)
    cluster.kill_slurmd("n2")
    for seen in job.processes():
        if seen.environ.get("SLURMD_NODENAME") == "n2":
            with suppress(psutil.NoSuchProcess):  # it has ended with another one
                steps = [one for one in seen.process.parents() if "slurmstepd" in one.name()]
                for process in (seen.process, *steps):
                    kill(process)
    wait_until(lambda: "down" in cluster.run("sinfo", "-hNn", "n2", "-o", "%T").stdout, 120)
    ended = job.finish()
    assert ended.state is JobState.COMPLETED, job.told()
    assert "n2 is gone" in job.text("stderr")
    variables = read_result_variables(site.service.result(job.id))
    assert variables["numbers"] == [number**2 for number in range(8)]
    site.service.close()


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_the_code_uses_all_nodes_survives_the_death_of_one_and_nothing_is_left(
    site: Site, tmp_path: Path, engine: str
) -> None:
    job = EngineJob(site, tmp_path / "job", engine, CODE[engine])
    folders = job.folders()
    assert [oct(one.stat().st_mode & 0o777) for one in folders] == ["0o700"]
    assert {seen.environ["TMPDIR"] for seen in job.processes() if seen.is_worker()} == {
        str(folders[0])
    }
    shared = job.memory()
    secrets = [one.read_text() for one in folders[0].glob("token.*")]
    assert len(secrets) == (2 if engine == "ray" else 0)
    for seen in job.processes():
        assert not [secret for secret in secrets if secret in seen.words]
        if seen.environ.get("SLURMD_NODENAME") == "n2" and seen.is_worker():
            kill(seen.process)
    name = engine.capitalize()
    wait_until(lambda: f"{name} has ended on n2" in job.text("stderr"), GONE_S)
    ended = job.finish()
    assert ended.state is JobState.COMPLETED, job.told()
    seen_mib = [one.memory_mib for one in site.service.usage(job.id).samples]
    assert ended.usage is not None
    assert (ended.usage.peak_memory_mib or 0) >= max(
        seen_mib, default=1
    )  # the engine's processes are counted
    variables = read_result_variables(site.service.result(job.id))
    assert variables == {
        "numbers": [number**2 for number in range(8)],
        "names": ["n1", "n2"],
        "namespace": "of the cell" if engine == "ray" else "True",
    }
    wait_until(lambda: not job.left([*folders, *shared]), GONE_S)


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_two_jobs_do_not_meet_and_an_interrupt_is_the_codes(
    private_cluster: Callable[..., SlurmCluster],
    engines_python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    # Slurm's own: what it kills after KillWait leaves its folders to the node's next job.
    cluster = private_cluster(nodes=2, cpus=8, memory_mib=16384, extra_conf=("KillWait=30",))
    site = Site(cluster, tmp_path, monkeypatch, python=str(engines_python))
    # After a second an engine that does not stay has gone.
    saves = f"    time.sleep(1)\n    {SAVES[engine]}\n    raise\n"
    waits = f"try:{{body}}\nexcept KeyboardInterrupt:\n{saves}"
    code = waits.replace("{body}", CODE[engine].replace("\n", "\n    "))
    jobs = [EngineJob(site, tmp_path / name, engine, code) for name in "ab"]
    folders = [one for job in jobs for one in job.folders()]
    assert len(folders) == 2
    shared = [one for job in jobs for one in job.memory()]
    site.service.cancel(jobs[0].id)
    assert site.wait(jobs[0].id).state is JobState.CANCELLED
    assert jobs[0].text() == "saved ['n1', 'n2']\n", jobs[0].told()
    assert jobs[1].finish().state is JobState.COMPLETED, jobs[1].told()
    assert read_result_variables(site.service.result(jobs[1].id))["names"] == ["n1", "n2"]
    wait_until(lambda: not [one for job in jobs for one in job.left([*folders, *shared])], GONE_S)
    site.service.close()


def test_ray_lets_nobody_in_who_does_not_have_the_jobs_token(
    site: Site, engines_python: Path, tmp_path: Path
) -> None:
    job = EngineJob(site, tmp_path / "job", "ray", RAY)
    told = json.loads((tmp_path / "it's a root" / job.id / "engine.0.json").read_bytes())
    stranger = f"import ray; ray.init(address={told['address']!r}); print(ray.nodes())"
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    tried = [
        subprocess.Popen(
            [engines_python, "-c", stranger],
            env={**env, **mode},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for mode in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64})
    ]
    for one in tried:
        said, _ = one.communicate(timeout=100)
        assert one.returncode
        assert "NodeName" not in said
        assert "authentication" in said.lower()
    assert job.finish().state is JobState.COMPLETED, job.told()


def test_only_the_jobs_certificate_opens_its_ports(site: Site, tmp_path: Path) -> None:
    job = EngineJob(site, tmp_path / "job", "dask", DASK)
    made = of_key(b"another job's")
    for name, data in zip(("tls.pem", "tls.key"), made, strict=True):
        (tmp_path / name).write_bytes(data)
    ports = {
        where.laddr.port: where.laddr.ip
        for seen in job.processes()
        if seen.is_worker() or "scheduler" in seen.argv
        for where in seen.process.net_connections("tcp")
        if where.status == psutil.CONN_LISTEN
    }
    own = tmp_path / "it's a root" / job.id
    assert ports
    assert not [port for port, ip in ports.items() if not answers(ip, port, own)]
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
            socket.create_connection((host, port), 60.0) as plain,
            context.wrap_socket(plain) as sock,
        ):
            return bool(sock.recv(1))  # Dask's own first words
    except OSError:
        return False


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_a_python_without_the_engine_is_said_at_once(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    site = Site(slurm_cluster, tmp_path, monkeypatch, python="/usr/bin/python3")
    job = site.run("1", launch=engine, options={"nodes": "2"})
    result = site.service.result(job.id)
    assert result.ename == "LaunchError"
    assert result.evalue is not None
    assert f"--launch {engine} needs {engine.capitalize()}" in result.evalue
    assert job.why == result.evalue
    told = site.service.preview(spec("1", launch=engine, options={"nodes": "2"})).checks
    assert f"It may fail as job {job.id} did there: {result.evalue}" in [
        str(check.sentence) for check in told
    ]
    site.service.close()


@pytest.mark.parametrize("first", ["", "import signal; signal.signal(signal.SIGTERM, print)"])
def test_code_whose_engine_dies_is_ended_even_if_it_goes_on_after_sigterm(
    site: Site, tmp_path: Path, first: str
) -> None:
    job = EngineJob(site, tmp_path / "job", "dask", first + DASK)
    for seen in job.processes():
        if "scheduler" in seen.argv:
            kill(seen.process)
    wait_until(lambda: "Dask has ended on n1 (signal 9)" in job.text("stderr"), GONE_S)
    ended = site.wait(job.id)
    assert ended.state is not JobState.COMPLETED
    assert "ended on n1 (" in str(ended.why), job.told()


def test_code_that_fails_after_a_node_was_lost_keeps_its_error_and_names_the_node(
    site: Site, tmp_path: Path
) -> None:
    job = EngineJob(site, tmp_path / "job", "dask", DASK + "raise ValueError('of its own')")
    for seen in job.processes():
        if seen.environ.get("SLURMD_NODENAME") == "n2" and "launch_node.py" in " ".join(seen.argv):
            kill(seen.process)
    wait_until(lambda: "n2 was lost while the job ran." in job.text("stderr"), GONE_S)
    ended = job.finish()
    result = site.service.result(job.id)
    assert (result.ename, result.evalue) == ("ValueError", "of its own"), job.told()
    told = str(ended.why)
    assert told.startswith("The cell raised ValueError. The job lost n2 ("), job.told()
    assert told.endswith("), which is the probable cause (inferred).")


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_the_cells_of_a_session_share_one_engine(site: Site, engine: Engine) -> None:
    options = {"nodes": "2", "cpus-per-task": "4", "mem": "1000"}
    session = site.service.submit(SessionSpec(name="s", launch=engine, idle_s=600, options=options))
    for _ in range(2):  # cells and programs that begin with a connection of their own
        cpus = "import os; cpus = os.environ['SLURM_CPUS_PER_TASK']"
        code = "\n".join((OWN[engine], NAMES[engine], cpus, MEMORY[engine]))
        job = site.run(code, session=session.id, names_out=("names", "cpus", "memory"))
        made = read_result_variables(site.service.result(job.id))
        memory = 1400 if engine == "ray" else 2000
        assert made == {"names": ["n1", "n2"], "cpus": "4", "memory": memory}
    dead = site.run("import os; os.kill(os.getpid(), 9)", session=session.id)
    assert dead.state is JobState.FAILED
    third = site.run(NAMES[engine], session=session.id, names_out=("names",))
    assert read_result_variables(site.service.result(third.id)) == {"names": ["n1", "n2"]}
    site.service.cancel(session.id)
    assert site.wait(session.id).state is JobState.COMPLETED


def finds_both_nodes(site: Site, engines_python: Path, launch: str, **changes: Any) -> None:
    """What the image lacks it has from this machine, which is of the same distribution."""
    [packages] = engines_python.parents[1].glob("lib/python3*/site-packages")
    job = site.run(
        NAMES[launch],
        launch=launch,
        mounts=(f"{packages}:/srv",),
        env={"PYTHONPATH": "/srv"},
        options={"nodes": "2", "cpus-per-task": "4"},
        names_out=("names",),
        **changes,
    )
    result = site.service.result(job.id)
    assert job.state is JobState.COMPLETED, (result, site.outputs(job.id))
    assert read_result_variables(result) == {"names": ["n1", "n2"]}


@pytest.mark.parametrize("runtime", ["charliecloud", "apptainer"])
@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_in_an_image_the_engine_is_the_same(
    site: Site,
    engines_python: Path,
    demo_image: Path,
    apptainer_engine: ApptainerEngine,
    runtime: str,
    engine: str,
) -> None:
    site.edit_profile(setup=f"PATH=$PATH:{apptainer_engine.bin}")
    site.restart()
    finds_both_nodes(site, engines_python, launch=engine, runtime=runtime, image=str(demo_image))


@pytest.mark.parametrize(("runtime", "engine"), [("pyxis", "ray"), ("enroot", "dask")])
def test_in_a_squash_image_the_engine_is_the_same(
    site: Site,
    engines_python: Path,
    enroot_standin: EnrootStandIn,
    lean_squash_image: Path,
    tmp_path: Path,
    runtime: str,
    engine: str,
) -> None:
    """Each engine is started, signalled and ended by the same lines of launch_node.py, and both
    have the same in the other images: so one in each of these is enough."""
    folder = tmp_path / "jobs"  # pyxis cannot mount one that has blanks
    site.edit_profile(python=str(engines_python), setup=enroot_standin.setup, job_root=str(folder))
    site.restart()
    finds_both_nodes(
        site, engines_python, launch=engine, runtime=runtime, image=str(lean_squash_image)
    )
    wait_until(lambda: not enroot_standin.containers(), 60)


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_in_docker_the_engine_is_the_same(
    site: Site, engines_python: Path, docker_engine: DockerEngine, engine: str
) -> None:
    site.edit_profile(setup=docker_engine.setup)
    site.restart()
    finds_both_nodes(site, engines_python, launch=engine, runtime="docker", image="demo:1")
    wait_until(lambda: not docker_engine.containers(), 60)
