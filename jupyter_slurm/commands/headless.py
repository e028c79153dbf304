"""PURE: jobs that no cell waits for: the words that ask for one, and a file as a job.

The words are those of `%%slurm`, less what only a cell can mean. Nothing is read here: who has the
file gives its text, which `node/driver.py` runs as a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import PurePath

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.commands import line, notebooks, sessions
from jupyter_slurm.commands.asked import of_job
from jupyter_slurm.commands.scanner import before_arguments
from jupyter_slurm.commands.table import SUBMIT
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import CellSpec, JobSpec, ProgramSpec, ScriptSpec


def request(words: Sequence[str]) -> line.Request:
    """Read what the words ask for, perhaps with arguments behind `--`. RequestError names the one
    that cannot be."""
    options, arguments = before_arguments(words)
    return replace(of_job(SUBMIT, options), arguments=tuple(arguments))


def resolved(
    api: Api, request: line.Request, notebook: str | None = None, cluster: str | None = None
) -> line.Request:
    """With the session's id in the place of its name; "": the newest of the notebook, or of what
    has none. `cluster`: where nothing names one, None for any. NotFoundError, RequestError."""
    if request.session is None:
        return request
    owner, cluster = sessions.Owner(notebook), request.cluster or cluster
    jobs, name = api.jobs(), request.session
    job = (
        sessions.named(jobs, name, owner, cluster)
        if name
        else sessions.newest(jobs, owner, cluster)
    )
    sessions.check_cluster(job, request.cluster)
    return replace(request, session=job.id, cluster=job.cluster)


def file_spec(
    file: PurePath,
    path: str,
    text: str,
    request: line.Request,
    *,
    job_id: str,
    arguments: Sequence[str] = (),
) -> JobSpec:
    """The job that runs a notebook, Python or a script. RequestError.

    `file` is how its user calls it, `path` where it is on this machine.
    """
    made: type[CellSpec | ProgramSpec | ScriptSpec] = CellSpec
    code, notebook = text, None
    given = (*request.arguments, *arguments)
    request = replace(request, arguments=())
    if file.suffix == ".ipynb":
        _refuse_arguments(file, given)
        code, notebook = of_notebook(text, file.name), path
    elif text.startswith("#!") and file.suffix != ".py":
        request = replace(request, arguments=given)
        made = ScriptSpec if _has_directives(text) else ProgramSpec
    elif file.suffix == ".py":
        code = of_python(text, path, given)
    else:
        raise RequestError(
            f"{file} is neither a notebook (.ipynb), nor Python (.py), nor a script.",
            hint="A script begins with `#!`, e.g. `#!/bin/bash`.",
        )
    # What the name of a job may hold is known there, where it is made of a notebook's name.
    named = line.spec(made, request, code, job_id=job_id, notebook=str(file.with_suffix("")))
    return msgspec.structs.replace(named, notebook=notebook)


def _refuse_arguments(file: PurePath, arguments: Sequence[str]) -> None:
    if arguments:
        raise RequestError(
            f"{file} takes no arguments after `--`; Python files and scripts do.",
            hint="`--env NAME=VALUE` gives it a variable.",
        )


def _has_directives(script: str) -> bool:
    """Whether sbatch would find options in the script: then it is handed over as it is."""
    return any(text.startswith("#SBATCH") for text in script.splitlines())


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
