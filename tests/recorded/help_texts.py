"""Collect the help text of each command of `jupyter slurm` and of each magic, for `help.txt`.

`python -m tests.recorded.help_texts` writes that file anew.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jupyter_slurm.cli import main
from jupyter_slurm.cli.parser import parse
from jupyter_slurm.magics import manual

FILE = Path(__file__).with_name("help.txt")


def commands() -> list[list[str]]:
    """Return the words of every command that argparse knows, `[]` for the program itself."""
    made: list[argparse.ArgumentParser] = []
    begin = argparse.ArgumentParser.__init__

    def note(parser: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
        begin(parser, *args, **options)
        made.append(parser)

    noting = patch.object(argparse.ArgumentParser, "__init__", note)
    with noting, redirect_stdout(io.StringIO()), suppress(SystemExit):
        parse(["--help"])
    return [parser.prog.split()[2:] for parser in made]


def help_of(words: list[str]) -> str:
    said = io.StringIO()
    with redirect_stdout(said), patch.dict(os.environ, COLUMNS="100"), suppress(SystemExit):
        main([*words, "--help"])
    return said.getvalue()


def texts() -> Iterator[tuple[str, str]]:
    """Yield what a user types, and the text that is shown."""
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
