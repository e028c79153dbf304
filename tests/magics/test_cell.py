"""`%%slurm`: submission, output and results of a cell."""

from __future__ import annotations

import asyncio
import re
import sys
import threading

import pytest
from IPython.core.error import UsageError
from msgspec.structs import replace

from jupyter_slurm.errors import CellFailed, CodeError, NotFoundError, SubmitError, VariableError
from jupyter_slurm.job import JobHandle
from jupyter_slurm.places import spool_dir
from jupyter_slurm.wire import JobKind, JobState
from tests.magics.fake import FakeApi
from tests.magics.shell import KeepingPublisher, Shell
from tests.specs import known
from tests.ssh.waiting import wait_until


def only_job(api: FakeApi) -> str:
    (job,) = api.jobs()
    return job.id


def test_variables_are_sent_and_returned(shell: Shell, api: FakeApi) -> None:
    shell.ip.user_ns["data"] = [1, 2, 3]
    ran = shell.run("%%slurm --in data --out total\ntotal = sum(data)")
    assert ran.error is None
    assert shell.ip.user_ns["total"] == 6
    api.until(lambda api: api.calls == ["submit", "result", "delivered"])


def test_card_is_one_display_with_the_final_state(shell: Shell, api: FakeApi) -> None:
    ran = shell.run("%%slurm\n1")
    cards = [one for one in ran.shown if one.display_id == f"slurm-card-{only_job(api)}"]
    assert [card.update for card in cards] == [False] + [True] * (len(cards) - 1)
    assert "done" in cards[-1].data["text/html"]


def test_card_precedes_the_output_and_is_updated_at_the_end(shell: Shell, api: FakeApi) -> None:
    shown = [one.display_id for one in shell.run("%%slurm\nvalue('2')").shown]
    card = f"slurm-card-{only_job(api)}"
    assert (shown[0], shown[-1], shown.count(None)) == (card, card, 1)


def test_waiting_cell_without_output_shows_its_card(shell: Shell, api: FakeApi) -> None:
    publisher = shell.ip.display_pub
    assert isinstance(publisher, KeepingPublisher)

    def finish() -> None:
        wait_until(lambda: len(publisher.shown) > 0)
        api.finish(only_job(api))

    thread = threading.Thread(target=finish)
    thread.start()
    assert [one.update for one in shell.run("%%slurm\nlinger()").shown][:1] == [False]
    thread.join()


def test_cell_uses_the_session_in_use_or_the_newest_session(shell: Shell, api: FakeApi) -> None:
    def session_of_a_cell(code: str) -> str | None:
        assert shell.run(f"%%slurm --session\n{code}").error is None
        return next(reversed(api.specs.values())).session

    session = known(kind=JobKind.SESSION, cluster="fake", notebook=shell.state.owner.notebook)
    for job_id in ("first222", "second22"):
        api.put(replace(session, id=job_id))
        assert session_of_a_cell(repr(job_id)) == "first222"
    api.remove("first222")
    assert session_of_a_cell("3") == "second22"
    api.remove("second22")
    assert isinstance(shell.run("%%slurm --session\n4").error, NotFoundError)


def test_failed_cell_raises_with_the_remote_traceback(shell: Shell) -> None:
    ran = shell.run("%%slurm\ndef f():\n    return 1 / 0\nf()")
    assert isinstance(ran.error, CellFailed)
    assert "ZeroDivisionError" in str(ran.error)
    assert any("return 1 / 0" in line or "line 2" in line for line in ran.error.traceback)
    assert "magics/cell.py" not in ran.out  # the traceback omits frames of this package


def test_no_raise_option_suppresses_the_error(shell: Shell) -> None:
    assert shell.run("%%slurm --no-raise\n1 / 0").error is None


def test_missing_output_variable_fails_the_cell(shell: Shell) -> None:
    ran = shell.run("%%slurm --out good,missing\ngood = 1")
    assert isinstance(ran.error, VariableError)
    assert "missing" in str(ran.error)
    assert shell.ip.user_ns["good"] == 1


def test_invalid_line_is_a_one_line_error_and_submits_nothing(shell: Shell, api: FakeApi) -> None:
    ran = shell.run("%%slurm --tiem 30m\n1")
    assert isinstance(ran.error, UsageError)
    assert "--time" in str(ran.error)
    assert "\n" not in str(ran.error)
    assert api.calls == []


@pytest.mark.parametrize("options", ["", "--detach", "--dry-run"])
def test_syntax_error_looks_like_a_local_error_and_submits_nothing(
    shell: Shell, api: FakeApi, options: str
) -> None:
    ran = shell.run(f"%%slurm {options}\nx = 1\nfor y in x\n    pass")
    assert isinstance(ran.error, CodeError)
    local = shell.run("x = 1\n\nfor y in x\n    pass").out.splitlines()
    shown = ran.out.splitlines()
    first = re.sub(r"\x1b\[[\d;]*m", "", shown[0])  # IPython 8.20 colours it
    assert shown[1:4] == local[1:4]  # these lines are the cell's line, the caret, and the message
    assert re.fullmatch(r" *Cell In\[\d+\], line 3", first)
    assert shown[-1] == "The code has a syntax error, so no job was submitted."
    assert api.specs == {}


# invalid in every Python, with syntax that is newer than this Python
NEWER = "%%slurm\nclass A[T]:\n    ?"


@pytest.mark.parametrize(("minor", "refused"), [(0, True), (1, False)])
def test_syntax_check_respects_the_python_of_earlier_jobs(
    shell: Shell, api: FakeApi, minor: int, refused: bool
) -> None:
    shell.run("%%slurm\n1")
    major, here = sys.version_info[:2]
    api.change(only_job(api), python=(major, here + minor, 0))
    assert isinstance(shell.run(NEWER).error, CodeError) is refused
    assert len(api.specs) == 2 - refused


@pytest.mark.parametrize("code", ["!true", "%time 1", "%%bash\nfor x in", "await f()", "pip list"])
def test_ipython_syntax_is_accepted(shell: Shell, api: FakeApi, code: str) -> None:
    assert "SyntaxError" not in shell.run(f"%%slurm --detach\n{code}").err
    assert len(api.specs) == 1


def test_variables_of_a_rejected_job_are_removed(shell: Shell, api: FakeApi) -> None:
    api.refuse = "sbatch: error: Invalid account"
    shell.ip.user_ns["data"] = 1
    assert isinstance(shell.run("%%slurm --in data\n1").error, SubmitError)
    assert list(spool_dir().iterdir()) == []


@pytest.mark.parametrize("options", ["", "--dry-run "])
def test_missing_variable_is_reported_before_submission(
    shell: Shell, api: FakeApi, options: str
) -> None:
    shell.ip.user_ns["data"] = 1
    ran = shell.run(f"%%slurm {options}--in dta\n1")
    assert isinstance(ran.error, VariableError)
    assert "Variable 'dta' not found in this notebook." in str(ran.error)
    assert "Did you mean 'data'?" in str(ran.error)
    assert ran.shown == []
    assert api.calls == []


def test_braces_are_expanded_and_dollars_are_not(shell: Shell, api: FakeApi) -> None:
    shell.ip.user_ns.update(text="it's 5 $HOME", HOME="no", x=2)
    ran = shell.run("%%slurm --comment {text} --env 'A=$HOME' --env B={{x}} --name n{x}\n1")
    assert ran.error is None
    (spec,) = api.specs.values()
    assert spec.options["comment"] == "it's 5 $HOME"
    assert spec.env == {"A": "$HOME", "B": "{x}"}
    assert spec.name == "n2"


def test_cell_text_is_sent_unchanged(shell: Shell, api: FakeApi) -> None:
    code = "s = '{x} $HOME `id` \\\\ é'\n\n\n# end  \n"
    shell.run(f"%%slurm\n{code}")
    (spec,) = api.specs.values()
    assert spec.code == code


def test_dry_run_submits_nothing(shell: Shell, api: FakeApi) -> None:
    ran = shell.run("%%slurm --dry-run --gpus 1\n1")
    (shown,) = ran.shown
    text, html = shown.data["text/plain"], shown.data["text/html"]
    assert "sbatch --gpus=1" in text
    cost = "Up to 12 UA in 1 h for each of 3 jobs: 1 CPU-hour, 1 GPU-hour"
    assert text.startswith(f"{cost}\nSlurm expects it to start at ")
    assert "\n· All is free.\n    Now.\n" in text
    assert html.startswith(f"<div><b>{cost}</b></div><div>Slurm expects it to start at ")
    assert "<div>· All is free.<br>" in html
    assert "The job gets A, B in its environment" in html
    assert api.calls == []


def test_detach_returns_a_handle_at_once(shell: Shell, api: FakeApi) -> None:
    ran = shell.run("%%slurm --detach --out x\nlinger()\nx = 5")
    handle = ran.outcome.result
    assert isinstance(handle, JobHandle)
    assert handle.state is JobState.RUNNING
    assert ran.last(f"slurm-card-{handle.id}").update is False
    with pytest.raises(TimeoutError):
        handle.wait(timeout=0.01)
    assert not handle.done()
    api.finish(handle.id)
    assert handle.result(timeout=60) == {"x": 5}
    assert handle.done()
    assert handle.exception() is None
    assert "delivered" in api.calls


def test_handle_can_be_awaited(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm --detach --out x\nx = 5")
    handle = JobHandle(api, api.jobs()[0])

    async def wait() -> dict[str, object]:
        return await handle

    assert asyncio.run(wait()) == {"x": 5}


def test_cell_runs_inside_a_running_event_loop(shell: Shell) -> None:
    async def run() -> str:
        return shell.run("%%slurm\nprint('there')").out

    assert asyncio.run(run()) == "there\n"


def test_handle_has_output_and_error(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm --detach\nprint('before')\n1 / 0")
    handle = JobHandle(api, api.jobs()[0])
    with pytest.raises(CellFailed) as raised:
        handle.result()
    assert str(handle.exception()) == str(raised.value)
    assert handle.output.startswith("before\nTraceback ")
    assert handle.output.endswith("ZeroDivisionError: division by zero\n")


def test_environment_variable_sets_the_default_cluster(
    shell: Shell, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_SLURM_CLUSTER", "arandu")
    shell.run("%%slurm --detach\n1")
    assert api.jobs()[0].cluster == "arandu"


def test_repeated_cell_attaches_to_its_job(shell: Shell, api: FakeApi) -> None:
    cell = "%%slurm --out x\nprint('hello')\nlinger()\nx = 1"
    shell.run(cell.replace("--out x", "--out x --detach"))
    api.finish(only_job(api))
    ran = shell.run(cell)
    assert "attached" in ran.out
    assert "hello" in ran.out
    assert shell.ip.user_ns["x"] == 1
    assert api.calls.count("submit") == 1


def test_equal_cell_of_another_unnamed_notebook_submits_another_job(
    shell: Shell, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME")
    shell.run("%%slurm --detach\nlinger()")
    shell.state.unnamed = "another kernel"
    shell.run("%%slurm --detach\nlinger()")
    assert api.calls.count("submit") == 2


def test_equal_cell_of_a_notebook_attaches_from_any_kernel(
    shell: Shell, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/notebooks/one.ipynb")
    shell.run("%%slurm --detach\nlinger()")
    shell.state.unnamed = "another kernel"
    shell.run("%%slurm --detach\nlinger()")
    assert api.calls.count("submit") == 1


def test_fresh_option_submits_another_job(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm --detach\nlinger()")
    shell.run("%%slurm --detach --fresh\nlinger()")
    assert api.calls.count("submit") == 2


def test_completed_cell_runs_again(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm\n1")
    shell.run("%%slurm\n1")
    assert api.calls.count("submit") == 2


def test_attach_without_a_job_submits_nothing(shell: Shell, api: FakeApi) -> None:
    assert isinstance(shell.run("%%slurm --attach\n1").error, NotFoundError)
    assert api.calls == []


def test_attach_restores_output_and_variables_of_an_ended_job(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm --detach --out x\nprint('hello')\ndisplay({'image/png': 'AA'}, 'p')\nx = 1")
    JobHandle(api, api.jobs()[0]).wait()
    ran = shell.run("%slurm attach")
    assert ran.out == "hello\n"
    assert ran.last(f"slurm-{only_job(api)}-p").data == {"image/png": "AA"}
    assert shell.ip.user_ns["x"] == 1


def test_sbatch_magic_submits_unchanged_text_without_waiting(shell: Shell, api: FakeApi) -> None:
    ran = shell.run("%%sbatch --gpus 1\n#!/bin/bash\n#SBATCH --time=1\nhostname\n")
    assert isinstance(ran.outcome.result, JobHandle)
    (spec,) = api.specs.values()
    assert spec.kind is JobKind.SCRIPT
    assert spec.code == "#!/bin/bash\n#SBATCH --time=1\nhostname\n"
    assert spec.options == {"gpus": "1"}


def test_directives_override_slurm_use_and_the_line_overrides_directives(
    shell: Shell, api: FakeApi
) -> None:
    shell.run("%slurm use other --time 1h --mem 4G --partition gpu --nice=3")
    shell.run("%%sbatch -p long\n#!/bin/sh\n#SBATCH -t 5 -p short --mem-per-cpu 1G\ntrue\n")
    (spec,) = api.specs.values()
    assert spec.options == {"nice": "3", "partition": "long"}


def test_line_overrides_settings_and_slurm_use(shell: Shell, api: FakeApi) -> None:
    shell.run("%config SlurmMagics.default_options = '--gpus 1 --time 1h'")
    shell.run("%%slurm --time 2h --detach\n1")
    shell.run("%slurm use other --partition gpu")
    shell.run("%%slurm --detach\n2")
    first, second = api.specs.values()
    assert first.options == {"gpus": "1", "time": "02:00:00"}
    assert (second.cluster, second.options) == ("other", {"partition": "gpu"})
