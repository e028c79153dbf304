"""SSH packets over a socket that never blocks: many of them a system call, AES-GCM in one go.

Knows framing, ciphers and the two byte counts that ask for new keys; nothing of windows or what a
channel is for. Where the cipher is not AES-GCM, or paramiko's packetizer is not the one that this
was written for, paramiko's own code packs and unpacks, over the same buffers.
"""

from __future__ import annotations

import contextlib
import inspect
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import paramiko
from cryptography.exceptions import InvalidTag
from paramiko.common import MSG_CHANNEL_DATA
from paramiko.message import Message
from paramiko.packet import NeedRekeyException, Packetizer
from paramiko.ssh_exception import SSHException

from jupyter_slurm.errors import TransportError
from jupyter_slurm.transport.ssh_transport.frames import (
    PIECE_BYTES,
    GcmOpener,
    GcmSealer,
    Opener,
    OutgoingPackets,
    PlainOpener,
    PlainSealer,
    Sealer,
)

_PRIVATE_PARTS = {
    Packetizer: "_trigger_rekey _check_keepalive",
    paramiko.Transport: "_send_user_message _send_kex_init _really_parse_kex_init _parse_newkeys "
    "_expect_packet _check_banner _next_channel _parse_channel_open_success "
    "_parse_channel_open_failure _parse_request_success _parse_request_failure "
    "_channel_handler_table _kex_info _key_info _preferred_ciphers _preferred_macs "
    "_preferred_kex _preferred_keys _auth_trigger _parse_disconnect _send_message _unlink_channel",
    paramiko.Channel: "_feed _feed_extended _window_adjust _handle_eof _handle_close "
    "_request_failed _unlink _close_internal _send_eof _send _wait_for_send_window "
    "_check_add_window _set_transport _set_window _set_remote_channel",
}
"""The parts of paramiko used here, in `queue.py`, `stream.py`, `__init__.py` and in
`login/userauth.py`, that paramiko does not promise."""
_TRIED = "5.1.0"
_CIPHER_PARTS = {"block_engine", "aead"}

_BUFFER_BYTES = 1 << 19
_LONGEST_PACKET_BYTES = 1 << 18
"""OpenSSH's PACKET_MAX_SIZE."""
_LONGEST_LINE_BYTES = 1 << 13
_WAIT_MS = 1000
_TICK_S = 1.0
_AT_ONCE = 4
"""Packets that a sink gets in one call. More would save calls; but the peer is told only after each
that there is room again, and waits for that."""
_BUFFERS = 512
"""Below IOV_MAX, which is 1024 on Linux and macOS."""
_U32 = struct.Struct(">I")


class DataSink(Protocol):
    """The receiver of a channel's data, called in the reading thread: it must not block."""

    def deliver(self, views: list[memoryview]) -> None: ...


class SharedPacketizer(Packetizer):
    """`sinks` holds the receiver of a channel's data, by our number of it. Sending never blocks:
    what the socket does not take is kept, `on_stuck` called, and `flush()` tries again."""

    if TYPE_CHECKING:
        _trigger_rekey: Callable[[], None]
        _check_keepalive: Callable[[], None]

    REKEY_BYTES = 1 << 32
    """A sixteenth of what RFC 4344 §3.2 allows AES (2^32 blocks)."""
    REKEY_PACKETS = 1 << 31
    REKEY_BYTES_OVERFLOW_MAX = 1 << 32
    REKEY_PACKETS_OVERFLOW_MAX = 1 << 31
    REKEY_S = 3600.0
    """RFC 4253 §9."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        # A second descriptor of the same socket: paramiko gives the first one a time-out, with
        # which Python would poll before every call.
        self._link = sock.dup()
        self._link.settimeout(0)
        self._poll = select.poll()
        self._poll.register(self._link, select.POLLIN)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._opener: Opener | None = None
        self._sealer: Sealer | None = None
        self._out_lock = threading.RLock()
        self._unsent: deque[bytes | memoryview] = deque()
        self._asked = self._plain = False
        self._count = self._bytes_in = self._bytes_out = 0
        self._keyed_s = time.monotonic()
        self.as_expected = takes_whole_packets()
        self.sinks: dict[int, DataSink] = {}
        self.unsent_bytes = 0
        self.sent_bytes = 0
        self.on_stuck: Callable[[], None] = lambda: None
        self.on_tick: Callable[[], None] = lambda: None
        """Called in the reading thread about once a second."""
        self.heard_s = self._ticked_s = time.monotonic()

    @property
    def link(self) -> socket.socket:
        """The socket, to wait for room to write; nobody else reads or writes it."""
        return self._link

    @property
    def fast(self) -> bool:
        return self._opener is not None and self._sealer is not None

    # -- keys -------------------------------------------------------------------------------------

    def speak_plainly(self) -> None:
        """Send bare packets from now on: the other end has done the cryptography."""
        self._plain = True
        self._opener, self._sealer = PlainOpener(), PlainSealer()

    def start_handshake(self, timeout: float) -> None:
        if not self._plain:
            super().start_handshake(timeout)

    def set_inbound_cipher(self, *args: Any, **named: Any) -> None:
        super().set_inbound_cipher(*args, **named)
        whole = self.as_expected and named.get("aead")
        self._opener = GcmOpener(named["block_engine"], named["iv_in"]) if whole else None
        self._asked = False
        self._bytes_in = 0
        self._keyed_s = time.monotonic()

    def set_outbound_cipher(self, *args: Any, **named: Any) -> None:
        super().set_outbound_cipher(*args, **named)
        whole = self.as_expected and named.get("aead")
        self._sealer = GcmSealer(named["block_engine"], named["iv_out"]) if whole else None
        self._bytes_out = 0

    def reset_seqno_in(self) -> None:
        super().reset_seqno_in()
        self._count = 0

    def ask_for_new_keys(self) -> None:
        self._trigger_rekey()

    def _wants_keys(self) -> bool:
        """Tell whether an exchange of keys is to be begun. SSHException: the peer ignores it."""
        if self._asked:
            if self._bytes_in >= self.REKEY_BYTES + self.REKEY_BYTES_OVERFLOW_MAX:
                raise SSHException("Remote transport is ignoring rekey requests")
            return False
        if self._plain:
            return False
        if not self.need_rekey() and (
            self._bytes_in >= self.REKEY_BYTES
            or self._bytes_out >= self.REKEY_BYTES
            or time.monotonic() - self._keyed_s >= self.REKEY_S
        ):
            self.ask_for_new_keys()
        self._asked = self.need_rekey()
        return self._asked

    # -- reading, by one thread -------------------------------------------------------------------

    def readline(self, timeout: float) -> str:
        deadline_s = time.monotonic() + timeout
        while (at := self._buffer.find(b"\n", self._start, self._end)) < 0:
            if self._end - self._start > _LONGEST_LINE_BYTES:
                raise SSHException("the server's first line is too long")
            self._fill(self._end - self._start + 1, deadline_s)
        line = bytes(self._view[self._start : at])
        self._start = at + 1
        return line.rstrip(b"\r").decode(errors="replace")

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if not 0 <= n <= _LONGEST_PACKET_BYTES:  # paramiko asks for what a packet says of itself
            raise SSHException(f"a packet of {n} bytes: this is not SSH, or it was damaged")
        self._fill(n)
        taken = bytes(self._view[self._start : self._start + n])
        self._start += n
        return taken

    def read_message(self) -> tuple[int, Message]:
        """Return the next packet that is not data for a sink. NeedRekeyException: begin an exchange
        of keys, then call again; nothing is lost."""
        sink: DataSink | None = None
        views: list[memoryview] = []
        try:
            while True:
                plain = self._next_packet()
                if plain is None:
                    if sink is not None:
                        sink.deliver(views)
                        sink, views = None, []
                    if self._wants_keys():
                        raise NeedRekeyException
                    if self._opener is None:
                        return super().read_message()
                    self._fill_packet(self._opener)
                    continue
                receiver = self._sink_of(plain)
                if receiver is None:
                    break
                if receiver is not sink or len(views) == _AT_ONCE:
                    if sink is not None:
                        sink.deliver(views)
                    sink, views = receiver, []
                views.append(memoryview(plain)[10 : 10 + _U32.unpack_from(plain, 6)[0]])
        finally:
            if sink is not None:
                sink.deliver(views)
        message = Message(plain[2 : len(plain) - plain[0]])
        message.seqno = self._count - 1
        return plain[1], message

    def _sink_of(self, plain: bytes) -> DataSink | None:
        if plain[1] != MSG_CHANNEL_DATA or len(plain) < 10:
            return None
        return self.sinks.get(_U32.unpack_from(plain, 2)[0])

    def _packet_bytes(self, opener: Opener) -> int:
        length: int = _U32.unpack_from(self._buffer, self._start)[0]
        if not 2 <= length <= _LONGEST_PACKET_BYTES:
            raise SSHException(f"a packet of {length} bytes: this is not SSH, or it was damaged")
        return length + opener.overhead_bytes

    def _fill_packet(self, opener: Opener) -> None:
        self._fill(4)
        self._fill(self._packet_bytes(opener))

    def _next_packet(self) -> bytes | None:
        """Return length of the padding, payload, padding; None: it is not whole yet, or not ours to
        open."""
        opener, start = self._opener, self._start
        here = self._end - start
        if opener is None or here < 4 or here < (size := self._packet_bytes(opener)):
            return None
        try:
            plain = opener.open(self._view[start : start + size])
        except InvalidTag as exc:
            raise SSHException("Mismatched MAC") from exc
        self._start = start + size
        self._bytes_in += size
        self._count += 1
        return plain

    def _fill(self, need: int, deadline_s: float | None = None) -> None:
        """Read until `need` bytes are there. EOFError at the end, TimeoutError at the deadline."""
        self._make_room(need)
        while self._end - self._start < need:
            if self.handshake_timed_out() or self.closed:
                raise EOFError
            try:
                n = self._link.recv_into(self._view[self._end :])
            except BlockingIOError:
                left_ms = 1000 * (deadline_s - time.monotonic()) if deadline_s else _WAIT_MS
                if left_ms <= 0:
                    raise TimeoutError("the server said nothing in time") from None
                self._poll.poll(left_ms)
                self._check_keepalive()
                self._tick(time.monotonic())
                continue
            except OSError:
                if self.closed:
                    raise EOFError from None
                raise
            if n == 0:
                raise EOFError
            self._end += n
            self.heard_s = time.monotonic()
            self._tick(self.heard_s)

    def _tick(self, now_s: float) -> None:
        if now_s - self._ticked_s >= _TICK_S:
            self._ticked_s = now_s
            self.on_tick()

    def _make_room(self, need: int) -> None:
        """Move what is there to the front where the buffer's end is near."""
        if self._start == self._end:
            self._start = self._end = 0
        elif _BUFFER_BYTES - self._start < max(need, _BUFFER_BYTES // 2):
            rest = self._end - self._start
            self._view[:rest] = self._buffer[self._start : self._end]
            self._start, self._end = 0, rest

    # -- sending, by any thread -------------------------------------------------------------------

    def send_message(self, data: Message) -> None:
        with self._out_lock:
            if self._sealer is None:
                super().send_message(data)
            else:
                self._write([self._sealer.seal(data.asbytes())])

    def send_payloads(self, payloads: Sequence[bytes]) -> None:
        with self._out_lock:
            if self._sealer is None:
                for payload in payloads:
                    super().send_message(Message(payload))
            else:
                self._write([b"".join(map(self._sealer.seal, payloads))])

    def send_batch(self, channel: int, batch: OutgoingPackets, size: int, most_bytes: int) -> None:
        """Send the first `size` bytes as data of the peer's `channel`, `most_bytes` a packet."""
        if self._sealer is None or most_bytes < PIECE_BYTES:
            self.send_payloads(list(batch.payloads(channel, size, min(most_bytes, PIECE_BYTES))))
            return
        with self._out_lock:
            self._write(self._sealer.seal_batch(channel, batch, size))

    def write_all(self, out: Any) -> None:
        if not self._plain:  # else it is our version, which the peer does not wait for
            self._write([bytes(out)])

    def _write(self, buffers: list[bytes | memoryview]) -> None:
        """Send what the socket takes and keep the rest. EOFError: the connection is closed."""
        with self._out_lock:
            if self.closed:
                raise EOFError
            size = sum(map(len, buffers))
            self._bytes_out += size
            self.sent_bytes += size
            was_stuck = bool(self._unsent)
            rest = buffers if was_stuck else self._send(buffers)
            self._unsent.extend(rest)
            self.unsent_bytes += sum(map(len, rest))
            if rest and not was_stuck:
                self.on_stuck()

    def flush(self) -> None:
        """Send what was kept, as far as the socket takes it."""
        with self._out_lock:
            while self._unsent and not self.closed:
                tried = [self._unsent.popleft() for _ in range(min(len(self._unsent), _BUFFERS))]
                before = sum(map(len, tried))
                rest = self._send(tried)
                self._unsent.extendleft(reversed(rest))
                self.unsent_bytes -= before - sum(map(len, rest))
                if rest:
                    return

    def _send(self, buffers: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Send the buffers; return what is left of them."""
        try:
            sent = self._link.sendmsg(buffers)
        except BlockingIOError:
            return buffers
        except OSError:
            raise EOFError from None
        for i, buffer in enumerate(buffers):
            if sent < len(buffer):
                return [memoryview(buffer)[sent:], *buffers[i + 1 :]]
            sent -= len(buffer)
        return []

    # -- the end ----------------------------------------------------------------------------------

    def hang_up(self) -> None:
        """End the connection for the thread that waits on the socket, which then closes it."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.complete_handshake()
        with self._out_lock:
            super().close()
            self._link.close()
            self._unsent.clear()

    def drop_after_fork(self) -> None:
        """Let go of the connection in a child of this process; it goes on in the parent. The locks
        are left alone, whose holders are not here."""
        super().close()
        self._link.close()


def check_paramiko() -> None:
    """Raise TransportError where this paramiko lacks a part that every connection needs.

    Any release that has them all is taken, a new one with a security fix above all.
    """
    missing = [
        f"{of.__name__}.{name}"
        for of, names in _PRIVATE_PARTS.items()
        for name in names.split()
        if not hasattr(of, name)
    ]
    if missing:
        raise TransportError(
            "paramiko {version} lacks {missing}, so no SSH connection can be made.",
            hint="Install the release that this was written for: pip install 'paramiko=={tried}'",
            version=paramiko.__version__,
            missing=", ".join(missing),
            tried=_TRIED,
        )


def takes_whole_packets() -> bool:
    """Tell whether this paramiko tells of its ciphers what the fast way needs. False: its own code
    packs and unpacks, more slowly."""
    theirs = Packetizer.set_inbound_cipher, Packetizer.set_outbound_cipher
    named = [set(inspect.signature(method).parameters) for method in theirs]
    return {*_CIPHER_PARTS, "iv_in"} <= named[0] and {*_CIPHER_PARTS, "iv_out"} <= named[1]
