"""PURE: the request for a terminal, and its frames; their far end is node/terminal.py."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from jupyter_slurm.wire.framing import GarbledError, Inbox, frame

__all__ = ["TerminalRequest"]

SETUP, BEGIN, DATA, SIZE = b"S", b"B", b"D", b"W"
NUMBER, SAID, TAKEN, EXIT = b"N", b"T", b"L", b"X"
"""The kinds of frames, as in node/terminal.py."""
ALIVE_EVERY_S = 15.0
"""Well below the silence after which the far end gives us up."""

_WINDOW = struct.Struct(">HH")
_STATUS = struct.Struct(">i")
_LONGEST_BODY = 1 << 20
"""node/terminal.py sends 64 KiB at a time."""
_TOLD = re.compile("TERM|COLORTERM|LANG|LC_.*")
"""The variables of the terminal here that the program there gets, as by Debian's SendEnv of ssh."""


def inbox() -> Inbox:
    """Return the inbox for the frames from the far end."""
    return Inbox(_LONGEST_BODY)


def begin(rows: int, columns: int, environ: Mapping[str, str]) -> bytes:
    """Return the first frame, with the terminal's size and its variables in `environ`."""
    env = {name: text for name, text in environ.items() if _TOLD.fullmatch(name)}
    told = {"rows": rows, "columns": columns, "env": env}
    return frame(BEGIN, msgspec.json.encode(told))


def size(rows: int, columns: int) -> bytes:
    return frame(SIZE, _WINDOW.pack(rows, columns))


def exit_frame(status: int) -> bytes:
    return frame(EXIT, _STATUS.pack(status))


def status_of(body: bytes) -> int:
    """Return the program's exit status in the body of an EXIT, as a shell reports it.
    GarbledError."""
    try:
        return int(_STATUS.unpack(body)[0])
    except struct.error as exc:
        raise GarbledError("it told no exit status") from exc


class TerminalRequest(Struct, frozen=True, kw_only=True):
    """The terminal of a job of kind TERMINAL, the messages of one of kind KERNEL (in the frames of
    node/kernel_frames.py), or a terminal beside what a job runs."""

    job_id: str
    """Our id of the job, or Slurm's."""
    code: str
    """The sh script that runs in a new terminal."""
    beside: bool = False
    """Whether to open a new terminal even if the job has one of its own."""
    node: str | None = None
    """The node of the job where it is to be; None: any that has one, else the first."""
    number: int | None = None
    """Which of the terminals that the job keeps; None: the one that was left last."""


class Numbered(Struct, frozen=True, kw_only=True):
    """The body of a NUMBER: which of a job's terminals this is."""

    number: int | None
    """None: the one that was asked for is not there."""
    others: tuple[int, ...]
    node: str = ""


def numbered(body: bytes) -> Numbered:
    """Return the body of a NUMBER. GarbledError."""
    try:
        return msgspec.json.decode(body, type=Numbered)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise GarbledError("it told no terminal's number") from exc
