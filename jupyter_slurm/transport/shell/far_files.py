"""What is asked of files over there, in lines of POSIX sh, and what the answers mean. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from jupyter_slurm.errors import FileAccessError
from jupyter_slurm.transport import Span, limits
from jupyter_slurm.transport.shell.far_shell import ShellAnswer
from jupyter_slurm.transport.shell.words import quote_path, raw

_MISSING = (b"no such file", b"not a directory", b"nonexistent directory")
"""ENOENT and ENOTDIR as the shells say them, in small letters."""
_NO_FILE = 71
"""An exit status that neither `head` nor `tail` has."""


def read_script(span: Span) -> bytes:
    """Return a script that opens the file itself, which sees through the attribute cache of NFS;
    where it is not a file (a pipe would be waited for) it is not opened."""
    path = quote_path(span.path)
    limit = limits.FILE_BYTES + 1 if span.limit is None else span.limit
    parts = []
    if span.offset < 0:
        parts.append(b"tail -c %d" % -span.offset)
    elif span.offset > 0:
        parts.append(b"tail -c +%d" % (span.offset + 1))
    parts.append(b"head -c %d" % limit)
    command = b" | ".join(parts)
    if len(parts) < 2:
        command = b"exec " + command
    return (
        b"( if [ -e %b ] && [ ! -f %b ]; then exit %d; fi; exec <%b || exit 1; %b ) "
        b"2>&4 4>&-; _m $?" % (path, path, _NO_FILE, path, command)
    )


def most_read(spans: Sequence[Span]) -> int:
    """Return the most bytes that the answer of any of them can have."""
    sizes = [limits.FILE_BYTES if span.limit is None else span.limit for span in spans]
    return max(sizes, default=0) + limits.WORDS_BYTES


def read_answer(span: Span, answer: ShellAnswer) -> bytes | None:
    """Return what was read; None: there is no such file. FileAccessError."""
    if answer.status == "0" and not answer.stderr:
        if span.limit is None and len(answer.stdout) > limits.FILE_BYTES:
            raise limits.too_large(span.path, limits.FILE_BYTES)
        return answer.stdout
    if answer.status == str(_NO_FILE):
        raise limits.no_file(span.path)
    said = answer.stderr.replace(raw(span.path), b"").lower()
    if any(words in said for words in _MISSING):
        return None
    words = answer.stderr.decode(errors="replace").strip()
    raise FileAccessError(f"Cannot read {span.path} on the cluster.", detail=words or None)


def exists_script(path: PurePosixPath) -> bytes:
    return b"[ -e %b ]; _m $?" % quote_path(path)


def listing_script(folder: PurePosixPath) -> bytes:
    """Return a script that prints each name and a slash, which besides NUL is in no name."""
    return (
        b'( cd %b 2>/dev/null && for _a in * .[!.]* ..?*; do if [ -e "$_a" ] || [ -L "$_a" ]; '
        b"then printf '%%s/' \"$_a\"; fi; done ); _m 0" % quote_path(folder)
    )


def listing_answer(answer: ShellAnswer) -> list[str]:
    names = []
    for name in answer.stdout.split(b"/")[:-1]:
        try:
            names.append(name.decode())
        except UnicodeDecodeError:
            continue  # cannot be told or asked for
    return sorted(names)


def remove_script(paths: Sequence[PurePosixPath]) -> bytes:
    return b"rm -rf %b; _m 0" % b" ".join(map(quote_path, paths))
