"""Images for Docker, also through sudo, and podman: built on one node, saved as a tar on the shared
file system, from which every other node loads it when it first needs it.

An engine keeps what a build leaves: its layers, of which those before the last have no name, and,
if its client was killed, other remains. So each layer has a label, the image's, by which this build
or the next one on that node finds them. BuildKit has neither: it keeps a cache, and cleans that
itself. (Docker 28 with the classic builder, tried; BuildKit not.)

What the engine fetched for a build and did not have before goes with a build that failed, else with
the image, whose note on that node (`image_folder.py`) names it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jupyter_slurm.containers import dockerfile
from jupyter_slurm.containers.docker_errors import explained_making
from jupyter_slurm.containers.docker_script import FORGET
from jupyter_slurm.containers.image_folder import OWN, docker_tag
from jupyter_slurm.containers.making.context import context, refuse_definition
from jupyter_slurm.containers.making.script import SAVING
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Explained
from jupyter_slurm.errors import RequestError

_LOAD = """{engine} image inspect {tag} >/dev/null 2>&1 || {engine} load <{path}
(: >>{note}"$node") 2>/dev/null || : # others' folders cannot be written to
"""

_LABEL = "jupyter-slurm.image"
_NAME = "@jupyter-slurm-image@"
"""The mark in the Dockerfile that the node replaces, from the folder and the image's name."""

# What is a day old is not of a build that runs: its last layer is younger, or has a container. The
# engine may go on for a moment when its client was ended.
_BEGIN = f"""label={_LABEL}=$name.$(printf '%s' "$folder" | cksum | cut -d ' ' -f 1)
unnamed() {{{{ {{engine}} image prune --force --filter "label=$1" $2 >/dev/null 2>&1 || :; }}}}
containers() {{{{
  for one in $({{engine}} ps --all --quiet --filter "label=$label"); do
    {{engine}} rm --force "$one" >/dev/null 2>&1 || :
  done
}}}}
end() {{{{
  rc=$?
  trap '' TERM
  [ "$rc" != 0 ] || exit 0
  pauses=0
  [ "$rc" -le 128 ] || pauses='0 0.5 1 2'
  for pause in $pauses; do sleep "$pause"; containers; unnamed "$label"; done
  for one in $remove; do {{engine}} rmi "$one" >/dev/null 2>&1 || :; done
  unnamed "$label"
  exit "$rc"
}}}}
remove={{tag}}
trap end EXIT
trap 'exit 143' TERM
containers
unnamed "$label"
unnamed {_LABEL} '--filter until=24h'
{FORGET.replace("{", "{{").replace("}", "}}")}forget '{{engine}}' "$folder" {{tag}}
"""

_LABELLED = f"""sed "s|{_NAME}|${{label#*=}}|" "$work/Dockerfile" >"$work/labelled"
mv "$work/labelled" "$work/Dockerfile"
"""

_NOTE = """{engine} image inspect {name} >/dev/null 2>&1 || remove="$remove "{name}
"""

_PULL = """step pulling {name}
{engine} pull {name}
{engine} tag {name} {tag}
"""

# BuildKit gives no name to what it fetched: an image of that name is the user's, later.
_SAVE = f"""{SAVING}{{engine}} save {{tag}} >"$partial.tar"
for one in $remove; do
  if {{engine}} image inspect "$one" >/dev/null 2>&1; then printf '%s\\n' "$one"; fi
done >>"${{{{partial%.partial}}}}.tar@$node"
"""


class Docker:
    """A maker with an engine that `words` call."""

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
            folder, _, file = base.rpartition("/")
            path, note = shlex.quote(base), shlex.quote(f"{folder}/.{file}@")
            base = _own(base)
            load = _LOAD.format(engine=self._engine, tag=base, path=path, note=note)
        tag = _tag(version)
        begin = _BEGIN.format(engine=self._engine, tag=tag)
        label = f"LABEL {_LABEL}={_NAME}"
        made = context(recipe, base, label)
        if recipe.kind is Kind.DOCKERFILE:
            images = dockerfile.images(dockerfile.with_base(recipe.text, base))
        else:
            images = [base] if base else []
        fetch = "".join(self._note(one) for one in images if not one.startswith(OWN))
        # The registries and mirrors of the node, and its proxy, are the host's network's.
        build = (
            f"{self._engine} build --network=host --force-rm --tag {tag} "
            '--file "$work/Dockerfile" "$work/context"\n'
        )
        save = _SAVE.format(engine=self._engine, tag=tag)
        return begin + load + fetch + made + _LABELLED + build + save

    def pull(self, reference: Reference, version: str) -> str:
        name, tag = str(reference), _tag(version)
        begin = _BEGIN.format(engine=self._engine, tag=tag)
        fetch = _PULL.format(engine=self._engine, name=shlex.quote(name), tag=tag)
        save = _SAVE.format(engine=self._engine, tag=tag)
        return begin + self._note(name) + fetch + save

    def _note(self, name: str) -> str:
        return _NOTE.format(engine=self._engine, name=shlex.quote(name))

    def explain(self, log_tail: str) -> Explained | None:
        return explained_making(log_tail)


def _tag(version: str) -> str:
    return docker_tag(f"x+{version}.tar") or ""


def _own(path: str) -> str:
    tag = docker_tag(path)
    if tag is None:
        raise RequestError(
            "Docker takes images by name, not the file {path}.",
            hint="Load it where the image is to be made (`docker load`), and say its name.",
            path=path,
        )
    return tag
