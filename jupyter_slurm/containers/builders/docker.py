"""Images for Docker (with or without sudo) and podman. One node builds the image and saves it as a
tar on the shared file system. Every other node loads this tar on first use.

The engine's build cache stays on the node, as for any `docker build` on it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jupyter_slurm.containers.builders.script import SAVING, context
from jupyter_slurm.containers.docker import explain_build
from jupyter_slurm.containers.docker_script import FORGET
from jupyter_slurm.containers.image_folder import docker_tag
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.errors import RequestError

_BEGIN = f"""end() {{{{
  rc=$?
  [ "$rc" = 0 ] || {{engine}} rmi {{tag}} >/dev/null 2>&1 || :
  exit "$rc"
}}}}
trap end EXIT
trap 'exit 143' TERM
{FORGET.replace("{", "{{").replace("}", "}}")}forget '{{engine}}' "$folder" {{tag}}
"""

_LOAD = """{engine} image inspect {tag} >/dev/null 2>&1 || {engine} load <{path}
(: >>{note}"$node") 2>/dev/null || : # the folder may belong to another user
"""

# Remove the image's own name if the node lacked it before the pull. Our tag keeps the layers.
_PULL = """step pulling {name}
had=; {engine} image inspect {name} >/dev/null 2>&1 && had=1
{engine} pull {name}
{engine} tag {name} {tag}
[ -n "$had" ] || {engine} rmi {name} >/dev/null || :
"""

_SAVE = f"""{SAVING}{{engine}} save {{tag}} >"$partial.tar"
: >"${{{{partial%.partial}}}}.tar@$node"
"""


class Docker:
    """A builder that calls the engine with the command `words`."""

    tool = "docker"
    suffixes = (".tar",)
    reads = Kind.DOCKERFILE

    def __init__(self, words: Sequence[str]) -> None:
        self._engine = shlex.join(words)

    def named(self, reference: Reference) -> str:
        return str(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        tag, load = _tag(version), ""
        if base is not None and base.startswith("/"):
            folder, _, file = base.rpartition("/")
            path, note = shlex.quote(base), shlex.quote(f"{folder}/.{file}@")
            base = _own(base)
            load = _LOAD.format(engine=self._engine, tag=base, path=path, note=note)
        # With the host's network, the node's registries, mirrors and proxy work.
        build = (
            f"{self._engine} build ${{again:+--no-cache}} --network=host --force-rm --tag {tag} "
            '--file "$work/Dockerfile" "$work/context"\n'
        )
        return self._around(tag, load + context(recipe, base) + build)

    def pull(self, reference: Reference, version: str) -> str:
        tag, name = _tag(version), shlex.quote(str(reference))
        return self._around(tag, _PULL.format(engine=self._engine, name=name, tag=tag))

    def _around(self, tag: str, text: str) -> str:
        """Return the sh text that creates the image `tag`, to run before it is saved."""
        begin = _BEGIN.format(engine=self._engine, tag=tag)
        return begin + text + _SAVE.format(engine=self._engine, tag=tag)

    def explain(self, log_tail: str) -> Explained | None:
        return explain_build(log_tail)


def _tag(version: str) -> str:
    return docker_tag(f"x+{version}.tar") or ""


def _own(path: str) -> str:
    tag = docker_tag(path)
    if tag is None:
        raise RequestError(
            f"Docker takes images by name, not the file {path}.",
            hint="Load it on the node (`docker load`) and use its name.",
        )
    return tag
