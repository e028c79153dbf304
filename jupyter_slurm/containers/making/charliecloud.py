"""Images for Charliecloud: `ch-image build`, then a SquashFS file, else a folder.

Facts (0.31, tried): ch-image keeps its images in a storage folder of its own, which must not be on
a network's file system; it gets one on the node, for this image alone. It is Python, and finds the
wrong one if an environment of the user's is active. It reads no file of credentials. Images of
Docker Hub must not say `docker.io`: it would ask a machine of that name, which has none (its issue
1183). It leaves ADD out, with a warning. `--force` lets apt work without root. ch-convert, of 0.26
and later, packs with the slowest gzip.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from jupyter_slurm.containers import dockerfile
from jupyter_slurm.containers.charliecloud_errors import explained_making
from jupyter_slurm.containers.credentials import charliecloud_file
from jupyter_slurm.containers.failures import IN_FOLDER, without_room
from jupyter_slurm.containers.making.context import context, refuse_definition
from jupyter_slurm.containers.making.script import SAVING
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import HUB, Reference, parse_reference
from jupyter_slurm.containers.runtime import Explained

_BEGIN = """export CH_IMAGE_STORAGE="$work/storage" CH_IMAGE_CACHE=disabled
: "${USER:=$(id -un)}"; export USER
ch-image --version >/dev/null 2>&1 || PATH=/usr/bin:/bin:$PATH
"""

_CREDENTIALS = """if [ -r ~/{path} ]; then
  {{ IFS= read -r CH_IMAGE_USERNAME; IFS= read -r CH_IMAGE_PASSWORD; }} <~/{path}
  export CH_IMAGE_USERNAME CH_IMAGE_PASSWORD CH_IMAGE_AUTH=yes
fi
"""

_LOCAL = """step "reading" {path}
if [ -d {path} ]; then ch-image import {path} base
else ch-convert -i squash -o dir {path} "$work/base"; ch-image import "$work/base" base; fi
"""

_END = f"""if command -v mksquashfs >/dev/null; then
  step "packing the image"
  ch-convert -i ch-image -o dir {{made}} "$work/made"
  {SAVING}  if mksquashfs "$work/made" "$partial.sqfs" -noappend -quiet -no-progress -comp gzip \\
      -Xcompression-level 1 && ch-run "$partial.sqfs" -- /bin/sh -c : >/dev/null 2>&1
  then exit 0; fi
  rm -f "$partial.sqfs"
fi
{SAVING}echo "jupyter-slurm: no SquashFS on this node: the image is a folder"
ch-convert -i ch-image -o dir {{made}} "$partial"
"""


class Charliecloud:
    tool = "charliecloud"
    suffixes = (".sqfs", "")

    def named(self, reference: Reference) -> str:
        return str(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        refuse_definition(recipe, "Charliecloud")
        begin = _BEGIN
        if base is not None and base.startswith("/"):
            begin += _LOCAL.format(path=shlex.quote(base))
            base = "base"
        elif base is not None:
            reference = parse_reference(base)
            begin += _credentials(reference)
            base = _name(reference)
        if recipe.kind is Kind.DOCKERFILE:
            recipe = replace(recipe, text=dockerfile.with_copies(recipe.text))
        build = 'ch-image build --force -t made --file "$work/Dockerfile" "$work/context"\n'
        return begin + context(recipe, base) + build + _END.format(made="made")

    def pull(self, reference: Reference, version: str) -> str:
        name = shlex.quote(_name(reference))
        fetch = f"step pulling {name}\nch-image pull {name}\n"
        return _BEGIN + _credentials(reference) + fetch + _END.format(made=name)

    def explain(self, log_tail: str) -> Explained | None:
        return explained_making(log_tail) or without_room(IN_FOLDER, log_tail)


def _name(reference: Reference) -> str:
    return str(reference).removeprefix(f"{HUB}/")


def _credentials(reference: Reference) -> str:
    return _CREDENTIALS.format(path=shlex.quote(charliecloud_file(reference.registry)))
