"""What a job has not found where it ran, by what its log ends in. PURE: no I/O."""

from __future__ import annotations

import re

from jupyter_slurm.wire import JobKind

_NO_PYTHON = re.compile(
    r"^\S*sh: .*exec: (?:line \d+: )?(?P<python>.+?): (?:not found|.*No such file)", re.MULTILINE
)
"""What dash, bash and busybox say."""
_NO_HOLDER = re.compile(r"^There is no Python on ", re.MULTILINE)
"""`transport/node_program.py` says it."""
_OLD_PYTHON = re.compile(
    r"^jupyter-slurm: this is (?P<python>Python \S+), and a cell needs", re.MULTILINE
)
"""`node/runner.py` says it."""
_NO_KERNEL_EXIT = 65
_NO_IPYKERNEL = re.compile(
    r"^jupyter-slurm: this Python has no ipykernel: (?P<python>.+) lacks (?P<what>.+)$",
    re.MULTILINE,
)
_KERNEL_DIES = re.compile(r"^jupyter-slurm: the kernel dies as soon as it has begun", re.MULTILINE)
"""`node/kernel.py` says these."""


def explained(
    kind: JobKind, log_tail: str, exit_code: int, *, bare: bool
) -> tuple[str, str] | None:
    """What was missing, and the remedy; None: that was not it. `bare`: on the node, in no image."""
    found = _without_python(kind, log_tail, bare=bare)
    if found is None and kind is JobKind.KERNEL:
        return _without_kernel(log_tail, exit_code, bare=bare)
    return found


def _without_python(kind: JobKind, log_tail: str, *, bare: bool) -> tuple[str, str] | None:
    if kind is JobKind.TERMINAL and _NO_HOLDER.search(log_tail):
        return (
            "The node has no Python, which a job's own terminal needs.",
            "Name one with `python` in the cluster's profile, or load a module that has one "
            "(--module). A terminal in a job that runs already needs none: "
            "`jupyter slurm shell --job ID`.",
        )
    if kind not in (JobKind.CELL, JobKind.SESSION, JobKind.KERNEL, JobKind.LAB):
        return None
    missing, old = _NO_PYTHON.search(log_tail), _OLD_PYTHON.search(log_tail)
    if old:
        why = f"A cell needs Python 3.6 or later, and this is {old['python']}."
    elif missing and bare:
        why = f"The node has no {missing['python']}."
    elif missing:
        why = "The image has no Python."
    else:
        return None
    if bare:
        return why, (
            "Name another with `python` in the cluster's profile, or load a module that has one "
            "(--module)."
        )
    return why, (
        "A cell needs python3 (3.6 or later) in it: try another image, or begin the cell with "
        "#!/bin/sh."
    )


def _without_kernel(log_tail: str, exit_code: int, *, bare: bool) -> tuple[str, str] | None:
    lacks = _NO_IPYKERNEL.search(log_tail)
    if exit_code == _NO_KERNEL_EXIT and lacks:
        python, what = lacks["python"], lacks["what"]
        if bare:
            why = f"The node's Python has no ipykernel: {python} lacks {what}."
        else:
            why = f"The image's Python has no ipykernel: {python} lacks {what}."
        return why, (
            "Take an image that has it, build one (`%%slurm_image NAME --from IMAGE` with the line "
            "`pip install ipykernel`), or load a module that has it (--module)."
        )
    if _KERNEL_DIES.search(log_tail):
        return (
            "Its kernel died again and again as soon as it had begun.",
            "What it said is in the job's output: `jupyter slurm logs ID`.",
        )
    return None
