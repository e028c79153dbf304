"""Logins, files and tunnels in a notebook."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import StdinNotImplementedError

from jupyter_slurm.client.login import LoginDeclined
from jupyter_slurm.errors import (
    AgentError,
    CellFailed,
    LoginNeededError,
    NotFoundError,
    TransportError,
)
from jupyter_slurm.job import JobHandle
from jupyter_slurm.magics.follow import Detached
from jupyter_slurm.magics.queue_widget import QueueWidget
from jupyter_slurm.magics.transfer import Stopped
from jupyter_slurm.wire import (
    Job,
    JobSpec,
    Problem,
    QuestionKind,
    TransferState,
)
from tests.far import HOST, Asked
from tests.magics.fake import FakeApi
from tests.magics.shell import Shell

PASSWORD = Asked(QuestionKind.SECRET, "Password:", "s3cret")
Types = Callable[..., list[str]]


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Types:
    """Return a function that sets the answers to masked prompts and returns the list of prompts. An
    exception stands for a key."""

    def types(*answers: str | BaseException) -> list[str]:
        left, prompts = list(answers), []

        def read(prompt: str) -> str:
            prompts.append(prompt)
            answer = left.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        monkeypatch.setattr(getpass, "getpass", read)
        return prompts

    return types


# --- logins -----------------------------------------------------------------------------------


def test_cell_that_needs_a_login_prompts_and_runs(shell: Shell, api: FakeApi, types: Types) -> None:
    api.need_login(PASSWORD)
    prompts = types("s3cret")
    ran = shell.run("%%slurm --out x\nprint('there')\nx = 5")
    assert ran.error is None
    assert prompts == [f"{HOST} asks: Password: "]
    assert ran.out.endswith("there\n")
    assert "s3cret" not in ran.out + ran.err + json.dumps([one.data for one in ran.shown])
    assert shell.ip.user_ns["x"] == 5


def test_waiting_cell_prompts_if_the_login_is_lost(
    shell: Shell, api: FakeApi, types: Types, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = types("s3cret")
    logs = api.logs

    def cut_once(*args: Any, **kwargs: Any) -> object:
        if not prompts and not api.needed:
            api.need_login(PASSWORD)
        if api.needed:
            raise LoginNeededError("The connection to fake is lost.")
        return logs(*args, **kwargs)

    monkeypatch.setattr(api, "logs", cut_once)
    ran = shell.run("%%slurm\nprint('there')")
    assert ran.error is None
    assert len(prompts) == 1
    assert ran.out == "The connection to fake is lost.\nthere\n"


def test_interrupted_login_of_a_cell_submits_nothing(
    shell: Shell, api: FakeApi, types: Types, jupyter_dirs: Path
) -> None:
    api.need_login(PASSWORD)
    types(KeyboardInterrupt())
    shell.ip.user_ns["data"] = 1
    ran = shell.run("%%slurm --in data\n1")
    assert isinstance(ran.error, LoginDeclined)
    assert api.specs == {}
    assert list(jupyter_dirs.rglob("*.vars")) == []


def test_declined_login_of_a_waiting_cell_keeps_its_job(
    shell: Shell, api: FakeApi, types: Types, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(KeyboardInterrupt())

    def cut(*_: object, **__: object) -> object:
        api.need_login(PASSWORD)
        raise LoginNeededError("The connection to fake is lost.")

    monkeypatch.setattr(api, "logs", cut)
    ran = shell.run("%%slurm --on-interrupt cancel\nlinger()")
    assert isinstance(ran.error, Detached)
    assert "cancel" not in api.calls


def test_unanswered_submission_is_reported_and_its_job_is_found(
    shell: Shell, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = api.submit

    def unanswered(spec: JobSpec) -> Job:
        submit(spec)
        raise AgentError("The agent ended.")

    monkeypatch.setattr(api, "submit", unanswered)
    ran = shell.run("%%slurm\n1")
    assert isinstance(ran.error, AgentError)
    assert f"Job {api.jobs()[0].id} may have been submitted" in ran.err
    assert shell.run("%%slurm\n1").error is None
    assert len(api.jobs()) == 1


def test_front_end_without_prompts_shows_the_login_command(
    shell: Shell, api: FakeApi, types: Types
) -> None:
    api.need_login(PASSWORD)
    types(StdinNotImplementedError("no stdin"))
    ran = shell.run("%%slurm\n1")
    assert isinstance(ran.error, LoginNeededError)
    assert "`jupyter slurm login`" in str(ran.error)
    assert "The job was not submitted" in ran.err


def test_login_prompts_and_shows_the_route(shell: Shell, api: FakeApi, types: Types) -> None:
    api.need_login(PASSWORD)
    types("s3cret")
    ran = shell.run("%slurm login")
    assert ran.out == f"Connected to fake: {HOST} → alice@login1, 12 ms round trip.\n"
    assert shell.run("%slurm logout").error is None
    far, here = shell.table("%slurm connections").rows
    assert (far["State"], far["Hosts"]) == ("login-needed", f"{HOST} → alice@login1")
    assert here["State"] == "local"


def test_host_key_prompt_is_not_masked(
    shell: Shell, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.need_login(
        Asked(QuestionKind.HOST_KEY, "Is this it?", "yes", instruction="SHA256:abc of login1")
    )
    monkeypatch.setattr("builtins.input", lambda prompt: "yes" if "(yes/no)" in prompt else "")
    ran = shell.run("%slurm login")
    assert "SHA256:abc of login1" in ran.out
    assert "Connected" in ran.out


def test_widget_never_prompts_and_shows_the_login_command(
    shell: Shell, api: FakeApi, types: Types
) -> None:
    prompts = types("s3cret")
    widget = shell.run("%slurm").outcome.result
    assert isinstance(widget, QueueWidget)
    api.need_login(PASSWORD)
    widget.everyone = True
    assert "%slurm login" in widget.as_of
    assert prompts == []
    widget.close()


# --- files ------------------------------------------------------------------------------------


def test_push_updates_its_progress_in_one_display(
    shell: Shell, api: FakeApi, tmp_path: Path
) -> None:
    (tmp_path / "my code").mkdir()
    api.steps = [
        {"files": 4, "bytes": 1000, "bytes_done": 500, "files_done": 2},
        {"state": TransferState.DONE, "ended_s": 0.0, "files_done": 4, "bytes_done": 1000},
    ]
    ran = shell.run(f"%slurm push '{tmp_path}/my code' --exclude '*.pt' --exclude=data")
    assert ran.error is None
    assert api.targets == [
        ("push", str(tmp_path / "my code"), "my code", None, ("*.pt", "data")),
    ]
    # The card of an earlier test's job may change again.
    first, *changes = [one for one in ran.shown if "slurm-card" not in (one.display_id or "")]
    assert not first.update
    assert all(one.update and one.display_id == first.display_id for one in changes)
    assert 'aria-valuenow="50"' in changes[0].data["text/html"]
    assert "4 files (1.0 kB)" in changes[-1].data["text/plain"]


def test_pull_writes_to_the_current_or_the_given_folder(
    shell: Shell, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell.run("%slurm pull /scratch/me/results")
    shell.run("%slurm pull '~/a b' there --cluster other")
    assert api.targets == [
        ("pull", "/scratch/me/results", str(tmp_path / "results"), None, ()),
        ("pull", "~/a b", str(tmp_path / "there"), "other", ()),
    ]


def test_interrupted_transfer_stops_and_the_next_transfer_resumes(
    shell: Shell, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.steps = [{"files_done": 1}]

    def interrupt(_s: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jupyter_slurm.magics.transfer.time.sleep", interrupt)
    ran = shell.run(f"%slurm push {tmp_path} x")
    assert isinstance(ran.error, Stopped)
    assert "the next transfer resumes from there" in str(ran.error)
    assert ran.error._render_traceback_() == [f"KeyboardInterrupt: {ran.error}"]
    assert "⊘" in ran.shown[-1].data["text/plain"]


def test_cell_pushes_a_folder_and_fetches_files(
    shell: Shell, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    ran = shell.run("%%slurm --push src --fetch '*.csv,out/' --fetch model.pt\n1")
    assert ran.error is None
    (spec,) = api.specs.values()
    assert (spec.push, spec.fetch_to) == (str(tmp_path / "src"), str(tmp_path))
    assert spec.fetch == ("*.csv", "out/", "model.pt")
    assert api.targets == [("fetch", spec.id)]
    assert api.job(spec.id).delivered


def test_attach_command_and_job_handle_fetch_files(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm --detach --fetch '*.csv'\n1")
    handle = JobHandle(api, api.jobs()[0])
    handle.wait()
    shell.run("%slurm attach")
    handle.result()
    assert api.targets == [("fetch", handle.id)] * 2


def test_failed_fetch_does_not_hide_the_cells_error(shell: Shell, api: FakeApi) -> None:
    lost = {
        "state": TransferState.FAILED,
        "problem": Problem(code="transport", message="The disk is full."),
    }
    api.steps = [lost]
    ran = shell.run("%%slurm --fetch '*.csv'\n1 / 0")
    assert isinstance(ran.error, CellFailed)
    assert ran.err == "Cannot fetch the job's files: The disk is full.\n"
    api.steps = [lost]
    with pytest.raises(CellFailed) as caught:
        JobHandle(api, api.jobs()[0]).result()
    assert "The disk is full." in caught.value.__notes__[0]


def test_failed_fetch_makes_a_successful_cell_fail(shell: Shell, api: FakeApi) -> None:
    problem = Problem(code="transport", message="The disk is full.")
    api.steps = [{"state": TransferState.FAILED, "problem": problem}]
    ran = shell.run("%%slurm --fetch '*.csv'\n1")
    assert isinstance(ran.error, TransportError)
    assert not api.jobs()[0].delivered


def test_missing_folder_to_push_is_reported_before_submission(shell: Shell, api: FakeApi) -> None:
    assert isinstance(shell.run("%%slurm --push /no/such\n1").error, NotFoundError)
    assert api.calls == []


# --- tunnels ----------------------------------------------------------------------------------


def test_opened_dashboard_does_not_leave_an_address_or_secret_in_the_notebook(
    shell: Shell, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run("%%slurm --detach\nlinger()")
    job = api.jobs()[0]
    told: list[str] = []

    def opens(url: str) -> bool:
        told.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", opens)
    ran = shell.run(f"%slurm tunnel {job.slurm_id}:ray")
    assert ran.out == "Opened in the browser.\n"
    entry = api.dashboard_entry(job.id, "ray")
    page = Path(told[0].removeprefix("file://"))
    assert page.stat().st_mode & 0o777 == 0o600
    assert entry.token in page.read_text(encoding="utf-8")
    assert entry.login_url in page.read_text(encoding="utf-8")


def test_tunnel_forwards_to_the_login_node_a_host_or_a_job(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm --detach\nlinger()")
    job = api.jobs()[0]
    ran = shell.run("%slurm tunnel 8888 --local-port 9999")
    assert ran.out == "127.0.0.1:9999 forwards to localhost:8888 on fake (tunnel t1).\n"
    shell.run("%slurm tunnel gpu7:8888 --cluster other")
    shell.run("%slurm tunnel [::1]:80")
    ran = shell.run(f"%slurm tunnel {job.slurm_id}:8888")
    assert f"port 8888 of job {job.id}" in ran.out
    assert api.targets == [
        ("localhost", 8888, None, None, 9999),
        ("gpu7", 8888, "other", None, 0),
        ("::1", 80, None, None, 0),
        ("localhost", 8888, None, job.id, 0),
    ]
    rows = shell.table("%slurm tunnels").rows
    assert [row["ID"] for row in rows] == ["t1", "t2", "t3", "t4"]
    assert shell.run("%slurm tunnel --close t1").out == "Tunnel t1 is closed.\n"
    assert len(api.tunnels()) == 3
