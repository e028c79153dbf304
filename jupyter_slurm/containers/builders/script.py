"""The script that builds an image with any tool: it takes a lock, creates a working folder, runs
the tool's text, and writes the record. No I/O here.

Tool text is POSIX sh. It runs with -e in its own process group, so cancelling the job ends it. Its
variables are `$work` (an empty folder on the node, removed afterwards), `$beside` (the recipe's
files, if any), `$folder`, `$name` and `$again` ("" allows a cache). It writes the image to
`$partial` plus one of the tool's suffixes. `step TEXT` reports progress.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_slurm.containers import image_folder
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.containers.tool_errors import full_disk, uncoloured

_PAUSE_S, _LONGEST_PAUSE_S = 10, 60
"""Seconds between reports that a step is still running. The interval starts at the first value, and
grows by that value up to the second."""
_SAVING = "saving the image"
_BEGINNING = "beginning"
_IMAGES_FULL = (
    "The image folder is full",
    "Remove images (`%slurm image rm`), or set `image_dir` in the cluster's profile.",
)
SEE_OUTPUT = "See the tool's messages in the job's output."
"""The hint for a failed build."""
SAVING = f'step "{_SAVING}"\n'
"""Sh text that reports the step in which the tool saves the image. A full disk in this step means
that the image folder is full."""


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to build: its location and origin."""

    folder: str
    name: str
    tool: str
    digest: str
    """The recipe's digest: 64 hexadecimal digits."""
    base: str | None
    version: str
    """The 12 digits in the file's name. They are the first digits of the digest, except for a
    rebuilt image."""
    again: bool = False
    """Build without the cache of earlier builds."""

    @property
    def stem(self) -> str:
        return f"{image_folder.stem(self.name)}+{self.version}"


def render(image: NewImage, suffixes: Sequence[str], text: str) -> str:
    """Return the whole script. It exits with 0 if the image exists afterwards."""
    return _FRAME.format(
        folder=shlex.quote(image.folder),
        name=shlex.quote(image.name),
        tool=image.tool,
        lock=shlex.quote(f".{image_folder.stem(image.name)}.lock"),
        stem=shlex.quote(image.stem),
        # Check last for a folder. It has no suffix, so its name is a prefix of the file names.
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
    """The script's report of a failed build."""

    name: str
    tool: str
    doing: str
    """The step that failed, e.g. "building"."""


def read_failure(log_tail: str) -> Failure | None:
    """Parse the failure at the end of a job's log. Return None if the job is not an image build, or
    did not fail."""
    found = _FAILED.search(log_tail)
    if found is None:
        return None
    return Failure(found["name"], found["tool"], found["doing"] or _BEGINNING)


def folder_full(failure: Failure, log_tail: str) -> Explained | None:
    """Explain a full image folder. Return None for any other failure."""
    if failure.doing != _SAVING:
        return None
    return full_disk(_IMAGES_FULL, log_tail)


def stopped_at(log_tail: str) -> str | None:
    """Return the recipe line at which the tool stopped, from its log; None if unknown."""
    found = list(_RECIPE_LINES.finditer(uncoloured(log_tail)))
    if not found:
        return None
    last = found[-1]
    return f"{last['word']} {last['rest']}" if last["word"] else str(last[last.lastgroup or 0])


def beside(name: str) -> str:
    """Return sh text that copies the recipe's files to a folder in `$work`. An engine's client may
    run as root, and root may lack access to a home on a network file system."""
    return f'cp -pRP -- "$beside" "$work"/{shlex.quote(name)}\n'


def context(recipe: Recipe, base: str | None) -> str:
    """Return sh text that creates `$work/context` and `$work/Dockerfile` for `docker build` and
    `ch-image build`. `base`: the base image for package lines, in the builder's form."""
    text = recipe.text
    if recipe.kind is Kind.LINES:
        runs = [" && ".join(one) for one in recipe.commands()]
        text = f"FROM {base}\n" + "".join(f"RUN {one}\n" for one in runs)
    folder = beside("context") if recipe.has_files else 'mkdir "$work/context"\n'
    return folder + file("Dockerfile", text) + 'step "building"\n'


def file(name: str, content: str) -> str:
    """Return sh text that writes a file to `$work`."""
    return f'printf %s {shlex.quote(content)} >"$work"/{shlex.quote(name)}\n'


# Tested with Docker 28 (classic builder), ch-image 0.31, Apptainer 1.4 and a shell's trace. The
# patterns for BuildKit and podman come from their sources.
_RECIPE_LINES = re.compile(
    r"^Step \d+/\d+ : (?P<docker>.+)$"
    r"|^STEP \d+(?:/\d+)?: (?P<podman>.+)$"
    r"|^ *> \[.*\d+/\d+\] (?P<buildkit>.+):$"
    r"|^ +\d+\.? {1,2}(?P<word>[A-Z]+)(?:\.[A-Z])? (?P<rest>.+)$"
    r"|^\+ (?P<traced>.+)$",
    re.MULTILINE,
)
_FAILED = re.compile(
    r"^jupyter-slurm: (?P<name>\S+) was not created by (?P<tool>[a-z]+)\. "
    r"It ended with exit code [0-9]+ while (?P<doing>.*); see its output above\.$",
    re.MULTILINE,
)

_STEP = """step() { printf '%s' "$*" >"$work/.step"; printf 'jupyter-slurm: %s\\n' "$*"; }
"""

_FRAME = """#!/bin/sh
# Generated by jupyter-slurm to build an image.
folder={folder} name={name} stem={stem} beside=$PWD again={again}
say() {{ printf 'jupyter-slurm: %s\\n' "$*"; }}
(umask 077; mkdir -p -- "$folder") || exit 74
cd -- "$folder" || exit 74
# Run one build at a time. If the file system does not support locks, the last build wins.
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
  # Remove the folders of killed scripts. A running script holds its folder's lock. It takes the
  # lock within a minute after it creates the folder.
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
  # Slurm signals only the job's script, which forwards TERM to the build's own process group.
  # Outside a job, a signal reaches the whole group of the script, so the build stays in that group.
  [ -n "$SLURM_JOB_ID" ] && command -v setsid >/dev/null && apart=setsid || apart=
  $apart sh -e -c {text} 9>&- &
  maker=$!
  # A tool may download or compress layers for minutes without output.
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
    say "$name was not created by {tool}. It ended with exit code $rc while $doing;" \\
      "see its output above." >&2
    exit "$rc"
  fi
  if ! suffix=$(there "$partial"); then
    say "Building $name failed: {tool} did not write the image." >&2
    exit 70
  fi
  chmod -R u+w "$partial$suffix"
  mv -- "$partial$suffix" "$stem$suffix" || exit 74
fi
size=$(du -sk -- "$stem$suffix" | cut -f1)
printf '%s,"file":"%s","made_s":%s,"size_kib":%s}}\\n' {begun} "$stem$suffix" "$(date +%s)" \\
  "${{size:-null}}" >{record}.partial && mv -- {record}.partial {record} || exit 74
say "The image $name is ready: $folder/$stem$suffix ($((${{size:-0}} / 1024)) MiB)."
"""
