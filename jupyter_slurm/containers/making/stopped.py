"""Find the line of a recipe at which a tool stopped, by the last that its log shows. PURE text.

Tried with Docker 28 (classic builder), ch-image 0.31 and Apptainer 1.4, which has a shell trace
`%post`, as lines of packages do with enroot; BuildKit and podman by their sources.
"""

from __future__ import annotations

import re

from jupyter_slurm.containers.failures import uncoloured

_LINES = re.compile(
    r"^Step \d+/\d+ : (?P<docker>.+)$"
    r"|^STEP \d+(?:/\d+)?: (?P<podman>.+)$"
    r"|^ *> \[.*\d+/\d+\] (?P<buildkit>.+):$"
    r"|^ +\d+\.? {1,2}(?P<word>[A-Z]+)(?:\.[A-Z])? (?P<rest>.+)$"
    r"|^\+ (?P<traced>.+)$",
    re.MULTILINE,
)


def stopped_at(log_tail: str) -> str | None:
    """Return the last line of the recipe that the log shows; None: it shows none."""
    found = list(_LINES.finditer(uncoloured(log_tail)))
    if not found:
        return None
    last = found[-1]
    return f"{last['word']} {last['rest']}" if last["word"] else str(last[last.lastgroup or 0])
