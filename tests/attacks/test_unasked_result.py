"""A forged result, signed with the job's key, is unpickled only as far as the user asked for it."""

# ruff: noqa: F811 - fixtures are imported, and then named as arguments

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.errors import SignatureError, VariableError
from jupyter_slurm.job import JobHandle, read_result_variables
from jupyter_slurm.jobs import layout
from jupyter_slurm.jobs.outcome.variables import write_variables
from jupyter_slurm.wire import Job, JobKind
from tests.jobs.conftest import Site, site, spec, way  # noqa: F401 - fixtures


class Bomb:
    """Makes the file `mark` where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.mark),)


def plant(folder: Path, values: dict[str, object], told: list[str] | None = None) -> None:
    """What somebody does who can read and write the job's folder: another result, well signed.

    `told`: the names that the result has for them.
    """
    key = (folder / layout.KEY).read_bytes()
    write_variables(folder / "vars.0", list(values), values)
    result = json.loads((folder / "result.0.json").read_bytes().partition(b"\n")[2])
    result |= {"status": "ok", "exit_code": 0, "ename": None, "evalue": None}
    result["variables"] = {
        "file": "vars.0",
        "bytes": 1,
        "hmac": hmac.new(key, (folder / "vars.0").read_bytes(), hashlib.sha256).hexdigest(),
        "names": list(values) if told is None else told,
        "failed": {},
    }
    body = json.dumps(result).encode("ascii") + b"\n"
    signature = hmac.new(key, body, hashlib.sha256).hexdigest().encode("ascii")
    (folder / "result.0.json").write_bytes(signature + b"\n" + body)


def planted(site: Site, mark: Path, names_out: tuple[str, ...], **changes: Any) -> Job:
    """A job that ended well, and whose result was then forged."""
    job = site.run("x = 1", names_out=names_out, **changes)
    plant(Path(job.job_dir), {"get_ipython": Bomb(mark)})
    return job


@pytest.mark.parametrize("names_out", [(), ("x",)], ids=["nothing was asked for", "x was"])
def test_a_value_that_nobody_asked_for_is_not_fetched(
    site: Site,
    tmp_path: Path,
    names_out: tuple[str, ...],
) -> None:
    mark = tmp_path / "mark"
    job = planted(site, mark, names_out)
    with pytest.raises(SignatureError, match="get_ipython"):
        read_result_variables(site.service.result(job.id))
    assert not mark.exists()
    assert not list((tmp_path / "data").rglob("*.fetched*"))


def test_nor_by_the_handle_or_await(site: Site, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    handle = JobHandle(site.service, planted(site, mark, ()))
    with pytest.raises(SignatureError, match="get_ipython"):
        handle.result()

    async def awaited() -> object:
        return await handle

    with pytest.raises(SignatureError, match="get_ipython"):
        asyncio.run(awaited())
    assert not mark.exists()


def test_nor_from_a_cell_of_a_session(site: Site, tmp_path: Path) -> None:
    session = site.service.submit(spec("", kind=JobKind.SESSION, idle_s=600))
    try:
        mark = tmp_path / "mark"
        job = planted(site, mark, (), session=session.id)
        with pytest.raises(SignatureError, match="get_ipython"):
            read_result_variables(site.service.result(job.id))
        assert not mark.exists()
    finally:
        site.service.cancel(session.id)
        site.wait(session.id)


def test_a_reason_for_a_name_that_nobody_asked_for_is_refused(
    site: Site,
) -> None:
    job = site.run("x = 1", names_out=("x",))
    folder = Path(job.job_dir)
    plant(folder, {"x": 1})
    signed = json.loads((folder / "result.0.json").read_bytes().partition(b"\n")[2])
    signed["variables"]["failed"] = {"click here": "now"}
    body = json.dumps(signed).encode("ascii") + b"\n"
    key = (folder / layout.KEY).read_bytes()
    signature = hmac.new(key, body, hashlib.sha256).hexdigest().encode("ascii")
    (folder / "result.0.json").write_bytes(signature + b"\n" + body)
    with pytest.raises(SignatureError, match="'click here'"):
        site.service.result(job.id)


# --- what the file says of itself ---------------------------------------------------------------


def test_a_file_with_other_names_than_the_result_is_not_unpickled(
    site: Site, tmp_path: Path
) -> None:
    """The result names `x`, as was asked for, and the file another."""
    mark = tmp_path / "mark"
    job = site.run("x = 1", names_out=("x",))
    plant(Path(job.job_dir), {"__builtins__": Bomb(mark)}, ["x"])
    failed: dict[str, str] = {}
    assert read_result_variables(site.service.result(job.id), failed) == {}
    assert list(failed) == ["x"]
    assert not mark.exists()


def test_a_file_that_the_job_has_not_signed_is_not_unpickled(site: Site, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    job = site.run("x = 1", names_out=("x",))
    write_variables(Path(job.job_dir) / "vars.0", ["x"], {"x": Bomb(mark)})
    with pytest.raises(SignatureError):
        read_result_variables(site.service.result(job.id))
    assert not mark.exists()


def test_what_a_result_does_not_mention_is_said_to_be_missing(site: Site) -> None:
    job = site.run("x = 1", names_out=("x",))
    plant(Path(job.job_dir), {})
    found = site.service.result(job.id)
    assert (found.variables, list(found.failed)) == (None, ["x"])


def test_where_data_was_asked_for_a_pickle_of_that_name_is_not_read(
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


def test_what_would_take_a_pickle_is_an_error_that_names_it_and_its_type(
    site: Site,
) -> None:
    cell = "class Model: pass\nmodel, loss = Model(), 0.5"
    job = site.run(cell, names_out=("model", "loss"), out_format="data")
    with pytest.raises(VariableError, match=r"model: it is or holds a __main__\.Model"):
        JobHandle(site.service, job).result()
