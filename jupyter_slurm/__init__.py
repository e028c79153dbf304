"""jupyter-slurm: run notebook cells as Slurm jobs in containers, as if they ran locally.

The module contains the public names and the hooks for IPython and Jupyter, but no logic. Imports
are lazy.

    import jupyter_slurm as js
    job = js.connect("arandu").submit(js.CellSpec(name="hello", code="print(1)"))
    job.result()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_slurm.errors import CellFailed, JobLostError, JupyterSlurmError, SweepError
    from jupyter_slurm.executor import Executor, Future, future
    from jupyter_slurm.executor import map as map  # noqa: A004 - `js.map`
    from jupyter_slurm.job import Connection, JobHandle, connect
    from jupyter_slurm.server.extension import SlurmApp
    from jupyter_slurm.wire import (
        After,
        CellSpec,
        Environment,
        Job,
        JobKind,
        JobSpec,
        JobState,
        KernelSpec,
        LabSpec,
        ProgramSpec,
        ScriptSpec,
        SessionSpec,
        SweepSpec,
        new_id,
    )

# Omit `map`, because `import *` must not replace the built-in function.
__all__ = [
    "After",
    "CellFailed",
    "CellSpec",
    "Connection",
    "Environment",
    "Executor",
    "Future",
    "Job",
    "JobHandle",
    "JobKind",
    "JobLostError",
    "JobSpec",
    "JobState",
    "JupyterSlurmError",
    "KernelSpec",
    "LabSpec",
    "ProgramSpec",
    "ScriptSpec",
    "SessionSpec",
    "SweepError",
    "SweepSpec",
    "connect",
    "future",
    "load_ipython_extension",
    "new_id",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> object:
    match name:
        case "CellFailed" | "JobLostError" | "JupyterSlurmError" | "SweepError":
            module = "errors"
        case "After" | "Environment" | "Job" | "JobKind" | "JobSpec" | "JobState" | "new_id":
            module = "wire"
        case _ if name.endswith("Spec") and name in __all__:
            module = "wire"
        case "Connection" | "JobHandle" | "connect":
            module = "job"
        case "Executor" | "Future" | "future" | "map":
            module = "executor"
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    """Return the names for completion: the public names, loaded or not, and the module's
    attributes."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Return the folder and name of the JupyterLab extension, for `jupyter-builder develop`."""
    return [{"src": "labextension", "dest": "jupyter-slurm"}]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Load the extension (`%load_ext jupyter_slurm`)."""
    from jupyter_slurm.magics.extension import load  # noqa: PLC0415

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Unload the extension (`%unload_ext jupyter_slurm`)."""
    from jupyter_slurm.magics.extension import unload  # noqa: PLC0415

    unload(shell)


def _jupyter_server_extension_points() -> list[dict[str, str | type[SlurmApp]]]:
    """Return the Jupyter server extension, for `jupyter server extension list`."""
    from jupyter_slurm.server.extension import SlurmApp  # noqa: PLC0415

    return [{"module": "jupyter_slurm", "app": SlurmApp}]
