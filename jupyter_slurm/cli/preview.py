"""What `--dry-run` prints on a terminal."""

from __future__ import annotations

import shlex

from jupyter_slurm.wire import Preview


def preview_text(preview: Preview) -> str:
    files = "".join(f"#   {name}\n" for name in preview.files)
    return (
        f"# on {preview.cluster}, in {preview.job_dir}:\n{files}"
        f"# {shlex.join(preview.sbatch)}\n{preview.script}"
    )
