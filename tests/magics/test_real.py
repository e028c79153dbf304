"""The magics end to end: a real kernel, the real agent, a real Slurm."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.plugin import ROOT, SlurmCluster, jupyter_homes
from tests.magics.kernel import LOAD, Kernel, Reply, running_kernel


@contextmanager
def agent_environment(slurm_cluster: SlurmCluster, **changes: str) -> Iterator[dict[str, str]]:
    """Yield the environment of a new agent with the cluster's profile."""
    # Not in pytest's folder, since a socket's path must be short.
    home = Path(tempfile.mkdtemp(prefix="magics-"))
    env = {
        **slurm_cluster.env,
        **jupyter_homes(home),
        "JUPYTER_CONFIG_DIR": slurm_cluster.env["JUPYTER_CONFIG_DIR"],
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": str(ROOT),
        **changes,
    }
    for name in ("JUPYTER_SLURM_AGENT", "SLURM_CONF", "JPY_SESSION_NAME"):
        env.pop(name, None)
    try:
        yield env
    finally:
        stop = [sys.executable, "-m", "jupyter_slurm", "agent", "stop"]
        subprocess.run(stop, env=env, check=True, timeout=60, capture_output=True)
        shutil.rmtree(home)


@pytest.fixture(scope="module")
def environment(slurm_cluster: SlurmCluster) -> Iterator[dict[str, str]]:
    """Yield the environment of an agent that tests without faults share."""
    with agent_environment(slurm_cluster) as env:
        yield env


@pytest.fixture(scope="module")
def kernel(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """Yield a kernel of one notebook for tests that only run different cells."""
    folder = tmp_path_factory.mktemp("notebook")
    with running_kernel({**environment, "JPY_SESSION_NAME": f"{folder}/n.ipynb"}, folder) as it:
        assert it.run(LOAD).content["status"] == "ok"
        yield it


def ok(reply: Reply) -> Reply:
    assert reply.content["status"] == "ok", reply.content
    return reply


def test_simultaneous_kernels_of_a_notebook_have_separate_jobs(
    environment: dict[str, str], tmp_path: Path
) -> None:
    env = {**environment, "JPY_SESSION_NAME": f"{tmp_path}/twice.ipynb"}
    gate = tmp_path / "gate"
    cell = (
        "%%slurm --out job\nimport os, time\njob = os.environ['SLURM_JOB_ID']\n"
        f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)"
    )
    with running_kernel(env, tmp_path) as first, running_kernel(env, tmp_path) as second:
        kernels = (first, second)
        began = []
        for kernel in kernels:
            ok(kernel.run(LOAD))
            began.append(kernel.start(cell))
            kernel.until(lambda message: message["msg_type"] == "display_data")
        gate.touch()
        for kernel, request in zip(kernels, began, strict=True):
            ok(kernel.reply(request))
        assert len({kernel.run("print(job)").text for kernel in kernels}) == 2


def test_gpu_job_returns_variables_figure_value_and_output(kernel: Kernel) -> None:
    kernel.run("data = list(range(10))")
    reply = ok(
        kernel.run(
            "%%slurm --gpus 1 --time 5m --in data --out total\n"
            "import os, sys\n"
            "class Figure:\n"
            "    def _repr_png_(self):\n"
            "        return b'\\x89PNG'\n"
            "print(os.environ['SLURM_JOB_ID'], os.environ['CUDA_VISIBLE_DEVICES'])\n"
            "print('to stderr', file=sys.stderr)\n"
            "display(Figure())\n"
            "total = sum(data)\n"
            "total"
        )
    )
    assert "to stderr" in reply.text
    shown = [message["content"]["data"] for message in reply.displays()]
    assert any(data.get("text/plain") == "45" for data in shown)
    assert any("image/png" in data for data in shown)
    assert "done" in reply.displays()[-1]["content"]["data"]["text/plain"]
    assert kernel.run("print(total)").text == "45\n"


def test_repeated_cell_of_a_killed_kernel_attaches_to_its_job(
    environment: dict[str, str], slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    env = {**environment, "JPY_SESSION_NAME": f"{tmp_path}/killed.ipynb"}
    gate = tmp_path / "gate"
    cell = (
        "%%slurm --name killed --out x\n"
        "import os, time\n"
        "print('started', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}):\n"
        "    time.sleep(0.05)\n"
        "print('ended')\n"
        "x = 1"
    )
    with running_kernel(env, tmp_path) as first:
        first.run(LOAD)
        first.start(cell)
        first.until(lambda message: "started" in message["content"].get("text", ""))
        # A context manager would end it cleanly, but this test kills it with SIGKILL.
        first.manager.shutdown_kernel(now=True)
        gate.touch()
        with running_kernel(env, tmp_path) as second:
            second.run(LOAD)
            assert "killed" in json.dumps(ok(second.run("%slurm jobs")).messages, default=str)
            reply = ok(second.run(cell))
            assert "attached" in reply.text
            assert "started\nended\n" in reply.text
            assert second.run("print(x)").text == "1\n"
            ok(second.run("del x"))
            reply = ok(second.run(f"%slurm attach {attached_to(reply)}"))
            assert "started\nended\n" in reply.text
            assert second.run("print(x)").text == "1\n"
    jobs = slurm_cluster.run("squeue", "-h", "-t", "all", "-o", "%k %j").stdout.splitlines()
    assert sum("killed" in job for job in jobs) == 1


def attached_to(reply: Reply) -> str | None:
    """Return the ID of the job that the cell reports to attach to."""
    found = re.search(r"This cell's job (\w+) .*attached to it", reply.text)
    return found and found[1]


def test_cell_attaches_only_to_a_job_with_equal_inputs(
    environment: dict[str, str], tmp_path: Path
) -> None:
    env = {**environment, "JPY_SESSION_NAME": f"{tmp_path}/sweep.ipynb"}
    gate, pushed = tmp_path / "gate", tmp_path / "src"
    pushed.mkdir()
    (pushed / "sweep.ipynb").write_text("as first saved")
    (pushed / "model.py").write_text("depth = 1")
    inputs = (
        "class Model:\n    layers = {'conv', 'pool', 'dense'}\n    def __call__(self, x):\n"
        "        return 10 * x\nmodel, lr, grid = Model(), 1, [n / 7 for n in range(5000)]"
    )
    cell = (
        f"%%slurm --detach --in lr,model,grid --out acc --push {pushed}\nimport os, time\n"
        f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\nacc = model(lr)"
    )
    with running_kernel({**env, "PYTHONHASHSEED": "1"}, tmp_path) as first:
        first.run(LOAD)
        first.run(inputs)
        first.run(cell)
        one = first.run("one = _; print(one.id)").text.strip()
        first.run("lr = 5")
        other = ok(first.run(cell))
        two = first.run("two = _; print(two.id)").text.strip()
        assert one != two
        assert f"%slurm attach {one}" in other.text
        assert "--in" in other.text
    with running_kernel({**env, "PYTHONHASHSEED": "2"}, tmp_path) as second:
        second.run(LOAD)
        # The value is never a variable of the cell.
        assert second.run(cell.replace("--in lr", "--in rate")).content["ename"] == "VariableError"
        # The inputs no longer exist, so the cell attaches to the existing job.
        bare = ok(second.run(cell))
        assert (attached_to(bare), "`lr`" in bare.text) == (two, True)
        second.run("\n\n" + inputs)
        (pushed / "sweep.ipynb").write_text("saved once more")
        assert attached_to(ok(second.run(cell))) == one
        (pushed / "model.py").write_text("depth = 22")
        assert "--push" in ok(second.run(cell)).text
        three = second.run("three = _; print(three.id)").text.strip()
        gate.touch()
        told = second.run(
            "from jupyter_slurm import connect\n"
            f"print([connect().job(i).result()['acc'] for i in {[one, two, three]}])"
        )
        assert told.text == "[10, 50, 10]\n"


def test_slurm_commands_return_tables_and_raise_errors(kernel: Kernel) -> None:
    assert "PARTITION" in kernel.run("t = %sinfo\nprint(t.rows[0])").text
    assert (
        "debug" in kernel.run("t = %squeue -o '%i|%P'\nt = %sinfo -o '%P|%a'\nprint(t.rows)").text
    )
    reply = kernel.run("%scontrol show job 999999999")
    assert reply.content["ename"] == "CommandError"
    assert "Invalid job id" in reply.content["evalue"]


def test_batch_script_returns_a_handle(kernel: Kernel) -> None:
    ok(kernel.run("%%sbatch -J mine -- 'a b' -n\n#!/bin/bash\n#SBATCH --time=1\necho $1, $2"))
    ok(kernel.run("job = _"))
    assert kernel.run("print(job.wait().state, repr(job.output))").text == (
        "COMPLETED 'a b, -n\\n'\n"
    )


def test_widget_and_tables_show_the_job(kernel: Kernel) -> None:
    ok(kernel.run("%%slurm --name seen\n1"))
    for word in ("", "jobs"):
        reply = ok(kernel.run(f"%slurm {word}"))
        assert "seen" in json.dumps([message["content"] for message in reply.messages])
    assert "debug" in json.dumps(ok(kernel.run("%slurm info")).messages, default=str)
    ok(kernel.run("%slurm queue"))
    ok(kernel.run("%slurm clusters"))
    assert "✔" in ok(kernel.run("%slurm doctor")).text


def test_sweep_returns_a_table_and_reports_failed_tasks(kernel: Kernel) -> None:
    cell = (
        "%%slurm --sweep x=1,2,3 --sweep how=fine,bad --max-running 4 --out y\n"
        "if how == 'bad' and x == 2:\n"
        "    raise ValueError('no good')\n"
        "y = 10 * x"
    )
    reply = kernel.run(cell)
    assert reply.content["ename"] == "SweepError"
    told = "\n".join(reply.content["traceback"])
    assert "1 of 6 tasks failed" in told
    assert "no good" in told
    assert "x=2" in told
    assert "5 of 6 tasks done" in reply.displays()[-1]["content"]["data"]["text/plain"]
    shown = "print(results[['x', 'how', 'y', 'task', 'state']].to_csv(index=False))"
    assert ok(kernel.run(shown)).text.split() == [
        "x,how,y,task,state",
        "1,fine,10.0,0,COMPLETED",
        "1,bad,10.0,1,COMPLETED",
        "2,fine,20.0,2,COMPLETED",
        "2,bad,,3,FAILED",
        "3,fine,30.0,4,COMPLETED",
        "3,bad,30.0,5,COMPLETED",
    ]


def test_array_of_a_python_cell_has_slurms_indices(kernel: Kernel) -> None:
    ok(kernel.run("%%slurm --array 2-3 --out i --into table\nimport os\n" + INDEX))
    assert kernel.run("print(table['i'].tolist())").text == "[2, 3]\n"


def test_sweep_without_output_variables_returns_its_table(kernel: Kernel) -> None:
    ok(kernel.run("%%slurm --sweep x=1,2\npass"))
    shown = "print(results[['x', 'state']].values.tolist())"
    assert kernel.run(shown).text == "[[1, 'COMPLETED'], [2, 'COMPLETED']]\n"


INDEX = "i = int(os.environ['SLURM_ARRAY_TASK_ID'])"


def test_sweep_of_a_killed_kernel_is_found_again_with_its_table(
    environment: dict[str, str], tmp_path: Path
) -> None:
    env = {**environment, "JPY_SESSION_NAME": f"{tmp_path}/sweep.ipynb"}
    gate = tmp_path / "gate"
    cell = (
        "%%slurm --sweep configs --out y\nimport os, time\n"
        f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\ny = -x"
    )
    with running_kernel(env, tmp_path) as first:
        first.run(LOAD)
        first.run("configs = [{'x': 1}, {'x': 2}]")
        first.start(cell)
        first.until(lambda message: "running" in str(message["content"]))
        first.manager.shutdown_kernel(now=True)
        gate.touch()
        with running_kernel(env, tmp_path) as second:
            second.run(LOAD)
            reply = ok(second.run(cell))
            assert "attached" in reply.text
            shown = "print(results[['x', 'y']].values.tolist())"
            assert second.run(shown).text == "[[1, -1], [2, -2]]\n"
            ok(second.run("del results"))
            job_id = re.search(r"job ([a-z2-7]{8})", reply.text)
            assert job_id is not None
            ok(second.run(f"%slurm attach {job_id[1]}"))
            assert second.run(shown).text == "[[1, -1], [2, -2]]\n"


def test_retry_returns_the_whole_table(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cell = (
        "%%slurm --sweep x=1,2 --out y --time 5m\nimport os\n"
        f"assert x == 1 or os.path.exists({str(gate)!r})\ny = x"
    )
    reply = kernel.run(cell)
    assert reply.content["ename"] == "SweepError"
    retry = re.search(r"%slurm retry ([a-z2-7]{8})", "\n".join(reply.content["traceback"]))
    assert retry is not None
    gate.touch()
    ok(kernel.run(f"{retry[0]} --time 2x"))
    assert kernel.run("print(results['y'].tolist())").text == "[1, 2]\n"
    refused = kernel.run(retry[0])
    assert refused.content["ename"] == "UsageError"


@pytest.mark.parametrize(
    "line",
    [
        "--sweep x=1 --out x",
        "--sweep nothing",
        "--max-running 2",
        "--sweep x=1,2 --array 1-2",
        "--sweep x=range(0)",
    ],
)
def test_invalid_sweep_line_is_rejected(kernel: Kernel, line: str) -> None:
    reply = kernel.run(f"%%slurm {line}\n1")
    assert reply.content["ename"] == "UsageError"
