"""Settings for a new cluster: its host, and proposals derived from its description. No I/O:
`clusters add` and JupyterLab's dialog ask for the settings, and `profiles.save` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from jupyter_slurm import containers
from jupyter_slurm.errors import ConfigError, RequestError
from jupyter_slurm.wire import Description, Folder, Partition

if TYPE_CHECKING:  # these modules read and write files
    from jupyter_slurm.profiles.save import Setting
    from jupyter_slurm.profiles.templates import Template

_ADDRESS = re.compile(
    r"(?:(?P<user>.+)@)?(?P<host>[^@:\[\]\s]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>\d+))?"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_JOBS = ".jupyter-slurm/jobs"


def way(
    address: str, user: str = "", port: int | None = None, jump: Sequence[str] = ()
) -> dict[str, Setting]:
    """Return the settings for connecting to `address`, `[user@]host[:port]`. Raises
    RequestError."""
    if not address:
        raise RequestError("The host is missing.", option="host")
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise RequestError(f"`{address}` is not [user@]host[:port].", option="host")
    found: dict[str, Setting] = {
        "host": match["host"].strip("[]"),
        "user": user or match["user"] or "",
        "jump": tuple(jump),
    }
    if port is None and match["port"] is not None:
        port = int(match["port"])
    return found if port is None else {**found, "port": port}


def commands(folders: Sequence[str], pairs: Sequence[str]) -> dict[str, Setting]:
    """Return the settings for Slurm's commands: folders not on PATH, and variables. Raise
    RequestError if a variable is not NAME=VALUE."""
    given = [pair for pair in pairs if pair.strip()]
    for pair in given:
        if not _VARIABLE.match(pair):
            raise RequestError(f"`{pair}` is not NAME=VALUE.", option="env")
    env = dict(pair.split("=", 1) for pair in given)
    return {"path": tuple(filter(None, folders)), "env": env}


def by_template(
    template: Template, given: Mapping[str, Setting], answers: Mapping[str, str]
) -> dict[str, Setting]:
    """Return the settings that differ from the template: the given settings, and answers to the
    template's questions. Raise RequestError if an answer is missing."""
    variables, settings = {}, dict(given)
    for name, question in template.ask.items():
        if name in given:
            continue
        default = str(template.settings.get(name, ""))
        answer = answers.get(name, "") or default
        is_variable = name in template.variables()
        if not answer:
            raise RequestError(
                f"The template `{template.name}` needs {asked_by(template, name)}: {question}."
            )
        if is_variable:
            variables[name] = answer
        elif answer != default:
            settings[name] = _port(answer) if name == "port" else answer
    return {"template": template.name, **settings, "vars": variables}


def asked_by(template: Template, name: str) -> str:
    """Return the `clusters add` option that answers the template's question for `name`."""
    return f"--var {name}=VALUE" if name in template.variables() else f"--{name}"


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise RequestError(f"`{text}` is not a port number.")
    return int(text)


def gateways(text: str) -> tuple[str, ...]:
    """Return the jump hosts in a comma-separated text."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def check_slurm(found: Description) -> None:
    """Raise ConfigError if the login node does not have Slurm's commands."""
    if found.sbatch is None:
        raise ConfigError(
            "Slurm's commands were not found.",
            hint="Check that this is the login node. Set their folder with `--path DIR` of `%slurm "
            "clusters add`, or under *More* in JupyterLab's dialog.",
        )


def with_login_shell(way: Mapping[str, Setting], found: Description) -> dict[str, Setting]:
    """Return the settings, with `login_shell = false` if the login files would end each job."""
    return {**way, **({} if found.login_shell else {"login_shell": False})}


def runtimes(found: Description) -> list[str]:
    """Return the container runtimes, best first, and `none`."""
    return [name for name in containers.RUNTIMES if name in found.runtimes] + ["none"]


def job_roots(folders: Sequence[Folder]) -> list[str]:
    """Return proposals for `job_root`, each a private folder (0700) below a writable folder.
    Folders that all nodes share come first."""
    return list(_job_roots(folders)) or [f"~/{_JOBS}"]


def _job_roots(folders: Sequence[Folder]) -> Iterator[str]:
    writable = [folder for folder in folders if folder.writable]
    for folder in sorted(writable, key=lambda folder: not folder.shared):
        yield f"~/{_JOBS}" if folder.name == "$HOME" else f"{folder.path}/{_JOBS}"


def partition(partitions: Sequence[Partition]) -> str:
    """Return the default partition for jobs; "" if Slurm has its own default."""
    if any(one.default for one in partitions):
        return ""
    return next((one.name for one in partitions if one.up), "")


def chosen(runtime: str, job_root: str, partition: str, account: str) -> dict[str, Setting]:
    """Return the settings of a new profile, except those for connecting. Raise RequestError if
    `runtime` is unknown."""
    containers.runtime_named(runtime)
    named = {"partition": partition, "account": account}
    return {
        "runtime": runtime,
        "job_root": job_root,
        "defaults": {key: value for key, value in named.items() if value},
    }
