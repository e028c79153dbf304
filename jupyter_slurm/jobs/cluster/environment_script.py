"""The plan, script and failure messages for installing a job's packages. No I/O.

The folder `envs/` in `job_root` contains for each environment:

    ID                  a link to the environment's folder, created once the folder is complete
    ID-HOST-PID         the folder, which never moves, because scripts in it contain the path
    ID/about.json       the facts that `%slurm env` lists
    ID/machine          the processor architecture of the machine that installed it
    ID/used             a file that each job touches when it starts in the environment
    .ID.lock            a lock, held during the installation
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import dataclass

from jupyter_slurm.containers.tool_errors import uncoloured
from jupyter_slurm.errors import RequestError
from jupyter_slurm.formatting import brief, visible
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.wire import Environment

_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,. -]*\])?(?:\s*[<>=!~]=?=?\s*[^\s;@#]+)?")
"""A pattern for the name and version of a requirement. It leaves out a URL, which may contain a
password."""
_DETAIL_LINES = 12
_OURS = "jupyter-slurm: "


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The login node's programs for installing packages. The field of a missing program is ""."""

    python: str
    """The version of Python, such as 3.11.2."""
    executable: str
    machine: str
    """The processor architecture, as `uname -m` prints it."""
    uv: str
    conda: str
    """The path of micromamba, mamba or conda."""


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """An environment to install, with its path, tool and packages."""

    id: str
    root: str
    """The folder of all environments."""
    tool: str
    """`uv`, `pip`, `conda`, `mamba` or `micromamba`."""
    program: str
    """The path of the tool, or of Python for pip."""
    toolchain: Toolchain
    environment: Environment
    packages: tuple[str, ...]
    """The packages of `Environment.packages`, and those that the kind of job needs."""

    @property
    def path(self) -> str:
        return f"{self.root}/{self.id}"

    @property
    def record(self) -> str:
        """Return the path of `about.json`, which exists once the environment is complete."""
        return f"{self.path}/about.json"

    @property
    def python(self) -> str:
        return f"{self.path}/bin/python"

    @property
    def setup(self) -> tuple[str, ...]:
        """Return the lines of the job's script that activate the environment."""
        path = shlex.quote(self.path)
        gone = f"{_OURS}the environment {self.id} is not on this node, or was removed"
        other = (
            f"{_OURS}the environment {self.id} is for a different processor; set "
            "`install_on` in the cluster's profile"
        )
        lines = [
            f'case "$(cat {path}/machine 2>/dev/null)" in "$(uname -m)") ;; '
            f"'') echo {shlex.quote(gone)} >&2; false ;; "
            f"*) echo {shlex.quote(other)} >&2; false ;; esac",
            f"touch -c {path}/used 2>/dev/null || :",
            f'unset PYTHONHOME; export VIRTUAL_ENV={path} PATH={path}/bin:"$PATH"',
        ]
        if self.environment.source == "conda":
            lines.append(
                f"unset VIRTUAL_ENV; export CONDA_PREFIX={path}; "
                f'for one in {path}/etc/conda/activate.d/*.sh; do [ ! -r "$one" ] || . "$one"; done'
            )
        return tuple(lines)


def planned(
    environment: Environment,
    needed: tuple[str, ...],
    toolchain: Toolchain,
    root: str,
    profile: ClusterProfile,
) -> EnvironmentPlan:
    """Plan a job's environment, with the packages that the job's kind needs. Raise RequestError if
    the login node cannot install it."""
    if environment.source == "conda":
        program, tool = toolchain.conda, toolchain.conda.rpartition("/")[2]
        built_by: list[str] = []
        missing = "micromamba, mamba or conda"
    else:
        program, tool = toolchain.uv, "uv"
        if not program:
            program, tool = toolchain.executable, "pip"
        built_by = [toolchain.python, toolchain.executable]
        missing = "Python"
    if not program or not (environment.source == "conda" or toolchain.executable):
        raise RequestError(
            f"Cannot install packages on {profile.name}: its login node does not have {missing}.",
            hint="Load a module that provides it (`--module`), or set `python` or `setup` in the "
            "cluster's profile.",
            option="with",
        )
    packages = tuple(dict.fromkeys((*environment.packages, *needed)))
    content = [1, environment.source, environment.text, environment.project, packages]
    # Include `install_on`, because a node's processor may differ from the login node's.
    made_by = [tool, built_by, toolchain.machine, profile.install_on]
    digest = hashlib.sha256(json.dumps([content, made_by]).encode()).hexdigest()
    return EnvironmentPlan(digest[:10], root, tool, program, toolchain, environment, packages)


PROBE = r"""
say() { printf 'jupyter-slurm %s=%s\n' "$1" "$2"; }
say python "$("$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)"
say executable "$("$1" -c 'import sys; print(sys.executable)' 2>/dev/null)"
say machine "$(uname -m)"
first() {
  for one; do
    one=$(command -v "$one") && case $one in /*) echo "$one"; break ;; esac
  done
}
say uv "$(first uv ~/.local/bin/uv)"
say conda "$(first micromamba mamba conda "${MAMBA_EXE:-}" "${CONDA_EXE:-}")"
"""
"""POSIX sh that prints a `Toolchain`; $1 is the profile's Python."""


def parse_toolchain(output: str) -> Toolchain:
    """Parse the output of `PROBE`, which may follow output of the login files."""
    found = dict(re.findall(r"^jupyter-slurm (\w+)=(.*)$", output, re.MULTILINE))
    names = ("python", "executable", "machine", "uv", "conda")
    return Toolchain(*(found.get(name, "") for name in names))


# --- the script -------------------------------------------------------------------------------


def render(plan: EnvironmentPlan) -> str:
    """Return the script that installs the packages. The script also exits with 0 if the environment
    already exists."""
    environment = plan.environment
    own = "".join(f"{one}\n" for one in plan.packages)
    match environment.source:
        case "requirements":
            files = {"requirements.txt": environment.text + own}
        case "uv.lock":
            files = {"uv.lock": environment.text, "pyproject.toml": environment.project}
        case "conda":
            files = {"environment.yml": environment.text}
    if environment.source != "requirements":
        files["packages.txt"] = own
    is_conda = environment.source == "conda"
    about = {
        "packages": _asked(plan),
        "file": environment.file and environment.file.rpartition("/")[2],
        "tool": plan.tool,
        "python": "" if is_conda else plan.toolchain.python,
    }
    return _FRAME.format(
        root=shlex.quote(plan.root),
        id=plan.id,
        program=shlex.quote(plan.program),
        python=shlex.quote(plan.toolchain.executable),
        tool=plan.tool,
        files="".join(
            f'printf %s {shlex.quote(text)} >"$work"/{name} || exit 74\n'
            for name, text in files.items()
        ),
        text=shlex.quote(_SAY + _text(plan)),
        about=shlex.quote(json.dumps(about).removesuffix("}")),
    )


def _text(plan: EnvironmentPlan) -> str:
    """Return sh text for `sh -e` that creates the environment `$new`."""
    by_uv = plan.tool == "uv"
    install = '"$program" pip install --python "$new/bin/python"' if by_uv else _PIP
    more = f'{install} -r "$work/packages.txt"\n' if plan.packages else ""
    match plan.environment.source:
        case "requirements":
            make = _UV_VENV if by_uv else _VENV
            return f'{make}{_INSTALLING}{install} -r "$work/requirements.txt"\n'
        case "uv.lock":
            return f"{'' if by_uv else _VENV_WITH_UV}{_INSTALLING}{_UV_SYNC}{more}"
        case "conda":
            make = '"$program" create' if plan.tool == "micromamba" else '"$program" env create'
            return f'{_INSTALLING}{make} -p "$new" -f "$work/environment.yml"\n{more}'


_SAY = """say() { printf 'jupyter-slurm: %s\\n' "$*"; }
"""
_INSTALLING = """say "Installing the packages"
"""
_PIP = '"$new/bin/python" -I -m pip install --disable-pip-version-check --no-input --no-user'
_UV_VENV = """say "Creating an environment with uv"
"$program" venv --quiet --python "$python" "$new"
"""
_VENV = """say "Creating an environment"
"$python" -m venv "$new" || { rm -rf -- "$new"; "$python" -m virtualenv "$new"; }
"""
_VENV_WITH_UV = f"""{_VENV}{_PIP} uv
program=$new/bin/uv
"""
_UV_SYNC = """cd -- "$work"
UV_PROJECT_ENVIRONMENT=$new "$program" sync --frozen --inexact --no-dev --no-install-project \\
  --no-install-workspace --python "$python"
cd -- /
"""

_FRAME = """#!/bin/sh
# Written by jupyter-slurm: installs packages for jobs.
root={root} id={id} program={program} python={python}
say() {{ printf 'jupyter-slurm: %s\\n' "$*"; }}
(umask 077; mkdir -p -- "$root") && cd -- "$root" || exit 74
# Run one installation of an environment at a time. Without file locks, several may run at once.
# Each creates a complete environment, and the last replaces the others.
exec 9>".$id.lock"
alone=
if command -v flock >/dev/null; then
  flock -n 9
  case $? in
    0) alone=1 ;;
    1) say "Another job is installing the packages; waiting for it"; flock 9 && alone=1 ;;
  esac
fi
if [ -e "$id/about.json" ]; then
  say "The packages are in $root/$id"
  exit 0
fi
# Remove the leftovers of a killed job.
[ -z "$alone" ] || rm -rf -- "$id"-* ".$id"-*
unique=$id-$(uname -n)-$$
new=$root/$unique work=$root/.$unique
trap 'rm -rf -- "$work"; [ "$(readlink -- "$id")" = "$unique" ] || rm -rf -- "$new"' EXIT
(umask 077; mkdir -- "$work") || exit 74
{files}export CONDA_ALWAYS_YES=true MAMBA_ALWAYS_YES=true new work program python
# In a job, Slurm signals only this script, which then signals the tool's process group. Elsewhere,
# the whole process group gets the signal.
[ -n "$SLURM_JOB_ID" ] && command -v setsid >/dev/null && apart=setsid || apart=
$apart sh -e -c {text} 9>&- &
maker=$!
stop() {{ kill -TERM "-$maker" 2>/dev/null || kill -TERM "$maker" 2>/dev/null; }}
trap stop TERM INT HUP
while :; do
  wait "$maker"; rc=$?
  kill -0 "$maker" 2>/dev/null && continue
  wait "$maker" 2>/dev/null; last=$?
  case $last in 127 | -1) ;; *) rc=$last ;; esac
  break
done
trap '' TERM INT HUP
if [ "$rc" != 0 ]; then
  say "The packages were not installed: {tool} ended with exit code $rc"
  exit "$rc"
fi
uname -m >"$new/machine" && : >"$new/used" || exit 74
size=$(du -sk -- "$new" | cut -f1)
printf '%s, "made_s": %s, "size_kib": %s}}\\n' {about} "$(date +%s)" "${{size:-null}}" \\
  >"$new/about.json" || exit 74
rm -f -- ".$unique.link"
ln -s -- "$unique" ".$unique.link" && mv -Tf -- ".$unique.link" "$id" || exit 74
say "The packages are in $root/$id ($((${{size:-0}} / 1024)) MiB)"
"""


def _asked(plan: EnvironmentPlan) -> list[str]:
    """Return the requested packages, except those from a lock file or conda's environment.yml."""
    is_listed = plan.environment.source == "requirements"
    lines = plan.environment.text.splitlines() if is_listed else []
    named = (_named(line) for line in (*lines, *plan.packages))
    return [one for one in named if one]


def _named(line: str) -> str:
    found = _REQUIREMENT.match(line.strip())
    return found[0] if found else ""


# --- progress and failure ---------------------------------------------------------------------

_FAILED = re.compile(r"^jupyter-slurm: The packages were not installed: ", re.MULTILINE)
_NAME = r"[`'\"]?(?P<package>[A-Za-z0-9][^\s`'\",()]*?)[`'\",.:]*"
_NO_VERSION = (
    "Cannot install `{package}`: no version fits this Python, this processor and the other "
    "packages.",
    "Request another version, or set another `python` in the cluster's profile.",
)
_NO_PACKAGE = (
    "Cannot install `{package}`: the package index does not have it.",
    "Check the package's name, or set your own index in `setup` of the cluster's profile: "
    "`export UV_DEFAULT_INDEX=… PIP_INDEX_URL=…`.",
)
_NOT_BUILT = (
    "Cannot install `{package}`: its compilation failed.",
    "Request a version that has a wheel, or load a compiler with `--module`.",
)
_CONFLICT = (
    "Cannot install {package}: their requirements conflict.",
    "Request other versions of these packages.",
)
_ROWS = tuple(
    (re.compile(pattern), *told)
    for pattern, told in (
        (
            r"(?i)no space left on device|quota exceeded",
            (
                "Cannot install the packages: the disk or your quota is full.",
                "Remove environments (`%slurm env rm`), or set `job_root` in the cluster's "
                "profile.",
            ),
        ),
        (
            r"(?i)dns error|name resolution|name or service not known|network is unreachable"
            r"|connection (?:refused|timed out|reset)|NewConnectionError|ConnectTimeout"
            r"|CondaHTTPError|error sending request|SSLError|SSL_ERROR|could not resolve host",
            (
                "Cannot install the packages: the package index is unreachable.",
                'Set `install_on` in the cluster\'s profile to "login" or "job", or set a mirror '
                "in its `setup`: `export UV_DEFAULT_INDEX=… PIP_INDEX_URL=…`.",
            ),
        ),
        (
            r"ensurepip is not available|No module named '?(?:venv|ensurepip)",
            (
                "Cannot install the packages: this Python cannot create virtual environments.",
                "Install uv on the cluster (`pip install --user uv`), or load a module with "
                "another Python (`--module`).",
            ),
        ),
        (rf"ecause {_NAME} was not found in the (?:package registry|provided)", _NO_PACKAGE),
        (
            r"from versions: none\) ERROR: No matching distribution found for "
            rf"{_NAME}(?: |$)",
            _NO_PACKAGE,
        ),
        (rf"No matching distribution found for {_NAME}(?: |$)", _NO_VERSION),
        (rf"[Tt]here (?:is|are) no versions? of {_NAME}(?: |$)", _NO_VERSION),
        (rf"ecause (?:only )?(?:all versions of )?{_NAME} (?:is|are) available and ", _NO_VERSION),
        (
            rf"Failed to (?:build|download and build) {_NAME}(?: |$)|Failed building wheel for "
            r"(?P<wheel>\S+)|Failed to build installable wheels for .*?\((?P<wheels>[^)]+)\)",
            _NOT_BUILT,
        ),
        (r"Cannot install (?P<package>.+?) because these package versions", _CONFLICT),
        (
            r"(?:ecause|cause: you require) (?P<package>.+?), "
            r"(?:which are incompatible|we can conclude that your requirements are unsat)",
            _CONFLICT,
        ),
        (
            r"(?:PackagesNotFoundError|ResolvePackageNotFound):.*? - (?P<package>\S+)"
            r"|nothing provides (?:requested )?(?P<wheel>\S+)"
            r"|(?:─|-) (?P<wheels>\S+) .{0,40}does not exist",
            _NO_PACKAGE,
        ),
        (
            r"Invalid requirement: ['\"]?(?P<package>[^'\":]+)",
            ("`{package}` is not a valid requirement.", "Use pip's format: `NAME==VERSION`."),
        ),
    )
)


def failure(log_tail: str) -> tuple[str, str] | None:
    """Return the reason for a failed installation, and a hint, from the end of the job's log.
    Return None if the log does not show a failure."""
    if not _FAILED.search(log_tail):
        return None
    words = " ".join(uncoloured(log_tail).split())
    for pattern, sentence, hint in _ROWS:
        if found := pattern.search(words):
            names = (one for one in found.groupdict().values() if one)
            return visible(sentence.format(package=brief(next(names, "")))), hint
    return "Cannot install the packages.", "See the tool's messages in the job's output."


def detail(log_tail: str) -> str:
    """Return the last lines that the tool itself printed."""
    return "\n".join(_lines_of_tool(log_tail)[-_DETAIL_LINES:])


def progress(log_tail: str) -> str:
    """Return the last line of the log, without the prefix `jupyter-slurm: `; "" if the log is
    empty."""
    lines = [visible(one) for one in uncoloured(log_tail).splitlines() if one.strip()]
    return brief(lines[-1].removeprefix(_OURS).strip()) if lines else ""


def _lines_of_tool(log_tail: str) -> list[str]:
    lines = uncoloured(log_tail).splitlines()
    return [visible(one) for one in lines if one.strip() and not one.startswith(_OURS)]
