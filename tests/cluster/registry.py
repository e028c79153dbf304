"""A real image registry on this machine that requires a name and a password, with or without TLS;
and a silent registry."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import bcrypt
import pytest

from tests.cluster.docker import DockerEngine
from tests.ssh.kept import keeping
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until

_PATIENCE_S = 60.0
_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
_PART = "application/vnd.docker.{}"
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
    """The prefix of image names. Docker uses no TLS for a registry on this machine."""
    secure: str
    """The prefix of image names with TLS."""
    certificate: Path
    user: str = "$oauthtoken"
    password: str = "it's a $ecret"

    def log_in(self, engine: DockerEngine) -> None:
        words = ("--username", self.user, "--password-stdin", self.address)
        engine.run("login", *words, stdin=self.password)

    def log_out(self, engine: DockerEngine) -> None:
        engine.run("logout", self.address)

    def push(self, engine: DockerEngine, image: str, name: str) -> str:
        """Push the image, remove it from the engine, and return its name in the registry."""
        full = f"{self.address}/{name}"
        self.log_in(engine)
        engine.run("tag", image, full)
        engine.run("push", "--quiet", full)
        engine.run("rmi", full)
        self.log_out(engine)
        return full

    def put(self, layer: Path, name: str, *tags: str) -> None:
        """Store an image with one layer, a tar file, without an engine."""
        image = json.dumps({"architecture": "amd64", "os": "linux", "config": {}}).encode()
        parts = [
            {"mediaType": _PART.format(kind), "size": len(data), "digest": self._sent(name, data)}
            for kind, data in (
                ("container.image.v1+json", image),
                ("image.rootfs.diff.tar", layer.read_bytes()),
            )
        ]
        manifest = {
            "schemaVersion": 2,
            "mediaType": _TYPE,
            "config": parts[0],
            "layers": parts[1:],
        }
        for tag in tags:
            text = json.dumps(manifest).encode()
            self._call("PUT", f"/v2/{name}/manifests/{tag}", text, _TYPE)

    def _sent(self, name: str, data: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        place = urlsplit(self._call("POST", f"/v2/{name}/blobs/uploads/"))
        self._call("PUT", f"{place.path}?{place.query}&digest={digest}", data)
        return digest

    def _call(
        self, method: str, path: str, data: bytes = b"", kind: str = "application/octet-stream"
    ) -> str:
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        told = {"Authorization": f"Basic {login}", "Content-Type": kind}
        with closing(HTTPConnection(self.address, timeout=_PATIENCE_S)) as connection:
            connection.request(method, path, data, told)
            answer = connection.getresponse()
            assert answer.status < 300, answer.read()
            return answer.headers.get("Location", "")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("registry")
    with serving(folder) as registry:
        yield registry
    shutil.rmtree(folder)


@contextmanager
def serving(folder: Path, password: str = Registry.password) -> Iterator[Registry]:
    """Run a registry with its data in `folder`."""
    certificate, key = folder / "certificate", folder / "key"
    words = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key)]
    subprocess.run(
        ["openssl", *words, "-out", certificate], check=True, capture_output=True, timeout=60
    )
    addresses = (f"localhost:{free_port()}", f"localhost:{free_port()}")
    registry = Registry(*addresses, certificate, password=password)
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


def _listens(address: str) -> bool:
    try:
        port = int(address.rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), _PATIENCE_S).close()
    except OSError:
        return False
    return True


@contextmanager
def silent_registry() -> Iterator[str]:
    """A stand-in that accepts connections and never answers. A real registry cannot be slowed
    down."""
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
