"""PURE: the commands that submit a job: what `%%slurm` takes, and what each of the others adds to
that or refuses. `table.py` has them beside all other commands.
"""

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

NO_BROWSER = OurOption("", "only say where it is", only="terminal")
_OF_CELLS = MappingProxyType(
    {
        "cluster": OurOption("NAME", "the cluster to run on; see `%slurm clusters`"),
        "image": OurOption("IMAGE", "the container image: an alias of the profile, or its name"),
        "container-name": OurOption(
            "NAME", "pyxis only: a container that stays on its node, made from --image, used again"
        ),
        "container-remap-root": OurOption("", "be root in it, as `apt install` needs"),
        "runtime": OurOption("NAME", "how the image is run: charliecloud, none …"),
        "module": OurOption("NAMES", "environment modules to load first, separated by commas"),
        "in": OurOption("NAMES", "variables of this notebook that the cell gets"),
        "out": OurOption("NAMES", "variables that come back into this notebook"),
        "out-format": OurOption("auto|data", "pickled, or as JSON and arrays without pickles"),
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

_OF_IMAGES = ("cluster", "runtime", "detach", "wait", "on-interrupt", "no-raise")
_NOT_ENTERED = "in out out-format fetch attach fresh on-interrupt wait no-raise session".split()
_NOT_ENTERED += "gather max-restarts mpi tensorboard".split()
_NOT_KEPT = (*_NOT_ENTERED, "launch")

SUBMIT = Command(
    "submit",
    "run a Python file, a script or a notebook as a job",
    only="terminal",
    arguments=(
        Argument(
            "file",
            "FILE",
            ".py: Python, ARGUMENTS are its sys.argv; .ipynb: a notebook, the executed copy is "
            "NAME.slurm-ID.ipynb beside it; #!…: a program, run in the image, or, with #SBATCH "
            "lines or --array, handed to sbatch as it is; ARGUMENTS are its $1, $2 …",
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
RUN = Command(
    "run",
    "run the program that an image itself names, as a job",
    arguments=(Argument("image", "IMAGE", "as --image says it"),),
    of_job=True,
    rest="ARGUMENTS",
    refused=(
        *"image in out out-format attach fresh session".split(),
        *"launch gather max-restarts mpi tensorboard".split(),
    ),
    refusal="--{} means nothing for the program that an image names.",
    instead=MappingProxyType({"image": "Name the image without it: `%slurm run IMAGE`."}),
    more="As `docker run` and `apptainer run` do: ENTRYPOINT with ARGUMENTS, or with CMD where "
    "there are none; the %runscript of an Apptainer definition. It begins in the folder that the "
    "image names (with Apptainer in that of the job); `--mount .:/DIR` shows it the job's folder. "
    "Charliecloud keeps no such program.",
)
SESSION_START = Command(
    "session start",
    "keep an allocation, and wait until it runs",
    of_job=True,
    options=options(
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
    options=options(
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
    options=options(
        idle=OurOption(
            "TIME",
            "it ends after so long without anybody's doing anything in it (the profile's `idle_s`, "
            "an hour)",
            read=idle_s,
            says="idle_s",
        ),
        no_browser=NO_BROWSER,
    ),
    refused=_NOT_KEPT,
    refusal="--{} belongs to cells: in a lab none has been written yet.",
)
SHELL = Command(
    "shell",
    "a terminal on a node, in a new allocation or in a running job",
    of_job=True,
    rest="COMMAND",
    options=options(
        job=OurOption("ID", "enter this running job, in its image"),
        node=OurOption("NAME", "with --job: on that node of the job (its first)"),
    ),
    refused=(*_NOT_KEPT, "push", "push-exclude", "detach", "dry-run"),
    refusal="--{} means nothing for a terminal.",
    instead=MappingProxyType(
        {"push": "`%slurm push DIR` copies a folder to the cluster, --chdir begins in it."}
    ),
    more="It is `srun --pty` on your own terminal, with the options of sbatch and of images. "
    "COMMAND runs instead of a shell; the exit code is the shell's. The allocation ends with the "
    "shell; a running job goes on. A connection that is lost ends the shell: use `tmux` in a job "
    "for what must go on.",
)

_REBUILD = OurOption("", "make it again even if nothing has changed")
IMAGE_BUILD = Command(
    "image build",
    "build one from a recipe: lines of packages, or what the container tool reads",
    only="terminal",
    arguments=(
        Argument("name", "NAME", "what `--image` will call it"),
        Argument("file", "FILE", "the recipe; none, or `-`: standard input", "?", "path"),
    ),
    options=MappingProxyType(
        {
            "from": OurOption("IMAGE", "the image to start from: an alias, a name or a path"),
            "push": OurOption("DIR", "the folder with its files, if not the recipe's own folder"),
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
IMAGE_CELL = replace(
    IMAGE_BUILD, name="slurm_image", arguments=IMAGE_BUILD.arguments[:1], is_cell_magic=True
)
"""`%%slurm_image`, whose recipe is the cell."""
IMAGE_PULL = Command(
    "image pull",
    "bring one from a registry, for every node",
    arguments=(Argument("name", "IMAGE", "its reference"),),
    options=options(rebuild=_REBUILD),
    of_job=True,
    refused=IMAGE_BUILD.refused,
    refusal=IMAGE_BUILD.refusal,
)
