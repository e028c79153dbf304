"""The WebSocket of a terminal in a job: permissions, and its bytes between the page and the agent.

The page sends what it sends to Jupyter's own terminals (terminado): JSON arrays whose first item
says what they are. `["set_size", rows, columns]` comes first, then `["stdin", text]`; back go
`["number", n]`, by which the page finds the same terminal again in a job that keeps it,
`["stdout", text]` and, last, the reason for the end: `exited` with a status, `taken`, `lost`, or
`problem` with a Problem. Nothing here lasts longer than the WebSocket.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_slurm.agent.protocol import NOT_JSON, body_of
from jupyter_slurm.client import AgentClient
from jupyter_slurm.commands import shell
from jupyter_slurm.errors import JupyterSlurmError, RequestError
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.server.access import Guarded
from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.relay import Relay
from jupyter_slurm.wire import TerminalRequest, terminal_frames
from jupyter_slurm.wire.framing import ALIVE, GarbledError, frame
from jupyter_slurm.wire.terminal_frames import ALIVE_EVERY_S, DATA, EXIT, NUMBER, SAID, TAKEN

_PIECE_BYTES = 1 << 16
_UNTAKEN_BYTES = 8 * 1024 * 1024
"""The most bytes typed or pasted ahead; the far end takes what its program reads."""
_MOST_CELLS = 0xFFFF
_LONGEST_NUMBER = 9
_OUR_WORDS = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
"""The variables of xterm.js."""

Send = Callable[[bytes], Awaitable[Any]]


class Terminal:
    """One page's terminal, opened once the page has sent its size."""

    def __init__(self, connect: Callable[[], Awaitable[socket.socket]], send: Send) -> None:
        """Take `send`, whose answer is awaited until the message has left; then read more."""
        self._connect = connect
        self._send = send
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._untaken = bytearray()
        """Input that came before the far end could take it."""

    def take(self, message: str | bytes) -> None:
        """Take a message from the page. RequestError: not understood, or too much input ahead."""
        match _decoded(message):
            case ["set_size", int(rows), int(columns), *_] if _fits(rows) and _fits(columns):
                if self._task is None:
                    self._task = asyncio.create_task(self._run(rows, columns))
                else:
                    self._put(terminal_frames.size(rows, columns))
            case ["stdin", str(text)]:
                self._put(frame(DATA, text.encode("utf-8", "replace")))
            case _:
                raise RequestError("Not understood: a terminal's size or what is typed was meant.")

    def close(self) -> None:
        """Leave the terminal; the program in the job gets a hangup, or waits if the job keeps
        it."""
        if self._task is not None:
            self._task.cancel()

    def _put(self, said: bytes) -> None:
        waiting = len(self._untaken)
        if self._writer is not None:
            waiting = self._writer.transport.get_write_buffer_size()
        if waiting + len(said) > _UNTAKEN_BYTES:
            raise RequestError("More was typed or pasted than the program there reads.")
        if self._writer is None:
            self._untaken += said
        else:
            self._writer.write(said)

    async def _run(self, rows: int, columns: int) -> None:
        opening = asyncio.ensure_future(self._connect())
        try:
            sock = await asyncio.shield(opening)
        except JupyterSlurmError as exc:
            await self._tell_problem(exc)
            return
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise
        reader, writer = await asyncio.open_connection(sock=sock)
        alive = asyncio.create_task(_keep_alive(writer))
        try:
            writer.write(terminal_frames.begin(rows, columns, os.environ | _OUR_WORDS))
            writer.write(bytes(self._untaken))
            self._writer = writer
            await self._carry(reader)
        finally:
            alive.cancel()
            writer.transport.abort()  # a far end that does not read keeps nothing open

    async def _carry(self, reader: asyncio.StreamReader) -> None:
        inbox = terminal_frames.inbox()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while not inbox.ended and (data := await reader.read(_PIECE_BYTES)):
                for kind, body in inbox.take(data):
                    if kind == DATA:
                        await self._say("stdout", decoder.decode(body))
                    elif not await self._pass_on(kind, body):
                        return
        except GarbledError as exc:
            await self._say("said", f"The line from the job is garbled: {exc}.")
        except ConnectionError:
            pass  # it is lost
        await self._say("lost")

    async def _pass_on(self, kind: bytes, body: bytes) -> bool:
        """Tell the page what a frame without output says; return whether more may come."""
        if kind == SAID:
            await self._say("said", body.decode(errors="replace"))
        elif kind == NUMBER:
            which = terminal_frames.numbered(body)
            if which.number is None:
                await self._tell_problem(shell.absent(which.others))
                return False
            await self._say("number", which.number)
        elif kind == TAKEN:
            await self._say("taken")
            return False
        elif kind == EXIT:
            await self._say("exited", terminal_frames.status_of(body))
            return False
        return True

    async def _tell_problem(self, exc: JupyterSlurmError) -> None:
        await self._send(b'["problem",%b]' % body_of(exc))

    async def _say(self, *words: str | int) -> None:
        await self._send(msgspec.json.encode(words))


class TerminalHandler(Guarded, WebSocketMixin, JupyterHandler, WebSocketHandler):
    """`{base_url}jupyter-slurm/api/terminal?job_id=…`, of one that was there before with its
    number, `&number=…`."""

    def initialize(self, relay: Relay, terminals: set[Terminal]) -> None:
        self._relay = relay
        self._terminals = terminals
        self._terminal: Terminal | None = None

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        await self.permit(OWN["terminal"])
        await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> None:
        super().open(*args, **kwargs)
        job_id = self.get_query_argument("job_id", "")
        told = self.get_query_argument("number", "")
        number = int(told) if told.isdecimal() and len(told) <= _LONGEST_NUMBER else None
        self._terminal = Terminal(
            lambda: self._relay.with_agent(lambda agent: _opened(agent, job_id, number)), self._give
        )
        self._terminals.add(self._terminal)

    def on_message(self, message: str | bytes) -> None:
        if self._terminal is None:
            return
        try:
            self._terminal.take(message)
        except RequestError as exc:
            self._terminal.close()
            self.write_message(b'["problem",%b]' % body_of(exc))
            self.close()

    def on_close(self) -> None:
        if self._terminal is not None:
            self._terminal.close()
            self._terminals.discard(self._terminal)
        super().on_close()

    async def _give(self, message: bytes) -> None:
        with suppress(WebSocketClosedError):
            await self.write_message(message)


def _opened(agent: AgentClient, job_id: str, number: int | None) -> socket.socket:
    """Open the terminal with that number if the job keeps any, or the one that was left last, else
    one beside its program."""
    job = agent.job(job_id)
    keeps = kind_of(job).has_terminal
    which = number if keeps else None
    sock = agent.terminal(
        TerminalRequest(job_id=job.id, code=shell.ANY_SHELL, beside=not keeps, number=which)
    )
    sock.setblocking(False)
    return sock


def _close_unused(opening: asyncio.Future[socket.socket]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Tell the far end that the page is there, as long as it is."""
    while True:
        await asyncio.sleep(ALIVE_EVERY_S)
        writer.write(frame(ALIVE))


def _decoded(message: str | bytes) -> object:
    try:
        return msgspec.json.decode(message)
    except NOT_JSON:
        return None


def _fits(cells: int) -> bool:
    return 0 < cells <= _MOST_CELLS
