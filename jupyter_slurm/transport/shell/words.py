"""Words for a POSIX shell at the other end of a channel; the one place where an argv becomes text.

Pure. A command goes over as ONE line, since that is what `read -r` there takes: a newline within a
word becomes `$_n`, which every shell of ours over there knows (`far_shell.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from jupyter_slurm.errors import RequestError

_PLAIN = re.compile(rb"[A-Za-z0-9_./:,@%+-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def raw(word: str | bytes | PurePath) -> bytes:
    """Return a word's bytes; surrogates stand for bytes that are not UTF-8, as in `os.fsencode`.

    ValueError: a NUL, which no program can be given.
    """
    data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError("embedded null byte")
    return data


def quote(word: str | bytes | PurePath) -> bytes:
    r"""Quote a word as the shell over there reads it back.

    >>> print(quote("it's a word").decode(), quote("two\nlines").decode())
    'it'\''s a word' 'two'"$_n"'lines'
    """
    data = raw(word)
    if _PLAIN.fullmatch(data):
        return data
    return b"'" + data.replace(b"'", b"'\\''").replace(b"\n", b"'\"$_n\"'") + b"'"


def quote_path(path: str | PurePath) -> bytes:
    """Quote as `quote` does, so that no program can take it for an option."""
    data = raw(path)
    return quote(b"./" + data if data.startswith(b"-") else data)


def words(argv: Iterable[str]) -> bytes:
    return b" ".join(quote(word) for word in argv)


def exports(env: Mapping[str, str] | None) -> bytes:
    """Return commands for a subshell, each with its `;`. Values never stand in the argv of a
    program, where everybody on that machine could read them.

    RequestError: a name that no POSIX shell can export.
    """
    for name in env or {}:
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{name!r} cannot be the name of an environment variable on another machine.",
                hint="Letters, digits and _, not a digit first.",
            )
    return b"".join(
        b"export " + name.encode() + b"=" + quote(value) + b"; "
        for name, value in (env or {}).items()
    )
