"""Medians, and the tables that benchmarks print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement and its reference. `target` limits `value / against`. It is None if the
    reference is a lower bound that equivalent work cannot reach."""

    what: str
    value: float
    against_what: str
    against: float
    target: float | None
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.value / self.against

    @property
    def ok(self) -> bool:
        return self.target is None or self.ratio <= self.target

    def cells(self) -> tuple[str, ...]:
        target = "floor" if self.target is None else f"<= {self.target:g}"
        verdict = "" if self.target is None else "ok" if self.ok else "TOO SLOW"
        return (
            self.what,
            f"{self.value:.3f} {self.unit}",
            self.against_what,
            f"{self.against:.3f} {self.unit}",
            f"{self.ratio:.2f}",
            target,
            verdict,
        )


HEAD = ("what", "takes", "against", "takes", "ratio", "target", "")


def show(title: str, lines: Sequence[Sequence[str]]) -> None:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    sys.stdout.write(f"\n{title}\n")
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  " + "  ".join(cells).rstrip() + "\n")
    sys.stdout.flush()


def spread(values: Sequence[float]) -> str:
    """Return the median, minimum and maximum, since a ratio hides them."""
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"
