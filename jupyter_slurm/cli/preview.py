"""The text that `--dry-run` prints on a terminal."""

from __future__ import annotations

import shlex

from jupyter_slurm.views.preview_text import preview_lines
from jupyter_slurm.wire import Preview


def preview_text(preview: Preview) -> str:
    told = "".join(f"# {line}\n" for line in preview_lines(preview))
    where = f"on {preview.cluster}, in {preview.job_dir}:"
    files = "".join(f"#   {name}\n" for name in preview.files)
    return f"{told}# {where}\n{files}# {shlex.join(preview.sbatch)}\n{preview.script}"
