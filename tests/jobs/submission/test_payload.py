"""The files sent with a job."""

from __future__ import annotations

import ast
import io
import sys
import zipfile

import pytest

from jupyter_slurm.errors import VariableError
from jupyter_slurm.jobs.submission import payload


def test_runners_files_are_python_3_6_and_import_only_each_other_and_the_standard_library() -> None:
    files = payload.runner_files()
    assert "runner.py" in files
    ours = {name.removesuffix(".py") for name in files}
    # Imported only after the cell imports them, if the image has them; engines, too.
    known = {*sys.stdlib_module_names, *ours, "IPython", "matplotlib", "traitlets"}
    known |= {"numpy", "polars", "pyarrow"}
    known |= {"ray", "dask", "distributed"}
    for name, text in files.items():
        tree = ast.parse(text, name, feature_version=(3, 6))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {alias.name.partition(".")[0] for alias in node.names} <= known
            elif isinstance(node, ast.ImportFrom):
                assert node.module is not None
                assert node.module.partition(".")[0] in known


def test_cloudpickle_is_sent_with_its_licence() -> None:
    data = payload.cloudpickle_zip()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        assert "cloudpickle/__init__.py" in names
        assert "cloudpickle/cloudpickle.py" in names
        assert any("licen" in name.lower() for name in names)
        assert all(name.startswith("cloudpickle/") for name in names)
        assert archive.testzip() is None
    assert payload.cloudpickle_zip() is data


def test_existing_names_are_accepted() -> None:
    payload.check_names(["data", "größe"], {"data": 1, "größe": None})


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("dat", "There is no variable 'dat' in this notebook.\nDid you mean 'data'?"),
        ("zip", "There is no variable 'zip' in this notebook.\nRun the cell that sets it first."),
        ("zzz", "There is no variable 'zzz' in this notebook.\nRun the cell that sets it first."),
        ("a b", "'a b' is not a variable name.\n"),
        ("class", "'class' is not a variable name."),
        ("", "'' is not a variable name."),
    ],
)
def test_missing_name_suggests_the_nearest(name: str, sentence: str) -> None:
    with pytest.raises(VariableError) as caught:
        payload.check_names([name], {"data": 1, "zipfile": zipfile})
    assert sentence in str(caught.value)


def test_code_for_another_python_version_is_rejected() -> None:
    with pytest.raises(VariableError, match=r"by Python 3\.11\. The cell runs in Python 3\.8"):
        payload.check_python(True, (3, 11), (3, 8))
