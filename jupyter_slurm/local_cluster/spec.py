"""The values of a private cluster: its requested shape and its status. No I/O except
`os.sysconf`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.formatting import counted

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
GPU_TYPE_CHARACTERS = "A-Za-z0-9_.-"
_GPU_TYPE = re.compile(f"[A-Za-z0-9][{GPU_TYPE_CHARACTERS}]{{0,63}}")


def machine_cpus() -> int:
    """Return the number of CPUs of a simulated node: this machine's number, but at least 4, for
    several jobs at once."""
    return max(4, os.cpu_count() or 1)


def machine_memory_mib() -> int:
    """Return the machine's memory in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


@dataclass(frozen=True)
class Gpu:
    """A GPU of a node. `index` is its index in nvidia-smi."""

    index: int
    type: str


@dataclass(frozen=True)
class LocalSpec:
    """The shape of a private cluster. `cpus`, `memory_mib` and `gpus` are per node. All nodes are
    this machine, and together may claim more than it has. `gpus` are simulated: jobs get
    CUDA_VISIBLE_DEVICES but no device. `own_gpus` are this machine's, found by `gpus.own_gpus`;
    they replace simulated GPUs and are all on the first node. `runtime` is the container tool of
    the cluster's profile. `extra_conf` has lines for the end of slurm.conf, which override ours.
    """

    name: str = "local"
    nodes: int = 1
    gpus: int = 2
    gpu_type: str = "a100"
    cpus: int = field(default_factory=machine_cpus)
    memory_mib: int = field(default_factory=machine_memory_mib)
    runtime: str = "charliecloud"
    extra_conf: tuple[str, ...] = ()
    own_gpus: tuple[Gpu, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        for kind in (self.gpu_type, *(gpu.type for gpu in self.own_gpus)):
            if _GPU_TYPE.fullmatch(kind):
                continue
            raise ConfigError(
                f"{kind!r} is not a valid GPU type.",
                hint="Use letters, digits, '_', '.' and '-', with a letter or digit first.",
            )
        for what, number, least, most in (
            ("nodes", self.nodes, 1, 64),
            ("gpus", self.gpus, 0, 64),
            ("cpus", self.cpus, 1, 4096),
            ("memory_mib", self.memory_mib, 64, 2**30),
        ):
            if not least <= number <= most:
                raise ConfigError(
                    f"{what}={number} is out of range.",
                    hint=f"Choose a number from {least} to {most}.",
                )
        if any("\n" in line for line in self.extra_conf):
            raise ConfigError("A line of extra_conf has a line break.", hint="Pass two lines.")

    def node_names(self) -> tuple[str, ...]:
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))

    def gpus_of(self, node: str) -> tuple[Gpu, ...]:
        """Return the GPUs of a node, grouped by type, as Slurm requires and numbers them."""
        if self.own_gpus:
            types = list(dict.fromkeys(gpu.type for gpu in self.own_gpus))
            ordered = sorted(self.own_gpus, key=lambda gpu: types.index(gpu.type))
            return tuple(ordered) if node == self.node_names()[0] else ()
        return tuple(Gpu(index, self.gpu_type) for index in range(self.gpus))

    def gpus_text(self) -> str:
        """Return a phrase about the GPUs; "" without GPUs."""
        if not self.own_gpus:
            told = f"{counted(self.gpus, 'simulated GPU')} ({self.gpu_type})"
            return told if self.gpus else ""
        kinds = ", ".join(dict.fromkeys(gpu.type for gpu in self.own_gpus))
        own = f"{counted(len(self.own_gpus), 'GPU')} of this machine ({kinds})"
        return f"{own} on {self.node_names()[0]}" if self.nodes > 1 else own


def check_name(name: str) -> None:
    """Raise ConfigError unless `name` is valid for a folder, a Slurm cluster and a file."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a valid name of a private cluster.",
            hint="Use up to 32 lower-case letters, digits, '_' and '-', with a letter first.",
        )


@dataclass(frozen=True)
class DaemonStatus:
    """A daemon of a private cluster. Only slurmd has a `node`. `port` is None for daemons without a
    port."""

    program: Literal["munged", "slurmctld", "slurmd"]
    node: str | None
    pid: int | None
    port: int | None

    @property
    def running(self) -> bool:
        return self.pid is not None


@dataclass(frozen=True)
class LocalStatus:
    """The status of a private cluster: its shape, its files and its daemons."""

    spec: LocalSpec
    folder: Path
    conf: Path
    version: str
    daemons: tuple[DaemonStatus, ...]

    @property
    def running(self) -> bool:
        """Return whether all daemons are running."""
        return all(daemon.running for daemon in self.daemons)

    @property
    def stopped(self) -> bool:
        """Return whether all daemons are stopped."""
        return not any(daemon.running for daemon in self.daemons)
