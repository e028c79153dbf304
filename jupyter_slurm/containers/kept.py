"""PURE: a container that stays on its node under a name: made once, found again, removed.

    containers/NAME@RUNTIME@NODE        a note in our own folder of images: that node has it
    containers/NAME@RUNTIME@NODE.lock   held while it is made or removed; holds a word while one is
                                        made, which is left where the job was killed

The note is the job's that has made the container, or found it there. No node is ever asked.

Facts (pyxis 0.24, read): with `container_scope=job` (0.9) the containers of a job have its number
in their names, and go with it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from jupyter_slurm.errors import MalformedError, RequestError
from jupyter_slurm.foreign import Moment, read_json
from jupyter_slurm.wire import Message

FOLDER = "containers"
"""In our own folder of images."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}"
_NOTE = re.compile(rf"({_NAME})@([a-z]+)@([A-Za-z0-9_][A-Za-z0-9_.-]*)")
_FLAGS = {
    "create": Message.of(
        "A container is made where there is none. To begin anew: `{slurm} image rm {name}`."
    ),
    "exec": Message.of("`{slurm} shell --job ID` leads into the container of a job that runs."),
}
"""Flags of pyxis that would ask for something else than we do -> the remedy."""
_SAME = ("auto", "no_exec")
"""Flags of pyxis that ask for what we do."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A container that is to stay: its name, and where its node is noted."""

    name: str
    note: str
    """The note's path up to the name of the node."""
    begun: str
    """The note's text; the node adds what only it knows."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container on a node, by its note."""

    name: str
    runtime: str
    node: str
    image: str | None
    """The image that it was made from, as it was asked for; None: it was there already."""
    made_s: float | None
    partition: str | None
    """The partition of the job that has made it."""


class _Note(Struct, frozen=True):
    image: str | None = None
    made_s: Moment | None = None
    partition: str | None = None


def container_name(asked: str) -> str:
    """Return the name in `NAME` or `NAME:FLAG`. RequestError: no container can have it, or pyxis's
    flag asks for what we do not do."""
    name, _, flag = asked.partition(":")
    if flag in _FLAGS:
        raise RequestError(
            "--container-name takes no `:{flag}` here.",
            hint=_FLAGS[flag].text,
            option="container-name",
            flag=flag,
            name=name,
        )
    if not re.fullmatch(_NAME, name) or (flag and flag not in _SAME):
        raise RequestError(
            "{name} is not a name for a container that stays on a node.",
            hint="It begins with a letter or a digit; up to 64 letters, digits, `.`, `_`, `+`, `-`."
            " `enroot list` on the node shows it, for pyxis with `pyxis_` before it.",
            option="container-name",
            name=repr(asked),
        )
    return name


def note_of(name: str, runtime: str) -> str:
    """Return the name of a container's note up to its node."""
    return f"{name}@{runtime}@"


def begun_note(image: str | None) -> str:
    """Return the beginning of a note's text, which the node goes on with."""
    return msgspec.json.encode({"image": image}).decode().removesuffix("}")


def read_note(entry: str, content: bytes) -> Container | None:
    """Read a file of the folder; None: it is not a note, or cannot be read."""
    found = _NOTE.fullmatch(entry)
    if found is None or entry.endswith(".lock"):
        return None
    try:
        note = read_json(content, _Note)
    except MalformedError:
        return None
    name, runtime, node = found.groups()
    return Container(name, runtime, node, note.image, note.made_s, note.partition)


def is_note(entry: str) -> bool:
    return not entry.endswith(".lock") and _NOTE.fullmatch(entry) is not None


# $1 the name in our words, $2 in enroot's, $3 the note up to the node, $4 how the note begins, the
# words that make the container; none: it must be there.
_KEEP = r"""
name=$1 listed=$2 node=${SLURMD_NODENAME:-$(hostname)}
note=$3$node begun=$4; shift 4
say() { printf 'jupyter-slurm: %s\n' "$*" >&2; }
is() { enroot list 2>/dev/null | grep -qxF -e "$1"; }
of_job=pyxis_${SLURM_JOB_ID}_$name
(umask 077; mkdir -p -- "${note%/*}") || exit 74
exec 9>>"$note.lock" || exit 74
if command -v flock >/dev/null && ! flock -n 9; then
  say "Another job makes or removes the container $name on $node: waiting for it."
  flock 9
fi
if [ "$#" != 0 ] && [ -s "$note.lock" ] && is "$listed"; then
  enroot remove --force "$listed" # a part of it, left by a job that was killed
fi
if is "$listed"; then
  [ -s "$note" ] || begun='{"image":null'
elif is "$of_job"; then
  exit 0
elif [ "$#" = 0 ]; then
  command -v enroot >/dev/null || exit 0
  say "The container $name is not on $node, and no image to make it from was named."
  rm -f -- "$note"
  exit 0
else
  say "Making the container $name on $node."
  echo making >"$note.lock"
  "$@" 9>&- || { rc=$?; : >"$note.lock"; exit "$rc"; }
  : >"$note.lock"
  if ! is "$listed" && is "$of_job"; then
    say "On this cluster the container $name goes with the job (pyxis: container_scope=job)." \
      "What is to stay is an image: %%slurm_image makes one."
    exit 0
  fi
  rm -f -- "$note"
fi
[ -s "$note" ] || (
  umask 077
  printf '%s,"made_s":%s,"partition":"%s"}\n' "$begun" "$(date +%s)" "$SLURM_JOB_PARTITION" \
    >"$note.partial" && mv -- "$note.partial" "$note"
)
"""


def keeping(kept: Kept, listed: str, making: Sequence[str]) -> str:
    """Return a line of sh for the node: make the container where it is missing, by the words of
    `making`, and note it. `listed`: its name in `enroot list`. No words: it cannot be made."""
    words = (kept.name, listed, kept.note, kept.begun, *making)
    return shlex.join(("/bin/sh", "-c", _KEEP, "sh", *words))


_REMOVE = r"""#!/bin/sh
# Written by jupyter-slurm: removes a container from this node.
listed={listed} note={note}
exec 9>>"$note.lock" || exit 74
! command -v flock >/dev/null || flock 9
there() {{ enroot list | grep -qxF -e "$listed"; }}
command -v enroot >/dev/null || {{ echo "This node has no program enroot." >&2; exit 127; }}
if there; then enroot remove --force "$listed" </dev/null || exit; fi
if there; then echo "$listed is still there." >&2; exit 1; fi
rm -f -- "$note" "$note.lock"
echo "The container {name} is removed from {node}."
"""


def removing(container: Container, listed: str, folder: str) -> str:
    """Return the script that removes the container on its node, and then its note. `folder`: our
    own folder of images."""
    note = f"{folder}/{FOLDER}/{note_of(container.name, container.runtime)}{container.node}"
    return _REMOVE.format(
        listed=shlex.quote(listed),
        note=shlex.quote(note),
        name=container.name,
        node=container.node,
    )


def removal_mark(cluster: str, name: str, node: str) -> str:
    """Return the fingerprint of the job that removes a container; node "": how all begin."""
    return f"container {cluster} {name} {node}"
