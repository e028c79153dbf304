"""Say what a batch script is: handed to sbatch as its user wrote it, and Slurm's alone. PURE."""

from __future__ import annotations

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.wire import ScriptJob, ScriptSpec


class Script(Kind[ScriptSpec]):
    """A batch script (`%%sbatch`), or a job that was submitted elsewhere."""

    __slots__ = ()

    spec = ScriptSpec
    job = ScriptJob
    identified_by = ("arguments",)
    is_raw_script = True
    takes_arguments = True
    starts_tasks = True
    code_file = layout.SCRIPT

    def check(self, spec: ScriptSpec) -> None:
        if spec.fetch and spec.push is None:
            raise RequestError(
                "This batch script has no pushed folder, so `--fetch` has nothing to copy.",
                hint="Add `--push DIR`, or fetch them yourself with `%slurm pull`.",
            )
        if not spec.code.startswith("#!"):
            raise RequestError(
                "A batch script begins with `#!`, e.g. `#!/bin/bash`; Slurm refuses others."
            )
        if "\r\n" in spec.code:
            raise RequestError(
                "The batch script has lines that end as in DOS (\\r\\n), which sbatch refuses.",
                hint="Write it with plain newlines (\\n).",
            )
        for option, given in (
            ("env", spec.env),
            ("module", spec.modules),
            ("mount", spec.mounts),
            ("image", spec.image),
            ("container-name", spec.container_name),
            ("container-remap-root", spec.container_remap_root),
            ("runtime", spec.runtime),
        ):
            if given:
                raise RequestError(
                    f"A batch script is handed to sbatch as it is, without --{option}.",
                    hint="Do it in the script itself, or run a cell that begins with `#!`.",
                    option=option,
                )
