"""Resource usage of a job: in total, and over time."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["GpuSample", "Usage", "UsageSample"]


class Usage(Struct, frozen=True, kw_only=True):
    """Used and allocated resources; None if not measured."""

    elapsed_s: float | None = None
    cpu_s: float | None = None
    cpus: int | None = None
    peak_memory_mib: float | None = None
    memory_mib: float | None = None
    """The requested memory in MiB."""
    gpus: int | None = None

    @property
    def cpu_efficiency(self) -> float | None:
        """Return the used share of the allocated CPU seconds, 0 to 1."""
        if not (self.cpu_s and self.cpus and self.elapsed_s):
            return None
        return min(1.0, self.cpu_s / (self.cpus * self.elapsed_s))


class GpuSample(Struct, frozen=True, kw_only=True):
    name: str
    utilisation: float | None
    """The load, 0 to 1; None if not reported, e.g. for a GPU instance (MIG)."""
    memory_mib: float | None
    """The memory in use. It and the total are None if not reported, e.g. for a GPU that shares the
    machine's memory."""
    memory_total_mib: float | None


class UsageSample(Struct, frozen=True, kw_only=True):
    """Usage at a moment, on one node of a job."""

    time_s: float
    cpus: float
    """The mean number of busy cores since the previous sample."""
    memory_mib: float
    gpus: tuple[GpuSample, ...] = ()
    node: str = ""
    """The node's name; "" for all nodes of the job together, as Slurm samples them."""
