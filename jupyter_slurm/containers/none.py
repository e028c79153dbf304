"""Runtime `none`: the program runs directly on the node; the batch script handles modules and
setup."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_slurm.containers.references import Reference
from jupyter_slurm.containers.runtime import Box, Explained, Launch, in_workdir
from jupyter_slurm.errors import RequestError


class NoContainer:
    name = "none"
    takes_image = False
    image_suffixes: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    has_mpi = True

    def fetched(self, reference: Reference) -> str | None:
        return None

    def job_dir(self, box: Box) -> str:
        return box.job_dir

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        if box.image is not None:
            raise RequestError(
                f"Runtime none does not use images such as {box.image}.",
                hint="Omit --image, or use a container tool: --runtime charliecloud.",
                option="image",
            )
        if box.mounts:
            raise RequestError(
                f"Runtime none cannot mount {box.mounts[0].src}: it uses the node's own files.",
                hint="Omit --mount and use the path itself.",
                option="mount",
            )
        return Launch(argv=in_workdir(argv, box, box.job_dir))

    def explain(self, log_tail: str) -> Explained | None:
        return None
