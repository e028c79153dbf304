"""The card of a job in its three forms."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.formatting import date_and_time
from jupyter_slurm.views.card import (
    bundle,
    ended_earlier,
    html,
    plain,
    symbol,
)
from jupyter_slurm.wire import (
    OUTCOME,
    Job,
    JobKind,
    JobState,
    Problem,
    Usage,
)
from tests.specs import known

NOW_S = 1_790_000_000.0


def job(**fields: Any) -> Job:
    told: dict[str, Any] = {
        "id": "k3j9x2m1",
        "cluster": "arandu",
        "name": "fit",
        "kind": JobKind.CELL,
        "state": JobState.RUNNING,
        "slurm_id": "123",
        "created_s": NOW_S - 200,
        "state_since_s": NOW_S - 125,
    }
    return known(**{**told, **fields})


class Text(HTMLParser):
    """The text of a page, with the counts of its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.depth = 0
        self.tags: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.depth += tag != "br"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def test_card_of_a_running_job_shows_node_start_and_time_left() -> None:
    running = job(started_s=NOW_S - 125, limit_s=600, nodes=("n1",), partition="gpu", gpus=2)
    since = f"running since {date_and_time(NOW_S - 125)}"
    for head, told in (
        (since, Text(html(running, NOW_S)).text),
        ("running for 2 min 5 s", plain(running, NOW_S)),
    ):
        for part in (head, "k3j9x2m1", "123", "n1 (gpu)", "7 min 55 s left"):
            assert part in told


def test_saved_card_has_absolute_times() -> None:
    """A page that renders jobs itself receives only the first card, and saves it."""
    begun = bundle(job(state_since_s=NOW_S, started_s=NOW_S, limit_s=600), NOW_S)
    for told in (Text(begun["text/html"]).text, begun["text/plain"]):
        assert f"running since {date_and_time(NOW_S)}" in told
        assert re.search(f"as of +{date_and_time(NOW_S)}", told, re.IGNORECASE)
        assert "0 s" not in told.replace(date_and_time(NOW_S), "")
    ended = bundle(job(state=JobState.COMPLETED, ended_s=NOW_S - 90_000), NOW_S)
    for told in (Text(ended["text/html"]).text, ended["text/plain"]):
        assert "✔ done" in told
        assert f"ended {date_and_time(NOW_S - 90_000)}" in told
        assert "as of" not in told.lower()


def test_card_of_a_waiting_job_shows_reason_and_estimated_start() -> None:
    waiting = job(
        state=JobState.PENDING,
        why="It waits for free GPUs.",
        advice="Ask for fewer.",
        start_estimate_s=NOW_S + 3600,
    )
    for told in (Text(html(waiting, NOW_S)).text, plain(waiting, NOW_S)):
        for part in ("It waits for free GPUs.", "Ask for fewer.", "(in 1 h)"):
            assert part in told


def test_card_of_an_ended_job_shows_exit_code_memory_and_efficiency() -> None:
    ended = job(
        state=JobState.FAILED,
        started_s=NOW_S - 100,
        ended_s=NOW_S,
        exit_code=3,
        usage=Usage(
            elapsed_s=100, cpu_s=150, cpus=2, peak_memory_mib=1536, memory_mib=2048, gpus=0
        ),
        names_out=("model",),
    )
    told = Text(html(ended, NOW_S)).text
    for part in ("exit code 3", "1.5 GiB of 2.0 GiB requested (75%)", "75% of 2 CPUs", "attach"):
        assert part in told
    assert "attach" not in html(msgspec.structs.replace(ended, delivered=True), NOW_S)


def test_card_of_a_call_does_not_name_our_internal_variable() -> None:
    ended = job(state=JobState.COMPLETED, started_s=NOW_S, ended_s=NOW_S, names_out=(OUTCOME,))
    told = Text(html(ended, NOW_S)).text
    assert "fetches its output" in told
    assert OUTCOME not in told


@pytest.mark.parametrize(
    ("why", "how", "shown"),
    [
        ("The cell raised ValueError.", "ValueError", False),
        ("Failed (exit code 3).", "exit code 3", False),
        ("Failed (exit code 3). That was on n2 only.", "exit code 3", True),
    ],
)
def test_card_does_not_repeat_a_reason_that_its_headline_shows(
    why: str, how: str, shown: bool
) -> None:
    failed = job(state=JobState.FAILED, exit_code=3, ended_s=NOW_S, why=why)
    assert f"failed · {how} · fit" in plain(failed, NOW_S)
    assert (why in plain(failed, NOW_S)) == shown


def test_card_shows_why_the_cluster_is_silent() -> None:
    unknown = job(
        state=JobState.UNKNOWN,
        problem=Problem(code="controller", message="slurmctld does not answer.", hint="Wait."),
        problem_since_s=NOW_S - 60,
    )
    assert "slurmctld does not answer." in Text(html(unknown, NOW_S)).text
    assert plain(unknown, NOW_S).endswith("\n  slurmctld does not answer. Wait.")


def test_elapsed_time_stops_at_the_last_known_state() -> None:
    lost = job(started_s=NOW_S - 125, limit_s=600, problem_since_s=NOW_S - 60)
    told = plain(lost, NOW_S)
    for part in ("running for 1 min 5 s", "1 min 5 s of 10 min, 8 min 55 s left"):
        assert part in told


@pytest.mark.parametrize(
    ("limit_s", "idle_for_s", "soon"),
    [
        (7200, 10, None),
        (7200, 250, "ends in 50 s"),
        (600, 10, None),
        (420, 10, "ends in 3 min 40 s"),
        (210, 10, "ends in 10 s"),
    ],
)
def test_end_of_a_session_is_announced_near_its_limit_or_idle_timeout(
    limit_s: int, idle_for_s: int, soon: str | None
) -> None:
    session = job(
        kind=JobKind.SESSION,
        started_s=NOW_S - 200,
        limit_s=limit_s,
        idle_s=300,
        idle_since_s=NOW_S - idle_for_s,
    )
    told = plain(session, NOW_S)
    assert ("ends soon" in told) == (soon is not None)
    assert soon is None or soon in told


def test_card_escapes_html() -> None:
    evil = "<script>alert(1)</script>&\"'"
    nasty = job(
        name=evil,
        cluster=evil,
        why=evil,
        advice=evil * 20,
        warning=evil,
        nodes=(evil,),
        partition=evil,
        image=evil,
        runtime=evil,
        slurm_id=evil,
    )
    page = Text(html(nasty, NOW_S))
    assert "script" not in page.tags
    assert page.text.count(evil) >= 8


@given(
    state=st.sampled_from(list(JobState)),
    texts=st.lists(st.none() | st.text(max_size=300), min_size=4, max_size=4),
    times=st.lists(st.none() | st.floats(0, 4e9), min_size=4, max_size=4),
    limit_s=st.none() | st.integers(0, 10**7),
)
def test_card_of_any_job_is_valid_html_and_short_text(
    state: JobState, texts: list[str | None], times: list[float | None], limit_s: int | None
) -> None:
    any_job = job(
        state=state,
        why=texts[0],
        advice=texts[1],
        warning=texts[2],
        partition=texts[3],
        started_s=times[0],
        ended_s=times[1],
        start_estimate_s=times[2],
        problem_since_s=times[3],
        limit_s=limit_s,
    )
    page = Text(html(any_job, NOW_S))
    assert page.depth == 0
    known = {"table", "tr", "th", "td", "b", "br", "code", "span", "details", "summary"}
    assert page.tags <= known
    assert 1 <= len(plain(any_job, NOW_S).split("\n")) <= 5


def test_plain_card_escapes_control_characters() -> None:
    assert "\x1b" not in plain(job(name="x", why="\x1b[31mred"), NOW_S)


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_has_a_symbol_and_a_word(state: JobState) -> None:
    told = plain(job(state=state), NOW_S)
    assert told.startswith(symbol(state))
    assert state.word in told


def test_message_about_slurm_id_of_an_ended_job_shows_our_job_id() -> None:
    ended = job(state=JobState.COMPLETED, slurm_id="146", created_s=NOW_S - 7200)
    said = ended_earlier(ended, "146", NOW_S)
    which = f"job {ended.id}, which was submitted 2 h ago and has ended"
    assert said == f"146 was the Slurm ID of {which}."
    assert ended_earlier(ended, ended.id, NOW_S) is None
    assert ended_earlier(job(state=JobState.RUNNING), "146", NOW_S) is None
