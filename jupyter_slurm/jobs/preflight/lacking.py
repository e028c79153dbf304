"""Says which engine a job's Python or image lacks, as far as earlier jobs tell. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.jobs.preflight.partition_facts import Source
from jupyter_slurm.jobs.preflight.syntax import is_alike
from jupyter_slurm.wire import Job, JobSpec

_LACKS = re.compile(r"(?:--launch \w+|torchrun) needs ")
"""In words of `node/launch_engine.py` and `node/launch_torchrun.py`."""


def objections(spec: JobSpec, jobs: Iterable[Job]) -> Iterator[Objection]:
    """Yield a warning where the newest job with this engine ended for want of it. Modules may bring
    what was not there."""
    if spec.launch is None or spec.modules:
        return
    same = (one for one in jobs if one.launch == spec.launch and is_alike(one, spec))
    ended = [one for one in same if one.state.final]
    newest = max(ended, key=lambda one: one.ended_s or 0.0, default=None)
    if newest is not None and _LACKS.search(str(newest.why)):
        yield Objection(
            f"It may fail as job {newest.id} did there: {newest.why}",
            "Name an image, a module or a Python that has it; if it was put there since, go on.",
            certain=False,
            by=Source.PROFILE,
            option="launch",
        )
