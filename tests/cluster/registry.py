"""A real registry of images on this machine, which wants a name and a password, with and without
TLS; a silent one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import bcrypt
import pytest

from tests.cluster.docker import DockerEngine
from tests.ssh.kept import keeping
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: '{folder}/images'}}}}
http: {{addr: '{address}'{tls}}}
auth: {{htpasswd: {{realm: tests, path: '{folder}/passwords'}}}}
"""


@dataclass(frozen=True)
class Registry:
    address: str
    """As images' names begin. Docker asks one on this machine without TLS."""
    secure: str
    """The same, by way of TLS."""
    certificate: Path
    user: str = "$oauthtoken"
    password: str = "it's a $ecret"

    def log_in(self, engine: DockerEngine) -> None:
        words = ("--username", self.user, "--password-stdin", self.address)
        engine.run("login", *words, stdin=self.password)

    def log_out(self, engine: DockerEngine) -> None:
        engine.run("logout", self.address)

    def push(self, engine: DockerEngine, image: str, name: str) -> str:
        """What the image is called in the registry; the engine has forgotten it then."""
        full = f"{self.address}/{name}"
        self.log_in(engine)
        engine.run("tag", image, full)
        engine.run("push", "--quiet", full)
        engine.run("rmi", full)
        self.log_out(engine)
        return full


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("registry")
    certificate, key = folder / "certificate", folder / "key"
    words = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key)]
    subprocess.run(
        ["openssl", *words, "-out", certificate], check=True, capture_output=True, timeout=60
    )
    registry = Registry(f"localhost:{free_port()}", f"localhost:{free_port()}", certificate)
    hashed = bcrypt.hashpw(registry.password.encode(), bcrypt.gensalt(4)).decode()
    (folder / "passwords").write_text(f"{registry.user}:{hashed}\n")
    tls = f", tls: {{certificate: '{certificate}', key: '{key}'}}"
    with keeping() as keeper:
        for name, more in ((registry.address, ""), (registry.secure, tls)):
            address = name.replace("localhost", "127.0.0.1")
            config = folder / f"{name}.yml"
            config.write_text(_CONFIG.format(folder=folder, address=address, tls=more))
            keeper.start(["docker-registry", "serve", str(config)], folder / f"{name}.log")
        for name in (registry.address, registry.secure):
            wait_until(partial(_listens, name), _PATIENCE_S)
        yield registry
    shutil.rmtree(folder)


def _listens(address: str) -> bool:
    try:
        port = int(address.rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), _PATIENCE_S).close()
    except OSError:
        return False
    return True


@contextmanager
def silent_registry() -> Iterator[str]:
    """A stand-in, which takes connections and never answers: a real one cannot be made slow."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"localhost:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in taken:
            connection.close()
