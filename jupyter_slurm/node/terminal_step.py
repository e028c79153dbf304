"""A terminal in a step of a job: it comes to the one that the job holds, or runs a program.

Read from standard input (transport/node_program.py); Python 3.6 and later, standard library only.
The first frame, SETUP, says what: {"hold": NAME}, to come to that one (terminal.py), perhaps with
a "wish", which is handed on as the first frame there; or {"run": WORDS}, a program of this terminal
alone, which ends with it.
"""

import contextlib
import errno
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import tty

import framing
import terminal
import terminal_one

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not imported on the node
    from typing import Any, Dict, Optional  # noqa: F401 - in comments

REACH_S = 900.0
"""How long a job may set itself up (modules, staging) before its terminal is there."""
PATIENCE_S = 2.0


def visit(name, wish):
    # type: (str, Optional[Dict[str, Any]]) -> None
    """Copy bytes between this step and the holder of the terminal, also what comes when the job is
    ended."""
    sock = reach(name)
    if wish is not None:
        sock.sendall(framing.frame(terminal_one.SETUP, json.dumps(wish).encode()))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def there():
        # type: () -> None
        with contextlib.suppress(OSError):
            data = os.read(0, 1 << 16)
            while data:
                sock.sendall(data)
                data = os.read(0, 1 << 16)
            sock.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=there)
    thread.daemon = True
    thread.start()
    data = sock.recv(1 << 16)
    while data:
        write_all(data)
        data = sock.recv(1 << 16)


def reach(name):
    # type: (str) -> socket.socket
    """Connect to the holder; wait for it, since the job's script may have modules to load first."""
    began_s = time.monotonic()
    told = False
    hung_up = select.poll()
    hung_up.register(0, 0)
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect("\0" + name)
            if framing.is_ours(sock):
                return sock
        except OSError as exc:
            if exc.errno not in (errno.ECONNREFUSED, errno.ENOENT, errno.EAGAIN):
                raise
        sock.close()
        waited_s = time.monotonic() - began_s
        if waited_s > REACH_S or hung_up.poll(0):
            raise SystemExit(0)
        if waited_s > PATIENCE_S and not told:
            told = True
            write_all(framing.frame(terminal_one.SAID, b"The job is setting itself up."))
        time.sleep(0.05)


def write_all(data):
    # type: (bytes) -> None
    while data:
        data = data[os.write(1, data) :]


def step():
    # type: () -> None
    if os.isatty(1):  # `srun --unbuffered` gives a terminal, which would change what is written
        tty.setraw(1)
    write_all(sys.argv[1].encode())
    first = framing.read_frame(0)
    if first is None:
        return
    setup = json.loads(first[1].decode())
    if "hold" in setup:
        visit(setup["hold"], setup.get("wish"))
        return
    terminal.run_in_step(setup["run"])


def main():
    # type: () -> None
    # The other end may go at any moment; a step that fails would show in the job's accounting.
    with contextlib.suppress(OSError):
        step()
    os._exit(0)


if __name__ == "__main__":
    main()
