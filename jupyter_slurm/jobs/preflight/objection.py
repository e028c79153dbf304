"""A reason against a job, as the judges of `limits.py` and `policies.py` give it. PURE."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_slurm.formatting import joined
from jupyter_slurm.jobs.preflight.partition_facts import Source
from jupyter_slurm.wire import Check


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a job would not run as asked, `by` whose word. `certain`: sbatch refuses it, or
    Slurm lets it wait for ever."""

    sentence: str
    hint: str
    certain: bool
    by: Source = Source.CLUSTER
    option: str | None = None
    """The option of the job that it is about, as sbatch calls it; None: no option alone."""
    passing: bool = False
    """It depends on what else runs now: worth a word before the job is sent, not on the job."""

    @property
    def text(self) -> str:
        return joined(self.sentence, self.hint)

    def check(self) -> Check:
        ok = False if self.certain else None
        return Check(ok=ok, sentence=self.sentence, hint=self.hint, option=self.option)
