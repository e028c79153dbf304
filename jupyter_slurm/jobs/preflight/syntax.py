"""The search for syntax errors in a job's code before submission. No I/O.

The job's Python may be newer than this Python. An error that new syntax could explain is only a
warning.
"""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import PurePath

from jupyter_slurm.api import Api
from jupyter_slurm.errors import CodeError
from jupyter_slurm.wire import Job, JobSpec

_IN_EVERY_PYTHON = re.compile(
    "was never closed|unmatched|does not match opening|expected ':'|Missing parentheses in call"
    "|Maybe you meant '=='|outside (async )?function|outside loop|not properly in loop"
    "|unterminated (triple-quoted )?string"
)
"""Messages of CPython 3.11 to 3.14 about code that is invalid in every Python version."""
_NEWER_STRINGS = re.compile(r"\b(?:f|fr|rf|t|tr|rt)['\"]", re.IGNORECASE)
"""The start of an f-string or t-string. Since Python 3.12, the braces may contain quotes and line
breaks."""
_OF_IPYTHON = re.compile(r"^\s*[!%?,;/]|=\s*[!%]|\?\s*$", re.MULTILINE)
_RAISES = "raises-exception"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version of this process's Python, like `3.12`."""
THE_CODE = "the code"
"""The file name in the error if the code is not from a file."""


def fault(
    source: str, name: str, translate: Callable[[str], str] | None = None
) -> SyntaxError | None:
    """Return the syntax error of `source`, if any. `translate` converts IPython's syntax to
    Python."""
    try:
        _compile(source, name)
    except SyntaxError as plain:
        if translate is None:
            return plain
    except (ValueError, RecursionError, MemoryError):
        return None  # the job reports the error
    else:
        return None
    try:
        _compile(translate(source), name)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


@lru_cache(maxsize=4)
def fault_of_cell(source: str, name: str) -> SyntaxError | None:
    """Return the syntax error, if any, of a cell that IPython has not checked. The result is
    cached, since the calls of an Executor share their code."""
    error = fault(source, name)
    if error is None or _may_be_a_magic(source):
        return None
    return error if _OF_IPYTHON.search(source) is None else fault(source, name, _translate)


def fault_of_file(file: PurePath, source: str) -> SyntaxError | None:
    """Return the syntax error of a Python file or a notebook, if any."""
    if file.suffix == ".ipynb":
        return fault_of_notebook(source, _translate)
    return fault(source, str(file))


def _translate(source: str) -> str:
    from IPython.core.inputtransformer2 import TransformerManager  # noqa: PLC0415 - slow

    return TransformerManager().transform_cell(source)


def _may_be_a_magic(source: str) -> bool:
    """Return whether the code is a single line like `pip install …`, which IPython accepts without
    %."""
    words = source.split()
    alone = len(source.strip().splitlines()) == 1 and words[0].isidentifier()
    return alone and not keyword.iskeyword(words[0]) and not hasattr(builtins, words[0])


def fault_of_notebook(text: str, translate: Callable[[str], str]) -> SyntaxError | None:
    """Return the first syntax error in a notebook's cells, if any. Skip cells with the tag
    `raises-exception`."""
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        if cell["cell_type"] == "code" and _RAISES not in cell.get("metadata", {}).get("tags", ()):
            found = fault("".join(cell["source"]), f"<notebook cell {number}>", translate)
            if found is not None:
                return found
    return None


def check(
    error: SyntaxError, source: str, spec: JobSpec, api: Api, rendered: Sequence[str] = ()
) -> str:
    """Raise a CodeError that is shown as `rendered`. Return a warning instead if the job's Python
    may be newer and accept the code."""
    shown = text(error)
    default = next((one.name for one in api.clusters() if one.default), None)
    jobs = api.jobs(spec.cluster or default)
    if is_certain(error, source, spec, jobs):
        raise CodeError(
            "The code has a syntax error, so no job was submitted.",
            detail=shown,
            option="code",
            traceback=tuple(rendered),
        )
    return f"{shown}\n{newer()}"


def sentence(error: SyntaxError) -> str:
    """Return the error and its position in one line."""
    name = "the code" if error.filename == THE_CODE else error.filename
    return f"Line {error.lineno} of {name} is not valid Python: {error.msg}."


def newer() -> str:
    """Return the reason why the job is submitted despite the error."""
    return (
        f"Python {HERE} on this machine does not accept this code. The job is submitted, because "
        "its Python may be newer."
    )


def text(error: SyntaxError) -> str:
    """Return the error as Python prints it: file, line, caret and message."""
    return "".join(traceback.format_exception_only(error)).rstrip("\n")


def is_certain(error: SyntaxError, source: str, spec: JobSpec, jobs: Iterable[Job]) -> bool:
    """Return whether the job's Python certainly rejects the code too. Decide by the Python version
    of earlier `jobs`, or by the error itself."""
    told = [one.python[:2] for one in jobs if one.python is not None and _is_alike(one, spec)]
    if told and not spec.modules and max(told) <= sys.version_info[:2]:
        return True
    return _is_wrong_everywhere(error, source)


def _is_wrong_everywhere(error: SyntaxError, source: str) -> bool:
    if isinstance(error, IndentationError):
        return True
    if sys.version_info < (3, 12) and _NEWER_STRINGS.search(source):
        return False
    return _IN_EVERY_PYTHON.search(error.msg) is not None


def _is_alike(job: Job, spec: JobSpec) -> bool:
    """Return whether `job` belongs to the session of `spec` or, without a session, used the image
    and runtime that `spec` names."""
    if spec.session is not None:
        return spec.session in (job.id, job.session)
    return spec.image in (None, job.image) and spec.runtime in (None, job.runtime)


def _compile(source: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the job shows warnings
        compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
