"""Live cards, under a waiting cell and for detached jobs.

`views/card.py` creates their content. One background thread per kernel updates all cards without a
waiting cell, by one long poll of the agent. If the page updates cards itself (`renders_jobs`), only
new states and the end are published, for the saved notebook.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable

import msgspec

from jupyter_slurm.api import Api
from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.magics.frontend import change, in_place, renders_jobs, show
from jupyter_slurm.views.card import bundle
from jupyter_slurm.wire import Job, JobState, Problem

_BETWEEN_CHANGES_S = 1.0
_BETWEEN_CLOCKS_S = 15.0
_SETTLED_AFTER_S = 20.0
"""Seconds after the end in which a job's usage may still arrive: slurmdbd gets it late."""
_LONGEST_WAIT_S = 20.0
_PACE_S = 0.1
"""The pause between answers: a session changes several times with each of its cells."""
_RETRY_S = 10.0


class LiveCard:
    """A job's card in the cell that was running at its creation."""

    def __init__(self, job: Job, *, is_complete: bool = False) -> None:
        self.job = job
        self._is_complete = is_complete
        self._shown: tuple[JobState, int] | None = None
        self._shown_s = 0.0
        # ipykernel sends a plain thread's output to the current cell (its parent header is a
        # ContextVar). A copy of this cell's context keeps the output here.
        self._context = contextvars.copy_context()

    def show(self) -> None:
        """Show the card first, or again after the cell was cleared."""
        self._publish(update=False)

    def appear(self) -> None:
        """Show the card unless it is shown: output comes below it, or the cell takes longer."""
        if self._shown is None:
            self.show()

    def update(self, job: Job) -> None:
        """Show a new state at once, other changes within a second, the clock now and then. Send a
        page that updates cards itself only states and changes after the end."""
        if job.revision < self.job.revision:
            return
        self.job = job
        if self.due_s() <= 0:
            self._publish(update=True)

    def complete(self) -> None:
        """Show that the cell has all output of the job, for the page to acknowledge."""
        self._is_complete = True
        self._publish(update=True)

    def update_from_elsewhere(self, job: Job) -> None:
        """Update the card from another thread, after the cell has ended."""
        self._context.run(self.update, job)

    def no_news(self, problem: Problem) -> None:
        """Report once that there is no news; `update` removes the note."""
        if self.job.problem is None and not renders_jobs():
            self.job = msgspec.structs.replace(
                self.job, problem=problem, problem_since_s=time.time()
            )
            self._context.run(self._publish, update=True)

    def due_s(self) -> float:
        """Return the seconds until the next update is due."""
        if self._shown is None:  # until `appear`
            return _LONGEST_WAIT_S
        if self._shown[0] is not self.job.state:
            return 0.0
        past_s = time.monotonic() - self._shown_s
        is_new = self._shown[1] != self.job.revision
        if self.job.state.final:
            return 0.0 if is_new else _LONGEST_WAIT_S
        if renders_jobs():
            return _LONGEST_WAIT_S
        if is_new:
            return max(0.0, _BETWEEN_CHANGES_S - past_s)
        return max(0.0, _BETWEEN_CLOCKS_S - past_s)

    @property
    def settled(self) -> bool:
        """Return whether the job can have no more news."""
        job = self.job
        ended_s = job.ended_s or job.state_since_s
        old = time.time() - ended_s > _SETTLED_AFTER_S
        return job.state.final and (job.usage is not None or old)

    def _publish(self, *, update: bool) -> None:
        update = update and self._shown is not None
        state_is_new = self._shown is None or self._shown[0] is not self.job.state
        self._shown, self._shown_s = (self.job.state, self.job.revision), time.monotonic()
        if update and not in_place() and not state_is_new:
            return  # a terminal would print it a second time
        publish = change if update else show
        data = bundle(self.job, time.time(), is_complete=self._is_complete)
        publish(data, {}, display_id=f"slurm-card-{self.job.id}")


class LiveCards:
    """The cards of the background thread, updated until their jobs have ended."""

    def __init__(self, api: Callable[[], Api]) -> None:
        self._api = api
        self._cards: dict[str, LiveCard] = {}
        self._has_new = False
        """Set for a new card: its job may have changed since the cursor."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, card: LiveCard) -> None:
        card.appear()
        with self._lock:
            self._cards[card.job.id] = card
            self._has_new = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._keep, name="jupyter-slurm cards", daemon=True
                )
                self._thread.start()

    def drop(self, job_id: str) -> None:
        """Drop the card of this job: a waiting cell now updates it."""
        with self._lock:
            self._cards.pop(job_id, None)

    def _keep(self) -> None:
        cursor = ""
        while self._unsettled():
            cursor = self._from(cursor)
            try:
                changes = self._api().changes(cursor, wait_s=self._wait_s())
                cursor = changes.cursor
                self._update({job.id: job for job in changes.jobs})
                time.sleep(_PACE_S)
            except JupyterSlurmError as exc:
                self._say(exc)
                cursor = ""  # reload all jobs, so that the cards drop the problem
                time.sleep(_RETRY_S)
            except Exception as exc:  # noqa: BLE001 - otherwise lost
                self._say(JupyterSlurmError(f"This card is no longer updated: {exc!r}"))
                with self._lock:
                    self._cards.clear()

    def _now(self) -> list[LiveCard]:
        with self._lock:
            return list(self._cards.values())

    def _unsettled(self) -> bool:
        with self._lock:
            self._cards = {key: card for key, card in self._cards.items() if not card.settled}
            if not self._cards:
                self._thread = None
            return bool(self._cards)

    def _from(self, cursor: str) -> str:
        """Return the cursor, or the beginning if there is a new card."""
        with self._lock:
            has_new, self._has_new = self._has_new, False
        return "" if has_new else cursor

    def _wait_s(self) -> float:
        return min([_LONGEST_WAIT_S, *(max(0.1, card.due_s()) for card in self._now())])

    def _update(self, jobs: dict[str, Job]) -> None:
        for card in self._now():
            card.update_from_elsewhere(jobs.get(card.job.id, card.job))

    def _say(self, exc: JupyterSlurmError) -> None:
        for card in self._now():
            card.no_news(exc.problem())
