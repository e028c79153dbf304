"""Failures between nodes on separate machines. Each has its own message, and leaves nothing on any
node. Slurm, PyTorch, Open MPI and packet filters are real."""

from __future__ import annotations

import hmac
import secrets
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from jupyter_slurm.job import read_result_variables
from jupyter_slurm.wire import Job, JobState
from tests.cluster.machines import ADDRESSES, OWN_PORTS, Machines
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.jobs.test_many_nodes import MPI, OF_THIS_MACHINE, TORCH, text_of
from tests.ssh.accounts import add_user, new_name
from tests.ssh.kept import Keeper
from tests.ssh.processes import words_of
from tests.ssh.waiting import wait_until

TOLD_S = 90.0
"""Maximum seconds from the start of a job to its error message."""
ENDED_S = 60.0
"""Seconds for which slurmstepd tries to report the end of a step on a disconnected node."""
FIREWALL = (
    "Check for a firewall between the nodes. If they share another network, set `interface` in the "
    "cluster's profile to its interface."
)


@pytest.fixture
def apart(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Yield a site on these nodes. Assert that the test leaves nothing on them."""
    machines.wait_until_idle()
    running, before = machines.running(), machines.traces()
    home = machines.folder / f"site{secrets.token_hex(3)}"  # the nodes have their own /tmp
    home.mkdir()
    monkeypatch.chdir(home)
    site = Site(cast(SlurmCluster, machines), home, monkeypatch)
    yield site
    site.service.close()

    def left() -> str:
        return "\n".join(
            f"{name}: {one}"
            for name, found in machines.traces().items()
            for one in found
            if one not in before[name]
        )

    # Check processes first. They end last, and the other checks run programs on each node.
    wait_until(lambda: machines.running() == running and machines.traces() == before, ENDED_S, left)


def failure(site: Site, job: Job, name: str = "LaunchError") -> str:
    """Return the error of a job that could not start. Check that it was reported in time."""
    result = site.service.result(job.id)
    assert job.state is JobState.FAILED, site.outputs(job.id)
    assert result.ename == name, site.outputs(job.id)
    assert job.ended_s is not None
    assert job.started_s is not None
    assert job.ended_s - job.started_s < TOLD_S
    assert result.evalue is not None
    return result.evalue


@pytest.fixture
def stranger(ssh_keeper: Keeper) -> str:
    """Return the name of another user of the nodes."""
    name = new_name()
    add_user(ssh_keeper, name, Path("/nonexistent"))
    return name


def test_node_whose_name_resolves_to_localhost_works(apart: Site, machines: Machines) -> None:
    """The nodes also lack `scontrol`, and the engines' ports are taken."""
    for node in machines.nodes.values():
        told = node.machine.run("getent", "hosts", node.name).stdout
        assert told.split()[0] == "127.0.0.1"
        assert node.machine.run("scontrol", "-V", check=False).returncode
    job = apart.run(
        TORCH.replace("data[rank]", "rank"),
        launch="torchrun",
        options={"nodes": "3", "ntasks-per-node": "2"},
        names_gather=("mine",),
    )
    assert job.state is JobState.COMPLETED, apart.outputs(job.id)
    found = read_result_variables(apart.service.result(job.id))
    assert found == {"mine": [0, 10, 20, 30, 40, 50]}
    said = {text_of(apart, job, rank).split()[-1] for rank in range(6)}
    assert said == set(ADDRESSES)


def test_mpi_runs_in_an_image_without_the_folder_of_slurmd(apart: Site, demo_image: Path) -> None:
    """PMIx's server keeps its files in slurmd's folder. Its clients report that they cannot see the
    files."""
    job = apart.run(
        MPI,
        launch="mpi",
        image=str(demo_image),
        mounts=OF_THIS_MACHINE,
        options={"nodes": "3", "ntasks-per-node": "2"},
        names_gather=("mine",),
    )
    assert job.state is JobState.COMPLETED, apart.outputs(job.id)
    found = read_result_variables(apart.service.result(job.id))
    assert found == {"mine": [0, 10, 20, 30, 40, 50]}
    assert apart.text(job.id, "stderr") == ""


def blocked(source: str) -> str:
    """Return a rule of iptables that matches everything but Slurm's own traffic."""
    return f"-p tcp --syn -s {ADDRESSES[source]} -m multiport ! --dports {OWN_PORTS}"


def test_firewall_in_front_of_the_launcher_is_reported(apart: Site, machines: Machines) -> None:
    with machines.nodes["n1"].firewall(blocked("n2")):
        job = apart.run("pass", launch="torchrun", options={"nodes": "3"})
    sentence = f"n2 cannot reach n1 at 10.78.2.11: timed out. {FIREWALL}"
    assert failure(apart, job) == sentence
    assert apart.text(job.id, "stderr") == f"jupyter-slurm: {sentence}\n"


def test_lost_first_node_is_reported(apart: Site, machines: Machines, ssh_keeper: Keeper) -> None:
    """The first node runs the job's script. Slurm would report NODE_FAIL only after a minute
    or more."""
    code = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    job = apart.service.submit(spec(code, launch="torchrun", options={"nodes": "3"}))
    wait_until(lambda: "begun" in apart.so_far(job.id), 60)
    with machines.nodes["n1"].without_power(ssh_keeper):
        job = apart.wait(job.id)
        assert "n1 is gone" in apart.text(job.id, "stderr")
    assert (job.state, job.why) == (JobState.FAILED, "n1 was lost while the job ran.")
    machines.wait_until_idle()


STRANGER = r"""
import os, socket, struct, sys
folder, *ports = sys.argv[1:]
for port in ports:
    address, number = port.rsplit(":", 1)
    for said in (b"", b"GET / HTTP/1.0\r\n\r\n", os.urandom(64)):
        sock = socket.create_connection((address, int(number)), 50)
        sock.settimeout(50)
        sock.sendall(said)
        if not said:
            sock.shutdown(socket.SHUT_WR)
        heard = b""
        try:
            while more := sock.recv(4096):
                heard += more
        except ConnectionResetError:
            pass
        print(port, len(heard))
for name in ("key", "launch.json", "."):
    try:
        print(os.listdir(folder) if name == "." else open(folder + "/" + name, "rb").read())
    except PermissionError:
        print("no", name)
"""


def test_another_user_of_the_nodes_cannot_join_the_launch(
    apart: Site, machines: Machines, stranger: str
) -> None:
    """The launcher on n1 listens while it waits for n2."""
    node = machines.nodes["n1"]
    with machines.nodes["n2"].late():
        job = apart.service.submit(spec("print('done')", launch="torchrun", options={"nodes": "3"}))
        apart.wait(job.id, JobState.RUNNING)
        (folder,) = machines.folder.glob(f"site*/it's a root/{job.id}")
        wait_until(partial(node.listening, "launch"), 60)
        [port] = [one.replace("0.0.0.0", node.address) for one in node.listening("launch")]
        told = node.machine.run(
            "/usr/bin/python3", "-c", STRANGER, str(folder), port, user=stranger, timeout=200
        ).stdout.splitlines()
        assert told == [f"{port} 0"] * 3 + ["no key", "no launch.json", "no ."]
        words = [" ".join(words_of(one)) for one in node.machine.processes(0)]
    job = apart.wait(job.id)
    assert job.state is JobState.COMPLETED, apart.outputs(job.id)
    secret = (folder / "key").read_bytes().strip()
    derived = hmac.new(secret, b"launch", "sha256").hexdigest()
    for one in (secret.decode(), derived):
        assert not any(one in line for line in words)
        assert one not in str(apart.outputs(job.id))
        for path in folder.rglob("*"):
            if path.is_file() and path.name != "key":
                assert one.encode() not in path.read_bytes(), path


def test_mpi_ranks_reject_a_world_of_size_one(apart: Site) -> None:
    """The test simulates an Open MPI that does not detect Slurm."""
    alone = """
    import os
    for name in list(os.environ):
        if name.startswith(("PMIX_", "SLURM_")) and name != "SLURM_MPI_TYPE":
            del os.environ[name]
    """
    job = apart.run(
        textwrap.dedent(alone) + MPI, launch="mpi", options={"nodes": "2", "ntasks": "2"}
    )
    told = failure(apart, job, "WrongWorld")
    assert told == (
        "MPI made a world of size 1, not 2: it does not support --mpi=pmix. "
        "`srun --mpi=list` names pmix, pmi2. Choose another type with --mpi NAME."
    )
    assert text_of(apart, job) == ""
