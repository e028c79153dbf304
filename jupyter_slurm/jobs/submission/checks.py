"""Refuse what a JobSpec cannot hold, since no job could be given it unchanged. PURE: no I/O.

Each kind of job refuses what it alone cannot have (`jobs/kinds`); `resolved.py` and `options.py`
refuse what only the cluster's profile, a runtime or sbatch's tables can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.readable import brief
from jupyter_slurm.transport.files.ignore import Patterns
from jupyter_slurm.wire import JobSpec

_ID = re.compile(r"[a-z2-7]{8}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS = re.compile(
    r"_|PWD|OLDPWD|OPTIND|E?UID|PPID|GROUPS|S?RANDOM|SECONDS|EPOCH(SECONDS|REALTIME)|LINENO|SHLVL"
    r"|FUNCNAME|DIRSTACK|HISTCMD|SHELLOPTS|BASH(?!_ENV$).*"
)
"""Variables that dash or bash set themselves, refuse to set, or compute with."""
_PARTS = {"code": "The cell", "cwd": "The folder"}
"""Fields of a spec in the user's words."""
_LONGEST_VALUE_BYTES = 128 * 1024
"""MAX_ARG_STRLEN of Linux, for `NAME=value` and the NUL behind it (execve(2))."""
_LARGEST_ENVIRONMENT_BYTES = 1024 * 1024
"""Half of what execve(2) takes with the usual stack of 8 MiB: the node has variables of its own."""


def check_spec(spec: JobSpec) -> None:
    """Check the spec. RequestError: names what cannot be, and the remedy."""
    kind = kind_of(spec)
    for what, text in _texts(msgspec.structs.asdict(spec), ""):
        _check_text(what, text, kind)
    if not _ID.fullmatch(spec.id):
        raise RequestError(f"{brief(spec.id)!r} is not a job id: eight characters of a-z and 2-7.")
    if not _NAME.fullmatch(spec.name):
        raise RequestError(
            f"{brief(spec.name)!r} is not a name for a job.",
            hint="Letters, digits, `.`, `_` and `-`, at most 64: `squeue --name` splits at others.",
            option="name",
        )
    _check_files(spec)
    kind.check(spec)


def _check_files(spec: JobSpec) -> None:
    if spec.push is not None and not spec.push.startswith("/"):
        raise RequestError(f"--push {spec.push!r} is not the full path of a folder here.")
    if spec.push_exclude:
        _check_exclusion(spec)
    if spec.fetch and (spec.fetch_to is None or not spec.fetch_to.startswith("/")):
        raise RequestError("--fetch needs the full path of a folder here to bring the files to.")
    for pattern in spec.fetch:
        if not pattern.strip() or ".." in pattern.split("/"):
            raise RequestError(
                f"--fetch {pattern!r} names nothing in the folder that the job runs in.",
                hint="Patterns are those of .gitignore: results/**, *.png, /model.pt.",
            )


def _check_exclusion(spec: JobSpec) -> None:
    if spec.push is None:
        raise RequestError("--push-exclude needs a folder that is pushed: --push DIR.")
    for pattern in spec.push_exclude:
        if not pattern.strip():
            raise RequestError("--push-exclude: a pattern is empty.")
    Patterns(spec.push_exclude, "--push-exclude")


def check_environment(env: Mapping[str, str]) -> None:
    """Raise RequestError for a variable that a program on the node would not get as it is here."""
    total_bytes = 0
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            raise RequestError(f"{name!r} is not a name for an environment variable.", option="env")
        if _SHELLS.fullmatch(name):
            raise RequestError(
                f"The environment variable {name} cannot be set: the node's shell has its own.",
                hint="Take another name.",
                option="env",
            )
        size_bytes = len(f"{name}={value}".encode()) + 1
        total_bytes += size_bytes
        if size_bytes > _LONGEST_VALUE_BYTES or total_bytes > _LARGEST_ENVIRONMENT_BYTES:
            raise RequestError(
                f"The environment variable {name} makes the environment too large: Linux takes "
                "128 KiB for one variable, and 1 MiB are taken here for all.",
                hint="Pass large values as variables (--in) or in a file.",
                option="env",
            )


def _texts(value: Any, what: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a value, and where it is: `code`, `env A`."""
    match value:
        case str():
            yield what, value
        case dict():
            for name, part in value.items():
                yield what, str(name)
                yield from _texts(part, f"{what} {name!r}" if what else name)
        case tuple():
            for part in value:
                yield from _texts(part, what)
        case _:
            pass


def _check_text(what: str, text: str, kind: Kind[Any]) -> None:
    part = _PARTS.get(what, f"The job's {what}")
    if "\0" in text and (what != "code" or not kind.is_python):
        raise RequestError(f"{part} contains a NUL byte, which no program can read.")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise RequestError(
            f"{part} contains half a character ({text[exc.start]!r}, at {exc.start}), which "
            "cannot be sent.",
            hint="Text must be valid Unicode; names of files that are not UTF-8 cannot be used.",
        ) from exc
