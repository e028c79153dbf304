"""The script that makes an image, whatever the tool: a lock, a place to work, the tool's own text,
and the record at the end. PURE: text.

Tool text is POSIX sh, run with -e in a process group of its own, so that it ends with a cancelled
job. It finds `$work` (an empty folder of the node, removed afterwards), `$beside` (with the
files that go with the recipe, if any), `$folder`, `$name` and `$again` ("": a cache will do), and
leaves the image at `$partial` with one of the tool's suffixes; `step TEXT` reports its progress.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_slurm.containers import image_folder
from jupyter_slurm.containers.failures import without_room
from jupyter_slurm.containers.runtime import Explained

_PAUSE_S, _LONGEST_PAUSE_S = 10, 60
"""How many seconds the script waits before it first says that a step still runs: each later wait is
longer by as many, up to the second figure."""
_SAVING = "saving the image"
_BEGINNING = "beginning"
_IN_IMAGES = (
    "There is no room for it in the folder of images",
    "Remove what is not needed there (`%slurm image rm`), or name another folder: `image_dir` of "
    "the cluster's profile.",
)
SAVING = f'step "{_SAVING}"\n'
"""Sh text: from here on, a lack of room is one for the image in its folder."""


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to make: its place, and its maker's data."""

    folder: str
    name: str
    tool: str
    digest: str
    """The recipe's digest: 64 hexadecimal digits."""
    base: str | None
    version: str
    """12 digits in the file's name; not the digest's when the image is made again."""
    again: bool = False
    """Build without the cache of earlier builds."""

    @property
    def stem(self) -> str:
        return f"{image_folder.stem(self.name)}+{self.version}"


def render(image: NewImage, suffixes: Sequence[str], text: str) -> str:
    """Return the whole script. It exits 0 once the image is there, made now or earlier."""
    return _FRAME.format(
        folder=shlex.quote(image.folder),
        name=shlex.quote(image.name),
        tool=image.tool,
        lock=shlex.quote(f".{image_folder.stem(image.name)}.lock"),
        stem=shlex.quote(image.stem),
        # A folder, which has no suffix, is looked for last: a file's name begins with its name.
        suffixes=" ".join(shlex.quote(one) for one in sorted(suffixes, reverse=True)),
        record=shlex.quote(image_folder.record_name(image.name, image.tool)),
        again="1" if image.again else "",
        begun=shlex.quote(image_folder.begun_record(image.name, image.digest, image.base)),
        text=shlex.quote(_STEP + text),
        beginning=_BEGINNING,
        pause_s=_PAUSE_S,
        longest_pause_s=_LONGEST_PAUSE_S,
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """The script's words on an image that was not made."""

    name: str
    tool: str
    doing: str
    """The step that failed, e.g. "building"."""


def read_failure(log_tail: str) -> Failure | None:
    """Read the failure at the end of a job's log; None: it made no image, or went well."""
    found = _FAILED.search(log_tail)
    if found is None:
        return None
    return Failure(found["name"], found["tool"], found["doing"] or _BEGINNING)


def folder_full(failure: Failure, log_tail: str) -> Explained | None:
    """Explain that the folder of images was full; None: that was not it."""
    if failure.doing != _SAVING:
        return None
    return without_room(_IN_IMAGES, log_tail)


def beside(name: str) -> str:
    """Return sh text that copies the recipe's files to a folder in `$work`: a home on a
    network's file system may be closed to root, as which an engine's client may run."""
    return f'cp -pRP -- "$beside" "$work"/{shlex.quote(name)}\n'


def file(name: str, content: str) -> str:
    """Return sh text that puts a file into `$work`."""
    return f'printf %s {shlex.quote(content)} >"$work"/{shlex.quote(name)}\n'


_FAILED = re.compile(
    r"^jupyter-slurm: (?P<name>\S+) was not made by (?P<tool>[a-z]+)\. "
    r"It ended with exit code [0-9]+ while (?P<doing>.*); what the tool said is above\.$",
    re.MULTILINE,
)

_STEP = """step() { printf '%s' "$*" >"$work/.step"; printf 'jupyter-slurm: %s\\n' "$*"; }
"""

_FRAME = """#!/bin/sh
# Written by jupyter-slurm: makes an image.
folder={folder} name={name} stem={stem} beside=$PWD again={again}
say() {{ printf 'jupyter-slurm: %s\\n' "$*"; }}
(umask 077; mkdir -p -- "$folder") || exit 74
cd -- "$folder" || exit 74
# One maker at a time; where the file system knows no locks, the last one wins, and is whole too.
exec 9>{lock}
if command -v flock >/dev/null && ! flock -n 9; then
  say "Another job is making $name: waiting for it."
  flock 9
fi
there() {{
  for suffix in {suffixes}; do
    [ -e "$1$suffix" ] && {{ printf '%s' "$suffix"; return 0; }}
  done
  return 1
}}
if ! suffix=$(there "$stem"); then
  partial=$folder/.$stem.partial
  temporary=${{TMPDIR:-/var/tmp}}
  # A script that was killed outright has removed nothing. Whatever still works in a folder holds
  # its lock; in its first minute a folder may have none yet.
  command -v flock >/dev/null && find "$temporary" -maxdepth 1 -name 'jupyter-slurm-image.*' \\
    -type d -user "$(id -u)" -mmin +1 -exec flock -n {{}} \\
    sh -c 'chmod -R u+w "$1"; rm -rf -- "$1"' sh {{}} \\; 2>/dev/null
  work=$(mktemp -d "$temporary/jupyter-slurm-image.XXXXXX") || exit 74
  exec 8<"$work"
  command -v flock >/dev/null && flock -n 8
  export work partial folder name beside again
  tidy() {{ chmod -R u+w "$work" 2>/dev/null; rm -rf -- "$work" "$partial" "$partial".*; }}
  trap tidy EXIT
  rm -rf -- "$partial" "$partial".*
  # Slurm's signals come to the job's script alone; elsewhere to the whole group, which nothing
  # leaves.
  [ -n "$SLURM_JOB_ID" ] && command -v setsid >/dev/null && apart=setsid || apart=
  $apart sh -e -c {text} 9>&- &
  maker=$!
  # A tool may fetch or pack for minutes without a word.
  tell() {{
    trap 'kill "$nap" 2>/dev/null; exit 0' TERM
    began=$(date +%s) pause={pause_s}
    while [ -d "$work" ]; do
      sleep "$pause" >/dev/null 2>&1 & nap=$!
      wait "$nap"
      mib=$(du -skc "$work" "$partial".* 2>/dev/null | awk 'END {{ print int($1 / 1024) }}')
      [ "${{mib:-0}}" -gt 0 ] && mib=", $mib MiB so far" || mib=
      say "still $(cat "$work/.step" 2>/dev/null) after $(($(date +%s) - began)) s$mib"
      [ "$pause" -ge {longest_pause_s} ] || pause=$((pause + {pause_s}))
    done
  }}
  tell 9>&- &
  teller=$!
  stop() {{ kill -TERM "-$maker" 2>/dev/null || kill -TERM "$maker" 2>/dev/null; }}
  trap stop TERM INT HUP
  while :; do
    wait "$maker"; rc=$?
    kill -0 "$maker" 2>/dev/null && continue
    wait "$maker" 2>/dev/null; last=$?
    case $last in 127 | -1) ;; *) rc=$last ;; esac
    break
  done
  trap '' TERM INT HUP
  kill "$teller" 2>/dev/null
  wait "$teller" 2>/dev/null
  if [ "$rc" != 0 ]; then
    doing=$(cat "$work/.step" 2>/dev/null)
    doing=${{doing:-{beginning}}}
    say "$name was not made by {tool}. It ended with exit code $rc while $doing;" \\
      "what the tool said is above." >&2
    exit "$rc"
  fi
  suffix=$(there "$partial") || {{ say "$name was not made: there is no image." >&2; exit 70; }}
  chmod -R u+w "$partial$suffix"
  mv -- "$partial$suffix" "$stem$suffix" || exit 74
fi
size=$(du -sk -- "$stem$suffix" | cut -f1)
printf '%s,"file":"%s","made_s":%s,"size_kib":%s}}\\n' {begun} "$stem$suffix" "$(date +%s)" \\
  "${{size:-null}}" >{record}.partial && mv -- {record}.partial {record} || exit 74
say "The image $name is there: $folder/$stem$suffix ($((${{size:-0}} / 1024)) MiB)."
"""
