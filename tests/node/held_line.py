"""A fake of the streams of a step (`srun`): between two sockets, and without their 40 ms.

In each direction 1,000 bytes go at once, and nothing more until something has gone in the other:
what TCP does between srun and slurmstepd, but for the clock that acknowledges in the end. It holds
nothing back before both ends have spoken: the near end's first two messages may arrive in one piece.
"""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress

PIECE_BYTES = 1000


def held(far: socket.socket) -> socket.socket:
    """The near end of such a way to `far`."""
    near, inner = socket.socketpair()
    threading.Thread(target=_carry, args=[inner, far], name="held line", daemon=True).start()
    return near


def _carry(one: socket.socket, other: socket.socket) -> None:
    other_of = {one: other, other: one}
    waiting = {one: b"", other: b""}
    """What is to go to it."""
    unacknowledged = {one: False, other: False}
    spoken: set[socket.socket] = set()
    with suppress(OSError), one, other:
        while True:
            for source in select.select([one, other], [], [])[0]:
                data = source.recv(1 << 16)
                if not data:
                    return
                target: socket.socket | None = other_of[source]
                assert target is not None
                fresh = not waiting[target]
                waiting[target] += data
                while target is not None:
                    if waiting[target] and not unacknowledged[target]:
                        size = PIECE_BYTES if fresh else len(waiting[target])
                        target.sendall(waiting[target][:size])
                        waiting[target] = waiting[target][size:]
                        unacknowledged[target] = len(spoken) == 2
                        unacknowledged[other_of[target]] = fresh = False
                        spoken.add(other_of[target])
                    ready = (to for to in waiting if waiting[to] and not unacknowledged[to])
                    target = next(ready, None)
