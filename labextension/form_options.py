"""Printer of the options with fields in the form, for submit/options.ts (see wire.mjs)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import MappingProxyType

from jupyter_slurm.commands.arguments import of_cells
from jupyter_slurm.commands.command import Command
from jupyter_slurm.commands.submitting import CELL, KERNEL_ADD, LAB_START, SUBMIT
from jupyter_slurm.commands.table import FORM
from jupyter_slurm.slurm.options import OPTIONS

_COMMANDS: Mapping[str, Command] = MappingProxyType(
    {"code": SUBMIT, "file": SUBMIT, "cell": CELL, "lab": LAB_START, "kernel": KERNEL_ADD}
)
"""Commands by the kind of the form's source (`Source` in source.ts)."""
_SAME = {"name": "job-name"}
"""Names of sbatch's options, by our options with the same meaning."""


def main() -> None:
    sys.stdout.write(json.dumps([_form_option(name) for name in FORM]))


def _form_option(name: str) -> dict[str, object]:
    of = [command for command in (CELL, *_COMMANDS.values()) if name in command.options]
    theirs = OPTIONS.get(_SAME.get(name, name) if of else name)
    words = [f"--{name}"]
    if theirs is not None:
        words += [f"--{theirs.name}"] if theirs.name != name else []
        words += [f"-{theirs.short}"] if theirs.short else []
    ours = of[0].options[name] if of else None
    found: dict[str, object] = {
        "name": name,
        "words": words,
        "kinds": [kind for kind, command in _COMMANDS.items() if _has(command, name)],
        "help": OPTIONS[name].help if ours is None else ours.help,
    }
    if ours is not None and "|" in ours.metavar:
        found["choices"] = ours.metavar.split("|")
    return found


def _has(command: Command, name: str) -> bool:
    if name in OPTIONS and name not in CELL.options:
        # Labs and kernels have no script, so options that need a script do not apply.
        needs_text = OPTIONS[name].not_in_cell is not None or name == "array"
        return not needs_text or command not in (LAB_START, KERNEL_ADD)
    return name in command.options or name in of_cells(command)


if __name__ == "__main__":
    main()
