"""Slurm's configuration files as text. No I/O.

The options are from slurm.conf(5), gres.conf(5) and cgroup.conf(5), 20.11 to 24.11.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from jupyter_slurm.local_cluster.paths import Paths
from jupyter_slurm.local_cluster.spec import LocalSpec


@dataclass(frozen=True)
class Ports:
    """The TCP ports of a cluster, all on 127.0.0.1. `slurmd` has a port per node."""

    slurmctld: int
    slurmd: tuple[int, ...]

    def all(self) -> tuple[int, ...]:
        return (self.slurmctld, *self.slurmd)


@dataclass(frozen=True)
class Setting:
    """The values on which a configuration depends, besides the cluster's shape."""

    host: str
    user: str
    paths: Paths
    ports: Ports
    version: tuple[int, int]
    plugins: str | None = None


def slurm_conf(spec: LocalSpec, at: Setting) -> str:
    """Return slurm.conf, tuned for jobs that start and end quickly."""
    lines = [
        *_control(spec, at),
        *_scheduling(),
        *_jobs(),
        *([f"TaskProlog={at.paths.task_prolog}"] if spec.own_gpus else []),
        *_nodes(spec, at),
        *_partitions(),
        *spec.extra_conf,
    ]
    return "\n".join(lines) + "\n"


def _control(spec: LocalSpec, at: Setting) -> list[str]:
    paths = at.paths
    return [
        f"ClusterName={spec.name}",
        f"SlurmctldHost={at.host}(127.0.0.1)",
        f"SlurmctldPort={at.ports.slurmctld}",
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
        f"SlurmUser={at.user}",
        f"SlurmdUser={at.user}",
        # cred_expire is the delay before a requeued job can start again (default 120 s).
        f"AuthInfo=socket={paths.munge_socket},cred_expire=5",
        f"StateSaveLocation={paths.state}",
        f"SlurmdSpoolDir={paths.spool('%n')}",
        # The nodes share this machine's /tmp, where PMIx names its files after the step.
        f"TmpFS={paths.spool('%n')}",
        f"SlurmctldPidFile={paths.base}/run/slurmctld.pid",
        f"SlurmdPidFile={paths.base}/run/slurmd-%n.pid",
        f"SlurmdLogFile={paths.base}/log/slurmd-%n.log",
        f"SlurmctldLogFile={paths.log('slurmctld')}",
        *([f"PluginDir={at.plugins}"] if at.plugins else []),
    ]


def _scheduling() -> list[str]:
    return [
        "SchedulerType=sched/backfill",
        # Two loops start batch jobs (_slurmctld_background and backfill), each at most once a
        # second. The median start is 0.35 s after sbatch, the latest 1 s.
        "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "ReturnToService=2",
        "SlurmdTimeout=60",
        # Without this parameter, Slurm drains a node that claims more CPUs or memory than the
        # machine has ("Low CPUs").
        "SlurmdParameters=config_overrides",
    ]


def _jobs() -> list[str]:
    return [
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "PropagateResourceLimits=NONE",
        # Memory limits without cgroups: the gatherer checks every second, and kills jobs above the
        # limit.
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=1",
        "JobAcctGatherParams=OverMemoryKill",
        "JobRequeue=1",
        "MinJobAge=300",
        "KillWait=5",
        "GresTypes=gpu",
        "AccountingStorageType=accounting_storage/none",
    ]


def _nodes(spec: LocalSpec, at: Setting) -> list[str]:
    return [
        f"NodeName={name} NodeHostname={at.host} NodeAddr=127.0.0.1 Port={port} "
        f"CPUs={spec.cpus} RealMemory={spec.memory_mib}{_gres(spec, name)} State=UNKNOWN"
        for name, port in zip(spec.node_names(), at.ports.slurmd, strict=True)
    ] + [f"DefMemPerCPU={max(1, spec.memory_mib // spec.cpus)}"]


def _gres(spec: LocalSpec, node: str) -> str:
    parts = [f"gpu:{kind}:{len(positions)}" for kind, positions in _by_type(spec, node)]
    return f" Gres={','.join(parts)}" if parts else ""


def _by_type(spec: LocalSpec, node: str) -> list[tuple[str, list[int]]]:
    """Return the GPU types of a node, and their positions in `spec.gpus_of`."""
    ordered = groupby(enumerate(spec.gpus_of(node)), key=lambda pair: pair[1].type)
    return [(kind, [position for position, _ in pairs]) for kind, pairs in ordered]


def _partitions() -> list[str]:
    return [
        "PartitionName=debug Nodes=ALL Default=YES DefaultTime=01:00:00 MaxTime=1-00:00:00",
        "PartitionName=long Nodes=ALL DefaultTime=01:00:00 MaxTime=7-00:00:00",
        "PartitionName=short Nodes=ALL DefaultTime=00:05:00 MaxTime=00:05:00",
    ]


def gres_conf(spec: LocalSpec, paths: Paths) -> str:
    """Return gres.conf. Slurm sets CUDA_VISIBLE_DEVICES only if `File=` is a character device. Our
    files are links to /dev/null, also for real GPUs: WSL lacks /dev/nvidiaN, and Slurm opens the
    files only to block devices with a cgroup."""
    lines = ["AutoDetect=off"]
    for node in spec.node_names():
        for kind, positions in _by_type(spec, node):
            files = f"{paths.gpu(0)}".removesuffix("0") + f"[{positions[0]}-{positions[-1]}]"
            lines.append(f"NodeName={node} Name=gpu Type={kind} File={files}")
    return "\n".join(lines) + "\n"


def task_prolog(spec: LocalSpec) -> str:
    """Return a TaskProlog (slurm.conf(5)) for a machine's own GPUs, because cgroups do not guard
    them.

    Slurm numbers the GPUs by their position in gres.conf, one type after the other. CUDA numbers
    them as nvidia-smi does if CUDA_DEVICE_ORDER is PCI_BUS_ID. For a job that did not request GPUs,
    the prolog sets CUDA_VISIBLE_DEVICES to "": Slurm would leave it unset, and CUDA would then use
    all GPUs.
    """
    return f"""#!/bin/sh
set -- {" ".join(str(gpu.index) for gpu in spec.gpus_of(spec.node_names()[0]))}
IFS=,
given=
for position in ${{CUDA_VISIBLE_DEVICES-}}; do
  case $position in *[!0-9]*) continue ;; esac
  eval "given=\\$given,\\${{$((position + 1))}}"
done
echo export CUDA_DEVICE_ORDER=PCI_BUS_ID
echo "export CUDA_VISIBLE_DEVICES=${{given#,}}"
"""


def cgroup_conf(version: tuple[int, int]) -> str:
    """Return a cgroup.conf that disables cgroups, which an ordinary user cannot create.

    "disabled" requires Slurm 24.05. Before that, slurmd always loads a plugin. The plugin for
    version 1 does nothing at its start; the plugin for version 2 requires a cgroup. 20.11 has only
    one plugin.
    """
    if version >= (24, 5):
        return "CgroupPlugin=disabled\n"
    return "CgroupPlugin=cgroup/v1\n" if version >= (21, 8) else ""
