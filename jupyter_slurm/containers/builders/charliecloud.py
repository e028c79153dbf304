"""Images for Charliecloud: `ch-image build`, then a SquashFS file or a folder.

Facts (tested with 0.31): ch-image has its own storage folder, which must not be on a network file
system, so each build gets a storage folder on the node. ch-image is a Python program and picks the
wrong Python if the user has activated an environment. Credentials come from CH_IMAGE_USERNAME and
CH_IMAGE_PASSWORD, not from a file. Names of Docker Hub images must omit `docker.io`, which does not
serve a registry (Charliecloud issue 1183). `--force` lets apt work without root. Version 0.26 added
ch-convert, which uses the slowest gzip level.
"""

from __future__ import annotations

import shlex

from jupyter_slurm.containers.builders.script import SAVING, context
from jupyter_slurm.containers.charliecloud import explain_build
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.references import HUB, Reference, parse_reference
from jupyter_slurm.containers.runtime import Explained

_BEGIN = """export CH_IMAGE_STORAGE="$work/storage" CH_IMAGE_CACHE=disabled
: "${USER:=$(id -un)}"; export USER
ch-image --version >/dev/null 2>&1 || PATH=/usr/bin:/bin:$PATH
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
    reads = Kind.DOCKERFILE

    def named(self, reference: Reference) -> str:
        return str(reference)

    def build(self, recipe: Recipe, base: str | None, version: str) -> str:
        begin = _BEGIN
        if base is not None and base.startswith("/"):
            begin += _LOCAL.format(path=shlex.quote(base))
            base = "base"
        elif base is not None:
            base = _name(parse_reference(base))
        build = 'ch-image build --force -t made --file "$work/Dockerfile" "$work/context"\n'
        return begin + context(recipe, base) + build + _END.format(made="made")

    def pull(self, reference: Reference, version: str) -> str:
        name = shlex.quote(_name(reference))
        return f"{_BEGIN}step pulling {name}\nch-image pull {name}\n{_END.format(made=name)}"

    def explain(self, log_tail: str) -> Explained | None:
        return explain_build(log_tail)


def _name(reference: Reference) -> str:
    return str(reference).removeprefix(f"{HUB}/")
