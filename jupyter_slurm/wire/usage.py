"""A job's use of resources: in all, and at a moment."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["GpuSample", "Usage", "UsageSample"]


class Usage(Struct, frozen=True, kw_only=True):
    """What a job used, against what it had; None where nobody measured."""

    elapsed_s: float | None = None
    cpu_s: float | None = None
    cpus: int | None = None
    peak_memory_mib: float | None = None
    memory_mib: float | None = None
    """The memory that it asked for."""
    gpus: int | None = None

    @property
    def cpu_efficiency(self) -> float | None:
        """Return the share of the held CPU seconds that were used, 0 to 1."""
        if not (self.cpu_s and self.cpus and self.elapsed_s):
            return None
        return min(1.0, self.cpu_s / (self.cpus * self.elapsed_s))


class GpuSample(Struct, frozen=True, kw_only=True):
    name: str
    utilisation: float | None
    """0 to 1; None: not reported, as for parts of a GPU (MIG)."""
    memory_mib: float | None
    """None, both: not reported, as for a GPU that shares the machine's memory."""
    memory_total_mib: float | None


class UsageSample(Struct, frozen=True, kw_only=True):
    """What a job used at a moment, on one of its nodes."""

    time_s: float
    cpus: float
    """The number of cores kept busy since the sample before."""
    memory_mib: float
    gpus: tuple[GpuSample, ...] = ()
    node: str = ""
    """The node's name. "": these are all of the job's nodes together, as Slurm samples them."""
