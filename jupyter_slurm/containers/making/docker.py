"""Images for Docker, also through sudo, and podman: built on one node, saved as a tar on the shared
file system, from which every other node loads it when it first needs it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jupyter_slurm.containers.docker_errors import explained_making
from jupyter_slurm.containers.image_folder import docker_tag
from jupyter_slurm.containers.making.context import context, refuse_definition
from jupyter_slurm.containers.making.script import SAVING
from jupyter_slurm.containers.recipe import Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.errors import RequestError

_LOAD = "{engine} image inspect {tag} >/dev/null 2>&1 || {engine} load <{path}\n"

_PULL = """step pulling {name}
{engine} pull {name}
{engine} tag {name} {tag}
"""

_SAVE = f"""{SAVING}{{engine}} save {{tag}} >"$partial.tar"
"""


class Docker:
    """`words` lead to the engine."""

    tool = "docker"
    suffixes = (".tar",)

    def __init__(self, words: Sequence[str]) -> None:
        self._engine = shlex.join(words)

    def named(self, reference: Reference) -> str:
        return str(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        refuse_definition(recipe, "Docker")
        load = ""
        if base is not None and base.startswith("/"):
            path, base = shlex.quote(base), _own(base)
            load = _LOAD.format(engine=self._engine, tag=base, path=path)
        tag = _tag(version)
        # The registries and mirrors of the node, and its proxy, are the host's network's.
        build = f'{self._engine} build --network=host --tag {tag} "$work/context"\n'
        return load + context(recipe, base) + build + _SAVE.format(engine=self._engine, tag=tag)

    def pull(self, reference: Reference, version: str) -> str:
        name, tag = shlex.quote(str(reference)), _tag(version)
        fetch = _PULL.format(engine=self._engine, name=name, tag=tag)
        return fetch + _SAVE.format(engine=self._engine, tag=tag)

    def explain(self, log_tail: str) -> Explained | None:
        return explained_making(log_tail)


def _tag(version: str) -> str:
    return docker_tag(f"x+{version}.tar") or ""


def _own(path: str) -> str:
    tag = docker_tag(path)
    if tag is None:
        raise RequestError(
            f"Docker takes images by name, not the file {path}.",
            hint="Load it where the image is to be made (`docker load`), and say its name.",
        )
    return tag
