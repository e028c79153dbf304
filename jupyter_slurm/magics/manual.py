"""Help texts of the magics, generated from the parser's tables."""

from __future__ import annotations

import textwrap

from jupyter_slurm.commands.arguments import of_cells, sections
from jupyter_slurm.commands.submitting import CELL, IMAGE_CELL
from jupyter_slurm.slurm.options import OPTIONS

_CELL = """\
Run this cell as a Slurm job, as if it ran locally.

    %%slurm [sbatch options] [our options]
    ...ordinary Python, or a script that starts with #!

The cell waits and shows the job's output: text, plots, tables, errors. If the job fails, so does
the cell. Interrupting (■) leaves the job running; `%slurm attach` returns to it. Running the same
cell again attaches to its job, unless other values, files or options would be sent: then it submits
another job. You can close the notebook, or restart the kernel or Jupyter, without losing the job or
its results.

Examples

    %%slurm --gpus 1 --time 30m --image pytorch:22.11 --in data --out model,losses
    %%slurm --detach --cpus-per-task 8 --mem 16G --name "fit-{seed}"
    %%slurm --push . --push-exclude data/ --fetch 'out/*.csv,model.pt' --gpus 1
    %%slurm --session
    %%slurm --cluster arandu --partition gpu --module cuda/12.4 --env OMP_NUM_THREADS=4 --dry-run

`{name}` is replaced by the value of a variable (also `{job.id}` and `{rate:.2f}`). Write `{{name}}`
for the literal text; `$` and everything else is unchanged. With --detach, assign
the handle with `job = _`, then use `job.result()`, `await job`, `job.output` or `job.cancel()`.

Our options
"""

_LINE = """\
Use the cluster from this notebook.

    %slurm                        the queue, live, with buttons
{commands}
`ID` is a job's ID of eight characters, or Slurm's number. See `%%slurm?` for cells; `%squeue`,
`%sinfo`, `%sacct` … run Slurm's own commands; `%config SlurmMagics` shows settings.
"""

_SCRIPT = """\
Submit this cell as a batch script, unchanged.

    %%sbatch [sbatch options] [--cluster NAME] [--name NAME] [--dry-run] [-- ARGUMENTS]
    #!/bin/bash
    #SBATCH --time=10
    srun hostname

The script is submitted as if typed after a login, with everything that your login files set
(`module`, PATH). Returns a job handle and shows a live card; it does not wait. Assign the
handle with `job = _`, then use `job.wait()`, `job.output` or `job.cancel()`. `%slurm attach` waits
for the job and shows its output.
"""

_IMAGE = """\
Build a job image from this cell, with the cluster's own container tool.

    %%slurm_image NAME [--from IMAGE] [our options] [sbatch options]
    pip install transformers==4.40 "numpy<2"
    apt install git

Then use it with `%%slurm --image NAME`. Lines of pip, apt and conda, or lists below `pip:`, `apt:`,
`conda:`, work with every tool. Each tool also reads its own recipe: Docker, Podman and Charliecloud
a Dockerfile (FROM …), Apptainer a definition file (Bootstrap: …), pyxis and enroot a setup script
(#!/bin/sh) with --from.

A recipe that copies files gets this notebook's folder, or the one after --push, without the files
in .dockerignore. A job builds the image in a folder that all nodes share. It is rebuilt when the
cell, the base image, or a pushed file changes.

Our options
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
    return f"{_CELL}\n{ours}\nsbatch options, under Slurm's own names\n\n{theirs}"


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
