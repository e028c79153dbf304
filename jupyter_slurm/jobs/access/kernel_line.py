"""Streams of kernels in jobs: the abstract socket of node/kernel.py, handed over as a socket.

The frames are not looked at here.
"""

from __future__ import annotations

import select
import socket
import threading
import time

from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.jobs.access.running import place_of
from jupyter_slurm.jobs.access.tunnels import Tunnels
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import socket_name
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.transport.relay import NotListeningError
from jupyter_slurm.wire.framing import frame

_SAID = b"T"
"""A sentence of ours for the client (node/kernel_frames.py)."""
_SETS_UP_S = 900.0
"""The longest setup of a job (modules, staging) before its kernel listens."""
_PATIENCE_S = 2.0
_PAUSE_S = 0.1


def kernel_line(book: Book, tunnels: Tunnels, job_id: str) -> socket.socket:
    """Return a socket for the frames of the job's kernel; closing it leaves the kernel.

    NotFoundError; RequestError: the job has no kernel or does not run; ForwardError: its node
    cannot be reached.
    """
    job = book.job(job_id)
    if not kind_of(job).listens:
        raise RequestError(f"Job {job.id} has no kernel.")
    place_of(job)
    name = socket_name(job.id)
    tunnels.prepare(job.id, name)
    near, far = socket.socketpair()
    threading.Thread(
        target=_connect, args=(tunnels, job.id, name, far), name="kernel line", daemon=True
    ).start()
    return near


def _connect(tunnels: Tunnels, job_id: str, name: str, sock: socket.socket) -> None:
    """Connect `sock` as soon as the kernel listens; close it where that does not come to be."""
    began_s = time.monotonic()
    told = False
    while time.monotonic() - began_s < _SETS_UP_S and not _has_hung_up(sock):
        try:
            return tunnels.connect(job_id, name, sock)
        except NotListeningError:
            if not told and time.monotonic() - began_s > _PATIENCE_S:
                told = True
                sock.sendall(frame(_SAID, b"The job is setting itself up."))
            time.sleep(_PAUSE_S)
        except JupyterSlurmError:
            break  # the client connects again and gets the error
    sock.close()
    return None


def _has_hung_up(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, 0)
    return bool(poll.poll(0))
