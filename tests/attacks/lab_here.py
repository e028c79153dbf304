"""A lab's local port, which the agent opens in front of a local server, and other real users of
this machine."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO, cast

from jupyter_slurm.jobs.access.labs import Labs
from jupyter_slurm.jobs.access.tunnels import Tunnels
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, Store
from jupyter_slurm.transport import Answered
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.wire import JobKind, Lab, LabStep
from tests.specs import known
from tests.transport.carrier import service

JOB_ID = "abcdefgh"
OTHER_PYTHON = "/usr/bin/python3"
"""The user ID of a user who cannot read our files."""
COOKIE = re.compile(rb"^cookie: *([^\r\n]*)", re.IGNORECASE | re.MULTILINE)


class FarServer:
    """Stand-in for the lab's server that records requests. `answers` defines its responses."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        """The requests, each with its head and body."""
        self.answers: Callable[[bytes], bytes] = lambda request: page("the lab")

    @property
    def cookies(self) -> bytes:
        return b"".join(b"".join(COOKIE.findall(request)) for request in self.got)

    def serve(self, sock: socket.socket) -> None:
        with sock.makefile("rb") as file:
            while request := one_request(file):
                self.got.append(request)
                sock.sendall(self.answers(request))


def one_request(file: BinaryIO) -> bytes:
    """Return the next request, or b"" at the end of the stream."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = file.readline()
        if not line:
            return b""
        head += line
    length = re.search(rb"^content-length: *([0-9]+)", head, re.IGNORECASE | re.MULTILINE)
    return head + (file.read(int(length[1])) if length is not None else b"")


def page(text: str, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/html", f"Content-Length: {len(text)}"]
    return "\r\n".join([*lines, *headers, "", text]).encode()


class LabHere:
    """The agent's `Labs` with one running lab. `close` and then `open` restart the agent."""

    def __init__(self, folder: Path, far_port: int) -> None:
        self.registry = JobRegistry(Store(folder))
        self._far_port = far_port
        job = known(id=JOB_ID, cluster="site", kind=JobKind.LAB)
        self.registry.add(Record(job=job, spec=None))
        self.registry.store.new_key(JOB_ID)
        self.labs: Labs | None = None

    def open(self) -> Lab:
        clusters = SimpleNamespace(may_be_shown_below=lambda name: False)
        labs = self.labs = Labs(self.registry, cast(Tunnels, self), cast(Clusters, clusters))
        labs.open(self.registry.job(JOB_ID))
        lab = self.registry.job(JOB_ID).lab
        assert lab is not None
        self.registry.change(JOB_ID, lab=Lab(url=lab.url, port=lab.port, step=LabStep.READY))
        return lab

    def close(self) -> None:
        if self.labs is not None:
            self.labs.close()
        self.labs = None

    @property
    def host(self) -> str:
        """Return the Host header that a browser sends."""
        lab = self.registry.job(JOB_ID).lab
        assert lab is not None
        return lab.url.removeprefix("http://").rstrip("/")

    # --- the interface of `Tunnels` ---

    def into(self, job_id: str, door: str) -> Callable[[socket.socket, Answered], None]:
        def connect(sock: socket.socket, answered: Answered) -> None:
            LocalTransport().connect(sock, "127.0.0.1", self._far_port, answered)

        return connect

    def prepare(self, job_id: str, door: str) -> None:
        pass


@contextmanager
def lab_here(folder: Path, far: FarServer) -> Iterator[LabHere]:
    with service(far.serve) as far_port:
        here = LabHere(folder, far_port)
        yield here
        here.close()
        here.registry.close()


def answer_to(port: int, request: bytes, address: str = "127.0.0.1") -> bytes:
    """Return the listener's answer; b"" if it disconnects at once."""
    got = b""
    # The listener may disconnect before the end of the request.
    with socket.create_connection((address, port), 30) as sock, suppress(OSError):
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        while data := sock.recv(1 << 16):
            got += data
    return got


_LISTEN = """
import socket, sys, threading
port, answer, places = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), sys.argv[3:]
got = []
def serve(sock):
    with sock:
        while True:
            data = b""
            while b"\\r\\n\\r\\n" not in data:
                more = sock.recv(65536)
                if not more:
                    return
                data += more
            head, _, rest = data.partition(b"\\r\\n\\r\\n")
            for line in head.lower().split(b"\\r\\n"):
                if line.startswith(b"content-length:"):
                    missing = int(line.split(b":")[1]) - len(rest)
                    while missing > 0:
                        more = sock.recv(missing)
                        data += more
                        missing -= len(more)
            got.append(data)
            first = head.split(b" ")[1]
            kind = b"text/javascript" if first.endswith(b".js") else b"text/html"
            body = WORKER if first.endswith(b".js") else answer
            sock.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: " + kind +
                         b"\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
WORKER = (b"self.oninstall = () => self.skipWaiting();"
          b"self.onactivate = e => e.waitUntil(self.clients.claim());"
          b"self.onfetch = e => e.respondWith(new Response('the impostor',"
          b" {headers: {'Content-Type': 'text/html'}}));")
def accept(listener):
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=[sock], daemon=True).start()
listeners = []
for place in places:
    family = socket.AF_INET6 if ":" in place else socket.AF_INET
    try:
        listeners.append(socket.create_server((place, port), family=family))
    except OSError:
        print("taken", flush=True)
        sys.exit()
for listener in listeners:
    threading.Thread(target=accept, args=[listener], daemon=True).start()
print(port or listeners[0].getsockname()[1], flush=True)
sys.stdin.read()
sys.stdout.buffer.write(b"".join(got))
"""


class Other:
    """Another user who listens on a port. `port` is None if another program holds the port."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        self.port = None if said == b"taken" else int(said)
        self.heard = b""
        """The received bytes, once the process has ended."""

    def end(self) -> None:
        self.heard += self._process.communicate(b"")[0]


@contextmanager
def other_user(port: int, *places: str, answer: str = "") -> Iterator[Other]:
    """Listen as the user `nobody` on the port (0 for any port) and answer HTTP requests. The port
    may be taken."""
    argv = [OTHER_PYTHON, "-c", _LISTEN, str(port), answer.encode().hex(), *places]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, user="nobody", group="nogroup", extra_groups=(), stdin=pipe, stdout=pipe
    ) as process:
        other = Other(process)
        try:
            yield other
        finally:
            process.kill()
