"""Wheels for a pip that installs from a folder, without a package index."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path


def make_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, str] | None = None
) -> None:
    """Create a wheel of these files (default: an empty module)."""
    about = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in (files or {f"{name}.py": ""}).items():
            wheel.writestr(path, text)
        wheel.writestr(f"{about}/METADATA", metadata)
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
