"""Batch scripts, which are passed to sbatch unchanged. No I/O."""

from __future__ import annotations

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.wire import ScriptJob, ScriptSpec


class Script(Kind[ScriptSpec]):
    """A batch script (`%%sbatch`)."""

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
                "`--fetch` needs `--push` in a batch script.",
                hint="Add `--push DIR`, or use `%slurm pull`.",
            )
        if not spec.code.startswith("#!"):
            raise RequestError("A batch script must begin with `#!`, e.g. `#!/bin/bash`.")
        if "\r\n" in spec.code:
            raise RequestError(
                "The batch script has DOS line endings (\\r\\n), which sbatch rejects.",
                hint="Use Unix line endings (\\n).",
            )
        for option, given in (
            ("env", spec.env),
            ("module", spec.modules),
            ("with", spec.environment),
            ("mount", spec.mounts),
            ("image", spec.image),
            ("container-name", spec.container_name),
            ("container-remap-root", spec.container_remap_root),
            ("runtime", spec.runtime),
        ):
            if given:
                raise RequestError(
                    f"A batch script is passed to sbatch unchanged, so it cannot use --{option}.",
                    hint="Do the same in the script, or use a cell that begins with `#!`.",
                    option=option,
                )
