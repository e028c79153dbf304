"""The notebook that a command line runs. tests/server/test_kernels.py tests notebooks of
servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.magics.notebook_name import told_to_run


@pytest.mark.parametrize(
    ("line", "notebook"),
    [
        ("python /venv/bin/jupyter-nbconvert --execute a.ipynb", "/ada/a.ipynb"),
        ("python -m nbconvert --to notebook --output b.ipynb --execute ../a.ipynb", "/a.ipynb"),
        ("python -m nbconvert a.ipynb b.ipynb", None),
        ("python /venv/bin/jupyter-execute /x/a.ipynb", "/x/a.ipynb"),
        ("python /venv/bin/papermill a.ipynb out/b.ipynb -p lr 1", "/ada/out/b.ipynb"),
        ("python /venv/bin/jupyter-lab a.ipynb", None),
        ("python -m pytest a.ipynb", None),
    ],
)
def test_command_line_names_the_notebook(line: str, notebook: str | None) -> None:
    assert told_to_run(line.split(), Path("/ada")) == notebook
