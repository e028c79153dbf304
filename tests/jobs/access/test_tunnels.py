"""Tunnels of a Service on a real Slurm: their routes and lifetime."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.errors import ForwardError, NotFoundError, RequestError
from jupyter_slurm.jobs.access import node_routes, tunnels
from jupyter_slurm.transport import Answered
from jupyter_slurm.wire import Job, JobState, Tunnel
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.accounts import PLAIN_SHELL, oneself
from tests.ssh.plugin import MakeSshd
from tests.ssh.waiting import wait_until
from tests.transport.carrier import Carrier, Connect, echo, everything, sent, service

SLEEP = "import time; time.sleep(600)"
MEGABYTE = random.Random(3).randbytes(1 << 20)


class Network(Carrier):
    """The network of the login node. Names in `here` resolve to this machine, and those in
    `unknown` fail."""

    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.here: set[str] = set()
        self.unknown: set[str] = set()

    def connect(self, sock: socket.socket, host: str, port: int, answered: Answered) -> None:
        if host in self.unknown:
            answered(ForwardError(f"{host} cannot be reached."))
        else:
            super().connect(sock, "127.0.0.1" if host in self.here else host, port, answered)


@pytest.fixture
def network(site: Site, monkeypatch: pytest.MonkeyPatch) -> Network:
    """Replace the real network, in which nodes have no names."""
    transport = site.service._clusters.named(None).transport
    network = Network(transport.connect)
    monkeypatch.setattr(transport, "connect", network.connect)
    return network


@pytest.fixture
def running(site: Site) -> Iterator[Callable[[], Job]]:
    """Yield a factory of jobs that run until the test ends."""
    made: list[str] = []

    def make() -> Job:
        made.append(site.service.submit(spec(SLEEP)).id)
        return site.wait(made[-1], JobState.RUNNING)

    yield make
    for job_id in made:
        site.service.cancel(job_id)
        site.wait(job_id)


def connected(tunnel: Tunnel) -> socket.socket:
    return socket.create_connection(("127.0.0.1", tunnel.local_port), 60)


def echoes(tunnel: Tunnel, data: bytes = b"hello") -> bool:
    with connected(tunnel) as sock, sent(sock, data):
        return everything(sock) == data


def is_reset(tunnel: Tunnel) -> bool:
    try:
        with connected(tunnel) as sock:
            sock.recv(1)
    except ConnectionResetError:
        return True
    return False


def now(site: Site, tunnel: Tunnel) -> Tunnel:
    [found] = [one for one in site.service.tunnels() if one.id == tunnel.id]
    return found


def relays(site: Site, job: Job) -> list[psutil.Process]:
    """Return the relay's processes in the job."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environment = process.environ()
            if environment.get("SLURM_JOB_ID") != job.slurm_id:
                continue
            # Jobs of other test clusters have the same IDs.
            ours = environment.get("SLURM_CONF") == str(site.cluster.conf)
            if ours and any('"relay.py"' in word for word in process.cmdline()):
                found.append(process)
    return found


@over_ssh
def test_tunnel_without_a_job_starts_at_the_login_node(site: Site, network: Network) -> None:
    with service(echo) as port:
        tunnel = site.service.forward("127.0.0.1", port)
        assert echoes(tunnel, MEGABYTE)
    assert (tunnel.cluster, tunnel.route, tunnel.job_id) == ("local", "direct", None)
    assert (tunnel.host, tunnel.port, tunnel.problem) == ("127.0.0.1", port, None)


@over_ssh
def test_tunnel_to_an_unknown_host_is_rejected(site: Site) -> None:
    with pytest.raises(ForwardError, match="nohost"):
        site.service.forward("nohost", 22)
    assert site.service.tunnels() == []
    assert site.service.forward("localhost", 22).local_port


def test_same_target_gives_the_same_tunnel_until_it_is_closed(site: Site) -> None:
    tunnel = site.service.forward("127.0.0.1", 80)
    assert site.service.forward("127.0.0.1", 80) == tunnel
    assert site.service.forward("127.0.0.1", 80, local_port=tunnel.local_port) == tunnel
    other = site.service.forward("127.0.0.1", 81)
    assert site.service.tunnels() == [tunnel, other]
    site.service.close_tunnel(tunnel.id)
    assert site.service.tunnels() == [other]
    with pytest.raises(NotFoundError, match=tunnel.id):
        site.service.close_tunnel(tunnel.id)
    with pytest.raises(ConnectionRefusedError):
        connected(tunnel)


@pytest.mark.parametrize(
    ("host", "port"),
    [("", 80), ("c1", 65536), ("a b", 80), ("/a", 80)],
)
def test_invalid_host_and_port_are_rejected(site: Site, host: str, port: int) -> None:
    with pytest.raises(RequestError, match="is not HOST:PORT"):
        site.service.forward(host, port)


def test_next_agent_reopens_tunnels_at_the_same_ports(
    site: Site, running: Callable[[], Job]
) -> None:
    running_job, ended_job = running(), running()
    kept = [site.service.forward("localhost", 80, job_id=one) for one in (None, running_job.id)]
    closed = site.service.forward("localhost", 81)
    site.service.close_tunnel(closed.id)
    site.service.forward("localhost", 80, job_id=ended_job.id)
    site.service.cancel(ended_job.id)
    site.wait(ended_job.id)
    site.restart()
    opened = [(one.port, one.job_id, one.local_port) for one in site.service.tunnels()]
    assert opened == [(one.port, one.job_id, one.local_port) for one in kept]


def test_tunnel_needs_a_running_job(site: Site) -> None:
    job = site.service.submit(spec("1", options={"hold": ""}))
    with pytest.raises(ForwardError, match=f"Job {job.id} is not running: it is PENDING"):
        site.service.forward("localhost", 80, job_id=job.id)
    site.service.cancel(job.id)
    with pytest.raises(NotFoundError):
        site.service.forward("localhost", 80, job_id="nosuchjob")


@over_ssh
def test_one_relay_serves_all_tunnels_to_the_nodes_localhost(
    site: Site, network: Network, running: Callable[[], Job]
) -> None:
    job = running()
    network.here = set(job.nodes)
    with service(echo) as one, service(echo) as other:
        opened = [site.service.forward("localhost", port, job_id=job.id) for port in (one, other)]
        assert all(echoes(tunnel, MEGABYTE) for tunnel in opened)
        wait_until(lambda: {now(site, tunnel).route for tunnel in opened} == {"relay"})
        assert network.tries == 0
        [far_end] = relays(site, job)
        site.service.close_tunnel(opened[0].id)
        assert echoes(opened[1])
        site.service.close_tunnel(opened[1].id)
        far_end.wait(60)


@over_ssh
def test_unix_socket_of_the_node_is_reached_by_the_relay(
    site: Site, running: Callable[[], Job], tmp_path: Path
) -> None:
    path = str(tmp_path / "tool's socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        tunnel = site.service.forward(path, 0, job_id=running().id)
        with connected(tunnel) as sock:
            sock.sendall(b"hello")
            with listener.accept()[0] as there:
                assert there.recv(5) == b"hello"
    assert (tunnel.host, tunnel.port, tunnel.route) == (path, 0, "relay")
    assert is_reset(tunnel)
    problem = now(site, tunnel).problem
    assert problem is not None
    assert path in str(problem.message)
    site.service.close_tunnel(tunnel.id)


@over_ssh
def test_reachable_node_is_reached_directly(
    site: Site, network: Network, running: Callable[[], Job]
) -> None:
    job = running()
    network.here = set(job.nodes)
    with service(echo) as port:
        tunnel = site.service.forward(job.nodes[0], port, job_id=job.slurm_id)
        assert echoes(tunnel)
        wait_until(lambda: now(site, tunnel).route == "direct")
    assert tunnel.job_id == job.id
    assert not relays(site, job)


@over_ssh
def test_unreachable_node_is_reached_by_the_relay(
    site: Site, network: Network, running: Callable[[], Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The login node does not know this name. In the job it is this machine's name.
    host = "127.1"
    network.unknown = {host}
    monkeypatch.setattr(node_routes, "is_loopback", lambda host: False)
    monkeypatch.setattr(tunnels, "is_loopback", lambda host: False)
    job = running()
    with service(echo) as port, service(echo) as other:
        tunnel = site.service.forward(host, port, job_id=job.id)
        assert tunnel.route == "direct"
        assert echoes(tunnel)
        wait_until(lambda: now(site, tunnel).route == "relay")
        later = site.service.forward(host, other, job_id=job.id)
        assert later.route == "relay"


def test_sshd_can_forbid_tunnels_to_the_login_node_but_not_into_jobs(
    slurm_cluster: SlurmCluster,
    make_sshd: MakeSshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sshd = make_sshd("DisableForwarding yes", PLAIN_SHELL, account=oneself())
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=sshd)
    try:
        job = site.wait(site.service.submit(spec(SLEEP)).id, JobState.RUNNING)
        with service(echo) as port:
            tunnel = site.service.forward("127.0.0.1", port)
            assert is_reset(tunnel)
            problem = now(site, tunnel).problem
            assert problem is not None
            assert "does not forward ports" in problem.message
            assert echoes(site.service.forward("localhost", port, job_id=job.id))
        site.service.cancel(job.id)
        site.wait(job.id)
    finally:
        site.service.close()


@over_ssh
def test_end_of_the_job_resets_connections_and_is_reported(
    site: Site, network: Network, running: Callable[[], Job]
) -> None:
    def write_for_ever(sock: socket.socket) -> None:
        while True:
            sock.sendall(bytes(65_536))

    job = running()
    with service(write_for_ever) as port:
        tunnel = site.service.forward("localhost", port, job_id=job.id)
        with connected(tunnel) as sock:
            assert sock.recv(65_536)
            wait_until(lambda: now(site, tunnel).connections == 1)
            site.service.cancel(job.id)
            with pytest.raises(ConnectionResetError):
                everything(sock)
        site.wait(job.id)
        assert is_reset(tunnel)
    told = now(site, tunnel)
    assert told.problem is not None
    assert str(told.problem.message) == f"Job {job.id} has ended: it is CANCELLED."
    assert told.connections == 0
    wait_until(lambda: not relays(site, job))


@over_ssh
def test_connection_waits_until_a_lost_cluster_is_reachable(site: Site, network: Network) -> None:
    with service(echo) as port:
        tunnel = site.service.forward("127.0.0.1", port)
        network.lost.set()
        with connected(tunnel) as sock, sent(sock, b"hello"):
            with network.tried:
                assert network.tried.wait_for(lambda: network.tries > 1, 60)
            problem = now(site, tunnel).problem
            assert problem is not None
            assert problem.code == "connection-lost"
            network.lost.clear()
            assert everything(sock) == b"hello"
        wait_until(lambda: now(site, tunnel).problem is None)
