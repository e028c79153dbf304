"""Mounts: the parser of `--mount SRC[:DST[:ro]]`, and the CSV format. No I/O. Runtimes check
whether they support a mount."""

from __future__ import annotations

import csv
import io
import posixpath
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jupyter_slurm.containers.runtime import Mount, without_nul
from jupyter_slurm.errors import RequestError

_FORM = "Use --mount SRC, SRC:DST or SRC:DST:ro."
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})(/.*)?")
_LINK = (
    '[ -n "${{{name}:-}}" ] && ln -sfn -- "${name}"{rest} {link} || '
    "{{ echo 'jupyter-slurm: --mount: ${name} is not set on this node' >&2; false; }}"
)


@dataclass(frozen=True, slots=True)
class MountRoots:
    """The folders that relative mount paths refer to."""

    home: str
    """The user's home on the cluster."""
    here: str
    """The job's working directory, written `.`."""
    job_dir: str


@dataclass(frozen=True, slots=True)
class Mounts:
    mounts: tuple[Mount, ...]
    links: tuple[str, ...]
    """Sh lines for the node. They create links for paths that start with a variable, because only a
    shell on the node can expand the variable."""


def parse_mounts(texts: Iterable[str], places: MountRoots) -> Mounts:
    """Parse mounts. If several have the same destination, the last counts. Raise RequestError as
    `parse_mount` does."""
    found: dict[str, Mount] = {}
    for text in texts:
        mount = parse_mount(text, places.home, places.here)
        found[posixpath.normpath(mount.dst)] = mount
    mounts, links = [], []
    for number, mount in enumerate(found.values()):
        variable = _VARIABLE.fullmatch(mount.src)
        if variable is None:
            mounts.append(mount)
            continue
        link = f"{places.job_dir}/bind.{number}"
        links.append(
            _LINK.format(
                name=variable[1] or variable[2],
                rest=shlex.quote(variable[3]) if variable[3] else "",
                link=shlex.quote(link),
            )
        )
        mounts.append(replace(mount, src=link))
    return Mounts(tuple(mounts), tuple(links))


def parse_mount(text: str, home: str, here: str) -> Mount:
    """Parse a mount; DST defaults to SRC. At the start of SRC, replace `~` by `home` (the user's
    home on the cluster) and `.` by `here` (the job's working directory), but keep `$NAME`. A colon
    cannot be escaped. Raise RequestError if a path is malformed or relative.
    """
    has_nul = "--mount has a NUL character."
    src, *rest = without_nul(text, has_nul).split(":")
    dst = rest[0] if rest else None
    mode = rest[1] if len(rest) > 1 else "rw"
    if not src or dst == "" or mode not in {"ro", "rw"} or len(rest) > 2:
        raise RequestError(f"Cannot read --mount {text!r}.", hint=_FORM, option="mount")
    src = home_expanded(src, home)
    if src == "." or src.startswith("./"):
        src = posixpath.normpath(posixpath.join(here, src))
    if dst is None and _VARIABLE.fullmatch(src):
        raise RequestError(
            f"--mount {text!r} needs a mount point in the image.",
            hint=f"Add the mount point: --mount '{src}:/mnt/NAME'.",
            option="mount",
        )
    for path in (src, dst or src):
        if not posixpath.isabs(path) and not (path is src and _VARIABLE.fullmatch(path)):
            raise RequestError(
                f"--mount {text!r}: {path} is not an absolute path.",
                hint=f"{_FORM} SRC may start with ~/ (your home on the cluster), ./ (the job's "
                "working directory) or $NAME (a variable of the node).",
                option="mount",
            )
    return Mount(src, dst or src, read_only=mode == "ro")


def csv_line(fields: Sequence[str]) -> str:
    """Join the fields of a mount for tools that read it as CSV. Paths may contain commas, quotes
    and newlines."""
    line = io.StringIO()
    csv.writer(line).writerow(fields)
    return line.getvalue().removesuffix("\r\n")


def home_expanded(path: str, home: str) -> str:
    """Replace a leading `~` or `~/` of `path`, but not other users' homes (`~name`)."""
    if path == "~" or path.startswith("~/"):
        return home.rstrip("/") + path[1:]
    return path
