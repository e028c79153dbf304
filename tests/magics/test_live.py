"""Updates of a card: frequent in general, rare if the page renders jobs itself."""

from __future__ import annotations

import msgspec
import pytest

from jupyter_slurm.magics.frontend import renders_jobs
from jupyter_slurm.magics.live import LiveCard
from jupyter_slurm.views.card import CARDS_VARIABLE
from jupyter_slurm.wire import JobState, Problem
from tests.magics.shell import KeepingPublisher, Shell
from tests.specs import known


@pytest.fixture
def card(shell: Shell) -> LiveCard:
    job = known(id="a2b4c6d7", cluster="local", name="fit", state=JobState.PENDING)
    return LiveCard(job)


@pytest.fixture
def page(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this shell the kernel of a page that renders jobs."""
    monkeypatch.setenv(CARDS_VARIABLE, "live")
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ana/fit.ipynb")
    # Only a kernel's displays can be updated.
    monkeypatch.setattr(shell.ip, "kernel", object(), raising=False)


def change(card: LiveCard, **fields: object) -> None:
    card.update(msgspec.structs.replace(card.job, revision=card.job.revision + 1, **fields))


def published(shell: Shell) -> int:
    publisher = shell.ip.display_pub
    assert isinstance(publisher, KeepingPublisher)
    return len(publisher.shown)


@pytest.mark.usefixtures("page")
def test_page_that_renders_jobs_gets_cards_only_for_state_changes(
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


def test_a_card_appears_once_when_output_comes_below_it(shell: Shell, card: LiveCard) -> None:
    change(card, state=JobState.RUNNING)
    card.appear()
    card.appear()
    assert published(shell) == 1


@pytest.mark.usefixtures("page")
def test_vs_code_does_not_render_jobs(shell: Shell) -> None:
    assert renders_jobs()
    shell.ip.user_ns["__vsc_ipynb_file__"] = "/home/ana/fit.ipynb"
    assert not renders_jobs()
