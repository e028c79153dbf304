"""Collect the files of ours that a job needs: modules of node/ and cloudpickle."""

from __future__ import annotations

import difflib
import importlib.metadata
import io
import keyword
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from types import ModuleType

from jupyter_slurm.errors import VariableError

_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""Fixed file time, so that equal files give an equal zip."""
_FOR_VARIABLES = frozenset(("runner_values.py", "runner_data.py"))
"""Modules for cells with variables only."""
_FOR_SOME = frozenset(("runner_ranks.py", "runner_engine.py", "runner_dashboards.py"))
"""Modules for cells on many nodes or with dashboards only."""


def runner_files() -> Mapping[str, bytes]:
    """Return the text of the runner and its modules by file name."""
    return node_files("runner")


def needed_files(variables: bool) -> Mapping[str, bytes]:
    """Return the runner for a cell; `variables`: it has inputs or outputs."""
    return {
        name: text
        for name, text in runner_files().items()
        if name not in _FOR_SOME and (variables or name not in _FOR_VARIABLES)
    }


@cache
def node_files(beginning: str) -> Mapping[str, bytes]:
    """Return the text of the files of node/ with this prefix, by file name."""
    folder = resources.files("jupyter_slurm") / "node"
    return {
        entry.name: entry.read_bytes()
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.startswith(beginning) and entry.name.endswith((".py", ".js", ".json"))
    }


@cache
def cloudpickle_zip() -> bytes:
    """Return the local cloudpickle with its licence, as an importable zip."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(importlib.metadata.files("cloudpickle") or (), key=str):
            is_licence = "licen" in file.name.lower()
            if file.suffix == ".py" or is_licence:
                name = f"cloudpickle/{file.name}" if is_licence else str(file)
                info = zipfile.ZipInfo(name, _ZIP_TIME)
                info.external_attr = 0o644 << 16
                archive.writestr(info, file.read_binary(), zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def check_names(names: Iterable[str], namespace: Mapping[str, object]) -> None:
    """Raise VariableError for a name that is not a variable of the notebook."""
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise VariableError(
                f"{name!r} is not a variable name.",
                hint="Separate names by commas: --in data,labels",
            )
        if name not in namespace:
            known = [one for one, value in namespace.items() if not isinstance(value, ModuleType)]
            near = difflib.get_close_matches(name, known, n=1)
            raise VariableError(
                f"There is no variable {name!r} in this notebook.",
                hint=f"Did you mean {''.join(map(repr, near))}?"
                if near
                else "Run the cell that sets it first.",
            )


def check_python(by_value: bool, ours: tuple[int, int], theirs: tuple[int, int] | None) -> None:
    """Raise VariableError if the variables contain code that the other Python cannot read.

    `theirs` None: unknown yet; the job itself checks then.
    """
    if by_value and theirs is not None and ours != theirs:
        raise VariableError(
            "The variables contain functions or classes of this notebook, pickled by Python "
            f"{'{}.{}'.format(*ours)}. The cell runs in Python {'{}.{}'.format(*theirs)}, which "
            "cannot read them.",
            hint="Define them in the cell, import them from a module, or run it in Python "
            f"{'{}.{}'.format(*ours)}.",
        )
