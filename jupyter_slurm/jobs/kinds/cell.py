"""Cells of Python code that node/runner.py runs once. No I/O."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec.structs import replace

from jupyter_slurm.errors import MalformedError, RequestError
from jupyter_slurm.formatting import moment
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import PROGRESS_BYTES, RANKED, ByPython, Files, node_files
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.slurm.units import NODE_NAME
from jupyter_slurm.untrusted_json import Moment, read_json
from jupyter_slurm.wire import OUTCOME, CellJob, CellSpec, DashboardName, Job, SweepSpec

if TYPE_CHECKING:
    from jupyter_slurm.jobs.outcome.verdict import Evidence
    from jupyter_slurm.jobs.submission.resolve import Resolved
    from jupyter_slurm.profiles.profile import ClusterProfile

_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The fixed modification time of the files in a zip. Equal files therefore give an equal zip."""
_FOR_VARIABLES = frozenset(("runner_values.py", "runner_data.py"))
"""Modules that only cells with variables need."""
_FOR_SOME = frozenset(("runner_ranks.py", "runner_engine.py", "runner_dashboards.py"))
"""Modules that only cells on many nodes or with dashboards need."""


class Cell(ByPython[CellSpec]):
    """A cell in a job of its own or in a session."""

    __slots__ = ()

    spec = CellSpec
    job = CellJob
    identified_by = (
        *("names_in", "names_out", "out_format"),
        *("launch", "names_gather", "max_restarts", "mpi", "tensorboard"),
    )
    is_python = True
    runner = rank_runner = layout.RUNNER
    code_file = layout.CELL
    uses_runner = True
    has_result = True

    def completed(self, spec: CellSpec, profile: ClusterProfile) -> CellSpec:
        return replace(spec, out_format=spec.out_format or profile.out_format)

    def check(self, spec: CellSpec) -> None:
        _check_launch(spec)
        if spec.tensorboard is not None and spec.session is not None:
            raise RequestError(
                "A cell in a session cannot use --tensorboard.",
                option="tensorboard",
            )

    def files(self, spec: CellSpec, job: Resolved) -> Files:
        variables = bool(spec.names_in or spec.names_out or spec.names_gather)
        return own_files(spec) | runner_files(variables=variables)

    def dashboards(self, job: CellSpec | Job) -> tuple[DashboardName, ...]:
        assert isinstance(job, CellSpec | CellJob)
        board: tuple[DashboardName, ...] = ("tensorboard",) if job.tensorboard is not None else ()
        return (*super().dashboards(job), *board)

    def progress_file(self, job: Job, folder: JobDir) -> PurePosixPath | None:
        return None if job.launch is None else folder.launch(job.restarts)

    def progress(self, job: Job, tail: bytes) -> dict[str, Any]:
        for line in tail.splitlines():
            with contextlib.suppress(MalformedError):
                return {"ranks": read_json(line, _LaunchProgress, PROGRESS_BYTES).ranks}
        return {}

    def cause(self, evidence: Evidence) -> str | None:
        losses = list(_losses(evidence.progress))
        lost = [one for one in losses if one.was_lost]
        until_s = evidence.exit.time_s if evidence.exit else 0.0
        nodes = ", ".join(f"{one.node} ({moment(one.time_s, until_s)})" for one in lost or losses)
        if lost:
            return f"The job lost {nodes}, which is the probable cause (inferred)."
        if losses:
            return f"The engine ended on {nodes}, which is the probable cause (inferred)."
        return None


class _Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A lost node, or a node on which the engine ended."""

    node: Annotated[str, msgspec.Meta(pattern=rf"\A{NODE_NAME}\Z")]
    was_lost: bool
    time_s: Moment


def _losses(tail: bytes) -> Iterator[_Loss]:
    for line in tail.splitlines():
        with contextlib.suppress(MalformedError):
            yield read_json(line, _Loss, PROGRESS_BYTES)


class _LaunchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The line that node/launch.py writes once all nodes have connected."""

    ranks: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


def _check_launch(spec: CellSpec) -> None:
    """Check the options of a job on many nodes. Raises RequestError."""
    if spec.names_gather and spec.launch not in RANKED:
        raise RequestError(
            "--gather needs `--launch torchrun` or `--launch mpi`.",
            hint="" if spec.session is None else "Start the session with one of them.",
            option="gather",
        )
    if both := sorted({*spec.names_gather} & {*spec.names_out}):
        raise RequestError(
            f"{both[0]} is in both --out and --gather.",
            hint="Use --out for the value of rank 0, or --gather for a list over all ranks.",
            option="gather",
        )
    if spec.max_restarts and spec.launch != "torchrun":
        raise RequestError(
            "`--max-restarts` needs `--launch torchrun`.",
            option="max-restarts",
        )
    if spec.max_restarts < 0:
        raise RequestError("--max-restarts must be 0 or more.", option="max-restarts")


def task(spec: CellSpec | SweepSpec) -> bytes:
    """Return the runner's task. For a cell in a session it includes the code."""
    names_gather = spec.names_gather if isinstance(spec, CellSpec) else ()
    return msgspec.json.encode(
        {
            "id": spec.id,
            "cell_name": f"slurm cell {spec.id}",
            "names_in": spec.names_in,
            "names_out": spec.names_out,
            "out_format": spec.out_format,
            **({"names_gather": names_gather} if names_gather else {}),
            **({"error_out": OUTCOME} if OUTCOME in spec.names_out else {}),
            **({"code": spec.code} if spec.session is not None else {}),
        }
    )


def own_files(spec: CellSpec | SweepSpec) -> dict[str, bytes | Path]:
    """Return the cell's own files. The key file is empty. For a cell in a session, leave out the
    key file and the code file, because creating each file takes time."""
    files: dict[str, bytes | Path] = {layout.TASK: task(spec)}
    if spec.session is None:
        files |= {layout.CELL: spec.code.encode(), layout.KEY: b""}
    if spec.inputs is not None:
        files[layout.INPUTS] = Path(spec.inputs)
    return files


def runner_files(*, variables: bool) -> dict[str, bytes]:
    """Return node/runner.py and the modules that it imports for every cell. If `variables` is set,
    add cloudpickle and the modules for inputs and outputs."""
    left_out = _FOR_SOME if variables else _FOR_SOME | _FOR_VARIABLES
    files = {name: text for name, text in node_files("runner").items() if name not in left_out}
    if variables:
        files[layout.CLOUDPICKLE] = cloudpickle_zip()
    return files


@cache
def cloudpickle_zip() -> bytes:
    """Return the local cloudpickle with its licence, as an importable zip."""
    # These imports are slow, and front ends do not need them.
    import importlib.metadata  # noqa: PLC0415
    import zipfile  # noqa: PLC0415

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(importlib.metadata.files("cloudpickle") or (), key=str):
            is_licence = "licen" in file.name.lower()
            if file.suffix == ".py" or is_licence:
                name = f"cloudpickle/{file.name}" if is_licence else str(file)
                info = zipfile.ZipInfo(name, _ZIP_TIME)
                info.external_attr = 0o644 << 16
                archive.writestr(info, file.read_binary(), zipfile.ZIP_DEFLATED)
    return stream.getvalue()
