"""PURE: every command, once: its words, its arguments and options, where it may be used, its help.

`jupyter slurm …`, `%slurm …`, `%%slurm`, their help, completion and `docs/reference.md` are made
from it. `arguments.py` reads words by it. Nothing here knows what a command does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from jupyter_slurm.commands.command import (
    Argument,
    Command,
    OurOption,
    gpus,
    idle_s,
    keep_s,
    lines,
    number,
)


def _options(**options: OurOption) -> Mapping[str, OurOption]:
    return MappingProxyType({name.replace("_", "-"): one for name, one in options.items()})


_OF_CELLS = MappingProxyType(
    {
        "cluster": OurOption("NAME", "the cluster to run on; see `%slurm clusters`"),
        "image": OurOption("IMAGE", "the container image: an alias of the profile, or its name"),
        "runtime": OurOption("NAME", "how the image is run: charliecloud, none …"),
        "module": OurOption("NAMES", "environment modules to load first, separated by commas"),
        "in": OurOption("NAMES", "variables of this notebook that the cell gets"),
        "out": OurOption("NAMES", "variables that come back into this notebook"),
        "out-format": OurOption("auto|data", "how: pickled where it must be, or as data alone"),
        "launch": OurOption("torchrun|mpi|ray|dask", "use all nodes: in ranks, or by workers"),
        "gather": OurOption("NAMES", "variables that come back as lists over the ranks"),
        "mpi": OurOption("TYPE", "how ranks of MPI find each other: pmix, pmi2 (srun --mpi)"),
        "max-restarts": OurOption("N", "how often torchrun starts ranks again that have failed"),
        "tensorboard": OurOption("DIR", "TensorBoard beside the cell: for the logs in DIR"),
        "env": OurOption("NAME=VALUE", "an environment variable for the cell; may be repeated"),
        "mount": OurOption("SRC[:DST[:ro]]", "a folder to see in the image; may be repeated"),
        "push": OurOption("DIR", "a folder of this machine: the job runs in a copy of it"),
        "push-exclude": OurOption(
            "PATTERN", "what --push leaves behind, as in .gitignore; may be repeated"
        ),
        "session": OurOption("[NAME]", "run at once in a session started here, or any by its id"),
        "fetch": OurOption("GLOBS", "files to bring back when the job has ended; may be repeated"),
        "name": OurOption("NAME", "what the job is called"),
        "detach": OurOption("", "give a job handle at once instead of waiting"),
        "wait": OurOption("", "wait for the end, where the setting says to detach"),
        "on-interrupt": OurOption("detach|cancel", "what interrupting the cell does to the job"),
        "attach": OurOption("", "attach to this cell's job, never submit one"),
        "fresh": OurOption("", "submit another job even if this cell's job still runs"),
        "dry-run": OurOption("", "show what would be submitted, and submit nothing"),
        "no-raise": OurOption("", "a job that fails does not fail the cell"),
    }
)
CELL = Command("%%slurm", "run this cell as a job", only="notebook", of_job=True, options=_OF_CELLS)
"""Every command that submits a job takes its options, except those that it refuses."""

_JSON = OurOption("", "as JSON, for programs", only="terminal")
_CLUSTER = OurOption("NAME", "the cluster, if not the default")
_AS_JSON = _options(json=_JSON)
_OF_CLUSTER = _options(cluster=_CLUSTER)
_OF_CLUSTER_AS_JSON = _options(cluster=_CLUSTER, json=_JSON)
_NAME = OurOption("NAME", "the cluster's name (local)", default="local")
_EXCLUDE = OurOption("PATTERN", "leave out, as in .gitignore; may be repeated", repeated=True)
_NAMED = (Argument("name", "NAME", "the cluster", of="cluster"),)
_WHICH = (Argument("cluster", "CLUSTER", "if not the default", "?", "cluster"),)
_JOB = (Argument("id", "ID", "a job's id, ours or Slurm's", of="job"),)
_JOBS = (Argument("ids", "ID", "a job's id, ours or Slurm's", "+", "job"),)
_REBUILD = OurOption("", "make it anew even if nothing has changed")
_NO_BROWSER = OurOption("", "only say where it is", only="terminal")
_OF_IMAGES = ("cluster", "runtime", "detach", "wait", "on-interrupt", "no-raise")
_NOT_ENTERED = "in out out-format fetch attach fresh on-interrupt wait no-raise session".split()
_NOT_ENTERED += "gather max-restarts mpi tensorboard".split()
_NOT_KEPT = (*_NOT_ENTERED, "launch")

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
        options=_options(
            name=_NAME,
            nodes=OurOption("N", "pretended nodes", read=number),
            cpus=OurOption("N", "CPUs of each node", read=number),
            memory=OurOption("SIZE", "memory of each node, as sbatch's --mem"),
            gpus=OurOption(
                "N",
                "that many pretended GPUs of each node (2), or `own`: this machine's, on the first "
                "node, as without this option where it has any",
                read=gpus,
            ),
            gpu_type=OurOption("TYPE", "what the GPUs are called (a100)"),
            accounting=OurOption("", "with slurmdbd"),
            runtime=OurOption("NAME", "the container tool (charliecloud)"),
        ),
    ),
    Command(
        "down",
        "stop the private Slurm; its queue stays",
        only="terminal",
        options=_options(name=_NAME, purge=OurOption("", "cancel its jobs and remove its files")),
    ),
    Command(
        "status",
        "the private Slurm and the agent",
        only="terminal",
        options=_options(name=_NAME, json=_JSON),
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
        options=_options(
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
        options=_options(partition=OurOption("NAME", "where to run it")),
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

SUBMIT = Command(
    "submit",
    "run a Python file, a script or a notebook as a job",
    only="terminal",
    arguments=(
        Argument(
            "file",
            "FILE",
            ".py: Python, ARGUMENTS are its sys.argv; .ipynb: a notebook, the executed copy is "
            "NAME.executed.ipynb beside it; #!…: a program, run in the image, or, with #SBATCH "
            "lines, handed to sbatch as it is; ARGUMENTS are its $1, $2 …",
            of="path",
        ),
    ),
    of_job=True,
    rest="ARGUMENTS",
    refused=("in", "out", "out-format", "attach", "fresh", "no-raise"),
    refusal="--{} belongs to cells of a notebook.",
    more="The job's output is shown; the exit code is the job's. Ctrl-C leaves the job alone: "
    "`jupyter slurm attach ID` comes back to it.",
)
SESSION_START = Command(
    "session start",
    "keep an allocation, and wait until it runs",
    of_job=True,
    options=_options(
        idle=OurOption(
            "TIME",
            "end it when it has had no cell for so long (30m)",
            read=idle_s,
            default=1800,
            says="idle_s",
        )
    ),
    refused=tuple(one for one in _NOT_ENTERED if one != "mpi"),
    refusal="--{} belongs to a cell, not to a session.",
    more="`%%slurm --session` cells run in it at once, in one process that keeps their variables; "
    "so does `jupyter slurm submit FILE --session [NAME]`.",
)
KERNEL_ADD = Command(
    "kernel add",
    "a kernel that runs in a job, for Jupyter's picker",
    only="terminal",
    of_job=True,
    options=_options(
        name=OurOption("NAME", "what Jupyter calls it (from its title)"),
        display_name=OurOption("TEXT", 'its title ("Python 3 (arandu · 1 GPU)")'),
        idle=OurOption(
            "TIME",
            "its job ends after so long with nobody connected (the profile's: 1h)",
            read=idle_s,
            says="idle_s",
        ),
    ),
    refused=(*_NOT_ENTERED, "detach", "dry-run"),
    refusal="--{} means nothing for a kernel.",
    more="The image needs ipykernel. `--env NAME` takes the value that this shell exports; the "
    "values lie in a file that only you can read.",
)
LAB_START = Command(
    "lab start",
    "a JupyterLab as a job, and open it when it is ready",
    of_job=True,
    options=_options(
        idle=OurOption(
            "TIME",
            "it ends after so long without anybody's doing anything in it (the profile's `idle_s`, "
            "an hour)",
            read=idle_s,
            says="idle_s",
        ),
        install=OurOption(
            "", "where the image has no JupyterLab: install one beside it, once", says="install"
        ),
        no_browser=_NO_BROWSER,
    ),
    refused=_NOT_KEPT,
    refusal="--{} belongs to cells: in a lab none has been written yet.",
)
SHELL = Command(
    "shell",
    "a terminal on a node, or in a job that runs",
    of_job=True,
    rest="COMMAND",
    options=_options(
        job=OurOption(
            "ID", "the terminal of a job that `shell` has submitted, or a new one in any other job"
        ),
        new=OurOption("", "with --job: another terminal beside the job's own"),
        keep=OurOption(
            "TIME",
            "how long a job waits for a terminal that has gone (30m)",
            read=keep_s,
        ),
    ),
    refused=(*(one for one in _NOT_KEPT if one != "session"), "detach", "dry-run"),
    refusal="--{} means nothing for a terminal.",
    more="It is in a job of its own, which ends with it, or in a job that runs (--job), in its "
    "image. COMMAND runs instead of a shell; the exit code is the shell's. ~. at the beginning of "
    "a line leaves: the shell runs on, and `jupyter slurm shell --job ID` comes back to it, also "
    "after the line was cut or the laptop closed.",
)
_LABS = "the newest, one by its name on the cluster, or any by its id"
_LAB = (Argument("name", "NAME", _LABS, "?", "lab"),)
_SESSIONS = "the newest, one started here by its name, or any by its id"
_KEPT = (
    SUBMIT,
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
        options=_options(cluster=_CLUSTER, no_browser=_NO_BROWSER),
    ),
    Command(
        "lab extend",
        "give a lab more time, where Slurm allows that",
        arguments=_LAB,
        options=_options(time=OurOption("+1h", "how much more", required=True), cluster=_CLUSTER),
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
        "logs",
        "what a job has printed",
        arguments=_JOB,
        options=_options(
            task=OurOption("N", "of an array: by its index; or a rank of many", read=number),
            follow=OurOption("", "go on until the job ends", short="f", only="terminal"),
            lines=OurOption("LINES", "the last ones", short="n", read=lines, only="notebook"),
            to=OurOption("FILE", "into a file", only="notebook"),
        ),
    ),
    Command("why", "why a job waits, or how it ended", arguments=_JOB, options=_AS_JSON),
    Command("cancel", "cancel jobs", arguments=_JOBS),
    Command("hold", "keep jobs from starting", arguments=_JOBS),
    Command("release", "let jobs start again", arguments=_JOBS),
    Command("requeue", "end jobs that run, and put them back into the queue", arguments=_JOBS),
    Command("forget", "remove what is kept of jobs that have ended", arguments=_JOBS),
)

_LOCAL_PORT = OurOption("N", "the port here (any)", default="0")
_CLOSE = OurOption("ID", "close one", repeated=True)
_TARGET = "as the login node or the job's node sees it, or JOB:ray, JOB:dask, JOB:tensorboard"
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
        options=_options(exclude=_EXCLUDE, cluster=_CLUSTER),
    ),
    Command(
        "pull",
        "make a folder or file here like the one there",
        arguments=(
            Argument("remote", "REMOTE", "a folder or file of the cluster"),
            Argument("local", "LOCAL", "its place here (same name)", "?", "path"),
        ),
        options=_options(exclude=_EXCLUDE, cluster=_CLUSTER),
    ),
    Command(
        "tunnel",
        "ports here that lead to ports of a cluster",
        arguments=(
            Argument("target", "[JOB|HOST:]PORT", f"{_TARGET}; none: list the tunnels", "?"),
        ),
        options=_options(local_port=_LOCAL_PORT, close=_CLOSE, cluster=_CLUSTER, json=_JSON),
    ),
    Command("tunnels", "those that are open", only="notebook"),
)

IMAGE_BUILD = Command(
    "image build",
    "make one from a recipe: lines, a Dockerfile, a script …",
    only="terminal",
    arguments=(
        Argument("name", "NAME", "what `--image` will call it"),
        Argument("file", "FILE", "the recipe; none, or `-`: standard input", "?", "path"),
    ),
    options=MappingProxyType(
        {
            "from": OurOption("IMAGE", "the image to start from: an alias, a name or a path"),
            "env-from-here": OurOption(
                "", "the packages that this Python has, beside the recipe's"
            ),
            "rebuild": _REBUILD,
        }
    ),
    of_job=True,
    refused=tuple(name for name in CELL.options if name not in _OF_IMAGES),
    refusal="--{} belongs to cells, not to the making of images.",
    instead=MappingProxyType({"image": "Say --from IMAGE for what it is made of."}),
)
_ITS_NAME = IMAGE_BUILD.arguments[:1]
IMAGE_CELL = replace(IMAGE_BUILD, name="slurm_image", arguments=_ITS_NAME, is_cell_magic=True)
"""`%%slurm_image`, whose recipe is the cell."""
IMAGE_PULL = Command(
    "image pull",
    "bring one from a registry, for every node",
    arguments=(Argument("name", "IMAGE", "its reference"),),
    options=_options(rebuild=_REBUILD),
    of_job=True,
    refused=IMAGE_BUILD.refused,
    refusal=IMAGE_BUILD.refusal,
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
    Command(
        "image login",
        "give the cluster your password of a registry",
        arguments=(Argument("registry", "REGISTRY", "nvcr.io, ghcr.io, docker.io …"),),
        options=_options(
            user=OurOption("NAME", "your name there; not needed for nvcr.io"),
            password_stdin=OurOption("", "read the password from standard input", only="terminal"),
            cluster=_CLUSTER,
        ),
    ),
)

FORM = tuple(
    "cluster partition account qos gpus nodes ntasks launch cpus-per-task mem time image chdir "
    "display-name name array idle module env install tensorboard".split()
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
