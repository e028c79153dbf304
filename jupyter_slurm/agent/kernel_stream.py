"""The request `POST /v1/kernel`, which turns its HTTP connection into the stream to a job's kernel.

The request is a KernelRequest. The answer is a Problem, or the status 101. After 101 both sides
send frames (node/kernel_frames.py). The client sends the first frame.
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
from jupyter_slurm.agent.routes import Dispatcher, Response, Route
from jupyter_slurm.errors import RequestError

Open = Callable[[str], socket.socket]
"""A function that opens the stream of the job with this ID."""

_PIECE_BYTES = 1 << 16
_END_S = 5.0


class _KernelStream(RequestHandler):
    def initialize(self, dispatcher: Dispatcher, open_kernel: Open) -> None:
        self._dispatcher = dispatcher
        self._open = open_kernel
        self._hung_up = False

    def on_connection_close(self) -> None:
        self._hung_up = True

    async def post(self) -> None:
        opened: list[socket.socket] = []

        def work() -> Response:
            opened.append(self._open(_job_id(self.request.body)))
            return Response(101, b"")

        if self._dispatcher.closed:
            response = Response(503, msgspec.json.encode(retiring()))
        else:
            response = await self._dispatcher.counted(
                lambda: self._dispatcher.guarded(KERNEL, work)
            )
        if not opened:
            self.set_status(response.status)
            self.set_header("Content-Type", "application/json")
            self.finish(response.body)
        elif self._hung_up:
            opened[0].close()
        else:
            _detach_socket(self.detach(), opened[0])


def route(dispatcher: Dispatcher, open_kernel: Open) -> Route:
    shared: dict[str, object] = {"dispatcher": dispatcher, "open_kernel": open_kernel}
    return f"{PREFIX}{KERNEL}", _KernelStream, shared


def _job_id(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=KernelRequest).job_id
    except NOT_JSON as exc:
        raise RequestError(f"{KERNEL}: {exc}.") from exc


def _detach_socket(stream: IOStream, kernel: socket.socket) -> None:
    """Take the client's socket out of the event loop, and start a thread that connects it to the
    kernel."""
    client = stream.socket.dup()
    stream.close()
    client.setblocking(True)
    threading.Thread(
        target=_copy_both_ways, args=[client, kernel], name="kernel stream", daemon=True
    ).start()


def _copy_both_ways(client: socket.socket, kernel: socket.socket) -> None:
    """Copy bytes until one side ends. If the client ends first, wait a few seconds for the
    kernel."""
    back = threading.Thread(
        target=_copy, args=[kernel, client], name="kernel stream back", daemon=True
    )
    with suppress(OSError):
        client.sendall(UPGRADED)
        # Wait for the client's first frame. Until then, the client reads HTTP, and might read
        # beyond the answer.
        kernel.sendall(client.recv(_PIECE_BYTES))
        back.start()
        _copy(client, kernel)
        back.join(_END_S)
    for sock in (client, kernel):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    if back.ident is not None:
        back.join()
    client.close()
    kernel.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Forward the incoming bytes and then the EOF."""
    with suppress(OSError):
        while data := source.recv(_PIECE_BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
