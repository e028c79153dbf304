"""The words after `%%slurm` (or `jupyter slurm submit`) as a `Request`, and that as a `JobSpec`.

`parsing.py` reads the options, `slurm.options` checks the values of sbatch's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
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
from jupyter_slurm.wire import (
    After,
    CellSpec,
    Engine,
    Environment,
    LabSpec,
    OutFormat,
    ProgramSpec,
    ScriptSpec,
    SpecT,
)


class Reuse(StrEnum):
    """The way to treat a job that the same cell has already started."""

    AUTO = "auto"  # attach to it when there is one, else submit
    ATTACH = "attach"  # attach to it, never submit
    FRESH = "fresh"  # submit another


HUB_VARIABLE = "JUPYTERHUB_SERVICE_PREFIX"
"""The base URL of a server that JupyterHub has started (and so Binder), told to it and its kernels
and terminals."""
_LONGEST = 32 * 1024
"""The longest line in characters: shlex takes quadratic time to split it."""
_JOB_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A line, read: options of sbatch under their long names, and ours."""

    options: Mapping[str, str]
    cluster: str | None = None
    name: str | None = None
    image: str | None = None
    container_name: str | None = None
    container_remap_root: bool = False
    runtime: str | None = None
    environment: Environment | None = None
    """The packages to install, their file not read."""
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
    launch: Engine | None = None
    names_gather: tuple[str, ...] = ()
    max_restarts: int = 0
    mpi: str | None = None
    tensorboard: str | None = None
    session: str | None = None
    """The name or id of a session, "" for the one of this notebook; None: a job of its own."""
    detach: bool | None = None
    """None: not given."""
    on_interrupt: Literal["detach", "cancel"] | None = None
    reuse: Reuse = Reuse.AUTO
    arguments: tuple[str, ...] = ()
    """The words after `--`, for a script."""
    dry_run: bool = False
    raise_on_failure: bool = True


def split(line: str) -> list[str]:
    """Return the words of a line, quoted as in a shell; expand nothing.

    >>> split("--comment 'a b' --export X=$HOME")
    ['--comment', 'a b', '--export', 'X=$HOME']
    """
    if len(line) > _LONGEST:
        raise RequestError(
            f"This line has {len(line):,} characters, and {_LONGEST:,} are the most.",
            hint="Put what is long into a file, or into the cell.",
        )
    try:
        return shlex.split(line)
    except ValueError as exc:
        raise _wrong(
            "",
            f"This line cannot be split into words: {str(exc).lower()}.",
            "Close every quote; write a backslash before a quote that is meant as itself.",
        ) from exc


def parse(words: Sequence[str]) -> Request:
    """Read a line's words; the later of two equal options wins. RequestError names the wrong word
    and the nearest right one."""
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
        environment=environments.asked(
            ours.get("with", []), last.get("requirements"), mine="with-mine" in ours
        ),
        after=tuple(map(_after, ours.get("after", []))),
        modules=_names(ours.get("module", [])),
        env=_environment(ours.get("env", [])),
        mounts=tuple(ours.get("mount", [])),
        names_in=_variables("in", ours.get("in", [])),
        names_out=_variables("out", ours.get("out", [])),
        out_format=_one_of("out-format", last.get("out-format")),
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


def _of_sbatch(given: Sequence[JobOption]) -> dict[str, str]:
    """Return sbatch's options among those given, their values checked. OptionError."""
    return {
        name: sbatch.check_option(name, value or "")
        for name, value in given
        if name not in CELL.options
    }


def after(defaults: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the words after those defaults that they leave in force. RequestError."""
    try:
        given = _of_sbatch(job_options(before_dashes(words)[0]))
        default = job_options(defaults)
        kept = sbatch.left_of(_of_sbatch(default), given)
    except sbatch.OptionError as exc:
        raise _wrong(exc.option, exc.message) from exc
    left = [(name, value) for name, value in default if name in CELL.options or name in kept]
    return [*as_words(left), *words]


def parse_with_arguments(words: Sequence[str]) -> Request:
    """Read a line's words, and after `--` the arguments of a script, unchanged. RequestError."""
    options, arguments = before_dashes(words)
    return replace(parse(options), arguments=tuple(arguments))


def by_text(code: str, options: Collection[str] = ()) -> type[CellSpec | ProgramSpec | ScriptSpec]:
    """Return the type of a cell with this text and sbatch's options: Python, or a program that its
    first line names. An array of programs is a batch script."""
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
    """Return the spec of that type for `request` and the text of a cell. Its variables are not yet
    written. `own`: fields of that type alone, which no option of a cell sets."""
    fields = made.__struct_fields__
    if "names_in" not in fields and (request.names_in or request.names_out):
        told = "Only Python gets and returns variables; this text starts with `#!`."
        raise RequestError(
            told, hint="Leave out --in and --out, or pass text by `--env NAME={name}`."
        )
    if request.launch and "launch" not in fields:
        raise _wrong(
            "launch",
            "--launch runs Python on many nodes; this text starts with `#!`.",
            "Start tasks with `srun` in it, or write the cell in Python.",
        )
    if request.tensorboard and "tensorboard" not in fields:
        raise _wrong(
            "tensorboard",
            "--tensorboard needs a cell in Python; this text starts with `#!`.",
        )
    if request.arguments and "arguments" not in fields:
        told = "Only a script that begins with `#!` takes arguments after `--`."
        raise RequestError(told, hint="Python gets variables by `--in NAMES`.")
    name, options = _named(request, code, made)
    if request.session is not None:
        _check_in_session(request, made, options)
    said: dict[str, Any] = {
        "code": code,
        "arguments": request.arguments,
        "names_in": request.names_in,
        "names_out": request.names_out,
        "out_format": request.out_format,
        "session": request.session,
        "launch": request.launch,
        "names_gather": request.names_gather,
        "max_restarts": request.max_restarts,
        "mpi": request.mpi,
        "tensorboard": request.tensorboard,
    }
    return made(
        id=job_id,
        name=name or _of_notebook(notebook) or usual_name,
        cluster=request.cluster,
        options=options,
        image=request.image,
        container_name=request.container_name,
        container_remap_root=request.container_remap_root,
        runtime=request.runtime,
        environment=request.environment,
        after=request.after,
        modules=request.modules,
        env=dict(request.env),
        mounts=request.mounts,
        push=request.push,
        push_exclude=request.push_exclude,
        fetch=request.fetch,
        notebook=notebook,
        fingerprint=fingerprint,
        **{field: one for field, one in said.items() if field in fields},
        **own,
    )


def with_local_context(spec: SpecT, here: Path | None = None) -> SpecT:
    """Return the spec with the folder `here` (None: this process's) in it, since the agent runs in
    another: the paths where the code runs, what is pushed and where fetched files go are absolute.
    Read the file with the packages to install. Add this process's SLURM_CONF and, below a hub, the
    address below which the hub shows a lab. NotFoundError: the folder to push, or the file, does
    not exist; RequestError: the file cannot be used."""
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
    """Return the full path of the folder after --push, as typed in the folder `here`; None: there
    is none. NotFoundError: it does not exist."""
    if push is None:
        return None
    folder = (here / Path(push).expanduser()).absolute()
    if not folder.is_dir():
        raise NotFoundError(f"--push: there is no folder {folder}.")
    return str(folder)


def _named(request: Request, code: str, made: type[object]) -> tuple[str | None, dict[str, str]]:
    """Return the given name, if any, and sbatch's options. Keep `--job-name` for a batch script
    alone: for all others the name in Slurm contains our id."""
    options = dict(request.options)
    if made is ScriptSpec:
        if request.name is not None:
            options.setdefault("job-name", request.name)
        said = options.get("job-name") or read_directives(code).get("job-name")
        return request.name or _as_name(said or ""), options
    return request.name or _job_name(options.get("job-name"), "job-name"), {
        name: value for name, value in options.items() if name != "job-name"
    }


def _check_in_session(request: Request, made: type[object], options: Mapping[str, str]) -> None:
    """Raise RequestError for an option that a session fixed when it started."""
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
            f"--{name} is not for a cell of a session.",
            "The session has the options that it was started with.",
        )


def fingerprint(code: str, kernel: str = "") -> str:
    """Return a text that is equal for the same code in the same notebook, or, where the notebook is
    unknown, in the same `kernel`."""
    return hashlib.sha256(json.dumps([code, kernel]).encode()).hexdigest()


def _wrong(about: str, message: str, hint: str | None = None) -> RequestError:
    return RequestError(message, hint=hint, option=about)


def _names(values: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of comma-separated lists, each once, in order."""
    parts = (part.strip() for value in values for part in value.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def _excluded(ours: Mapping[str, Sequence[str]], nodes: str) -> tuple[str, ...]:
    """Return the patterns of --push-exclude. `nodes` is the value of sbatch's --exclude, which
    users confuse with it. RequestError."""
    patterns = tuple(ours.get("push-exclude", ()))
    if patterns and "push" not in ours:
        raise _wrong("push-exclude", "--push-exclude needs a folder that is pushed: --push DIR.")
    if "push" in ours and ("*" in nodes or nodes.startswith("!") or nodes.endswith("/")):
        raise _not_nodes(nodes)
    return patterns


def _not_nodes(text: str) -> RequestError:
    """Return the error for an --exclude with --push that looks like a pattern of files."""
    return _wrong(
        "exclude",
        f"--exclude names nodes, as for sbatch, and `{text}` does not.",
        f"Files stay behind with `--push-exclude '{text}'`.",
    )


def _patterns(values: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of --fetch; they are relative to the job's folder, and stay in it.
    RequestError."""
    patterns = _names(values)
    for pattern in patterns:
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise _wrong(
                "fetch",
                f"--fetch: `{pattern}` is outside of the folder where the job runs.",
                "Give patterns relative to it, e.g. `out/*.csv`; `%slurm pull` brings any file.",
            )
    return patterns


def _variables(option: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return the names as Python keeps them: it turns the `µ` of a keyboard into the Greek
    letter."""
    names = _names([unicodedata.normalize("NFKC", value) for value in values])
    for name in names:
        if not name.isidentifier():
            raise _wrong(
                option,
                f"--{option}: `{name}` is not the name of a variable.",
                "Give names, separated by commas: `--in data,weights`.",
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
                "For a value with blanks quote the whole: --env 'GREETING=good day'.",
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
        "JOB is the ID of a job, or its name.",
    )


def _job_name(name: str | None, option: str = "name") -> str | None:
    if name is not None and not _JOB_NAME.fullmatch(name):
        raise _wrong(
            option,
            f"--{option}: `{brief(name)}` cannot be a job's name.",
            "Up to 64 letters, digits, `.`, `_` and `-`.",
        )
    return name


def _one_name(ours: str | None, theirs: str | None) -> str | None:
    """Return the job's name by `--name` or sbatch's `--job-name`; the latter may be a batch
    script's, for which any text is valid. RequestError."""
    if ours is not None and theirs not in (None, ours):
        told = f"`--name {ours}` and `--job-name {brief(theirs)}` both name the job."
        raise _wrong("job-name", told, "Leave one of them out.")
    return ours or (theirs if theirs and _JOB_NAME.fullmatch(theirs) else None)


def _of_notebook(notebook: str | None) -> str:
    """Return the characters of the notebook's name that a job's name may have; "" if none."""
    return _as_name((notebook or "").replace("\\", "/").rpartition("/")[2].removesuffix(".ipynb"))


def _as_name(text: str) -> str:
    """Return the characters of `text` that a job's name may have; "" if none."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:48]


def _detach(ours: Mapping[str, object]) -> bool | None:
    said = [name for name in ours if name in ("detach", "wait")]
    return said[-1] == "detach" if said else None


def _one_of(name: str, value: str | None) -> Any:
    """Return `value`, one of those in the option's metavar; None: not given. RequestError."""
    choices = CELL.options[name].metavar.split("|")
    if value not in (None, *choices):
        known = ", ".join(f"`{one}`" for one in choices)
        raise _wrong(name, f"--{name} is one of {known}, not `{value}`.")
    return value


def _count(name: str, value: str | None) -> int:
    if value is not None and not value.isdecimal():
        raise _wrong(name, f"--{name} is a number from 0, not `{value}`.")
    return int(value or 0)


def _reuse(ours: Mapping[str, object]) -> Reuse:
    if "attach" in ours and "fresh" in ours:
        raise _wrong("attach", "--attach and --fresh are opposites: give one of them.")
    return Reuse.ATTACH if "attach" in ours else Reuse.FRESH if "fresh" in ours else Reuse.AUTO
