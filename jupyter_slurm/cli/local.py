"""Commands for this machine: the private Slurm (`up`, `down`, `status`) and the agent."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from jupyter_slurm import local_cluster, places
from jupyter_slurm.api import Api
from jupyter_slurm.cli.caller import TerminalCaller
from jupyter_slurm.cli.say import remark, say, say_json, tell
from jupyter_slurm.commands.parsing import Arguments
from jupyter_slurm.errors import AgentError, RequestError
from jupyter_slurm.formatting import counted, duration, memory
from jupyter_slurm.local_cluster import LocalStatus
from jupyter_slurm.slurm.units import parse_memory_mib
from jupyter_slurm.wire import AgentStatus

_SHAPE = ("nodes", "cpus", "gpu_type", "runtime")


def up(_caller: TerminalCaller, args: Arguments) -> str:
    """Start the cluster. Settings that the options do not set keep their last values."""
    given = {name: getattr(args, name) for name in _SHAPE}
    asked = {name: value for name, value in given.items() if value is not None}
    if args.memory is not None:
        asked["memory_mib"] = _memory_mib(args.memory)
    spec = local_cluster.shape(args.name, args.gpus, asked, _say)
    status = local_cluster.up(spec, _say)
    return "\n".join(
        (
            _sentence(status),
            "In a notebook, run `%load_ext jupyter_slurm`, and start cells with `%%slurm`.",
            f"Slurm's own commands: SLURM_CONF={status.conf} squeue",
            f"To stop it: jupyter slurm down{_name_option(status)}",
        )
    )


def down(caller: TerminalCaller, args: Arguments) -> Iterator[str]:
    status = local_cluster.status(args.name)
    if status is None:
        yield f"No private cluster `{args.name}`."
        return
    local_cluster.down(args.name, purge=args.purge, say=_say)
    if args.purge:
        _forget_jobs(args.name, caller.api)
        yield f"Removed `{args.name}` and all its files."
        yield from _remove_kernels(args.name)
    else:
        option = _name_option(status)
        yield f"Stopped `{args.name}`. Use `jupyter slurm up{option}` to resume its queue."


def _remove_kernels(cluster: str) -> Iterator[str]:
    """Remove the kernelspecs of a removed cluster."""
    from jupyter_slurm.kernel import spec  # noqa: PLC0415 - needed by few commands

    for kernel in spec.listed():
        if kernel.cluster == cluster:
            spec.remove(kernel.name)
            yield f"Removed the kernel {kernel.display_name} from the launcher."


def _forget_jobs(cluster: str, api: Api) -> None:
    """Make the agent forget the jobs of a removed cluster, and stop the agent unless it has live
    jobs."""
    for job in api.jobs(cluster):
        api.forget(job.id)
    found = api.status()
    if not found.live_jobs and found.host == places.host():
        os.kill(found.pid, signal.SIGTERM)


def status(_caller: TerminalCaller, args: Arguments) -> None:
    """Print the state of the cluster and of the agent, without starting them."""
    cluster = local_cluster.status(args.name)
    found = _agent()
    if args.json:
        say_json({"local": cluster, "agent": found})
        return
    if cluster:
        tell(_sentence(cluster))
    else:
        tell(f"No private cluster `{args.name}`.")
    for daemon in cluster.daemons if cluster else ():
        name = f"{daemon.program} {daemon.node or ''}".rstrip()
        say(f"  {name}: {f'pid {daemon.pid}' if daemon.running else 'not running'}\n")
    tell(_agent_text(found))


def agent(_caller: TerminalCaller, args: Arguments) -> None:
    """Print the agent's state, or stop the agent. Jobs continue, and the next command starts an
    agent again."""
    found = _agent()
    if args.what == "stop" and found is not None:
        if found.host != places.host():
            raise AgentError(f"The agent runs on {found.host}. Stop it on that host.")
        os.kill(found.pid, signal.SIGTERM)
        tell("The agent is stopping. Jobs continue.")
    elif args.json:
        say_json(found)
    else:
        tell(_agent_text(found))


def _agent() -> AgentStatus | None:
    from jupyter_slurm.client import find  # noqa: PLC0415 - needed by few commands

    client = find()
    return client.status() if client else None


def _agent_text(agent: AgentStatus | None) -> str:
    if agent is None:
        return "The agent is not running. It starts on demand."
    return (
        f"The agent (pid {agent.pid}, version {agent.version}) has run for "
        f"{duration(time.time() - agent.started_s)}: {counted(agent.live_jobs, 'unfinished job')}, "
        f"{memory(agent.memory_mib)}, {agent.cpu_s:.1f} s of CPU. Its log: {agent.log}"
    )


def _sentence(cluster: LocalStatus) -> str:
    spec = cluster.spec
    if cluster.running:
        state = "up"
    elif cluster.stopped:
        state = "down"
    else:
        state = "partly up"
    cpus = counted(spec.cpus, "CPU")
    real = os.cpu_count() or spec.cpus
    if spec.cpus > real:
        cpus = f"{cpus} (this machine has {real})"
    what = f"{cpus}, {memory(spec.memory_mib)}"
    if gpus := spec.gpus_text():
        what = f"{what} and {gpus}"
    each = " with" if spec.nodes == 1 else ", each with"
    nodes = f"{counted(spec.nodes, 'node')}{each} {what}"
    return f"The cluster `{spec.name}` is {state}: {cluster.version}, {nodes}."


def _name_option(status: LocalStatus) -> str:
    return "" if status.spec.name == "local" else f" --name {status.spec.name}"


def _memory_mib(text: str) -> int:
    try:
        return parse_memory_mib(text)
    except ValueError as exc:
        raise RequestError(f"--memory: {exc}") from exc


def _say(text: str) -> None:
    remark(text)
    sys.stderr.flush()


COMMANDS: Mapping[str, Callable[[TerminalCaller, Arguments], object]] = MappingProxyType(
    {"up": up, "down": down, "status": status, "agent": agent}
)
