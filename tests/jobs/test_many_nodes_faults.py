"""Faults between nodes that are machines of their own: each ends with its sentence, and leaves
nothing on any node. Real Slurm, PyTorch, Open MPI and packet filters."""

from __future__ import annotations

import hmac
import secrets
import textwrap
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from jupyter_slurm.job import read_result_variables
from jupyter_slurm.wire import ErrorOutput, Job, JobState
from tests.cluster.machines import ADDRESSES, OWN_PORTS, Machines
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, spec
from tests.jobs.test_engines import NAMES
from tests.jobs.test_many_nodes import MPI, OF_THIS_MACHINE, TORCH, text_of
from tests.ssh.accounts import add_user, new_name
from tests.ssh.kept import Keeper
from tests.ssh.processes import words_of
from tests.ssh.waiting import wait_until

TOLD_S = 90.0
"""The longest time from the start of a job to the sentence that says what is wrong."""
ENDED_S = 60.0
"""slurmstepd itself tries for some time to tell of the end of a step whose node was cut off."""
FIREWALL = (
    "Is there a firewall between the nodes? If they share another network, name its interface by "
    "`interface` in the cluster's profile."
)


@pytest.fixture
def apart(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site on these nodes; after the test everything there is as it was."""
    machines.wait_until_idle()
    running, before = machines.running(), machines.traces()
    home = machines.folder / f"site{secrets.token_hex(3)}"  # the nodes' /tmp is their own
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

    # Processes end last, and to look for more than these takes programs on each node.
    wait_until(lambda: machines.running() == running and machines.traces() == before, ENDED_S, left)


def failure(site: Site, job: Job, name: str = "LaunchError") -> str:
    """Return the error of a job that could not begin, which it has told in time."""
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
    """Another user of the nodes."""
    name = new_name()
    add_user(ssh_keeper, name, Path("/nonexistent"))
    return name


@pytest.mark.parametrize(("engine", "code"), [("torchrun", TORCH), ("mpi", MPI)])
def test_a_head_that_calls_itself_localhost_does_no_harm(
    apart: Site, machines: Machines, engine: str, code: str
) -> None:
    """Nor do nodes without `scontrol`, and ports of engines that others have taken."""
    for node in machines.nodes.values():
        told = node.machine.run("getent", "hosts", node.name).stdout
        assert told.split()[0] == "127.0.0.1"
        assert node.machine.run("scontrol", "-V", check=False).returncode
    job = apart.run(
        code.replace("data[rank]", "rank"),
        launch=engine,
        options={"nodes": "3", "ntasks-per-node": "2"},
        names_gather=("mine",),
    )
    assert job.state is JobState.COMPLETED, apart.outputs(job.id)
    found = read_result_variables(apart.service.result(job.id))
    assert found == {"mine": [0, 10, 20, 30, 40, 50]}
    said = {text_of(apart, job, rank).split()[-1] for rank in range(6)}
    assert said == set(ADDRESSES)


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_a_head_that_calls_itself_localhost_does_no_harm_to_an_engine(
    apart: Site, machines: Machines, engines_python: Path, engine: str
) -> None:
    apart.edit_profile(python=str(engines_python))
    apart.restart()
    options = {"nodes": "3", "cpus-per-task": "2"}
    job = apart.run(NAMES[engine], launch=engine, options=options, names_out=("names",))
    result = apart.service.result(job.id)
    assert job.state is JobState.COMPLETED, (result, apart.outputs(job.id))
    assert read_result_variables(result) == {"names": list(ADDRESSES)}


def blocked(source: str) -> str:
    """A rule of iptables: what does not belong to Slurm itself."""
    return f"-p tcp --syn -s {ADDRESSES[source]} -m multiport ! --dports {OWN_PORTS}"


def test_a_firewall_before_the_launcher_is_named(apart: Site, machines: Machines) -> None:
    with machines.nodes["n1"].firewall(blocked("n2")):
        job = apart.run("pass", launch="torchrun", options={"nodes": "3"})
    assert failure(apart, job) == (f"n2 cannot reach n1 at 10.78.2.11: timed out. {FIREWALL}")


def test_a_node_that_does_not_answer_slurm_is_named(apart: Site, machines: Machines) -> None:
    """Nor is a `Prolog` waited for longer than Slurm does: slurm.conf(5), MessageTimeout."""
    with machines.nodes["n2"].frozen():
        job = apart.run("pass", launch="mpi", options={"nodes": "3", "ntasks": "3"})
    assert failure(apart, job) == (
        "Slurm could not start n2. Slurm said: srun: error: Application launch failed: "
        "Socket timed out on send/recv operation"
    )


def test_a_node_that_cannot_answer_slurm_either_is_named(apart: Site, machines: Machines) -> None:
    with machines.nodes["n1"].firewall(f"-p tcp --syn -s {ADDRESSES['n2']}"):
        job = apart.run("pass", launch="torchrun", options={"nodes": "3"})
    assert failure(apart, job) == "n2 did not start within 45 s."


@pytest.mark.long
def test_a_node_that_is_unplugged_while_it_runs_is_named(apart: Site, machines: Machines) -> None:
    """Its ranks, too, still write here how they are ended: all nodes have one file system."""
    code = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    job = apart.service.submit(spec(code, launch="torchrun", options={"nodes": "3"}))
    wait_until(lambda: "begun" in apart.so_far(job.id), 60)
    began_s = time.monotonic()
    with machines.nodes["n2"].unplugged():
        job = apart.wait(job.id)
        told_s = time.monotonic() - began_s
    assert told_s < TOLD_S
    assert failure(apart, job, "RankLost") == "n2 was lost while the job ran."
    assert job.why == "n2 was lost while the job ran."
    shown = [one.traceback for one in apart.outputs(job.id) if isinstance(one, ErrorOutput)]
    assert shown == [("RankLost: n2 was lost while the job ran.",)]
    assert "n2 is gone" in apart.text(job.id, "stderr")


@pytest.mark.parametrize("engine", ["torchrun", "mpi"])
def test_an_image_that_one_node_lacks_is_told_with_the_node(
    apart: Site, machines: Machines, demo_image: Path, engine: str
) -> None:
    for name in ("n1", "n3"):
        (machines.nodes[name].folder / "images" / engine).symlink_to(demo_image)
    image = machines.folder / "images" / engine
    image.symlink_to(demo_image)
    job = apart.run(
        "pass",
        launch=engine,
        runtime="charliecloud",
        image=str(image),
        mounts=OF_THIS_MACHINE,
        options={"nodes": "3"},
    )
    assert job.state is JobState.FAILED, apart.outputs(job.id)
    assert str(job.why).startswith("Charliecloud could not run the container: ")
    assert str(job.why).endswith(" That was on n2 only.")


def test_a_node_that_is_half_a_minute_late_is_waited_for(apart: Site, machines: Machines) -> None:
    with machines.nodes["n2"].late():
        options = {"nodes": "3", "ntasks-per-node": "1"}
        job = apart.service.submit(spec(MPI, launch="mpi", options=options))
        apart.wait(job.id, JobState.RUNNING)
        time.sleep(30)
    job = apart.wait(job.id)
    assert job.state is JobState.COMPLETED, apart.outputs(job.id)


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


def test_another_user_of_the_nodes_gets_nothing(
    apart: Site, machines: Machines, stranger: str
) -> None:
    """While n2 is waited for, the launcher listens on n1."""
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


def test_a_world_of_one_is_refused_by_torchruns_ranks(
    apart: Site, machines: Machines, tmp_path: Path
) -> None:
    folder = machines.folder / f"python{secrets.token_hex(3)}"
    folder.mkdir()
    words = "import os\nif 'RANK' in os.environ:\n    os.environ['WORLD_SIZE'] = '1'\n"
    (folder / "sitecustomize.py").write_text(words)
    apart.edit_profile(setup=f"export PYTHONPATH={folder}")
    apart.restart()
    job = apart.run("print('alone')", launch="torchrun", options={"nodes": "2"})
    assert failure(apart, job, "WrongWorld") == (
        "torchrun told this rank that there are 1 ranks, and Slurm gave the job 2."
    )
    assert text_of(apart, job) == ""


def test_a_world_of_one_is_refused_by_the_ranks_of_mpi(apart: Site) -> None:
    """As where nothing tells Open MPI that Slurm has started it."""
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
        "MPI made a world of 1, not of 2: it does not speak --mpi=pmix. "
        "`srun --mpi=list` names pmix, pmi2 here; --mpi NAME takes another."
    )
    assert text_of(apart, job) == ""


def test_an_mpi_that_speaks_another_way_is_said_to(apart: Site) -> None:
    """Debian's Open MPI knows PMIx alone."""
    job = apart.run(MPI, launch="mpi", mpi="pmi2", options={"nodes": "2"})
    told = failure(apart, job, "WrongWorld")
    assert told == (
        "MPI did not begin: its ranks do not find each other by --mpi=pmi2. "
        "`srun --mpi=list` names pmix, pmi2 here; --mpi NAME takes another."
    )
    assert job.why == told


def test_a_node_on_which_ray_does_not_start_is_named(
    apart: Site, machines: Machines, engines_python: Path
) -> None:
    folder = machines.folder / f"ray{secrets.token_hex(3)}" / "ray"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "_version.py").write_text('version = "2.40.0"\n')
    apart.edit_profile(
        python=str(engines_python),
        setup=f'[ "$SLURMD_NODENAME" != n2 ] || export PYTHONPATH={folder.parent}',
    )
    apart.restart()
    job = apart.run("1", launch="ray", options={"nodes": "2"})
    told = failure(apart, job, "EngineError")
    assert "n2" in told
    assert "has Ray 2.40, which knows no token." in told


@pytest.mark.timeout(400)
def test_ray_starts_again_on_a_node_where_its_files_came_too_slowly(
    apart: Site, machines: Machines, engines_python: Path
) -> None:
    folder = machines.folder / f"slow{secrets.token_hex(3)}"
    folder.mkdir()
    slow = f"""
        import os, sys, time
        if any(word.endswith("dashboard/agent.py") for word in sys.orig_argv):
            try:
                os.mkdir("{folder}/" + os.environ["SLURMD_NODENAME"])
            except FileExistsError:
                pass  # the second time
            else:
                time.sleep(60)
        """
    (folder / "sitecustomize.py").write_text(textwrap.dedent(slow))
    apart.edit_profile(python=str(engines_python), setup=f"export PYTHONPATH={folder}")
    apart.restart()
    asked = spec(NAMES["ray"], launch="ray", options={"nodelist": "n1"}, names_out=("names",))
    job = apart.wait(apart.service.submit(asked).id, limit_s=300)
    assert job.state is JobState.COMPLETED, apart.outputs(job.id)
    assert read_result_variables(apart.service.result(job.id)) == {"names": ["n1"]}
    assert (folder / "n1").is_dir()
