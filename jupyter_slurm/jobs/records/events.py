"""The events in a job's life, derived from its changes. No I/O.

An event is a change that still matters a day later. Lost connections and the agent's own actions,
such as copying files, are not events.
"""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_slurm.jobs.outcome import array_tasks
from jupyter_slurm.wire import Job, JobEvent, JobState

MOST = 100
"""The maximum number of events per job; the oldest reasons for waiting are dropped first."""
_CLOCKS_DIFFER_S = 5.0
"""Tolerance in seconds for a node's clock, which may differ and reports whole seconds."""
_WAITS = frozenset(
    {
        JobState.PENDING,
        JobState.REQUEUED,
        JobState.REQUEUE_FED,
        JobState.REQUEUE_HOLD,
        JobState.SPECIAL_EXIT,
        JobState.RESV_DEL_HOLD,
    }
)
_RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.STOPPED})
_PASSING = {
    JobState.CONFIGURING: "Nodes are starting.",
    JobState.SUSPENDED: "Suspended.",
    JobState.STOPPED: "Stopped. The job keeps its nodes.",
}


def following(
    events: tuple[JobEvent, ...], old: Job | None, new: Job, now_s: float
) -> tuple[JobEvent, ...]:
    """Return `events` and the events of the change from `old` to `new`. `old` is None for a new
    job."""
    for event in _found(events[-1] if events else None, old, new, now_s):
        latest_s = events[-1].time_s if events else 0.0
        events = _bounded((*events, _not_before(event, latest_s, now_s)))
    return events


def _not_before(event: JobEvent, latest_s: float, now_s: float) -> JobEvent:
    """Return the event with a time that keeps events in order, since a node's clock may differ."""
    time_s = event.time_s if event.time_s > latest_s - _CLOCKS_DIFFER_S else now_s
    return JobEvent(time_s=max(time_s, latest_s), state=event.state, text=event.text)


def _bounded(events: tuple[JobEvent, ...]) -> tuple[JobEvent, ...]:
    if len(events) <= MOST:
        return events
    # The first two events are the submission and its acceptance.
    oldest = next((at for at, event in enumerate(events) if at > 1 and event.state in _WAITS), 2)
    return (*events[:oldest], *events[oldest + 1 :])


def _found(last: JobEvent | None, old: Job | None, new: Job, now_s: float) -> Iterator[JobEvent]:
    state = last.state if last else JobState.SUBMITTING
    if old is None and new.slurm_id is None:
        yield JobEvent(time_s=new.created_s, state=state)
    taken = _taken(old, new)
    if taken:
        state = JobState.PENDING
        yield JobEvent(time_s=new.submitted_s or now_s, state=state, text=taken)
    again = old is not None and new.restarts > old.restarts
    if state in _RUNS and (again or (new.state in _WAITS and not array_tasks.have_run(new.tasks))):
        state = new.state if new.state in _WAITS else JobState.REQUEUED
        yield JobEvent(time_s=now_s, state=state, text="Back in the queue.")
    elif _has_begun(state, old, new):
        state = JobState.RUNNING
        yield JobEvent(time_s=new.started_s or now_s, state=state, text=_began(new))
    cancel_text = _cancel_text(old, new)
    if cancel_text:
        yield JobEvent(time_s=now_s, state=state, text=cancel_text)
    if new.state in _WAITS and _waits_for(new) not in (None, old and _waits_for(old)):
        yield JobEvent(time_s=now_s, state=new.state, text=new.why or new.reason)
    if new.state is not state and new.state in _PASSING:
        yield JobEvent(time_s=now_s, state=new.state, text=_PASSING[new.state])
    if new.state is JobState.RUNNING and state in _PASSING:
        yield JobEvent(time_s=now_s, state=new.state, text="Resumed.")
    if new.state.final and not (old is not None and old.state.final):
        yield JobEvent(time_s=new.ended_s or now_s, state=new.state, text=new.why)


def _taken(old: Job | None, new: Job) -> str | None:
    if new.slurm_id is not None and (old is None or old.slurm_id is None):
        return f"Accepted as job {new.slurm_id}."
    if new.session is not None and new.submitted_s and (old is None or old.submitted_s is None):
        return "Accepted by its session."
    return None


def _has_begun(state: JobState, old: Job | None, new: Job) -> bool:
    """Return whether the job has started; a short job may have ended already."""
    if state in _RUNS or new.started_s is None:
        return False
    if new.state.final:
        return old is None or new.started_s != old.started_s
    return new.state in _RUNS


def _began(job: Job) -> str:
    if not job.nodes or job.session is not None:
        return "Started."
    first, others = job.nodes[0], len(job.nodes) - 1
    return f"Started on {first} and {others} more." if others else f"Started on {first}."


def _cancel_text(old: Job | None, new: Job) -> str | None:
    before = old.cancel_requested_s if old is not None else None
    if (before is None) == (new.cancel_requested_s is None):
        return None
    return "Cancellation requested." if before is None else "Cancellation failed."


def _waits_for(job: Job) -> str | None:
    """Return a key for the reason, since the reason's sentence may contain times and numbers."""
    return job.reason or job.why
