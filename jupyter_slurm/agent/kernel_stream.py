"""`POST /v1/kernel`: the HTTP connection becomes the stream to a job's kernel.

The request is a KernelRequest. The answer is a Problem, or 101, after which both sides send frames
(node/kernel_frames.py), the client first.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec

from jupyter_slurm.agent.protocol import (
    KERNEL,
    NOT_JSON,
    UPGRADED,
    KernelRequest,
    retiring,
)
from jupyter_slurm.agent.routes import Connection, Dispatcher, Response, Route
from jupyter_slurm.errors import RequestError

Open = Callable[[str], socket.socket]
"""A function that opens the stream of the job with this ID."""

_PIECE_BYTES = 1 << 16
_END_S = 5.0


def route(dispatcher: Dispatcher, open_kernel: Open) -> Route:
    async def answer(connection: Connection, body: bytes) -> Response:
        opened: list[socket.socket] = []

        def work() -> Response:
            opened.append(open_kernel(_job_id(body)))
            return Response(101, b"", lambda client: _copy_in_threads(client, opened[0]))

        if dispatcher.closed:
            return Response(503, msgspec.json.encode(retiring()))
        response = await dispatcher.counted(lambda: dispatcher.guarded(KERNEL, work))
        if opened and connection.transport.is_closing():
            opened[0].close()
            return Response(200, b"{}")
        return response

    return answer


def _job_id(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=KernelRequest).job_id
    except NOT_JSON as exc:
        raise RequestError(f"{KERNEL}: {exc}.") from exc


def _copy_in_threads(client: socket.socket, kernel: socket.socket) -> None:
    client.setblocking(True)
    threading.Thread(
        target=_copy_both_ways, args=[client, kernel], name="kernel stream", daemon=True
    ).start()


def _copy_both_ways(client: socket.socket, kernel: socket.socket) -> None:
    """Copy bytes until one side ends; after the client, wait some seconds for the kernel."""
    back = threading.Thread(
        target=_copy, args=[kernel, client], name="kernel stream back", daemon=True
    )
    with suppress(OSError):
        client.sendall(UPGRADED)
        # Before its first frame the client reads HTTP and might read more than the answer.
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
    """Copy the incoming bytes and the end of the stream."""
    with suppress(OSError):
        while data := source.recv(_PIECE_BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
