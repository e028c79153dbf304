"""A job from its spec to its result, on a real Slurm."""

from __future__ import annotations

import errno
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from jupyter_slurm import places
from jupyter_slurm.errors import (
    CommandError,
    ForwardError,
    NotFoundError,
    RequestError,
    SignatureError,
    SubmitError,
)
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.outcome import delivery
from jupyter_slurm.jobs.outcome.logs import Chunk, LogReader
from jupyter_slurm.jobs.outcome.variables import read_variables, write_variables
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.records.store import Record
from jupyter_slurm.jobs.submission.submit import Submitter
from jupyter_slurm.wire import DisplayData, ExecuteResult, JobKind, JobSpec, JobState, Stream
from tests.cluster.plugin import SlurmCluster as SlurmInstance
from tests.jobs.conftest import Site, both_ways, over_ssh, spec, stays_ended
from tests.ssh.accounts import PLAIN_SHELL, oneself
from tests.ssh.plugin import MakeSshd
from tests.ssh.waiting import wait_until


def test_a_cell_runs_and_its_output_and_value_come_back(site: Site) -> None:
    job = site.run("print('hello')\n6 * 7")
    assert (job.state, job.exit_code) == (JobState.COMPLETED, 0)
    assert str(job.why) == "It has ended well."
    assert site.text(job.id) == "hello\n"
    results = [o for o in site.outputs(job.id) if isinstance(o, ExecuteResult)]
    assert [result.data["text/plain"] for result in results] == ["42"]
    assert site.service.result(job.id).status == "ok"
    assert job.nodes
    assert job.usage is not None
    assert job.usage.peak_memory_mib


def test_an_ended_job_has_the_day_on_which_the_site_erases_its_files(
    site: Site, tmp_path: Path
) -> None:
    storage = {"scratch": str(tmp_path / "scratch"), "purge_days": 60}
    site.edit_profile(job_root=str(tmp_path / "scratch/jobs"), storage=storage)
    job = site.run("1")
    assert job.erased_s == (job.ended_s or 0.0) + 60 * 24 * 3600
    site.edit_profile(storage=storage)
    assert site.run("1").erased_s is None, "its folder lies elsewhere"


def test_gpus_are_those_that_were_asked_for(site: Site) -> None:
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    job = site.run(code, options={"gres": "gpu:2"})
    assert len(site.text(job.id).strip().split(",")) == 2


@over_ssh
def test_variables_go_in_and_come_back(site: Site) -> None:
    asked = spec(
        "total = sum(data)\nsquare = lambda x: x * x",
        names_in=("data",),
        names_out=("total", "square"),
    )
    inputs = places.spool_dir() / "in.vars"
    write_variables(inputs, ["data"], {"data": [1, 2, 3]})
    site.service.submit(replace(asked, inputs=str(inputs)))
    site.wait(asked.id)
    result = site.service.result(asked.id)
    assert result.variables is not None
    found = read_variables(Path(result.variables))[0]
    assert found["total"] == 6
    assert found["square"](7) == 49  # type: ignore[operator]
    assert not inputs.exists()


@over_ssh
def test_a_copy_of_the_variables_goes_once_it_has_served(site: Site) -> None:
    job = site.run("x = 1", names_out=("x",))
    for call in (site.service.delivered, site.service.forget):
        result = site.service.result(job.id)
        assert result.variables is not None
        assert read_variables(Path(result.variables))[0] == {"x": 1}
        call(job.id)
        assert not list(places.spool_dir().glob("*.fetched*"))


def test_a_copy_that_nobody_calls_for_goes_after_a_week(site: Site) -> None:
    old, young = (places.spool_dir() / name for name in ("old.fetched", "young.fetched"))
    for path in (old, young):
        path.touch()
    week_ago_s = time.time() - 7 * 24 * 3600
    os.utime(old, (week_ago_s, week_ago_s))
    site.restart()
    assert (old.exists(), young.exists()) == (False, True)


def test_an_error_comes_back_as_the_cells_error(site: Site) -> None:
    job = site.run("x = 1\nraise ValueError('no')")
    assert job.state is JobState.FAILED
    assert "ValueError" in str(job.why or "")
    result = site.service.result(job.id)
    assert (result.status, result.ename, result.evalue) == ("error", "ValueError", "no")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(result.traceback))
    assert "raise ValueError('no')" in plain


def test_a_program_that_starts_with_a_shebang_runs_as_it_is(site: Site) -> None:
    job = site.run("#!/bin/sh\necho out\necho err >&2\nexit 3", kind=JobKind.PROGRAM)
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)
    assert site.text(job.id) == "out\nerr\n"


TOLD = ("LC_ALL", "SLURM_BITSTR_LEN", "SLURM_TIME_FORMAT", "PROFILE_S")
CELL = f"import os\nfor name in {TOLD}:\n    print(name, os.environ.get(name, 'unset'))"
SHELL = "#!/bin/sh\n" + "".join(f"echo {name} ${{{name}-unset}}\n" for name in TOLD)
KINDS = [(JobKind.CELL, CELL), (JobKind.PROGRAM, SHELL), (JobKind.SCRIPT, SHELL)]


@both_ways
@pytest.mark.parametrize(("kind", "code"), KINDS)
def test_a_job_gets_the_profiles_environment_and_nothing_of_our_own_calls(
    site: Site, monkeypatch: pytest.MonkeyPatch, kind: JobKind, code: str
) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    told = ["unset", "unset", "unset", "unset"]
    assert site.text(site.run(code, kind=kind).id).split()[1::2] == told
    conf = site.cluster.env["SLURM_CONF"]
    site.edit_profile(env={"SLURM_CONF": conf, "LC_ALL": "POSIX", "PROFILE_S": "1"})
    site.restart()
    told = ["POSIX", "unset", "unset", "1"]
    assert site.text(site.run(code, kind=kind).id).split()[1::2] == told


OWN = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%H:%M"}


@pytest.mark.parametrize(("kind", "code"), KINDS)
@pytest.mark.parametrize("way", ["here", "over ssh"])
def test_a_job_gets_the_users_own_locale_and_formats_unless_the_profile_sets_them(
    slurm_cluster: SlurmInstance,
    make_sshd: MakeSshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    kind: JobKind,
    code: str,
) -> None:
    for name, value in OWN.items() if way == "here" else ():
        monkeypatch.setenv(name, value)
    own = " ".join(f"{name}={value}" for name, value in OWN.items())
    sshd = make_sshd(f"{PLAIN_SHELL} {own}", account=oneself()) if way == "over ssh" else None
    env = {"SLURM_CONF": slurm_cluster.env["SLURM_CONF"], "LC_ALL": "POSIX"}
    site = Site(slurm_cluster, tmp_path, monkeypatch, sshd=sshd, env=env)
    try:
        told = ["POSIX", "unset", "%H:%M", "unset"]
        assert site.text(site.run(code, kind=kind).id).split()[1::2] == told
    finally:
        site.service.close()


def test_text_that_comes_while_a_script_is_followed_has_the_time_when_it_came(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_FOLLOWED_S", 0)  # nobody has followed for long
    until = "until [ -e %s ]; do sleep 0.05; done; echo %s\n"
    code = "#!/bin/sh\necho a\n" + until % (tmp_path / "b", "b") + until % (tmp_path / "c", "c")
    job = site.service.submit(spec(code, kind=JobKind.SCRIPT))
    wait_until(lambda: site.so_far(job.id) == "a\n")
    times, cursor, began_s = {}, "", int(time.time())
    while "c\n" not in times:
        chunk = site.service.logs(job.id, cursor, wait_s=60)
        cursor = chunk.cursor
        for one in chunk.outputs:
            assert isinstance(one, Stream)
            times[one.text] = one.time_s
            if one.text == "a\n":
                monkeypatch.setattr(delivery, "_FOLLOWED_S", 120)
                (tmp_path / "b").touch()
                wait_until(lambda: site.so_far(job.id) == "a\nb\n")  # somebody else follows, too
            elif one.text == "b\n":
                monkeypatch.setattr(delivery, "_FOLLOWED_S", 0)
                (tmp_path / "c").touch()
                wait_until(lambda: site.so_far(job.id) == "a\nb\nc\n")
    assert began_s <= times["b\n"] <= time.time()
    assert (times["a\n"], times["c\n"]) == (0, 0)


@over_ssh
def test_a_batch_script_is_submitted_as_written(site: Site, tmp_path: Path) -> None:
    code = "#!/bin/bash\n#SBATCH --comment='mine'\n#SBATCH -o written-%j.out\necho \"$PWD\"\n"
    job = site.run(code, kind=JobKind.SCRIPT, **site.at(tmp_path))
    assert job.state is JobState.COMPLETED
    assert (tmp_path / f"written-{job.slurm_id}.out").read_text() == f"{tmp_path}\n"
    assert site.text(job.id) == f"{tmp_path}\n"


def test_a_cell_runs_in_its_image(site: Site, demo_image: Path) -> None:
    code = "import sys, os; print(sys.prefix, os.path.exists('/usr/sbin/slurmctld'))"
    job = site.run(code, image=str(demo_image), runtime="charliecloud")
    assert site.text(job.id) == "/usr False\n"
    assert (job.image, job.runtime) == (str(demo_image), "charliecloud")


@over_ssh
def test_environment_variables_and_the_working_folder_arrive(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "it's $HOME"
    folder.mkdir()
    value = "a b\n'\"$HOME`x`ü"
    job = site.run(
        "import os; print(repr(os.environ['V'])); print(os.getcwd())",
        env={"V": value},
        **site.at(folder),
    )
    assert site.text(job.id) == f"{value!r}\n{folder}\n"


def test_what_sbatch_refuses_is_an_error_with_its_words(site: Site) -> None:
    with pytest.raises(SubmitError) as caught:
        site.service.submit(spec("1", options={"partition": "nosuch"}))
    assert "invalid partition" in str(caught.value).lower()
    assert [job.state for job in site.service.jobs()] == [JobState.REJECTED]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "two words"},
        {"options": {"array": "1-3"}},
        {"options": {"mem": "lots"}},
        {"options": {"nosuch": "1"}},
        {"env": {"A B": "1"}},
        {"env": {"A": "\0"}},
        {"mounts": ("relative",), "runtime": "charliecloud", "image": "/"},
        {"runtime": "nosuch"},
        {"image": "/", "runtime": "none"},
        {"cluster": "nosuch"},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    site: Site, changes: dict[str, object]
) -> None:
    with pytest.raises((RequestError, NotFoundError)):
        site.service.submit(spec("1", **changes))
    assert site.service.jobs() == []


@pytest.mark.parametrize(
    ("kind", "where", "error"),
    [
        (JobKind.LAB, "jupyter_slurm.jobs.access.labs.Forward", ForwardError("No port is free.")),
        (JobKind.CELL, "threading.Thread.start", RuntimeError("can't start new thread")),
        (JobKind.CELL, "jupyter_slurm.jobs.service.Submitter", OSError(errno.ENOSPC, "full")),
    ],
    ids=str,
)
def test_of_a_submission_that_fails_once_it_is_recorded_nothing_is_left(
    site: Site, monkeypatch: pytest.MonkeyPatch, kind: JobKind, where: str, error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    asked = spec("1", kind=kind, runtime="none", options={"hold": ""})
    add = Book.add

    def added(book: Book, record: Record) -> bool:
        patch.setattr(where, fails)
        return add(book, record)

    with monkeypatch.context() as patch:
        patch.setattr(Book, "add", added)
        with pytest.raises(type(error)):
            site.service.submit(asked)
    assert site.service.jobs() == []
    assert site.restart().jobs() == []
    site.service.submit(asked)  # the very same can be tried again
    assert len(site.slurm_jobs()) == 1
    site.service.cancel(asked.id)


def test_a_job_does_not_go_to_another_slurm_than_the_shell_of_its_submission(site: Site) -> None:
    conf = str(site.cluster.conf)
    site.edit_profile(env={})
    with pytest.raises(RequestError, match=f"SLURM_CONF is {conf} where you submit") as caught:
        site.service.submit(spec("1", slurm_conf=conf))
    assert f"--env SLURM_CONF={conf}`" in str(caught.value)
    assert site.service.jobs() == []
    site.edit_profile()
    assert site.run("1", slurm_conf="/another/slurm.conf").state is JobState.COMPLETED


def test_a_job_waits_for_one_of_ours_by_its_id(site: Site) -> None:
    first = site.run("1")
    assert first.slurm_id is not None
    asked = f"afterok:{first.id}+1,after:{first.slurm_id}:{first.id}"
    sent = f"--dependency=afterok:{first.slurm_id}+1,after:{first.slurm_id}:{first.slurm_id}"
    assert sent in site.service.preview(spec("1", options={"dependency": asked})).sbatch
    site.run("1", options={"dependency": f"afterany:{first.id}"})
    code = f"#!/bin/bash\n#SBATCH --dependency=afterany:{first.id}\necho done\n"
    script = site.run(code, kind=JobKind.SCRIPT)
    assert script.state is JobState.COMPLETED
    with pytest.raises(RequestError, match="There is no job `zzzzzzzz` here"):
        site.service.submit(spec("1", options={"dependency": "afterok:zzzzzzzz"}))


def test_the_same_id_submitted_twice_is_one_job(site: Site) -> None:
    """Whatever has become of its profile: of an error there is no job."""
    asked = spec("print(1)")
    first = site.service.submit(asked)
    site.edit_profile(poll_s="often")
    second = site.service.submit(asked)
    assert first.slurm_id == second.slurm_id
    site.edit_profile()
    assert site.slurm_jobs() == [first.slurm_id]


def test_a_job_that_is_cancelled_before_it_is_recorded_is_not_sent(site: Site) -> None:
    """As a kernel's that is shut down while its submission is looked into."""
    asked = spec("print(1)")
    with pytest.raises(NotFoundError):
        site.service.cancel(asked.id)
    job = site.service.submit(asked)
    assert (job.state, job.why) == (JobState.CANCELLED, "Cancelled by you before it was sent.")
    assert site.slurm_jobs() == []


def test_a_job_that_ends_before_sbatch_has_answered_stays_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = Submitter._learned
    states = site.states_of_jobs(monkeypatch)

    def ends_meanwhile(pursuit: Submitter, answer: str) -> dict[str, object]:
        site.end_elsewhere(job.id)
        return learned(pursuit, answer)

    monkeypatch.setattr(Submitter, "_learned", ends_meanwhile)
    job = spec("7")
    site.service.submit(job)
    wait_until(lambda: site.service.job(job.id).submitted_s is not None)
    assert stays_ended(states[job.id])


def test_a_preview_sends_nothing(site: Site) -> None:
    asked = spec("1", options={"gres": "gpu:1"})
    preview = site.service.preview(asked)
    assert "--gres=gpu:1" in preview.sbatch
    assert preview.script.startswith("#!/bin/bash")
    assert site.slurm_jobs() == []
    assert not Path(preview.job_dir).exists()


def test_a_result_that_was_tampered_with_is_not_read(site: Site) -> None:
    job = site.run("x = 1", names_out=("x",))
    path = Path(job.job_dir) / "result.0.json"
    path.write_bytes(path.read_bytes().replace(b'"ok"', b'"ko"'))
    with pytest.raises(SignatureError):
        site.service.result(job.id)


def test_attachable_is_a_job_whose_outcome_nobody_has_had(site: Site) -> None:
    cell = spec("1", fingerprint="f")
    site.wait(site.service.submit(cell).id)
    assert (found := site.service.attachable(cell)) is not None
    assert (found.job.id, found.differs) == (cell.id, ())
    assert site.service.attachable(replace(cell, fingerprint="other")) is None
    site.service.delivered(cell.id)
    assert site.service.attachable(cell) is None


def test_a_cell_attaches_to_a_job_of_another_kernel_once_that_has_ended(site: Site) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        began_s = psutil.Process(other.pid).create_time()
        cell = spec("1", fingerprint="f", kernel=f"{other.pid} {began_s}")
        site.service.submit(cell)
        mine = replace(cell, kernel=f"{os.getpid()} {psutil.Process().create_time()}")

        def differs(spec: JobSpec) -> tuple[str, ...]:
            found = site.service.attachable(spec)
            assert found is not None
            assert found.job.id == cell.id
            return found.differs

        assert differs(cell) == ()
        assert differs(mine) == ("kernel",)
        other.kill()
    assert differs(mine) == ()


def test_a_cell_does_not_attach_to_a_job_that_scancel_has_ended(site: Site) -> None:
    cell = spec("import time; time.sleep(600)", fingerprint="f")
    job = site.wait(site.service.submit(cell).id, JobState.RUNNING)
    assert site.service.attachable(cell) is not None
    assert site.service.command(["scancel", str(job.slurm_id)]).returncode == 0
    assert site.wait(job.id).state is JobState.CANCELLED
    assert site.service.attachable(cell) is None


def test_what_a_cell_would_get_otherwise_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    cell = spec(
        "1",
        fingerprint="f",
        names_in=("lr",),
        inputs_digest="1",
        cwd=str(tmp_path),
        push=str(tmp_path / "src"),
    )
    site.service.submit(cell)

    def differs(**changes: object) -> tuple[str, ...]:
        found = site.service.attachable(replace(cell, **changes))
        assert found is not None
        assert found.job.id == cell.id
        return found.differs

    assert differs() == ()
    assert differs(inputs_digest="2", cwd="/") == ("folder", "in")
    assert differs(inputs_digest="?2") == ("in?",)
    assert differs(env={"A": "1"}) == differs(options={"nice": "1"}) == ("options",)
    (tmp_path / "src" / "new").touch()
    assert differs() == ("push",)
    config = tmp_path / "config/jupyter-slurm/clusters.d" / f"{site.cluster.name}.toml"
    config.write_text("modules = ['other']\n" + config.read_text(encoding="utf-8"))
    assert differs() == ("options", "push")


def test_a_job_follows_the_rename_of_its_notebook_and_of_the_folder_above(
    site: Site, tmp_path: Path
) -> None:
    folder, moved = tmp_path / "lab", tmp_path / "archive"
    (folder / "src").mkdir(parents=True)
    began_s = time.time()
    notebook = str(folder / "Untitled.ipynb")
    paths = {"cwd": str(folder), "push": str(folder / "src")}
    cell = spec("1", fingerprint="f", notebook=notebook, **paths)
    site.service.submit(cell)
    site.service.notebook_moved(notebook, str(folder / "trial.ipynb"))
    assert site.service.job(cell.id).notebook == str(folder / "trial.ipynb")
    folder.rename(moved)
    site.service.notebook_moved(str(folder), str(moved))
    now = str(moved / "trial.ipynb")
    assert site.service.notebook_path(notebook, began_s) == now
    assert site.service.notebook_path(notebook, time.time()) == notebook, "another of that name"
    assert site.service.attachable(cell) is None, "another of that name"
    there = {"cwd": str(moved), "push": str(moved / "src")}
    for _ in range(2):
        found = site.service.attachable(replace(cell, notebook=now, **there))
        assert found is not None
        assert (found.job.id, found.differs) == (cell.id, ())
        site.restart()
        assert site.service.notebook_path(notebook, began_s) == now


def test_a_job_does_not_follow_a_notebook_whose_name_only_begins_like_its_own(site: Site) -> None:
    cell = spec("1", fingerprint="f", notebook="/lab/trial.ipynb")
    site.service.submit(cell)
    for other in ("/lab/tri", "/lab/trial.ipyn", "/la"):
        site.service.notebook_moved(other, "/elsewhere")
    assert site.service.job(cell.id).notebook == "/lab/trial.ipynb"


def test_a_cell_that_depends_on_a_job_of_ours_is_the_same_when_it_is_run_again(
    site: Site,
) -> None:
    first = site.run("1")
    cell = spec("1", fingerprint="f", options={"dependency": f"afterok:{first.id}"})
    site.service.submit(cell)
    assert (found := site.service.attachable(cell)) is not None
    assert found.differs == ()


def test_displays_come_back_in_their_order_with_the_text(site: Site) -> None:
    code = "for i in range(3):\n    print(i)\n    display(i * 10)"
    job = site.run(code)
    # One line may come in two pieces.
    kinds = [kind.__name__ for kind, _ in itertools.groupby(site.outputs(job.id), key=type)]
    assert kinds == ["Stream", "DisplayData"] * 3
    shown = [o.data["text/plain"] for o in site.outputs(job.id) if isinstance(o, DisplayData)]
    assert shown == ["0", "10", "20"]


@over_ssh
def test_a_budget_skips_old_text_and_counts_it(site: Site) -> None:
    job = site.run("display('first')\nprint('\\n'.join(map(str, range(100_000))))")
    chunk = site.service.logs(job.id, budget_bytes=1000)
    assert chunk.end
    assert chunk.skipped_bytes > 500_000
    assert any(isinstance(o, DisplayData) for o in chunk.outputs)
    assert chunk.outputs[-1].text.endswith("99999\n")  # type: ignore[union-attr]


@over_ssh
def test_a_part_of_a_long_log_says_that_there_is_more(site: Site) -> None:
    job = site.run("print('\\n'.join(map(str, range(400_000))))")
    first = site.service.logs(job.id, budget_bytes=None)
    assert first.more
    assert not first.end
    whole = site.service.logs(job.id, budget_bytes=1000)
    assert whole.end
    assert not whole.more


def test_what_a_job_writes_while_its_first_words_are_read_is_not_lost_though_it_ends_by_then(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, read = tmp_path / "gate", LogReader.read
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    job = site.service.submit(spec(f"print('a', flush=True)\n{wait}print('z')"))

    def ends_meanwhile(*asked: Any) -> Chunk:
        chunk = read(*asked)
        if chunk.outputs and not gate.exists():
            gate.touch()
            site.wait(job.id)
        return chunk

    monkeypatch.setattr(LogReader, "read", ends_meanwhile)
    assert site.text(job.id) == "a\nz\n"


@over_ssh
def test_a_forgotten_job_leaves_nothing(site: Site) -> None:
    job = site.run("1")
    site.service.forget(job.id)
    assert not Path(job.job_dir).exists()
    with pytest.raises(NotFoundError):
        site.service.job(job.id)


def test_the_python_of_the_node_is_known_afterwards(site: Site) -> None:
    job = site.run("1")
    site.outputs(job.id)
    assert site.service.job(job.id).python is not None
    assert sys.version_info.major == site.service.job(job.id).python[0]  # type: ignore[index]


def test_modules_are_loaded_before_the_cell_runs(site: Site, tmp_path: Path) -> None:
    module = tmp_path / "greeting"
    module.write_text("#%Module\nsetenv GREETING hello\n")
    job = site.run("import os; print(os.environ['GREETING'])", modules=(str(module),))
    assert site.text(job.id) == "hello\n"


def test_a_module_that_is_not_there_is_named_and_the_cell_does_not_run(site: Site) -> None:
    job = site.run("print('ran')", modules=("no/such-module",))
    assert (job.state, job.exit_code) == (JobState.FAILED, 66)
    assert "set up" in str(job.why or "")
    assert "no/such-module" in site.text(job.id, "stderr")
    assert site.text(job.id) == ""


def test_where_only_operators_raise_a_limit_slurms_words_are_told_and_what_to_do(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who runs a private cluster is its operator: the refusal is pretended."""
    job = site.service.submit(spec("1", options={"hold": "", "time": "60"}))
    really = SlurmCluster.ask

    def ask(cluster: SlurmCluster, argv: Sequence[str]) -> bytes:
        if argv[:2] == ["scontrol", "update"]:
            raise CommandError("failed", detail="Access/permission denied for job 1")
        return really(cluster, argv)

    monkeypatch.setattr(SlurmCluster, "ask", ask)
    with pytest.raises(CommandError, match="does not let you change the time limit") as refused:
        site.service.extend(job.id, "+1h")
    assert refused.value.detail == "Access/permission denied for job 1"
    assert "start another" in str(refused.value.hint or "")
    assert site.service.cancel(job.id).cancel_requested_s is not None
    with pytest.raises(RequestError, match="no time limit to change"):
        site.service.extend(site.wait(job.id).id, "+1h")
