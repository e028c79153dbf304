"""The WebSocket: permissions, a client's watches, and its unread values.

The feed polls the agent, and clients only read the feed's values. The WebSocket drops unread values
beyond a limit. It requests them again from the client's cursor after the client has read the rest.
A browser buffers values that a slow page has not handled yet. So the page paces bulk data by
acknowledging each value that it has shown.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_slurm.agent.protocol import NOT_JSON, body_of
from jupyter_slurm.errors import RequestError
from jupyter_slurm.server.access import Guarded
from jupyter_slurm.server.calls import OWN, WATCHED
from jupyter_slurm.server.feed import Feed, Subscription

_UNREAD_BYTES = 4 * 1024 * 1024
_WATCHES = 256
"""The maximum number of watches per client."""
_WISH_BYTES = 16 * 1024
"""The maximum size of a message. The server stores watches (`_REMEMBERED`), so their size needs a
limit."""
_ALIVE_S = 7.0
"""Seconds between messages. A page that gets no message for several intervals considers the
connection broken."""
_REMEMBERED = 1024
_NOT_THEIRS = ("cursor", "wait_s", "caller")
"""Arguments that the feed sets instead of the client."""


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    """A client's message."""

    watch: int | None = None
    call: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    cursor: str = ""
    paced: bool = False
    """The page acknowledges every value it has shown, and the feed requests the next value only
    then."""
    taken: int | None = None
    unwatch: int | None = None


class Client:
    """The watches of one WebSocket, and its unsent values."""

    def __init__(self, feed: Feed, send: Callable[[bytes], Any]) -> None:
        """`send` returns an awaitable that ends when the message has been sent."""
        self._feed = feed
        self._send = send
        self._watches: dict[int, Subscription] = {}
        self._left: OrderedDict[int, _Wish] = OrderedDict()
        """The requests by number, with the cursor of the last value sent."""
        self._behind: set[Subscription] = set()
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._sender: asyncio.Task[None] | None = None
        self._said_anything = False
        self._alive = asyncio.create_task(self._say_so())

    def take(self, message: str | bytes) -> None:
        if len(message) > _WISH_BYTES:
            self._put_problem(b'{"problem":%b}' % body_of(RequestError("The message is too long.")))
            return
        try:
            wish = msgspec.json.decode(message, type=_Wish)
        except NOT_JSON as exc:
            self._put_problem(
                b'{"problem":%b}' % body_of(RequestError(f"Cannot read the message: {exc}."))
            )
            return
        if wish.unwatch is not None:
            self._leave(wish.unwatch)
        if wish.taken in self._watches:
            self._feed.go_on(self._watches[wish.taken])
        if wish.watch is not None:
            self._watch(wish.watch, wish)

    def close(self) -> None:
        self._alive.cancel()
        for number in list(self._watches):
            self._leave(number)
        if self._sender is not None:
            self._sender.cancel()

    def _watch(self, number: int, wish: _Wish) -> None:
        """Start a watch. A running watch with this number continues; an earlier watch resumes after
        the last value sent, since the client's cursor may be older."""
        args = {name: value for name, value in wish.args.items() if name not in _NOT_THEIRS}
        now = self._watches.get(number)
        if now is not None and (now.call, now.args) == (wish.call, args):
            return
        self._leave(number)
        before = self._left.pop(number, wish)
        problem = self._refusal(wish)
        if problem is not None:
            self._problem(number, body_of(problem))
            return
        goes_on = (before.call, before.args) == (wish.call, args)
        watch = self._watches[number] = Subscription(
            call=wish.call,
            args=args,
            cursor=before.cursor if goes_on else wish.cursor,
            give=lambda value: self._value(number, value),
            fail=lambda problem: self._problem(number, problem),
            paced=wish.paced,
        )
        self._feed.watch(watch)

    def _refusal(self, wish: _Wish) -> RequestError | None:
        if wish.call not in WATCHED:
            return RequestError(f"{wish.call!r} cannot be watched.")
        if len(self._watches) >= _WATCHES:
            return RequestError(f"A page may have at most {_WATCHES} watches.")
        return None

    def _leave(self, number: int) -> None:
        watch = self._watches.pop(number, None)
        if watch is not None:
            self._behind.discard(watch)
            self._feed.unwatch(watch)
            self._left[number] = _Wish(call=watch.call, args=watch.args, cursor=watch.cursor)
            if len(self._left) > _REMEMBERED:
                self._left.popitem(last=False)

    def _value(self, number: int, value: bytes) -> bool:
        if self._unread_bytes >= _UNREAD_BYTES:
            self._behind.add(self._watches[number])
            return False
        self._put(b'{"watch":%d,"value":%b}' % (number, value))
        return True

    def _problem(self, number: int, problem: bytes) -> None:
        self._put_problem(b'{"watch":%d,"problem":%b}' % (number, problem))

    def _put_problem(self, message: bytes) -> None:
        """Report a problem, unless the client does not read. Unread problems could accumulate
        without limit."""
        if self._unread_bytes < _UNREAD_BYTES:
            self._put(message)

    def _put(self, message: bytes) -> None:
        self._said_anything = True
        self._unread.append(message)
        self._unread_bytes += len(message)
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        with suppress(WebSocketClosedError):
            while self._unread:
                await self._send(self._unread[0])
                self._unread_bytes -= len(self._unread.popleft())
        self._sender = None
        while self._behind:
            self._feed.watch(self._behind.pop())

    async def _say_so(self) -> None:
        """Send an empty message if no other message is pending."""
        while True:
            self._said_anything = False
            await asyncio.sleep(_ALIVE_S)
            if not self._said_anything and not self._unread:
                self._put(b"{}")


class WatchHandler(Guarded, WebSocketMixin, JupyterHandler, WebSocketHandler):
    """The route `{base_url}jupyter-slurm/api/watch`."""

    def initialize(self, feed: Feed, clients: set[Client]) -> None:
        self._feed = feed
        self._clients = clients
        self._client: Client | None = None

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        await self.permit(OWN["watch"])
        await super().get(*args, **kwargs)

    def get_compression_options(self) -> dict[str, Any]:
        """Compress lightly. A listing shrinks to a tenth at 3 ms per megabyte, which helps on a
        slow connection. Stronger compression gains little."""
        return {"compression_level": 1}

    def open(self, *args: str, **kwargs: str) -> None:
        super().open(*args, **kwargs)
        self._client = Client(self._feed, self.write_message)
        self._clients.add(self._client)

    def on_message(self, message: str | bytes) -> None:
        if self._client is not None:
            self._client.take(message)

    def on_close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._clients.discard(self._client)
        super().on_close()
