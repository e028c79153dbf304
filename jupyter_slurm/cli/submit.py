"""The commands `submit`, `attach`, `logs` and `image build`, which read files or print output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from jupyter_slurm.api import Api
from jupyter_slurm.cli import follow
from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.cli.say import remark
from jupyter_slurm.commands import headless
from jupyter_slurm.commands.functions import (
    build_image,
    submitted,
    warn_ended_earlier,
    with_session,
)
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.commands.submitting import IMAGE_BUILD
from jupyter_slurm.commands.values import Started
from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.jobs.preflight import syntax
from jupyter_slurm.slurm.directives import has_directives, ignored_directive
from jupyter_slurm.wire import CellSpec, JobSpec, Preview, new_id


def submit(caller: TerminalCaller, args: Arguments) -> Preview | Started:
    """Submit a file."""
    file, request = Path(args.file), headless.request(args.words)
    if not file.is_file():
        raise NotFoundError(f"File {file} not found.")
    if request.session is not None:
        request = with_session(caller, request, request.session)
    text = _read(file)
    spec = headless.file_spec(
        file, str(file.resolve()), text, request, job_id=new_id(), arguments=args.rest
    )
    if isinstance(spec, CellSpec):
        _check_syntax(caller.api, file, text, spec)
        _remark_on_directives(file, text)
    made = submitted(caller, spec, request)
    return made if isinstance(made, Preview) else Started(made, request)


def attach(caller: TerminalCaller, args: Arguments) -> int:
    """Show all of a job's output, and wait for its end."""
    job = caller.api.job(args.id)
    warn_ended_earlier(caller, job, args.id)
    return follow.attach(caller.api, job)


def logs(caller: TerminalCaller, args: Arguments) -> None:
    """Print the job's stdout and stderr; with `--follow`, until the job ends."""
    job = caller.api.job(args.id)
    warn_ended_earlier(caller, job, args.id)
    print_text = follow.print_all_text if args.follow else follow.print_text
    print_text(caller.api, job, args.task)


def image_build(caller: TerminalCaller, args: Arguments) -> str | Started:
    """Build the recipe of FILE or standard input."""
    if args.file in (None, "-"):
        if args.file is None and (args.env_from_here or sys.stdin.isatty()):
            if not args.env_from_here:
                usage = IMAGE_BUILD.usage("terminal")
                raise RequestError("The recipe is missing.", hint=f"`%slurm {usage}`")
            recipe = ""
        else:
            recipe = sys.stdin.read()
        return build_image(caller, IMAGE_BUILD, args, recipe, Path.cwd())
    path = Path(args.file)
    if not path.is_file():
        raise NotFoundError(f"File {path} not found.")
    recipe = path.read_text(encoding="utf-8", errors="replace")
    return build_image(caller, IMAGE_BUILD, args, recipe, path.absolute().parent)


def _check_syntax(api: Api, file: Path, text: str, spec: JobSpec) -> None:
    """Raise CodeError, or warn, if the file does not compile."""
    error = syntax.fault_of_file(file, text)
    if error is not None:
        remark(syntax.check(error, text, spec, api))


def _remark_on_directives(file: Path, text: str) -> None:
    """Warn about `#SBATCH` lines that do not apply."""
    if has_directives(text):
        remark(
            f"{file} does not start with `#!`, so its #SBATCH lines do not apply. Start the file "
            "with `#!/usr/bin/env python3`."
        )
    elif line := ignored_directive(text):
        remark(
            f"`{line}` follows the first command, so it does not apply. Move it to the top of "
            f"{file}."
        )


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise RequestError(f"{file} is not UTF-8 text (byte {exc.start}).") from exc
    except OSError as exc:
        raise RequestError(f"Cannot read {file}: {exc.strerror}.") from exc


COMMANDS: Mapping[str, Callable[[TerminalCaller, Arguments], object]] = MappingProxyType(
    {"submit": submit, "attach": attach, "logs": logs, "image build": image_build}
)
