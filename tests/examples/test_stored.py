"""The stored notebooks: without outputs, and with existing commands and options."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_slurm.commands.arguments import find, read_arguments
from jupyter_slurm.commands.image_line import parse_image
from jupyter_slurm.commands.line import parse
from jupyter_slurm.commands.parsing import split
from jupyter_slurm.commands.submitting import IMAGE_CELL
from jupyter_slurm.profiles import templates
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.slurm.options import OPTIONS
from tests.examples.reading import EXAMPLES

GUIDES = templates.names()
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells(path: Path) -> list[Any]:
    return [one for one in nbformat.read(path, as_version=4).cells if one.cell_type == "code"]


def test_each_guide_has_a_notebook() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"quickstart", "many-nodes", "sweep", *GUIDES}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_valid_and_has_neither_outputs_nor_unknown_options(path: Path) -> None:
    nbformat.validate(json.loads(path.read_text(encoding="utf-8")))
    assert cells(path)
    for cell in cells(path):
        assert (cell.outputs, cell.execution_count) == ([], None)
        first, _, rest = cell.source.partition("\n")
        magic, *words = split(re.sub(r"\{\w+\}", "variable", first))
        if magic in {"%%slurm", "%%sbatch"}:
            assert set(parse(words).options) <= set(OPTIONS)
            assert set(read_directives(rest)) <= set(OPTIONS)
        if magic == "%%slurm_image":
            parse_image(IMAGE_CELL, read_arguments(IMAGE_CELL, words))
        for line in cell.source.splitlines():
            if line.startswith("%slurm "):
                find(split(line)[1:], "notebook")


def test_quickstart_needs_only_the_package() -> None:
    here = [one.source for one in cells(EXAMPLES / "quickstart.ipynb") if one.source[0] != "%"]
    nodes = [node for source in here for node in ast.walk(ast.parse(source))]
    assert not [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    assert names
    assert set(names) <= sys.stdlib_module_names
