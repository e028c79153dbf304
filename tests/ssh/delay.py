"""A slow line: a TCP proxy that delays every byte, like a distant network.

    python delay.py LISTEN_PORT HOST PORT ONE_WAY_S [BYTES_PER_S]

Prints its port on 127.0.0.1 (LISTEN_PORT 0 for any port). All connections share the line's
`BYTES_PER_S`, separately for each direction. SIGUSR1 resets every connection; SIGSTOP and SIGCONT
freeze and thaw the line.
"""

from __future__ import annotations

import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from types import FrameType

_CHUNK_BYTES = 256 * 1024
_LINE_BYTES = 64 * 2**20
"""Maximum bytes in transit if the line has no rate."""
_QUEUE_S = 0.025
"""Maximum length of the queue of a line with a rate, in seconds that it takes to drain."""
_AT_ONCE_BYTES = 8 * 1024
"""Maximum bytes that a slow line delivers at once."""
_SLOW_BUFFER_BYTES = 64 * 1024
"""Size of the kernel's buffer for a slow line. A larger buffer would add a queue."""


class Line:
    """One direction of the line, shared by all connections."""

    def __init__(self, one_way_s: float, bytes_per_s: float | None) -> None:
        self.one_way_s = one_way_s
        self.bytes_per_s = bytes_per_s
        self.free_at_s = 0.0

    def room(self, now_s: float, under_way: int) -> int:
        """Return how many bytes the line accepts now."""
        if self.bytes_per_s is None:
            return _CHUNK_BYTES if under_way < _LINE_BYTES else 0
        return _AT_ONCE_BYTES if self.free_at_s - now_s < _QUEUE_S else 0

    def arrival_s(self, now_s: float, size: int) -> float:
        """Return the time at which bytes accepted now will arrive at the other end."""
        if self.bytes_per_s is not None:
            self.free_at_s = max(self.free_at_s, now_s) + size / self.bytes_per_s
            now_s = self.free_at_s
        return now_s + self.one_way_s


class Flow:
    """One direction of one connection."""

    def __init__(self, source: socket.socket, target: socket.socket, line: Line) -> None:
        self.source, self.target, self.line = source, target, line
        self.pieces: deque[tuple[float, memoryview]] = deque()  # an empty chunk is the end
        self.under_way = 0
        self.reading = True
        self.done = False

    def take(self, now_s: float) -> None:
        room = self.line.room(now_s, self.under_way)
        if not room:  # another connection has just filled the line
            return
        data = self.source.recv(room)
        self.pieces.append((self.line.arrival_s(now_s, len(data)), memoryview(data)))
        self.under_way += len(data)
        self.reading = bool(data)

    def give(self, now_s: float) -> None:
        while self.pieces and self.pieces[0][0] <= now_s:
            due_s, piece = self.pieces.popleft()
            if not piece:
                self.target.shutdown(socket.SHUT_WR)
                self.done = True
                return
            sent = self.target.send(piece)
            self.under_way -= sent
            if sent < len(piece):
                self.pieces.appendleft((due_s, piece[sent:]))
                return


class Proxy:
    def __init__(self, listener: socket.socket, target: tuple[str, int], lines: list[Line]) -> None:
        self._listener, self._target, self._lines = listener, target, lines
        self._flows: list[Flow] = []
        self._reset_wanted = False

    def ask_reset(self, _number: int, _frame: FrameType | None) -> None:
        self._reset_wanted = True

    def serve(self) -> None:
        while True:
            self._turn()
            if self._reset_wanted:
                self._reset_wanted = False
                for flow in self._flows:
                    flow.source.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                    flow.source.close()
                self._flows.clear()

    def _turn(self) -> None:
        now_s = time.monotonic()
        readable: dict[socket.socket, Flow] = {}
        writable: dict[socket.socket, Flow] = {}
        wait_s = 0.2  # this is the longest delay before a signal is handled
        for flow in self._flows:
            if flow.reading:
                if flow.line.room(now_s, flow.under_way):
                    readable[flow.source] = flow
                else:
                    wait_s = min(wait_s, 0.001)
            if flow.pieces:
                due_s = flow.pieces[0][0]
                if due_s <= now_s:
                    writable[flow.target] = flow
                else:
                    wait_s = min(wait_s, due_s - now_s)
        # select(2) has microsecond precision; poll and epoll only millisecond precision.
        come, ready, _ = select.select([self._listener, *readable], list(writable), [], wait_s)
        for sock in come:
            if sock is self._listener:
                self._accept()
            else:
                self._step(readable[sock], Flow.take)
        for sock in ready:
            self._step(writable[sock], Flow.give)

    def _step(self, flow: Flow, step: Callable[[Flow, float], None]) -> None:
        if flow not in self._flows:  # its connection broke in this iteration
            return
        try:
            step(flow, time.monotonic())
        except BlockingIOError:
            return
        except OSError:
            self._drop(flow)
            return
        if all(one.done for one in self._both(flow)):
            self._drop(flow)

    def _both(self, flow: Flow) -> list[Flow]:
        return [one for one in self._flows if one.source in {flow.source, flow.target}]

    def _drop(self, flow: Flow) -> None:
        for one in self._both(flow):
            self._flows.remove(one)
            one.source.close()

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        far = socket.socket()
        slow = self._lines[0].bytes_per_s is not None
        for sock in (near, far) if slow else ():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_BUFFER_BYTES)
        try:
            far.connect(self._target)
        except OSError:
            near.close()
            far.close()
            return
        for sock in (near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
        up, down = self._lines
        self._flows += [Flow(near, far, up), Flow(far, near, down)]


def main() -> None:
    listen_port, host, port, one_way_s, *rate = sys.argv[1:]
    bytes_per_s = float(rate[0]) if rate else None
    lines = [Line(float(one_way_s), bytes_per_s) for _ in range(2)]
    with socket.create_server(("127.0.0.1", int(listen_port)), backlog=256) as listener:
        proxy = Proxy(listener, (host, int(port)), lines)
        signal.signal(signal.SIGUSR1, proxy.ask_reset)
        print(listener.getsockname()[1], flush=True)
        proxy.serve()


if __name__ == "__main__":
    main()
