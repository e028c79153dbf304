"""`%%slurm`, `%slurm`, `%%sbatch`, `%squeue` …: the magics of a notebook.

From the outside in: `extension` (names and settings), `commands` (running a line), `cell`, `show`
(values), `follow`, `transfer` (waiting), `state` and `frontend` (facts about the kernel),
`queue_widget` and `open_log` (`%slurm`), `table`, `manual`, `completion`. They reach the cluster
only through `Api`.
"""
