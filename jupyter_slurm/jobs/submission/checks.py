"""PURE. Reject values in a JobSpec that would not reach the job unchanged.

Kinds reject what they alone do not accept (`jobs/kinds`); `resolved.py` and `options.py` check
against profile, runtime and sbatch's tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from jupyter_slurm.errors import RequestError
from jupyter_slurm.formatting import brief
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.transport.files.ignore import Patterns
from jupyter_slurm.wire import JobSpec

_ID = re.compile(r"[a-z2-7]{8}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS = re.compile(
    r"_|PWD|OLDPWD|OPTIND|E?UID|PPID|GROUPS|S?RANDOM|SECONDS|EPOCH(SECONDS|REALTIME)|LINENO|SHLVL"
    r"|FUNCNAME|DIRSTACK|HISTCMD|SHELLOPTS|BASH(?!_ENV$).*"
)
"""Variables that dash or bash set, protect or evaluate."""
_PARTS = {"code": "The cell", "cwd": "The folder"}
"""Names of a spec's fields for users."""
_LONGEST_VALUE_BYTES = 128 * 1024
"""MAX_ARG_STRLEN of Linux, for `NAME=value` and the NUL behind it (execve(2))."""
_LARGEST_ENVIRONMENT_BYTES = 1024 * 1024
"""Half of execve(2)'s limit with an 8 MiB stack, since the node adds variables."""


def check_spec(spec: JobSpec) -> None:
    """Check the spec. RequestError names the invalid part and the remedy."""
    kind = kind_of(spec)
    for what, text in _texts(msgspec.structs.asdict(spec), ""):
        _check_text(what, text, kind)
    if not _ID.fullmatch(spec.id):
        raise RequestError(f"{brief(spec.id)!r} is not a job ID of eight characters a-z and 2-7.")
    if not _NAME.fullmatch(spec.name):
        raise RequestError(
            f"{brief(spec.name)!r} is not a valid job name.",
            hint="Use at most 64 letters, digits, `.`, `_` and `-`.",
            option="name",
        )
    _check_files(spec)
    kind.check(spec)


def _check_files(spec: JobSpec) -> None:
    if spec.push is not None and not spec.push.startswith("/"):
        raise RequestError(f"--push {spec.push!r} is not the absolute path of a local folder.")
    if spec.push_exclude:
        _check_exclusion(spec)
    if spec.fetch and (spec.fetch_to is None or not spec.fetch_to.startswith("/")):
        raise RequestError("--fetch needs the absolute path of a local target folder.")
    for pattern in spec.fetch:
        if not pattern.strip() or ".." in pattern.split("/"):
            raise RequestError(
                f"--fetch {pattern!r} does not match files in the job's working directory.",
                hint="Use .gitignore patterns: results/**, *.png, /model.pt.",
            )


def _check_exclusion(spec: JobSpec) -> None:
    if spec.push is None:
        raise RequestError("--push-exclude needs --push DIR.")
    for pattern in spec.push_exclude:
        if not pattern.strip():
            raise RequestError("--push-exclude: a pattern is empty.")
    Patterns(spec.push_exclude, "--push-exclude")


def check_environment(env: Mapping[str, str]) -> None:
    """Raise RequestError for a variable that would not reach the program unchanged."""
    total_bytes = 0
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            raise RequestError(
                f"{name!r} is not a valid name of an environment variable.", option="env"
            )
        if _SHELLS.fullmatch(name):
            raise RequestError(
                f"Cannot set the environment variable {name}: the node's shell uses it.",
                hint="Use another name.",
                option="env",
            )
        size_bytes = len(f"{name}={value}".encode()) + 1
        total_bytes += size_bytes
        if size_bytes > _LONGEST_VALUE_BYTES or total_bytes > _LARGEST_ENVIRONMENT_BYTES:
            raise RequestError(
                f"The environment variable {name} makes the environment too large: Linux allows "
                "128 KiB for one variable, and we allow 1 MiB for all.",
                hint="Pass large values as variables (--in) or in a file.",
                option="env",
            )


def _texts(value: Any, what: str) -> Iterator[tuple[str, str]]:
    """Yield every string in a value and its place: `code`, `env A`."""
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
        raise RequestError(f"{part} contains a NUL byte.")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise RequestError(
            f"{part} contains half a character ({text[exc.start]!r}, at {exc.start}), which "
            "cannot be sent.",
            hint="Use valid Unicode. File names must be UTF-8.",
        ) from exc
