"""PURE: what a remote kernel says in cells: of the job it waits for, of its end, of the line."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from jupyter_slurm.errors import JupyterSlurmError, LoginNeededError
from jupyter_slurm.readable import duration, size
from jupyter_slurm.views import card
from jupyter_slurm.wire import Job, JobState, Text

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
    return noted("The kernel's job is being submitted.")


def noted(text: str) -> dict[str, Any]:
    """Return a sentence as a bundle."""
    return {"text/html": f"<div>{escape(text)}</div>", "text/plain": text}


def waiting(job: Job, now_s: float, first: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what a cell shows while its job waits; `first`: a bundle that comes before, about what
    hinders."""
    data = card.bundle(job, now_s)
    if first is None and job.state is JobState.RUNNING:
        first = noted(STARTING)
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
        return (
            f"{error.message} Log in with `jupyter slurm login{where}` in a terminal, "
            f"`%slurm login{where}` in another notebook, or in the sidebar; this goes on by "
            "itself then."
        )
    return f"{error} It is tried again by itself."


def hindrance(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    """Return the same as a bundle."""
    return noted(hindered(error, cluster)) | _login(error, cluster)


def over(job: Job) -> tuple[str, str]:
    """Return why nothing runs any more, and what to do."""
    why = job.why or f"it is {job.state.word}."
    return f"{card.title(job)} ended ({job.state.word}): {why}", _advice(job.advice)


def refused(error: JupyterSlurmError) -> tuple[str, str]:
    """Return why there is no job, and what to do."""
    return str(error), _advice(None)


def forgotten(job_id: str) -> tuple[str, str]:
    return f"Nothing is known any more of job {job_id}, which this kernel ran in.", _advice(None)


def died(status: int, *, again: bool) -> str:
    """Return a sentence about a process that has ended; `status` is subprocess's return code."""
    how = f"with exit code {status}" if status >= 0 else f"by signal {-status}"
    killed = " (out of memory, perhaps)" if status == -9 else ""
    after = "It is started anew in the same job." if again else "It is not started again."
    return f"The kernel on the node has ended {how}{killed}; its variables are gone. {after}"


def another() -> str:
    return "Slurm has started the kernel's job anew, so its variables are gone."


def queued_again() -> str:
    return "Slurm has put the kernel's job back into the queue, so its variables are gone."


def left_out(messages: int, size_bytes: int) -> str:
    return (
        f"[{messages} messages of output ({size(size_bytes)}) were left out: one of them was too "
        "large to be sent, or more had come than could be kept while the line was slow or cut]\n"
    )


def too_large(kind: str, most_bytes: int) -> str:
    return f"The {kind} was not sent to the job's kernel: it is larger than {size(most_bytes)}."


def ending(signal: str) -> str:
    return f"[Slurm has sent the job {signal}: it is being ended]\n"


def warned(signal: str) -> str:
    return f"[Slurm has sent the job {signal}]\n"


def cut(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    """Return what a running cell shows while nothing comes from its job."""
    text = (
        "Nothing comes from the kernel's job now; the cell runs on there, and its output will "
        "come. " + hindered(error, cluster)
    )
    return noted(text) | _login(error, cluster)


def mended(cut_s: float) -> dict[str, Any]:
    return noted(f"The line to the kernel's job was cut for {duration(cut_s)}; nothing is lost.")


def _advice(advice: Text | None) -> str:
    return f"{advice} {AGAIN}" if advice else AGAIN


def _login(error: JupyterSlurmError, cluster: str | None) -> dict[str, Any]:
    if cluster is None or not isinstance(error, LoginNeededError):
        return {}
    return {LOGIN_MIME: {"v": 1, "cluster": cluster}}
