"""Texts about the waiting job, its end and the connection, shown in a remote kernel's cells. No
I/O."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.formatting import counted, duration, joined, size
from jupyter_slurm.views import card
from jupyter_slurm.views.failure import ended
from jupyter_slurm.wire import Job, JobState

AGAIN = "Restart the kernel to submit another job."
LOGIN_MIME = "application/vnd.jupyter-slurm.login+json"
"""The MIME type that our JupyterLab extension shows as a button for logging in to a cluster."""
REJOIN = "Restart the kernel to use it here again."
STARTING = "The job is running; its kernel is starting."
TAKEN = "Another client took over this job's kernel: the same notebook was opened elsewhere."


def begun() -> dict[str, Any]:
    """Return the first display of a waiting cell."""
    return noted("Submitting the kernel's job.")


def noted(text: str) -> dict[str, Any]:
    """Return a message as a MIME bundle."""
    return {"text/html": f"<div>{escape(text)}</div>", "text/plain": text}


def waiting(job: Job, now_s: float, first: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the display of a cell that waits for the job. `first` is a MIME bundle to show above
    it."""
    data = card.bundle(job, now_s)
    if first is None and job.state is JobState.RUNNING:
        first = noted(STARTING)
    if first is None:
        return data
    # Remove the live card, because it would hide the preceding sentence.
    del data[card.MIME]
    for form, separator in (("text/html", ""), ("text/plain", "\n")):
        data[form] = f"{first[form]}{separator}{data[form]}"
    return {**first, **data}


def hindered(error: JupyterSlurmError, cluster: str | None) -> str:
    """Return advice on an error after which the kernel continues."""
    if isinstance(error, LoginNeededError):
        where = f" {cluster}" if cluster else ""
        return (
            f"{error.message} Log in with `jupyter slurm login{where}` in a terminal, "
            f"`%slurm login{where}` in another notebook, or in the sidebar. The kernel then "
            "continues automatically."
        )
    return f"{error} The kernel retries automatically."


def hindrance(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    """Return the advice of `hindered` as a MIME bundle."""
    return noted(hindered(error, cluster)) | _login(error, cluster)


def over(job: Job) -> tuple[str, str]:
    """Return the reason and advice after the job's end."""
    state = job.state.word
    error = ended(job, card.title(job), f"it is {state}.")
    return error.message, _advice(job.advice)


def refused(error: JupyterSlurmError) -> tuple[str, str]:
    """Return the reason and advice for a kernel without a job."""
    return str(error), _advice(None)


def internal_error(error: Exception) -> tuple[str, str]:
    """Return the reason and advice after an internal error."""
    return f"Internal error in the kernel: {error!r}.", _advice(None)


def forgotten(job_id: str) -> tuple[str, str]:
    return f"The kernel's job {job_id} is unknown to the agent.", _advice(None)


def died(status: int, *, again: bool) -> str:
    """Return a message about an ended process. `status` is its return code as in `subprocess`."""
    if status >= 0:
        how = f"exited with code {status}"
    elif status == -9:
        how = "was killed by signal 9, possibly because it ran out of memory"
    else:
        how = f"was killed by signal {-status}"
    after = "It restarts in the same job." if again else "It does not restart."
    return f"The kernel on the node {how}. Its variables are lost. {after}"


def interrupted() -> str:
    return "interrupted while the cell was waiting for its job"


def another() -> str:
    return "Slurm restarted the kernel's job, so its variables are lost."


def queued_again() -> str:
    return "Slurm requeued the kernel's job, so its variables are lost."


def left_out(messages: int, size_bytes: int) -> str:
    told = (
        f"{counted(messages, 'message')} of output ({size(size_bytes)}) left out: too large to "
        "send, or too many to keep while the connection was slow or down"
    )
    return f"[{told}]\n"


def too_large(kind: str, most_bytes: int) -> str:
    return (
        f"The {kind} was not sent to the job's kernel because it is larger than {size(most_bytes)}."
    )


def ending(signal: str) -> str:
    return f"[Slurm sent the job {signal} and is ending it]\n"


def warned(signal: str) -> str:
    return f"[Slurm sent the job {signal}]\n"


def cut(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    """Return the display of a running cell while the connection is down."""
    told = (
        "The connection to the kernel's job is down. The cell keeps running, and its output "
        "arrives when the connection is back."
    )
    return noted(f"{told} {hindered(error, cluster)}") | _login(error, cluster)


def mended(cut_s: float) -> dict[str, Any]:
    span = duration(cut_s)
    return noted(f"The connection to the kernel's job was down for {span}. No output was lost.")


def _advice(advice: str | None) -> str:
    return joined(advice, AGAIN)


def _login(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    if cluster is None or not isinstance(error, LoginNeededError):
        return {}
    return {LOGIN_MIME: {"v": 1, "cluster": cluster}}
