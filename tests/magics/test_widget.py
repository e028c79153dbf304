"""The Python half of the queue widget."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_slurm.magics.queue_widget import QueueWidget
from jupyter_slurm.wire import (
    Problem,
    Stream,
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
    """Send a message as the browser does."""
    widget._handle_custom_msg({"do": do, "id": job_id}, [])


def changed(widget: QueueWidget, name: str, text: str = "") -> threading.Event:
    """Return an event that is set once the trait contains `text`."""
    seen = threading.Event()

    def look(change: Any) -> None:
        if not text or text in change["new"]:
            seen.set()

    widget.observe(look, names=name)
    return seen


def test_widget_shows_my_jobs_and_their_buttons(widget: QueueWidget) -> None:
    (row,) = widget.rows
    assert (row["name"], row["live"], row["held"], row["ours"]) == ("mine", True, False, True)


def test_switch_shows_jobs_of_all_users(widget: QueueWidget) -> None:
    seen = changed(widget, "rows")
    click(widget, "shown")
    widget.everyone = True
    assert seen.wait(60)
    (row,) = widget.rows
    assert (row["user"], row["ours"]) == ("ana", False)


def test_buttons_act_on_the_job_and_report_the_result(widget: QueueWidget, api: FakeApi) -> None:
    job_id = api.jobs()[0].id
    click(widget, "hold", job_id)
    assert api.job(job_id).reason == "JobHeldUser"
    click(widget, "release", job_id)
    assert api.job(job_id).reason is None
    click(widget, "cancel", job_id)
    assert "cancelled" in widget.message
    assert widget.rows[0]["live"] is False
    assert widget.as_of.startswith("as of")


def test_log_button_shows_the_end_of_the_log(widget: QueueWidget, api: FakeApi) -> None:
    job_id = api.jobs()[0].id
    api.until(lambda a: bool(a.logs(job_id).outputs))
    click(widget, "log", job_id)
    assert widget.log == "hello\n"
    assert f"%slurm attach {job_id}" in widget.log_of


def test_open_log_follows_the_job(widget: QueueWidget, api: FakeApi) -> None:
    job_id = api.jobs()[0].id
    click(widget, "shown")
    click(widget, "log", job_id)
    seen = changed(widget, "log", "more")
    api.emit(job_id, Stream(name="stdout", text="and more\n"))
    assert seen.wait(60)
    assert widget.log.endswith("and more\n")
    assert widget.log.startswith("hello\n")


def test_failed_click_is_reported_in_the_widget(widget: QueueWidget) -> None:
    click(widget, "cancel", "gone")
    assert "Job gone not found." in widget.message


def test_row_of_a_cluster_that_needs_a_login_shows_the_login_command(
    widget: QueueWidget, api: FakeApi
) -> None:
    problem = Problem(code="login-needed", message="fake needs a login.")
    api.change(api.jobs()[0].id, problem=problem)
    click(widget, "hold", api.jobs()[0].id)
    assert widget.rows[0]["note"] == "fake needs a login. Log in: %slurm login fake"


def test_changed_job_is_shown_without_a_click(widget: QueueWidget, api: FakeApi) -> None:
    click(widget, "shown")
    seen = changed(widget, "rows")
    api.change(api.jobs()[0].id, name="renamed")
    assert seen.wait(60)


def test_front_end_without_widgets_shows_the_same_rows(widget: QueueWidget) -> None:
    data, _ = widget._repr_mimebundle_()
    assert "mine" in data["text/html"]
    assert "mine" in data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in data


def test_foreign_job_names_are_escaped(widget: QueueWidget) -> None:
    widget.everyone = True
    data, _ = widget._repr_mimebundle_()
    assert "<b>their" not in data["text/html"]
    assert "\x1b" not in data["text/plain"]
