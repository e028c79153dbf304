"""News for all watching clients, from one long poll of the agent per place. A place is a call,
its arguments and a cursor. A client with an older cursor catches up by its own poll and then
joins the others. So there is normally one poll per call and arguments, for any number of
clients. Without clients, the feed does not poll. The feed reads only the cursor of the answers
that it passes on. It does not depend on WebSockets or the contents of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from jupyter_slurm.agent.protocol import body_of
from jupyter_slurm.errors import AgentError
from jupyter_slurm.server.relay import AgentAnswer

Ask = Callable[[str, bytes, float], Awaitable[AgentAnswer]]
"""A function that answers a call, given its name, its body and `wait_s`. It never raises."""

_WAIT_S = 15.0
_LEAST_WAIT_S = 1.0
_MANY_POLLS = 64
"""Maximum number of polls that wait their full time. If there are more polls, each waits for a
shorter time."""
_PACE_S = 0.1
"""The pause between values, so a job that writes continuously sends at most ten values a second."""
_STILL_S = 0.5
"""The pause after an immediate answer without news."""
_BACK_OFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)


@dataclass(eq=False)
class Subscription:
    """A watching client."""

    call: str
    args: dict[str, Any]
    cursor: str
    """The cursor after the client's last value."""
    give: Callable[[bytes], bool]
    """The receiver of values. If it returns False, the feed drops the watch, and the cursor
    stays."""
    fail: Callable[[bytes], None]
    """The receiver of problems. The feed tries again, and the next value means that the problem is
    solved."""
    paced: bool = False
    """After a value the feed waits for `Feed.go_on`, so a slow reader skips to the newest value."""
    _held: bool = False
    """The watch is paced, and the client has not finished its last value."""
    _last: int = 0
    """The hash of the client's last value."""
    _failures: int = 0
    _poll: _Poll | None = field(default=None, repr=False)


class _PollKey(NamedTuple):
    call: str
    args: bytes
    cursor: str
    first: bool
    """Set if the agent should answer at once, even without news."""


@dataclass(eq=False)
class _Poll:
    place: _PollKey
    watches: set[Subscription] = field(default_factory=set)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a new client arrives, so that it does not wait for the end of a pause."""
    task: asyncio.Task[None] | None = None


class _Position(msgspec.Struct):
    """The next cursor, the only part of a value that the feed reads."""

    cursor: str
    end: bool = False


class Feed:
    """The polls for watching clients. `seen` gets every value once."""

    def __init__(self, ask: Ask, caller: str, seen: Callable[[str, bytes], None]) -> None:
        self._ask = ask
        self._caller = caller
        self._seen = seen
        self._polls: dict[_PollKey, _Poll] = {}

    def watch(self, watch: Subscription) -> None:
        """Start a watch. Its first value is sent at once, even without news."""
        self._join(watch, first=True).hurry.set()

    def unwatch(self, watch: Subscription) -> None:
        if watch._poll is not None:
            watch._poll.watches.discard(watch)
            watch._poll = None
        watch._held = False

    def go_on(self, watch: Subscription) -> None:
        """Continue a paced watch after the client has finished the last value."""
        if watch._held:
            watch._held = False
            self._join(watch, first=False)

    def close(self) -> None:
        for poll in self._polls.values():
            if poll.task is not None:
                poll.task.cancel()

    def _join(self, watch: Subscription, *, first: bool, pause_s: float = 0.0) -> _Poll:
        args = msgspec.json.encode(dict(sorted(watch.args.items())))
        place = _PollKey(watch.call, args, watch.cursor, first)
        poll = self._polls.get(place)
        if poll is None:
            poll = self._polls[place] = _Poll(place)
            poll.task = asyncio.create_task(self._run(poll, watch.args, pause_s))
        poll.watches.add(watch)
        watch._poll = poll
        return poll

    async def _run(self, poll: _Poll, args: Mapping[str, object], pause_s: float) -> None:
        if pause_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(poll.hurry.wait(), pause_s)
        if not poll.watches:
            del self._polls[poll.place]
            return
        began_s = monotonic()
        try:
            answer = await self._poll_agent(poll.place, args)
        finally:
            del self._polls[poll.place]
        found = _position(answer)
        watches = list(poll.watches)
        if isinstance(found, _Position):
            self._seen(poll.place.call, answer.body)
            pause_s = _PACE_S - (monotonic() - began_s)
            for watch in watches:
                self._tell(watch, poll.place, answer.body, found, pause_s)
        else:
            for watch in watches:
                self._fail(watch, found)

    async def _poll_agent(self, place: _PollKey, args: Mapping[str, object]) -> AgentAnswer:
        wait_s = 0.0 if place.first else self._wait_s()
        body: dict[str, Any] = {**args, "cursor": place.cursor, "wait_s": wait_s}
        if place.call == "changes":
            body["caller"] = self._caller
        return await self._ask(place.call, msgspec.json.encode(body), wait_s)

    def _wait_s(self) -> float:
        return max(_LEAST_WAIT_S, _WAIT_S * min(1.0, _MANY_POLLS / len(self._polls)))

    def _tell(
        self,
        watch: Subscription,
        place: _PollKey,
        value: bytes,
        position: _Position,
        pause_s: float,
    ) -> None:
        watch._poll = None
        is_news = place.first or hash(value) != watch._last
        if is_news and not watch.give(value):
            return
        if not is_news and position.cursor == place.cursor and pause_s > 0:
            pause_s = _STILL_S
        watch.cursor, watch._last, watch._failures = position.cursor, hash(value), 0
        if is_news and watch.paced and not position.end:
            watch._held = True
        elif not position.end:
            self._join(watch, first=False, pause_s=max(0.0, pause_s))

    def _fail(self, watch: Subscription, problem: bytes) -> None:
        if hash(problem) != watch._last:
            watch.fail(problem)
            watch._last = hash(problem)
        pause_s = _BACK_OFF_S[min(watch._failures, len(_BACK_OFF_S) - 1)]
        watch._failures += 1
        self._join(watch, first=True, pause_s=pause_s)


def _position(answer: AgentAnswer) -> _Position | bytes:
    """Return the part of a value that the feed reads, or the problem."""
    if answer.status != 200:
        return answer.body
    try:
        return msgspec.json.decode(answer.body, type=_Position)
    except msgspec.MsgspecError as exc:
        return body_of(
            AgentError(
                f"Cannot read the agent's answer: {exc}.",
                hint="If jupyter-slurm was just updated, restart the Jupyter server.",
            )
        )
