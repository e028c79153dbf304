"""Commands about this machine: the private Slurm (`up`, `down`, `status`) and the agent."""

from __future__ import annotations

import os
import signal
import sys
import time

from jupyter_slurm import local_cluster, places
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.say import note, say
from jupyter_slurm.cli.table import as_json
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.commands.command import by_words
from jupyter_slurm.errors import AgentError, RequestError
from jupyter_slurm.local_cluster import LocalStatus
from jupyter_slurm.readable import duration, memory
from jupyter_slurm.slurm.units import parse_memory_mib
from jupyter_slurm.wire import AgentStatus, Text

_SHAPE = ("nodes", "cpus", "gpu_type", "accounting", "runtime")


def up(args: Arguments, connect: Connect) -> int:
    """Start the cluster; what the options do not set stays as it last was."""
    del connect
    given = {name: getattr(args, name) for name in _SHAPE}
    asked = {name: value for name, value in given.items() if not (value is None or value is False)}
    if args.memory is not None:
        asked["memory_mib"] = _memory_mib(args.memory)
    spec = local_cluster.shape(args.name, args.gpus, asked, _say)
    status = local_cluster.up(spec, _say)
    say(_sentence(status) + "\n")
    say(
        "In a notebook: `%load_ext jupyter_slurm`, then cells that begin with `%%slurm`.\n"
        f"Slurm's own commands: SLURM_CONF={status.conf} squeue\n"
        f"To stop it: jupyter slurm down{_name_option(status)}\n"
    )
    return 0


def down(args: Arguments, connect: Connect) -> int:
    if local_cluster.status(args.name) is None:
        say(f"There is no private cluster `{args.name}`.\n")
        return 0
    local_cluster.down(args.name, purge=args.purge, say=_say)
    if args.purge:
        _forget_jobs(args.name, connect)
        say(f"`{args.name}` is gone, with all its files.\n")
    else:
        say(f"`{args.name}` is stopped. `jupyter slurm up` brings its queue back.\n")
    return 0


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
    say((_sentence(cluster) if cluster else f"There is no private cluster `{args.name}`.") + "\n")
    for daemon in cluster.daemons if cluster else ():
        name = f"{daemon.program} {daemon.node or ''}".rstrip()
        say(f"  {name}: {f'pid {daemon.pid}' if daemon.running else 'not running'}\n")
    say(_agent_text(found))
    return 0


def agent(args: Arguments, connect: Connect) -> int:
    """Report or stop the agent; jobs go on, and the next command starts the agent again."""
    del connect
    found = _agent()
    if args.what == "stop" and found is not None:
        if found.host != places.host():
            raise AgentError(f"The agent runs on {found.host}; stop it there.")
        os.kill(found.pid, signal.SIGTERM)
        say("The agent is stopping. Jobs go on.\n")
    else:
        say(as_json(found) if args.json else _agent_text(found))
    return 0


def _agent() -> AgentStatus | None:
    from jupyter_slurm.client import find  # noqa: PLC0415 - most commands here do without

    client = find()
    return client.status() if client else None


def _agent_text(agent: AgentStatus | None) -> str:
    if agent is None:
        return "The agent does not run; the next command that needs it starts it.\n"
    return (
        f"The agent runs (pid {agent.pid}, version {agent.version}) for "
        f"{duration(time.time() - agent.started_s)}: {agent.live_jobs} unfinished jobs, "
        f"{agent.memory_mib:.0f} MiB, {agent.cpu_s:.1f} s of CPU. Its log: {agent.log}\n"
    )


def _sentence(cluster: LocalStatus) -> str:
    spec = cluster.spec
    state = "is up" if cluster.running else "is down" if cluster.stopped else "is not all up"
    nodes = "1 node" if spec.nodes == 1 else f"{spec.nodes} nodes, each"
    gpus = f" and {text}" if (text := spec.gpus_text()) else ""
    return (
        f"The cluster `{spec.name}` {state}: {cluster.version}, {nodes} with {spec.cpus} CPUs, "
        f"{memory(spec.memory_mib)}{gpus}."
    )


def _name_option(status: LocalStatus) -> str:
    return "" if status.spec.name == "local" else f" --name {status.spec.name}"


def _memory_mib(text: str) -> int:
    try:
        return parse_memory_mib(text)
    except ValueError as exc:
        raise RequestError(f"--memory: {exc}") from exc


def _say(text: Text) -> None:
    note(f"{text}\n")
    sys.stderr.flush()


COMMANDS = by_words(up=up, down=down, status=status, agent=agent)
