"""PURE: what a remote kernel says in cells: of the job it waits for, of its end, of the line."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.readable import duration, size
from jupyter_slurm.views import card
from jupyter_slurm.views.failure import ended
from jupyter_slurm.wire import Job, JobState, Message, Text, filled, said, together

AGAIN = "Restart the kernel to submit another job; nothing is submitted by itself."
LOGIN_MIME = "application/vnd.jupyter-slurm.login+json"
"""Where JupyterLab has our extension, it shows a button that logs in to the cluster named there."""
STARTING = "The job runs; its kernel is starting."
TAKEN = (
    "Another client has this job's kernel now: the same notebook was opened elsewhere. "
    "Restart the kernel to have it back here."
)


def begun() -> dict[str, Any]:
    """Return what a cell shows before anything is known."""
    return noted(said("The kernel's job is being submitted."))


def noted(text: str) -> dict[str, Any]:
    """Return a sentence as a bundle."""
    return {"text/html": f"<div>{escape(text)}</div>", "text/plain": text}


def waiting(job: Job, now_s: float, first: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what a cell shows while its job waits; `first`: a bundle that comes before, about what
    hinders."""
    data = card.bundle(job, now_s)
    if first is None and job.state is JobState.RUNNING:
        first = noted(said(STARTING))
    if first is None:
        return data
    # The live card would hide the sentence that comes first.
    del data[card.MIME]
    for form, separator in (("text/html", ""), ("text/plain", "\n")):
        data[form] = f"{first[form]}{separator}{data[form]}"
    return {**first, **data}


def hindered(error: JupyterSlurmError, cluster: str | None) -> str:
    """Return what a person can do about the error. The kernel goes on by itself then."""
    if isinstance(error, LoginNeededError):
        where = f" {cluster}" if cluster else ""
        how = Message.of(
            "Log in with `{in_terminal}` in a terminal, `{in_notebook}` in another notebook, or in "
            "the sidebar; this goes on by itself then.",
            in_terminal=f"jupyter slurm login{where}",
            in_notebook=f"%slurm login{where}",
        )
        return said(together(error.message, how))
    return f"{error} {said('It is tried again by itself.')}"


def hindrance(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    """Return the same as a bundle."""
    return noted(hindered(error, cluster)) | _login(error, cluster)


def over(job: Job) -> tuple[str, str]:
    """Return why nothing runs any more, and what to do."""
    state = Message(job.state.word)
    error = ended(job, card.title(job), Message.of("it is {state}.", state=state))
    return said(error.message), _advice(job.advice)


def refused(error: JupyterSlurmError) -> tuple[str, str]:
    """Return why there is no job, and what to do."""
    return str(error), _advice(None)


def stumbled(error: Exception) -> tuple[str, str]:
    """Return that nothing runs because of a bug of ours."""
    told = said("The kernel stumbled over a bug of its own: {error}.", error=repr(error))
    return told, _advice(None)


def forgotten(job_id: str) -> tuple[str, str]:
    told = said("Nothing is known any more of job {id}, which this kernel ran in.", id=job_id)
    return told, _advice(None)


def died(status: int, *, again: bool) -> str:
    """Return a sentence about a process that has ended; `status` is subprocess's return code."""
    if status >= 0:
        how = "The kernel on the node has ended with exit code {code}; its variables are gone."
    elif status == -9:
        how = (
            "The kernel on the node has ended by signal {code} (out of memory, perhaps); its "
            "variables are gone."
        )
    else:
        how = "The kernel on the node has ended by signal {code}; its variables are gone."
    after = "It is started anew in the same job." if again else "It is not started again."
    return said(together(filled(how, {"code": abs(status)}), after))


def interrupted() -> str:
    return said("the cell was waiting for its job, and was interrupted")


def another() -> str:
    return said("Slurm has started the kernel's job anew, so its variables are gone.")


def queued_again() -> str:
    return said("Slurm has put the kernel's job back into the queue, so its variables are gone.")


def left_out(messages: int, size_bytes: int) -> str:
    told = said(
        "{count} messages of output ({size}) were left out: one of them was too large to be sent, "
        "or more had come than could be kept while the line was slow or cut",
        count=messages,
        size=size(size_bytes),
    )
    return f"[{told}]\n"


def too_large(kind: str, most_bytes: int) -> str:
    return said(
        "The {kind} was not sent to the job's kernel: it is larger than {size}.",
        kind=kind,
        size=size(most_bytes),
    )


def ending(signal: str) -> str:
    return f"[{said('Slurm has sent the job {signal}: it is being ended', signal=signal)}]\n"


def warned(signal: str) -> str:
    return f"[{said('Slurm has sent the job {signal}', signal=signal)}]\n"


def cut(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    """Return what a running cell shows while nothing comes from its job."""
    told = said(
        "Nothing comes from the kernel's job now; the cell runs on there, and its output will come."
    )
    return noted(f"{told} {hindered(error, cluster)}") | _login(error, cluster)


def mended(cut_s: float) -> dict[str, Any]:
    span = duration(cut_s)
    return noted(
        said("The line to the kernel's job was cut for {span}; nothing is lost.", span=span)
    )


def _advice(advice: Text | None) -> str:
    return said(together(advice, AGAIN))


def _login(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    if cluster is None or not isinstance(error, LoginNeededError):
        return {}
    return {LOGIN_MIME: {"v": 1, "cluster": cluster}}
