"""Images for Charliecloud: `ch-image build`, then a SquashFS file, else a folder.

What had to be known (0.31, tried): ch-image keeps its images in a storage folder of its own, which
must not be on a network's file system; it gets one on the node, for this image alone. It is Python,
and finds the wrong one where an environment of the user's is active. It reads no file of
credentials. `--force` lets apt work without root. ch-convert packs with the slowest gzip there is.
"""

from __future__ import annotations

import shlex

from jupyter_slurm.containers import dockerfile
from jupyter_slurm.containers.credentials import charliecloud_file
from jupyter_slurm.containers.making.script import file
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import Reference, parse_reference
from jupyter_slurm.containers.steps import SETUP, as_dockerfile, script_dockerfile
from jupyter_slurm.errors import RequestError

_BEGIN = """export CH_IMAGE_STORAGE="$work/storage" CH_IMAGE_CACHE=disabled
: "${USER:=$(id -un)}"; export USER
ch-image --version >/dev/null 2>&1 || PATH=/usr/bin:/bin:$PATH
mkdir "$work/context"
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

_END = """step "packing the image"
if command -v mksquashfs >/dev/null; then
  ch-convert -i ch-image -o dir {made} "$work/made"
  if mksquashfs "$work/made" "$partial.sqfs" -noappend -quiet -no-progress -comp gzip \\
      -Xcompression-level 1 && ch-run "$partial.sqfs" -- /bin/sh -c :; then exit 0; fi
  rm -f "$partial.sqfs"
fi
echo "jupyter-slurm: no SquashFS on this node: the image is a folder"
ch-convert -i ch-image -o dir {made} "$partial"
"""


class Charliecloud:
    tool = "charliecloud"
    suffixes = (".sqfs", "")

    def named(self, reference: Reference) -> str:
        return str(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        if recipe.kind is Kind.DEFINITION:
            raise RequestError(
                "Charliecloud takes no Apptainer definitions.",
                hint="Write what %post has as a setup script (#!/bin/sh), and say --from IMAGE.",
            )
        lines = [_BEGIN]
        if base is not None and base.startswith("/"):
            lines.append(_LOCAL.format(path=shlex.quote(base)))
            base = "base"
        elif base is not None:
            lines.append(_credentials(parse_reference(base)))
        if recipe.kind is Kind.DOCKERFILE:
            dockerfile.check(recipe.text)
            text = dockerfile.with_base(recipe.text, base)
        elif recipe.kind is Kind.SCRIPT:
            lines.append(file(f"context/{SETUP}", recipe.text))
            lines.append(f'chmod 755 "$work/context/{SETUP}"\n')
            text = script_dockerfile(base or "")
        else:
            text = as_dockerfile(base or "", recipe.commands())
        lines.append(file("Dockerfile", text))
        lines.append('step "building"\n')
        lines.append('ch-image build --force -t made -f "$work/Dockerfile" "$work/context"\n')
        return "".join([*lines, _END.format(made="made")])

    def pull(self, reference: Reference, version: str) -> str:
        name = shlex.quote(str(reference))
        fetch = f"step pulling {name}\nch-image pull {name}\n"
        return _BEGIN + _credentials(reference) + fetch + _END.format(made=name)


def _credentials(reference: Reference) -> str:
    return _CREDENTIALS.format(path=shlex.quote(charliecloud_file(reference.registry)))
