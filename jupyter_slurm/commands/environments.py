"""The packages of `--with`, `--requirements` and `--with-mine` as an `Environment`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jupyter_slurm.commands import packages_here
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.formatting import brief
from jupyter_slurm.wire import Environment

_PART = re.compile(r"(?:\[[^\]]*\]|,(?!\s*[A-Za-z0-9])|[^,\[])+")
"""A pattern for one requirement in a list. The requirement includes commas within brackets or
before an operator."""
_PACKAGE = re.compile(r"[A-Za-z0-9].*", re.DOTALL)
_SCRIPT = re.compile(r"(?m)^# /// script\s*$\s(?P<text>(?:^#(?:| .*)$\s)+)^# ///$")
"""A pattern for the header of a script (the regular expression in PEP 723)."""
_LOCAL = re.compile(
    r"-(?:r|c|e)\b|--(?:requirement|constraint|editable)\b|[./~]|(?:\S+\s*@\s*)?file:|.*\.whl$"
)
"""A pattern for a requirement that names another local file."""
_FORMS = (
    "Name a requirements.txt, a pyproject.toml, a uv.lock, a Python file with a PEP 723 header, or "
    "conda's environment.yml."
)


def asked(with_: Sequence[str], file: str | None, *, mine: bool) -> Environment | None:
    """Return the environment that the options request, without reading its file; None if they do
    not request one. Raises RequestError."""
    if file is not None and mine:
        raise RequestError(
            "--requirements and --with-mine exclude each other.", option="requirements"
        )
    parts = (part.strip() for value in with_ for part in _PART.findall(value))
    packages = tuple(dict.fromkeys(filter(None, parts)))
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise RequestError(
                f"--with: `{brief(package)}` is not the name of a package.",
                hint="Give names, separated by commas: `--with polars,torch==2.9`.",
                option="with",
            )
    if not packages and file is None and not mine:
        return None
    return Environment(packages=packages, file=file, mine=mine)


def read(environment: Environment, here: Path) -> Environment:
    """Return the environment with the text of its file, or with this Python's packages. The file's
    path is relative to the folder `here`. Raises NotFoundError, or RequestError if the file cannot
    be used."""
    if environment.mine:
        return _mine(environment)
    if environment.file is None:
        return environment
    path = (here / Path(environment.file).expanduser()).absolute()
    environment = msgspec.structs.replace(environment, file=str(path))
    text = _text(path)
    if path.name == "uv.lock":
        project = path.with_name("pyproject.toml")
        return msgspec.structs.replace(
            environment, source="uv.lock", text=text, project=_text(project)
        )
    if path.suffix in (".yml", ".yaml"):
        return msgspec.structs.replace(environment, source="conda", text=text)
    if path.suffix == ".toml":
        lines = _of_project(path, _toml(path, text))
    elif path.suffix == ".py":
        lines = _of_script(path, text)
    elif path.suffix in (".txt", ".in"):
        lines = text.splitlines()
    else:
        raise RequestError(f"--requirements cannot use {path}.", hint=_FORMS, option="requirements")
    _check(path, lines)
    return msgspec.structs.replace(environment, text="".join(f"{line}\n" for line in lines))


def _mine(environment: Environment) -> Environment:
    found = packages_here.read()
    lines = found.pip
    if found.conda:
        named = [f"- {one}" for one in (f"python={found.python}", *found.conda)]
        by_pip = ["- pip", "- pip:", *(f"  - {one}" for one in found.pip)] if found.pip else []
        lines = ("dependencies:", *named, *by_pip)
    return msgspec.structs.replace(
        environment,
        source="conda" if found.conda else "requirements",
        text="".join(f"{line}\n" for line in lines),
        left_out=found.left_out,
    )


def _text(path: Path) -> str:
    if not path.is_file():
        raise NotFoundError(f"--requirements: file {path} not found.", option="requirements")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise RequestError(
            f"--requirements: cannot read {path}: {exc}.", option="requirements"
        ) from exc


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise RequestError(
            f"--requirements: {path} is not valid TOML: {exc}.", option="requirements"
        ) from exc


def _of_project(path: Path, content: dict[str, Any]) -> list[str]:
    project = content.get("project")
    found = project.get("dependencies") if isinstance(project, dict) else None
    return _listed(path, found, "list `dependencies` in [project]")


def _of_script(path: Path, text: str) -> list[str]:
    header = _SCRIPT.search(text)
    if header is None:
        raise RequestError(
            f"--requirements: {path} does not have a PEP 723 header (`# /// script`).",
            hint=_FORMS,
            option="requirements",
        )
    lines = (line.removeprefix("#").removeprefix(" ") for line in header["text"].splitlines())
    content = _toml(path, "\n".join(lines))
    return _listed(path, content.get("dependencies"), "list `dependencies` in its header")


def _listed(path: Path, found: object, where: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise RequestError(
            f"--requirements: {path} does not have a {where}.", hint=_FORMS, option="requirements"
        )
    return found


def _check(path: Path, lines: Iterable[str]) -> None:
    """Raise RequestError for a line that names another file, because the cluster does not have
    it."""
    for line in lines:
        if _LOCAL.match(line.strip()):
            raise RequestError(
                f"--requirements: {path} uses another file: `{brief(line.strip())}`.",
                hint="Write all requirements into one file. Send your own code with `--push DIR`.",
                option="requirements",
            )
