"""Notebooks run in a terminal by `examples/execute.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from tests.examples.reading import EXAMPLES


def test_failing_cell_fails_the_run_unless_tagged(tmp_path: Path) -> None:
    tagged = new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]})
    cells = [tagged, new_code_cell("open('/no/such/file')")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "a.ipynb")
    argv = [sys.executable, str(EXAMPLES / "execute.py"), "a.ipynb", "b.ipynb"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "failed on purpose: ZeroDivisionError" in done.stdout
    assert "failed: FileNotFoundError" in done.stdout
