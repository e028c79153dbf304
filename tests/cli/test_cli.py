"""Output and exit codes of the command line. `MemoryApi` stands for the agent;
`tests/cli/test_cluster.py` uses a cluster."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from jupyter_slurm.api import Api
from jupyter_slurm.cli import main
from jupyter_slurm.commands import notebooks
from jupyter_slurm.errors import NotFoundError
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.wire import (
    AgentStatus,
    CellSpec,
    Check,
    Cluster,
    Cost,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Job,
    JobKind,
    JobPriority,
    JobSpec,
    JobState,
    JobVerb,
    LogChunk,
    Output,
    Preview,
    Problem,
    ProgramSpec,
    Refusal,
    Result,
    Spending,
    Spent,
    Stream,
)
from tests.job_side import STATUS
from tests.specs import known


def job_of(spec: JobSpec, **changes: Any) -> Job:
    told = {"cluster": spec.cluster or "local", "state": JobState.PENDING, "slurm_id": "7"}
    job: Job = kind_of(spec).recorded(spec, **{**told, **changes})
    return job


def notebook_of(*sources: str) -> str:
    cells = [{"cell_type": "code", "metadata": {}, "source": one} for one in sources]
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells})


class MemoryApi:
    """An Api with one job. Its log returns one of `pages` per call. `end` has the final fields of
    the job."""

    def __init__(self, *pages: Sequence[Output | type[BaseException]], **end: Any) -> None:
        self.pages = pages
        self.tasks: list[int | None] = []
        self.end = {"state": JobState.COMPLETED, "exit_code": 0, "started_s": 2.0, **end}
        self.ended = "ok"
        self.ename: str | None = None
        self.evalue: str | None = None
        self.specs: list[JobSpec] = []
        self.calls: list[tuple[str, str]] = []

    def status(self) -> AgentStatus:
        return STATUS

    def clusters(self) -> list[Cluster]:
        return []

    def jobs(self, cluster: str | None = None) -> list[Job]:
        return []

    def submit(self, spec: JobSpec) -> Job:
        self.specs.append(spec)
        return job_of(spec)

    def preview(self, spec: JobSpec) -> Preview:
        self.specs.append(spec)
        return Preview(
            cluster="local",
            script="#!/bin/bash\n",
            sbatch=("sbatch", "--comment=a b"),
            job_dir="/j",
            files=("job.sh",),
            variables=("TOKEN",),
            cost=Cost(limit_s=7200, cpu_hours=16, gpu_hours=0.25, units=1234.5, unit="UA"),
            checks=(
                Check(ok=False, sentence="Too many\x1b GPUs.", hint="Request fewer."),
                Check(ok=None, sentence="All is free."),
            ),
        )

    def job(self, job_id: str) -> Job:
        if job_id == "missing":
            raise NotFoundError("Job missing not found.")
        return job_of(self.specs[0] if self.specs else CellSpec(id=job_id, name="n", code=""))

    def logs(
        self,
        job_id: str,
        cursor: str = "",
        wait_s: float = 0.0,
        budget_bytes: int | None = 262_144,
        task: int | None = None,
    ) -> LogChunk:
        self.tasks.append(task)
        at = int(cursor or 0)
        page = self.pages[at] if at < len(self.pages) else []
        for piece in page:
            if isinstance(piece, type):
                raise piece
        end = at + 1 >= len(self.pages)
        job = self.job(job_id)
        if end:
            job = msgspec.structs.replace(job, **self.end)
        outputs = cast("list[Output]", page)
        return LogChunk(job=job, outputs=tuple(outputs), cursor=str(at + 1), end=end)

    def result(self, job_id: str) -> Result:
        job = msgspec.structs.replace(self.job(job_id), **self.end)
        status = cast("Any", self.ended)
        return Result(job=job, status=status, ename=self.ename, evalue=self.evalue)

    def delivered(self, job_id: str, others: tuple[str, ...] = ()) -> Job:
        self.calls.append(("delivered", job_id))
        return self.job(job_id)

    def cancel(self, job_id: str) -> Job:
        self.calls.append(("cancel", job_id))
        return self.job(job_id)

    def control_jobs(
        self,
        verb: JobVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> list[Refusal]:
        self.calls += [(verb, job_id) for job_id in job_ids]
        return []

    def forget(self, job_id: str) -> None:
        self.job(job_id)
        self.calls.append(("forget", job_id))


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command line in an empty folder. It returns exit code, stdout
    and stderr."""
    for name in ("JUPYTER_SLURM_CLUSTER", "JUPYTER_SLURM_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def run(api: object, *words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main(words, lambda: cast("Api", api))
        except SystemExit as exc:
            code = int(exc.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def no_api() -> object:
    return object()


# --- arguments --------------------------------------------------------------------------------


def test_bare_command_lists_the_commands(run: Run) -> None:
    code, out, _ = run(no_api())
    assert code == 0
    for name in ("up", "down", "status", "submit", "attach", "jobs", "logs", "doctor"):
        assert f"    {name} " in out


def test_error_for_a_misspelt_command_suggests_the_nearest_command(run: Run) -> None:
    code, _, err = run(no_api(), "stauts")
    assert code == 2
    assert "Unknown command `jupyter slurm stauts`.\nDid you mean `jupyter slurm status`?" in err


def test_unknown_option_is_a_usage_error(run: Run) -> None:
    code, _, err = run(no_api(), "jobs", "--nonsense")
    assert code == 2
    assert "`jupyter slurm jobs` has no option `--nonsense`" in err


def test_error_is_printed_without_a_traceback(run: Run) -> None:
    code, out, err = run(MemoryApi(), "attach", "missing")
    assert (code, out, err) == (1, "", "jupyter slurm: Job missing not found.\n")


# --- submit: specs ----------------------------------------------------------------------------


def test_python_file_runs_as_a_cell_with_its_arguments_and_folder(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "with 'blank"
    folder.mkdir()
    (folder / "sibling.py").write_text("there = True\n")
    (folder / "train.py").write_text(
        "from __future__ import annotations\n"
        "import sys, sibling\n"
        "seen = (sys.argv, __file__, __name__, sibling.there)\n"
    )
    api = MemoryApi([])
    code, *_ = run(api, "submit", str(folder / "train.py"), "--time", "2h", "--", "--lr", "$x 'y'")
    assert code == 0
    spec = api.specs[0]
    assert (spec.kind, spec.name, spec.options) == (JobKind.CELL, "train", {"time": "02:00:00"})
    assert spec.cwd == str(tmp_path)
    assert spec.notebook is None
    space: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [""])
        patch.setattr("sys.path", [""])
        exec(spec.code, space)
    path = str(folder / "train.py")
    assert space["seen"] == ([path, "--lr", "$x 'y'"], path, "__main__", True)


def test_script_with_directives_is_a_batch_script(run: Run, tmp_path: Path) -> None:
    (tmp_path / "batch.sh").write_text("#!/bin/bash\n#SBATCH --time=1\nhostname\n")
    (tmp_path / "plain").write_text("#!/bin/sh\nhostname\n")
    api = MemoryApi([])
    run(api, "submit", "batch.sh", "-J", "name")
    run(api, "submit", "plain")
    assert [spec.kind for spec in api.specs] == [JobKind.SCRIPT, JobKind.PROGRAM]
    assert api.specs[0].code == "#!/bin/bash\n#SBATCH --time=1\nhostname\n"
    assert api.specs[0].options == {"job-name": "name"}


@pytest.mark.parametrize("name", ["train.py", "train", "train.R"])
def test_directives_are_read_in_scripts_of_any_language(
    run: Run, tmp_path: Path, name: str
) -> None:
    text = "#!/usr/bin/env python3\n#SBATCH --time=7\nprint(1)\n"
    (tmp_path / name).write_text(text)
    api = MemoryApi([])
    run(api, "submit", name)
    assert [(spec.kind, spec.code) for spec in api.specs] == [(JobKind.SCRIPT, text)]


def test_environment_variable_sets_the_default_cluster(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_SLURM_CLUSTER", "arandu")
    (tmp_path / "a.py").write_text("")
    api = MemoryApi([])
    run(api, "submit", "a.py")
    run(api, "submit", "a.py", "--cluster", "other")
    assert [spec.cluster for spec in api.specs] == ["arandu", "other"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "jupyter slurm submit FILE"),
        (("gone.py",), 1, "File gone.py not found."),
        (("text.txt",), 2, "is not a notebook (.ipynb), Python file (.py) or script"),
        (("a.py", "--tiem", "1"), 2, "--time"),
        (("a.py", "--time", "soon"), 2, "soon"),
        (("a.py", "--in", "x"), 2, "--in is for notebook cells"),
        (("a.py", "--fresh"), 2, "--fresh is for notebook cells"),
        (("book.ipynb", "--", "argument"), 2, "does not accept arguments after `--`"),
        (("latin.py",), 2, "latin.py is not UTF-8 text (byte 2)"),
    ],
)
def test_invalid_submission_is_rejected_before_the_agent_is_called(
    run: Run, tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / "text.txt").write_text("hello")
    (tmp_path / "book.ipynb").write_text("{}")
    (tmp_path / "latin.py").write_bytes(b"# \xe9")
    found, out, err = run(no_api(), "submit", *words)
    assert found == code
    assert message in out + err


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("a.py", "x = 1\nprint(x", 'a.py", line 2'),
        (
            "a.ipynb",
            notebook_of("%time 1\n!true", "%%bash\nfor x in", "for x in y\n  pass"),
            'cell 3>", line 1',
        ),
    ],
)
def test_syntax_error_is_found_before_submission(
    run: Run, tmp_path: Path, name: str, text: str, where: str
) -> None:
    (tmp_path / name).write_text(text)
    api = MemoryApi()
    code, _, err = run(api, "submit", name)
    assert (code, api.specs) == (2, [])
    assert where in err
    assert "    ^" in err
    assert "SyntaxError: " in err
    assert "no job was submitted" in err


def test_dry_run_shows_script_and_command_without_submitting(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    code, out, _ = run(MemoryApi(), "submit", "a.py", "--dry-run")
    assert code == 0
    assert "# sbatch '--comment=a b'\n#!/bin/bash\n" in out
    assert out.startswith(
        "# Up to 1,234 UA in 2 h: 16 CPU-hours, 0.25 GPU-hours\n"
        "# ✖ Too many� GPUs.\n"
        "#     Request fewer.\n"
        "# · All is free.\n"
        "# The job gets TOKEN in its environment, from a file that only you can read.\n"
    )


def test_detach_prints_only_the_id_on_stdout(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    api = MemoryApi()
    code, out, err = run(api, "submit", "a.py", "--detach")
    assert (code, out) == (0, f"{api.specs[0].id}\n")
    assert f"jupyter slurm attach {api.specs[0].id}" in err


def test_run_passes_arguments_after_the_dashes_to_the_images_program(
    run: Run, tmp_path: Path
) -> None:
    api = MemoryApi([Stream(name="stdout", text="Hello\n")])
    words = ("nvcr.io/nvidia/pytorch:22.11-py3", "--time", "5m", "--", "--lr", "$x 'y'", "--image")
    code, out, _ = run(api, "run", *words)
    assert (code, out) == (0, "Hello\n")
    (spec,) = api.specs
    assert isinstance(spec, ProgramSpec)
    assert (spec.code, spec.image, spec.name) == ("", words[0], "pytorch-22.11-py3")
    assert spec.arguments == ("--lr", "$x 'y'", "--image")
    assert (spec.options, spec.cwd) == ({"time": "00:05:00"}, str(tmp_path))
    assert run(api, "run", "hello", "--name", "greet", "--detach")[1] == f"{api.specs[1].id}\n"
    assert [one.name for one in api.specs] == ["pytorch-22.11-py3", "greet"]
    assert "# sbatch" in run(api, "run", "hello", "--dry-run")[1]


# --- submit: output ---------------------------------------------------------------------------


def submit(run: Run, api: MemoryApi, name: str = "a.py", *words: str) -> tuple[int, str, str]:
    Path(name).write_text("")
    return run(api, "submit", name, *words)


def test_stdout_and_stderr_of_a_job_stay_separate(run: Run) -> None:
    api = MemoryApi(
        [Stream(name="stdout", text="out 1\n"), Stream(name="stderr", text="err 1\n")],
        [
            Stream(name="stdout", text="out 2\n"),
            ExecuteResult(data={"text/plain": "42", "text/html": "<b>42</b>"}),
            DisplayData(data={"image/png": "…"}),
        ],
    )
    code, out, err = submit(run, api)
    assert code == 0
    assert out == "out 1\nout 2\n42\n[image/png: shown in a notebook]\n"
    assert "err 1\n" in err
    assert "out" not in err.replace("without", "")
    assert api.calls == [("delivered", api.specs[0].id)]


def test_remote_traceback_is_plain_text_on_stderr(run: Run) -> None:
    error = ErrorOutput(ename="E", evalue="v", traceback=("\x1b[0;31mTraceback\x1b[0m", "E: v"))
    api = MemoryApi([error], state=JobState.FAILED, exit_code=1)
    api.ended = "error"
    code, out, err = submit(run, api)
    assert (code, out) == (1, "")
    assert "Traceback\nE: v\n" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("evalue", "code", "said"), [("3", 3, ""), ("no data", 1, "no data\n"), ("-1", 255, "")]
)
def test_sys_exit_sets_the_exit_code(run: Run, evalue: str, code: int, said: str) -> None:
    error = ErrorOutput(ename="SystemExit", evalue=evalue, traceback=("Traceback", evalue))
    api = MemoryApi([error], state=JobState.FAILED, exit_code=code)
    api.ended, api.ename, api.evalue = "error", "SystemExit", evalue
    found, _, err = submit(run, api)
    assert found == code
    assert "\n-1\n" not in err
    assert "Traceback" not in err
    assert said in err


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        ({"state": JobState.COMPLETED, "exit_code": 0}, "ok", 0),
        ({"state": JobState.FAILED, "exit_code": 3}, "none", 3),
        ({"state": JobState.FAILED, "signal": 11, "exit_code": 139}, "killed", 139),
        ({"state": JobState.TIMEOUT, "exit_code": 0, "why": "too long"}, "none", 1),
        ({"state": JobState.OUT_OF_MEMORY, "exit_code": None}, "none", 1),
        ({"state": JobState.FAILED, "exit_code": 256}, "none", 1),
        ({"state": JobState.COMPLETED, "exit_code": 0}, "none", 1),
    ],
)
def test_submit_returns_the_jobs_exit_code_and_never_0_for_a_failed_job(
    run: Run, end: dict[str, Any], status: str, code: int
) -> None:
    api = MemoryApi([], **end)
    api.ended = status
    assert submit(run, api)[0] == code


def test_ctrl_c_detaches_and_shows_the_attach_command(run: Run) -> None:
    api = MemoryApi([Stream(name="stdout", text="x\n")], [KeyboardInterrupt], [])
    code, out, err = submit(run, api)
    assert (code, out) == (130, "x\n")
    assert f"with `jupyter slurm attach {api.specs[0].id}`" in err
    assert f"`jupyter slurm cancel {api.specs[0].id}`" in err
    assert api.calls == []


def test_ctrl_c_cancels_the_job_with_on_interrupt_cancel(run: Run) -> None:
    api = MemoryApi([KeyboardInterrupt], [])
    code, _, err = submit(run, api, "a.py", "--on-interrupt", "cancel")
    assert code == 130
    assert api.calls == [("cancel", api.specs[0].id)]
    assert "continues" not in err


# --- notebooks --------------------------------------------------------------------------------


def notebook_pages(text: str) -> list[Output]:
    cell = {"cell_type": "code", "metadata": {}, "source": "1", "outputs": []}
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    return [
        DisplayData(data={notebooks.MIME: {"notebook": content}}),
        DisplayData(data={notebooks.MIME: {"cell": 0}}),
        Stream(name="stdout", text=text),
    ]


def test_executed_copy_is_written_beside_the_notebook(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my notebook.ipynb").write_text(notebook_of())
    api = MemoryApi(notebook_pages("hello\n"))
    code, out, err = run(api, "submit", "my notebook.ipynb")
    assert (code, out) == (0, "hello\n")
    assert "── cell 1 of 1" in err
    executed = tmp_path / "my notebook.slurm-7.ipynb"
    assert str(executed) in err
    assert json.loads(executed.read_text())["cells"][0]["outputs"][0]["text"] == "hello\n"
    assert api.specs[0].name == "my-notebook"
    assert api.specs[0].notebook == str(tmp_path / "my notebook.ipynb")


# --- listings ---------------------------------------------------------------------------------


def test_job_table_escapes_control_characters(run: Run) -> None:
    class Listing(MemoryApi):
        def jobs(self, cluster: str | None = None) -> list[Job]:
            spec = CellSpec(id="aaaaaaaa", name="n", code="")
            problem = Problem(code="x", message="It\x1b[2Jdoes not answer.")
            return [job_of(spec, problem=problem, nodes=("n1", "n2"))]

    code, out, _ = run(Listing(), "jobs")
    assert code == 0
    assert "\x1b" not in out
    assert out.splitlines()[0].split() == "ID SLURM CLUSTER NAME STATE NODES NOTE".split()
    assert "aaaaaaaa  7" in out
    assert "n1, n2" in out
    assert json.loads(run(Listing(), "jobs", "--json")[1])[0]["id"] == "aaaaaaaa"


def test_row_shows_the_progress_of_an_array(run: Run) -> None:
    class Listing(MemoryApi):
        def jobs(self, cluster: str | None = None) -> list[Job]:
            spec = CellSpec(id="aaaaaaaa", name="n", code="")
            tasks = {"COMPLETED": "1,3", "RUNNING": "2", "PENDING": "4-9"}
            return [job_of(spec, tasks=tasks, why="Others go first.")]

    out = run(Listing(), "jobs")[1]
    assert "2 of 9 done, task 2 running, tasks 4-9 waiting; Others go first." in out


def test_usage_is_printed_as_table_or_json(run: Run) -> None:
    class Accounting(MemoryApi):
        def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
            assert cluster == "c"
            mine = Spent(account="lab", user="ana", jobs=2, cpu_hours=9.5, gpu_hours=1, units=7)
            return Spending(
                cluster="c",
                since_s=since_s or 0.0,
                asked_s=since_s or 1.0,
                accounting=True,
                unit="UA",
                spent=(mine,),
            )

    code, out, _ = run(Accounting(), "usage", "c", "--since", "7d")
    assert code == 0
    assert "ACCOUNT  USER  JOBS  CPU-HOURS  GPU-HOURS  UA\n" in out
    assert "lab      ana   2     9.5        1          7\n" in out
    told = json.loads(run(Accounting(), "usage", "--cluster", "c", "--json")[1])
    assert told["spent"][0]["cpu_hours"] == 9.5


def test_priority_is_printed_as_table_or_json(run: Run) -> None:
    class Weighing(MemoryApi):
        rows: tuple[JobPriority, ...] = ()

        def priorities(self, job_id: str) -> list[JobPriority]:
            return list(self.rows)

    api = Weighing()
    words = ("why", "abcdefgh", "--priority")
    assert run(api, *words)[0] == 0
    assert json.loads(run(api, *words, "--json")[1]) == []
    given = {"age": 2.0, "qos": 8.0}
    api.rows = (
        JobPriority(slurm_id="7", partition="gpu", priority=10, before=2, waiting=4, given=given),
    )
    out = run(api, *words)[1]
    assert out.splitlines()[-1].split() == ["gpu", "10", "2", "8", "2", "of", "3"]
    assert json.loads(run(api, *words, "--json")[1])[0]["priority"] == 10


def test_doctor_fails_only_if_a_check_fails(run: Run) -> None:
    class Doctor(MemoryApi):
        def __init__(self, *checks: Check) -> None:
            super().__init__()
            self.checks = list(checks)

        def doctor(self, cluster: str | None = None) -> list[Check]:
            assert cluster == "c"
            return self.checks

    well = Doctor(Check(ok=True, sentence="Good."), Check(ok=None, sentence="So so."))
    assert run(well, "doctor", "c")[:2] == (0, "✔ Good.\n· So so.\n")
    ill = Doctor(Check(ok=False, sentence="Bad.", hint="Fix it."))
    assert run(ill, "doctor", "c")[:2] == (1, "✖ Bad.\n    Fix it.\n")
    assert run(ill, "doctor", "--cluster", "c")[:2] == (1, "✖ Bad.\n    Fix it.\n")


def test_logs_command_prints_the_error_of_a_failed_cell(run: Run) -> None:
    error = {"ename": "KeyError", "evalue": "'b'", "traceback": ["\x1b[31mKeyError\x1b[0m: 'b'"]}
    allowed = DisplayData(data={notebooks.MIME: {"error": error}})
    raised = ErrorOutput(ename="ZeroDivisionError", evalue="by zero", traceback=("line 1", "zero"))
    page: list[Output] = [Stream(name="stdout", text="a\n"), allowed, raised]
    page.append(ErrorOutput(ename="SystemExit", evalue="3"))
    for words in (["logs"], ["logs", "--follow"]):
        told = run(MemoryApi(page, []), *words, "aaaaaaaa")
        assert told[:2] == (0, "a\nKeyError: 'b'\nline 1\nzero\n")


def test_logs_command_prints_available_output_and_follows_on_request(run: Run) -> None:
    api = MemoryApi(
        [Stream(name="stdout", text="a\n"), Stream(name="stderr", text="b\n")],
        [],
        [Stream(name="stdout", text="lone \udc80\n")],
    )
    assert run(api, "logs", "aaaaaaaa")[:2] == (0, "a\nb\n")
    assert run(api, "logs", "-f", "aaaaaaaa")[:2] == (0, "a\nb\nlone ?\n")
    assert set(api.tasks) == {None}
    run(api, "logs", "aaaaaaaa", "--task", "3")
    assert api.tasks[-1] == 3


class Unfetched(MemoryApi):
    """Two ended jobs. The output of `aaaaaaaa` is unfetched."""

    def job(self, job_id: str) -> Job:
        job = msgspec.structs.replace(super().job(job_id), id=job_id, state=JobState.COMPLETED)
        return msgspec.structs.replace(job, started_s=1.0, delivered=job_id != "aaaaaaaa")


@pytest.mark.parametrize(
    ("words", "answer", "code", "forgotten"),
    [
        (["aaaaaaaa", "bbbbbbbb"], None, 2, []),
        (["aaaaaaaa", "bbbbbbbb", "--yes"], None, 0, ["aaaaaaaa", "bbbbbbbb"]),
        (["bbbbbbbb"], None, 0, ["bbbbbbbb"]),
        (["aaaaaaaa"], "y\n", 0, ["aaaaaaaa"]),
        (["aaaaaaaa"], "\n", 1, []),
        (["aaaaaaaa"], "n\n", 1, []),
        (["bbbbbbbb"], "n\n", 0, ["bbbbbbbb"]),
    ],
    ids=str,
)
def test_forget_command_asks_before_deleting_unfetched_output(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    answer: str | None,
    code: int,
    forgotten: list[str],
) -> None:
    typed = io.StringIO(answer or "")
    monkeypatch.setattr(typed, "isatty", lambda: answer is not None)
    monkeypatch.setattr("sys.stdin", typed)
    api = Unfetched()
    told = run(api, "forget", *words)
    assert told[0] == code
    assert ("--yes" in told[2]) == (code == 2)
    assert [job_id for _, job_id in api.calls] == forgotten


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("hold", "held (waiting)"),
        ("release", "released (waiting)"),
        ("requeue", "requeued; unsaved work is lost"),
        ("forget", "forgotten"),
    ],
)
def test_command_on_several_jobs_reports_each_and_continues_after_a_failure(
    run: Run, verb: str, said: str
) -> None:
    api = MemoryApi()
    code, out, err = run(api, verb, "aaaaaaaa", "missing", "bbbbbbbb")
    assert (code, err) == (1, "missing: Job missing not found.\n")
    assert api.calls == [(verb, "aaaaaaaa"), (verb, "bbbbbbbb")]
    first, second = out.splitlines()
    assert first.startswith("job aaaaaaaa (Slurm 7) on local: ")
    assert first.endswith(said)
    assert second.endswith(said)


def test_session_stop_uses_the_named_cluster(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUPYTER_SLURM_CLUSTER", raising=False)

    class Sessions(MemoryApi):
        def jobs(self, cluster: str | None = None) -> list[Job]:
            places = (("aaaaaaaa", "here"), ("bbbbbbbb", "there"))
            return [known(kind=JobKind.SESSION, id=one, cluster=place) for one, place in places]

    for words, told, ended in (
        (("n",), 2, []),
        (("n", "--cluster", "there"), 0, ["bbbbbbbb"]),
        (("--cluster=here",), 0, ["aaaaaaaa"]),
        (("n", "--cluster", "nowhere"), 1, []),
    ):
        api = Sessions()
        code, _, _ = run(api, "session", "stop", *words)
        assert (code, api.calls) == (told, [("cancel", one) for one in ended])


def test_profile_and_kernel_commands_do_not_start_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))

    def connect() -> Api:
        raise AssertionError("the agent is not needed")

    for words in (["kernel", "list"], ["clusters", "templates"], ["completion", "bash"], []):
        assert main(words, connect) == 0
