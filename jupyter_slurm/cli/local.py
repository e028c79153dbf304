"""Commands about this machine: the private Slurm (`up`, `down`, `status`) and the agent."""

from __future__ import annotations

import os
import signal
import sys
import time

from jupyter_slurm import local_cluster, places
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.say import remark, say, tell
from jupyter_slurm.cli.table import as_json
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.errors import AgentError, RequestError
from jupyter_slurm.local_cluster import LocalStatus
from jupyter_slurm.readable import counted, duration, memory
from jupyter_slurm.slurm.units import parse_memory_mib
from jupyter_slurm.wire import AgentStatus

_SHAPE = ("nodes", "cpus", "gpu_type", "runtime")


def up(args: Arguments, connect: Connect) -> int:
    """Start the cluster; what the options do not set stays as it last was."""
    del connect
    given = {name: getattr(args, name) for name in _SHAPE}
    asked = {name: value for name, value in given.items() if value is not None}
    if args.memory is not None:
        asked["memory_mib"] = _memory_mib(args.memory)
    spec = local_cluster.shape(args.name, args.gpus, asked, _say)
    status = local_cluster.up(spec, _say)
    tell(_sentence(status))
    tell("In a notebook: `%load_ext jupyter_slurm`, then cells that begin with `%%slurm`.")
    tell(f"Slurm's own commands: SLURM_CONF={status.conf} squeue")
    tell(f"To stop it: jupyter slurm down{_name_option(status)}")
    return 0


def down(args: Arguments, connect: Connect) -> int:
    if local_cluster.status(args.name) is None:
        tell(f"There is no private cluster `{args.name}`.")
        return 0
    local_cluster.down(args.name, purge=args.purge, say=_say)
    if args.purge:
        _forget_jobs(args.name, connect)
        tell(f"`{args.name}` is gone, with all its files.")
        _remove_kernels(args.name)
    else:
        tell(f"`{args.name}` is stopped. `jupyter slurm up` brings its queue back.")
    return 0


def _remove_kernels(cluster: str) -> None:
    """Remove the kernelspecs of a removed cluster: their kernels cannot start any more."""
    from jupyter_slurm.kernel import spec  # noqa: PLC0415 - most commands here do without

    for kernel in spec.listed():
        if kernel.cluster == cluster:
            spec.remove(kernel.name)
            tell(f"The kernel {kernel.display_name} is no longer in the launcher.")


def _forget_jobs(cluster: str, connect: Connect) -> None:
    """Make the agent forget the jobs of a removed cluster, and end it if it has no others."""
    api = connect()
    for job in api.jobs(cluster):
        api.forget(job.id)
    found = api.status()
    if not found.live_jobs and found.host == places.host():
        os.kill(found.pid, signal.SIGTERM)


def status(args: Arguments, connect: Connect) -> int:
    """Report the cluster and the agent; start neither."""
    del connect
    cluster = local_cluster.status(args.name)
    found = _agent()
    if args.json:
        say(as_json({"local": cluster, "agent": found}))
        return 0
    if cluster:
        tell(_sentence(cluster))
    else:
        tell(f"There is no private cluster `{args.name}`.")
    for daemon in cluster.daemons if cluster else ():
        name = f"{daemon.program} {daemon.node or ''}".rstrip()
        say(f"  {name}: {f'pid {daemon.pid}' if daemon.running else 'not running'}\n")
    tell(_agent_text(found))
    return 0


def agent(args: Arguments, connect: Connect) -> int:
    """Report or stop the agent; jobs go on, and the next command starts the agent again."""
    del connect
    found = _agent()
    if args.what == "stop" and found is not None:
        if found.host != places.host():
            raise AgentError(f"The agent runs on {found.host}; stop it there.")
        os.kill(found.pid, signal.SIGTERM)
        tell("The agent is stopping. Jobs go on.")
    elif args.json:
        say(as_json(found))
    else:
        tell(_agent_text(found))
    return 0


def _agent() -> AgentStatus | None:
    from jupyter_slurm.client import find  # noqa: PLC0415 - most commands here do without

    client = find()
    return client.status() if client else None


def _agent_text(agent: AgentStatus | None) -> str:
    if agent is None:
        return "The agent is not running. The next command that needs it starts it."
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


COMMANDS = by_words(up=up, down=down, status=status, agent=agent)
