"""The writer of profiles (`clusters.d/NAME.toml`) and of the default (`clusters.toml`).

It writes whole files, with mode 0600.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jupyter_slurm import places
from jupyter_slurm.errors import ConfigError, RequestError
from jupyter_slurm.profiles.profile import CLUSTER_NAME, UP_ORIGIN
from jupyter_slurm.profiles.reading import load_profiles

Setting = str | int | bool | Sequence[str] | Mapping[str, str]


def toml_text(settings: Mapping[str, Setting]) -> str:
    """Return the non-empty settings as TOML. If the settings override a template, include an empty
    host, which means this machine."""
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
    """Return the path of the profile `name`. Raise RequestError if the name is invalid."""
    if not CLUSTER_NAME.fullmatch(name):
        raise RequestError(
            f"{name!r} is not a valid name of a cluster.",
            hint="Use letters, digits, `.`, `_` and `-`, and start with a letter or digit.",
        )
    return places.user_config_dir() / "clusters.d" / f"{name}.toml"


def check_new(name: str) -> None:
    """Raise RequestError if the cluster exists."""
    path = profile_path(name)
    known = load_profiles()
    if path.exists() or (name in known and known.get(name).origin == str(_main_file())):
        origin = known.get(name).origin if name in known else str(path)
        raise RequestError(
            f"Cluster `{name}` already exists ({origin}).",
            hint=f"Remove it with `jupyter slurm clusters remove {name}`, or choose another name.",
        )


def write_profile(name: str, settings: Mapping[str, Setting]) -> Path:
    """Write a profile and return its path."""
    path = profile_path(name)
    places.private_dir(path.parent)
    places.write_private(path, toml_text(settings))
    return path


def remove_profile(name: str) -> Path:
    """Remove a profile. Raises NotFoundError, or RequestError if another file defines the
    cluster."""
    path = profile_path(name)
    profile = load_profiles().get(name)
    if profile.origin == UP_ORIGIN:
        raise RequestError(
            f"`{name}` is the private cluster of this machine.",
            hint=f"Remove it with `jupyter slurm down --purge --name {name}`.",
        )
    if not path.exists():
        raise RequestError(
            f"`{name}` is defined in {profile.origin}, a file that other users may need.",
            hint=f"Remove [{name}] from that file by hand.",
        )
    path.unlink()
    return path


def set_default(name: str) -> Path:
    """Make `name` the default in the user's `clusters.toml`, and keep its other lines. Raises
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
