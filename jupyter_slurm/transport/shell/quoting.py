"""Quoting for a POSIX shell on the cluster: the only place that turns an argv into text. No I/O. A
command is sent as ONE line, because the shell reads it with `read -r`. A newline within a word
becomes `$_n`, which our shells define (`remote_shell.py`).
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
    Raise ValueError for a NUL, which arguments cannot contain.
    """
    data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError("embedded null byte")
    return data


def quote(word: str | bytes | PurePath) -> bytes:
    r"""Quote a word for the shell on the cluster.

    >>> print(quote("it's a word").decode(), quote("two\nlines").decode())
    'it'\''s a word' 'two'"$_n"'lines'
    """
    data = raw(word)
    if _PLAIN.fullmatch(data):
        return data
    return b"'" + data.replace(b"'", b"'\\''").replace(b"\n", b"'\"$_n\"'") + b"'"


def quote_path(path: str | PurePath) -> bytes:
    """Quote as `quote` does, and prevent programs from reading the word as an option."""
    data = raw(path)
    return quote(b"./" + data if data.startswith(b"-") else data)


def words(argv: Iterable[str]) -> bytes:
    return b" ".join(quote(word) for word in argv)


def exports(env: Mapping[str, str] | None) -> bytes:
    """Return export commands for a subshell, each followed by `;`. Values must not be in a
    program's argv, which every user of that machine can read. Raise RequestError for a name that
    POSIX shells cannot export.
    """
    for name in env or {}:
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{name!r} is not a valid name of an environment variable.",
                hint="Use letters, digits and _, and do not start with a digit.",
            )
    return b"".join(
        b"export " + name.encode() + b"=" + quote(value) + b"; "
        for name, value in (env or {}).items()
    )
