"""The notebooks that are open in this server and in a lab, each with a kernel of its own.

Both know by notes in the home, where labs have this one. `node/lab_notebooks.py` has the labs'
half, and says why it is notes. This server writes none before a lab has made their folder.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from jupyter_core.utils import ensure_async
from tornado.web import authenticated

from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.handlers import StatefulHandler
from jupyter_slurm.server.kernels import Nothing

_FOLDER = "~/.jupyter-slurm/notebooks"
_OLD_S = 150.0
_MOST_BYTES = 1 << 20


class Elsewhere(msgspec.Struct, frozen=True):
    """The notebooks of this server that are open elsewhere too."""

    notebooks: dict[str, list[str]]
    """Path -> who else has it open."""


class _Note(msgspec.Struct, frozen=True):
    who: str
    files: list[str]


class Notes:
    """The notes of this home, and this server's own."""

    def __init__(self) -> None:
        host = socket.gethostname()
        self._folder = Path(_FOLDER).expanduser()
        self._own = self._folder / f"{host}-{os.getpid()}.json"
        self._who = f"JupyterLab on {host}"

    def elsewhere(self, root: str, paths: Sequence[str]) -> Elsewhere:
        """Note which notebooks are open here, and return who else has which of them open."""
        files = {os.path.realpath(Path(root, path).expanduser()): path for path in paths}
        found: dict[str, list[str]] = {}
        if not files:
            self.remove()
        elif self._folder.is_dir():
            with suppress(OSError):  # a full disk: then nobody hears of them
                self._write([*files])
                for note in self._others():
                    for file in files.keys() & set(note.files):
                        found.setdefault(files[file], []).append(note.who)
        return Elsewhere(found)

    def remove(self) -> None:
        with suppress(OSError):
            self._own.unlink()

    def _write(self, files: list[str]) -> None:
        partial = self._own.with_suffix(".new")
        partial.touch(mode=0o600)
        partial.write_bytes(msgspec.json.encode(_Note(self._who, files)))
        partial.rename(self._own)

    def _others(self) -> Iterator[_Note]:
        oldest_s = self._own.stat().st_mtime - _OLD_S
        for path in sorted(self._folder.glob("*.json")):
            # Its lab may have ended just now; what else made it nobody knows.
            with suppress(OSError, msgspec.DecodeError):
                if path != self._own and path.stat().st_mtime > oldest_s:
                    with path.open("rb") as file:
                        yield msgspec.json.decode(file.read(_MOST_BYTES), type=_Note)


class ElsewhereHandler(StatefulHandler[Notes]):
    """`POST elsewhere`: the notebooks of this server that are open in a lab too."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["elsewhere"])
        self.wish(Nothing)
        listed: Any = self.session_manager.list_sessions()
        sessions = await ensure_async(listed)
        paths = [one["path"] for one in sessions if one.get("type") == "notebook"]
        root = self.settings["server_root_dir"]
        self.give_value(await asyncio.to_thread(self.state.elsewhere, root, paths))
