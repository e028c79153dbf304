"""What `--dry-run` shows in a cell."""

from __future__ import annotations

import shlex

from jupyter_slurm.magics.frontend import in_place, say, show
from jupyter_slurm.views.preview_text import preview_html, preview_lines
from jupyter_slurm.wire import Preview


def show_preview(preview: Preview) -> None:
    """Show the preview as HTML in a notebook; as text in a terminal or if HTML cannot be shown."""
    told = (
        *preview_lines(preview),
        f"Cluster {preview.cluster}, job dir {preview.job_dir}",
        f"Files: {', '.join(preview.files)}",
        f"$ {shlex.join(preview.sbatch)}",
        preview.script,
    )
    text = "\n".join(told)
    if in_place():
        show({"text/html": preview_html(preview), "text/plain": text}, {})
    else:
        say(text)
