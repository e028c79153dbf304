"""The connection to a kernel in a job, forwarded to the abstract socket of node/kernel.py.

The frames are forwarded unread.
"""

from __future__ import annotations

import select
import socket
import threading
import time

from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.jobs.access.node_routes import place_of
from jupyter_slurm.jobs.access.tunnels import Tunnels
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import socket_name
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.transport.relay import NotListeningError
from jupyter_slurm.wire.framing import frame

_TEXT = b"T"
"""The type of a frame with a message from the agent to the client (node/kernel_frames.py)."""
_SETS_UP_S = 900.0
"""Maximum time for the setup of a job (modules, staging) before its kernel listens."""
_PATIENCE_S = 2.0
_PAUSE_S = 0.1


def kernel_line(registry: JobRegistry, tunnels: Tunnels, job_id: str) -> socket.socket:
    """Return a socket for the frames of the job's kernel. Closing the socket leaves the kernel
    running.

    Raise NotFoundError if the job is unknown, RequestError if it has no kernel or is not running,
    and ForwardError if its node is unreachable.
    """
    job = registry.job(job_id)
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
    """Connect `sock` as soon as the kernel listens; close it if that fails."""
    began_s = time.monotonic()
    noted = False
    while time.monotonic() - began_s < _SETS_UP_S and not _is_closed(sock):
        try:
            return tunnels.connect_to_socket(job_id, name, sock)
        except NotListeningError:
            if not noted and time.monotonic() - began_s > _PATIENCE_S:
                noted = True
                sock.sendall(frame(_TEXT, b"The job is preparing its environment."))
            time.sleep(_PAUSE_S)
        except JupyterSlurmError:
            break  # the client connects again and gets the error
    sock.close()
    return None


def _is_closed(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, 0)
    return bool(poll.poll(0))
