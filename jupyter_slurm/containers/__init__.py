"""Container tools behind one Protocol, one file per tool. They run programs in images. No I/O."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from jupyter_slurm.containers.apptainer import APPTAINERS
from jupyter_slurm.containers.charliecloud import Charliecloud
from jupyter_slurm.containers.docker import DOCKERS
from jupyter_slurm.containers.enroot import Enroot
from jupyter_slurm.containers.none import NoContainer
from jupyter_slurm.containers.pyxis import Pyxis
from jupyter_slurm.containers.runtime import Box, Explained, Launch, Mount, Runtime
from jupyter_slurm.errors import RequestError

__all__ = [
    "RUNTIMES",
    "Box",
    "Explained",
    "Launch",
    "Mount",
    "Runtime",
    "runtime_named",
]

RUNTIMES: Mapping[str, Runtime] = MappingProxyType(
    {
        runtime.name: runtime
        for runtime in (NoContainer(), Charliecloud(), *APPTAINERS, *DOCKERS, Pyxis(), Enroot())
    }
)


def runtime_named(name: str) -> Runtime:
    """Return the runtime `name`. Raise RequestError if it is unknown; the hint lists the known
    names."""
    if name in RUNTIMES:
        return RUNTIMES[name]
    near = difflib.get_close_matches(name, RUNTIMES, n=1)
    raise RequestError(
        f"Unknown runtime {name!r}.",
        hint=f"Did you mean {''.join(near)}? Use one of {', '.join(RUNTIMES)}."
        if near
        else f"Use one of {', '.join(RUNTIMES)}.",
        option="runtime",
    )
