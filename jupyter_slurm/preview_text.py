"""PURE: what a job would cost and meet, as lines (`--dry-run`), for notebook and terminal alike."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from jupyter_slurm.readable import duration, visible
from jupyter_slurm.wire import Cost, Preview

MARKS = {True: "✔", False: "✖", None: "·"}
"""Before a sentence of `Check`, by its `ok`."""

_LONGEST_WORD = 60


def preview_lines(preview: Preview) -> Iterator[str]:
    """What it costs, what speaks against it, what is free, and what would be started."""
    if preview.cost is not None:
        yield cost_text(preview.cost)
    for check in preview.checks:
        yield f"{MARKS[check.ok]} {visible(check.sentence)}"
        if check.hint:
            yield f"    {visible(check.hint)}"
    if preview.command:
        yield f"Starts: {command_text(preview.command)}"


def cost_text(cost: Cost) -> str:
    """One sentence.

    >>> cost_text(Cost(limit_s=3600, node_hours=1, cpu_hours=24, gpu_hours=2, units=36, unit="UA"))
    'At most 36 UA, in 1 h: 1 node-hour, 24 CPU-hours, 2 GPU-hours.'
    """
    charged = [] if cost.units is None else [f"{_number(cost.units)} {cost.unit}".rstrip()]
    if cost.billing_hours is not None:
        charged.append(f"{_number(cost.billing_hours)} billing-hours")
    used = [
        f"{_number(hours)} {what}-hour{'' if hours == 1 else 's'}"
        for what, hours in (
            ("node", cost.node_hours),
            ("CPU", cost.cpu_hours),
            ("GPU", cost.gpu_hours),
        )
        if hours
    ]
    jobs = f" for each of {cost.jobs:,} jobs" if cost.jobs > 1 else ""
    most = f"At most {' or '.join(charged)}, in" if charged else "At most, in"
    return f"{most} {duration(cost.limit_s)}{jobs}: {', '.join(used)}."


def command_text(command: tuple[str, ...]) -> str:
    """As one would type it; of a word that is a program itself, its beginning."""
    return " ".join(shlex.quote(_short(word)) for word in command)


def _short(word: str) -> str:
    line = word.strip().partition("\n")[0]
    return line if line == word else f"{line[:_LONGEST_WORD]} …"


def _number(value: float) -> str:
    """With as many digits as anybody wants to read.

    >>> _number(36.0), _number(0.25), _number(12345.6)
    ('36', '0.25', '12,346')
    """
    text = f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
    return text if text != "0" or not value else "less than 0.01"
