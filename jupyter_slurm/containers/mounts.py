"""Read `--mount SRC[:DST[:ro]]`, and write a mount as CSV. Pure; a runtime knows whether it can do
it."""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Sequence

from jupyter_slurm.containers.runtime import Mount, without_nul
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Message

_FORM = "Say --mount SRC, SRC:DST or SRC:DST:ro."


def parse_mount(text: str, home: str) -> Mount:
    """Parse a mount; a leading `~` of SRC is `home`, the user's on the cluster. No DST: as SRC.

    RequestError: not of that form, or a path is relative. There is no escape for a colon.
    """
    has_nul = Message.of("There is a NUL character in --mount.")
    src, *rest = without_nul(text, has_nul).split(":")
    dst = rest[0] if rest else None
    mode = rest[1] if len(rest) > 1 else "rw"
    if not src or dst == "" or mode not in {"ro", "rw"} or len(rest) > 2:
        raise RequestError(
            "--mount {text} is not understood.", hint=_FORM, option="mount", text=repr(text)
        )
    src = home_expanded(src, home)
    for path in (src, dst or src):
        if not posixpath.isabs(path):
            raise RequestError(
                "--mount {text}: {path} is not an absolute path.",
                hint="{form} SRC may begin with ~/, your home on the cluster.",
                option="mount",
                text=repr(text),
                path=path,
                form=_FORM,
            )
    return Mount(src, dst or src, read_only=mode == "ro")


def csv_line(fields: Sequence[str]) -> str:
    """Join the fields of a mount for tools that read it as CSV, where a path may hold a comma, a
    quote or a newline."""
    line = io.StringIO()
    csv.writer(line).writerow(fields)
    return line.getvalue().removesuffix("\r\n")


def home_expanded(path: str, home: str) -> str:
    """Replace a leading `~` or `~/` of `path`; leave other users' homes (`~name`) alone."""
    if path == "~" or path.startswith("~/"):
        return home.rstrip("/") + path[1:]
    return path
