"""The preview of `--dry-run` as lines for a terminal and HTML for a notebook. No I/O.

All text from users is escaped. The HTML has no colours of its own and no script.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from html import escape

from jupyter_slurm.formatting import duration, moment, visible
from jupyter_slurm.views.card import marked_up
from jupyter_slurm.wire import Check, Cost, Preview

MARKS = {True: "✔", False: "✖", None: "·"}
"""The marks for checks, by `Check.ok`."""

_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:2px 0 2px 1.5em"


def preview_lines(preview: Preview) -> Iterator[str]:
    """Yield the cost, Slurm's estimate of the start, the checks, and the environment variables."""
    if preview.cost is not None:
        yield cost_text(preview.cost)
    if preview.start_estimate_s is not None:
        yield _start(preview.start_estimate_s)
    for check in preview.checks:
        yield from map(visible, check_text(check).split("\n"))
    if preview.variables:
        yield visible(_variables(preview))


def check_text(check: Check) -> str:
    """Return a line for the check, and another for its hint."""
    hint = f"\n    {check.hint}" if check.hint else ""
    return f"{MARKS[check.ok]} {check.sentence}{hint}"


def preview_html(preview: Preview) -> str:
    """Return the preview as HTML, with the script and the sbatch command in a folded section."""
    told = "".join(f"<div>{line}</div>" for line in _html_lines(preview))
    files = ", ".join(preview.files)
    where = f"Cluster {preview.cluster}, job dir {preview.job_dir}. Files: {files}."
    script = f"$ {shlex.join(preview.sbatch)}\n\n{preview.script}"
    summary = "<summary>Script and sbatch command</summary>"
    return (
        f"{told}<details>{summary}<div>{escape(where)}</div>"
        f'<pre style="{_PRE}">{escape(script)}</pre></details>'
    )


def _html_lines(preview: Preview) -> Iterator[str]:
    if preview.cost is not None:
        yield f"<b>{escape(cost_text(preview.cost))}</b>"
    if preview.start_estimate_s is not None:
        yield escape(_start(preview.start_estimate_s))
    for check in preview.checks:
        told = marked_up(check.hint) if check.hint else ""
        hint = f'<br><span style="opacity:.75">{told}</span>' if told else ""
        yield f"{MARKS[check.ok]} {marked_up(check.sentence)}{hint}"
    if preview.variables:
        yield escape(_variables(preview))


def _start(start_s: float) -> str:
    return f"Slurm expects it to start at {moment(start_s, time.time())}."


def _variables(preview: Preview) -> str:
    names = ", ".join(preview.variables)
    return f"The job gets {names} in its environment, from a file that only you can read."


def cost_text(cost: Cost) -> str:
    """Return the cost in one sentence.

    >>> cost_text(Cost(limit_s=3600, node_hours=1, cpu_hours=24, gpu_hours=2, units=36, unit="UA"))
    'Up to 36 UA in 1 h: 1 node-hour, 24 CPU-hours, 2 GPU-hours'
    """
    used = []
    if cost.node_hours:
        used.append(_hours(cost.node_hours, "node"))
    if cost.cpu_hours:
        used.append(_hours(cost.cpu_hours, "CPU"))
    if cost.gpu_hours:
        used.append(_hours(cost.gpu_hours, "GPU"))
    each = f" for each of {cost.jobs:,} jobs" if cost.jobs > 1 else ""
    span = f"in {duration(cost.limit_s)}{each}"
    if cost.units is None:
        return f"Up to {', '.join(used)} {span}"
    charged = f"{number(cost.units)} {cost.unit}".rstrip()
    return f"Up to {charged} {span}: {', '.join(used)}"


def _hours(value: float, of: str) -> str:
    hours = number(value)
    return f"{hours} {of}-hour{'' if hours == '1' else 's'}"


def number(value: float) -> str:
    """Return the number with at most two decimals.

    >>> number(36.0), number(0.25), number(12345.6)
    ('36', '0.25', '12,346')
    """
    text = f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
    return text if text != "0" or not value else "less than 0.01"
