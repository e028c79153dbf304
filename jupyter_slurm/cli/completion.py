"""Completion in shells, by argcomplete. It does not start an agent or log in."""

from __future__ import annotations

from collections.abc import Iterable

from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.cli.say import say
from jupyter_slurm.commands.arguments import Completer, choices, completing_parser
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.wire import Job, JobKind


def completion(_caller: TerminalCaller, args: Arguments) -> None:
    """Print the shell script that enables completion."""
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - needed for completion only

    if args.shell == "zsh":
        say("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n")
    say(shellcode(["jupyter", "jupyter-slurm"], shell=args.shell))


def complete() -> None:
    """Print completions for the shell's command line, and exit."""
    import argcomplete  # noqa: PLC0415

    argcomplete.autocomplete(
        completing_parser("terminal", _completer),
        always_complete_options=False,
        print_suppressed=True,
    )


def _completer(of: str) -> Completer:
    if of in ("path", "push", "fetch", "mount", "chdir"):
        from argcomplete.completers import FilesCompleter  # noqa: PLC0415

        files: Completer = FilesCompleter()
        return files
    return lambda **_: _values(of)


def _values(of: str) -> Iterable[str]:
    """Return the names that are known locally."""
    from jupyter_slurm.profiles.reading import load_profiles  # noqa: PLC0415

    match of:
        case "cluster":
            return [profile.name for profile in load_profiles()]
        case "job":
            return [job.id for job in _jobs()]
        case "node":
            live = [job for job in _jobs() if not job.state.final]
            return dict.fromkeys(node for job in live for node in job.nodes)
        case "session" | "lab":
            kind = JobKind(of)
            found = [job for job in _jobs() if job.kind is kind and not job.state.final]
            return dict.fromkeys(job.name for job in found)
        case _:
            return choices(of)


def _jobs() -> list[Job]:
    """Return the agent's jobs. Return [] if the agent is not running, because starting an agent is
    slow."""
    from jupyter_slurm.client import find  # noqa: PLC0415

    client = find()
    return [] if client is None else client.jobs()
