"""`%%slurm_image` and `%slurm image …`: images of the cluster, from this notebook.

What the words mean is `image_line.py`'s; how the job that makes an image is followed, `cell.py`'s.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from jupyter_slurm.commands import packages_here
from jupyter_slurm.commands.arguments import Arguments, read_arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.commands.image_line import ImageRequest, parse_image, removed
from jupyter_slurm.commands.submitting import IMAGE_CELL, IMAGE_PULL
from jupyter_slurm.job import JobHandle, pushed_from
from jupyter_slurm.magics.cell import brought
from jupyter_slurm.magics.follow import CallThread
from jupyter_slurm.magics.frontend import say
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.magics.table import Table
from jupyter_slurm.readable import moment
from jupyter_slurm.wire import ImageSpec, new_id


def build(state: MagicsState, line: str, text: str) -> JobHandle | None:
    """Make the image that the cell describes, as `cell.run` runs a cell."""
    args = read_arguments(IMAGE_CELL, state.words(line), "notebook")
    request = parse_image(IMAGE_CELL, args, defaults=state.defaults())
    here = packages_here.read() if request.env_from_here else None
    if here is not None and here.left_out:
        names = ", ".join(here.left_out)
        say(f"Only on this machine, and so left out: {names}.")
    folder, push = str(_folder(state.notebook)), pushed_from(Path.cwd(), request.push)
    spec = request.build_spec(new_id(), text, here, state.notebook, folder, push)
    return _make(state, request, spec)


def _folder(notebook: str | None) -> Path:
    """Return the folder beside the cell: the notebook's, else where this kernel is."""
    beside = Path(notebook or "").parent
    return beside if beside.is_absolute() and beside.is_dir() else Path.cwd()


def pull(state: MagicsState, args: Arguments) -> JobHandle | None:
    request = parse_image(IMAGE_PULL, args, defaults=state.defaults())
    return _make(state, request, request.pull_spec(new_id(), state.notebook))


def _make(state: MagicsState, request: ImageRequest, spec: ImageSpec) -> JobHandle | None:
    with CallThread(state.person, spec.cluster) as worker:
        made = worker(lambda: state.api.make_image(spec))
    if made.job is None:
        say(f"The image {made.image.name} is there, and nothing has changed: {made.image.path}")
        return None
    return brought(state, request.request, made.job)


def listed(state: MagicsState, args: Arguments) -> Table:
    found = state.api.images(args.cluster or state.cluster)
    now_s = time.time()
    return Table(
        ("Image", "From", "Size", "Made", "Where"),
        tuple(
            (
                one.name,
                f"{one.origin} from {one.base}" if one.base else one.origin,
                f"{one.size_mib:.0f} MiB" if one.size_mib is not None else "",
                moment(one.made_s, now_s) if one.made_s else "",
                one.path,
            )
            for one in found
        ),
        caption="" if found else "No images yet: %%slurm_image builds one.",
    )


def remove(state: MagicsState, args: Arguments) -> None:
    cluster = args.cluster or state.cluster
    with CallThread(state.person, cluster) as worker:
        for name in args.names:
            say(removed(name, worker(partial(state.api.remove_image, name, cluster))))


COMMANDS = by_words(image_ls=listed, image_pull=pull, image_rm=remove)
