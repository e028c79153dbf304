"""PURE: every command, once: its words, its arguments and options, where it may be used, its help.

`jupyter slurm …`, `%slurm …`, `%%slurm`, their help, completion and `docs/reference.md` are made
from it. `arguments.py` reads words by it. Nothing here knows what a command does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jupyter_slurm.commands.command import (
    Argument,
    Command,
    OurOption,
    gpus,
    lines,
    number,
    options,
    since,
)
from jupyter_slurm.commands.submitting import (
    IMAGE_BUILD,
    IMAGE_PULL,
    KERNEL_ADD,
    LAB_START,
    NO_BROWSER,
    RUN,
    SESSION_START,
    SHELL,
    SUBMIT,
)

_JSON = OurOption("", "as JSON, for programs", only="terminal")
_CLUSTER = OurOption("NAME", "the cluster, if not the default")
_AS_JSON = options(json=_JSON)
_OF_CLUSTER = options(cluster=_CLUSTER)
_OF_CLUSTER_AS_JSON = options(cluster=_CLUSTER, json=_JSON)
_NAME = OurOption("NAME", "the cluster's name (local)", default="local")
_EXCLUDE = OurOption("PATTERN", "leave out, as in .gitignore; may be repeated", repeated=True)
_NAMED = (Argument("name", "NAME", "the cluster", of="cluster"),)
_WHICH = (Argument("cluster", "CLUSTER", "if not the default", "?", "cluster"),)
_JOB = (Argument("id", "ID", "a job's id, ours or Slurm's", of="job"),)
_JOBS = (Argument("ids", "ID", "a job's id, ours or Slurm's", "+", "job"),)
_COMPLETION = Command(
    "completion",
    "what makes Tab complete these words in a shell",
    only="terminal",
    arguments=(
        Argument("shell", "", "the one that you use", choices=("bash", "zsh", "fish")),
        Argument("line", "LINE", "only say how the last word of this line may go on", "?"),
    ),
    more='bash and zsh: put eval "$(jupyter slurm completion bash)" into ~/.bashrc, or zsh into '
    "~/.zshrc; fish: put jupyter slurm completion fish | source into "
    "~/.config/fish/config.fish.",
)
_HERE = (
    Command(
        "up",
        "start a private Slurm on this machine, for trying things",
        only="terminal",
        options=options(
            name=_NAME,
            nodes=OurOption("N", "simulated nodes", read=number),
            cpus=OurOption("N", "CPUs of each node", read=number),
            memory=OurOption("SIZE", "memory of each node, as sbatch's --mem"),
            gpus=OurOption(
                "N",
                "that many simulated GPUs of each node (2), or `own`: this machine's, on the first "
                "node, as without this option where it has any",
                read=gpus,
            ),
            gpu_type=OurOption("TYPE", "what the GPUs are called (a100)"),
            runtime=OurOption("NAME", "the container tool (charliecloud)"),
        ),
    ),
    Command(
        "down",
        "stop the private Slurm; its queue stays",
        only="terminal",
        options=options(
            name=_NAME, purge=OurOption("", "cancel its jobs and remove its files and kernels")
        ),
    ),
    Command(
        "status",
        "the private Slurm and the agent",
        only="terminal",
        options=options(name=_NAME, json=_JSON),
    ),
    Command(
        "agent",
        "the process that watches your jobs",
        only="terminal",
        arguments=(
            Argument("what", "", "jobs go on when it is stopped", choices=("status", "stop")),
        ),
        options=_AS_JSON,
    ),
)

_CLUSTERS = (
    Command("clusters", "the clusters that you have; add another", usual="list"),
    Command("clusters list", "those that you have", options=_AS_JSON),
    Command(
        "clusters add",
        "set up a cluster in one dialogue",
        only="terminal",
        arguments=(Argument("name", "NAME", "what you will call it"),),
        options=options(
            template=OurOption("NAME", "it is one of `clusters templates`"),
            host=OurOption("HOST", "its login node: [user@]host[:port], or of ~/.ssh/config"),
            user=OurOption("USER", "your name there"),
            port=OurOption("PORT", "of its sshd", read=number),
            jump=OurOption(
                "HOST", "a host to pass through, [user@]host[:port]; outermost first", repeated=True
            ),
            path=OurOption("DIR", "where Slurm's commands are, if not on PATH", repeated=True),
            env=OurOption("NAME=VALUE", "for Slurm's commands, e.g. SLURM_CONF", repeated=True),
            var=OurOption("NAME=VALUE", "what a template asks for, e.g. project", repeated=True),
            runtime=OurOption("NAME", "the container tool"),
            job_root=OurOption("DIR", "where jobs live there"),
            partition=OurOption("NAME", "for jobs that name none"),
            account=OurOption("NAME", "for jobs that name none"),
            yes=OurOption("", "ask nothing: take what is proposed"),
        ),
    ),
    Command(
        "clusters templates", "clusters that are known already", only="terminal", options=_AS_JSON
    ),
    Command(
        "clusters test",
        "look at it, and run a tiny job from end to end",
        only="terminal",
        arguments=_NAMED,
        options=options(partition=OurOption("NAME", "where to run it")),
    ),
    Command(
        "clusters remove", "forget a cluster; its jobs go on", only="terminal", arguments=_NAMED
    ),
    Command(
        "clusters default", "where jobs go that name no cluster", only="terminal", arguments=_NAMED
    ),
    Command(
        "doctor",
        "what works on a cluster, and how to mend it",
        arguments=_WHICH,
        options=_OF_CLUSTER_AS_JSON,
    ),
    Command(
        "use",
        "what cells go to from now on, and options for all of them",
        only="notebook",
        arguments=(Argument("name", "CLUSTER", "the cluster", of="cluster"),),
        of_job=True,
    ),
)

_LABS = "the newest, one by its name on the cluster, or any by its id"
_LAB = (Argument("name", "NAME", _LABS, "?", "lab"),)
_SESSIONS = "the newest, one started here by its name, or any by its id"
_KEPT = (
    SUBMIT,
    RUN,
    Command("session", "keep an allocation for several cells", usual="list"),
    SESSION_START,
    Command(
        "session stop",
        "end sessions",
        arguments=(Argument("names", "NAME", _SESSIONS, "*", "session"),),
        options=_OF_CLUSTER,
    ),
    Command("session list", "those that there are", options=_AS_JSON),
    Command(
        "session use",
        "where `%%slurm --session` cells go from now on",
        only="notebook",
        arguments=(Argument("name", "NAME", _SESSIONS, of="session"),),
        options=_OF_CLUSTER,
    ),
    Command("kernel", "kernels in jobs, for Jupyter's picker", only="terminal", usual="list"),
    KERNEL_ADD,
    Command("kernel list", "those that there are", only="terminal", options=_AS_JSON),
    Command(
        "kernel remove",
        "no longer in the picker; what runs goes on",
        only="terminal",
        arguments=(Argument("names", "NAME", "as `kernel list` says it", "+"),),
    ),
    Command("lab", "a JupyterLab on a node, in the browser here", usual="list"),
    LAB_START,
    Command(
        "lab open",
        "open a lab in the browser",
        arguments=_LAB,
        options=options(cluster=_CLUSTER, no_browser=NO_BROWSER),
    ),
    Command(
        "lab extend",
        "give a lab more time, where Slurm allows that",
        arguments=_LAB,
        options=options(time=OurOption("+1h", "how much more", required=True), cluster=_CLUSTER),
    ),
    Command(
        "lab stop",
        "end labs",
        arguments=(Argument("names", "NAME", _LABS, "*", "lab"),),
        options=_OF_CLUSTER,
    ),
    Command("lab list", "those that there are", options=_AS_JSON),
    SHELL,
)

_OF_JOBS = (
    Command("attach", "show a job's output and wait for its end", only="terminal", arguments=_JOB),
    Command(
        "attach",
        "a job's output, figures and variables into this cell",
        only="notebook",
        arguments=(Argument("id", "ID", "a job's id, ours or Slurm's", "?", "job"),),
    ),
    Command("jobs", "your jobs, newest first", options=_OF_CLUSTER_AS_JSON),
    Command("queue", "everybody's jobs on a cluster", options=_OF_CLUSTER_AS_JSON),
    Command(
        "info",
        "partitions: limits, cost, what is free; what is yours",
        arguments=_WHICH,
        options=_OF_CLUSTER_AS_JSON,
    ),
    Command(
        "usage",
        "what you and your accounts have spent; what is left",
        arguments=_WHICH,
        options=options(
            since=OurOption("WHEN", "a day (2026-01-31) or how long ago (30d)", read=since),
            cluster=_CLUSTER,
            json=_JSON,
        ),
    ),
    Command(
        "logs",
        "what a job has printed",
        arguments=_JOB,
        options=options(
            task=OurOption("N", "of an array: by its index; or a rank of many", read=number),
            follow=OurOption("", "go on until the job ends", short="f", only="terminal"),
            lines=OurOption("LINES", "the last ones", short="n", read=lines, only="notebook"),
            to=OurOption("FILE", "into a file", only="notebook"),
        ),
    ),
    Command(
        "why",
        "why a job waits, or how it ended",
        arguments=_JOB,
        options=options(
            priority=OurOption("", "what its priority is made of, and who is before it"),
            json=_JSON,
        ),
    ),
    Command("cancel", "cancel jobs", arguments=_JOBS),
    Command("hold", "keep jobs from starting", arguments=_JOBS),
    Command("release", "let jobs start again", arguments=_JOBS),
    Command("requeue", "end jobs that run, and put them back into the queue", arguments=_JOBS),
    Command(
        "forget",
        "remove what is kept of jobs that have ended",
        arguments=_JOBS,
        options=options(yes=OurOption("", "also output and variables that were not fetched")),
    ),
)

_LOCAL_PORT = OurOption("N", "the port here (any)", default="0")
_CLOSE = OurOption("ID", "close one", repeated=True)
_TARGET = (
    "as the login node or the job's node sees it; the path of a Unix socket in place of PORT; "
    "JOB:ray, JOB:dask, JOB:tensorboard"
)
_REACHED = (
    Command(
        "login",
        "log in to a cluster, for everybody who uses it",
        arguments=_WHICH,
        options=_OF_CLUSTER_AS_JSON,
    ),
    Command("logout", "close the connection; jobs go on", arguments=_WHICH, options=_OF_CLUSTER),
    Command("connections", "how each cluster is reached", options=_AS_JSON),
    Command(
        "push",
        "make a folder or file there like the one here",
        arguments=(
            Argument("local", "LOCAL", "a folder or file of this machine", of="path"),
            Argument("remote", "REMOTE", "its place there (same name)", "?"),
        ),
        options=options(exclude=_EXCLUDE, cluster=_CLUSTER),
    ),
    Command(
        "pull",
        "make a folder or file here like the one there",
        arguments=(
            Argument("remote", "REMOTE", "a folder or file of the cluster"),
            Argument("local", "LOCAL", "its place here (same name)", "?", "path"),
        ),
        options=options(exclude=_EXCLUDE, cluster=_CLUSTER),
    ),
    Command(
        "tunnel",
        "ports here that lead to ports of a cluster",
        arguments=(
            Argument("target", "[JOB|HOST:]PORT", f"{_TARGET}; none: list the tunnels", "?"),
        ),
        options=options(local_port=_LOCAL_PORT, close=_CLOSE, cluster=_CLUSTER, json=_JSON),
    ),
    Command("tunnels", "those that are open", only="notebook"),
)

_IMAGES = (
    Command("image", "the images that jobs can run in; make one", usual="ls"),
    Command("image ls", "those that there are", options=_OF_CLUSTER_AS_JSON),
    IMAGE_BUILD,
    IMAGE_PULL,
    Command(
        "image rm",
        "remove those that were built or pulled",
        arguments=(Argument("names", "NAME", "as --image says it", "+"),),
        options=_OF_CLUSTER,
    ),
)

FORM = tuple(
    "cluster partition account qos gpus nodes ntasks launch cpus-per-task mem time image chdir "
    "display-name name array idle module env tensorboard".split()
)
"""The options that have a field of their own in JupyterLab's form, in the order of its line."""

SECTIONS: Mapping[str, tuple[Command, ...]] = MappingProxyType(
    {
        "This machine": _HERE,
        "Clusters": _CLUSTERS,
        "Jobs, sessions, kernels, labs and terminals": _KEPT,
        "What becomes of jobs": _OF_JOBS,
        "Connections and files": _REACHED,
        "Images": _IMAGES,
        "Help": (_COMPLETION, Command("help", "this text", only="notebook")),
    }
)
