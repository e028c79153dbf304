"""The search for this kernel's notebook if the front end does not report it.

It looks at the command line of the kernel's parent process and at the sessions of this user's
Jupyter servers. The search is slow, so it runs once per kernel.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

_RUN_ONE = frozenset(("jupyter-nbconvert", "jupyter-execute", "jupyter-run"))
_PAPERMILL = "papermill"
_SERVERS = ("jpserver-*.json", "nbserver-*.json")
_KERNEL_FILE = re.compile(r"kernel-([0-9a-fA-F-]{36})\.json")
_TIMEOUT_S = 2.0
_MOST_BYTES = 8 << 20


def of_program() -> str | None:
    """Return the notebook on the command line of the program that started this kernel."""
    process = Path("/proc") / str(os.getppid())
    try:
        words = os.fsdecode((process / "cmdline").read_bytes()).split("\0")
        return told_to_run(words, (process / "cwd").readlink())
    except OSError:  # another user's process, or not Linux
        return None


def told_to_run(words: Sequence[str], folder: Path) -> str | None:
    """Return the notebook that a command line runs; None if it does not run exactly one
    notebook. For papermill, return the output notebook, which differs for each run."""
    at = next((i for i, word in enumerate(words) if _program(word)), None)
    if at is None:
        return None
    names = [
        word
        for before, word in zip(words[at:], words[at + 1 :], strict=False)
        if word.endswith(".ipynb") and not word.startswith("-") and before != "--output"
    ]
    if not names or (_program(words[at]) != _PAPERMILL and len(names) > 1):
        return None
    return os.path.normpath(folder / names[-1])


def _program(word: str) -> str | None:
    """Return the name of a program that runs notebooks, also for the NAME of `python -m NAME`; None
    for other words."""
    name = PurePath(word).name
    name = f"jupyter-{name}" if f"jupyter-{name}" in _RUN_ONE else name
    return name if name in _RUN_ONE or name == _PAPERMILL else None


def of_servers(connection_file: str | None) -> str | None:
    """Return the notebook of this kernel's session on any of this user's Jupyter servers."""
    kernel = _KERNEL_FILE.fullmatch(PurePath(connection_file or "").name)
    if kernel is None:
        return None
    from jupyter_core.paths import jupyter_runtime_dir  # noqa: PLC0415

    folder = Path(jupyter_runtime_dir())
    for path in (path for pattern in _SERVERS for path in sorted(folder.glob(pattern))):
        with suppress(OSError, ValueError, KeyError, TypeError):  # ended, or not ours
            server = json.loads(path.read_bytes())
            os.kill(server["pid"], 0)  # its port may be in use by another server
            for session in _sessions(server):
                if session["kernel"]["id"] == kernel[1]:
                    root = server.get("root_dir") or server.get("notebook_dir") or ""
                    return str(PurePath(root, session["path"]))
    return None


def _sessions(server: dict[str, Any]) -> Iterator[dict[str, Any]]:
    request = urllib.request.Request(  # noqa: S310 (the address is from this user's own file)
        server["url"] + "api/sessions", headers={"Authorization": f"token {server['token']}"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=_TIMEOUT_S) as answer:
        yield from json.loads(answer.read(_MOST_BYTES))
