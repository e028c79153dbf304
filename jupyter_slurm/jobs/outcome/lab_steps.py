"""PURE. What a lab tells of itself: the lines that node/lab.py writes, what its job is by them, and
what its exit codes say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from jupyter_slurm.errors import MalformedError
from jupyter_slurm.foreign import Moment, read_json
from jupyter_slurm.jobs.submission import script
from jupyter_slurm.readable import duration
from jupyter_slurm.wire import Job, LabStep

_STEPS = frozenset(step.value for step in LabStep)
TAIL_BYTES = 4096
"""Holds the last line, whatever comes before it."""

FAILURES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        65: (
            "There is no JupyterLab for the lab to run.",
            "Take an image that has one, or have it installed beside this one, once: --install.",
        ),
        69: (
            "JupyterLab could not be installed.",
            "What pip said is in the job's output. Do the nodes have a way to the internet?",
        ),
        70: (
            "JupyterLab has failed.",
            "What it said is in the job's output.",
        ),
        **script.FAILURES,
    }
)
"""Exit codes of node/lab.py, and of the script around it: why, and what to do."""


_Host = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_:][A-Za-z0-9_.:%-]{0,253}\Z")]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class LabLine(msgspec.Struct, frozen=True, kw_only=True):
    step: str
    """That of `LabStep`, or how it has ended."""
    python: tuple[int, int, int] | None = None
    """The one that its kernels begin with."""
    idle_since_s: Moment | None = None
    door: tuple[_Host, _Port] | None = None
    """The address of its port."""


def last_line(data: bytes) -> LabLine | None:
    """Of the end of the file; None: there is no whole one."""
    for line in reversed(data[: data.rfind(b"\n") + 1].splitlines()):
        try:
            return read_json(line, LabLine, TAIL_BYTES)
        except MalformedError:
            continue
    return None


def changes(job: Job, line: LabLine | None) -> dict[str, Any]:
    """What the line says of a job that has not ended: fields of `Job`."""
    if line is None or job.lab is None or line.step not in _STEPS:
        return {}
    return {
        "lab": msgspec.structs.replace(job.lab, step=LabStep(line.step), door=line.door),
        "python": line.python,
        "idle_since_s": line.idle_since_s,
    }


def put_back(job: Job) -> dict[str, Any]:
    """What the queue's having it again makes of a lab: fields of `Job`; {} of any other job."""
    if job.lab is None:
        return {}
    return {
        "lab": msgspec.structs.replace(job.lab, step=LabStep.WAITING, door=None),
        "idle_since_s": None,
    }


def ended_well(line: LabLine, idle_s: int | None) -> str:
    """Why a lab is over that has ended by itself."""
    if line.step == "idle" and idle_s is not None:
        return f"Nobody did anything in it for {duration(idle_s)}, so it has ended by itself."
    return "It was shut down from inside."
