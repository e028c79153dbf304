"""The card: what is known is told, in three forms, and nothing that was typed is markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.readable import date_and_time, duration
from jupyter_slurm.views.card import (
    MIME,
    bundle,
    colour,
    ended_earlier,
    html,
    plain,
    symbol,
    told_to_end,
)
from jupyter_slurm.wire import (
    SAID_BY_STATE,
    Job,
    JobKind,
    JobState,
    Message,
    Problem,
    Transfer,
    TransferState,
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
    """The words of a page, its tags counted."""

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


def test_a_job_tells_which_python_runs_its_cell() -> None:
    assert "Python 3.9.2 of the node" in Text(html(job(python=(3, 9, 2)), NOW_S)).text
    elsewhere = job(python=(3, 9, 2), python_path="/opt/py <b>/python3")
    shown = Text(html(elsewhere, NOW_S)).text
    assert "Python 3.9.2 of the node (/opt/py <b>/python3)" in shown
    of_image = Text(html(job(python=(3, 9, 2), image="fit", runtime="docker"), NOW_S)).text
    assert "Python 3.9.2" in of_image
    assert "of the node" not in of_image


def test_the_first_form_only_names_the_job() -> None:
    assert bundle(job(), NOW_S)[MIME] == {"v": 1, "cluster": "arandu", "id": "k3j9x2m1"}


def test_a_running_job_tells_where_since_when_and_how_long_it_may() -> None:
    running = job(started_s=NOW_S - 125, limit_s=600, nodes=("n1",), partition="gpu", gpus=2)
    since = f"running since {date_and_time(NOW_S - 125)}"
    for head, told in (
        (since, Text(html(running, NOW_S)).text),
        ("running for 2 min 5 s", plain(running, NOW_S)),
    ):
        for part in (head, "k3j9x2m1", "123", "n1 (gpu)", "7 min 55 s left"):
            assert part in told


def test_what_is_saved_is_still_true_on_another_day() -> None:
    """A page that shows jobs itself is told of the start alone, and saves that."""
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


def test_a_waiting_job_tells_why_and_when_it_may_start() -> None:
    waiting = job(
        state=JobState.PENDING,
        why="It waits for free GPUs.",
        advice="Ask for fewer.",
        start_estimate_s=NOW_S + 3600,
    )
    for told in (Text(html(waiting, NOW_S)).text, plain(waiting, NOW_S)):
        for part in ("It waits for free GPUs.", "Ask for fewer.", "(in 1 h)"):
            assert part in told


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (JobKind.SESSION, "ends after 1 h without a cell"),
        (JobKind.LAB, "ends after 1 h in which nobody uses it"),
        (JobKind.KERNEL, "ends after 1 h in which nobody is connected"),
    ],
)
def test_what_ends_a_job_that_is_idle_is_told_by_its_kind(kind: JobKind, told: str) -> None:
    assert told in html(job(kind=kind, idle_s=3600), NOW_S)


def test_a_job_whose_folder_is_on_its_way_tells_how_far_it_is() -> None:
    half = Transfer(
        id="x",
        cluster="arandu",
        direction="push",
        local="/home/me/code <b>",
        remote="/scratch/x",
        state=TransferState.RUNNING,
        files=10,
        files_done=5,
        bytes=2_000_000,
        bytes_done=1_000_000,
        began_s=NOW_S - 10,
    )
    submitting = job(state=JobState.SUBMITTING, slurm_id=None, transfer=half)
    page = html(submitting, NOW_S)
    for told in (Text(page).text, plain(submitting, NOW_S)):
        for part in ("/home/me/code <b>: 50%", "5 of 10 files", "100.0 kB/s, 10 s left"):
            assert part in told
    assert "width:50%" in page


def test_an_ended_job_tells_until_when_the_site_keeps_its_files() -> None:
    day_s = 24 * 3600
    ended = job(
        state=JobState.COMPLETED,
        ended_s=NOW_S,
        erased_s=NOW_S + 60 * day_s,
        job_dir="/scratch/p/alice/my jobs/k3j9x2m1",
    )
    page = Text(html(ended, NOW_S)).text
    until = f"{date_and_time(NOW_S + 60 * day_s)}, then the site erases them"
    assert f"Files kept until {until}" in page
    assert "%slurm pull '/scratch/p/alice/my jobs/k3j9x2m1'" in page
    assert "files kept until" not in plain(ended, NOW_S + 45 * day_s)
    assert f"files kept until {until}" in plain(ended, NOW_S + 47 * day_s)


def test_an_ended_job_tells_its_exit_memory_and_efficiency() -> None:
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
    for part in ("exit code 3", "1.5 GiB of 2.0 GiB asked for (75%)", "75% of 2 CPUs", "attach"):
        assert part in told
    assert "attach" not in html(msgspec.structs.replace(ended, delivered=True), NOW_S)


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.TIMEOUT])
def test_how_the_signal_by_which_slurm_ended_a_job_reached_it_is_not_told(state: JobState) -> None:
    """Depending on how far it had begun, bash or srun gives 0, 1 or 143."""
    cancelled = job(state=state, ended_s=NOW_S, exit_code=1)
    by_signal = job(state=state, ended_s=NOW_S, signal=15, exit_code=143)
    for ended in (cancelled, by_signal):
        for told in (Text(html(ended, NOW_S)).text, plain(ended, NOW_S)):
            assert "exit" not in told.lower()
            assert "signal" not in told.lower()


def test_a_signal_that_ended_a_job_is_told_in_words() -> None:
    ended = job(state=JobState.FAILED, ended_s=NOW_S, signal=11, exit_code=139)
    assert "killed by signal 11" in plain(ended, NOW_S)
    assert "exit" not in plain(ended, NOW_S)


def test_silence_of_the_cluster_is_told_with_its_reason() -> None:
    unknown = job(
        state=JobState.UNKNOWN,
        problem=Problem(code="controller", message="slurmctld does not answer.", hint="Wait."),
        problem_since_s=NOW_S - 60,
    )
    assert "slurmctld does not answer." in Text(html(unknown, NOW_S)).text
    assert plain(unknown, NOW_S).endswith("\n  slurmctld does not answer. Wait.")


def test_what_anybody_typed_is_text() -> None:
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
def test_any_job_makes_a_whole_page_and_few_lines(
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


def test_text_form_cannot_steer_a_terminal() -> None:
    assert "\x1b" not in plain(job(name="x", why="\x1b[31mred"), NOW_S)


def test_colours_are_of_the_state_only_and_nothing_has_a_background_of_its_own() -> None:
    page = html(job(limit_s=60, started_s=NOW_S - 30), NOW_S)
    assert set(re.findall(r"#[0-9a-f]{6}", page)) == {colour(JobState.RUNNING)}
    assert set(re.findall(r"background:(\w+)", page)) == {"transparent"}


@pytest.mark.parametrize("state", list(JobState))
@pytest.mark.parametrize(("paper", "ink"), [(255, 0), (17, 255)], ids=["light", "dark"])
def test_the_states_word_reads_well_on_light_and_on_dark_pages(
    state: JobState, paper: int, ink: int
) -> None:
    hue = [int(colour(state)[at : at + 2], 16) for at in (1, 3, 5)]
    assert contrast(hue, [paper] * 3) >= 3  # bars and rules, and browsers without color-mix
    assert contrast([0.7 * one + 0.3 * ink for one in hue], [paper] * 3) >= 4.5
    assert "color-mix(in srgb,#" in html(job(state=state), NOW_S)


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    """WCAG 2.2."""

    def luminance(colour: Sequence[float]) -> float:
        shares = (part / 255 for part in colour)
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_what_is_there_to_be_copied_is_code() -> None:
    page = html(job(state=JobState.PENDING, why="a < b", advice="Try `--mem 4G`."), NOW_S)
    assert "a &lt; b<br>Try <code>--mem 4G</code>." in page


def test_a_long_text_is_folded_and_whole() -> None:
    long = "/".join(map(str, range(200)))
    page = Text(html(job(warning=long), NOW_S))
    assert "details" in page.tags
    assert long in re.sub("[ …]", "", page.text)


def test_a_good_end_needs_no_words() -> None:
    page = html(job(state=JobState.COMPLETED, why="It has ended well.", exit_code=0), NOW_S)
    assert "ended well" not in page
    assert "exit" not in page


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_has_a_symbol_and_its_word(state: JobState) -> None:
    told = plain(job(state=state), NOW_S)
    assert told.startswith(symbol(state))
    assert state.word in told


def test_two_runs_of_a_cell_differ_in_one_line_of_each_form() -> None:
    first = job(state=JobState.COMPLETED, ended_s=NOW_S, started_s=NOW_S - 60, delivered=True)
    again = msgspec.structs.replace(
        first, id="a2b4c6d7", slurm_id="124", ended_s=NOW_S + 900, started_s=NOW_S + 820
    )
    one, other = (bundle(ended, NOW_S + 1000) for ended in (first, again))
    for form in ("text/html", "text/plain"):
        lines = list(zip(one[form].split("\n"), other[form].split("\n"), strict=True))
        assert sum(before != after for before, after in lines) == 1


@pytest.mark.parametrize("text", sorted(SAID_BY_STATE))
def test_a_reason_that_only_repeats_the_state_is_left_out(text: str) -> None:
    why = Message.of(text, ename="ValueError", exit_code=3, peak="5 GiB", memory="6 GiB")
    ended = job(state=JobState.FAILED, exit_code=3, why=why, advice="Ask for more.")
    for told in (Text(html(ended, NOW_S)).text, plain(ended, NOW_S)):
        assert str(why) not in told
        assert ("ValueError" if "ename" in text else "exit code 3") in told
        assert "Ask for more." in told
    assert str(why) in plain(job(state=JobState.PENDING, why=why), NOW_S)


def test_durations_never_are_negative() -> None:
    assert duration(-5) == "0 s"


def test_why_a_job_was_refused_is_said_once() -> None:
    why = "There is no such partition."
    refused = job(
        state=JobState.REJECTED,
        why=why,
        ended_s=NOW_S,
        problem=Problem(code="submit", message=why),
    )
    assert html(refused, NOW_S).count(why) == plain(refused, NOW_S).count(why) == 1


@pytest.mark.parametrize(
    ("state", "words"),
    [(JobState.RUNNING, ": asked to end"), (JobState.COMPLETED, " has ended: it is done")],
)
def test_after_a_cancellation_no_state_of_before_is_told(state: JobState, words: str) -> None:
    assert told_to_end(job(state=state)).endswith(words)


def test_an_ended_job_that_was_named_by_slurms_id_is_said_to_be_that_one() -> None:
    ended = job(state=JobState.COMPLETED, slurm_id="146", created_s=NOW_S - 7200)
    said = ended_earlier(ended, "146", NOW_S)
    assert said == f"146 was the Slurm id of job {ended.id}, submitted 2 h ago, which has ended."
    assert ended_earlier(ended, ended.id, NOW_S) is None
    assert ended_earlier(job(state=JobState.RUNNING), "146", NOW_S) is None
