"""Events on Jupyter's event bus."""

from __future__ import annotations

import asyncio

import msgspec
from jupyter_events import EventLogger

from jupyter_slurm.server.events import SCHEMA, JobStates
from jupyter_slurm.wire import Changes, Job, JobState
from tests.specs import known


def job(job_id: str, state: JobState, revision: int) -> Job:
    return known(id=job_id, cluster="here", state=state, revision=revision)


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.states = JobStates(lambda data: self.events.append((data["id"], data["state"])))

    def see(self, *jobs: Job, whole: bool = False, gone: tuple[str, ...] = ()) -> None:
        changes = Changes(cursor="1", whole=whole, jobs=jobs, gone=gone)
        self.states.see("changes", msgspec.json.encode(changes))


def test_each_state_change_emits_one_event() -> None:
    told = Told()
    told.see(job("a", JobState.PENDING, 1), whole=True)
    assert told.events == [], "the state before the first watch caused an event"
    told.see(job("a", JobState.PENDING, 2))
    told.see(job("a", JobState.RUNNING, 3))
    told.see(job("a", JobState.RUNNING, 3))
    told.see(job("b", JobState.SUBMITTING, 1))
    assert told.events == [("a", "RUNNING"), ("b", "SUBMITTING")]


def test_outdated_answer_does_not_emit_an_event() -> None:
    told = Told()
    told.see(job("a", JobState.PENDING, 1), whole=True)
    told.see(job("a", JobState.COMPLETED, 3))
    told.see(job("a", JobState.RUNNING, 2), whole=True)
    assert told.events == [("a", "COMPLETED")]


def test_events_match_their_schema() -> None:
    heard: list[dict[str, str]] = []

    async def listen(logger: EventLogger, schema_id: str, data: dict[str, str]) -> None:
        heard.append(data)

    async def main() -> None:
        logger = EventLogger()
        logger.register_event_schema(SCHEMA)
        logger.add_listener(schema_id=JobStates.SCHEMA_ID, listener=listen)
        states = JobStates(lambda data: logger.emit(schema_id=JobStates.SCHEMA_ID, data=data))
        for number, state in enumerate((JobState.PENDING, JobState.RUNNING)):
            changes = Changes(cursor="1", whole=not number, jobs=(job("a", state, number),))
            states.see("changes", msgspec.json.encode(changes))
        await logger.gather_listeners()

    asyncio.run(main())
    assert heard == [{"id": "a", "cluster": "here", "state": "RUNNING"}]
