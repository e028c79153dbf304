"""A process with a tunnel like the agent's. `tunnel_ours.py ALIAS PORT` prints its port."""

from __future__ import annotations

import sys
import threading

from jupyter_slurm.transport.forward import Forward
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.route import route
from jupyter_slurm.transport.ssh.transport import SshTransport


def main() -> None:
    alias, port = sys.argv[1], int(sys.argv[2])
    connection = SshConnection(route(alias), name=alias)
    transport = SshTransport(connection)
    connection.open()
    forward = Forward(lambda sock, answered: transport.connect(sock, "127.0.0.1", port, answered))
    print(forward.local_port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
