"""PURE: a file -> the code of a job's cell that runs it, by way of `node/driver.py`.

What a file may be and where it is read is the command line's matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from jupyter_slurm.commands import notebooks

_CODE = """\
import types; driver = types.ModuleType("driver"); \
exec(compile({driver}, "jupyter-slurm driver.py", "exec"), driver.__dict__)
run = driver.{runner}; del types, driver
run()
"""


def of_python(text: str, path: str, arguments: Sequence[str]) -> str:
    """Runs the Python file `text` as `python PATH ARGUMENTS` would: __file__, argv, imports."""
    return _code(f"file_runner({text!a}, {path!a}, {list(arguments)!a}, globals())")


def of_notebook(text: str, name: str) -> str:
    """Runs the notebook `text`, called `name` in messages. RequestError: it is none."""
    return _code(f"notebook_runner({notebooks.prepared(text, name)!a}, display, globals())")


def _code(runner: str) -> str:
    driver = (resources.files("jupyter_slurm") / "node" / "driver.py").read_text(encoding="utf-8")
    return _CODE.format(driver=ascii(driver), runner=runner)
