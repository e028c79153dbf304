"""A private, real Slurm on this machine that runs as its user: `jupyter slurm up`.

Public names only. The command line's words are in `cli`; the rest of the program knows a cluster by
`profiles`. Inside: `spec` (values), `shape` (the one that `up` gives), `gpus` (this machine's),
`places` (paths), `software` (the installed programs), `packages` (the distribution's packages
without root), `conf` (Slurm's files, pure), `processes` (the kernel's view), `daemons` (start,
stop), `profile` (registration), `cluster` (the order of start and stop).
"""

from jupyter_slurm.local_cluster.cluster import down, status, up
from jupyter_slurm.local_cluster.gpus import own_gpus
from jupyter_slurm.local_cluster.places import folder
from jupyter_slurm.local_cluster.profile import profile_path
from jupyter_slurm.local_cluster.shape import shape
from jupyter_slurm.local_cluster.software import missing_packages
from jupyter_slurm.local_cluster.spec import DaemonStatus, Gpu, LocalSpec, LocalStatus

__all__ = [
    "DaemonStatus",
    "Gpu",
    "LocalSpec",
    "LocalStatus",
    "down",
    "folder",
    "missing_packages",
    "own_gpus",
    "profile_path",
    "shape",
    "status",
    "up",
]
