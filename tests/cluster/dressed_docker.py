"""A real Docker on the nodes of a dressed site (`dressed.py`): the daemon that a site has, where
its programs look for it, with images under the names of a registry that is out of reach here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.dressed import Dressed
from tests.ssh.kept import Keeper, clean_environment
from tests.ssh.waiting import wait_until

_PATIENCE_S = 300.0


@dataclass(frozen=True)
class DressedDocker:
    site: Dressed

    @classmethod
    def make(
        cls, keeper: Keeper, site: Dressed, image: Path, names: Sequence[str]
    ) -> DressedDocker:
        """`image`: the folder that is to be the image of each of these names."""
        argv = site.inside.argv(
            "dockerd",
            f"--data-root={site.disks}/docker",
            f"--group={site.account.name}",  # as members of the group `docker` are let to it
            "--iptables=false",
            "--bridge=none",
        )
        keeper.start(argv, site.disks / "dockerd.log", clean_environment())
        docker = cls(site)
        wait_until(docker.answers, _PATIENCE_S)
        first, *others = names
        folder, name = shlex.quote(str(image)), shlex.quote(first)
        docker.site.inside.run("sh", "-c", f"tar -C {folder} -c . | docker import - {name}")
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
        """What is there of containers, running or not."""
        told = self.site.inside.run("docker", "ps", "--all", "--format", "{{.Names}}")
        return told.split()
