"""A paramiko Transport whose reading thread never waits: algorithms, one queue for all it sends.

paramiko's own has flaws that end a connection that threads share: its reading thread waits for an
exchange of keys that only it can finish (paramiko#822), and what one thread sends on a channel
overtakes the CLOSE of another (#1115, #1584, #1705). Here everything that is sent goes through one
queue, in order. What channels carry is for `__init__.py`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import paramiko
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_FAILURE,
    MSG_CHANNEL_WINDOW_ADJUST,
)
from paramiko.kex_curve25519 import KexCurve25519
from paramiko.message import Message

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport.ssh_transport.packets import SharedPacketizer
from jupyter_slurm.transport.ssh_transport.pump import Pump
from jupyter_slurm.transport.ssh_transport.window import FIRST_BYTES

_CERTIFICATE = "-cert-v01@openssh.com"
_GCM = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_UNSENT_BYTES = 1 << 19
"""A sender waits while more than this is under way in here."""
_STUCK_BYTES = 1 << 17
"""Carried sockets are not read while more than this is."""
_UNSENT_MESSAGES = 64
_TICK_S = 1.0
_FLUSH_TICK_S = 0.02
_ALIVE: weakref.WeakSet[QueuedTransport] = weakref.WeakSet()
"""For `os.register_at_fork`, which cannot be undone and so is done once."""


class QueuedTransport(paramiko.Transport):
    """`sock` is TCP or one end of a socketpair, and belongs to this from now on."""

    _preferred_ciphers = (*_GCM, "aes128-ctr", "aes192-ctr", "aes256-ctr")
    _preferred_macs = (
        "hmac-sha2-256-etm@openssh.com",
        "hmac-sha2-512-etm@openssh.com",
        "hmac-sha2-256",
        "hmac-sha2-512",
    )
    # The IANA name (RFC 8731) of what paramiko knows by the name of its inventor only.
    _kex_info: ClassVar[dict[str, Any]] = {
        **getattr(paramiko.Transport, "_kex_info", {}),  # what is missing `check_paramiko` tells
        "curve25519-sha256": KexCurve25519,
    }
    _preferred_kex = ("curve25519-sha256", *getattr(paramiko.Transport, "_preferred_kex", ()))
    packetizer: SharedPacketizer

    if TYPE_CHECKING:
        _channels: Any
        _handler_table: dict[int, Callable[[Message], None]]
        _key_info: Mapping[str, type[paramiko.PKey]]
        _preferred_keys: Sequence[str]
        _next_channel: Callable[[], int]

    def __init__(self, sock: socket.socket) -> None:
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(sock, default_window_size=FIRST_BYTES, packetizer_class=SharedPacketizer)
        self._outbox: deque[bytes] = deque()
        self._closed_there: set[bytes] = set()
        self._room = threading.Condition()
        self._plain = False
        self._pump = Pump(self, self.packetizer.link)
        self.packetizer.on_stuck = lambda: self._pump.post(self._pump.watch_link)
        _ALIVE.add(self)

    # -- the beginning ----------------------------------------------------------------------------

    def prefer_host_keys(self, algorithms: Sequence[str]) -> None:
        """Offer these first, those of certificates among them; call before `start_client`. Unknown
        names are left out; all others may still be agreed on."""
        known = [name for name in algorithms if name in self._key_info]
        self._preferred_keys = tuple(dict.fromkeys([*known, *self._preferred_keys]))

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        plain = [name for name in self._preferred_keys if not name.endswith(_CERTIFICATE)]
        return tuple(
            dict.fromkeys([*self._preferred_keys, *(name + _CERTIFICATE for name in plain)])
        )

    def start_plain(self) -> None:
        """Start in place of `start_client`: the peer has encrypted and logged in, and takes bare
        packets (length, no padding) of the connection protocol, as OpenSSH's mux proxy does."""
        self._plain = True
        self.packetizer.speak_plainly()
        self.initial_kex_done = self.authenticated = self.active = True
        self.clear_to_send.set()
        self.start()

    def is_authenticated(self) -> bool:
        return self.active and (self._plain or super().is_authenticated())

    def run(self) -> None:
        self._pump.start()
        try:
            super().run()
        finally:
            self._ended()

    def _check_banner(self) -> None:
        if not self._plain:
            super()._check_banner()  # type: ignore[misc]

    def _send_kex_init(self) -> None:
        if not self._plain:
            super()._send_kex_init()  # type: ignore[misc]

    def _expect_packet(self, *types: int) -> None:
        if not self._plain:
            super()._expect_packet(*types)  # type: ignore[misc]

    def _really_parse_kex_init(self, m: Message, *args: Any, **named: Any) -> dict[str, list[str]]:
        """Agree on no MAC with AES-GCM, which uses none (RFC 5647 §5.1; OpenSSH does the same)."""
        theirs: dict[str, list[str]] = super()._really_parse_kex_init(m, *args, **named)  # type: ignore[misc]
        for way in ("client", "server"):
            offered = theirs[f"{way}_encrypt_algo_list"]
            if next((name for name in self.preferred_ciphers if name in offered), None) in _GCM:
                theirs[f"{way}_mac_algo_list"] += self.preferred_macs
        return theirs

    def _parse_newkeys(self, m: Message) -> None:
        super()._parse_newkeys(m)  # type: ignore[misc]
        self.push()
        self._pump.post(self._pump.resume)

    # -- what goes out: one queue, in order -------------------------------------------------------

    def put(self, payload: bytes) -> None:
        self._outbox.append(payload)

    def push(self) -> None:
        """Call `push_now`, then wait while too much is under way, but not in the connection's own
        threads."""
        self.push_now()
        if self._overfull() and threading.current_thread() not in {self, self._pump.thread}:
            with self._room:
                while self.active and self._overfull():
                    self._room.wait(_TICK_S)

    def push_now(self) -> None:
        """Send what is queued, unless keys are exchanged: then it is sent after that."""
        try:
            while self._outbox and self.clear_to_send.is_set() and self.active:
                if not self.clear_to_send_lock.acquire(blocking=False):
                    break  # its holder comes by here when done
                try:
                    if self.clear_to_send.is_set():
                        self.drain()
                finally:
                    self.clear_to_send_lock.release()
        except EOFError:
            return  # the reading thread finds out, and says so to everyone

    def push_soon(self) -> None:
        self._pump.post(self.push)

    def congested(self) -> bool:
        return self.packetizer.unsent_bytes > _STUCK_BYTES or not self.clear_to_send.is_set()

    def flush_link(self) -> bool:
        with contextlib.suppress(EOFError):
            self.packetizer.flush()
        if self.packetizer.unsent_bytes <= _UNSENT_BYTES // 2:
            with self._room:
                self._room.notify_all()
        return self.packetizer.unsent_bytes == 0

    def _send_user_message(self, data: Message) -> None:
        self.put(data.asbytes())
        self.push()

    def _overfull(self) -> bool:
        return self.packetizer.unsent_bytes > _UNSENT_BYTES or len(self._outbox) > _UNSENT_MESSAGES

    @contextlib.contextmanager
    def gate(self) -> Iterator[None]:
        """Hold the right to send while no keys are exchanged. ConnectionLostError."""
        flushes = threading.current_thread() is self._pump.thread
        while True:
            if not self.clear_to_send.wait(_FLUSH_TICK_S if flushes else _TICK_S) and flushes:
                self.flush_link()  # the exchange itself may wait for it
            if not self.active:
                raise self.loss()
            self.clear_to_send_lock.acquire()
            if self.clear_to_send.is_set():
                break
            self.clear_to_send_lock.release()
        try:
            yield
        except EOFError:
            raise self.loss() from None
        finally:
            self.clear_to_send_lock.release()
            self.push_now()  # for those that came meanwhile, also where nothing could be sent here

    def drain(self) -> None:
        """Send the queue, but nothing on a channel that we have closed. Call in the gate."""
        payloads = []
        while self._outbox:
            payload = self._outbox.popleft()
            if MSG_CHANNEL_WINDOW_ADJUST <= payload[0] <= MSG_CHANNEL_FAILURE:
                if payload[1:5] in self._closed_there:
                    continue
                if payload[0] == MSG_CHANNEL_CLOSE:
                    self._closed_there.add(payload[1:5])
            payloads.append(payload)
        if payloads:
            self.packetizer.send_payloads(payloads)
        if len(payloads) > _UNSENT_MESSAGES:
            with self._room:
                self._room.notify_all()

    # -- the end ----------------------------------------------------------------------------------

    def lost(self, why: BaseException) -> None:
        if isinstance(why, Exception):
            self.saved_exception = self.saved_exception or why
        self.packetizer.hang_up()

    def close(self) -> None:
        """End the connection at once: the calls that wait on it are told, and no thread and no
        socket of it is left."""
        self.packetizer.hang_up()
        if self.ident is None:
            self._pump.close()
        elif threading.current_thread() is not self:
            self.join()
        self.active = False
        self.packetizer.close()

    def stop_thread(self) -> None:
        self.close()

    def _ended(self) -> None:
        """End, in the reading thread, last of all."""
        self.active = False
        self.packetizer.close()
        with self._room:
            self._room.notify_all()
        self._pump.stop()
        self._pump.thread.join()
        self._outbox.clear()

    def loss(self) -> ConnectionLostError:
        why = self.saved_exception
        return ConnectionLostError(
            "The SSH connection is lost.", detail=str(why) if why is not None else None
        )

    def drop_after_fork(self) -> None:
        """Let go, in a child process, without a word to the server, which the parent talks to."""
        self.active = False
        self.packetizer.drop_after_fork()
        self._pump.drop_after_fork()


def _drop_all_after_fork() -> None:
    for transport in list(_ALIVE):
        transport.drop_after_fork()


os.register_at_fork(after_in_child=_drop_all_after_fork)
