"""The profile of a private cluster: `clusters.d/<name>.toml` in Jupyter's configuration.

This module writes and removes only its own files. `profiles` interprets them.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from jupyter_slurm.errors import LocalClusterError
from jupyter_slurm.local_cluster.paths import Paths, remove_empty
from jupyter_slurm.local_cluster.spec import LocalSpec, check_name
from jupyter_slurm.places import make_private, write_private

_ORIGIN = "jupyter slurm up"
_OTHERS = re.compile(r"^\[images\].*", re.MULTILINE | re.DOTALL)


def profile_path(name: str = "local") -> Path:
    """Return the file of the private cluster's profile; it need not exist."""
    check_name(name)
    return Path(jupyter_config_dir(), "jupyter-slurm", "clusters.d", f"{name}.toml")


def check(name: str) -> None:
    """Raise LocalClusterError if another profile has this name."""
    path = profile_path(name)
    if path.exists() and not _is_ours(path):
        raise LocalClusterError(
            f"The cluster {name!r} already exists in {path}.",
            hint="Use another --name.",
        )


def register(spec: LocalSpec, paths: Paths, env: dict[str, str]) -> None:
    """Write the profile. Keep [images] and everything below it, which the user may edit."""
    check(spec.name)
    path = profile_path(spec.name)
    make_private(path.parent)
    kept = _OTHERS.search(path.read_text(encoding="utf-8")) if path.exists() else None
    write_private(path, _ours(spec, paths, env) + (kept[0] if kept else "[images]\n"))


def _ours(spec: LocalSpec, paths: Paths, env: dict[str, str]) -> str:
    lines = [
        "# Rewritten by every `jupyter slurm up`, except for [images] and below.",
        f"origin = {_quoted(_ORIGIN)}",
        f"runtime = {_quoted(spec.runtime)}",
        f"job_root = {_quoted(paths.folder / 'jobs')}",
        "poll_s = 1.0",
        "login_shell = false",
        # The nodes are this machine, so jobs without an image can use the notebook's packages.
        f"python = {_quoted(sys.executable)}",
        f"path = [{_quoted(paths.folder / 'bin')}]",
        "",
        "[env]",
        *(f"{key} = {_quoted(text)}" for key, text in env.items()),
        "",
    ]
    return "\n".join(lines) + "\n"


def unregister(name: str) -> None:
    """Remove the profile if `register` wrote it."""
    path = profile_path(name)
    if path.exists() and _is_ours(path):
        path.unlink()
        remove_empty(path.parent, parents=1)


def _is_ours(path: Path) -> bool:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")).get("origin") == _ORIGIN
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return False


def _quoted(text: str | Path) -> str:
    """Return a TOML basic string: quote as JSON does, and also one more character that TOML
    forbids."""
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")
