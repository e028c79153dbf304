"""Wheels that a test creates, and settings that make pip and uv find only these."""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Sequence
from pathlib import Path


def add_wheel(folder: Path, name: str, requires: Sequence[str] = ()) -> None:
    """Add a package with one module of the same name, which defines `version`."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "version = '1.0'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        + "".join(f"Requires-Dist: {one}\n" for one in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{one},,\n" for one in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


def only_from(folder: Path) -> str:
    """Return shell lines for a profile's `setup`."""
    settings = folder / "uv.toml"
    settings.write_text(f"no-index = true\nfind-links = [{json.dumps(str(folder))}]\n")
    values = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": folder.as_uri(),  # blanks separate the paths of this list
        "UV_CONFIG_FILE": str(settings),
        "UV_CACHE_DIR": str(folder / "cache"),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    return "".join(f"export {name}={shlex.quote(one)}\n" for name, one in values.items())
