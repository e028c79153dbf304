"""The queue as a widget: Python's half of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from jupyter_slurm.magics.queue_widget import QueueWidget
from jupyter_slurm.wire import (
    JobState,
    Message,
    Problem,
    QueueEntry,
    Stream,
    Text,
    Transfer,
    TransferState,
)
from tests.magics.fake import FakeApi
from tests.magics.shell import Shell


@pytest.fixture
def widget(shell: Shell, api: FakeApi) -> Iterator[QueueWidget]:
    shell.run("%%slurm --detach --name mine\nprint('hello')\nlinger()")
    made = QueueWidget(api, None)
    yield made
    click(made, "hidden")
    made.close()


def click(widget: QueueWidget, do: str, job_id: str = "") -> None:
    """What the browser sends."""
    widget._handle_custom_msg({"do": do, "id": job_id}, [])


def changed(widget: QueueWidget, name: str, text: str = "") -> threading.Event:
    """Set once the trait changes to something with `text` in it."""
    seen = threading.Event()

    def look(change: Any) -> None:
        if not text or text in change["new"]:
            seen.set()

    widget.observe(look, names=name)
    return seen


def test_it_shows_my_jobs_and_says_which_buttons_they_have(widget: QueueWidget) -> None:
    (row,) = widget.rows
    assert (row["name"], row["live"], row["held"], row["ours"]) == ("mine", True, False, True)


def test_a_folder_that_is_pushed_with_a_job_is_seen_on_its_way(
    widget: QueueWidget, api: FakeApi
) -> None:
    pushed = Transfer(
        id="x",
        cluster="fake",
        direction="push",
        local="/code",
        remote="/there",
        state=TransferState.RUNNING,
        began_s=0.0,
    )
    job_id = api.jobs()[0].id
    api.change(job_id, transfer=pushed)
    click(widget, "hold", job_id)
    assert widget.rows[0]["note"] == "Pushing: comparing both sides"
    api.change(job_id, transfer=msgspec.structs.replace(pushed, files=4, bytes=8, bytes_done=4))
    click(widget, "hold", job_id)
    assert str(widget.rows[0]["note"]).startswith("Pushing: 50%, 0 of 4 files")


def test_everybodys_jobs_come_with_the_switch(widget: QueueWidget) -> None:
    seen = changed(widget, "rows")
    click(widget, "shown")
    widget.everyone = True
    assert seen.wait(60)
    (row,) = widget.rows
    assert (row["user"], row["ours"]) == ("ana", False)


def test_buttons_reach_the_job_and_tell_what_became_of_it(
    widget: QueueWidget, api: FakeApi
) -> None:
    job_id = api.jobs()[0].id
    click(widget, "hold", job_id)
    assert api.job(job_id).reason == "JobHeldUser"
    click(widget, "release", job_id)
    assert api.job(job_id).reason is None
    click(widget, "cancel", job_id)
    assert "cancelled" in widget.message
    assert widget.rows[0]["live"] is False
    assert widget.as_of.startswith("as of")


def test_the_log_button_shows_the_end_of_the_log(widget: QueueWidget, api: FakeApi) -> None:
    job_id = api.jobs()[0].id
    api.until(lambda a: bool(a.logs(job_id).outputs))
    click(widget, "log", job_id)
    assert widget.log == "hello\n"
    assert f"%slurm attach {job_id}" in widget.log_of


def test_a_log_is_shown_as_a_terminal_would_without_its_colours(
    widget: QueueWidget, api: FakeApi, shell: Shell
) -> None:
    shell.run("%%slurm --detach\nprint('50%\\r\\x1b[32m100%\\x1b[0m')\n1 / 0")
    job_id = api.jobs()[0].id
    api.until(lambda a: a.job(job_id).state.final)
    click(widget, "log", job_id)
    shown = widget.log.splitlines()
    assert shown[0] == "100%"
    assert shown[-1].startswith("ZeroDivisionError")
    assert "\x1b" not in widget.log


def test_an_open_log_goes_on_as_the_job_writes(widget: QueueWidget, api: FakeApi) -> None:
    job_id = api.jobs()[0].id
    click(widget, "shown")
    click(widget, "log", job_id)
    seen = changed(widget, "log", "more")
    api.emit(job_id, Stream(name="stdout", text="and more\n"))
    assert seen.wait(60)
    assert widget.log.endswith("and more\n")
    assert widget.log.startswith("hello\n")


def test_a_log_that_was_opened_before_anything_was_written_fills(
    widget: QueueWidget, api: FakeApi, shell: Shell
) -> None:
    shell.run("%%slurm --detach --name quiet\nlinger()\nprint('at last')")
    job_id = api.jobs()[0].id
    click(widget, "shown")
    click(widget, "log", job_id)
    assert widget.log == "It has written nothing yet."
    filled, ended = changed(widget, "log", "at last"), changed(widget, "log_of", "done")
    api.finish(job_id)
    assert filled.wait(60)
    assert ended.wait(60)
    assert widget.log == "at last\n"


def test_a_log_ends_when_it_is_closed_or_another_is_opened(
    widget: QueueWidget, api: FakeApi, shell: Shell
) -> None:
    mine = api.jobs()[0].id
    shell.run("%%slurm --detach --name other\nprint('of the other')\nlinger()")
    other = api.jobs()[0].id
    api.until(lambda a: bool(a.logs(other).outputs))
    click(widget, "shown")
    click(widget, "log", mine)
    click(widget, "log", other)
    seen = changed(widget, "log", "news")
    api.emit(mine, Stream(name="stdout", text="of mine\n"))
    api.emit(other, Stream(name="stdout", text="news of the other\n"))
    assert seen.wait(60)
    assert widget.log == "of the other\nnews of the other\n"
    assert widget._log is not None
    thread = widget._log.thread
    assert thread is not None
    widget.set_state({"log": "", "log_of": ""})
    api.emit(other, Stream(name="stdout", text="unseen\n"))
    thread.join(60)
    assert not thread.is_alive()
    assert (widget.log, widget.log_of) == ("", "")


def test_an_open_log_is_not_followed_while_no_browser_shows_it(
    widget: QueueWidget, api: FakeApi
) -> None:
    job_id = api.jobs()[0].id
    click(widget, "log", job_id)
    assert widget._log is not None
    assert widget._log.thread is None
    api.emit(job_id, Stream(name="stdout", text="meanwhile\n"))
    seen = changed(widget, "log", "meanwhile")
    click(widget, "shown")
    assert seen.wait(60)


def test_an_open_log_keeps_the_end_of_a_chatty_job(widget: QueueWidget, api: FakeApi) -> None:
    job_id = api.jobs()[0].id
    click(widget, "shown")
    click(widget, "log", job_id)
    seen = changed(widget, "log", "the last")
    for _ in range(40):
        api.emit(job_id, Stream(name="stdout", text="x" * 999 + "\n"))
    api.emit(job_id, Stream(name="stdout", text="the last\n"))
    assert seen.wait(60)
    assert len(widget.log) <= 16_384


def test_a_click_that_fails_is_told_in_the_widget(widget: QueueWidget) -> None:
    click(widget, "cancel", "gone")
    assert "There is no job gone." in widget.message


def test_a_row_says_why_nothing_newer_is_known_and_how_to_log_in(
    widget: QueueWidget, api: FakeApi
) -> None:
    problem = Problem(code="login-needed", message="fake needs a login.")
    api.change(api.jobs()[0].id, problem=problem)
    click(widget, "hold", api.jobs()[0].id)
    assert widget.rows[0]["note"] == "fake needs a login. Log in: %slurm login fake"


@pytest.mark.parametrize(
    ("state", "why", "note"),
    [
        (JobState.CANCELLED, "Cancelled.", ""),
        (JobState.OUT_OF_MEMORY, Message.of("Out of memory."), ""),
        (
            JobState.FAILED,
            Message.of("Failed (exit code {exit_code}).", exit_code=3),
            "Failed (exit code 3).",
        ),
    ],
)
def test_a_reason_that_only_repeats_the_states_word_is_not_told(
    widget: QueueWidget, api: FakeApi, state: JobState, why: Text, note: str
) -> None:
    api.change(api.jobs()[0].id, state=state, why=why, delivered=True)
    widget._refresh()
    assert widget.rows[0]["note"] == note
    (row,) = widget.table().rows
    assert (state.word in row["State"], row["Note"]) == (True, note)


def test_a_message_that_is_none_of_ours_is_ignored(widget: QueueWidget, api: FakeApi) -> None:
    before = list(api.calls)
    for content in ({"do": "forget", "id": "x"}, {"do": "cancel", "id": 5}, {}):
        widget._handle_custom_msg(content, [])
    assert api.calls == before


def test_a_change_of_a_job_is_shown_without_a_click(widget: QueueWidget, api: FakeApi) -> None:
    click(widget, "shown")
    seen = changed(widget, "rows")
    api.change(api.jobs()[0].id, name="renamed")
    assert seen.wait(60)


def test_a_long_queue_is_cut_and_says_so(
    widget: QueueWidget, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = api.queue()
    monkeypatch.setattr(api, "queue", lambda _cluster: [entry] * 20_000)
    widget.everyone = True
    assert len(widget.rows) == 500
    assert "19500 more" in widget.as_of


def test_who_has_no_widgets_sees_the_same_rows(widget: QueueWidget) -> None:
    data, _ = widget._repr_mimebundle_()
    assert "mine" in data["text/html"]
    assert "mine" in data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in data


def test_names_of_others_are_text_in_the_page(widget: QueueWidget) -> None:
    widget.everyone = True
    data, _ = widget._repr_mimebundle_()
    assert "<b>their" not in data["text/html"]
    assert "\x1b" not in data["text/plain"]


def test_an_older_answer_does_not_take_the_place_of_a_newer_one(
    widget: QueueWidget, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mine,) = widget.rows
    queue = api.queue

    def switched_back_meanwhile(cluster: str | None = None) -> list[QueueEntry]:
        entries = queue(cluster)
        widget.everyone = False
        return entries

    monkeypatch.setattr(api, "queue", switched_back_meanwhile)
    widget.everyone = True
    (row,) = widget.rows
    assert (widget.everyone, row["user"], row["id"]) == (False, "", mine["id"])
