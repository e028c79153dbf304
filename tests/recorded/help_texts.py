"""The help text of each command of `jupyter slurm` and of each magic, for `help.txt`.

Run `python -m tests.recorded.help_texts`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from unittest.mock import patch

from jupyter_slurm.cli import main
from jupyter_slurm.commands import arguments
from jupyter_slurm.magics import manual

FILE = Path(__file__).with_name("help.txt")


def commands() -> list[list[str]]:
    """Return the words of every command. `[]` stands for the program itself."""
    return [[], *(list(command.words) for command in arguments.commands("terminal"))]


def help_of(words: list[str]) -> str:
    said = io.StringIO()
    with redirect_stdout(said), patch.dict(os.environ, COLUMNS="100"), suppress(SystemExit):
        main([*words, "--help"])
    return said.getvalue()


def texts() -> Iterator[tuple[str, str]]:
    """Yield each command and its help text."""
    for words in commands():
        yield " ".join(["jupyter slurm", *words, "--help"]), help_of(words)
    yield "%slurm?", manual.line_help()
    yield "%%slurm?", manual.cell_help()
    yield "%%sbatch?", manual.script_help()
    yield "%%slurm_image?", manual.image_help()
    yield "%squeue?", manual.command_help("squeue")


def whole() -> str:
    return "".join(f"==> {typed} <==\n{text.rstrip()}\n\n" for typed, text in texts())


if __name__ == "__main__":
    FILE.write_text(whole(), encoding="utf-8")
