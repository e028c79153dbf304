"""A Python program of ours in a job: its text goes in by standard input and is written nowhere.

Knows how it is begun, and nothing of what it says. Its maker (relay.py) knows where it runs.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import resources

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.readable import size
from jupyter_slurm.transport import limits

_START_S = 40.0
"""From the call to the far end's first word: Slurm may take its time to make a step."""

_PROGRAM = """mark=$1; shift
exec 3>&1
words=$("$@" 2>&1 >&3 3>&-)
printf '\\n%s%s' "$mark" "$words"
"""
"""POSIX sh: runs the rest with its standard output as it is, and says at the end, after a mark,
what came on the other one: the reason, where it failed."""
_PYTHON = """for python in "$1" python3 /usr/libexec/platform-python; do
  command -v "$python" >/dev/null && shift && exec "$python" "$@"
done
echo "There is no Python on $(uname -n): neither $1 nor python3." >&2
exit 127
"""
"""POSIX sh, run on the node: the first of the Pythons that is there, with the rest as its words."""
_LOADER = """import os
text = b""
while len(text) < {size}:
    text += os.read(0, {size} - len(text)) or os._exit(0)
exec(compile(text, "{name}", "exec"))
"""
"""Reads the far end's text from standard input, and not a byte more, and becomes it."""
_BUNDLE = """import sys, types
for name, text in {modules!a}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name + ".py", "exec"), module.__dict__)
"""
"""Puts modules that the text behind it imports where it finds them."""

_LAST_WORDS = 2000


OpenStream = Callable[[Sequence[str]], socket.socket]
"""The transport's verb."""
Beside = Callable[[Sequence[str]], Sequence[str]]
"""Puts a command in front of one that is to run on the node."""


def node_file(name: str) -> bytes:
    """Return the text of a file of `node/`."""
    return (resources.files("jupyter_slurm") / "node" / name).read_bytes()


def begin(
    open_stream: OpenStream, beside: Beside, python: str, names: Sequence[str]
) -> tuple[socket.socket, bytes]:
    """Return the program's input and output, and what it has said behind its first word.

    `names`: files of `node/`, the program last, behind the modules that it imports. `python`: the
    interpreter there. ForwardError.
    """
    text = _text(names)
    first, last = secrets.token_hex(16), secrets.token_hex(16)
    loader = _LOADER.format(size=len(text), name=names[-1])
    program = ["/bin/sh", "-c", _PYTHON, "sh", python, "-I", "-S", "-c", loader, first]
    channel = open_stream(["/bin/sh", "-c", _PROGRAM, "sh", last, *beside(program)])
    try:
        channel.settimeout(_START_S)
        with suppress(ConnectionError):  # why it has ended already, it will have said
            channel.sendall(text)
        return channel, _after_first_word(channel, first.encode(), last.encode())
    except BaseException:
        channel.close()
        raise


def _text(names: Sequence[str]) -> bytes:
    *before, last = names
    if not before:
        return node_file(last)
    modules = [(name.removesuffix(".py"), node_file(name).decode()) for name in before]
    return _BUNDLE.format(modules=modules).encode() + node_file(last)


def _after_first_word(channel: socket.socket, first: bytes, last: bytes) -> bytes:
    """Return what came after the first word; what a prolog printed before is passed over.

    ForwardError: with what came after `last`, the words of the program that was to start it; or
    there is no end to what comes before.
    """
    said = bytearray()
    deadline_s = time.monotonic() + _START_S
    # A reset is an end as well: the program has left what it was sent unread.
    with suppress(ConnectionError):
        while data := _received(channel, deadline_s):
            said += data
            _, found, after = said.partition(first)
            if found:
                return bytes(after)
            if len(said) > limits.WORDS_BYTES:
                raise ForwardError(
                    "The relay could not be started on the cluster: more than "
                    f"{size(limits.WORDS_BYTES)} came before its first word.",
                    hint="Does a prolog on the node print without end?",
                )
    words = said.partition(last)[2].decode(errors="replace").strip()
    raise ForwardError(
        "The relay could not be started on the cluster.",
        hint="Does the job still run?",
        detail=words[-_LAST_WORDS:] or None,
    )


def _received(channel: socket.socket, deadline_s: float) -> bytes:
    channel.settimeout(max(0.1, deadline_s - time.monotonic()))
    try:
        return channel.recv(1 << 16)
    except TimeoutError as exc:
        raise ForwardError(
            f"The relay on the cluster did not answer within {_START_S:g} s."
        ) from exc
