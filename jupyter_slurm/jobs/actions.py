"""Cancel, hold, release and requeue many jobs at once, hundreds by one command.

Each action has a thread, which goes on whoever leaves. What is done to a single job is
`steering.py`'s.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from jupyter_slurm.errors import (
    CommandError,
    ControllerError,
    JupyterSlurmError,
    NotFoundError,
    RequestError,
)
from jupyter_slurm.jobs.cluster.clusters import Clusters
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.outcome.allocation import ask_jobs
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.steering import Steering, gone, nothing_to
from jupyter_slurm.jobs.watching.queue_rows import is_same
from jupyter_slurm.slurm import scancel, scontrol, squeue, states
from jupyter_slurm.slurm.rejections import explain_requeue, message, refused
from jupyter_slurm.slurm.units import indices
from jupyter_slurm.wire import Action, ActionState, ActionVerb, Job, Problem, Refusal

_AT_ONCE = 500
"""Jobs that one command names: a command line has an end, and whoever stops it waits for it."""
_NAMED = 10
"""So many of those refused go to all who watch; a caller that asks for the action gets all."""
_KEPT = 20
"""Actions that have ended and can still be asked for."""
_JOIN_S = 5.0

_log = logging.getLogger(__name__)


class _Wanted(NamedTuple):
    """The jobs of an action."""

    by_itself: list[Job]
    """Those of which Slurm is not asked by its id, or not by this alone."""
    by_slurm_id: dict[str, Job | None]
    """None: only Slurm knows it."""
    refusals: list[Refusal]


@dataclass(eq=False)
class _Running:
    value: Action
    wanted: _Wanted
    cluster: SlurmCluster
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    @property
    def has_ended(self) -> bool:
        return self.value.state is not ActionState.RUNNING


class Actions:
    """Each call is that of `api.Api` with the same name."""

    def __init__(self, book: Book, clusters: Clusters, steering: Steering) -> None:
        self._book = book
        self._clusters = clusters
        self._steering = steering
        self._known: dict[str, _Running] = {}
        self.stirs = 0
        """Differs after every change of an action; those that wait in the Book are told."""

    def steer_many(
        self,
        verb: ActionVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> Action:
        known = self._clusters.named(cluster)
        wanted = self._sorted(verb, known.name, job_ids, slurm_ids or [])
        if wanted.by_slurm_id and known.access.connection is not None:
            known.access.connection.check_login()
        several = [_count(job.slurm_id or "", job) for job in wanted.by_itself]
        several += [_count(slurm_id, job) for slurm_id, job in wanted.by_slurm_id.items()]
        value = Action(
            id=secrets.token_hex(4),
            cluster=known.name,
            verb=verb,
            state=ActionState.RUNNING,
            jobs=sum(several) + len(wanted.refusals),
            began_s=time.time(),
        )
        one = _Running(value, wanted, known)
        one.thread = threading.Thread(
            target=self._run, args=[one], name=f"{verb} {value.id}", daemon=True
        )
        with self._book.alone():
            self._known[value.id] = one
            self._forget_oldest()
        one.thread.start()
        return one.value

    def action(self, action_id: str, wait_s: float = 0.0) -> Action:
        one = self._find(action_id)
        self._book.wait(lambda: one.has_ended, wait_s)
        return one.value

    def stop_action(self, action_id: str) -> Action:
        one = self._find(action_id)
        one.stop.set()
        if one.thread is not None:
            one.thread.join(_JOIN_S)
        return one.value

    def forget_action(self, action_id: str) -> None:
        with self._book.alone():
            one = self._known.get(action_id)
            if one is not None and one.has_ended:
                del self._known[action_id]
                self._stir()

    def listed(self) -> tuple[Action, ...]:
        """Return those that run, and those that have ended and were not forgotten."""
        with self._book.alone():
            return tuple(
                msgspec.structs.replace(one.value, refusals=one.value.refusals[:_NAMED])
                for one in self._known.values()
            )

    @property
    def running(self) -> bool:
        """Tell whether an action has not ended."""
        return any(one.state is ActionState.RUNNING for one in self.listed())

    def close(self) -> None:
        """Stop all."""
        for one in list(self._known.values()):
            one.stop.set()
        for one in list(self._known.values()):
            if one.thread is not None:
                one.thread.join(_JOIN_S)

    def _find(self, action_id: str) -> _Running:
        one = self._known.get(action_id)
        if one is None:
            raise NotFoundError(f"There is no action {action_id!r}.")
        return one

    def _forget_oldest(self) -> None:
        ended = [key for key, one in self._known.items() if one.has_ended]
        for key in ended[: max(0, len(ended) - _KEPT)]:
            del self._known[key]

    def _sorted(
        self, verb: ActionVerb, cluster: str, job_ids: Sequence[str], slurm_ids: Sequence[str]
    ) -> _Wanted:
        """RequestError: a word that is not an id."""
        wanted = _Wanted([], {}, [])
        for job_id in dict.fromkeys(job_ids):
            try:
                job = self._book.job(job_id)
            except JupyterSlurmError as exc:
                wanted.refusals.append(Refusal(job=job_id, why=exc.problem().message))
                continue
            if job.cluster != cluster:
                why = f"Job {job.id} is on {job.cluster}, not on {cluster}."
                wanted.refusals.append(Refusal(job=job.id, why=why))
            elif job.slurm_id is not None and not job.state.final and job.session is None:
                wanted.by_slurm_id[job.slurm_id] = job
            elif verb == "cancel":
                wanted.by_itself.append(job)
            else:
                wanted.refusals.append(_refusal(job, nothing_to(verb, job)))
        try:
            wanted.by_slurm_id.update(dict.fromkeys(scancel.checked(slurm_ids)))
        except ValueError as exc:
            raise RequestError(f"{exc}.") from exc
        return wanted

    # --- in the action's thread ---

    def _run(self, one: _Running) -> None:
        problem: Problem | None = None
        try:
            self._tell(one, len(one.wanted.refusals), one.wanted.refusals)
            self._each(one)
            self._at_once(one)
        except JupyterSlurmError as exc:
            problem = exc.problem()
        except Exception as exc:  # noqa: BLE001 (a worker never dies silently)
            _log.exception("the action %s stumbled", one.value.id)
            sentence = f"Internal error: {exc!r}."
            problem = Problem(code="error", message=sentence)
        finally:
            if one.wanted.by_slurm_id:
                self._clusters.watch(one.cluster).ask_now()
        state = ActionState.DONE
        if problem is not None:
            state = ActionState.FAILED
        elif one.value.done < one.value.jobs:
            state = ActionState.STOPPED
        self._change(one, state=state, problem=problem, ended_s=time.time())

    def _each(self, one: _Running) -> None:
        for job in one.wanted.by_itself:
            if one.stop.is_set():
                return
            refusals = []
            try:
                self._steering.cancel(job.id)
            except JupyterSlurmError as exc:
                refusals.append(_refusal(job, exc.problem().message))
            self._tell(one, _count("", job), refusals)

    def _at_once(self, one: _Running) -> None:
        wanted = one.wanted.by_slurm_id
        if not wanted or one.stop.is_set():
            return
        ids, unknown = self._in_order(one.cluster, wanted)
        verb = one.value.verb
        lost = [] if verb == "cancel" else [_refusal(job, gone(job).message) for job in unknown]
        self._tell(one, sum(_count("", job) for job in unknown), lost)
        for at in range(0, len(ids), _AT_ONCE):
            if one.stop.is_set():
                return
            some = {slurm_id: wanted[slurm_id] for slurm_id in ids[at : at + _AT_ONCE]}
            self._note(verb, some, asked=True)
            refusals = self._ask(one.cluster, verb, some)
            named = [Refusal(job=slurm_id, why=why) for slurm_id, why in refusals.items()]
            self._tell(one, sum(_count(*each) for each in some.items()), named)

    def _in_order(
        self, cluster: SlurmCluster, wanted: Mapping[str, Job | None]
    ) -> tuple[list[str], list[Job]]:
        """Return Slurm's ids, those that wait first, which would else start in the place of those
        that are ended; and the jobs whose ids Slurm has forgotten, or given to others."""
        rows = squeue.parse(cluster.ask(squeue.mine_argv(cluster.transport.user())))
        there: set[str] = set()
        begun: set[str] = set()
        for row in rows:
            both = {row.slurm_id, row.whole_id}
            if row.state != "PENDING" and not states.is_terminal(row.state):
                begun |= both
            for slurm_id in both:
                job = wanted.get(slurm_id)
                if job is not None and is_same(self._book.record(job.id), row):
                    there.add(slurm_id)

        def is_there(slurm_id: str, job: Job | None) -> bool:
            if job is None or slurm_id in there:
                return True
            # A requeue of an adopted job is another submission, as only scontrol tells.
            record = self._book.record(job.id)
            return record.adopted and bool(ask_jobs(cluster, record))

        known = {slurm_id for slurm_id, job in wanted.items() if is_there(slurm_id, job)}
        unknown = [job for slurm_id, job in wanted.items() if job and slurm_id not in known]
        in_order = sorted((one for one in wanted if one in known), key=begun.__contains__)
        return in_order, unknown

    def _ask(
        self, cluster: SlurmCluster, verb: ActionVerb, some: Mapping[str, Job | None]
    ) -> dict[str, str]:
        """Return those that Slurm refuses, by its ids, with the reason."""
        argv = scancel.cancel_argv(some) if verb == "cancel" else scontrol.update_argv(verb, some)
        try:
            cluster.ask(argv)
        except ControllerError:
            self._note(verb, some, asked=False)
            raise
        except CommandError as exc:
            # It goes on after one that is refused, and names it.
            refusals = self._refused(exc, verb, some)
            self._note(verb, {one: some[one] for one in refusals}, asked=False)
            return refusals
        return {}

    def _note(self, verb: ActionVerb, some: Mapping[str, Job | None], *, asked: bool) -> None:
        """Note, before asking Slurm, that the user cancels the jobs: one that ends at once can then
        say why."""
        if verb != "cancel":
            return
        now_s = time.time()
        jobs = filter(None, some.values())
        self._book.note_cancels({j.id: now_s if asked else j.cancel_requested_s for j in jobs})

    def _refused(
        self, exc: CommandError, verb: ActionVerb, some: Mapping[str, Job | None]
    ) -> dict[str, str]:
        said = exc.detail or ""
        words = refused(said, some) or dict.fromkeys(some, message(said))
        found: dict[str, str] = {}
        for slurm_id, why in words.items():
            if verb == "cancel" and scancel.is_already_gone(why):
                continue
            never = explain_requeue(why) if verb == "requeue" else None
            job = some[slurm_id]
            if never is not None and job is not None:
                self._book.change(job.id, no_requeue=never)
            found[slurm_id] = never or f"Slurm refused: {why}."
        return found

    def _tell(self, one: _Running, done: int, refusals: Sequence[Refusal]) -> None:
        now = one.value
        self._change(
            one,
            done=now.done + done,
            refused=now.refused + len(refusals),
            refusals=(*now.refusals, *refusals),
        )

    def _change(self, one: _Running, **changes: object) -> None:
        one.value = msgspec.structs.replace(one.value, **changes)
        self._stir()

    def _stir(self) -> None:
        with self._book.alone():
            self.stirs += 1
            self._book.nudge()


def _refusal(job: Job, why: str) -> Refusal:
    return Refusal(job=job.slurm_id or job.id, why=why)


def _count(slurm_id: str, job: Job | None) -> int:
    """Count the jobs that are meant: each task of an array is one that has not ended."""
    if job is None:
        return max(1, len(indices(slurm_id.partition("_")[2] or None)))
    live = [some for state, some in job.tasks.items() if not states.is_terminal(state)]
    return max(1, sum(len(indices(some)) for some in live))
