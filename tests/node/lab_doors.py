"""A lab's door as its job has it, with a server behind it that gives back what it gets."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

NODE = str(Path(__file__).parents[2] / "jupyter_slurm" / "node")
sys.path.insert(0, NODE)
# There they find each other by their bare names.
import lab_door  # noqa: E402

sys.path[:] = [path for path in sys.path if path != NODE]


@contextmanager
def echoing(path: Path) -> Iterator[None]:
    """A server that gives back what it gets, at a socket of that path."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        threading.Thread(target=_echo_all, args=(listener,), daemon=True).start()
        yield


def _echo_all(listener: socket.socket) -> None:
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=(sock,), daemon=True).start()


def _echo(sock: socket.socket) -> None:
    with sock:
        while data := sock.recv(1 << 16):
            sock.sendall(data)


@contextmanager
def door(target: Path) -> Iterator[tuple[str, list[float]]]:
    """The name of a door that leads to `target`, and when somebody changed something."""
    name, stirs = f"jslurm-test-{secrets.token_hex(8)}", list[float]()
    wake_in, wake_out = os.pipe()
    reach = partial(lab_door.at_path, str(target))
    made = lab_door.Door(name, reach, lambda: stirs.append(time.monotonic()))
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            made.step(wake_in, 10)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield name, stirs
    finally:
        over.set()
        os.write(wake_out, b"!")
        thread.join()
        for left in [key.data for key in made.selector.get_map().values()]:
            if isinstance(left, lab_door.End) and left.mask:  # its visitor has only just gone
                made.drop(left)
        made.selector.close()
        made.listener.close()
        os.close(wake_in)
        os.close(wake_out)
