"""Our own image folder on a cluster, and the site's image folders (`image_dirs`).

`containers.image_folder` names our files; `images.py` builds our images.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from jupyter_slurm import containers
from jupyter_slurm.containers import image_folder
from jupyter_slurm.containers.image_folder import ImageRecord
from jupyter_slurm.containers.mounts import home_expanded
from jupyter_slurm.errors import FileAccessError
from jupyter_slurm.transport import Span, Transport

_REMOVE_S = 600.0
"""Seconds to wait for the removal of a folder with a hundred thousand files on NFS."""
_REMOVE = """cd -- "$1" 2>/dev/null || exit 0
shift
for one; do chmod -R u+w -- "$one" 2>/dev/null; rm -rf -- "$one" || exit 1; done
"""


class ImageStore:
    def __init__(self, transport: Transport, folder: str) -> None:
        """Use the images in `folder`, which may begin with `~/`."""
        self._transport = transport
        self._folder = folder

    @property
    def path(self) -> PurePosixPath:
        return PurePosixPath(home_expanded(self._folder, str(self._transport.home())))

    def record(self, wanted: str, tool: str) -> ImageRecord | None:
        """Return the record of the image `wanted` for `tool`; None if not found."""
        for key in image_folder.keys(wanted):
            path = self.path / image_folder.record_name(key, tool)
            content = self._transport.read(path)
            if content is None and path.name in self._transport.listing(self.path):
                # NFS caches the absence of a file; a listing refreshes that cache.
                content = self._transport.read(path)
            found = image_folder.read_record(content) if content else None
            if found is not None:
                return found
        return None

    def find(self, wanted: str, tool: str) -> str | None:
        """Return the image's path; None if the image has no record. Do not check that the file
        exists."""
        found = self.record(wanted, tool)
        return None if found is None else str(self.path / found.file)

    def has(self, record: ImageRecord) -> bool:
        return self._transport.exists(self.path / record.file)

    def records(self) -> list[tuple[str, ImageRecord]]:
        """Return the tool and the record of every image."""
        entries = sorted(self._transport.listing(self.path))
        named = [(tool, one) for one in entries if (tool := image_folder.tool_of_record(one))]
        if not named:
            return []
        contents = self._transport.read_many([Span(self.path / one) for _, one in named])
        read = [
            (tool, image_folder.read_record(content))
            for (tool, _), content in zip(named, contents, strict=True)
            if content
        ]
        return [(tool, record) for tool, record in read if record is not None]

    def names(self, tool: str) -> list[str]:
        """Return the names of all images for `tool`, as `--image` accepts them."""
        return [record.name for one, record in self.records() if one == tool]

    def remove(self, name: str, tool: str, suffixes: Sequence[str]) -> list[str]:
        """Remove all versions of the image, and return the nodes whose engines still hold it. A job
        that runs in the image fails. Raises FileAccessError."""
        entries = self._transport.listing(self.path)
        gone = [one for one in entries if image_folder.is_version(one, name, suffixes)]
        record = image_folder.record_name(name, tool)
        # Remove the record first, so that jobs do not find a partly removed image.
        argv = ["sh", "-c", _REMOVE, "sh", str(self.path), record, *gone]
        done = self._transport.run(argv, timeout_s=_REMOVE_S)
        if done.returncode != 0:
            raise FileAccessError(
                f"Cannot remove the image {name}.",
                detail=done.stderr.decode(errors="replace"),
            )
        return image_folder.nodes_with(entries, name)


_FOLDER = "/"
"""The suffix of an image that is a folder. At the end of a glob, it matches only folders."""

# Every tool's unpacked images have the folders `bin`, `dev` and `usr`. ch-convert (0.31) checks for
# them, too.
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
    """Return the paths of all images in the folders, in one round trip. If the runtime does not use
    image files, return the images of every tool, since a job may name another runtime."""
    if not folders:
        return []
    home = str(transport.home())
    endings = " ".join(one or _FOLDER for one in _suffixes(runtime))
    argv = ["sh", "-c", _FIND, "sh", endings, *(home_expanded(one, home) for one in folders)]
    found = set()
    for path in transport.run(argv).stdout.split(b"\0")[:-1]:
        with suppress(UnicodeDecodeError):  # not usable in --image
            found.add(PurePosixPath(path.decode()))
    return sorted(found)


def _suffixes(runtime: str) -> Sequence[str]:
    of_all = (one for tool in containers.RUNTIMES.values() for one in tool.image_suffixes)
    return containers.runtime_named(runtime).image_suffixes or tuple(dict.fromkeys(of_all))
