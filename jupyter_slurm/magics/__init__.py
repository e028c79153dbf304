"""`%%slurm`, `%slurm`, `%%sbatch`, `%squeue` …: the magics of a notebook.

`extension` has the names and settings, `commands` runs a line, `cell` runs a cell, `show` displays
values, and `follow` and `transfer` wait. `state` and `frontend` have facts about the kernel, and
`queue_widget` and `open_log` belong to `%slurm`. `table` parses tables, `manual` generates help,
and `completion` completes words. These modules reach the cluster only through `Api`.
"""
