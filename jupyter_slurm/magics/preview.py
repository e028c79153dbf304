"""What `--dry-run` shows in a cell."""

from __future__ import annotations

from jupyter_slurm.magics.frontend import say
from jupyter_slurm.preview_text import preview_lines
from jupyter_slurm.wire import Preview


def show_preview(preview: Preview) -> None:
    for line in preview_lines(preview):
        say(line)
    say(f"Cluster {preview.cluster}, job dir {preview.job_dir}")
    say("Files: " + ", ".join(preview.files))
    say("$ " + " ".join(preview.sbatch))
    say(preview.script)
