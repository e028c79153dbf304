"""What a job used: in all, and at a moment."""

from __future__ import annotations

from msgspec import Struct


class Usage(Struct, frozen=True, kw_only=True):
    """What a job used, against what it had; None where nobody measured."""

    elapsed_s: float | None = None
    cpu_s: float | None = None
    cpus: int | None = None
    peak_memory_mib: float | None = None
    memory_mib: float | None = None
    """What it had asked for."""
    gpus: int | None = None

    @property
    def cpu_efficiency(self) -> float | None:
        """CPU seconds used, of those held: 0 to 1."""
        if not (self.cpu_s and self.cpus and self.elapsed_s):
            return None
        return min(1.0, self.cpu_s / (self.cpus * self.elapsed_s))


class GpuSample(Struct, frozen=True, kw_only=True):
    name: str
    utilisation: float | None
    """0 to 1; None: it does not say, as parts of a GPU (MIG) do not."""
    memory_mib: float | None
    """None, both: it does not say, as one that shares the machine's memory does not."""
    memory_total_mib: float | None


class UsageSample(Struct, frozen=True, kw_only=True):
    """What a job used at a moment, on its first node."""

    time_s: float
    cpus: float
    """Cores kept busy since the sample before."""
    memory_mib: float
    gpus: tuple[GpuSample, ...] = ()
