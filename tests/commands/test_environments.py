"""The packages that a line requests, and the files that list them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.commands import environments, packages_here
from jupyter_slurm.commands.line import parse, spec, with_local_context
from jupyter_slurm.commands.parsing import split
from jupyter_slurm.errors import JupyterSlurmError, NotFoundError, RequestError
from jupyter_slurm.wire import CellSpec, Environment

SCRIPT = """#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "polars>=1",
#   "torch[opt,x]==2.9 ; sys_platform == 'linux'",
# ]
# ///
import polars
"""
PROJECT = '[project]\nname = "mine"\ndependencies = ["polars>=1", "numpy"]\n'


def asked(line: str) -> Environment:
    found = parse(split(line)).environment
    assert found is not None
    return found


def read(folder: Path, name: str, text: str) -> Environment:
    (folder / name).write_text(text)
    return environments.read(asked(f"--requirements {name}"), folder)


def test_comma_separates_packages_but_not_parts_of_a_package() -> None:
    line = "--with 'polars, numpy>=1,<2,torch[a,b]==2.*,!=2.1' --with polars --with 'x @ git+https://h/x'"
    packages = ("polars", "numpy>=1,<2", "torch[a,b]==2.*,!=2.1", "x @ git+https://h/x")
    assert asked(line) == Environment(packages=packages)
    assert parse([]).environment is None


@pytest.mark.parametrize(
    "line", ["--with ./mine", "--with=-x", "--with-mine --requirements r.txt", "--session --with a"]
)
def test_invalid_requirements_are_rejected(line: str) -> None:
    with pytest.raises(RequestError):
        spec(CellSpec, parse(split(line)), "1", job_id="aaaaaaaa")


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        (
            "r.txt",
            "polars # fast\n\n--index-url https://h\n",
            "polars # fast\n\n--index-url https://h\n",
        ),
        ("pyproject.toml", PROJECT, "polars>=1\nnumpy\n"),
        ("fit.py", SCRIPT, "polars>=1\ntorch[opt,x]==2.9 ; sys_platform == 'linux'\n"),
    ],
)
def test_each_form_of_requirements_file_is_read(
    name: str, text: str, lines: str, tmp_path: Path
) -> None:
    found = read(tmp_path, name, text)
    assert (found.source, found.text, found.file) == ("requirements", lines, str(tmp_path / name))


def test_files_of_uv_and_conda_are_sent_unchanged(tmp_path: Path) -> None:
    assert read(tmp_path, "env.yaml", "dependencies:\n- numpy\n").source == "conda"
    with pytest.raises(NotFoundError):
        read(tmp_path, "uv.lock", "version = 1\n")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    found = read(tmp_path, "uv.lock", "version = 1\n")
    assert (found.source, found.text, found.project) == ("uv.lock", "version = 1\n", PROJECT)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.txt", "-r base.txt"),
        ("r.txt", "numpy\n  -e ."),
        ("r.txt", "./wheels/a-1-py3-none-any.whl"),
        ("r.txt", "mine @ file:///home/ada/mine"),
        ("pyproject.toml", "[tool.poetry]"),
        ("pyproject.toml", "dependencies = ["),
        ("fit.py", "import polars"),
        ("Pipfile", ""),
    ],
)
def test_unusable_file_is_rejected(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as refused:
        read(tmp_path, name, text)
    assert refused.value.option == "requirements"
    assert str(tmp_path / name) in refused.value.message


def test_job_contains_the_requirements_file_beside_its_notebook(tmp_path: Path) -> None:
    with pytest.raises(JupyterSlurmError):
        with_local_context(
            spec(CellSpec, parse(["--requirements", "r.txt"]), "1", job_id="aaaaaaaa"), tmp_path
        )
    (tmp_path / "r.txt").write_text("polars")
    made = spec(CellSpec, parse(["--requirements", "r.txt"]), "1", job_id="aaaaaaaa")
    told = with_local_context(made, tmp_path).environment
    assert told == Environment(file=str(tmp_path / "r.txt"), text="polars\n")


@pytest.mark.parametrize(
    ("here", "source", "text"),
    [
        (packages_here.Here(("a==1", "B==2"), left_out=("mine",)), "requirements", "a==1\nB==2\n"),
        (
            packages_here.Here(("a==1",), ("scipy=1.11",), ("mine",), "3.11"),
            "conda",
            "dependencies:\n- python=3.11\n- scipy=1.11\n- pip\n- pip:\n  - a==1\n",
        ),
    ],
)
def test_with_mine_option_uses_the_packages_and_tool_of_this_python(
    here: packages_here.Here, source: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages_here, "read", lambda: here)
    found = environments.read(asked("--with-mine --with more"), Path("/"))
    assert (found.source, found.text, found.left_out) == (source, text, ("mine",))
    assert found.packages == ("more",)
