"""OpenSSH's own connections: a master that is open lends its login."""

from __future__ import annotations

from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.transport.ssh_transport import SharedTransport


def attach(hop: Hop) -> SharedTransport | None:
    """None: there is no open master for this hop."""
    return None
