"""`%%slurm`, `%slurm`, `%%sbatch`, `%squeue` …: the magics of a notebook.

From the outside in: `extension` (names and settings), `commands` (what a line does), `cell`,
`show` (values), `follow`, `replay`, `live`, `transfer` (waiting), `state` and `frontend` (what the
kernel knows), `queue_widget` and `open_log` (`%slurm`), `table`, `manual`, `completion`. They
reach the cluster through `Api` alone.
"""
