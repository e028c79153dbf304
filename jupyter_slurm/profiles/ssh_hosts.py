"""Host names in the user's SSH configuration."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

_DEEPEST = 8
"""Maximum depth of includes; ssh stops at 16 (READCONF_MAX_DEPTH in readconf.c)."""


def ssh_hosts() -> list[str]:
    """Return the names without wildcards in the file's order; [] without the file or `ssh`."""
    if not shutil.which("ssh"):
        return []
    # Use the same file as transport/ssh/route.py.
    file = os.environ.get("JUPYTER_SLURM_SSH_CONFIG") or Path.home() / ".ssh" / "config"
    return list(dict.fromkeys(_hosts(Path(file), 0)))


def _hosts(file: Path, depth: int) -> Iterator[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            keyword, *words = shlex.split(line.replace("=", " ", 1), comments=True) or [""]
        except ValueError:  # an open quote; ssh would refuse the file
            continue
        if keyword.lower() == "host":
            yield from (word for word in words if not set(word) & set("*?!"))
        elif keyword.lower() == "include" and depth < _DEEPEST:
            for pattern in words:
                # Relative paths start in ~/.ssh (ssh_config(5)).
                start = Path.home() / ".ssh" / Path(pattern).expanduser()
                for path in sorted(Path("/").glob(str(start).lstrip("/"))):
                    yield from _hosts(path, depth + 1)
