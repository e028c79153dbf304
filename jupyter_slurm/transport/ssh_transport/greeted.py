"""Who is at the other end of a channel, before it carries a local socket. All of it happens in the
connection's reading thread, which waits for nothing; giving up is for `__init__.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from paramiko.common import cMSG_CHANNEL_DATA

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.transport.connect_callbacks import Greeting
from jupyter_slurm.transport.ssh_transport.pump import Carried
from jupyter_slurm.transport.ssh_transport.stream import ChannelLine, SharedChannel


class Greeted:
    """Gets the channel's data before `carried` does. `on_greeted` is called with None or what is
    wrong, perhaps more than once."""

    def __init__(
        self,
        line: ChannelLine,
        greeting: Greeting,
        carried: Carried,
        on_greeted: Callable[[SharedChannel, ForwardError | None], None],
    ) -> None:
        self._line = line
        self._greeting = greeting
        self._carried = carried
        self._on_greeted = on_greeted
        self._heard = b""

    @property
    def channel(self) -> SharedChannel:
        return self._carried.channel

    @channel.setter
    def channel(self, channel: SharedChannel) -> None:
        self._carried.channel = channel

    def begin(self) -> None:
        """Begin to greet: the channel stands."""
        self._say(self._greeting.first)

    def deliver(self, views: list[memoryview]) -> None:
        self._heard = b"".join([self._heard, *views])
        size = self._greeting.answer_bytes
        if len(self._heard) < size:
            return
        try:
            last = self._greeting.last(self._heard[:size])
        except ForwardError as exc:
            self._on_greeted(self.channel, exc)
            return
        self._say(last)
        self._line.direct(self.channel, self._carried)
        self._line.took(self.channel, size)
        if rest := self._heard[size:]:
            self._carried.deliver([memoryview(rest)])
        self._on_greeted(self.channel, None)

    def ended(self) -> None:
        self._on_greeted(self.channel, ForwardError("Whoever is there has hung up."))

    def writable(self) -> None:
        """Do nothing: what is said fits into any window."""

    def _say(self, words: bytes) -> None:
        channel = self.channel
        with channel.lock:
            if channel.closed:
                return
            channel.out_window_size -= len(words)
            to = channel.remote_chanid.to_bytes(4, "big")
            self._line.put(cMSG_CHANNEL_DATA + to + len(words).to_bytes(4, "big") + words)
        self._line.push()
