"""`%slurm shell`: a terminal in a job, in the one that IPython runs in.

A notebook has none: there the job is submitted, and what to type in a terminal is shown.
"""

from __future__ import annotations

from jupyter_slurm.commands.asked import Asked
from jupyter_slurm.commands.shell import parse
from jupyter_slurm.magics.frontend import in_place, say
from jupyter_slurm.magics.session import Session


def shell(session: Session, asked: Asked) -> None:
    # The front ends have the Api in common, and here all that is done with it.
    from jupyter_slurm.cli.shell import open_shell, submitted  # noqa: PLC0415

    wanted = parse(asked, session.with_defaults(()))
    cluster = wanted.request.cluster
    if not in_place():
        open_shell(session.api, wanted, cluster)
        return
    if wanted.job_id is None:
        job = submitted(session.api, wanted, cluster)
        session.show_card(job)
    else:
        job = session.api.job(wanted.job_id)
    command = f"jupyter slurm shell --job {job.id}{' --new' if wanted.beside else ''}"
    say(f"A notebook has no terminal: open one, and type `{command}`.")
