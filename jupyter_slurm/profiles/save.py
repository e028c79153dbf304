"""Profiles on their way into files: settings -> TOML -> `clusters.d/NAME.toml`, and the default.

Writes among the user's own files only, whole and 0600; what it did not write it leaves as it was.
What the files mean is in `profiles`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jupyter_slurm import places
from jupyter_slurm.errors import ConfigError, RequestError
from jupyter_slurm.profiles.profile import UP_ORIGIN
from jupyter_slurm.profiles.reading import load_profiles

Setting = str | int | bool | Sequence[str] | Mapping[str, str]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def toml_text(settings: Mapping[str, Setting]) -> str:
    """Write the settings that are not empty as TOML. An empty host is also written over a
    template's: it means this machine."""
    import tomlkit  # noqa: PLC0415 - 20 ms, for few commands

    over_template = "template" in settings
    return tomlkit.dumps(
        {
            key: value
            for key, value in settings.items()
            if value not in ("", (), {}) or (key == "host" and over_template)
        }
    )


def profile_path(name: str) -> Path:
    """Return the user's file for the cluster `name`, whether or not it exists. Raise RequestError
    for an invalid name."""
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"{name!r} cannot be a cluster's name.",
            hint="Letters, digits, `.`, `_` and `-` can; it begins with a letter or a digit.",
        )
    return places.user_config_dir() / "clusters.d" / f"{name}.toml"


def check_new(name: str) -> None:
    """Raise RequestError when a cluster of this name already exists."""
    path = profile_path(name)
    known = load_profiles()
    if path.exists() or (name in known and known.get(name).origin == str(_main_file())):
        origin = known.get(name).origin if name in known else str(path)
        raise RequestError(
            f"There is a cluster `{name}` already, in {origin}.",
            hint=f"`jupyter slurm clusters remove {name}` removes it; or choose another name.",
        )


def write_profile(name: str, settings: Mapping[str, Setting]) -> Path:
    """Write `settings` to the file of the cluster `name`, and return its path."""
    path = profile_path(name)
    places.private_dir(path.parent)
    places.write_private(path, toml_text(settings))
    return path


def remove_profile(name: str) -> Path:
    """Remove the file of the cluster `name`. Raise NotFoundError, or RequestError when the cluster
    has no file that is ours."""
    path = profile_path(name)
    profile = load_profiles().get(name)
    if profile.origin == UP_ORIGIN:
        raise RequestError(
            f"`{name}` is the private cluster of this machine.",
            hint=f"`jupyter slurm down --purge --name {name}` removes it.",
        )
    if not path.exists():
        raise RequestError(
            f"`{name}` is defined in {profile.origin}, which others may need.",
            hint=f"Remove [{name}] from that file by hand.",
        )
    path.unlink()
    return path


def set_default(name: str) -> Path:
    """Make `name` the default cluster, in the user's `clusters.toml`, whose other lines stay. Raise
    NotFoundError or ConfigError."""
    import tomlkit  # noqa: PLC0415 - 20 ms, for few commands

    load_profiles().get(name)
    path = _main_file()
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    except tomlkit.exceptions.TOMLKitError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}.") from exc
    document["default"] = name
    places.write_private(path, tomlkit.dumps(document))
    return path


def _main_file() -> Path:
    return places.user_config_dir() / "clusters.toml"
