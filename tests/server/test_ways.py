"""Servers with a password, with TLS, on a Unix socket, and with another base URL."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from jupyter_slurm.agent import via_jupyter_server
from jupyter_slurm.agent.place import SOCKET_VARIABLE
from jupyter_slurm.client import connect
from tests.server.served import (
    API,
    Client,
    Served,
    environment,
    memory_agent,
    running_server,
)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate for localhost, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    pem = serialization.Encoding.PEM
    cert.write_bytes(signed.public_bytes(pem))
    kept = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, kept))
    return cert, secret


Serve = Callable[[str], Served]
WAYS = ("tls", "socket", "base")


@pytest.fixture(scope="module")
def serve(home: Path) -> Iterator[Serve]:
    """Yield a function: `serve("tls")` starts a server of this kind. All share one agent."""
    env = environment(home)
    cert, key = certificate(home)
    configs = {
        "tls": f"c.ServerApp.certfile = {str(cert)!r}\nc.ServerApp.keyfile = {str(key)!r}\n",
        "socket": f"del c.ServerApp['port']\nc.ServerApp.sock = {str(home / 'jupyter.sock')!r}\n",
        "base": "c.ServerApp.base_url = '/user/ada%20l%C3%B6velace/'\n",
        "password": "",
    }
    with memory_agent(env):
        started: dict[str, Served] = {}
        servers = []

        def start(way: str) -> Served:
            if way not in started:
                place = home / way
                place.mkdir()
                token = "" if way == "password" else None
                servers.append(running_server(env, place, configs[way], token=token))
                started[way] = servers[-1].__enter__()
            return started[way]

        yield start
        for server in servers:
            server.__exit__(None, None, None)


@pytest.mark.parametrize("way", WAYS)
def test_server_answers_calls_and_watches(serve: Serve, way: str) -> None:
    served = serve(way)
    client = served.client()
    assert client.call("clusters")[0]["name"] == "here"
    with client.watch() as page:
        page.say(watch=1, call="changes")
        assert page.value(1)["whole"]
    assert served.stranger().get(f"{API}clusters").status == 403


def test_password_server_serves_logged_in_users(serve: Serve) -> None:
    served = serve("password")
    assert Client(served.url, "").get(f"{API}clusters").status == 403
    page = served.stranger().log_in()
    assert page.call("clusters")[0]["name"] == "here"
    with page.watch(served.url.rstrip("/")) as line:
        line.say(watch=1, call="changes")
        assert line.value(1)["whole"]


# --- kernels without access to the socket ---------------------------------------------------------

Kernel = Callable[[Served], None]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> Kernel:
    """Return a function: `kernel(served)` makes this process a kernel of that server."""

    def become(served: Served) -> None:
        for name in ("DATA", "CONFIG"):
            monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name))
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", served.env["JUPYTER_RUNTIME_DIR"])
        monkeypatch.setenv("JPY_PARENT_PID", str(served.pid))
        monkeypatch.setenv("SSL_CERT_FILE", str(home / "cert.pem"))
        monkeypatch.setenv(SOCKET_VARIABLE, "/nowhere/here/agent.sock")
        for name in ("URL", "TOKEN"):
            monkeypatch.delenv(f"JUPYTERHUB_SERVICE_{name}", raising=False)
        monkeypatch.delenv("JUPYTERHUB_API_TOKEN", raising=False)
        monkeypatch.setattr(via_jupyter_server, "_PAUSES_S", (0.0, 0.01))

    return become


@pytest.mark.parametrize("way", WAYS)
def test_kernel_without_the_socket_calls_the_agent_through_its_server(
    serve: Serve, kernel: Kernel, way: str
) -> None:
    served = serve(way)
    kernel(served)
    api = connect()
    assert api.status().pid == served.client().call("status")["pid"]
    assert api.changes(wait_s=0.1).whole
    with pytest.raises(Exception, match="Job 'nobody' not found"):
        api.job("nobody")


def test_kernel_under_jupyterhub_uses_the_servers_token(
    serve: Serve, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve("base")
    kernel(served)
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", served.url.rstrip("/"))
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", served.token)
    assert connect().clusters()[0].name == "here"
