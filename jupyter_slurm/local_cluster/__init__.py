"""A private, real Slurm that runs on this machine as the user. `jupyter slurm up` starts it. `spec`
defines a cluster's values, `gpus` finds this machine's GPUs, `paths` defines the paths, `software`
finds or downloads the programs, `conf` returns Slurm's files as text, and `processes` reads the
kernel's process table. `daemons` starts and stops the daemons, in the order that `cluster` defines;
`profile` registers the cluster."""

from jupyter_slurm.local_cluster.cluster import down, shape, status, up
from jupyter_slurm.local_cluster.gpus import own_gpus
from jupyter_slurm.local_cluster.paths import folder
from jupyter_slurm.local_cluster.profile import profile_path
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
