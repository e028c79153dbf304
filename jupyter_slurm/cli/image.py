"""`jupyter slurm image …`: list, build, pull and remove the images of a cluster.

The words of `build` and `pull` are those of `%%slurm_image`, understood by `image_line.py`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from jupyter_slurm.cli import follow
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.jobs import cluster_name
from jupyter_slurm.cli.say import note, remark, say, tell
from jupyter_slurm.cli.table import as_json, table
from jupyter_slurm.commands import packages_here
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.commands.image_line import ImageRequest, parse_image, removed
from jupyter_slurm.commands.submitting import IMAGE_BUILD, IMAGE_PULL
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.job import pushed_from
from jupyter_slurm.readable import moment
from jupyter_slurm.wire import Image, ImageSpec, new_id


def listed(args: Arguments, connect: Connect) -> int:
    found = connect().images(cluster_name(args.cluster))
    if args.json:
        say(as_json(found))
    elif found:
        head = ["Image", "Origin", "From", "Size", "Made", "Where"]
        say(table(head, [_row(one) for one in found]))
    else:
        tell("No images yet: `jupyter slurm image build` makes one.")
    return 0


def build(args: Arguments, connect: Connect) -> int:
    """Build the recipe from FILE, else from standard input. Return the job's exit code."""
    request = parse_image(IMAGE_BUILD, args)
    here = packages_here.read() if request.env_from_here else None
    if here is not None and here.left_out:
        names = ", ".join(here.left_out)
        remark(f"Only on this machine, and so left out: {names}.")
    text = _recipe(request)
    folder = (
        Path.cwd() if request.file in (None, "-") else Path(str(request.file)).absolute().parent
    )
    push = pushed_from(Path.cwd(), request.push)
    spec = request.build_spec(new_id(), text, here, folder=str(folder), push=push)
    return _make(request, spec, connect)


def pull(args: Arguments, connect: Connect) -> int:
    request = parse_image(IMAGE_PULL, args)
    return _make(request, request.pull_spec(new_id()), connect)


def remove(args: Arguments, connect: Connect) -> int:
    api = connect()
    for name in args.names:
        tell(removed(name, api.remove_image(name, cluster_name(args.cluster))))
    return 0


def _make(request: ImageRequest, spec: ImageSpec, connect: Connect) -> int:
    cluster = spec.cluster or os.environ.get("JUPYTER_SLURM_CLUSTER") or None
    api = connect()
    made = api.make_image(msgspec.structs.replace(spec, cluster=cluster))
    if made.job is None:
        tell(f"The image {made.image.name} is there: {made.image.path}")
        return 0
    if request.request.detach:
        say(f"{made.job.id}\n")
        return 0
    try:
        return follow.follow(api, made.job)
    except KeyboardInterrupt:
        if request.request.on_interrupt == "cancel":
            api.cancel(made.job.id)
        note(f"\n{follow.come_back(made.job)}\n")
        raise


def _recipe(request: ImageRequest) -> str:
    if request.file not in (None, "-"):
        path = Path(str(request.file))
        if not path.is_file():
            raise NotFoundError(f"There is no file {path}.")
        return path.read_text(encoding="utf-8", errors="replace")
    if request.file is None and (request.env_from_here or sys.stdin.isatty()):
        if request.env_from_here:
            return ""
        raise RequestError("Which recipe?", hint=f"`%slurm {IMAGE_BUILD.usage('terminal')}`")
    return sys.stdin.read()


def _row(one: Image) -> list[str]:
    return [
        one.name,
        one.origin,
        one.base or "",
        f"{one.size_mib:.0f} MiB" if one.size_mib is not None else "",
        moment(one.made_s, time.time()) if one.made_s else "",
        one.path,
    ]


COMMANDS = by_words(image_ls=listed, image_build=build, image_pull=pull, image_rm=remove)
