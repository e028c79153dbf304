"""The parsing of the words after `%%slurm` (or `jupyter slurm submit`) into a `Request`, and its
conversion to a `JobSpec`.

`parsing.py` reads the options, and `slurm.options` checks sbatch's values.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import msgspec

from jupyter_slurm.commands import environments
from jupyter_slurm.commands.parsing import JobOption, as_words, before_dashes, job_options
from jupyter_slurm.commands.submitting import CELL
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.formatting import brief
from jupyter_slurm.slurm import options as sbatch
from jupyter_slurm.slurm.directives import read_directives
from jupyter_slurm.slurm.units import format_array, indices
from jupyter_slurm.wire import (
    After,
    CellSpec,
    Engine,
    Environment,
    JobSpec,
    LabSpec,
    OutFormat,
    ProgramSpec,
    ScriptSpec,
    SpecT,
    SweepSpec,
)


class Reuse(StrEnum):
    """The treatment of an earlier job of the same cell."""

    AUTO = "auto"  # attach to an earlier job, otherwise submit
    ATTACH = "attach"  # attach, never submit
    FRESH = "fresh"  # submit another job


HUB_VARIABLE = "JUPYTERHUB_SERVICE_PREFIX"
"""The variable with the base URL of a server that JupyterHub (or Binder) started. Kernels and
terminals of the server inherit it."""
_JOB_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A parsed line: sbatch's options under their long names, and our own options."""

    options: Mapping[str, str]
    cluster: str | None = None
    name: str | None = None
    image: str | None = None
    container_name: str | None = None
    container_remap_root: bool = False
    runtime: str | None = None
    environment: Environment | None = None
    """The packages to install. `with_local_context` reads the requirements file later."""
    after: tuple[After, ...] = ()
    modules: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    names_in: tuple[str, ...] = ()
    names_out: tuple[str, ...] = ()
    out_format: OutFormat | None = None
    push: str | None = None
    push_exclude: tuple[str, ...] = ()
    fetch: tuple[str, ...] = ()
    sweep: tuple[str, ...] = ()
    """The values of --sweep, `NAME=VALUES` or `NAME`, as typed."""
    max_running: int | None = None
    max_fails: int | None = None
    into: str | None = None
    launch: Engine | None = None
    names_gather: tuple[str, ...] = ()
    max_restarts: int = 0
    mpi: str | None = None
    tensorboard: str | None = None
    session: str | None = None
    """A session's name or ID; "" for this notebook's session, None for a separate job."""
    detach: bool | None = None
    """True for --detach, False for --wait, None without either option."""
    on_interrupt: Literal["detach", "cancel"] | None = None
    reuse: Reuse = Reuse.AUTO
    arguments: tuple[str, ...] = ()
    """The arguments after `--`, for a script."""
    dry_run: bool = False
    raise_on_failure: bool = True


def parse(words: Sequence[str]) -> Request:
    """Parse a line's words. If an option with a single value is repeated, the last value wins.
    Raise a RequestError that names the invalid word and the nearest valid word."""
    ours: dict[str, list[str]] = {}
    given = job_options(words)
    for name, value in given:
        if name in CELL.options:
            ours[name] = [*ours.pop(name, []), value or ""]
    try:
        options = _of_sbatch(given)
        sbatch.check_together(options)
    except sbatch.OptionError as exc:
        if exc.option == "exclude" and "push" in ours:
            raise _not_nodes(exc.word.partition("=")[2]) from exc
        raise _wrong(exc.option, exc.message) from exc
    last = {name: values[-1] for name, values in ours.items() if values}
    return Request(
        options=options,
        cluster=last.get("cluster"),
        name=_one_name(_job_name(last.get("name")), options.get("job-name")),
        image=last.get("image"),
        container_name=last.get("container-name"),
        container_remap_root="container-remap-root" in ours,
        runtime=last.get("runtime"),
        environment=_packages(ours, last.get("requirements")),
        after=tuple(map(_after, ours.get("after", []))),
        modules=_names(ours.get("module", [])),
        env=_environment(ours.get("env", [])),
        mounts=tuple(ours.get("mount", [])),
        names_in=_variables("in", ours.get("in", [])),
        names_out=_variables("out", ours.get("out", [])),
        out_format=_one_of("out-format", last.get("out-format")),
        sweep=tuple(ours.get("sweep", [])),
        max_running=_positive("max-running", last.get("max-running")),
        max_fails=_positive("max-fails", last.get("max-fails")),
        into=_into(last.get("into")),
        launch=_one_of("launch", last.get("launch")),
        names_gather=_variables("gather", ours.get("gather", [])),
        mpi=last.get("mpi"),
        tensorboard=last.get("tensorboard"),
        max_restarts=_count("max-restarts", last.get("max-restarts")),
        push=last.get("push"),
        push_exclude=_excluded(ours, options.get("exclude", "")),
        fetch=_patterns(ours.get("fetch", [])),
        session=last.get("session"),
        detach=_detach(ours),
        on_interrupt=_one_of("on-interrupt", last.get("on-interrupt")),
        reuse=_reuse(ours),
        dry_run="dry-run" in ours,
        raise_on_failure="no-raise" not in ours,
    )


def _packages(ours: Mapping[str, Sequence[str]], file: str | None) -> Environment | None:
    """Return the environment that the options request; None without packages. Raises
    RequestError."""
    if ours.keys().isdisjoint(("with", "requirements", "with-mine")):
        return None
    return environments.asked(ours.get("with", []), file, mine="with-mine" in ours)


def _of_sbatch(given: Sequence[JobOption]) -> dict[str, str]:
    """Return the sbatch options, with checked values. Raises OptionError."""
    return {
        name: sbatch.check_option(name, value or "")
        for name, value in given
        if name not in CELL.options
    }


def after(defaults: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the defaults that the words do not override, followed by the words. Raises
    RequestError."""
    try:
        given = _of_sbatch(job_options(before_dashes(words)[0]))
        default = job_options(defaults)
        kept = sbatch.left_of(_of_sbatch(default), given)
    except sbatch.OptionError as exc:
        raise _wrong(exc.option, exc.message) from exc
    left = [(name, value) for name, value in default if name in CELL.options or name in kept]
    return [*as_words(left), *words]


def parse_with_arguments(words: Sequence[str]) -> Request:
    """Parse a line's words; the arguments of a script after `--` are unchanged. Raises
    RequestError."""
    options, arguments = before_dashes(words)
    return replace(parse(options), arguments=tuple(arguments))


def of_cell(code: str, request: Request) -> type[JobSpec]:
    """Return the type of the spec for a notebook's cell. A Python cell with --sweep or --array is a
    sweep. Raises RequestError."""
    made = by_text(code, request.options)
    is_sweep = bool(request.sweep) or "array" in request.options
    if made is CellSpec and is_sweep:
        return SweepSpec
    if request.sweep:
        raise _wrong(
            "sweep", "--sweep needs a Python cell; this text starts with `#!`.", "Use --array."
        )
    return made


def by_text(code: str, options: Collection[str] = ()) -> type[CellSpec | ProgramSpec | ScriptSpec]:
    """Return the type of the spec for a cell with this text and these sbatch options. The cell is
    Python, or a program that the first line names. An array of programs is a batch script."""
    if not code.startswith("#!"):
        return CellSpec
    return ScriptSpec if "array" in options else ProgramSpec


def spec(
    made: type[SpecT],
    request: Request,
    code: str,
    *,
    job_id: str,
    notebook: str | None = None,
    fingerprint: str | None = None,
    usual_name: str = "cell",
    **own: Any,
) -> SpecT:
    """Return the spec of type `made` for `request` and a cell's text, without the files of
    variables. Copy the fields of `request` that have the same name, and derive the other fields.
    `own` contains the fields that options do not set. Raises RequestError."""
    fields = made.__struct_fields__
    if "names_in" not in fields and (request.names_in or request.names_out):
        told = "--in and --out need a Python cell; this text starts with `#!`."
        raise RequestError(
            told, hint="Leave out --in and --out, or pass text with `--env NAME={name}`."
        )
    if request.launch and "launch" not in fields:
        raise _wrong(
            "launch",
            "--launch runs Python on many nodes; this text starts with `#!`.",
            "Use `srun` in the script, or write the cell in Python.",
        )
    if request.tensorboard and "tensorboard" not in fields:
        raise _wrong(
            "tensorboard",
            "--tensorboard needs a Python cell; this text starts with `#!`.",
        )
    if request.arguments and "arguments" not in fields:
        told = "Only a script that starts with `#!` accepts arguments after `--`."
        raise RequestError(told, hint="Pass variables to Python with `--in NAMES`.")
    name, options = _named(request, code, made)
    if made is SweepSpec:
        own |= _of_sweep(request, options)
    elif given := _given_of_sweep(request):
        raise _wrong(given, f"--{given} needs --sweep or --array.")
    if request.session is not None:
        _check_in_session(request, made, options)
    said: dict[str, Any] = {
        "id": job_id,
        "name": name or _of_notebook(notebook) or usual_name,
        "options": options,
        "env": dict(request.env),
        "notebook": notebook,
        "fingerprint": fingerprint,
        "code": code,
    }
    same = {field: getattr(request, field) for field in fields if hasattr(request, field)}
    return made(**{**same, **{key: one for key, one in said.items() if key in fields}, **own})


def with_local_context(spec: SpecT, here: Path | None = None) -> SpecT:
    """Return the spec with absolute local paths, because the agent has another working directory.
    Paths are relative to `here`, or to this process's working directory. Add the text of the
    requirements file, this process's SLURM_CONF and, under JupyterHub, the base URL for labs. Raise
    NotFoundError if the folder to push or the file does not exist, and RequestError if the file
    cannot be used."""
    here = here or Path.cwd()
    push = pushed_from(here, spec.push)
    fetch_to = str(here) if spec.fetch else None
    if isinstance(spec, LabSpec):
        hub = spec.jupyter_base_url or os.environ.get(HUB_VARIABLE)
        spec = msgspec.structs.replace(spec, jupyter_base_url=hub)
    return msgspec.structs.replace(
        spec,
        cwd=str(here),
        push=push,
        fetch_to=fetch_to,
        environment=spec.environment and environments.read(spec.environment, here),
        slurm_conf=os.environ.get("SLURM_CONF") or None,
    )


def pushed_from(here: Path, push: str | None) -> str | None:
    """Return the absolute path of the --push folder, which may be relative to `here`; None if
    `push` is None. Raises NotFoundError."""
    if push is None:
        return None
    folder = (here / Path(push).expanduser()).absolute()
    if not folder.is_dir():
        raise NotFoundError(f"--push: folder {folder} not found.")
    return str(folder)


def _named(request: Request, code: str, made: type[object]) -> tuple[str | None, dict[str, str]]:
    """Return the name that the user gave, and sbatch's options. Only a batch script keeps
    `--job-name`; for other jobs, the name in Slurm contains our ID."""
    options = dict(request.options)
    if made is ScriptSpec:
        if request.name is not None:
            options.setdefault("job-name", request.name)
        said = options.get("job-name") or read_directives(code).get("job-name")
        return request.name or _as_name(said or ""), options
    return request.name or _job_name(options.get("job-name"), "job-name"), {
        name: value for name, value in options.items() if name != "job-name"
    }


def _given_of_sweep(request: Request) -> str | None:
    """Return the first given option that applies only to sweeps, or None."""
    given = {
        "max-running": request.max_running,
        "max-fails": request.max_fails,
        "into": request.into,
    }
    return next((name for name, value in given.items() if value is not None), None)


def _of_sweep(request: Request, options: dict[str, str]) -> dict[str, Any]:
    """Return the fields that only sweeps have, and remove `array` from the options. The notebook
    adds the tasks of `--sweep`. Raises RequestError."""
    rejected = {
        "session": request.session is not None,
        "launch": request.launch,
        "tensorboard": request.tensorboard,
    }
    for name in (name for name, given in rejected.items() if given):
        raise _wrong(name, f"A sweep cannot have --{name}.")
    array = options.pop("array", "")
    tasks, _, at_once = array.partition("%")
    if request.sweep and array:
        raise _wrong("array", "--sweep and --array exclude each other.", "Leave out --array.")
    running = request.max_running or (int(at_once) if at_once else None)
    into = request.into or "results"
    return {
        "tasks": format_array(indices(tasks)) if tasks else "0",
        "names_params": tuple(text.partition("=")[0].strip() for text in request.sweep),
        "max_running": running,
        "into": into,
    }


def _check_in_session(request: Request, made: type[object], options: Mapping[str, str]) -> None:
    """Raise RequestError for a cell that is not Python, or for an option that only the session can
    set."""
    if made is not CellSpec:
        raise RequestError("A session runs Python only; this text starts with `#!`.")
    ours = {
        "image": request.image,
        "container-name": request.container_name,
        "container-remap-root": request.container_remap_root,
        "runtime": request.runtime,
        "module": request.modules,
        "with": request.environment,
        "after": request.after,
        "launch": request.launch,
        "tensorboard": request.tensorboard,
        "env": request.env,
        "mount": request.mounts,
        "push": request.push,
        "fetch": request.fetch,
        "dry-run": request.dry_run,
    }
    for name in (*options, *(name for name, given in ours.items() if given)):
        raise _wrong(
            name,
            f"--{name} cannot be used in a session.",
            "Use it with `%slurm session start`.",
        )


def fingerprint(code: str, kernel: str = "") -> str:
    """Return a digest that is equal for the same code in the same notebook, or in the same `kernel`
    if the notebook is unknown."""
    return hashlib.sha256(json.dumps([code, kernel]).encode()).hexdigest()


def _wrong(about: str, message: str, hint: str | None = None) -> RequestError:
    return RequestError(message, hint=hint, option=about)


def _names(values: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of comma-separated lists in order, without duplicates."""
    parts = (part.strip() for value in values for part in value.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def _excluded(ours: Mapping[str, Sequence[str]], nodes: str) -> tuple[str, ...]:
    """Return the patterns of --push-exclude. `nodes` is the value of sbatch's --exclude, which
    users confuse with --push-exclude. Raises RequestError."""
    patterns = tuple(ours.get("push-exclude", ()))
    if patterns and "push" not in ours:
        raise _wrong("push-exclude", "--push-exclude needs --push DIR.")
    if "push" in ours and ("*" in nodes or nodes.startswith("!") or nodes.endswith("/")):
        raise _not_nodes(nodes)
    return patterns


def _not_nodes(text: str) -> RequestError:
    """Return the error for --exclude with a file pattern."""
    return _wrong(
        "exclude",
        f"--exclude takes node names, but `{text}` is a file pattern.",
        f"To exclude files, use `--push-exclude '{text}'`.",
    )


def _patterns(values: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of --fetch. Raise RequestError for a pattern outside the job's working
    directory."""
    patterns = _names(values)
    for pattern in patterns:
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise _wrong(
                "fetch",
                f"--fetch: `{pattern}` is outside the job's working directory.",
                "Use relative patterns, e.g. `out/*.csv`, or `%slurm pull` for other files.",
            )
    return patterns


def _variables(option: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return the names in Python's normal form (NFKC). For example, `µ` from a keyboard becomes the
    Greek letter."""
    names = _names([unicodedata.normalize("NFKC", value) for value in values])
    for name in names:
        if not name.isidentifier():
            raise _wrong(
                option,
                f"--{option}: `{name}` is not a variable name.",
                "Separate names by commas: `--in data,weights`.",
            )
    return names


def _environment(values: Sequence[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not _ENV_NAME.fullmatch(name):
            raise _wrong(
                "env",
                f"--env: `{text}` is not NAME=VALUE.",
                "Quote a value with blanks: --env 'GREETING=good day'.",
            )
        env[name] = value
    return env


def _after(text: str) -> After:
    job, _, ends = text.partition(":")
    match ends or "ok":
        case "ok" | "any" | "fail" as known if job:
            return After(job=job, ends=known)
    raise _wrong(
        "after",
        f"--after: `{brief(text)}` is not JOB, JOB:ok, JOB:any or JOB:fail.",
        "Use the ID or the name of a job as JOB.",
    )


def _job_name(name: str | None, option: str = "name") -> str | None:
    if name is not None and not _JOB_NAME.fullmatch(name):
        raise _wrong(
            option,
            f"--{option}: `{brief(name)}` is not a valid job name.",
            "Use at most 64 letters, digits, `.`, `_` and `-`.",
        )
    return name


def _one_name(ours: str | None, theirs: str | None) -> str | None:
    """Return the job's name from `--name` or `--job-name`; None if neither gives a valid name. A
    batch script's `--job-name` may be any text. Raises RequestError."""
    if ours is not None and theirs not in (None, ours):
        told = f"`--name {ours}` and `--job-name {brief(theirs)}` both set the job's name."
        raise _wrong("job-name", told, "Omit one of them.")
    return ours or (theirs if theirs and _JOB_NAME.fullmatch(theirs) else None)


def _of_notebook(notebook: str | None) -> str:
    """Return the notebook's name, reduced to characters that a job name allows."""
    return _as_name((notebook or "").replace("\\", "/").rpartition("/")[2].removesuffix(".ipynb"))


def _as_name(text: str) -> str:
    """Return the text, reduced to characters that a job name allows."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:48]


def _detach(ours: Mapping[str, object]) -> bool | None:
    said = [name for name in ours if name in ("detach", "wait")]
    return said[-1] == "detach" if said else None


def _one_of(name: str, value: str | None) -> Any:
    """Return `value` if it is None or the option's metavar lists it. Otherwise raise
    RequestError."""
    choices = CELL.options[name].metavar.split("|")
    if value not in (None, *choices):
        known = ", ".join(f"`{one}`" for one in choices)
        raise _wrong(name, f"--{name} must be one of {known}, not `{value}`.")
    return value


def _positive(name: str, value: str | None) -> int | None:
    if value is not None and not (value.isdecimal() and int(value)):
        raise _wrong(name, f"--{name} must be a positive whole number, not `{value}`.")
    return None if value is None else int(value)


def _into(value: str | None) -> str | None:
    if value is not None and not value.isidentifier():
        raise _wrong("into", f"--into: `{value}` is not a variable name.")
    return value


def _count(name: str, value: str | None) -> int:
    if value is not None and not value.isdecimal():
        raise _wrong(name, f"--{name} must be 0 or a positive whole number, not `{value}`.")
    return int(value or 0)


def _reuse(ours: Mapping[str, object]) -> Reuse:
    if "attach" in ours and "fresh" in ours:
        raise _wrong("attach", "--attach and --fresh exclude each other.")
    return Reuse.ATTACH if "attach" in ours else Reuse.FRESH if "fresh" in ours else Reuse.AUTO
