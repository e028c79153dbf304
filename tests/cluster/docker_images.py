"""Images without a Python, or with an old Python."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path


def shell_only(folder: Path) -> Path:
    """Create the root of an image that has only /bin/sh."""
    linked = subprocess.run(["ldd", "/bin/dash"], stdout=subprocess.PIPE, text=True, check=True)
    for path in re.findall(r"(/\S+) \(", linked.stdout):
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path[1:])
    (folder / "bin").mkdir()
    shutil.copy("/bin/dash", folder / "bin" / "sh")
    return folder


CLAIMS_TO_BE_OLD = """#!/usr/bin/python3
import runpy, sys
sys.version_info = (3, {minor}, 3, "final", 0)
sys.argv = [word for word in sys.argv[1:] if not word.startswith("-")]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
