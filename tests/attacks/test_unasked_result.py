"""A forged result that is signed with the job's key. Only requested variables are unpickled."""

# ruff: noqa: F811 - fixtures are imported, and then named as arguments

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import SignatureError, VariableError
from jupyter_slurm.job import read_result_variables
from jupyter_slurm.jobs import layout
from jupyter_slurm.variables import write_variables
from tests.jobs.conftest import Site, site, way  # noqa: F401 - fixtures


class Bomb:
    """Object that creates the file `mark` when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.mark),)


def plant(folder: Path, values: dict[str, object]) -> None:
    """Replace the result with a correctly signed forgery, as any user with access to the folder
    can."""
    key = (folder / layout.KEY).read_bytes()
    write_variables(folder / "vars.0", list(values), values)
    result = json.loads((folder / "result.0.json").read_bytes().partition(b"\n")[2])
    result |= {"status": "ok", "exit_code": 0, "ename": None, "evalue": None}
    result["variables"] = {
        "file": "vars.0",
        "bytes": 1,
        "hmac": hmac.new(key, (folder / "vars.0").read_bytes(), hashlib.sha256).hexdigest(),
        "names": list(values),
        "failed": {},
    }
    body = json.dumps(result).encode("ascii") + b"\n"
    signature = hmac.new(key, body, hashlib.sha256).hexdigest().encode("ascii")
    (folder / "result.0.json").write_bytes(signature + b"\n" + body)


def test_unrequested_value_is_not_fetched(site: Site, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    job = site.run("x = 1", names_out=("x",))
    plant(Path(job.job_dir), {"get_ipython": Bomb(mark)})
    with pytest.raises(SignatureError, match="get_ipython"):
        read_result_variables(site.service.result(job.id))
    assert not mark.exists()
    assert not list((tmp_path / "data").rglob("*.fetched*"))


def test_unsigned_file_is_not_unpickled(site: Site, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    job = site.run("x = 1", names_out=("x",))
    write_variables(Path(job.job_dir) / "vars.0", ["x"], {"x": Bomb(mark)})
    with pytest.raises(SignatureError):
        read_result_variables(site.service.result(job.id))
    assert not mark.exists()


def test_out_format_data_does_not_read_pickles(
    site: Site,
    tmp_path: Path,
) -> None:
    mark = tmp_path / "mark"
    job = site.run("x = 1", names_out=("x",), out_format="data")
    assert read_result_variables(site.service.result(job.id)) == {"x": 1}
    plant(Path(job.job_dir), {"x": Bomb(mark)})
    with pytest.raises(VariableError, match="not a complete file of variables"):
        read_result_variables(site.service.result(job.id))
    assert not mark.exists()
