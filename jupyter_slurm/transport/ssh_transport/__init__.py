"""The connection that everybody shares: channels, carried sockets, files, signs of life.

Its host, the login and what is run there are for others; how it sends is for `queue.py`, how fast
for `packets.py`, `pump.py` and `window.py`.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, ClassVar, NamedTuple

import paramiko
from paramiko.common import (
    CONNECTION_FAILED_CODE,
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_FAILURE,
    MSG_CHANNEL_WINDOW_ADJUST,
    cMSG_CHANNEL_CLOSE,
    cMSG_CHANNEL_OPEN,
    cMSG_GLOBAL_REQUEST,
)
from paramiko.message import Message

from jupyter_slurm.errors import ConnectionLostError, ForwardError
from jupyter_slurm.transport.connect_callbacks import Greeting
from jupyter_slurm.transport.ssh_transport.frames import PIECE_BYTES, OutgoingPackets
from jupyter_slurm.transport.ssh_transport.greeted import Greeted
from jupyter_slurm.transport.ssh_transport.pump import Carried
from jupyter_slurm.transport.ssh_transport.queue import QueuedTransport
from jupyter_slurm.transport.ssh_transport.stream import (
    ChannelSink,
    Receiving,
    SharedChannel,
    receive_into,
    send_all,
)
from jupyter_slurm.transport.ssh_transport.window import CARRIED_BYTES, FIRST_BYTES, Pace, Window

_NO_CHANNEL = "no-channel@jupyter-slurm"
"""A kind of channel that every server refuses."""


class _Opening(NamedTuple):
    """A channel that the server has not answered yet, or at whose end somebody is greeted. Holds
    it: paramiko's map of them is weak."""

    channel: SharedChannel
    answered: Callable[[BaseException | None], None]
    give_up_s: float
    """By `time.monotonic()`."""


class SharedTransport(QueuedTransport):
    """`sock` is TCP or one end of a socketpair, and belongs to this from now on.

    paramiko's own methods work as ever (`start_client`, `auth_*`, `open_session`); the ones here
    raise `paramiko.ChannelException` where the server refuses, TimeoutError where it says nothing
    in time, and ConnectionLostError where there is no connection any more.
    """

    _channel_handler_table: ClassVar[dict[int, Any]] = {
        **getattr(paramiko.Transport, "_channel_handler_table", {}),
        MSG_CHANNEL_DATA: SharedChannel._feed,
        MSG_CHANNEL_EXTENDED_DATA: SharedChannel._feed_extended,
        MSG_CHANNEL_WINDOW_ADJUST: SharedChannel._window_adjust,
        MSG_CHANNEL_EOF: SharedChannel._handle_eof,
        MSG_CHANNEL_CLOSE: SharedChannel._handle_close,
        MSG_CHANNEL_FAILURE: SharedChannel._request_failed,
    }

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.channels_seen = _EveryNumber()  # type: ignore[assignment]
        self._openings: dict[int, _Opening] = {}
        self._pings: deque[Callable[[], None]] = deque()
        self._ping_lock = threading.Lock()
        self._pace = Pace()
        self.packetizer.on_tick = self._give_up_late_ones

    @property
    def fast(self) -> bool:
        """False: the cipher is not AES-GCM, or paramiko does not tell of it what it did: everything
        works, more slowly."""
        return self.packetizer.fast

    @property
    def last_heard_s(self) -> float:
        """The time of the last bytes from the server, by `time.monotonic()`."""
        return self.packetizer.heard_s

    @property
    def idle_s(self) -> float:
        return time.monotonic() - self.packetizer.heard_s

    # -- channels ---------------------------------------------------------------------------------

    def open_stream(self, *, window_bytes: int | None = None, timeout_s: float) -> SharedChannel:
        """Open a session channel. `window_bytes`: how much may at first come untaken."""
        return self._open("session", b"", window_bytes or FIRST_BYTES, timeout_s)

    def open_channel(
        self,
        kind: str,
        dest_addr: tuple[str, int] | None = None,
        src_addr: tuple[str, int] | None = None,
        window_size: int | None = None,
        max_packet_size: int | None = None,  # one size serves
        timeout: float | None = None,
    ) -> SharedChannel:
        """Open a channel as paramiko does, for what is built on it (SFTPClient)."""
        rest = Message()
        for host, port in (dest_addr or ("", 0), src_addr or ("127.0.0.1", 0)):
            rest.add_string(host).add_int(port)
        extra = b"" if dest_addr is None else rest.asbytes()
        return self._open(kind, extra, window_size or FIRST_BYTES, timeout or self.channel_timeout)

    def carry(
        self,
        sock: socket.socket,
        host: str,
        port: int,
        timeout_s: float,
        greeting: Greeting | None = None,
    ) -> None:
        """Connect `sock` with `host:port` as the server sees it. Return when that stands, and the
        far end was greeted: bytes then flow both ways, each with its own end, and `sock` is closed
        after both. Where it raises, `sock` is still the caller's: ChannelException (1: sshd forbids
        it, 2: the port cannot be reached), ForwardError (the greeting was not answered well)."""
        reply = _ChannelReply()
        self.carry_soon(sock, host, port, timeout_s, reply, greeting)
        reply.wait()

    def carry_soon(
        self,
        sock: socket.socket,
        host: str,
        port: int,
        timeout_s: float,
        answered: Callable[[BaseException | None], None],
        greeting: Greeting | None = None,
    ) -> None:
        """Connect as `carry` does, but do not wait: `answered` is called with None or what went
        wrong, in any thread, and must not block."""
        carried = Carried(self, self._pump, sock)

        def done(problem: BaseException | None) -> None:
            if problem is None:
                self._pump.post(carried.start)
            else:
                self.direct(carried.channel, None)
                carried.channel.close()  # where it stands: the far end is not the one meant
            answered(problem)

        where = Message().add_string(host).add_int(port).add_string("127.0.0.1").add_int(0)
        sink = carried if greeting is None else Greeted(self, greeting, carried, self._greeted)
        self._request("direct-tcpip", where.asbytes(), CARRIED_BYTES, timeout_s, done, sink)

    def _greeted(self, channel: SharedChannel, problem: ForwardError | None) -> None:
        self._answer(channel.chanid, problem)

    def _open(self, kind: str, extra: bytes, window_bytes: int, timeout_s: float) -> SharedChannel:
        reply = _ChannelReply()
        channel = self._request(kind, extra, window_bytes, timeout_s, reply)
        reply.wait()
        return channel

    def _request(
        self,
        kind: str,
        extra: bytes,
        window_bytes: int,
        timeout_s: float,
        answered: Callable[[BaseException | None], None],
        sink: Carried | Greeted | None = None,
    ) -> SharedChannel:
        """Ask for a channel; `answered` is called once, whatever comes. Do not wait."""
        window = Window(window_bytes)
        give_up_s = time.monotonic() + timeout_s
        with self.lock:
            number = self._next_channel()
            channel = SharedChannel(number, self, window)
            channel._set_transport(self)  # type: ignore[attr-defined]
            self._channels.put(number, channel)
        channel._set_window(window_bytes, PIECE_BYTES)  # type: ignore[attr-defined]
        if sink is not None:
            sink.channel = channel
            self.direct(channel, sink)
        # Last: from here on the end of the connection answers it, in another thread.
        self._openings[number] = _Opening(channel, answered, give_up_s)
        ask = Message().add_byte(cMSG_CHANNEL_OPEN).add_string(kind).add_int(number)
        self.put(ask.add_int(window_bytes).add_int(PIECE_BYTES).asbytes() + extra)
        self.push_now()
        if not self.active:
            self._answer(number, self.loss())
        return channel

    def _give_up_late_ones(self) -> None:
        now_s = time.monotonic()
        for number, opening in list(self._openings.items()):
            if now_s >= opening.give_up_s:
                self._answer(number, TimeoutError("The server did not open a channel in time."))

    def _answer(self, number: int, problem: BaseException | None) -> None:
        opening = self._openings.pop(number, None)
        if opening is None:
            return
        if problem is not None:
            self._channels.delete(number)
        opening.answered(problem)

    def _parse_channel_open_success(self, m: Message) -> None:
        number, there, window, longest = (m.get_int() for _ in range(4))
        remote = there.to_bytes(4, "big")
        self._closed_there.discard(remote)
        opening = self._openings.get(number)
        if opening is None:  # nobody waits any more
            self.put(cMSG_CHANNEL_CLOSE + remote)
            self.push()
            return
        opening.channel._set_remote_channel(there, window, longest)  # type: ignore[attr-defined]
        if isinstance(opening.channel.sink, Greeted):
            opening.channel.sink.begin()
        else:
            self._answer(number, None)

    def _parse_channel_open_failure(self, m: Message) -> None:
        number, reason, words = m.get_int(), m.get_int(), m.get_text()
        words = words or CONNECTION_FAILED_CODE.get(reason, "no reason given")
        self._answer(number, paramiko.ChannelException(reason, words))

    # -- data -------------------------------------------------------------------------------------

    def send_all(
        self,
        channel: SharedChannel,
        source: Iterable[bytes | memoryview] | BinaryIO,
        stop: threading.Event | None = None,
    ) -> int:
        """Send a source, a real file from where it stands, and no EOF after it. Return the bytes;
        ConnectionLostError, also where `stop` was set or nobody reads over there."""
        return send_all(self, channel, source, stop or threading.Event())

    def receive_into(
        self,
        channel: SharedChannel,
        sink: BinaryIO,
        stop: threading.Event | None = None,
        most_bytes: float = math.inf,
    ) -> int:
        """Write what is left of a channel's stdout to a real file, and go no further where that is
        more than `most_bytes`. Return how many bytes; ConnectionLostError, also where `stop` was
        set; OSError where the file cannot be written."""
        receiving = Receiving(channel.window)
        self.direct(channel, receiving)
        if channel.eof_received or channel.closed:
            receiving.ended()
        try:
            stop = stop or threading.Event()
            return receive_into(self, channel, receiving, sink, stop, most_bytes)
        finally:
            self.direct(channel, None)

    def direct(self, channel: SharedChannel, sink: ChannelSink | None) -> None:
        channel.sink = sink
        if sink is None:
            self.packetizer.sinks.pop(channel.chanid, None)
        else:
            self.packetizer.sinks[channel.chanid] = sink

    def send_batch(self, channel: SharedChannel, batch: OutgoingPackets, size: int) -> None:
        with self.gate():
            self.drain()
            with channel.lock:
                if channel.closed or channel.eof_sent:
                    raise ConnectionLostError("The other side stopped reading before the end.")
                channel.out_window_size -= size
            self.packetizer.send_batch(
                channel.remote_chanid, batch, size, channel.out_max_packet_size
            )
        self.push()

    def took(self, channel: SharedChannel, n: int) -> None:
        if n and channel.grant(n):
            now_s = time.monotonic()
            if self._pace.wants_sample(now_s):
                self._ask_for_sign_of_life(lambda: self._sampled(now_s))
            self.push()

    def _sampled(self, asked_s: float) -> None:
        now_s = time.monotonic()
        windows = [channel.window for channel in self._channels.values()]
        self._pace.sampled(now_s - asked_s, now_s, windows, self.packetizer.sent_bytes)

    # -- signs of life ----------------------------------------------------------------------------

    def ping(self, timeout_s: float) -> float | None:
        """Return a round trip in seconds, `timeout_s` where only other packets came in that time;
        None: no packet at all came."""
        began_s = time.monotonic()
        came = threading.Event()
        self._ask_for_sign_of_life(came.set)
        self.push()
        came.wait(timeout_s)
        if not self.active or self.packetizer.heard_s < began_s:
            return None
        return time.monotonic() - began_s

    def _ask_for_sign_of_life(self, answered: Callable[[], None]) -> None:
        if self._plain:  # an OpenSSH master hangs up on global requests, but passes this on
            self._request(_NO_CHANNEL, b"", FIRST_BYTES, math.inf, lambda _: answered())
            return
        ask = Message().add_byte(cMSG_GLOBAL_REQUEST).add_string("keepalive@openssh.com")
        with self._ping_lock:  # answers come in the order of what was asked
            self._pings.append(answered)
            self.put(ask.add_boolean(True).asbytes())
        if not self.active:
            answered()

    def _parse_request_success(self, m: Message) -> None:
        if self._pings:
            self._pings.popleft()()
        else:
            super()._parse_request_success(m)  # type: ignore[misc]

    def _parse_request_failure(self, m: Message) -> None:
        if self._pings:
            self._pings.popleft()()
        else:
            super()._parse_request_failure(m)  # type: ignore[misc]

    def _ended(self) -> None:
        for number in list(self._openings):
            self._answer(number, self.loss())
        while self._pings:
            self._pings.popleft()()
        super()._ended()


class _ChannelReply:
    """The outcome of a request for a channel."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.problem: BaseException | None = None

    def __call__(self, problem: BaseException | None) -> None:
        self.problem = problem
        self.came.set()

    def wait(self) -> None:
        self.came.wait()
        if self.problem is not None:
            raise self.problem


class _EveryNumber:
    """Stands for paramiko's list of all channels that there ever were, which only grows: a message
    for a channel that is gone is never an error."""

    def __contains__(self, number: object) -> bool:
        return True

    def __setitem__(self, number: int, seen: bool) -> None:
        """Remember nothing."""
