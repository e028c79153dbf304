"""The records of cells in sessions, and the calls that cancel and forget cells.

A session is a job like any other; a cell in it is a record without a Slurm ID.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from msgspec.structs import replace

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import RANKED
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.records.registry import JobRegistry, Record, without_content
from jupyter_slurm.jobs.submission.resolve import check_spec
from jupyter_slurm.jobs.submission.session_cells import ask, ended, ends_s
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.variables import check_python
from jupyter_slurm.wire import OUTCOME, CellSpec, Job


class Sessions:
    def __init__(self, registry: JobRegistry, clusters: Clusters) -> None:
        self._registry = registry
        self._clusters = clusters

    def cluster(self, session_id: str) -> SlurmCluster:
        """Return the cluster where the session runs. Raises NotFoundError or RequestError."""
        return self._clusters.named(self._session(session_id).cluster)

    def completed(self, spec: CellSpec, profile: ClusterProfile) -> CellSpec:
        """Return the cell's spec with the defaults of the profile and of the cell's session. Raises
        RequestError."""
        if spec.launch is not None:
            raise RequestError(
                "A session keeps the nodes it was started on, so its cells cannot use --launch.",
                option="launch",
            )
        cell: CellSpec = kind_of(spec).completed(spec, profile)
        launch = self._session(spec.session or "").launch
        return replace(cell, launch=launch) if launch in RANKED else cell

    def new_record(self, spec: CellSpec) -> Record:
        """Return the record of a cell to run in the session `spec.session`. Raises RequestError."""
        check_spec(spec)
        session = self._session(spec.session or "")
        if session.state.final:
            raise ended(session)
        if spec.inputs_python is not None and session.python is not None:
            check_python(spec.inputs_python, session.python[:2])
        job = kind_of(spec).recorded(
            spec,
            cluster=session.cluster,
            gpus=session.gpus,
            image=session.image,
            runtime=session.runtime,
            python=session.python,
            python_path=session.python_path,
            job_dir=str(JobDir(PurePosixPath(session.job_dir)).cell(spec.id).path),
            session_ends_s=ends_s(session),
            delivered=OUTCOME in spec.names_out,  # no notebook waits for the cell
        )
        return Record(job=job, spec=spec, asked=without_content(spec))

    def cancel(self, job: Job, *, again: bool) -> None:
        """Interrupt the cell. If `again` is set, kill the cell's process; the session then loses
        its variables."""
        if job.submitted_s is not None:
            cluster = self._clusters.named(job.cluster)
            ask(cluster, JobDir(PurePosixPath(job.job_dir)), "kill" if again else "cancel", job.id)

    def forget_cells(self, session_id: str) -> None:
        """Remove the records of the session's cells. Their folders are in the session's folder."""
        for record in self._registry.records():
            if record.job.session == session_id:
                self._registry.remove(record.job.id)

    def _session(self, session_id: str) -> Job:
        job = self._registry.job(session_id)
        if not kind_of(job).accepts_cells:
            raise RequestError(f"Job {job.id} is not a session.", hint="See `%slurm session list`.")
        return job
