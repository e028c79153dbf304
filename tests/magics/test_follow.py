"""Output in the cell: its order, size and rate, and how often a card is updated."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jupyter_slurm.magics.follow import LiveCard, Pace, condense
from jupyter_slurm.magics.frontend import renders_jobs
from jupyter_slurm.views.card import CARDS_VARIABLE
from jupyter_slurm.wire import (
    ClearOutput,
    DisplayData,
    ErrorOutput,
    JobState,
    Output,
    Problem,
    Stream,
    UpdateDisplayData,
)
from tests.magics.shell import KeepingPublisher, Shell
from tests.specs import known


def text(value: str) -> dict[str, Any]:
    return {"text/plain": value}


def out(value: str) -> Stream:
    return Stream(name="stdout", text=value)


def test_adjacent_text_of_a_stream_is_joined_and_streams_keep_their_order() -> None:
    err = Stream(name="stderr", text="x")
    later = Stream(name="stdout", text="b", time_s=1_700_000_000)
    assert condense([out("a"), later, err, out("c")]) == [out("ab"), err, out("c")]


def test_only_the_last_update_of_a_display_is_shown() -> None:
    updates: list[Output] = [UpdateDisplayData(data=text(str(n)), display_id="p") for n in range(9)]
    shown = DisplayData(data=text("0"), display_id="p")
    assert condense([shown, *updates]) == [shown, updates[-1]]


def test_cleared_output_is_skipped_but_errors_are_kept() -> None:
    error = ErrorOutput(ename="E", evalue="")
    clear = ClearOutput(wait=True)
    assert condense([out("a"), error, clear, out("b")]) == [error, clear, out("b")]


def test_output_rate_stays_below_the_servers_limit() -> None:
    now_s = 0.0
    pace = Pace(clock=lambda: now_s)
    sent: list[tuple[float, int]] = []
    while now_s < 30:
        if pause_s := pace.pause_s():
            now_s += pause_s + 1e-9
        else:
            pace.spend(100_000)
            sent.append((now_s, 100_000))
    for start_s, _ in sent:
        in_window = sum(size for at_s, size in sent if start_s <= at_s < start_s + 3)
        assert in_window < 3 * 1_000_000


def test_streams_displays_and_values_appear_in_order(shell: Shell) -> None:
    ran = shell.run(
        "%%slurm\n"
        "print('one')\n"
        "print('two', name='stderr')\n"
        "display({'text/plain': 'figure'}, 'f')\n"
        "update({'text/plain': 'better'}, 'f')\n"
        "value('42')\n"
        "print('50%\\r100%')\n"
    )
    assert ran.error is None
    assert ran.out == "one\n50%\r100%\n"
    assert ran.err == "two\n"
    displays = [one for one in ran.shown if not (one.display_id or "").startswith("slurm-card")]
    job_id = shell.state.api.jobs()[0].id
    assert [(one.data["text/plain"], one.display_id, one.update) for one in displays] == [
        ("figure", f"slurm-{job_id}-f", False),
        ("better", f"slurm-{job_id}-f", True),
        ("42", None, False),
    ]


def test_only_the_last_lines_of_excess_text_are_shown(shell: Shell) -> None:
    shell.state.settings.output_limit_bytes = 10_000
    ran = shell.run("%%slurm\nfor n in range(5000):\n    print(f'line {n}')\n")
    job_id = shell.state.api.jobs()[0].id
    assert len(ran.out) <= 10_000
    tail = ran.last(f"slurm-tail-{job_id}").data["text/plain"].split("\n")
    assert "MB more" in tail[0]
    assert tail[-2] == "line 4999"
    assert len(tail) <= 43


def test_clearing_output_keeps_the_card_and_resets_the_limit(shell: Shell) -> None:
    shell.state.settings.output_limit_bytes = 1000
    ran = shell.run("%%slurm\nfor n in range(50):\n    clear(True)\n    print('x' * 99)\n")
    job_id = shell.state.api.jobs()[0].id
    cards = [one for one in ran.shown if one.display_id == f"slurm-card-{job_id}"]
    assert sum(not card.update for card in cards) >= 2
    assert not [one for one in ran.shown if (one.display_id or "").startswith("slurm-tail")]


@pytest.fixture
def card(shell: Shell) -> LiveCard:
    job = known(id="a2b4c6d7", cluster="local", name="fit", state=JobState.PENDING)
    return LiveCard(job)


@pytest.fixture
def page(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this shell the kernel of a page that renders jobs."""
    monkeypatch.setenv(CARDS_VARIABLE, "live")
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ana/fit.ipynb")
    # Displays can be updated only in a kernel.
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


def test_card_appears_once_above_its_output(shell: Shell, card: LiveCard) -> None:
    change(card, state=JobState.RUNNING)
    card.appear()
    card.appear()
    assert published(shell) == 1


@pytest.mark.usefixtures("page")
def test_vs_code_does_not_render_jobs(shell: Shell) -> None:
    assert renders_jobs()
    shell.ip.user_ns["__vsc_ipynb_file__"] = "/home/ana/fit.ipynb"
    assert not renders_jobs()
