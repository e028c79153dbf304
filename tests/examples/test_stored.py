"""The notebooks as they are stored: without outputs, and with words that exist."""

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
from jupyter_slurm.commands.line import parse, split
from jupyter_slurm.commands.submitting import IMAGE_CELL
from jupyter_slurm.profiles import templates
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.slurm.options import OPTIONS
from tests.examples.reading import EXAMPLES

GUIDES = templates.names()
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells(path: Path) -> list[Any]:
    return [one for one in nbformat.read(path, as_version=4).cells if one.cell_type == "code"]


def test_there_is_one_for_each_guide() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"quickstart", "many-nodes", *GUIDES}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_outputs_and_fits_its_format(path: Path) -> None:
    nbformat.validate(json.loads(path.read_text(encoding="utf-8")))
    found = cells(path)
    assert found
    assert all(cell.outputs == [] and cell.execution_count is None for cell in found)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_names_only_options_and_words_that_exist(path: Path) -> None:
    for cell in cells(path):
        first, _, rest = cell.source.partition("\n")
        magic, *words = split(re.sub(r"\{\w+\}", "variable", first))
        if magic in {"%%slurm", "%%sbatch"}:
            asked = parse(words)
            assert set(asked.options) <= set(OPTIONS)
            assert set(read_directives(rest)) <= set(OPTIONS)
        if magic == "%%slurm_image":
            parse_image(IMAGE_CELL, read_arguments(IMAGE_CELL, words))
        for line in cell.source.splitlines():
            if line.startswith("%slurm "):
                find(split(line)[1:], "notebook")


def test_the_quickstart_needs_nothing_here_but_the_package() -> None:
    here = [one.source for one in cells(EXAMPLES / "quickstart.ipynb") if one.source[0] != "%"]
    nodes = [node for source in here for node in ast.walk(ast.parse(source))]
    assert not [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    assert names
    assert set(names) <= sys.stdlib_module_names


@pytest.mark.parametrize("name", GUIDES)
def test_it_says_first_how_its_cluster_is_set_up(name: str) -> None:
    first = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4).cells[0].source
    assert f"jupyter slurm clusters add {name} --template {name}" in first
