"""`jupyter slurm completion SHELL`: scripts that make Tab complete our words in bash, zsh and fish.

The shell calls this same command on each Tab. That starts nothing and logs in nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.say import say
from jupyter_slurm.commands import completing
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.jobs.kinds import jobs_of
from jupyter_slurm.profiles.reading import load_profiles
from jupyter_slurm.wire import Job, JobKind

_SCRIPTS: Mapping[str, str] = MappingProxyType(
    {
        "bash": """\
_jupyter_slurm() {
  if [ "$1" = jupyter ] && [ "${COMP_WORDS[1]}" != slurm ]; then
    [ -z "$_jupyter_before" ] || "$_jupyter_before" "$@"
    return
  fi
  local IFS=$'\\n'
  COMPREPLY=($(jupyter-slurm completion bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
_jupyter_before=$(complete -p jupyter 2>/dev/null | sed -n 's/.*-F \\([^ ]*\\) .*/\\1/p')
[ "$_jupyter_before" != _jupyter_slurm ] || _jupyter_before=
complete -o default -F _jupyter_slurm jupyter jupyter-slurm
""",
        "zsh": """\
_jupyter_slurm() {
  if [[ $service = jupyter && $words[2] != slurm ]]; then
    ${_jupyter_before:-_files}
    return
  fi
  local typed="${(j: :)words[1,CURRENT-1]} $PREFIX" found
  found=$(jupyter-slurm completion zsh "$typed" 2>/dev/null)
  if [[ -n $found ]]; then compadd -- ${(f)found}; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
[[ ${_comps[jupyter]} = _jupyter_slurm ]] || _jupyter_before=${_comps[jupyter]}
compdef _jupyter_slurm jupyter jupyter-slurm
""",
        "fish": """\
function __jupyter_slurm
    set -l found (jupyter-slurm completion fish (commandline -cp | string collect) 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c jupyter-slurm -f -a '(__jupyter_slurm)'
complete -c jupyter -n '__fish_seen_subcommand_from slurm' -f -a '(__jupyter_slurm)'
""",
    }
)


def completion(args: Arguments, _connect: Connect) -> int:
    """Print the script for the shell, or the completions of a line's last word."""
    if args.line is None:
        say(_SCRIPTS[args.shell])
        return 0
    words, last = completing.split(args.line)
    before = words[2:] if words[:1] == ["jupyter"] else words[1:]
    wanted = completing.in_line(before, last, "terminal")
    option, equals, begun = last.partition("=") if last.startswith("--") else ("", "", last)
    if equals:
        last = begun
    # bash treats the text after `=` as a word of its own.
    prefix = f"{option}=" if equals and args.shell != "bash" else ""
    for text in (*(word for word, _ in wanted.words), *_values(wanted.value)):
        if text.startswith(last):
            say(f"{prefix}{text}\n")
    return 0


def _values(of: str) -> Iterable[str]:
    """Return the names that are known without asking a cluster."""
    match of:
        case "cluster":
            return [profile.name for profile in load_profiles()]
        case "job":
            return [job.id for job in _jobs()]
        case "node":
            live = [job for job in _jobs() if not job.state.final]
            return dict.fromkeys(node for job in live for node in job.nodes)
        case "session" | "lab":
            found = jobs_of(JobKind(of), _jobs())
            return dict.fromkeys(job.name for job in found if not job.state.final)
        case _:
            return completing.choices(of)


def _jobs() -> list[Job]:
    """Return the agent's jobs; [] if it does not run, since starting it takes long."""
    from jupyter_slurm.client import find  # noqa: PLC0415 - most words do without

    client = find()
    return [] if client is None else client.jobs()


COMMANDS = by_words(completion=completion)
