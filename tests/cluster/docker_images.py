"""Images for Docker that lack what a cell needs: a Python, a new one, a processor to run on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.cluster.docker import DockerEngine

AARCH64 = (183).to_bytes(2, "little")
"""As an ELF header says it."""


def shell_only(folder: Path, machine: bytes | None = None) -> Path:
    """The root of an image that has /bin/sh and no more; `machine` is what its ELF header says."""
    linked = subprocess.run(["ldd", "/bin/dash"], stdout=subprocess.PIPE, text=True, check=True)
    for path in re.findall(r"(/\S+) \(", linked.stdout):
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path[1:])
    program = bytearray(Path("/bin/dash").read_bytes())
    if machine is not None:
        program[18:20] = machine
    (folder / "bin").mkdir()
    (folder / "bin" / "sh").write_bytes(program)
    (folder / "bin" / "sh").chmod(0o755)
    return folder


CLAIMS_TO_BE_OLD = """#!/usr/bin/python3
import runpy, sys
sys.version_info = (3, {minor}, 3, "final", 0)
sys.argv = [word for word in sys.argv[1:] if not word.startswith("-")]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def old_python(docker_engine: DockerEngine, tmp_path: Path, minor: int) -> str:
    """An image with a stand-in that claims to be Python 3.MINOR: no distribution has one so old
    beside one that is not."""
    python = tmp_path / "python3"
    python.write_text(CLAIMS_TO_BE_OLD.format(minor=minor))
    python.chmod(0o755)
    image = f"old:{minor}"
    container = docker_engine.run("create", docker_engine.image, "true").strip()
    docker_engine.run("cp", str(python), f"{container}:/usr/local/python3")
    docker_engine.run("commit", "--change", "ENV PATH=/usr/local:/usr/bin:/bin", container, image)
    docker_engine.run("rm", container)
    return image
