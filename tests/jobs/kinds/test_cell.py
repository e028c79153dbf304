"""The files sent with a cell."""

from __future__ import annotations

import ast
import io
import sys
import zipfile

from jupyter_slurm.jobs.kinds.cell import cloudpickle_zip
from jupyter_slurm.jobs.kinds.kind import node_files


def test_runner_files_support_python_3_6_and_need_only_the_standard_library() -> None:
    files = node_files("runner")
    assert "runner.py" in files
    ours = {name.removesuffix(".py") for name in files}
    # They are imported only after the cell imports them, if the image has them. This includes
    # engines.
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
    data = cloudpickle_zip()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        assert "cloudpickle/__init__.py" in names
        assert "cloudpickle/cloudpickle.py" in names
        assert any("licen" in name.lower() for name in names)
        assert all(name.startswith("cloudpickle/") for name in names)
        assert archive.testzip() is None
    assert cloudpickle_zip() is data
