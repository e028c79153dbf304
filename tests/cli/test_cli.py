"""The command line: words in, text and exit codes out. `MemoryApi` stands for the agent here; what
needs a cluster is in `tests/cluster/test_cli.py`."""

from __future__ import annotations

import ast
import io
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import jupyter_slurm
from jupyter_slurm.api import Api
from jupyter_slurm.cli import main
from jupyter_slurm.cli.table import in_words_of_a_terminal
from jupyter_slurm.cli.terminal import Terminal
from jupyter_slurm.commands import notebooks
from jupyter_slurm.commands.arguments import below
from jupyter_slurm.errors import NotFoundError, SubmitError
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.wire import (
    Action,
    ActionVerb,
    AgentStatus,
    CellSpec,
    Check,
    Cluster,
    ClusterInfo,
    Cost,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Job,
    JobKind,
    JobSpec,
    JobState,
    LabSpec,
    LogChunk,
    Message,
    Output,
    Partition,
    Preview,
    Priorities,
    Problem,
    ProgramSpec,
    QueueEntry,
    Refusal,
    Result,
    Spending,
    Spent,
    Stream,
    Transfer,
    TransferState,
)
from tests.job_side import STATUS, action_of
from tests.specs import known


def job_of(spec: JobSpec, **changes: Any) -> Job:
    told = {"cluster": spec.cluster or "local", "state": JobState.PENDING, "slurm_id": "7"}
    job: Job = kind_of(spec).recorded(spec, **{**told, **changes})
    return job


SPEC = CellSpec(id="aaaaaaaa", name="n", code="")


def notebook_of(*sources: str) -> str:
    cells = [{"cell_type": "code", "metadata": {}, "source": one} for one in sources]
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells})


class MemoryApi:
    """An Api of one job: `pages` are what its log gives, one a call; `end` is how it ends."""

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

    def preview(self, spec: JobSpec, estimate: bool = False) -> Preview:
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
                Check(ok=False, sentence="Too many\x1b GPUs.", hint="Ask for less."),
                Check(ok=None, sentence="All is free."),
            ),
        )

    def cluster_info(self, cluster: str | None = None) -> ClusterInfo:
        gpu = Partition(name="gpu", default=False, up=True, limit_s=None, nodes=2, idle_nodes=1)
        return ClusterInfo(
            name="site",
            slurm_version="22.05.8",
            partitions=(gpu,),
            accounting=True,
            accounts=tuple(f"account-{number}" for number in range(9)),
            asked_s=0.0,
        )

    def job(self, job_id: str) -> Job:
        if job_id == "missing":
            raise NotFoundError("There is no job missing.")
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

    def delivered(self, job_id: str) -> Job:
        self.calls.append(("delivered", job_id))
        return self.job(job_id)

    def cancel(self, job_id: str) -> Job:
        self.calls.append(("cancel", job_id))
        return self.job(job_id)

    def steer_many(
        self,
        verb: ActionVerb,
        job_ids: list[str],
        slurm_ids: list[str] | None = None,
        cluster: str | None = None,
    ) -> Action:
        self.calls += [(verb, job_id) for job_id in job_ids]
        return action_of(verb, job_ids, cluster)

    def forget_action(self, action_id: str) -> None:
        pass

    def forget(self, job_id: str) -> None:
        self.job(job_id)
        self.calls.append(("forget", job_id))


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in an empty folder; gives exit code, stdout and stderr."""
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


# --- words ------------------------------------------------------------------------------------


def test_no_words_print_the_commands(run: Run) -> None:
    code, out, _ = run(no_api())
    assert code == 0
    for name in ("up", "down", "status", "submit", "attach", "jobs", "logs", "doctor"):
        assert f"    {name} " in out


def test_a_misspelt_command_is_a_usage_error_with_the_nearest(run: Run) -> None:
    code, _, err = run(no_api(), "stauts")
    assert code == 2
    assert (
        "`jupyter slurm stauts`: there is no such word.\nDid you mean `jupyter slurm status`?"
        in err
    )


def test_help_is_a_word_too(run: Run) -> None:
    assert run(no_api(), "help")[:2] == run(no_api(), "--help")[:2]
    assert run(no_api(), "help", "jobs")[:2] == run(no_api(), "jobs", "--help")[:2]


def test_every_command_that_a_sentence_names_is_one(run: Run) -> None:
    """A sentence of the core is read in notebooks as it is, in terminals by the other name."""
    in_terminals, in_notebooks = set(below((), "terminal")), set(below((), "notebook"))
    root = Path(jupyter_slurm.__file__).parent
    named = [
        (path.relative_to(root), word, magic)
        for path in root.rglob("*.py")
        for text in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
        for magic, word in re.findall(r"(?<!%)(%|jupyter )slurm ([a-z]+)", text.value)
    ]
    assert len(named) > 100
    for path, word, magic in named:
        if magic == "%":
            assert word in in_notebooks, path
        if magic != "%" or path.parts[0] != "magics":
            assert word in in_terminals | {"help"}, path


def test_a_wrong_option_is_a_usage_error_without_a_traceback(run: Run) -> None:
    code, _, err = run(no_api(), "jobs", "--nonsense")
    assert code == 2
    assert "`jupyter slurm jobs` has no option `--nonsense`" in err


def test_an_error_is_its_sentence_and_hint_on_stderr(run: Run) -> None:
    code, out, err = run(MemoryApi(), "attach", "missing")
    assert (code, out, err) == (1, "", "jupyter slurm: There is no job missing.\n")


def test_an_error_is_raised_where_somebody_debugs(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_SLURM_DEBUG", "1")
    with pytest.raises(NotFoundError):
        run(MemoryApi(), "attach", "missing")


def test_ctrl_c_is_exit_code_130(run: Run) -> None:
    class Api:
        def jobs(self, cluster: str | None) -> list[Job]:
            raise KeyboardInterrupt

    assert run(Api(), "jobs")[0] == 130


# --- submit: what is sent ---------------------------------------------------------------------


def test_a_python_file_is_a_cell_that_sees_its_arguments_its_folder_and_itself(
    run: Run, tmp_path: Path
) -> None:
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


def test_a_script_with_directives_is_handed_to_sbatch_and_another_is_a_program(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "batch.sh").write_text("#!/bin/bash\n#SBATCH --time=1\nhostname\n")
    (tmp_path / "plain").write_text("#!/bin/sh\nhostname\n")
    api = MemoryApi([])
    run(api, "submit", "batch.sh", "-J", "name")
    run(api, "submit", "plain")
    assert [spec.kind for spec in api.specs] == [JobKind.SCRIPT, JobKind.PROGRAM]
    assert api.specs[0].code == "#!/bin/bash\n#SBATCH --time=1\nhostname\n"
    assert api.specs[0].options == {"job-name": "name"}


@pytest.mark.parametrize("name", ["many.sh", "many.py"])
def test_an_array_of_a_script_is_handed_to_sbatch(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("#!/bin/sh\nhostname\n")
    api = MemoryApi([])
    run(api, "submit", "--array", "0-3", name)
    assert [(spec.kind, spec.options) for spec in api.specs] == [(JobKind.SCRIPT, {"array": "0-3"})]


@pytest.mark.parametrize("name", ["train.py", "train", "train.R"])
def test_the_options_of_a_script_count_in_any_language(run: Run, tmp_path: Path, name: str) -> None:
    text = "#!/usr/bin/env python3\n#SBATCH --time=7\nprint(1)\n"
    (tmp_path / name).write_text(text)
    api = MemoryApi([])
    run(api, "submit", name)
    assert [(spec.kind, spec.code) for spec in api.specs] == [(JobKind.SCRIPT, text)]


@pytest.mark.parametrize(
    "text",
    ["#SBATCH --time=7\nprint(1)\n", '#!/usr/bin/env python3\n"""Train."""\n#SBATCH --time=7\n'],
)
def test_options_of_a_python_file_that_do_not_apply_are_named(
    run: Run, tmp_path: Path, text: str
) -> None:
    (tmp_path / "train.py").write_text(text)
    api = MemoryApi([])
    _, _, err = run(api, "submit", "train.py")
    assert "#SBATCH" in err
    assert [spec.kind for spec in api.specs] == [JobKind.CELL]


def test_the_file_may_come_last_as_for_sbatch(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    api = MemoryApi([])
    assert run(api, "submit", "--cluster", "c", "--image", "i:1", "a.py")[0] == 0
    assert (api.specs[0].cluster, api.specs[0].image) == ("c", "i:1")


def test_the_environment_names_the_cluster_where_no_option_does(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_SLURM_CLUSTER", "arandu")
    (tmp_path / "a.py").write_text("")
    api = MemoryApi([])
    run(api, "submit", "a.py")
    run(api, "submit", "a.py", "--cluster", "other")
    assert [spec.cluster for spec in api.specs] == ["arandu", "other"]


def test_a_file_runs_where_it_was_submitted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("")
    monkeypatch.setenv("SLURM_CONF", "/opt/slurm.conf")
    api = MemoryApi([])
    run(api, "submit", "a.py")
    told = [(spec.cwd, spec.slurm_conf) for spec in api.specs]
    assert told == [(str(tmp_path), "/opt/slurm.conf")]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "jupyter slurm submit FILE"),
        (("gone.py",), 1, "There is no file gone.py."),
        (("text.txt",), 2, "is neither a notebook (.ipynb), nor Python (.py), nor a script"),
        (("a.py", "--tiem", "1"), 2, "--time"),
        (("a.py", "--time", "soon"), 2, "soon"),
        (("a.py", "--in", "x"), 2, "--in belongs to cells of a notebook"),
        (("a.py", "--fresh"), 2, "--fresh belongs to cells of a notebook"),
        (("book.ipynb", "--", "argument"), 2, "takes no arguments after `--`"),
        (("latin.py",), 2, "latin.py is not UTF-8 text (byte 2)"),
    ],
)
def test_what_cannot_be_submitted_is_refused_before_anything_is_sent(
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
def test_a_syntax_error_is_found_before_anything_is_sent(
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


def test_sbatchs_refusal_is_shown_in_its_own_words(run: Run, tmp_path: Path) -> None:
    class Refusing(MemoryApi):
        def submit(self, spec: JobSpec) -> Job:
            raise SubmitError("sbatch refused it.", detail="sbatch: error: no", hint="Ask less.")

    (tmp_path / "a.py").write_text("")
    code, _, err = run(Refusing(), "submit", "a.py")
    assert code == 1
    assert err == "jupyter slurm: sbatch refused it.\nsbatch: error: no\nAsk less.\n"


def test_a_dry_run_shows_script_and_command_and_submits_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    code, out, _ = run(MemoryApi(), "submit", "a.py", "--dry-run")
    assert code == 0
    assert "# sbatch '--comment=a b'\n#!/bin/bash\n" in out
    assert out.startswith(
        "# Up to 1,234 UA in 2 h: 16 CPU-hours, 0.25 GPU-hours\n"
        "# ✖ Too many� GPUs.\n"
        "#     Ask for less.\n"
        "# · All is free.\n"
        "# With TOKEN in its environment, from a file that only you can read.\n"
    )


def test_what_a_cluster_offers_is_a_table_or_lines(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, wide, _ = run(MemoryApi(), "info")
    assert code == 0
    assert wide.splitlines()[0].split("  ")[0] == "PARTITION"
    assert wide.splitlines()[1].startswith("gpu ")
    monkeypatch.setenv("COLUMNS", "30")
    narrow = run(MemoryApi(), "info")[1]
    told = ["gpu", "    Time limit: none", "    Nodes idle: 1 of 2"]
    assert narrow.splitlines()[:3] == told
    assert all(len(line) <= 30 for line in narrow.splitlines())
    assert '"partitions"' in run(MemoryApi(), "info", "--json")[1]


def test_detaching_prints_the_id_alone_on_stdout(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    api = MemoryApi()
    code, out, err = run(api, "submit", "a.py", "--detach")
    assert (code, out) == (0, f"{api.specs[0].id}\n")
    assert f"jupyter slurm attach {api.specs[0].id}" in err


def test_the_program_of_an_image_runs_with_the_words_behind_the_dashes(
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("hello", "world"), "`world` is one word too many"),
        (("hello", "--image", "other"), "Name the image without it: `%slurm run IMAGE`."),
        (("hello", "--in", "x"), "--in means nothing for the program that an image names"),
        (("hello", "--launch", "mpi"), "--launch means nothing"),
        (("hello", "--tiem", "1"), "--time"),
    ],
)
def test_what_the_program_of_an_image_cannot_have_is_refused(
    run: Run, words: tuple[str, ...], message: str
) -> None:
    code, out, err = run(no_api(), "run", *words)
    assert code == 2
    assert in_words_of_a_terminal(message) in out + err


def test_what_keeps_a_job_from_being_submitted_is_told_with_what_can_be_done(
    run: Run, tmp_path: Path
) -> None:
    class Stuck(MemoryApi):
        def submit(self, spec: JobSpec) -> Job:
            problem = Problem(code="x", message="Slurm is not there.", hint="Set SLURM_CONF.")
            return job_of(spec, state=JobState.SUBMITTING, slurm_id=None, problem=problem)

        def job(self, job_id: str) -> Job:
            job = job_of(SPEC, state=JobState.SUBMITTING, why="It is noted.")
            return msgspec.structs.replace(job, cancel_requested_s=time.monotonic())

    (tmp_path / "a.py").write_text("")
    for words in ((), ("--detach",)):
        assert "Slurm is not there. Set SLURM_CONF." in run(Stuck([]), "submit", "a.py", *words)[2]
    assert run(Stuck(), "cancel", "aaaaaaaa")[1].endswith(". It is noted.\n")


# --- submit: what is shown --------------------------------------------------------------------


def submit(run: Run, api: MemoryApi, name: str = "a.py", *words: str) -> tuple[int, str, str]:
    Path(name).write_text("")
    return run(api, "submit", name, *words)


def test_output_appears_on_the_stream_that_it_was_written_to(run: Run) -> None:
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


def test_the_remote_traceback_is_on_stderr_without_colours_off_a_terminal(run: Run) -> None:
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
def test_sys_exit_ends_a_program_as_it_does_in_a_shell(
    run: Run, evalue: str, code: int, said: str
) -> None:
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
def test_the_exit_code_is_the_jobs_and_never_0_for_a_job_that_failed(
    run: Run, end: dict[str, Any], status: str, code: int
) -> None:
    api = MemoryApi([], **end)
    api.ended = status
    assert submit(run, api)[0] == code


def test_off_a_terminal_each_change_of_state_is_one_line(run: Run) -> None:
    code, _, err = submit(run, MemoryApi([], [], []))
    assert code == 0
    assert err.count("waiting") == 1
    assert err.count("done") == 1


def test_ctrl_c_detaches_and_says_how_to_come_back(run: Run) -> None:
    api = MemoryApi([Stream(name="stdout", text="x\n")], [KeyboardInterrupt], [])
    code, out, err = submit(run, api)
    assert (code, out) == (130, "x\n")
    assert f"`jupyter slurm attach {api.specs[0].id}` shows its output" in err
    assert f"`jupyter slurm cancel {api.specs[0].id}` stops it" in err
    assert api.calls == []


def test_ctrl_c_cancels_where_that_was_asked_for(run: Run) -> None:
    api = MemoryApi([KeyboardInterrupt], [])
    code, _, err = submit(run, api, "a.py", "--on-interrupt", "cancel")
    assert code == 130
    assert api.calls == [("cancel", api.specs[0].id)]
    assert "goes on" not in err


def test_ctrl_c_while_submitting_says_where_to_look(run: Run) -> None:
    class Slow(MemoryApi):
        def submit(self, spec: JobSpec) -> Job:
            self.specs.append(spec)
            raise KeyboardInterrupt

    api = Slow()
    code, _, err = submit(run, api)
    assert code == 130
    assert f"`jupyter slurm why {api.specs[0].id}`" in err


# --- notebooks --------------------------------------------------------------------------------


def notebook_pages(text: str) -> list[Output]:
    cell = {"cell_type": "code", "metadata": {}, "source": "1", "outputs": []}
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    return [
        DisplayData(data={notebooks.MIME: {"notebook": content}}),
        DisplayData(data={notebooks.MIME: {"cell": 0}}),
        Stream(name="stdout", text=text),
    ]


def test_a_notebook_leaves_its_executed_copy_beside_it(run: Run, tmp_path: Path) -> None:
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


def test_a_notebook_that_fails_leaves_its_outputs_up_to_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text(notebook_of())
    pages = [*notebook_pages("kept\n"), ErrorOutput(ename="E", evalue="v", traceback=("E: v",))]
    api = MemoryApi(pages, state=JobState.FAILED, exit_code=1)
    api.ended = "error"
    assert run(api, "submit", "n.ipynb")[0] == 1
    outputs = json.loads((tmp_path / "n.slurm-7.ipynb").read_text())["cells"][0]["outputs"]
    assert [one["output_type"] for one in outputs] == ["stream", "error"]


def test_a_notebook_whose_folder_is_gone_does_not_lose_the_jobs_exit_code(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "n.ipynb").write_text(notebook_of())
    api = MemoryApi(notebook_pages("x\n"))

    class Removing(MemoryApi):
        def submit(self, spec: JobSpec) -> Job:
            (tmp_path / "d" / "n.ipynb").unlink()
            (tmp_path / "d").rmdir()
            return super().submit(spec)

    api = Removing(notebook_pages("x\n"))
    code, _, err = run(api, "submit", "d/n.ipynb")
    assert code == 0
    assert "n.slurm-7.ipynb cannot be written" in err


# --- what is there ----------------------------------------------------------------------------


def test_jobs_are_a_table_that_no_name_can_steer(run: Run) -> None:
    class Listing(MemoryApi):
        def jobs(self, cluster: str | None = None) -> list[Job]:
            spec = CellSpec(id="aaaaaaaa", name="n", code="")
            problem = Problem(code="x", message="It\x1b[2Jdoes not answer.")
            return [job_of(spec, problem=problem, nodes=("n1", "n2"))]

    code, out, _ = run(Listing(), "jobs")
    assert code == 0
    assert "\x1b" not in out
    assert out.splitlines()[0].split() == "ID SLURM CLUSTER NAME STATE TIME NODES NOTE".split()
    assert "aaaaaaaa  7" in out
    assert "n1,n2" in out
    assert json.loads(run(Listing(), "jobs", "--json")[1])[0]["id"] == "aaaaaaaa"


def test_a_row_says_how_far_an_array_is(run: Run) -> None:
    class Listing(MemoryApi):
        def jobs(self, cluster: str | None = None) -> list[Job]:
            spec = CellSpec(id="aaaaaaaa", name="n", code="")
            tasks = {"COMPLETED": "1,3", "RUNNING": "2", "PENDING": "4-9"}
            return [job_of(spec, tasks=tasks, why="Others go first.")]

    out = run(Listing(), "jobs")[1]
    assert "2 of 9 done, task 2 running, tasks 4-9 waiting; Others go first." in out


def test_why_a_job_has_its_priority_is_said_in_sentences_or_as_json(run: Run) -> None:
    class Priority(MemoryApi):
        def priorities(self, cluster: str | None = None, job_id: str | None = None) -> Priorities:
            assert job_id == "aaaaaaaa"
            said = Message.of("`{slurm} jobs` of {name} \x1b[1m.", name="c")
            return Priorities(jobs=(), said=(said, "More."))

    words = ("why", "aaaaaaaa", "--priority")
    assert run(Priority(), *words)[:2] == (0, "`jupyter slurm jobs` of c \ufffd[1m.\nMore.\n")
    assert json.loads(run(Priority(), *words, "--json")[1])["jobs"] == []


def test_what_was_spent_is_printed_or_as_json(run: Run) -> None:
    class Accounting(MemoryApi):
        def spending(self, cluster: str | None = None, since_s: float | None = None) -> Spending:
            assert cluster == "c"
            mine = Spent(
                account="lab", user="ana", jobs=2, cpu_hours=9.5, gpu_hours=1, billing_hours=7
            )
            return Spending(
                cluster="c",
                since_s=since_s or 0.0,
                asked_s=since_s or 1.0,
                accounting=True,
                weighed=True,
                spent=(mine,),
            )

    code, out, _ = run(Accounting(), "usage", "c", "--since", "7d")
    assert code == 0
    assert "ACCOUNT  WHO  JOBS  CPU-HOURS  GPU-HOURS  BILLING-HOURS\n" in out
    assert "lab      ana  2     9.5        1          7\nSpent on c since " in out
    told = json.loads(run(Accounting(), "usage", "--cluster", "c", "--json")[1])
    assert told["spent"][0]["cpu_hours"] == 9.5


def test_the_queue_shows_everybodys_jobs(run: Run) -> None:
    class Queue(MemoryApi):
        def queue(self, cluster: str | None = None) -> list[QueueEntry]:
            assert cluster == "c"
            return [
                QueueEntry(
                    slurm_id="12_[1-3]",
                    state="PENDING",
                    name="a b\nc",
                    user="alice",
                    partition="debug",
                    why="Others are ahead.",
                )
            ]

    code, out, _ = run(Queue(), "queue", "--cluster", "c")
    assert code == 0
    assert "12_[1-3]  alice  debug      a b c  waiting  Others are ahead." in out


def test_clusters_are_listed_with_the_default_marked(run: Run) -> None:
    class Clusters(MemoryApi):
        def clusters(self) -> list[Cluster]:
            return [
                Cluster(name="a", host=None, runtime="none", origin="f", default=True),
                Cluster(name="b", host="h", runtime="docker", origin="f", default=False),
            ]

    code, out, _ = run(Clusters(), "clusters")
    assert code == 0
    assert [text.split() for text in out.splitlines()[1:]] == [
        ["*", "a", "this", "machine", "none", "f"],
        ["b", "h", "docker", "f"],
    ]


def test_doctor_fails_when_something_is_wrong_and_only_then(run: Run) -> None:
    class Doctor(MemoryApi):
        def __init__(self, *checks: Check) -> None:
            super().__init__()
            self.checks = list(checks)

        def doctor(self, cluster: str | None = None) -> list[Check]:
            assert cluster == "c"
            return self.checks

    well = Doctor(Check(ok=True, sentence="Good."), Check(ok=None, sentence="So so."))
    assert run(well, "doctor", "c")[:2] == (0, "✔ Good.\n· So so.\n")
    ill = Doctor(Check(ok=False, sentence="Bad.", hint="Mend it."))
    assert run(ill, "doctor", "c")[:2] == (1, "✖ Bad.\n    Mend it.\n")
    assert run(ill, "doctor", "--cluster", "c")[:2] == (1, "✖ Bad.\n    Mend it.\n")


def test_logs_prints_what_there_is_and_with_follow_all_of_it(run: Run) -> None:
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


def test_logs_prints_the_error_of_a_failed_cell(run: Run) -> None:
    error = {"ename": "KeyError", "evalue": "'b'", "traceback": ["\x1b[31mKeyError\x1b[0m: 'b'"]}
    allowed = DisplayData(data={notebooks.MIME: {"error": error}})
    raised = ErrorOutput(ename="ZeroDivisionError", evalue="by zero", traceback=("line 1", "zero"))
    page: list[Output] = [Stream(name="stdout", text="a\n"), allowed, raised]
    page.append(ErrorOutput(ename="SystemExit", evalue="3"))
    for words in (["logs"], ["logs", "--follow"]):
        told = run(MemoryApi(page, []), *words, "aaaaaaaa")
        assert told[:2] == (0, "a\nKeyError: 'b'\nline 1\nzero\n")


def test_a_labs_name_means_the_lab_of_the_cluster_that_is_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Labs(MemoryApi):
        def jobs(self, cluster: str | None = None) -> list[Job]:
            spec = LabSpec(id="", name="mine")
            labs = [("aaaaaaaa", "a"), ("bbbbbbbb", "b"), ("cccccccc", "c")]
            labs += [("dddddddd", "c")]
            return [job_of(spec, id=one, cluster=cluster) for one, cluster in labs]

        def extend(self, job_id: str, limit: str) -> Job:
            self.calls.append(("extend", job_id))
            return self.jobs()[0]

    api = Labs()
    for words in (["stop", "mine"], ["open", "mine"], ["extend", "mine", "--time", "+1h"]):
        code, _, err = run(api, "lab", *words)
        assert code == 2
        assert "lab aaaaaaaa on a, lab bbbbbbbb on b, lab cccccccc on c" in err
    code, _, err = run(api, "lab", "stop", "mine", "--cluster", "c")
    assert "`mine` names lab cccccccc on c, lab dddddddd on c" in err
    code, _, err = run(api, "lab", "stop", "mine", "--cluster", "x")
    assert "There is no lab `mine` on x. There is lab aaaaaaaa on a" in " ".join(err.split())
    assert api.calls == []
    run(api, "lab", "stop", "--cluster=b", "mine")
    run(api, "lab", "extend", "mine", "--cluster", "b", "--time", "+1h")
    monkeypatch.setenv("JUPYTER_SLURM_CLUSTER", "b")
    run(api, "lab", "stop")
    run(api, "lab", "stop", "dddddddd")
    assert api.calls == [
        ("cancel", "bbbbbbbb"),
        ("extend", "bbbbbbbb"),
        ("cancel", "bbbbbbbb"),
        ("cancel", "dddddddd"),
    ]


def test_why_is_the_jobs_card_in_words(run: Run) -> None:
    class Waiting(MemoryApi):
        def why(self, job_id: str) -> Job:
            return job_of(CellSpec(id=job_id, name="n", code=""), why="Others are ahead.")

    code, out, _ = run(Waiting(), "why", "aaaaaaaa")
    assert code == 0
    assert out.startswith("◷ waiting for 0 s · n\n  job aaaaaaaa (Slurm 7) on local\n")
    assert "Others are ahead." in out


def test_several_are_cancelled_by_one_call_and_each_ones_outcome_is_told(run: Run) -> None:
    class Cancelling(MemoryApi):
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[list[str]] = []

        def job(self, job_id: str) -> Job:
            job = super().job("missing") if job_id == "missing" else job_of(SPEC, id=job_id)
            if job_id in ("7", "cccccccc"):
                return msgspec.structs.replace(job, id="cccccccc", state=JobState.COMPLETED)
            asked = 0 if job_id == "dddddddd" else sum(job_id in ids for ids in self.asked)
            return msgspec.structs.replace(job, cancel_requested_s=float(asked) or None)

        def steer_many(
            self,
            verb: ActionVerb,
            job_ids: list[str],
            slurm_ids: list[str] | None = None,
            cluster: str | None = None,
        ) -> Action:
            self.asked.append(job_ids)
            no = Refusal(job="dddddddd", why="Slurm refused: No.")
            refusals = (no,) if no.job in job_ids else ()
            return action_of(verb, job_ids, cluster, refused=len(refusals), refusals=refusals)

    api = Cancelling()
    code, out, err = run(api, "cancel", "aaaaaaaa", "missing", "bbbbbbbb", "7")
    assert code == 1
    assert err == "missing: There is no job missing.\n"
    assert api.asked == [["aaaaaaaa", "bbbbbbbb", "cccccccc"]]
    first, second, third = out.splitlines()
    assert "aaaaaaaa" in first
    assert "asked to end" in second
    assert third.startswith("7 was the Slurm id of job cccccccc, ")
    assert third.endswith("has ended: it is done")
    code, out, err = run(api, "cancel", "aaaaaaaa", "dddddddd")
    assert (code, err) == (1, "dddddddd: Slurm refused: No.\n")


@pytest.mark.parametrize(
    "words",
    ["logs", "why", "attach", "cancel", "forget", "logs -f", "pull", "kernel remove"],
)
def test_a_command_without_its_argument_fails_and_names_it(run: Run, words: str) -> None:
    code, out, err = run(no_api(), *words.split())
    assert (code, out) == (2, "")
    assert "Missing" in err
    assert f"jupyter slurm {words.removesuffix(' -f')} " in err


class Unfetched(MemoryApi):
    """Two ended jobs: of `aaaaaaaa` the output has not been fetched."""

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
def test_forget_asks_before_output_is_lost(
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
        ("requeue", "it is in the queue again"),
        ("forget", "forgotten"),
    ],
)
def test_what_becomes_of_each_is_told_and_one_that_fails_keeps_no_other(
    run: Run, verb: str, said: str
) -> None:
    api = MemoryApi()
    code, out, err = run(api, verb, "aaaaaaaa", "missing", "bbbbbbbb")
    assert (code, err) == (1, "missing: There is no job missing.\n")
    assert api.calls == [(verb, "aaaaaaaa"), (verb, "bbbbbbbb")]
    first, second = out.splitlines()
    assert first.startswith("job aaaaaaaa (Slurm 7) on local: ")
    assert first.endswith(said)
    assert second.endswith(said)


def test_slurms_id_of_an_old_job_is_said_to_be_that(run: Run) -> None:
    class Old(MemoryApi):
        def job(self, job_id: str) -> Job:
            return job_of(SPEC, id="cccccccc", state=JobState.COMPLETED)

        def why(self, job_id: str) -> Job:
            return self.job(job_id)

    for command in ("logs", "why"):
        assert "7 was the Slurm id of job cccccccc, " in run(Old(), command, "7")[2]
        assert run(Old(), command, "cccccccc")[2] == ""


# --- the terminal -----------------------------------------------------------------------------


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_state_is_one_line_that_output_replaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    out, err = Tty(), Tty()
    terminal = Terminal(out, err)
    job = job_of(CellSpec(id="aaaaaaaa", name="n", code=""))
    terminal.progress(job)
    assert re.fullmatch("\r\x1b\\[K\r.{19}", err.getvalue())
    terminal.output(Stream(name="stdout", text="50 %"))
    assert err.getvalue().endswith(f"\r\x1b[K{' ' * 19}\r")  # the blanks are for a notebook
    before = err.getvalue()
    terminal.progress(job)
    assert err.getvalue() == before  # a line of output that has not ended is not written over
    terminal.note("done")
    assert err.getvalue() == before + "\ndone\n"
    assert out.getvalue() == "50 %"


def test_a_folder_that_is_pushed_with_a_job_is_seen_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    job = job_of(CellSpec(id="aaaaaaaa", name="n", code=""))
    pushed = Transfer(
        id="x",
        cluster="c",
        direction="push",
        local="/code",
        remote="/there",
        state=TransferState.RUNNING,
        began_s=time.time(),
    )
    err = Tty()
    terminal = Terminal(Tty(), err)
    terminal.progress(msgspec.structs.replace(job, transfer=pushed))
    assert err.getvalue().endswith("pushing, comparing both sides")
    further = msgspec.structs.replace(pushed, files=10, bytes=1000, files_done=5, bytes_done=500)
    terminal.progress(msgspec.structs.replace(job, transfer=further))
    assert err.getvalue().endswith("pushing, 50%, 5 of 10 files, 500 B of 1.0 kB")


def test_a_warning_is_told_once_whatever_the_job_does() -> None:
    err = io.StringIO()
    terminal = Terminal(io.StringIO(), err)
    job = job_of(CellSpec(id="aaaaaaaa", name="n", code=""))
    warned = msgspec.structs.replace(job, warning="Not pushed:\nlink\x1b: It leads outside.")
    ended = msgspec.structs.replace(warned, state=JobState.COMPLETED)
    for one in (job, warned, warned, ended):
        terminal.progress(one)
    told = [line for line in err.getvalue().splitlines() if "aaaaaaaa" not in line]
    assert told == ["Not pushed:", "link�: It leads outside."]


def test_text_that_no_encoding_knows_is_replaced(run: Run) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Terminal(out, io.StringIO()).output(Stream(name="stdout", text="é\udc80 x"))
    out.seek(0)
    assert out.read() == "?? x"


def test_a_session_is_stopped_on_the_cluster_that_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
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
