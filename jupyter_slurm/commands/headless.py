"""Jobs from files, notebooks and images' own programs. They take the options of `%%slurm`, except
those for cells only. No I/O: the caller reads the files. `node/run_file.py` runs Python files and
notebooks as a cell.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import PurePath

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.commands import line, notebooks, sessions
from jupyter_slurm.commands.arguments import of_job
from jupyter_slurm.commands.parsing import Arguments, before_dashes
from jupyter_slurm.commands.submitting import RUN, SUBMIT
from jupyter_slurm.errors import RequestError
from jupyter_slurm.slurm.directives import has_directives
from jupyter_slurm.wire import CellSpec, JobSpec, ProgramSpec, ScriptSpec


def request(words: Sequence[str]) -> line.Request:
    """Parse the options, and the arguments after `--`. Raise a RequestError that names the invalid
    word."""
    options, arguments = before_dashes(words)
    return replace(of_job(SUBMIT, options), arguments=tuple(arguments))


def resolved(api: Api, request: line.Request, notebook: str | None = None) -> line.Request:
    """Return the request with the session's ID instead of its name. The name "" means the newest
    session of the notebook or, without a notebook, of terminals. Raises NotFoundError or
    RequestError."""
    if request.session is None:
        return request
    owner, cluster = sessions.Owner(notebook), request.cluster
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
    """Return the spec of a job that runs a notebook, Python file or script. `file` is the path as
    typed, and `path` is the absolute path. Raises RequestError.
    """
    made: type[CellSpec | ProgramSpec | ScriptSpec] = CellSpec
    code, notebook = text, None
    given = (*request.arguments, *arguments)
    request = replace(request, arguments=())
    if file.suffix == ".ipynb":
        _refuse_arguments(file, given)
        code, notebook = of_notebook(text, file.name), path
    elif text.startswith("#!") and (
        file.suffix != ".py" or has_directives(text) or "array" in request.options
    ):
        request = replace(request, arguments=given)
        made = by_text(text, request.options)
    elif file.suffix == ".py":
        code = of_python(text, path, given)
    else:
        raise RequestError(
            f"{file} is not a notebook (.ipynb), Python file (.py) or script.",
            hint="Start a script with `#!`, e.g. `#!/bin/bash`.",
        )
    # Pass the file as a notebook, because `line.spec` derives a valid job name from it.
    named = line.spec(made, request, code, job_id=job_id, notebook=str(file.with_suffix("")))
    return msgspec.structs.replace(named, notebook=notebook, file=path)


def own_program(
    args: Arguments, *, job_id: str, notebook: str | None = None, before: Sequence[str] = ()
) -> tuple[line.Request, ProgramSpec]:
    """Return the request and spec of a job that runs an image's own program. The options `before`
    apply to every job. Raise a RequestError that names the invalid word."""
    of_job(RUN, args.words)
    request = line.parse(line.after(before, [*args.words, "--image", args.image]))
    request = replace(request, arguments=args.rest, reuse=line.Reuse.FRESH)
    # Pass the image as a notebook, because `line.spec` derives a valid job name from it.
    spec = line.spec(ProgramSpec, request, "", job_id=job_id, notebook=args.image)
    return request, msgspec.structs.replace(spec, notebook=notebook)


def _refuse_arguments(file: PurePath, arguments: Sequence[str]) -> None:
    if arguments:
        raise RequestError(
            f"{file} is a notebook and does not accept arguments after `--`.",
            hint="Set a variable with `--env NAME=VALUE`.",
        )


def by_text(text: str, options: Collection[str] = ()) -> type[CellSpec | ProgramSpec | ScriptSpec]:
    """Return the kind of job for the text. sbatch gets a script with `#SBATCH` lines unchanged."""
    made = line.by_text(text, options)
    has_options = any(one.startswith("#SBATCH") for one in text.splitlines())
    return ScriptSpec if made is ProgramSpec and has_options else made


_CODE = """\
import types; run_file = types.ModuleType("run_file"); \
exec(compile({text}, "jupyter-slurm run_file.py", "exec"), run_file.__dict__)
run = run_file.{runner}; del types, run_file
run()
"""


def of_python(text: str, path: str, arguments: Sequence[str]) -> str:
    """Return a cell that runs the Python file `text` with the same __file__, argv and imports as
    `python PATH ARGUMENTS`."""
    return _code(f"file_runner({text!a}, {path!a}, {list(arguments)!a}, globals())")


def of_notebook(text: str, name: str) -> str:
    """Return a cell that runs the notebook `text`, called `name` in messages. Raise RequestError if
    `text` is not a notebook."""
    return _code(f"notebook_runner({notebooks.prepared(text, name)!a}, display, globals())")


def _code(runner: str) -> str:
    text = (resources.files("jupyter_slurm") / "node" / "run_file.py").read_text(encoding="utf-8")
    return _CODE.format(text=ascii(text), runner=runner)
