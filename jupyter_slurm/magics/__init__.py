"""`%%slurm`, `%slurm`, `%%sbatch`, `%squeue` …: what people type and see in a notebook.

The modules, from the outside in: `extension` (names and settings), `commands` and `cell` (what a
line does), `follow`, `replay`, `live` (waiting and showing), `state` and `frontend` (what the
kernel knows), `queue_widget` and `open_log` (`%slurm`), `table`, `manual`, `completion`. They
speak to the cluster through `Api` alone.
"""
