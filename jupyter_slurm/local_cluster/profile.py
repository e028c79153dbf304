"""How a private cluster registers itself: `clusters.d/<name>.toml` among Jupyter's configuration.

Writes and removes only a file that it wrote. What the file means is in `profiles`.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from jupyter_slurm.errors import LocalClusterError
from jupyter_slurm.local_cluster.places import Places, remove_empty
from jupyter_slurm.local_cluster.spec import LocalSpec, check_name
from jupyter_slurm.places import make_private, write_private

_ORIGIN = "jupyter slurm up"
_OTHERS = re.compile(r"^\[images\].*", re.MULTILINE | re.DOTALL)


def profile_path(name: str = "local") -> Path:
    """The file that makes the private cluster `name` known; it need not exist."""
    check_name(name)
    return Path(jupyter_config_dir(), "jupyter-slurm", "clusters.d", f"{name}.toml")


def check(name: str) -> None:
    """Raise LocalClusterError where somebody else's profile has this name."""
    path = profile_path(name)
    if path.exists() and not _is_ours(path):
        raise LocalClusterError(
            f"A cluster named {name!r} is configured already, in {path}.",
            hint="Give the private cluster another name.",
        )


def register(spec: LocalSpec, places: Places, env: dict[str, str]) -> None:
    """Write the profile. [images] and what follows it is for others to add to, and is kept."""
    check(spec.name)
    path = profile_path(spec.name)
    make_private(path.parent)
    kept = _OTHERS.search(path.read_text(encoding="utf-8")) if path.exists() else None
    write_private(path, _ours(spec, places, env) + (kept[0] if kept else "[images]\n"))


def _ours(spec: LocalSpec, places: Places, env: dict[str, str]) -> str:
    lines = [
        "# Written anew by every `jupyter slurm up`, down to [images], which is kept.",
        f"origin = {_quoted(_ORIGIN)}",
        f"runtime = {_quoted(spec.runtime)}",
        f"job_root = {_quoted(places.folder / 'jobs')}",
        "poll_s = 1.0",
        "login_shell = false",
        # The nodes are this machine, so a job without an image finds what the notebook has.
        f"python = {_quoted(sys.executable)}",
        f"path = [{_quoted(places.folder / 'bin')}]",
        "",
        "[env]",
        *(f"{key} = {_quoted(text)}" for key, text in env.items()),
        "",
    ]
    return "\n".join(lines) + "\n"


def unregister(name: str) -> None:
    """Remove the profile if it is ours."""
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
    """A TOML basic string: JSON's quoting, with the one character that TOML forbids more."""
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")
