"""The words of the command line: the commands and what each takes. Runs none of them."""

from __future__ import annotations

import argparse
import difflib
from argparse import ArgumentParser, Namespace
from typing import Any, NoReturn

from jupyter_slurm.cli import (
    clusters,
    files,
    from_template,
    image,
    jobs,
    kernel,
    lab,
    local,
    new_cluster,
    remote,
    session,
    shell,
    submit,
)
from jupyter_slurm.cli.command import Command
from jupyter_slurm.errors import RequestError

_DESCRIPTION = "Jobs on a Slurm cluster: the same ones in terminals and in notebooks."
_EPILOG = (
    "`jupyter slurm COMMAND --help` tells more of each. JUPYTER_SLURM_CLUSTER names the cluster "
    "where --cluster does not."
)


def parse(words: list[str]) -> tuple[Command, Namespace]:
    """The command that `words` name, and its arguments.

    SystemExit, the message printed, where they are not understood (2) or ask for help (0).
    """
    parser = _Parser("jupyter slurm", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = _Commands(parser)
    _local_commands(commands)
    _cluster_commands(commands)
    _job_commands(commands)
    _remote_commands(commands)
    _image_commands(commands)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    first = words[0] if words else "--help"
    if not first.startswith("-") and first not in commands.names():
        near = difflib.get_close_matches(first, commands.names(), n=1)
        raise RequestError(
            f"`{first}` is no command" + (f"; did you mean `{near[0]}`?" if near else "."),
            hint=f"Commands: {', '.join(commands.names())}.",
        )
    args = parser.parse_args(words or ["--help"])
    return args.command, args


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n`{self.prog} --help` tells what it takes.\n")


class _Version(argparse.Action):
    """Prints the version; it is looked up only when somebody asks."""

    def __call__(self, parser: ArgumentParser, *_: Any) -> NoReturn:
        from importlib import metadata  # noqa: PLC0415 - it loads much

        version = metadata.version("jupyter-slurm")
        parser.exit(message=f"jupyter-slurm {version}\n")


class _Commands:
    """Adds commands to a parser."""

    def __init__(self, parser: ArgumentParser, *, required: bool = True) -> None:
        self._parsers = parser.add_subparsers(
            metavar="COMMAND", required=required, parser_class=_Parser
        )

    def names(self) -> list[str]:
        return list(self._parsers.choices)

    def add(self, name: str, command: Command, about: str) -> ArgumentParser:
        parser = self._parsers.add_parser(name, help=about, description=about, allow_abbrev=False)
        parser.set_defaults(command=command)
        return parser

    def add_raw(self, name: str, command: Command, about: str) -> None:
        """A command that reads its words itself: sbatch's options are not argparse's."""
        parser = self._parsers.add_parser(name, help=about, add_help=False, prefix_chars="\0")
        parser.add_argument("words", nargs=argparse.REMAINDER)
        parser.set_defaults(command=command)


def _local_commands(commands: _Commands) -> None:
    up = commands.add("up", local.up, "start a private Slurm on this machine, for trying things")
    up.add_argument("--name", default="local", help="the cluster's name (local)")
    up.add_argument("--nodes", type=int, metavar="N", help="pretended nodes")
    up.add_argument("--cpus", type=int, metavar="N", help="CPUs of each node")
    up.add_argument("--memory", metavar="SIZE", help="memory of each node, as sbatch's --mem")
    up.add_argument(
        "--gpus",
        type=local.gpus,
        metavar="N",
        help="that many pretended GPUs of each node (2), or `own`: this machine's, on the first "
        "node, as without this option where it has any",
    )
    up.add_argument("--gpu-type", metavar="TYPE", help="what the GPUs are called (a100)")
    up.add_argument("--accounting", action="store_true", default=None, help="with slurmdbd")
    up.add_argument("--runtime", metavar="NAME", help="the container tool (charliecloud)")
    down = commands.add("down", local.down, "stop the private Slurm; its queue stays")
    down.add_argument("--name", default="local", help="the cluster's name (local)")
    down.add_argument("--purge", action="store_true", help="cancel its jobs and remove its files")
    status = commands.add("status", local.status, "the private Slurm and the agent")
    status.add_argument("--name", default="local", help="the cluster's name (local)")
    _json(status)
    agent = commands.add("agent", local.agent, "the process that watches your jobs")
    agent.add_argument("what", choices=["status", "stop"], help="jobs go on when it is stopped")
    _json(agent)


def _cluster_commands(commands: _Commands) -> None:
    parser = commands.add("clusters", clusters.listed, "the clusters that you have; add another")
    _json(parser)
    more = _Commands(parser, required=False)
    _json(more.add("list", clusters.listed, "those that you have"))
    add = more.add("add", new_cluster.add, "set up a cluster in one dialogue")
    add.add_argument("name", metavar="NAME", help="what you will call it")
    add.add_argument("--template", metavar="NAME", help="it is one of `clusters templates`")
    add.add_argument("--host", help="its login node: [user@]host[:port], or of ~/.ssh/config")
    add.add_argument("--user", help="your name there")
    add.add_argument("--port", type=int, help="of its sshd")
    for option, metavar, about in (
        ("--jump", "HOST", "a host to pass through, [user@]host[:port]; outermost first"),
        ("--path", "DIR", "where Slurm's commands are, if not on PATH"),
        ("--env", "NAME=VALUE", "for Slurm's commands, e.g. SLURM_CONF"),
        ("--var", "NAME=VALUE", "what a template asks for, e.g. project"),
    ):
        add.add_argument(option, action="append", default=[], metavar=metavar, help=about)
    add.add_argument("--runtime", metavar="NAME", help="the container tool")
    add.add_argument("--job-root", metavar="DIR", help="where jobs live there")
    add.add_argument("--partition", metavar="NAME", help="for jobs that name none")
    add.add_argument("--account", metavar="NAME", help="for jobs that name none")
    add.add_argument("--yes", action="store_true", help="ask nothing: take what is proposed")
    _json(more.add("templates", from_template.listed, "clusters that are known already"))
    test = more.add("test", clusters.test, "look at it, and run a tiny job from end to end")
    test.add_argument("--partition", metavar="NAME", help="where to run it")
    remove = more.add("remove", clusters.remove, "forget a cluster; its jobs go on")
    default = more.add("default", clusters.default, "where jobs go that name no cluster")
    for one in (test, remove, default):
        one.add_argument("name", metavar="NAME", help="the cluster")


def _job_commands(commands: _Commands) -> None:
    doctor = commands.add("doctor", jobs.doctor, "what works on a cluster, and how to mend it")
    _which_cluster(doctor)
    _json(doctor)
    commands.add_raw("submit", submit.submit, "run a Python file, a script or a notebook as a job")
    commands.add_raw("session", session.session, "keep an allocation for several cells")
    commands.add_raw("kernel", kernel.kernel, "kernels in jobs, for Jupyter's picker")
    commands.add_raw("lab", lab.lab, "a JupyterLab on a node, in the browser here")
    commands.add_raw("shell", shell.run, "a terminal on a node, or in a job that runs")
    attach = commands.add("attach", submit.attach, "show a job's output and wait for its end")
    attach.add_argument("id", metavar="ID", help="a job's id, ours or Slurm's")
    listing = commands.add("jobs", jobs.jobs, "your jobs, newest first")
    _cluster(listing)
    _json(listing)
    queue = commands.add("queue", jobs.queue, "everybody's jobs on a cluster")
    _cluster(queue)
    _json(queue)
    info = commands.add("info", jobs.info, "partitions: limits, cost, what is free; what is yours")
    _which_cluster(info)
    _json(info)
    logs = commands.add("logs", jobs.logs, "what a job has printed")
    logs.add_argument("id", metavar="ID", help="a job's id, ours or Slurm's")
    logs.add_argument("--task", type=int, metavar="N", help="of an array: by its index")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    why = commands.add("why", jobs.why, "why a job waits, or how it ended")
    why.add_argument("id", metavar="ID", help="a job's id, ours or Slurm's")
    _json(why)
    cancel = commands.add("cancel", jobs.cancel, "cancel jobs")
    cancel.add_argument("ids", nargs="+", metavar="ID", help="a job's id, ours or Slurm's")
    forget = commands.add("forget", jobs.forget, "remove what is kept of jobs that have ended")
    forget.add_argument("ids", nargs="+", metavar="ID", help="a job's id, ours or Slurm's")


def _remote_commands(commands: _Commands) -> None:
    login = commands.add("login", remote.login, "log in to a cluster, for everybody who uses it")
    logout = commands.add("logout", remote.logout, "close the connection; jobs go on")
    for parser in (login, logout):
        _which_cluster(parser)
    _json(login)
    _json(commands.add("connections", remote.connections, "how each cluster is reached"))
    push = commands.add("push", files.push, "make a folder or file there like the one here")
    push.add_argument("local", metavar="LOCAL", help="a folder or file of this machine")
    push.add_argument("remote", nargs="?", metavar="REMOTE", help="its place there (same name)")
    pull = commands.add("pull", files.pull, "make a folder or file here like the one there")
    pull.add_argument("remote", metavar="REMOTE", help="a folder or file of the cluster")
    pull.add_argument("local", nargs="?", metavar="LOCAL", help="its place here (same name)")
    for parser in (push, pull):
        parser.add_argument(
            "--exclude",
            action="append",
            default=[],
            metavar="PATTERN",
            help="leave out, as in .gitignore; may be repeated",
        )
        _cluster(parser)
    tunnel = commands.add("tunnel", remote.tunnel, "ports here that lead to ports of a cluster")
    tunnel.add_argument(
        "target",
        nargs="?",
        metavar="[JOB|HOST:]PORT",
        help="where to, as the login node or the job's node sees it; none: list the tunnels",
    )
    tunnel.add_argument("--local-port", default="0", metavar="N", help="the port here (any)")
    tunnel.add_argument("--close", action="append", default=[], metavar="ID", help="close one")
    _cluster(tunnel)
    _json(tunnel)


def _image_commands(commands: _Commands) -> None:
    images = commands.add("image", image.listed, "the images that jobs can run in; make one")
    more = _Commands(images, required=False)
    for listing in (images, more.add("ls", image.listed, "those that there are")):
        _cluster(listing)
        _json(listing)
    more.add_raw("build", image.build, "make one from a recipe: lines, a Dockerfile, a script …")
    more.add_raw("pull", image.pull, "bring one from a registry, for every node")
    remove = more.add("rm", image.remove, "remove those that were built or pulled")
    remove.add_argument("names", nargs="+", metavar="NAME", help="as --image says it")
    login = more.add("login", image.login, "give the cluster your password of a registry")
    login.add_argument("registry", metavar="REGISTRY", help="nvcr.io, ghcr.io, docker.io …")
    login.add_argument("--user", metavar="NAME", help="your name there; not needed for nvcr.io")
    login.add_argument(
        "--password-stdin", action="store_true", help="read the password from standard input"
    )
    _cluster(remove)
    _cluster(login)


def _which_cluster(parser: ArgumentParser) -> None:
    """`COMMAND CLUSTER`, and `COMMAND --cluster CLUSTER` as the other commands have it."""
    _cluster(parser)
    # Without SUPPRESS a word that is left out would overwrite what --cluster has named.
    parser.add_argument(
        "cluster",
        nargs="?",
        metavar="CLUSTER",
        default=argparse.SUPPRESS,
        help="if not the default",
    )


def _cluster(parser: ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="NAME", help="the cluster, if not the default")


def _json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
