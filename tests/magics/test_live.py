"""When a card is published anew: often where nobody else keeps it up to date, rarely where the page
shows jobs by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from jupyter_slurm.api import Api
from jupyter_slurm.job import JobHandle
from jupyter_slurm.magics.frontend import renders_jobs
from jupyter_slurm.magics.live import LiveCard, LiveCards
from jupyter_slurm.views.card import CARDS_VARIABLE
from jupyter_slurm.wire import Changes, Job, JobState, Problem
from tests.magics.fake import FakeApi
from tests.magics.shell import KeepingPublisher, Shell
from tests.specs import known


@pytest.fixture
def card(shell: Shell) -> LiveCard:
    job = known(id="a2b4c6d7", cluster="local", name="fit", state=JobState.PENDING)
    return LiveCard(job)


@pytest.fixture
def page(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """This shell is the kernel of a page that shows jobs."""
    monkeypatch.setenv(CARDS_VARIABLE, "live")
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ana/fit.ipynb")
    # Only a kernel's display can be changed; the page is one's.
    monkeypatch.setattr(shell.ip, "kernel", object(), raising=False)


def change(card: LiveCard, **fields: object) -> None:
    card.update(msgspec.structs.replace(card.job, revision=card.job.revision + 1, **fields))


def published(shell: Shell) -> int:
    publisher = shell.ip.display_pub
    assert isinstance(publisher, KeepingPublisher)
    return len(publisher.shown)


@pytest.mark.usefixtures("page")
def test_a_page_that_shows_jobs_is_told_of_states_and_of_what_comes_after_the_end(
    shell: Shell, card: LiveCard
) -> None:
    card.show()
    change(card, why="Others are before it.")
    card.no_news(Problem(code="agent", message="gone"))
    assert published(shell) == 1
    assert card.due_s() > 15
    change(card, state=JobState.RUNNING)
    assert published(shell) == 2
    change(card, nodes=("n1",))
    assert published(shell) == 2
    change(card, state=JobState.COMPLETED)
    change(card, delivered=True)
    assert published(shell) == 4


def test_another_page_sees_every_change_within_a_second_or_so(shell: Shell, card: LiveCard) -> None:
    card.show()
    change(card, why="Others are before it.")
    assert 0 < card.due_s() <= 1


@pytest.mark.usefixtures("page")
def test_vs_code_shows_no_jobs_by_itself_whose_ever_the_kernel_is(shell: Shell) -> None:
    assert renders_jobs()
    shell.ip.user_ns["__vsc_ipynb_file__"] = "/home/ana/fit.ipynb"
    assert not renders_jobs()


@pytest.mark.usefixtures("page")
def test_a_notebook_that_runs_in_a_terminal_of_such_a_server_is_no_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME")
    assert not renders_jobs()


class Polled:
    """The agent's `changes` alone: after the first answer nothing is new. `asked` is called before
    each answer, with the number of the call."""

    def __init__(self, jobs: tuple[Job, ...], asked: Callable[[int], None]) -> None:
        self._jobs = jobs
        self._asked = asked
        self._calls = 0

    def changes(self, cursor: str, wait_s: float) -> Changes:
        self._calls += 1
        self._asked(self._calls)
        jobs = () if cursor else self._jobs
        return Changes(cursor="1", whole=not cursor, jobs=jobs)


def test_a_card_that_is_shown_of_an_older_job_does_not_stay_behind(card: LiveCard) -> None:
    before = msgspec.structs.replace(card.job, id="b2b4c6d7")
    after = msgspec.structs.replace(before, state=JobState.RUNNING, revision=1)
    late = LiveCard(before)

    def on_call(call: int) -> None:
        if call == 2:  # that it runs was in the first answer
            live.add(late)
        elif call == 4:
            live.drop(late.job.id)
            live.drop(card.job.id)

    agent = cast("Api", Polled((card.job, after), on_call))
    live = LiveCards(lambda: agent)
    live.add(card)
    assert live._thread is not None
    live._thread.join(60)
    assert late.job == after


def test_a_handle_that_is_shown_again_shows_the_job_of_now(
    shell: Shell, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run("%%slurm --detach\nlinger()")
    job_id = api.jobs()[0].id
    handle = JobHandle(api, api.job(job_id))
    api.change(job_id, state=JobState.SUSPENDED)
    shell.ip.user_ns["handle"] = handle
    monkeypatch.setattr(shell.state.live, "add", lambda _: None)  # nobody mends it afterwards
    shell.run("display(handle)")
    publisher = shell.ip.display_pub
    assert isinstance(publisher, KeepingPublisher)
    assert "suspended" in str(publisher.shown[-1])
