"""Images for Docker, also through sudo, and podman: built on one node, saved as a tar on the shared
file system, from which every other node loads it when it first needs it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jupyter_slurm.containers import dockerfile
from jupyter_slurm.containers.docker_script import NOT_BEGUN
from jupyter_slurm.containers.image_folder import docker_tag
from jupyter_slurm.containers.making.script import file
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.steps import SETUP, as_dockerfile, script_dockerfile
from jupyter_slurm.errors import RequestError

_LOAD = "{engine} image inspect {tag} >/dev/null 2>&1 || {engine} load <{path}\n"

_PULL = f"""step pulling {{name}}
{{engine}} pull {{name}} || {{{{ rc=$?; echo "jupyter-slurm: {NOT_BEGUN}" >&2; exit $rc; }}}}
{{engine}} tag {{name}} {{tag}}
"""
"""What it says where that fails has `docker_errors.py` look for the engine's own words."""

_SAVE = """step "saving the image"
{engine} save {tag} >"$partial.tar"
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
        lines = ['mkdir "$work/context"\n']
        if recipe.kind is Kind.DEFINITION:
            raise RequestError(
                "Docker takes no Apptainer definitions.",
                hint="Write a Dockerfile, or what %post has as a setup script with --from IMAGE.",
            )
        if base is not None and base.startswith("/"):
            tag = _own(base)
            lines.append(_LOAD.format(engine=self._engine, tag=tag, path=shlex.quote(base)))
            base = tag
        if recipe.kind is Kind.DOCKERFILE:
            dockerfile.check(recipe.text)
            text = dockerfile.with_base(recipe.text, base)
        elif recipe.kind is Kind.SCRIPT:
            lines.append(file(f"context/{SETUP}", recipe.text))
            lines.append(f'chmod 755 "$work/context/{SETUP}"\n')
            text = script_dockerfile(base or "")
        else:
            text = as_dockerfile(base or "", recipe.commands())
        tag = _tag(version)
        lines.append(file("context/Dockerfile", text))
        lines.append('step "building"\n')
        # The registries and mirrors of the node, and its proxy, are the host's network's.
        lines.append(f'{self._engine} build --network=host --tag {tag} "$work/context"\n')
        return "".join([*lines, _SAVE.format(engine=self._engine, tag=tag)])

    def pull(self, reference: Reference, version: str) -> str:
        name, tag = shlex.quote(str(reference)), _tag(version)
        fetch = _PULL.format(engine=self._engine, name=name, tag=tag)
        return fetch + _SAVE.format(engine=self._engine, tag=tag)


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
