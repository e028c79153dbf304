"""A cluster's queue as squeue last listed it, and what of it is new since a cursor.

Asks nobody: `watcher.py` does, once for all that look and for itself, and hands the rows over here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from jupyter_slurm.jobs.records.change_log import ChangeLog, Delta
from jupyter_slurm.jobs.records.store import Record
from jupyter_slurm.jobs.watching.on_demand import OnDemand
from jupyter_slurm.jobs.watching.queue_rows import entry_of, the_same
from jupyter_slurm.slurm import squeue, states
from jupyter_slurm.slurm.squeue import RawRow
from jupyter_slurm.slurm.units import parse_duration_s
from jupyter_slurm.wire import Problem, QueueChanges, QueueEntry

_ENDED_KEPT = 300

Ours = Mapping[str, Sequence[Record]]
"""Slurm's id -> the jobs of ours that have had it, newest first."""


@dataclass(slots=True)
class _Row:
    raw: RawRow
    entry: QueueEntry
    revision: int
    """When it last changed."""
    candidates: tuple[tuple[str, float | None], ...]
    """Which jobs of ours it could have been, and when they were submitted."""


class Table:
    """Rows by Slurm's id, and those that were there. PURE; revisions are the caller's."""

    def __init__(self) -> None:
        self._rows = ChangeLog[_Row](lambda row: row.revision)
        self._ended: dict[str, tuple[int, QueueEntry]] = {}
        """The user's other jobs, which squeue forgets soon: revision and entry, the latest seen
        last."""
        self._listed_ended: dict[str, str] = {}
        """Slurm's id -> the text of the row, as last listed."""
        self._loads: Mapping[str, float] = {}

    def update(
        self,
        listed: Iterable[RawRow],
        ours: Ours,
        revision: int,
        user: str | None = None,
    ) -> bool:
        """Take over a new listing; return whether it differs from the one before.

        `ours`: by Slurm's id, which another's job may have by now; `user` is whose they are, None
        where all that are listed are theirs. `revision`: of what has changed with it.
        """
        before = set(self._rows)
        changed = False
        over: list[RawRow] = []
        for raw in listed:
            if states.is_terminal(raw.state):
                over.append(raw)
                continue
            before.discard(raw.slurm_id)
            old = self._rows.get(raw.slurm_id)
            own = user is None or raw.user == user
            known = (ours.get(raw.slurm_id) or ours.get(raw.whole_id) or ()) if own else ()
            candidates = tuple((one.job.id, one.job.submitted_s) for one in known)
            if old is not None and (old.raw.text, old.candidates) == (raw.text, candidates):
                old.raw = raw
                continue
            row = squeue.read(raw)
            job = the_same(row, known)
            if old is not None and (old.raw.text, old.entry.id) == (raw.text, job and job.id):
                old.raw, old.candidates = raw, candidates
                continue
            entry = entry_of(row, job, is_mine=own)
            self._rows.put(raw.slurm_id, _Row(raw, entry, revision, candidates))
            changed = True
        for slurm_id in before:
            self._rows.remove(slurm_id, revision)
        changed |= user is None and self._take_ended(over, ours, revision)
        return changed or bool(before)

    def _take_ended(self, over: list[RawRow], ours: Ours, revision: int) -> bool:
        """Keep those of them that are not ours; return whether there are new ones."""
        known, self._listed_ended = self._listed_ended, {one.slurm_id: one.text for one in over}
        new = [one for one in over if known.get(one.slurm_id) != one.text]
        changed = False
        for raw in new[-_ENDED_KEPT:]:
            row = squeue.read(raw)
            if the_same(row, ours.get(raw.slurm_id) or ours.get(raw.whole_id) or ()) is None:
                entry = entry_of(row, None, is_mine=True)
                entry = msgspec.structs.replace(entry, ended_s=row.end_s)
                self._ended.pop(raw.slurm_id, None)
                self._ended[raw.slurm_id] = (revision, entry)
                changed = True
        while len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]
        return changed

    def put_loads(self, loads: Mapping[str, float], revision: int) -> bool:
        """Put the GPUs' loads into the rows of our jobs, by Slurm's id; return whether one has
        changed."""
        changed = False
        for slurm_id in {*self._loads, *loads}:
            row, load = self._rows.get(slurm_id), loads.get(slurm_id)
            if row is not None and row.entry.id is not None and row.entry.gpu_load != load:
                entry = msgspec.structs.replace(row.entry, gpu_load=load)
                self._rows.put(slurm_id, replace(row, entry=entry, revision=revision))
                changed = True
        self._loads = loads
        return changed

    def ended_since(self, revision: int) -> tuple[QueueEntry, ...]:
        """Return the entries that have ended after `revision`."""
        return tuple(entry for at, entry in self._ended.values() if at > revision)

    def since(self, revision: int | None) -> Delta[QueueEntry]:
        """Return the entries that have changed after `revision`, and the ids that are gone."""
        whole, rows, gone = self._rows.since(revision)
        return Delta(whole, tuple(_as_of_now(row) for row in rows), gone)


def _as_of_now(row: _Row) -> QueueEntry:
    """Return the entry with its run time as of the last listing, which makes no change."""
    elapsed_s = parse_duration_s(row.raw.elapsed)
    if elapsed_s == row.entry.elapsed_s:
        return row.entry
    return msgspec.structs.replace(row.entry, elapsed_s=elapsed_s)


class ClusterQueue:
    """The queue of one cluster, this user's jobs and everyone's. Thread-safe.

    `begin(now)` is called when somebody begins to look; `now`: what there is, is old.
    """

    def __init__(
        self,
        cluster: str,
        poll_s: float,
        begin: Callable[[bool], None],
        closed: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._begin = begin
        self._mine, self._all = Table(), Table()
        self._mine_shown, self._all_shown = OnDemand(poll_s, closed), OnDemand(poll_s, closed)

    def changes(self, cursor: str, wait_s: float, everyone: bool) -> QueueChanges:
        """Return what `Api.queue_changes` does."""
        table = self._all if everyone else self._mine
        shown = self._all_shown if everyone else self._mine_shown
        with shown.look(cursor, wait_s, lambda: self._begin(not shown.due_s)) as known:
            news = table.since(known)
            return QueueChanges(
                cluster=self._cluster,
                cursor=shown.cursor,
                whole=news.whole,
                entries=news.values,
                gone=news.gone,
                ended=table.ended_since(0 if news.whole else known or 0),
                asked_s=shown.asked_s,
                problem=shown.problem,
                interval_s=shown.interval_s,
            )

    def wake(self) -> None:
        """Make waiting calls look whether they are over."""
        for shown in self._both_shown:
            shown.wake()

    # --- for the one that asks ---

    @property
    def looked_at(self) -> bool:
        return any(shown.looked_at for shown in self._both_shown)

    @property
    def everyone_looked_at(self) -> bool:
        return self._all_shown.looked_at

    @property
    def due_s(self) -> float:
        """Seconds until squeue may be asked again for those who look."""
        return min((shown.due_s for shown in self._both_shown if shown.looked_at), default=0.0)

    @property
    def _both_shown(self) -> tuple[OnDemand, OnDemand]:
        return self._mine_shown, self._all_shown

    def answered(
        self,
        rows: list[RawRow],
        user: str,
        ours: Ours,
        loads: Mapping[str, float],
        *,
        everyone: bool,
    ) -> None:
        """Take what squeue has listed: this user's jobs, or everyone's. `ours`, `loads`: see
        `Table`."""
        mine = [row for row in rows if row.user == user] if everyone else rows
        _put_up(self._mine_shown, self._mine, mine, ours, loads)
        if everyone:
            _put_up(self._all_shown, self._all, rows, ours, loads, user)

    def failed(self, problem: Problem) -> None:
        """Note that squeue has not answered."""
        for shown in self._both_shown:
            shown.failed(problem)


def _put_up(
    shown: OnDemand,
    table: Table,
    rows: Iterable[RawRow],
    ours: Ours,
    loads: Mapping[str, float],
    user: str | None = None,
) -> None:
    with shown.lock:
        revision = shown.cursors.latest + 1
        changed = table.update(rows, ours, revision, user)
        shown.answered(changed=table.put_loads(loads, revision) or changed)
