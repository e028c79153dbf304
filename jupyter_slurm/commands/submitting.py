"""The commands that submit jobs: the options of `%%slurm`, and the options that other commands add
or reject. `table.py` lists all commands."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from jupyter_slurm.commands.command import (
    Argument,
    Command,
    OurOption,
    idle_s,
    options,
)
from jupyter_slurm.wire import KernelSpec, LabSpec, SessionSpec

NO_BROWSER = OurOption("", "only print the lab's address", only="terminal")
_OF_CELLS = MappingProxyType(
    {
        "cluster": OurOption("NAME", "the cluster to run on; see `%slurm clusters`"),
        "image": OurOption(
            "IMAGE", "the container image: an alias in the profile, or the image's name"
        ),
        "container-name": OurOption(
            "NAME", "pyxis only: the name of a container to keep on its node and reuse"
        ),
        "container-remap-root": OurOption(
            "", "run as root in the container, for example for `apt install`"
        ),
        "runtime": OurOption("NAME", "the container tool: charliecloud, none …"),
        "module": OurOption("NAMES", "environment modules to load first, separated by commas"),
        "with": OurOption(
            "PACKAGES", "packages to install first, separated by commas; only without an image"
        ),
        "requirements": OurOption(
            "FILE", "packages from requirements.txt, pyproject.toml, uv.lock or environment.yml"
        ),
        "with-mine": OurOption("", "install the packages of this Python, in the same versions"),
        "in": OurOption("NAMES", "variables of this notebook to send to the cell"),
        "out": OurOption("NAMES", "variables to return to this notebook"),
        "out-format": OurOption("auto|data", "return variables pickled, or as JSON and arrays"),
        "sweep": OurOption(
            "NAME[=VALUES]",
            "run for each value: a list (1e-3,1e-4), an expression (range(9)), or a variable with "
            "a DataFrame or a list of dicts; may be repeated, for all combinations",
        ),
        "max-running": OurOption("N", "run at most N tasks of a sweep at a time"),
        "max-fails": OurOption("N", "cancel the rest of a sweep after N failed tasks"),
        "into": OurOption("NAME", "the variable for the table of a sweep (results)"),
        "launch": OurOption("torchrun|mpi|ray|dask", "use all nodes, with ranks or workers"),
        "gather": OurOption("NAMES", "variables to return as lists over the ranks"),
        "mpi": OurOption("TYPE", "the MPI type of the ranks: pmix, pmi2 (`srun --mpi`)"),
        "max-restarts": OurOption("N", "maximum number of restarts of failed ranks by torchrun"),
        "tensorboard": OurOption("DIR", "show TensorBoard for the logs in DIR"),
        "env": OurOption("NAME=VALUE", "an environment variable for the cell; may be repeated"),
        "mount": OurOption("SRC[:DST[:ro]]", "a folder to mount in the image; may be repeated"),
        "push": OurOption("DIR", "a local folder to copy; the job runs in the copy"),
        "push-exclude": OurOption(
            "PATTERN", "files that --push excludes, as in .gitignore; may be repeated"
        ),
        "session": OurOption("[NAME]", "run in the session with this name or ID (the newest)"),
        "fetch": OurOption("GLOBS", "files to fetch when the job ends; may be repeated"),
        "name": OurOption("NAME", "the job's name"),
        "after": OurOption(
            "JOB[:WHEN]",
            "start after JOB succeeds, JOB:any ends or JOB:fail fails; may be repeated",
        ),
        "detach": OurOption("", "return a job handle at once instead of waiting"),
        "wait": OurOption("", "wait for the end, overriding the detach setting"),
        "on-interrupt": OurOption("detach|cancel", "the effect of an interrupt on the job"),
        "attach": OurOption("", "attach to this cell's job; never submit a job"),
        "fresh": OurOption("", "submit another job even if this cell's job is still running"),
        "dry-run": OurOption("", "show the script, options and cost without submitting the job"),
        "no-raise": OurOption("", "do not fail the cell if the job fails"),
    }
)
CELL = Command("%%slurm", "run this cell as a job", only="notebook", of_job=True, options=_OF_CELLS)
"""The options of `%%slurm`. Each command that submits a job accepts them, except for the options in
`Command.refused`."""

_OF_IMAGES = ("cluster", "runtime", "detach", "wait", "on-interrupt", "no-raise")
_NOT_ENTERED = "in out out-format fetch attach fresh on-interrupt wait no-raise session".split()
_NOT_ENTERED += "gather max-restarts mpi tensorboard".split()
_OF_SWEEPS = ("sweep", "max-running", "max-fails", "into")
_NOT_ENTERED += _OF_SWEEPS
_NOT_KEPT = (*_NOT_ENTERED, "launch")
_PACKAGES = ("with", "requirements", "with-mine")

SUBMIT = Command(
    "submit",
    "run a Python file, a script or a notebook as a job",
    only="terminal",
    arguments=(
        Argument(
            "file",
            "FILE",
            "a Python file (.py) with ARGUMENTS as sys.argv, a notebook (.ipynb) or a script (#!…) "
            "with ARGUMENTS as $1, $2 etc. The executed notebook is saved as "
            "NAME.slurm-ID.ipynb in the same folder. A script runs in the image. With #SBATCH "
            "lines or --array, sbatch gets the script unchanged.",
            of="path",
        ),
    ),
    of_job=True,
    rest="ARGUMENTS",
    refused=("in", "out", "out-format", "attach", "fresh", "no-raise", *_OF_SWEEPS),
    refusal="--{} is for notebook cells.",
    more="Shows the job's output and returns its exit code. Ctrl-C leaves the job running; "
    "follow it again with `jupyter slurm attach ID`.",
)
RUN = Command(
    "run",
    "run an image's own program as a job",
    arguments=(Argument("image", "IMAGE", "the image, as for --image"),),
    of_job=True,
    rest="ARGUMENTS",
    refused=(
        *"image in out out-format attach fresh session".split(),
        *"launch gather max-restarts mpi tensorboard".split(),
        *_PACKAGES,
        *_OF_SWEEPS,
    ),
    refusal="--{} does not apply to an image's own program.",
    instead=MappingProxyType({"image": "Use `%slurm run IMAGE`."}),
    more="Works like `docker run` and `apptainer run`: runs ENTRYPOINT with ARGUMENTS (or with "
    "CMD), or the %runscript of an Apptainer definition. The program starts in the folder that "
    "the image names, or with Apptainer in the job's folder. `--mount .:/DIR` mounts the job's "
    "folder. Charliecloud images do not define a program.",
)
CALL = Command(
    "Executor",
    "call functions in jobs",
    of_job=True,
    refused=(
        *"in out out-format gather fetch session attach fresh dry-run".split(),
        *"detach wait on-interrupt no-raise".split(),
        *_OF_SWEEPS,
    ),
    refusal="--{} does not apply to an Executor.",
)
"""The options of `js.Executor`, which is not a command."""
MAP = replace(
    CALL,
    name="map",
    refused=(*(one for one in CALL.refused if one not in ("max-fails", "on-interrupt")), "array"),
    refusal="--{} does not apply to js.map.",
)
"""The options of `js.map`, which is not a command."""
SESSION_START = Command(
    "session start",
    "start a session and wait until it runs",
    of_job=True,
    starts=SessionSpec,
    options=options(
        idle=OurOption(
            "TIME",
            "stop after this time without a cell (30m)",
            read=idle_s,
            default=1800,
            says="idle_s",
        )
    ),
    refused=tuple(one for one in _NOT_ENTERED if one != "mpi"),
    refusal="--{} is for a cell, not for a session.",
    more="`%%slurm --session` cells and `jupyter slurm submit FILE --session [NAME]` run in the "
    "session at once, in one process that keeps their variables.",
)
KERNEL_ADD = Command(
    "kernel add",
    "add a kernel that runs in a job to Jupyter's launcher",
    only="terminal",
    of_job=True,
    starts=KernelSpec,
    options=options(
        name=OurOption("NAME", "the kernel's name in Jupyter (from its title)"),
        display_name=OurOption("TEXT", 'the title of the kernel ("Python 3 (arandu · 1 GPU)")'),
        idle=OurOption(
            "TIME",
            "stop the job after this time without a client (the profile's `idle_s`: 1h)",
            read=idle_s,
            says="idle_s",
        ),
    ),
    refused=(*_NOT_ENTERED, "detach", "dry-run"),
    refusal="--{} does not apply to a kernel.",
    more="The image needs ipykernel. `--env NAME` uses the value exported by this shell. Only "
    "you can read the file with the values.",
)
LAB_START = Command(
    "lab start",
    "start JupyterLab as a job and open it when it is ready",
    of_job=True,
    starts=LabSpec,
    options=options(
        idle=OurOption(
            "TIME",
            "stop after this time without use (the profile's `idle_s`: 1h)",
            read=idle_s,
            says="idle_s",
        ),
        no_browser=NO_BROWSER,
    ),
    refused=_NOT_KEPT,
    refusal="--{} is for cells, not for a lab.",
)
SHELL = Command(
    "shell",
    "open a terminal on a node, in a new allocation or in a running job",
    of_job=True,
    rest="COMMAND",
    options=options(
        job=OurOption("ID", "enter this running job, in its image"),
        node=OurOption("NAME", "the node of --job (the first)"),
    ),
    refused=(*_NOT_KEPT, *_PACKAGES, "after", "push", "push-exclude", "detach", "dry-run"),
    refusal="--{} does not apply to a terminal.",
    instead=MappingProxyType(
        {"push": "Copy a folder to the cluster with `%slurm push DIR`. Start in it with --chdir."}
    ),
    more="Runs `srun --pty` in your terminal. Takes sbatch options and image options. COMMAND runs "
    "instead of a shell; the exit code is that of the shell. A new allocation ends with the shell; "
    "a running job continues. A lost connection ends the shell: use `tmux` in a job to keep it.",
)

RETRY = Command(
    "retry",
    "submit the failed tasks of a sweep again",
    arguments=(Argument("id", "ID", "a job's ID in jupyter-slurm or Slurm", of="job"),),
    of_job=True,
    refused=tuple(one for one in _OF_CELLS if one not in ("detach", "wait", "on-interrupt")),
    refusal="A retry cannot change --{}.",
    more="sbatch options replace those of the sweep; `--mem 2x` and `--time 2x` multiply the "
    "limits of the tasks. The results join the sweep's table.",
)

_REBUILD = OurOption("", "build or pull again even if nothing has changed")
IMAGE_BUILD = Command(
    "image build",
    "build an image from a recipe: lines of packages, or the container tool's own format",
    only="terminal",
    arguments=(
        Argument("name", "NAME", "the image's name for `--image`"),
        Argument("file", "FILE", "the recipe; omit it or use `-` for standard input", "?", "path"),
    ),
    options=MappingProxyType(
        {
            "from": OurOption("IMAGE", "the base image: an alias, a name or a path"),
            "push": OurOption("DIR", "the folder with the recipe's files (the recipe's folder)"),
            "env-from-here": OurOption("", "add the packages of this Python"),
            "rebuild": _REBUILD,
        }
    ),
    of_job=True,
    refused=tuple(name for name in CELL.options if name not in _OF_IMAGES),
    refusal="--{} is for cells, not for images.",
    instead=MappingProxyType({"image": "Use --from IMAGE for the base image."}),
)
IMAGE_CELL = replace(
    IMAGE_BUILD, name="slurm_image", arguments=IMAGE_BUILD.arguments[:1], is_cell_magic=True
)
"""The command `%%slurm_image`. The cell contains the recipe."""
IMAGE_PULL = Command(
    "image pull",
    "pull an image from a registry, for every node",
    arguments=(Argument("name", "IMAGE", "the image's reference"),),
    options=options(rebuild=_REBUILD),
    of_job=True,
    refused=IMAGE_BUILD.refused,
    refusal=IMAGE_BUILD.refusal,
)
