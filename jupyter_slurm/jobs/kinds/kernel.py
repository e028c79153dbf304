"""Kernels, which run ipykernel on the node for a client on this machine. No I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from jupyter_slurm.errors import RequestError
from jupyter_slurm.formatting import duration
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import RANKED, ByPython, Explained, Files, socket_name
from jupyter_slurm.wire import KernelJob, KernelSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.outcome.verdict import Evidence
    from jupyter_slurm.jobs.submission.resolve import Resolved
    from jupyter_slurm.profiles.profile import ClusterProfile

_IDLE = re.compile(
    r"^jupyter-slurm: no client was connected to the kernel for (?P<time_s>[0-9]{1,9}) s",
    re.MULTILINE,
)
_NO_IPYKERNEL_EXIT = 65
_NO_IPYKERNEL = re.compile(
    r"^jupyter-slurm: this Python has no ipykernel: (?P<python>.+) lacks (?P<packages>.+)$",
    re.MULTILINE,
)
_DIES = re.compile(r"^jupyter-slurm: the kernel dies as soon as it has started", re.MULTILINE)
"""Output lines of `node/kernel.py`."""


class Kernel(ByPython[KernelSpec]):
    __slots__ = ()

    spec = KernelSpec
    job = KernelJob
    idle_without = "without a connected client"
    runner = layout.KERNEL
    needs_packages = ("ipykernel",)
    node_files = ("framing", "kernel", "private_folder")
    listens = True
    is_service = True

    def check(self, spec: KernelSpec) -> None:
        if spec.launch in RANKED:
            raise RequestError(
                f"A kernel is one process, so it cannot use `--launch {spec.launch}`.",
                hint="Use `--launch ray` or `--launch dask`, or run the code in a cell or session.",
                option="launch",
            )

    def completed(self, spec: KernelSpec, profile: ClusterProfile) -> KernelSpec:
        return replace(spec, idle_s=spec.idle_s or int(profile.idle_s))

    def files(self, spec: KernelSpec, job: Resolved) -> Files:
        task = {"socket": socket_name(spec.id), "idle_s": spec.idle_s}
        return {**super().files(spec, job), layout.TASK: msgspec.json.encode(task)}

    def success_reason(self, evidence: Evidence) -> str:
        idle = _IDLE.search(evidence.log_tail)
        if idle is None:
            return super().success_reason(evidence)
        return f"Stopped after {duration(float(idle['time_s']))} without a connected client."

    def missing(self, log_tail: str, exit_code: int, *, bare: bool) -> Explained | None:
        found = super().missing(log_tail, exit_code, bare=bare)
        if found is not None:
            return found
        lacks = _NO_IPYKERNEL.search(log_tail)
        if exit_code == _NO_IPYKERNEL_EXIT and lacks:
            python, packages = lacks["python"], lacks["packages"]
            if bare:
                why = f"The node's Python has no ipykernel: {python} lacks {packages}."
            else:
                why = f"The image's Python has no ipykernel: {python} lacks {packages}."
            return why, (
                "Use or build an image with ipykernel (`%%slurm_image NAME --from IMAGE` with "
                "`pip install ipykernel`), or load a module with ipykernel (--module)."
            )
        if _DIES.search(log_tail):
            return (
                "The kernel died repeatedly during its start.",
                "See the job's output.",
            )
        return None
