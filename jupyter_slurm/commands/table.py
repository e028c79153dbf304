"""The table of commands: names, arguments, options, help texts and front ends.

`jupyter slurm …`, `%slurm …`, `%%slurm`, their help, completion and `docs/reference/commands`
are generated from it. `functions.py` implements the commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jupyter_slurm.commands.command import (
    Argument,
    Command,
    OurOption,
    gpus,
    idle_s,
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
    RETRY,
    RUN,
    SESSION_START,
    SHELL,
    SUBMIT,
)

_JSON = OurOption("", "print JSON", only="terminal")
_CLUSTER = OurOption("NAME", "the cluster (the default)")
_AS_JSON = options(json=_JSON)
_OF_CLUSTER = options(cluster=_CLUSTER)
_OF_CLUSTER_AS_JSON = options(cluster=_CLUSTER, json=_JSON)
_NAME = OurOption("NAME", "the cluster's name (local)", default="local")
_EXCLUDE = OurOption("PATTERN", "exclude files, as in .gitignore; may be repeated", repeated=True)
_NAMED = (Argument("name", "NAME", "the cluster", of="cluster"),)
_WHICH = (Argument("cluster", "CLUSTER", "the cluster (the default)", "?", "cluster"),)
_JOB = (Argument("id", "ID", "a job's ID in jupyter-slurm or Slurm", of="job"),)
_JOBS = (Argument("ids", "ID", "a job's ID in jupyter-slurm or Slurm", "+", "job"),)
_COMPLETION = Command(
    "completion",
    "print shell completions",
    only="terminal",
    arguments=(Argument("shell", "", "your shell", choices=("bash", "zsh", "fish")),),
    more='Add `eval "$(jupyter slurm completion bash)"` to `~/.bashrc`, the same line with `zsh` '
    "to `~/.zshrc`, or `jupyter slurm completion fish | source` to `~/.config/fish/config.fish`.",
)
_HERE = (
    Command(
        "up",
        "start a private Slurm on this machine",
        only="terminal",
        options=options(
            name=_NAME,
            nodes=OurOption("N", "simulated nodes", read=number),
            cpus=OurOption("N", "CPUs of each node", read=number),
            memory=OurOption("SIZE", "memory of each node, in the format of sbatch's --mem"),
            gpus=OurOption(
                "N",
                "simulated GPUs of each node (2), or `own` for this machine's GPUs on the first "
                "node (the default if this machine has GPUs)",
                read=gpus,
            ),
            gpu_type=OurOption("TYPE", "the type of the GPUs (a100)"),
            runtime=OurOption("NAME", "the container tool (charliecloud)"),
        ),
    ),
    Command(
        "down",
        "stop the private Slurm and keep its queue",
        only="terminal",
        options=options(
            name=_NAME, purge=OurOption("", "also cancel its jobs and remove its files and kernels")
        ),
    ),
    Command(
        "status",
        "show the private Slurm and the agent",
        only="terminal",
        options=options(name=_NAME, json=_JSON),
    ),
    Command(
        "agent",
        "show or stop the process that watches your jobs",
        only="terminal",
        arguments=(
            Argument(
                "what", "", "show the agent, or stop it; jobs continue", choices=("status", "stop")
            ),
        ),
        options=_AS_JSON,
    ),
)

_CLUSTERS = (
    Command("clusters", "list and add clusters", usual="list"),
    Command("clusters list", "list your clusters", options=_AS_JSON),
    Command(
        "clusters add",
        "set up a cluster step by step",
        only="terminal",
        arguments=(Argument("name", "NAME", "a name for the cluster"),),
        options=options(
            template=OurOption("NAME", "start from a template listed by `clusters templates`"),
            host=OurOption("HOST", "the login node: [user@]host[:port] or a name in ~/.ssh/config"),
            user=OurOption("USER", "your user name on the cluster"),
            port=OurOption("PORT", "the port of sshd on the login node", read=number),
            jump=OurOption(
                "HOST",
                "a jump host, [user@]host[:port]; may be repeated, outermost first",
                repeated=True,
            ),
            path=OurOption("DIR", "the folder of Slurm's commands, if not on PATH", repeated=True),
            env=OurOption(
                "NAME=VALUE", "a variable for Slurm's commands, e.g. SLURM_CONF", repeated=True
            ),
            var=OurOption(
                "NAME=VALUE", "an answer to a question of the template, e.g. project", repeated=True
            ),
            runtime=OurOption("NAME", "the container tool"),
            job_root=OurOption("DIR", "the folder for jobs on the cluster"),
            partition=OurOption("NAME", "the default partition for jobs"),
            account=OurOption("NAME", "the default account for jobs"),
            yes=OurOption("", "accept every proposal without asking"),
        ),
    ),
    Command(
        "clusters templates",
        "list clusters that have a template",
        only="terminal",
        options=_AS_JSON,
    ),
    Command(
        "clusters test",
        "check a cluster and run a tiny job on it",
        only="terminal",
        arguments=_NAMED,
        options=options(partition=OurOption("NAME", "the partition for the job")),
    ),
    Command(
        "clusters remove", "remove a cluster; its jobs continue", only="terminal", arguments=_NAMED
    ),
    Command(
        "clusters default",
        "set the default cluster",
        only="terminal",
        arguments=_NAMED,
    ),
    Command(
        "doctor",
        "check a cluster and show how to fix it",
        arguments=_WHICH,
        options=_OF_CLUSTER_AS_JSON,
    ),
    Command(
        "use",
        "set the cluster and options for later cells",
        only="notebook",
        arguments=(Argument("name", "CLUSTER", "the cluster", of="cluster"),),
        of_job=True,
    ),
)

_LABS = "the lab's name on the cluster, or its ID (the newest)"
_LAB = (Argument("name", "NAME", _LABS, "?", "lab"),)
_SESSIONS = "a session's name, or its ID (the newest)"
_KEPT = (
    SUBMIT,
    RUN,
    Command("session", "manage sessions: allocations for several cells", usual="list"),
    SESSION_START,
    Command(
        "session stop",
        "stop sessions",
        arguments=(Argument("names", "NAME", _SESSIONS, "*", "session"),),
        options=_OF_CLUSTER,
    ),
    Command("session list", "list sessions", options=_AS_JSON),
    Command(
        "session use",
        "set the session for later `%%slurm --session` cells",
        only="notebook",
        arguments=(Argument("name", "NAME", _SESSIONS, of="session"),),
        options=_OF_CLUSTER,
    ),
    Command(
        "kernel", "manage kernels in jobs, for Jupyter's launcher", only="terminal", usual="list"
    ),
    KERNEL_ADD,
    Command("kernel list", "list kernels in jobs", only="terminal", options=_AS_JSON),
    Command(
        "kernel remove",
        "remove kernels from the launcher; running kernels continue",
        only="terminal",
        arguments=(Argument("names", "NAME", "a name that `kernel list` shows", "+"),),
    ),
    Command(
        "lab", "run JupyterLab on a node and use it in a browser on this machine", usual="list"
    ),
    LAB_START,
    Command(
        "lab open",
        "open a lab in the browser",
        arguments=_LAB,
        options=options(cluster=_CLUSTER, no_browser=NO_BROWSER),
    ),
    Command(
        "lab extend",
        "extend a lab's time limit, if Slurm allows it",
        arguments=_LAB,
        options=options(time=OurOption("+1h", "the time to add", required=True), cluster=_CLUSTER),
    ),
    Command(
        "lab stop",
        "stop labs",
        arguments=(Argument("names", "NAME", _LABS, "*", "lab"),),
        options=_OF_CLUSTER,
    ),
    Command("lab list", "list labs", options=_AS_JSON),
    SHELL,
)

_OF_JOBS = (
    Command("attach", "show a job's output and wait for its end", only="terminal", arguments=_JOB),
    Command(
        "attach",
        "show a job's output in this cell and load its variables",
        only="notebook",
        arguments=(Argument("id", "ID", "a job's ID in jupyter-slurm or Slurm", "?", "job"),),
    ),
    Command("jobs", "list your jobs, newest first", options=_OF_CLUSTER_AS_JSON),
    Command("queue", "list all users' jobs on a cluster", options=_OF_CLUSTER_AS_JSON),
    Command(
        "info",
        "show partitions (limits, cost, free nodes) and your accounts",
        arguments=_WHICH,
        options=_OF_CLUSTER_AS_JSON,
    ),
    Command(
        "usage",
        "show resources used by you and your accounts",
        arguments=_WHICH,
        options=options(
            since=OurOption("WHEN", "a day (2026-01-31) or an age (30d)", read=since),
            cluster=_CLUSTER,
            json=_JSON,
        ),
    ),
    Command(
        "logs",
        "show a job's output",
        arguments=_JOB,
        options=options(
            task=OurOption("N", "the index of an array's task, or a rank", read=number),
            follow=OurOption("", "continue until the job ends", short="f", only="terminal"),
            lines=OurOption("LINES", "only the last lines", short="n", read=lines, only="notebook"),
            to=OurOption("FILE", "write to a file", only="notebook"),
        ),
    ),
    Command(
        "why",
        "show why a job waits, or how it ended",
        arguments=_JOB,
        options=options(
            priority=OurOption("", "show its priority, and how many jobs are ahead of it"),
            json=_JSON,
        ),
    ),
    RETRY,
    Command("cancel", "cancel jobs", arguments=_JOBS),
    Command("hold", "hold jobs", arguments=_JOBS),
    Command("release", "release held jobs", arguments=_JOBS),
    Command("requeue", "stop and requeue running jobs", arguments=_JOBS),
    Command(
        "forget",
        "remove the records of ended jobs",
        arguments=_JOBS,
        options=options(yes=OurOption("", "also remove jobs with unfetched output or variables")),
    ),
)

_LOCAL_PORT = OurOption("N", "the local port (any)", default="0")
_CLOSE = OurOption("ID", "close this tunnel; may be repeated", repeated=True)
_TARGET = (
    "a port on the login node or the job's node, or the path of a Unix socket; JOB:ray, "
    "JOB:dask or JOB:tensorboard for a dashboard"
)
_REACHED = (
    Command(
        "login",
        "log in to a cluster",
        arguments=_WHICH,
        options=_OF_CLUSTER_AS_JSON,
    ),
    Command("logout", "close the connection; jobs continue", arguments=_WHICH, options=_OF_CLUSTER),
    Command("connections", "list connections to clusters", options=_AS_JSON),
    Command(
        "push",
        "copy a folder or file to a cluster",
        arguments=(
            Argument("local", "LOCAL", "a folder or file on this machine", of="path"),
            Argument("remote", "REMOTE", "the path on the cluster (same name)", "?"),
        ),
        options=options(exclude=_EXCLUDE, cluster=_CLUSTER),
    ),
    Command(
        "pull",
        "copy a folder or file from a cluster",
        arguments=(
            Argument("remote", "REMOTE", "a folder or file on the cluster"),
            Argument("local", "LOCAL", "the path on this machine (same name)", "?", "path"),
        ),
        options=options(exclude=_EXCLUDE, cluster=_CLUSTER),
    ),
    Command(
        "tunnel",
        "forward local ports to a cluster",
        arguments=(
            Argument(
                "target", "[JOB|HOST:]PORT", f"{_TARGET}; without a target, list the tunnels", "?"
            ),
        ),
        options=options(local_port=_LOCAL_PORT, close=_CLOSE, cluster=_CLUSTER, json=_JSON),
    ),
    Command("tunnels", "list open tunnels", only="notebook"),
)

_IMAGES = (
    Command("image", "list, build and pull images for jobs", usual="ls"),
    Command("image ls", "list images", options=_OF_CLUSTER_AS_JSON),
    IMAGE_BUILD,
    IMAGE_PULL,
    Command(
        "image rm",
        "remove images that were built or pulled",
        arguments=(Argument("names", "NAME", "a name for --image", "+"),),
        options=_OF_CLUSTER,
    ),
)

_ENVIRONMENTS = (
    Command("env", "list and remove installed packages (`--with`)", usual="list"),
    Command("env list", "list environments of packages", options=_OF_CLUSTER_AS_JSON),
    Command(
        "env rm",
        "remove environments; later jobs reinstall them if needed",
        arguments=(Argument("ids", "ID", "an ID that `env list` shows", "*"),),
        options=options(
            unused=OurOption(
                "TIME", "remove environments unused for this time, e.g. 30d", read=idle_s
            ),
            cluster=_CLUSTER,
        ),
    ),
)

FORM = tuple(
    "cluster partition account qos gpus nodes ntasks launch cpus-per-task mem time image chdir "
    "display-name name array idle module with env tensorboard".split()
)
"""The options with a field in JupyterLab's form, in order."""

SECTIONS: Mapping[str, tuple[Command, ...]] = MappingProxyType(
    {
        "This machine": _HERE,
        "Clusters": _CLUSTERS,
        "Jobs, sessions, kernels, labs and terminals": _KEPT,
        "Following jobs": _OF_JOBS,
        "Connections and files": _REACHED,
        "Images": _IMAGES,
        "Packages": _ENVIRONMENTS,
        "Help": (_COMPLETION, Command("help", "list the commands", only="notebook")),
    }
)
