"""Attacks between two real users of one node, with the engines' own clients and with plain
sockets."""

from __future__ import annotations

import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_slurm.job import read_result_variables
from jupyter_slurm.jobs.submission.launching import dask_certificate
from jupyter_slurm.wire import JobState
from tests.cluster.plugin import ROOT, SlurmCluster, jupyter_homes, running_cluster
from tests.jobs.conftest import Site
from tests.jobs.stranger import (
    DASKS_CLIENT,
    KNOCKS,
    RAYS_CALLS,
    RAYS_CLIENT,
    SUBMITS,
)
from tests.jobs.test_engines import EngineJob
from tests.ssh.accounts import Account, make_account, make_folder
from tests.ssh.kept import Keeper, clean_environment
from tests.ssh.waiting import wait_until


def open_to_others(cluster: SlurmCluster, home: Path) -> None:
    """Let other users of this machine use the cluster, which `jupyter slurm up` does not."""
    for folder in (*cluster.folder.parents, cluster.folder):
        if folder.is_relative_to(home):
            folder.chmod(0o711)
    for name in ("bin", "gpu", "log", "run", "spool"):
        (cluster.folder / name).chmod(0o711)
    for path in cluster.folder.glob("spool/*"):
        path.chmod(0o755)
    for path in cluster.folder.glob("*.conf"):
        path.chmod(0o644)


def everybodys(python: Path, folder: Path) -> Path:
    """Copy the Python from its owner's home to a folder for all users."""
    there = folder / "python"
    shutil.copytree(python.parents[1], there, symlinks=True, copy_function=_link)
    return there / "bin" / "python"


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


@dataclass(frozen=True)
class Ground:
    cluster: SlurmCluster
    python: Path
    other: Account
    folder: Path

    def lend_profile(self, home: Path) -> None:
        """Copy the cluster's profile below `home` to the other user."""
        [profile] = home.glob("config/jupyter-slurm/clusters.d/*.toml")
        text = profile.read_text().replace(str(home), str(self.other.home))
        self.other.write(str(profile.relative_to(home)), text)

    def as_other(
        self, *argv: str, more: Mapping[str, str] | None = None, **settings: Any
    ) -> subprocess.Popen[str]:
        """Start a program as the other user, with `more` in its environment."""
        env = clean_environment() | jupyter_homes(self.other.home)
        env |= {"HOME": str(self.other.home), "USER": self.other.name, "PYTHONPATH": str(ROOT)}
        env |= more or {}
        return subprocess.Popen(
            argv,
            user=self.other.name,
            group=self.other.name,
            extra_groups=[],
            env=env,
            cwd=self.other.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **settings,
        )


@pytest.fixture(scope="module")
def ground(ssh_keeper: Keeper, engines_python: Path) -> Iterator[Ground]:
    """Yield a cluster of two nodes for the test's user and another."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    folder = make_folder(ssh_keeper, "two-")
    home = folder / "cluster"
    python = everybodys(engines_python, folder)
    with running_cluster(home, nodes=2, cpus=16, memory_mib=65536) as cluster:
        open_to_others(cluster, home)
        yield Ground(cluster, python, make_account(ssh_keeper, folder), folder)


@pytest.fixture
def site(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site(ground.cluster, tmp_path, monkeypatch, python=str(ground.python))
    yield site
    for job in site.service.jobs():
        if not job.state.final:
            site.service.cancel(job.id)
            site.wait(job.id)
    site.service.close()


# --- two jobs of one user and one of another ---

RAY = """
import os, time
@ray.remote(num_cpus=1)
class Mine:
    def uid(self):
        return os.getuid()
mine = Mine.options(name={who!r}, namespace="of all").remote()
uid = ray.get(mine.uid.remote())
open({{runs!r}}, "w").close()
seen = set()
while not os.path.exists({{goes!r}}):
    seen |= {{{{one["name"] for one in ray.util.list_named_actors(all_namespaces=True)}}}}
    time.sleep(0.2)
seen, nodes, uid_again = sorted(seen), len(ray.nodes()), ray.get(mine.uid.remote())
"""
NAMES_OUT = ("seen", "nodes", "uid", "uid_again")
ON_ONE_NODE = {"nodes": "1", "nodelist": "n1", "cpus-per-task": "4"}


def test_ray_clusters_on_one_node_stay_separate(site: Site, ground: Ground, tmp_path: Path) -> None:
    """Two of the three clusters belong to one user. The end of a cluster does not affect the
    others."""
    jobs = [
        EngineJob(
            *(site, tmp_path / who, "ray", RAY.format(who=who)),
            options=ON_ONE_NODE,
            names_out=NAMES_OUT,
        )
        for who in ("first", "second")
    ]
    ground.lend_profile(tmp_path)
    runs, goes = ground.other.home / "runs", ground.other.home / "goes"
    code = RAY.format(who="third").format(runs=str(runs), goes=str(goes))
    third = ground.as_other(sys.executable, "-c", SUBMITS, stdin=subprocess.PIPE)
    assert third.stdin is not None
    json.dump((code, ON_ONE_NODE, NAMES_OUT), third.stdin)
    third.stdin.close()
    third.stdin = None
    wait_until(lambda: runs.exists() or third.poll() is not None, 120)
    assert third.poll() is None, third.communicate()[0]
    assert not [one for job in jobs for one in [site.service.job(job.id)] if one.state.final]
    folders = [one for job in jobs for one in job.folders()]
    site.service.cancel(jobs[0].id)
    assert site.wait(jobs[0].id).state is JobState.CANCELLED
    assert jobs[1].finish().state is JobState.COMPLETED, jobs[1].told()
    own = os.getuid()
    found = read_result_variables(site.service.result(jobs[1].id))
    assert found == {"seen": ["second"], "nodes": 1, "uid": own, "uid_again": own}
    wait_until(lambda: not [one for one in folders if one.exists()])
    goes.touch()
    said, _ = third.communicate(timeout=100)
    theirs = ground.other.uid
    state, _, values = said.strip().rpartition("\n")[2].partition(" ")
    assert state == JobState.COMPLETED.value, said
    assert json.loads(values) == {
        "seen": ["third"],
        "nodes": 1,
        "uid": theirs,
        "uid_again": theirs,
    }


# --- access by another user ---

MARK = "the-jobs-own-data"
WAITS = """
open({runs!r}, "w").close()
while not os.path.exists({goes!r}):
    time.sleep(0.05)
"""
CODE = {
    "ray": f"""
import os, time
@ray.remote(num_cpus=0)
class Kept:
    def tell(self):
        return {MARK!r}
kept = Kept.options(name={MARK!r}).remote()
told, put = ray.get(kept.tell.remote()), ray.put({MARK!r})
{WAITS}""",
    "dask": f"""
import os, time
kept = client.scatter({MARK!r}, broadcast=True)
told = client.submit(str, kept, key={MARK!r}).result()
{WAITS}""",
}


class Neighbour:
    """The other user, on the node of a job with an engine and a TensorBoard."""

    def __init__(self, ground: Ground, job: EngineJob) -> None:
        self.ground, self.job = ground, job
        self.folder = Path(job.site.service.job(job.id).job_dir or "")
        self.processes = job.processes()
        self.ports: dict[str, str] = {}
        """Programs by listening address."""
        self.sockets: set[str] = set()
        for seen in self.processes:
            with suppress(psutil.Error):
                for one in seen.process.net_connections("all"):
                    if one.family is socket.AF_UNIX and one.laddr:
                        self.sockets.add(str(one.laddr))
                    elif one.status == psutil.CONN_LISTEN:
                        self.ports[self.at(one.laddr)] = " ".join(seen.argv)

    @property
    def ip(self) -> str:
        """Return this node's address for other nodes."""
        world = json.loads((self.folder / "world.0.json").read_bytes())
        return str(world["nodes"][0]["address"])

    def at(self, address: Any) -> str:
        """Return a listening address in the form that other users connect to."""
        host = address.ip.removeprefix("::ffff:")
        return f"{self.ip if host in {'::', '0.0.0.0'} else host}:{address.port}"

    def still_open(self) -> set[str]:
        """Return the listening ports."""
        seen = psutil.net_connections("tcp")
        return {self.at(one.laddr) for one in seen if one.status == psutil.CONN_LISTEN}

    def of(self, *words: str) -> list[str]:
        """Return the ports of programs with any of these words in their command lines."""
        return [at for at, argv in self.ports.items() if any(word in argv for word in words)]

    def run(self, code: str, *argv: str, stdin: str = "", **env: str) -> tuple[int, str]:
        """Run a program as the other user."""
        words = [str(self.ground.python), "-c", code, *argv]
        process = self.ground.as_other(*words, stdin=subprocess.PIPE, more=env)
        said, _ = process.communicate(stdin, timeout=250)
        return process.returncode, said

    def secrets(self) -> dict[str, str]:
        """Return every secret that gives access, by its use."""
        key = (self.folder / "key").read_bytes().strip()
        found = {
            "key": key.decode(),
            "launch": hmac.digest(key, b"launch", "sha256").hex(),
            "ray": hmac.digest(key, b"ray 0", "sha256").hex(),
            "dask": dask_certificate(key)[1].decode().splitlines()[1],
        }
        entry = self.job.site.service.dashboard_entry(self.job.id, "tensorboard")
        return found | {"dashboard": entry.login_url.removeprefix("http://").partition(":")[0]}

    def knock(self) -> None:
        """Try all ports, files and processes without secrets, and assert that nothing can be
        read."""
        asked = {
            "ports": [(at.rpartition(":")[0], int(at.rpartition(":")[2])) for at in self.ports],
            "sockets": sorted(self.sockets),
            "places": [*map(str, (self.folder, *self.job.folders(), *self.job.memory()))],
            "pids": [seen.process.pid for seen in self.processes],
            "uid": os.getuid(),
        }
        code, said = self.run(KNOCKS, stdin=json.dumps(asked))
        assert code == 0, said
        told = json.loads(said)
        secrets = self.secrets()
        marks = (MARK, self.job.id, str(self.folder), *secrets.values())
        for port, heard in told["ports"]:
            assert not [mark for mark in marks if mark in heard], (port, heard)
            # Any user can read Ray's page. It is empty so far.
            assert "200 OK" not in heard or "<title>Ray Dashboard" in heard, (port, heard)
        for path, heard in told["sockets"].items():
            assert heard in {"PermissionError", ""}, (path, heard)
            assert heard == "PermissionError" or path.startswith("@"), path
        assert told["read"] == []
        assert told["words"]
        for name, secret in secrets.items():
            assert not [words for words in told["words"] if secret in words], name

    def no_secret_is_told(self, home: Path) -> None:
        """Assert that secrets are only in their private files, and in no other file of the user,
        Slurm or the engine."""
        secrets = {name: secret.encode() for name, secret in self.secrets().items()}
        places = (home, self.ground.cluster.folder, *self.job.folders())
        found = set()
        for path in [
            Path(top, name)
            for place in places
            # os.walk, unlike rglob, allows folders to disappear
            for top, _, names in os.walk(place)
            for name in names
        ]:
            with suppress(FileNotFoundError):  # the file has just disappeared
                if not path.is_file() or not any(
                    secret in data for data in [path.read_bytes()] for secret in secrets.values()
                ):
                    continue
                assert path.stat().st_mode & 0o077 == 0, path
                found.add(path.name)
        own = {"ray": {"token.0", "token.1"}, "dask": {"tls.key"}}
        # The secret is in the job's folder, named `key`, and on this machine, named by the job's
        # ID. The discarded file opens Ray's dashboard, if Ray has one.
        found.discard("dashboards.0.json")
        assert found == {"key", self.job.id} | own.get(self.job.engine, set())
        output = str(self.job.site.service.logs(self.job.id, budget_bytes=None))
        assert not [name for name, secret in secrets.items() if secret.decode() in output]


@pytest.fixture(params=["ray", "dask"])
def neighbour(
    request: pytest.FixtureRequest, site: Site, ground: Ground, tmp_path: Path
) -> Iterator[Neighbour]:
    engine = request.param
    job = EngineJob(
        *(site, tmp_path / "job", engine, CODE[engine]),
        names_out=("told",),
        tensorboard=str(tmp_path / "logs"),
    )
    for name in ("tensorboard", *([engine] if engine == "dask" else [])):
        site.service.dashboard_entry(job.id, name, 60.0)
    yield Neighbour(ground, job)
    ended = job.finish()
    assert ended.state is JobState.COMPLETED, job.told()
    assert read_result_variables(site.service.result(job.id)) == {"told": MARK}


def test_another_user_of_the_node_cannot_use_the_engine(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    engine = neighbour.job.engine
    neighbour.knock()
    neighbour.no_secret_is_told(tmp_path)
    {"ray": not_into_ray, "dask": not_into_dask}[engine](neighbour)


def not_into_ray(neighbour: Neighbour) -> None:
    told = json.loads((neighbour.folder / "engine.0.json").read_bytes())
    for env in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}):
        code, said = neighbour.run(RAYS_CLIENT, told["address"], **env)
        assert code
        assert "NodeName" not in said
        assert "authentication" in said.lower(), said
    ports = neighbour.of("/raylet/raylet", "gcs_server", "ray::", "ray.util.client", "/runner.py")
    code, said = neighbour.run(RAYS_CALLS, *ports)
    found = json.loads(said.splitlines()[-1])
    assert len(found) == len(ports)
    still = neighbour.still_open()
    for at, codes in found.items():
        # Ray ends idle workers, which are then unavailable.
        gone = set() if at in still else {"UNAVAILABLE"}
        assert set(codes) <= {"UNAUTHENTICATED", "UNIMPLEMENTED"} | gone, (at, neighbour.ports[at])
    assert sum("UNAUTHENTICATED" in codes for codes in found.values()) >= 5, found


def not_into_dask(neighbour: Neighbour) -> None:
    told = json.loads((neighbour.folder / "engine.0.json").read_bytes())
    theirs = [
        neighbour.ground.other.write(name, data.decode())
        for name, data in zip(("tls.pem", "tls.key"), dask_certificate(b"their own"), strict=True)
    ]
    ports = neighbour.of("launch_dask.py", "multiprocessing")
    assert len(ports) == 5, neighbour.ports
    _, said = neighbour.run(DASKS_CLIENT, told["address"], *map(str, theirs), *ports)
    lines = [line for line in said.splitlines() if line.startswith(("came", "stayed"))]
    assert len(lines) == 2 + 2 * len(ports), said
    assert not [line for line in lines if line.startswith("came")], said
