"""A terminal on a node that has no Python: that of script(1), spoken of in frames.

To its user (console.py) it is as node/terminal.py, but for two things: it keeps the size that it
has begun with, and it ends with its line. Where programs begin is `terminals.py`'s.
"""

from __future__ import annotations

import re
import secrets
import select
import shlex
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from jupyter_slurm.transport.node_program import Beside, Converse
from jupyter_slurm.wire.framing import ANY_SIZE, Inbox, frame
from jupyter_slurm.wire.terminal_frames import BEGIN, DATA, SAID, exit_frame

_PIECE_BYTES = 1 << 16
_START_S = 40.0
_END_S = 10.0
"""How long one who comes may take to begin, and to go, once all is over."""
_NOTE = b"The node has no Python: the terminal keeps its size, and ends when it is left."

# $1 a mark, $2 sh text to be run on a terminal. `srun --pty` has none where it has none itself.
_FAR = r"""if command -v script >/dev/null; then
  JSLURM_SHELL=${SHELL:-}; export JSLURM_SHELL
  SHELL=/bin/sh exec script -qfc "$2" /dev/null
fi
echo "There is neither Python nor script(1) on $(uname -n): no terminal can be there."
printf '\n%s127.' "$1"
"""
# $1 the mark, then the program.
_ON_TERMINAL = r"""mark=$1 SHELL=$JSLURM_SHELL; shift; unset JSLURM_SHELL
stty -echo 2>/dev/null
printf '%s+' "$mark"
read -r rows columns TERM || exit
stty rows "$rows" cols "$columns" echo 2>/dev/null
export TERM
"$@"
printf '\n%s%s.' "$mark" "$?"
"""


def begin(converse: Converse, beside: Beside, argv: Sequence[str]) -> socket.socket:
    """Return a terminal's own channel. Without a step, show Slurm's words, and end."""
    mark = f"\x1e{secrets.token_hex(16)}"
    words = shlex.join(["/bin/sh", "-c", _ON_TERMINAL, "sh", mark, *argv])
    far = converse(beside(["/bin/sh", "-c", _FAR, "sh", mark, words]))
    near, ours = socket.socketpair()
    threading.Thread(
        target=_Between(far, ours, mark.encode()).run, name="plain terminal", daemon=True
    ).start()
    return near


class _Between:
    """Frames on one side, bytes on the other."""

    def __init__(self, far: socket.socket, near: socket.socket, mark: bytes) -> None:
        self._far = far
        self._near = near
        self._ready = mark + b"+"
        # The line's end before it may have come, and been shown, by itself.
        self._end = re.compile(b"(?:\r?\n)?" + re.escape(mark) + rb"(\d{1,3})\.")
        self._inbox = Inbox(ANY_SIZE)
        self._shown = bytearray()

    def run(self) -> None:
        with self._far, self._near, suppress(OSError):
            self._far.settimeout(_START_S)
            while (
                self._ready not in self._shown
                and len(self._shown) <= _PIECE_BYTES
                and (data := self._far.recv(_PIECE_BYTES))
            ):
                self._shown += data
            before, ready, after = bytes(self._shown).partition(self._ready)
            self._shown = bytearray(after if ready else before)
            self._far.settimeout(None)
            if ready:
                self._say(SAID, _NOTE)
            sides: dict[socket.socket, Callable[[bytes], bool]] = {
                self._far: self._show,
                self._near: self._take,
            }
            goes_on = self._show(b"") and bool(ready)
            while goes_on:
                for sock in select.select(list(sides), [], [])[0]:
                    data = sock.recv(_PIECE_BYTES)
                    goes_on = goes_on and bool(data) and sides[sock](data)
            self._say(DATA, bytes(self._shown))
            self._far.close()
            # Who comes has perhaps not begun: a closed socket would be all that is found.
            self._near.shutdown(socket.SHUT_WR)
            self._near.settimeout(_END_S)
            while self._near.recv(_PIECE_BYTES):
                pass

    def _take(self, data: bytes) -> bool:
        for kind, body in self._inbox.take(data):
            if kind == BEGIN:
                told = msgspec.json.decode(body)
                term = re.sub(r"[^\w.+-]", "", told["env"].get("TERM", "")) or "dumb"
                self._far.sendall(f"{told['rows']} {told['columns']} {term}\n".encode())
            elif kind == DATA:
                self._far.sendall(body)
        return True

    def _show(self, data: bytes) -> bool:
        """Show `data`; return whether the program runs. What may begin the mark is kept back."""
        self._shown += data
        ended = self._end.search(bytes(self._shown))
        if ended:
            self._say(DATA, bytes(self._shown[: ended.start()]))
            self._shown.clear()
            self._near.sendall(exit_frame(int(ended[1])))
            return False
        at = self._shown.find(b"\x1e", max(0, len(self._shown) - 64))
        whole = len(self._shown) if at < 0 else max(0, at - 2)
        self._say(DATA, bytes(self._shown[:whole]))
        del self._shown[:whole]
        return True

    def _say(self, kind: bytes, body: bytes) -> None:
        if body:
            self._near.sendall(frame(kind, body))
