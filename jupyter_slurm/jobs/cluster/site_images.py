"""The site's own images on one cluster: what a container tool can run in the folders `image_dirs`.

Such a folder may be the user's home, with everything else that lies there. What the names mean is
`containers.images`'s; our own folder is `image_store.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from jupyter_slurm import containers
from jupyter_slurm.containers.mounts import home_expanded
from jupyter_slurm.transport import Transport

_FOLDER = "/"
"""Stands for the ending of an image that is a folder: as a glob's last letter it finds no files."""

# An unpacked image has these three, with each tool; ch-convert (0.31) knows one by them, too.
_FIND = """
endings=$1; shift
for folder; do
  for ending in $endings; do
    for one in "$folder"/*"$ending"; do
      if [ -d "$one" ]; then
        { [ -d "$one/bin" ] && [ -d "$one/dev" ] && [ -d "$one/usr" ]; } || continue
      elif [ ! -f "$one" ]; then
        continue
      fi
      printf '%s\\0' "${one%/}"
    done
  done
done
"""


def site_images(transport: Transport, folders: Sequence[str], runtime: str) -> list[PurePosixPath]:
    """Return the paths of all images in the folders, in one round trip. Where the runtime has no
    image files, take those of every tool: a job may name another runtime."""
    if not folders:
        return []
    home = str(transport.home())
    endings = " ".join(one or _FOLDER for one in _suffixes(runtime))
    argv = ["sh", "-c", _FIND, "sh", endings, *(home_expanded(one, home) for one in folders)]
    found = set()
    for path in transport.run(argv).stdout.split(b"\0")[:-1]:
        with suppress(UnicodeDecodeError):  # nobody could name it
            found.add(PurePosixPath(path.decode()))
    return sorted(found)


def _suffixes(runtime: str) -> Sequence[str]:
    everybody = (one for tool in containers.RUNTIMES.values() for one in tool.image_suffixes)
    return containers.runtime_named(runtime).image_suffixes or tuple(dict.fromkeys(everybody))
