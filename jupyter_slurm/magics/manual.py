"""Help texts of the magics, generated from the tables of the parser."""

from __future__ import annotations

import textwrap

from jupyter_slurm.commands.arguments import of_cells, sections
from jupyter_slurm.commands.submitting import CELL, IMAGE_CELL
from jupyter_slurm.slurm.options import OPTIONS

_CELL = """\
Run this cell as a Slurm job, as if it ran here.

    %%slurm [options of sbatch] [options of ours]
    ...ordinary Python, or a script that starts with #!

The cell waits and shows what the job writes: text, plots, tables, errors. A job that fails, fails
the cell. Interrupting (■) leaves the job running; `%slurm attach` brings it back. Running the same
cell again while its job is there attaches to it, unless other values, files or options would go in:
then it is another job. Nothing is lost by closing or restarting anything.

Examples

    %%slurm --gpus 1 --time 30m --image pytorch:22.11 --in data --out model,losses
    %%slurm --detach --cpus-per-task 8 --mem 16G --name "fit-{seed}"
    %%slurm --push . --push-exclude data/ --fetch 'out/*.csv,model.pt' --gpus 1
    %%slurm --session
    %%slurm --cluster arandu --partition gpu --module cuda/12.4 --env OMP_NUM_THREADS=4 --dry-run

`{name}` stands for the value of a variable here (`{job.id}` and `{rate:.2f}` too), `{{name}}` for
these very characters; `$` and all else is left as it is. With --detach: `job = _`, then
`job.result()`, `await job`, `job.output`, `job.cancel()`.

Options of ours
"""

_LINE = """\
The cluster from this notebook.

    %slurm                        the queue, live, with buttons
{commands}
`ID` is a job's id of eight characters, or Slurm's number. `%%slurm?` tells how a cell becomes a
job; `%squeue`, `%sinfo`, `%sacct` … run Slurm's own commands; `%config SlurmMagics` has settings.
"""

_SCRIPT = """\
Submit this cell as a batch script, as it is written.

    %%sbatch [options of sbatch] [--cluster NAME] [--name NAME] [--dry-run] [-- ARGUMENTS]
    #!/bin/bash
    #SBATCH --time=10
    srun hostname

It is submitted as if it had been typed after a login: what your login files set (`module`, PATH) is
there. Gives a job handle and a card that stays up to date; it does not wait.
`job = _`, then `job.wait()`, `job.output`, `job.cancel()`; `%slurm attach` waits and shows.
"""

_IMAGE = """\
Build an image for jobs from this cell, with the cluster's own container tool.

    %%slurm_image NAME [--from IMAGE] [options of ours] [options of sbatch]
    pip install transformers==4.40 "numpy<2"
    apt install git

and from then on `%%slurm --image NAME`. Lines of pip, apt and conda, or lists below `pip:`, `apt:`,
`conda:`, are for every tool. Each tool also reads its own recipe: Docker, podman and Charliecloud a
Dockerfile (FROM …), Apptainer a definition file (Bootstrap: …), pyxis and enroot a set-up script
(#!/bin/sh) with --from.

A recipe that copies files takes the folder of this notebook along, or the one after --push, without
what .dockerignore names. A job builds the image, where every node sees it. It is built again when
the cell, the image that it starts from, or a file of that folder changes.

Options of ours
"""


def image_help() -> str:
    """Return the text of `%%slurm_image?`."""
    ours = {**IMAGE_CELL.options, **of_cells(IMAGE_CELL)}
    return _IMAGE + "\n" + "".join(_entry(f"--{k}", v.metavar, v.help) for k, v in ours.items())


def cell_help() -> str:
    """Return the text of `%%slurm?`."""
    ours = "".join(_entry(f"--{name}", one.metavar, one.help) for name, one in CELL.options.items())
    theirs = "".join(
        _entry(
            f"-{one.short}, --{name}" if one.short else f"--{name}",
            "VALUE" if one.kind != "flag" else "",
            one.help,
        )
        for name, one in sorted(OPTIONS.items())
        if one.reserved is None and one.not_in_cell is None
    )
    return f"{_CELL}\n{ours}\nOptions of sbatch, under Slurm's own names\n\n{theirs}"


def line_help() -> str:
    """Return the text of `%slurm?`."""
    told = (
        "".join(_entry(f"%slurm {one.usage('notebook')}", "", one.help) for one in section)
        for section in sections("notebook").values()
    )
    return _LINE.format(commands="\n".join(told))


def script_help() -> str:
    """Return the text of `%%sbatch?`."""
    return _SCRIPT


def command_help(command: str) -> str:
    return (
        f"Run Slurm's own `{command}` on the current cluster, with arguments as written.\n\n"
        f"    %{command} [arguments]\n\n"
        "Returns its text, and for a table also `.rows` (a list of dicts) and\n"
        "`.to_pandas()`. `{name}` is replaced by the value of a variable.\n"
    )


def _entry(option: str, metavar: str, text: str) -> str:
    left = f"    {option} {metavar}".rstrip()
    if len(left) > 33:
        return left + "\n" + _wrapped(text, "")
    return _wrapped(text, left)


def _wrapped(text: str, left: str) -> str:
    first = left.ljust(34)
    return textwrap.fill(text, 100, initial_indent=first, subsequent_indent=" " * 34) + "\n"
