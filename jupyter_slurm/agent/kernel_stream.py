"""`POST /v1/kernel`: the HTTP connection becomes the stream of a kernel in a job.

The request is a KernelRequest; the answer is 101, after which both sides send frames
(node/kernel_frames.py), the client first, or a Problem as of any call. Nothing here looks into the
frames.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec
from tornado.iostream import IOStream
from tornado.web import RequestHandler

from jupyter_slurm.agent.protocol import (
    KERNEL,
    NOT_JSON,
    PREFIX,
    UPGRADED,
    KernelRequest,
    retiring,
)
from jupyter_slurm.agent.routes import Desk, Response, Route
from jupyter_slurm.errors import RequestError

Open = Callable[[str], socket.socket]
"""Takes the job's ID."""

_PIECE_BYTES = 1 << 16
_END_S = 5.0


class _KernelStream(RequestHandler):
    def initialize(self, desk: Desk, open_kernel: Open) -> None:
        self._desk = desk
        self._open = open_kernel
        self._hung_up = False

    def on_connection_close(self) -> None:
        self._hung_up = True

    async def post(self) -> None:
        opened: list[socket.socket] = []

        def work() -> Response:
            opened.append(self._open(_job_id(self.request.body)))
            return Response(101, b"")

        if self._desk.closed:
            response = Response(503, msgspec.json.encode(retiring()))
        else:
            response = await self._desk.counted(lambda: self._desk.guarded(KERNEL, work))
        if not opened:
            self.set_status(response.status)
            self.set_header("Content-Type", "application/json")
            self.finish(response.body)
        elif self._hung_up:
            opened[0].close()
        else:
            _hand_over(self.detach(), opened[0])


def route(desk: Desk, open_kernel: Open) -> Route:
    shared: dict[str, object] = {"desk": desk, "open_kernel": open_kernel}
    return f"{PREFIX}{KERNEL}", _KernelStream, shared


def _job_id(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=KernelRequest).job_id
    except NOT_JSON as exc:
        raise RequestError(f"{KERNEL}: {exc}.") from exc


def _hand_over(stream: IOStream, far: socket.socket) -> None:
    """Take the client's socket out of the event loop."""
    client = stream.socket.dup()
    stream.close()
    client.setblocking(True)
    threading.Thread(target=_carry, args=[client, far], name="kernel stream", daemon=True).start()


def _carry(client: socket.socket, far: socket.socket) -> None:
    """Carry bytes until one side ends; after the client, wait some seconds for the far end."""
    back = threading.Thread(
        target=_copy, args=[far, client], name="kernel stream back", daemon=True
    )
    with suppress(OSError):
        client.sendall(UPGRADED)
        # Until the client has sent a frame it reads HTTP, and might take more than the answer.
        far.sendall(client.recv(_PIECE_BYTES))
        back.start()
        _copy(client, far)
        back.join(_END_S)
    for sock in (client, far):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    if back.ident is not None:
        back.join()
    client.close()
    far.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy the incoming bytes, and their end."""
    with suppress(OSError):
        while data := source.recv(_PIECE_BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
