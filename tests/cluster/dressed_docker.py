"""A real Docker on the nodes of an imitated site (`dressed.py`). Its daemon uses the usual socket,
and its images have names of an unreachable registry."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.dressed import Dressed
from tests.ssh.kept import Keeper, clean_environment
from tests.ssh.waiting import wait_until

_PATIENCE_S = 300.0

_RUNC = """#!/usr/bin/python3 -IS
import json
import os
import sys

words = sys.argv[1:]
if "create" in words:
    path = os.path.join(words[words.index("--bundle") + 1], "config.json")
    with open(path) as file:
        config = json.load(file)
    config["mounts"] += {mounts}
    with open(path, "w") as file:
        json.dump(config, file)
os.execvp("runc", ["runc", *words])
"""
"""A hook that mounts the site's files into every container, as NVIDIA's runtime does."""


@dataclass(frozen=True)
class DressedDocker:
    site: Dressed

    @classmethod
    def make(
        cls,
        keeper: Keeper,
        site: Dressed,
        image: Path,
        names: Sequence[str],
        seen: Mapping[str, Path] | None = None,
    ) -> DressedDocker:
        """`image` returns the folder to use as the image of each name. `seen` maps paths in
        containers to folders on this machine that are too large to copy for a test."""
        programs = _programs(site.disks / "docker-programs", seen or {})
        argv = site.inside.argv(
            "dockerd",
            f"--data-root={site.disks}/docker",
            f"--group={site.account.name}",  # members of the group `docker` have access
            "--iptables=false",
            "--bridge=none",
            f"--add-runtime=seeing={programs / 'runc-that-mounts'}",
            "--default-runtime=seeing",
        )
        env = clean_environment()
        env["PATH"] = f"{programs}:{env['PATH']}"
        keeper.start(argv, site.disks / "dockerd.log", env)
        docker = cls(site)
        wait_until(docker.answers, _PATIENCE_S)
        first, *others = names
        folder, name = shlex.quote(str(image)), shlex.quote(first)
        importing = f"docker import --change 'WORKDIR /workspace' - {name}"
        docker.site.inside.run("sh", "-c", f"tar -C {folder} -c . | {importing}")
        for other in others:
            docker.site.inside.run("docker", "tag", first, other)
        return docker

    def answers(self) -> bool:
        try:
            self.site.inside.run("docker", "info")
        except AssertionError:
            return False
        return True

    def containers(self) -> list[str]:
        """Return all containers, running or not."""
        told = self.site.inside.run("docker", "ps", "--all", "--format", "{{.Names}}")
        return told.split()


def _programs(folder: Path, seen: Mapping[str, Path]) -> Path:
    """Create the folder with programs that dockerd calls: a runc, and the hook that Docker needs
    for `--gpus`. The hook does nothing, since the machine has no GPU."""
    mounts = [
        {"type": "bind", "source": str(what), "destination": place, "options": ["rbind", "ro"]}
        for place, what in seen.items()
    ]
    folder.mkdir()
    for name, text in {
        "runc-that-mounts": _RUNC.replace("{mounts}", json.dumps(mounts)),
        "nvidia-container-runtime-hook": "#!/bin/sh\nexec cat >/dev/null\n",
    }.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder
