"""The card of a `Job` below its cell: a MIME bundle with the same facts as HTML and as text.

No I/O, no clock, no IPython: the caller passes the time. The HTML is a plain table with inline
styles, so that it stays readable without styles (GitHub). Its only colours are the state's and a
translucent grey, and it has no script. JupyterLab keeps these styles in an untrusted notebook. All
text from users is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from math import inf
from shlex import quote
from types import MappingProxyType
from typing import Any

import msgspec

from jupyter_slurm.formatting import (
    counted,
    date_and_time,
    duration,
    joined,
    memory,
    moment,
    visible,
)
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.slurm.units import indices
from jupyter_slurm.views.transfer_card import done_fraction, progress_text
from jupyter_slurm.wire import (
    OUTCOME,
    RAISED,
    SAID_BY_CARD,
    SAID_BY_STATE,
    CellJob,
    Job,
    JobState,
    Problem,
    SweepJob,
    Usage,
    state_word,
)

MIME = "application/vnd.jupyter-slurm.job+json"
CARDS_VARIABLE = "JUPYTER_SLURM_CARDS"
"""The variable that a Jupyter server with our JupyterLab extension sets to `live` for its kernels.
The extension renders `MIME` itself."""

_GREY, _BLUE, _GREEN, _ORANGE, _RED = "#767676", "#2878c8", "#2e8540", "#b56a00", "#d0342c"
_SYMBOLS: Mapping[str, str] = MappingProxyType(
    {"waiting": "◷", "running": "▶", "done": "✔", "failed": "✖", "ended": "⊘", "unknown": "?"}
)
_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "waiting": _ORANGE,
        "running": _BLUE,
        "done": _GREEN,
        "failed": _RED,
        "ended": _GREY,
        "unknown": _ORANGE,
    }
)
"""Colours with a contrast of at least 3:1 on white and on JupyterLab's dark background."""

_LONG_TEXT = 240
"""Maximum number of characters of a text that is not folded."""
_FOLDED_TEXT = 72
_SOON_S = 300.0
"""Seconds before a session's end at which its card shows a warning."""
_IDLE_SHARE = 0.2
"""The remaining share of the idle time below which the card shows a warning. A short idle time
starts often, so the warning must not appear at its start."""
_ERASED_SOON_S = 14 * 24 * 3600
"""Seconds before the site erases a job's files. From then on, short texts include the date."""
_NAMED_TASKS = 60
"""Maximum number of characters of a list of tasks."""

# Override the stripes and rules of tables in JupyterLab and nbconvert.
_TABLE = "border:none;border-collapse:collapse;background:transparent;color:inherit;margin:4px 0"
_ROW = '<tr style="background:transparent">'
_CELL = "border:none;text-align:left;vertical-align:top;line-height:1.5;overflow-wrap:anywhere"
_LABEL = f"{_CELL};font-weight:normal;opacity:.75;padding:0 12px;white-space:nowrap;width:1%"
_VALUE = f"{_CELL};padding:0 12px 0 0"
_TRACK = (
    "display:inline-block;width:8em;height:.6em;border-radius:.3em;margin-right:.7em;"
    "overflow:hidden;background-color:rgba(128,128,128,.3)"
)
_CODE = re.compile(r"`([^`\n]+)`")


def bundle(job: Job, now_s: float, *, is_complete: bool = False) -> dict[str, Any]:
    """Return the card's three forms. The first only identifies the job and states whether the cell
    has all its output (`is_complete`). A live renderer asks the agent for the rest, so a saved
    notebook cannot fake it. The others may be read much later, so they have dates and, until the
    job ends, the time at which they were written. Each has IDs, times and numbers on one line, so a
    notebook changes little when run again."""
    if is_complete:
        job = msgspec.structs.replace(job, delivered=True)
    text = _lines(job, saved_headline(job), now_s, date_and_time)
    if not job.state.final:
        text += f"\n  as of {date_and_time(now_s)}"
    return {
        MIME: {"v": 1, "cluster": job.cluster, "id": job.id}
        | ({"complete": True} if is_complete else {}),
        "text/html": html(job, now_s),
        "text/plain": text,
    }


def plain(job: Job, now_s: float) -> str:
    """Return the text form to read now. Today's times omit the date."""
    head = job.state.word if job.state.final else headline(job, now_s)
    return _lines(job, head, now_s, lambda at_s: moment(at_s, now_s))


def _lines(job: Job, headline: str, now_s: float, when: Callable[[float], str]) -> str:
    head = " · ".join(filter(None, (headline, _how(job), job.name)))
    lines = [f"{symbol(job.state)} {head}", "  " + " · ".join(_facts(job, now_s, when))]
    if reasons := _reasons(job, between=" "):
        lines.append(f"  {reasons}")
    if job.warning:
        lines.append("  " + " ".join(job.warning.splitlines()))
    notes = [f"{note.label.lower()} {note.text}" for note in _notes(job, now_s) if note.brief]
    if notes:
        lines.append("  " + ", ".join(notes))
    if job.problem is not None and not job.state.final:
        lines.append("  " + told_problem(job.problem))
    return "\n".join(map(visible, lines))


def html(job: Job, now_s: float) -> str:
    """Draw a table with state and name, a line of facts, and a row per note."""
    ours = colour(job.state)
    how = f" · {escape(_how(job))}" if _how(job) else ""
    lines = (
        f'<b title="{job.state}" style="{_ink(ours)}">'
        f"{symbol(job.state)} {escape(saved_headline(job))}</b>{how} · <b>{escape(job.name)}</b>",
        f'<span style="opacity:.75">{escape(" · ".join(_facts(job, now_s, date_and_time)))}</span>',
    )
    cell = f'{_ROW}<td colspan="2" style="{_CELL};padding:1px 12px">'
    head = (f"{cell}{line}</td></tr>" for line in lines)
    body = (
        f'{_ROW}<th scope="row" style="{_LABEL}">{escape(note.label)}</th>'
        f'<td style="{_VALUE}">{note.html(ours)}</td></tr>'
        for note in (*_notes(job, now_s), *_as_of(job, now_s))
    )
    table = f'<table style="{_TABLE};border-left:4px solid {ours}">'
    return "\n".join((table, *head, *body, "</table>"))


def ended_earlier(job: Job, word: str, now_s: float) -> str | None:
    """Return a warning if the user named an ended job by its Slurm ID, which Slurm may have reused.
    Return None if the job is unfinished, or if the user gave our ID."""
    if word == job.id or not job.state.final:
        return None
    ago = duration(now_s - job.created_s)
    return f"{word} was the Slurm ID of job {job.id}, which was submitted {ago} ago and has ended."


def told_to_end(job: Job) -> str:
    """Return the message after `cancel`. The job's state is from before the call."""
    if job.state.final:
        return f"{title(job)} has ended: it is {job.state.word}"
    # Until the cluster is known to have the job, `why` explains the cancellation.
    why = job.why if job.state is JobState.SUBMITTING else None
    return joined(f"{title(job)}: cancellation requested", why, between=". ")


def no_longer_listed(job: Job) -> str:
    """Return the message after `cancel` for a job that is not in Slurm's queue."""
    return (
        f"{title(job)}: no longer in Slurm's queue, so nothing was cancelled; checking how it ended"
    )


def title(job: Job) -> str:
    """Return a phrase such as `job k3j9x2m1 (Slurm 123) on arandu` or `job k3j9x2m1 in session
    a2b4c6d7 on arandu`."""
    slurm = f" (Slurm {job.slurm_id})" if job.slurm_id else ""
    session = f" in session {job.session}" if job.session else ""
    return f"{kind_of(job).noun} {job.id}{slurm}{session} on {job.cluster}"


def headline(job: Job, now_s: float) -> str:
    """Return the state with its duration, or with its time if it is final."""
    if job.state.final:
        return f"{job.state.word} {moment(job.ended_s or job.state_since_s, now_s)}"
    since_s = known_s(job, now_s) - job.state_since_s
    return f"{job.state.word} for {duration(since_s)}" if since_s > 0 else job.state.word


def told_problem(problem: Problem) -> str:
    """Return the problem's sentence and hint as one text."""
    return joined(problem.message, problem.hint)


def saved_headline(job: Job) -> str:
    """Return the state for a saved notebook, with the state's start time unless the state is
    final."""
    if job.state.final:
        return job.state.word
    return f"{job.state.word} since {date_and_time(job.state_since_s)}"


def tasks(by_state: Mapping[str, str]) -> str:
    """Describe an array: `7 of 10 done, tasks 8-9 running, task 3 failed`."""
    total = sum(len(indices(some)) for some in by_state.values())
    done = len(indices(by_state.get("COMPLETED")))
    rest = {state: some for state, some in by_state.items() if state != "COMPLETED"}
    named = [f"{_named(some)} {state_word(state)}" for state, some in rest.items()]
    return ", ".join([f"{done} of {total} done", *named])


def task_counts(by_state: Mapping[str, str]) -> str:
    """Return the progress of a sweep: `150 of 200 done, 8 running, 39 waiting, 3 failed`."""
    counts = {state: len(indices(some)) for state, some in by_state.items()}
    rest = [f"{n} {state_word(state)}" for state, n in counts.items() if state != "COMPLETED"]
    done = f"{counts.get('COMPLETED', 0)} of {counted(sum(counts.values()), 'task')} done"
    return ", ".join([done, *rest])


def _named(some: str) -> str:
    """Return `task 3` or `tasks 8-9`. A bare index would look like a number of tasks."""
    shown = some if len(some) <= _NAMED_TASKS else f"{some[:_NAMED_TASKS]}…"
    return f"task {shown}" if len(indices(some)) == 1 else f"tasks {shown}"


def symbol(state: JobState) -> str:
    if state in (JobState.SUSPENDED, JobState.STOPPED):
        return "‖"
    return _SYMBOLS[state.tone]


def colour(state: JobState) -> str:
    """Return the colour of a state as `#rrggbb`. It never appears without the state's word."""
    return _COLOURS[state.tone]


def _ink(shade: str) -> str:
    """Return a text style with a colour mixed with the page's own, for contrast on white and on
    black."""
    return f"color:{shade};color:color-mix(in srgb,{shade} 70%,currentColor)"


@dataclass(frozen=True, slots=True)
class _Note:
    label: str
    text: str
    brief: bool = False
    """Show the note also in the text form, on the common line of notes."""
    fraction: float | None = None
    """The filled share, 0 to 1, of a bar before the text; None for no bar."""

    def html(self, bar: str) -> str:
        """Draw the row's value; `bar` is the colour of its bar."""
        if len(self.text) > _LONG_TEXT:
            start, rest = self.text[:_FOLDED_TEXT], self.text[_FOLDED_TEXT:]
            shown, folded = f"{marked_up(start)} …", f"… {marked_up(rest)}"
            return f"<details><summary>{shown}</summary>{folded}</details>"
        if self.fraction is None:
            return marked_up(self.text)
        width = round(100 * min(1.0, max(0.0, self.fraction)))
        return (
            f'<span style="{_TRACK}"><span style="display:block;height:100%;width:{width}%;'
            f'background-color:{bar}"></span></span>'
            f'<span style="display:inline-block">{marked_up(self.text)}</span>'
        )


def marked_up(text: str) -> str:
    """Escape the text and format backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(text)).replace("\n", "<br>")


def _how(job: Job) -> str:
    """Return how a failed job ended; "" if the state is specific enough."""
    if job.state is not JobState.FAILED:
        return ""  # code and signal only show how Slurm stopped it
    if raised := re.fullmatch(RAISED, job.why or ""):
        return raised[1]
    if job.signal:
        return f"killed by signal {job.signal}"
    return f"exit code {job.exit_code}" if job.exit_code else ""


def _facts(job: Job, now_s: float, when: Callable[[float], str]) -> Iterator[str]:
    """Yield ID, location, resources, duration and usage."""
    yield title(job)
    if job.tasks:
        yield task_counts(job.tasks) if isinstance(job, SweepJob) else tasks(job.tasks)
    if job.nodes:
        where = f"{', '.join(job.nodes)} ({job.partition})" if job.partition else job.nodes[0]
        yield f"login node {where}" if job.on_login else where
    elif job.partition:
        yield f"partition {job.partition}"
    if job.gpus:
        yield counted(job.gpus, "GPU")
    if job.image:
        yield f"{job.image} ({job.runtime})"
    if job.environment_id:
        yield f"environment {job.environment_id}"
    if job.python:
        version = ".".join(map(str, job.python))
        path = f" ({job.python_path})" if job.python_path else ""
        yield f"Python {version}{'' if job.image or job.environment_id else ' of the node'}{path}"
    yield from _time(job, now_s)
    if job.state.final:
        yield f"ended {when(job.ended_s or job.state_since_s)}"
        if job.usage is not None:
            yield from _usage(job.usage)


def _reasons(job: Job, between: str) -> str:
    """Return the reason and hint, unless the card already shows them."""
    if job.state is JobState.COMPLETED:
        return ""
    why = job.why or ""
    is_said = job.state.final and (
        why in SAID_BY_STATE or any(re.fullmatch(one, why) for one in SAID_BY_CARD)
    )
    return joined(None if is_said else why, job.advice, between=between)


def has_unseen_output(job: Job) -> bool:
    """Return whether notebooks have not yet fetched the output of an ended job."""
    never_ran = job.started_s is None and job.state in (JobState.CANCELLED, JobState.REJECTED)
    return job.state.final and not (job.delivered or never_ran or kind_of(job).is_service)


def left_s(job: Job, now_s: float) -> float | None:
    """Return the remaining seconds of a running session, lab or kernel, or of a cell's session.
    None if unknown or unlimited."""
    ends_s = min(_ends_s(job))
    return None if ends_s == inf else ends_s - now_s


def _ends_s(job: Job) -> tuple[float, float]:
    """Return the ends of the time limit and of the idle time; inf means unknown or unlimited."""
    limit_s = idle_s = inf
    if isinstance(job, CellJob) and job.session is not None:
        limit_s = inf if job.session_ends_s is None else job.session_ends_s
    elif kind_of(job).is_service and job.state is JobState.RUNNING:
        if job.started_s is not None and job.limit_s is not None:
            limit_s = job.started_s + job.limit_s
        if job.idle_since_s is not None and job.idle_s is not None:
            idle_s = job.idle_since_s + job.idle_s
    return limit_s, idle_s


def known_s(job: Job, now_s: float) -> float:
    """Return the time until which the job's state is known."""
    return now_s if job.state.final or job.problem_since_s is None else job.problem_since_s


def _notes(job: Job, now_s: float) -> Iterator[_Note]:
    yield from _news(job, now_s)
    if not job.state.final:
        return
    if job.inferred:
        yield _Note(
            "Note", "The end is inferred from traces: neither the job nor Slurm reported it."
        )
    if has_unseen_output(job):
        names = (name for name in job.names_out if name != OUTCOME)
        results = ", ".join(["its output", *names])
        if isinstance(job, SweepJob):
            results = f"the table `{job.into}`"
        text = f"`%slurm attach {job.id}` fetches {results}"
        yield _Note("Not seen yet", text)
    if job.erased_s is not None:
        kept = (
            f"{date_and_time(job.erased_s)}, then the site erases them; `%slurm pull "
            f"{quote(job.job_dir)}` copies them to this machine"
        )
        soon = job.erased_s - now_s < _ERASED_SOON_S
        yield _Note("Files kept until", kept, brief=soon)


def _as_of(job: Job, now_s: float) -> Iterator[_Note]:
    if not job.state.final:
        yield _Note("As of", date_and_time(now_s))


def _news(job: Job, now_s: float) -> Iterator[_Note]:
    """Yield the most important notes."""
    if (moved := job.transfer) is not None:
        text = f"{moved.local}: {progress_text(moved, now_s)}"
        yield _Note("Pushing", text, brief=True, fraction=done_fraction(moved))
    if reasons := _reasons(job, between="\n"):
        yield _Note("What happened" if job.state.final else "Why", reasons)
    if job.start_estimate_s is not None and job.started_s is None and not job.state.final:
        left = duration(job.start_estimate_s - now_s)
        at = moment(job.start_estimate_s, now_s)
        yield _Note("Starts about", f"{at} (in {left})", brief=True)
    if job.cancel_requested_s is not None and not job.state.final:
        told = f"requested at {moment(job.cancel_requested_s, now_s)}"
        if job.session:
            told += "; cancelling again ends the session's process and loses its variables"
        yield _Note("Cancelled", told)
    if job.warning:
        yield _Note("Warning", job.warning)
    yield from _session(job, now_s)
    if job.problem is not None and not job.state.final:  # a rejected job shows it as the reason
        since = ""
        if job.problem_since_s:
            since = f"Since {moment(job.problem_since_s, now_s)}."
        known = told_problem(job.problem)
        yield _Note("No news", f"{since} {known}".strip())


def _session(job: Job, now_s: float) -> Iterator[_Note]:
    """Yield a session's remaining time for the session's card and, near the end, for the cards of
    its cells."""
    if job.state.final:
        return
    limit_left_s, idle_left_s = (one - now_s for one in _ends_s(job))
    if limit_left_s < _SOON_S or idle_left_s < min(_SOON_S, (job.idle_s or 0) * _IDLE_SHARE):
        what = "The session" if job.session else "It"
        left = duration(max(0.0, min(limit_left_s, idle_left_s)))
        told = f"{what} ends in {left}; its variables are then lost"
        yield _Note("Ends soon", told, brief=True)
    if job.idle_s is not None:
        since = ""
        if job.idle_since_s is not None:
            span = duration(max(0.0, now_s - job.idle_since_s))
            since = f" (now idle for {span})"
        without = kind_of(job).idle_without
        text = f"ends after {duration(job.idle_s)} {without}"
        yield _Note("Idle", text + since)


def _time(job: Job, now_s: float) -> Iterator[str]:
    ended_s = job.ended_s or known_s(job, now_s)
    used_s = max(0.0, ended_s - job.started_s) if job.started_s is not None else 0.0
    if job.started_s is None or (used_s < 1 and not job.state.final):
        if job.limit_s is not None and not job.state.final:
            yield f"time limit {duration(job.limit_s)}"
        return
    if job.limit_s is None:
        yield duration(used_s)
        return
    of = f"{duration(used_s)} of {duration(job.limit_s)}"
    left_s = job.limit_s - used_s
    yield of if job.state.final else f"{of}, {duration(left_s)} left"


def _usage(usage: Usage) -> Iterator[str]:
    if usage.peak_memory_mib is not None:
        peak = f"peak memory {memory(usage.peak_memory_mib)}"
        if usage.memory_mib:
            share = usage.peak_memory_mib / usage.memory_mib
            peak += f" of {memory(usage.memory_mib)} requested ({share:.0%})"
        yield peak
    if usage.cpu_efficiency is not None:
        yield f"{usage.cpu_efficiency:.0%} of {counted(usage.cpus or 0, 'CPU')}"
