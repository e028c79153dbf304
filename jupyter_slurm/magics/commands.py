"""The functions of the magics: `%slurm WORD …`, `%%slurm` and similar, and Slurm's own commands.

`commands/functions.py` has the commands shared with the terminal; this module has the others.
`cell.py` runs cells.
"""

from __future__ import annotations

import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from IPython.core.error import UsageError

from jupyter_slurm.commands import functions
from jupyter_slurm.commands.arguments import find, read_arguments
from jupyter_slurm.commands.line import parse
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.commands.shell import command_line
from jupyter_slurm.commands.shell import parse as parse_shell
from jupyter_slurm.commands.submitting import IMAGE_CELL
from jupyter_slurm.errors import CodeError, CommandError, RequestError, VariableError
from jupyter_slurm.job import read_whole_log
from jupyter_slurm.magics import cell, manual
from jupyter_slurm.magics.completion import Completions
from jupyter_slurm.magics.frontend import in_place, warn
from jupyter_slurm.magics.show import show
from jupyter_slurm.magics.state import MagicsState
from jupyter_slurm.magics.table import SlurmText, read
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.views.card import title
from jupyter_slurm.wire import ScriptSpec

_R = TypeVar("_R")


def run(state: MagicsState, words: Sequence[str]) -> object:
    """Return the value of a `%slurm` line. An empty line shows the queue."""
    if not words:
        return show_queue(state)
    command, behind = find(list(words), "notebook")
    value = COMMANDS[command.name](state, read_arguments(command, behind, "notebook"))
    return show(state, value)


def show_queue(state: MagicsState) -> object:
    """Return the live queue if the front end is a notebook that supports it, otherwise a table of
    jobs."""
    if not in_place():
        return functions.list_jobs(state, Arguments(cluster=None))
    from jupyter_slurm.magics.queue_widget import QueueWidget  # noqa: PLC0415 - imports ipywidgets

    return QueueWidget(state.agent, state.cluster)


def build_image(state: MagicsState, line: str, recipe: str) -> object:
    """Build an image from a cell. The recipe's files are in the notebook's folder or, if that is
    unknown, in the kernel's working directory."""
    args = read_arguments(IMAGE_CELL, state.words(line), "notebook")
    beside = Path(state.notebook or "").parent
    folder = beside if beside.is_absolute() and beside.is_dir() else Path.cwd()
    return show(state, functions.build_image(state, IMAGE_CELL, args, recipe, folder))


def _shell(state: MagicsState, args: Arguments) -> str | None:
    """Open a shell in IPython's own terminal. In a notebook, return the command for a
    terminal."""
    before = state.with_defaults(())
    wanted = parse_shell(args, before)
    if in_place():
        words = command_line(args, before)
        return f"A notebook has no terminal. Open a terminal and type `{words}`."
    # Front ends usually share only `Api`, but the notebook and the terminal open a shell in the
    # same way.
    from jupyter_slurm.cli.shell import prepared  # noqa: PLC0415

    argv = prepared(state.api, wanted, wanted.request.cluster)
    interrupted = signal.signal(signal.SIGINT, lambda *_: None)  # the shell handles Ctrl-C
    try:
        subprocess.run(argv, check=False)
    finally:
        signal.signal(signal.SIGINT, interrupted)
    return None


def _use(state: MagicsState, args: Arguments) -> str:
    cluster, options = args.name, args.words
    known = [one.name for one in state.api.clusters()]
    if cluster not in known:
        near = suggest(cluster, tuple(known))
        raise RequestError(
            f"Unknown cluster `{cluster}`.",
            hint=f"Did you mean `{near}`?" if near in known else f"Use {', '.join(known)}.",
        )
    parse(options)
    state.use(cluster, options)
    return (
        f"Cells go to {cluster} with {' '.join(options)}." if options else f"Cells go to {cluster}."
    )


def _use_session(state: MagicsState, args: Arguments) -> str:
    job = functions.session_named(state, args.name, args.cluster)
    state.used_session = job
    return f"`%%slurm --session` cells go to {title(job)}, which is {job.state.word}."


def _logs(state: MagicsState, args: Arguments) -> str:
    job = state.api.job(args.id)
    functions.warn_ended_earlier(state, job, args.id)
    if args.to is None:
        return _last(state, job.id, args.lines, args.task)
    path = Path(args.to).expanduser()
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        for part in read_whole_log(state.api, job.id, args.task):
            file.write(part)
    return f"Written to {path}."


def _last(state: MagicsState, job_id: str, lines: int | None, task: int | None) -> str:
    """Return the last `lines` lines of the log; if `lines` is None, as many as a cell can show."""
    limit = state.output_limit_bytes
    kept: deque[str] = deque()
    size = left_out = 0
    for part in read_whole_log(state.api, job_id, task):
        kept.append(part)
        size += len(part)
        while size - len(kept[0]) >= limit:
            left_out += len(kept[0])
            size -= len(kept.popleft())
    text = "".join(kept)
    left_out += max(0, len(text) - limit)
    text = text[-limit:]
    if lines is not None:
        return "\n".join(text.rstrip("\n").split("\n")[-lines:])
    if left_out:
        warn(
            f"The first {left_out / 1e6:.1f} MB are omitted. Save the whole log with `%slurm logs "
            f"{job_id} --to FILE`."
        )
    return text.removesuffix("\n")


COMMANDS: Mapping[str, Callable[[MagicsState, Any], object]] = MappingProxyType(
    {
        **functions.FUNCTIONS,
        "use": _use,
        "session use": _use_session,
        "shell": _shell,
        "attach": lambda state, args: cell.attach(state, args.id),
        "logs": _logs,
        "tunnels": functions.list_tunnels,
        "help": lambda _state, _args: manual.line_help(),
    }
)
"""The functions of the commands, by command name."""


class Bodies:
    """The magics of one kernel."""

    def __init__(self, state: MagicsState) -> None:
        self._state = state
        self.completions = Completions(state)

    def run_line(self, name: str, line: str) -> object:
        """Run `%name line`."""
        if name == "slurm":
            return _usage(lambda: run(self._state, self._state.words(line)))
        if name == "salloc":  # it needs a terminal, and would block the kernel
            return _usage(lambda: run(self._state, [name]))
        return self._run_command(name, line)

    def run_cell(self, name: str, line: str, code: str) -> object:
        """Run `%%name line` over the cell `code`."""
        state = self._state
        match name:
            case "sbatch":
                return _usage(lambda: show(state, cell.run(state, line, code, ScriptSpec)))
            case "slurm_image":
                return _usage(lambda: build_image(state, line, code))
            case _:
                return _usage(lambda: show(state, cell.run(state, line, code)))

    def documentation(self, kind: str, name: str) -> str:
        """Return the text of `%name?` or `%%name?`."""
        match kind, name:
            case "line", "slurm" | "salloc":
                return manual.line_help()
            case "cell", "slurm":
                return manual.cell_help()
            case _, "sbatch":
                return manual.script_help()
            case _, "slurm_image":
                return manual.image_help()
            case _:
                return manual.command_help(name)

    def _run_command(self, command: str, line: str) -> SlurmText | None:
        """Run `%squeue` or another command of Slurm with its arguments as written."""
        argv = [command, *_usage(lambda: self._state.words(line))]
        output = self._state.api.command(argv, self._state.cluster)
        if output.returncode != 0:
            raise CommandError(
                f"`{command}` failed with exit code {output.returncode}.",
                detail=output.stderr or output.stdout,
            )
        if output.stderr.strip():
            warn(output.stderr.rstrip("\n"))
        return read(argv, output.stdout) if output.stdout.strip() else None


def _usage(call: Callable[[], _R]) -> _R:
    """Run `call`. Show an invalid line as a one-line error, as IPython's own magics do."""
    try:
        return call()
    except (CodeError, VariableError):
        raise
    except RequestError as exc:
        raise UsageError(" ".join(str(exc).split("\n"))) from None
