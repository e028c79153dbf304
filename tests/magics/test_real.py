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
from datetime import datetime
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.cluster.plugin import ROOT, SlurmCluster, jupyter_homes
from tests.magics.kernel import LOAD, Kernel, Reply, running_kernel
from tests.ssh.profile import SshSlurm
from tests.ssh.waiting import wait_until

MIB = 1 << 20


@contextmanager
def agent_environment(slurm_cluster: SlurmCluster, **changes: str) -> Iterator[dict[str, str]]:
    """An agent of its own: the profile is the cluster's, everything else our own."""
    # Not pytest's own folder: a socket's path must be short.
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
    """Of one agent for all tests here that break nothing."""
    with agent_environment(slurm_cluster) as env:
        yield env


@pytest.fixture(scope="module")
def kernel(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """In one notebook for all tests here that only run cells, none of which is as another."""
    folder = tmp_path_factory.mktemp("notebook")
    with running_kernel({**environment, "JPY_SESSION_NAME": f"{folder}/n.ipynb"}, folder) as it:
        assert it.run(LOAD).content["status"] == "ok"
        yield it


def ok(reply: Reply) -> Reply:
    assert reply.content["status"] == "ok", reply.content
    return reply


def test_two_kernels_that_run_one_notebook_at_once_have_jobs_of_their_own(
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


def test_variables_figure_value_and_output_of_a_job_on_a_gpu(kernel: Kernel) -> None:
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


def test_a_cell_has_the_name_that_sbatchs_own_option_gives_it(kernel: Kernel) -> None:
    for option in ("-J fit", "--job-name=fit"):
        reply = ok(kernel.run(f"%%slurm {option}\nimport os\nprint(os.environ['SLURM_JOB_NAME'])"))
        assert "fit." in reply.text
        assert "<b>fit</b>" in reply.displays()[0]["content"]["data"]["text/html"]


def test_what_one_process_cannot_use_is_said_with_the_cell(kernel: Kernel) -> None:
    for words, told in (
        ("--gpus 5", "GPUs"),
        ("--gpus 1 --nodes 2", "--gpus 1 is fewer than one for each of 2 nodes"),
        ("--input data.txt", "--in NAMES"),
        ("--container bundle", "--image NAME"),
    ):
        refused = kernel.run(f"%%slurm {words}\n1")
        assert told in refused.content.get("evalue", "") + refused.text
    once = "import os\nprint('on', os.environ['SLURM_JOB_NUM_NODES'])"
    for words, nodes, told in (
        ("--nodes 2", "2", "runs once, on the first of 2 nodes"),
        ("--ntasks 4", "1", "runs once, not 4 times"),
        ("--overcommit", "1", "`--overcommit` counts only for what"),
    ):
        reply = ok(kernel.run(f"%%slurm {words}\n{once}"))
        assert reply.text.count(f"on {nodes}\n") == 1
        assert told in reply.displays()[0]["content"]["data"]["text/plain"]
    shown = ok(kernel.run("%%slurm --nodes 2 --dry-run\n1")).displays()[0]["content"]["data"]
    assert "runs once, on the first of 2 nodes" in shown["text/plain"]


def test_an_error_is_the_cells_with_its_own_lines(kernel: Kernel) -> None:
    reply = kernel.run("%%slurm\ndef f():\n    return 1 / 0\nf()")
    assert reply.content["ename"] == "CellFailed"
    told = "\n".join(reply.content["traceback"])
    assert "ZeroDivisionError" in told
    assert "runner" not in told


def test_a_child_that_a_cell_forks_leaves_the_cells_result_alone(kernel: Kernel) -> None:
    ok(
        kernel.run(
            "%%slurm --out who\n"
            "import os, threading, time\n"
            "threading.Thread(target=time.sleep, args=(1,)).start()\n"
            "if os.fork() == 0:\n    time.sleep(0.3); who = 'child'\n"
            "else:\n    who = 'parent'"
        )
    )
    assert kernel.run("print(who)").text == "parent\n"


def test_no_raise_reports_a_variable_that_did_not_come_back(kernel: Kernel) -> None:
    kernel.run("lock = 'old'")
    cell = "import threading\ngot, lock = 5, threading.Lock()"
    reply = ok(kernel.run(f"%%slurm --out got,lock,unset --no-raise\n{cell}"))
    assert "`lock`" in reply.text
    assert "`unset`" in reply.text
    assert kernel.run("print(got, lock)").text == "5 old\n"


def test_code_that_waits_for_the_keyboard_is_told_what_to_do(kernel: Kernel) -> None:
    asked = {
        "input('Name: ')": "EOFError",
        "import getpass\ngetpass.getpass()": "EOFError",
        "breakpoint()": "BdbQuit",
    }
    for code, ename in asked.items():
        told = kernel.run(f"%%slurm\n{code}").content
        assert ename in told["evalue"]
        assert "A job has no keyboard" in "\n".join(told["traceback"])


def test_a_plotly_figure_is_as_small_as_in_a_local_kernel(kernel: Kernel) -> None:
    code = "import plotly.express as px\npx.line(x=[1, 2], y=[1, 2]).show()"
    mime = "application/vnd.plotly.v1+json"
    local, remote = (
        next(
            message["content"]["data"]
            for message in ok(kernel.run(line + code)).displays()
            if mime in message["content"]["data"]
        )
        for line in ("", "%%slurm\n")
    )
    assert remote[mime] == local[mime]
    assert len(json.dumps(remote)) <= len(json.dumps(local))


def test_a_killed_kernels_cell_run_again_attaches_to_its_one_job(
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
        # A context manager would say good-bye; this is kill -9.
        first.manager.shutdown_kernel(now=True)
        gate.touch()
        with running_kernel(env, tmp_path) as second:
            second.run(LOAD)
            assert "killed" in json.dumps(ok(second.run("%slurm jobs")).messages, default=str)
            reply = ok(second.run(cell))
            assert "attached" in reply.text
            assert "started\nended\n" in reply.text
            assert second.run("print(x)").text == "1\n"
    jobs = slurm_cluster.run("squeue", "-h", "-t", "all", "-o", "%k %j").stdout.splitlines()
    assert sum("killed" in job for job in jobs) == 1


def test_a_notebook_that_nbconvert_runs_again_finds_its_job(
    environment: dict[str, str], slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    begun, gate, path = tmp_path / "begun", tmp_path / "gate", tmp_path / "study.ipynb"
    code = (
        f"%%slurm --name converted\nimport os, time\nopen({str(begun)!r}, 'w').close()\n"
        f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)"
    )
    nbformat.write(new_notebook(cells=[new_code_cell(LOAD), new_code_cell(code)]), path)
    argv = [sys.executable, "-m", "nbconvert", "--execute", "--inplace", str(path)]
    # As in a terminal of a notebook, whose name is not this one's.
    env = {**environment, "JPY_SESSION_NAME": "/notebooks/another.ipynb"}
    first = subprocess.Popen(argv, env=env, cwd=tmp_path, stderr=subprocess.DEVNULL)
    wait_until(begun.exists)
    # With its kernel, which otherwise might still see the job end.
    for kernel in psutil.Process(first.pid).children(recursive=True):
        kernel.kill()
    first.kill()
    first.wait()
    gate.touch()
    subprocess.run(argv, env=environment, cwd=tmp_path, check=True, timeout=120)
    outputs = nbformat.read(path, as_version=4).cells[1].outputs
    assert "attached to it" in "".join(one.get("text", "") for one in outputs)
    jobs = slurm_cluster.run("squeue", "-h", "-t", "all", "-o", "%j").stdout.split()
    assert sum("converted" in job for job in jobs) == 1


def test_a_cell_of_a_closed_connection_leaves_nothing_to_be_submitted_later(
    slurm_cluster: SlurmCluster, ssh_slurm: SshSlurm, tmp_path: Path
) -> None:
    ssh_slurm.write_profile(tmp_path)
    cell = "%%slurm --name logged-out --in n --out x\nx = n"
    jobs = "print(len(get_ipython().run_line_magic('slurm', 'jobs').rows))"
    way = {**ssh_slurm.env, "JUPYTER_CONFIG_DIR": str(tmp_path)}
    with agent_environment(slurm_cluster, **way) as env, running_kernel(env, tmp_path) as kernel:
        kernel.run(LOAD)
        kernel.run("n = 1")
        ok(kernel.run(cell))
        ok(kernel.run("%slurm logout"))
        failed = kernel.reply(kernel.client.execute(cell, allow_stdin=False))
        assert failed.content["ename"] == "LoginNeededError"
        assert "Nothing was submitted" in failed.text
        ok(kernel.run("%slurm login"))
        assert kernel.run(jobs).text == "1\n"
        assert "attached" not in ok(kernel.run(cell)).text
        assert kernel.run(jobs).text == "2\n"


def attached_to(reply: Reply) -> str | None:
    """The job that the cell has said it attached to."""
    found = re.search(r"This cell's job (\w+) .*: attached to it", reply.text)
    return found and found[1]


def test_a_cell_attaches_only_to_the_job_that_got_the_same(
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
        # That one is no variable of the cell's, and never was.
        assert second.run(cell.replace("--in lr", "--in rate")).content["ename"] == "VariableError"
        # Nothing is left of what went in: the cell can only mean the job that is there.
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


def test_an_interrupted_job_goes_on_and_attach_brings_it_back(
    kernel: Kernel, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    request = kernel.start(
        "%%slurm --out x\n"
        "import os, time\n"
        "print('started', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}):\n"
        "    time.sleep(0.05)\n"
        "x = 'done'"
    )
    kernel.until(lambda message: "started" in message["content"].get("text", ""))
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request).content["ename"] == "Detached"
    gate.touch()
    kernel.until_card("done", request)
    assert ok(kernel.run("%slurm attach")).text == "started\n"
    assert kernel.run("print(x)").text == "done\n"


def test_a_job_cancelled_from_outside_fails_the_cell_and_says_so(
    kernel: Kernel, slurm_cluster: SlurmCluster
) -> None:
    request = kernel.start(
        "%%slurm\nimport os, time\nprint(os.environ['SLURM_JOB_ID'], flush=True)\ntime.sleep(600)"
    )
    heard = kernel.until(
        lambda m: m["msg_type"] == "stream" and m["parent_header"]["msg_id"] == request
    )
    slurm_cluster.run("scancel", heard["content"]["text"].strip())
    reply = kernel.reply(request)
    assert reply.content["ename"] == "CellFailed"
    assert "cancelled" in reply.content["evalue"]


def test_a_cell_whose_job_scancel_ended_is_another_job_when_it_runs_again(kernel: Kernel) -> None:
    cell = "%%slurm --detach\nimport time\ntime.sleep(600)"
    ok(kernel.run(cell))
    ok(kernel.run("cancelled = _\nslurm_id = cancelled.slurm_id"))
    ok(kernel.run("%scancel {slurm_id}"))
    ok(kernel.run(cell))
    ok(kernel.run("other = _\nother.cancel()"))
    assert kernel.run("print(cancelled.id != other.id, cancelled.state.name)").text == (
        "True CANCELLED\n"
    )


def test_a_hundred_megabytes_of_output_leave_the_notebook_and_the_kernel_small(
    kernel: Kernel, tmp_path: Path
) -> None:
    rss = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    ok(kernel.run("%%slurm\n1"))
    before_mib = int(kernel.run(rss).text)
    reply = ok(
        kernel.run("%%slurm --name flood\nfor n in range(1000):\n    print(n, 'x' * 100_000)")
    )
    after_mib = int(kernel.run(rss).text)
    assert after_mib - before_mib < 64

    sizes = [(_second(m), len(json.dumps(m["content"]))) for m in reply.messages]
    for start_s, _ in sizes:
        window = [size for at_s, size in sizes if start_s <= at_s < start_s + 3]
        assert sum(window) < 3_000_000  # what jupyter_server lets through (iopub_data_rate_limit)
        assert len(window) < 3_000
    saved_bytes = len(reply.text) + sum(
        len(str(message["content"]["data"])) for message in reply.displays()[-3:]
    )
    assert saved_bytes < 2 * MIB
    assert "MB more" in str(reply.displays()[-2:])

    log = tmp_path / "whole.log"
    job_id = kernel.run("print(get_ipython().run_line_magic('slurm', 'jobs').rows[0]['ID'])").text
    ok(kernel.run(f"%slurm logs {job_id.strip()} --to {log}"))
    lines = log.read_text().splitlines()
    assert [line.split()[0] for line in lines] == [str(n) for n in range(1000)]
    assert {len(line) - len(str(n)) for n, line in enumerate(lines)} == {100_001}


def _second(message: dict[str, dict[str, datetime]]) -> float:
    return message["header"]["date"].timestamp()


def test_slurms_own_commands_give_tables_and_their_own_errors(kernel: Kernel) -> None:
    assert "PARTITION" in kernel.run("t = %sinfo\nprint(t.rows[0])").text
    assert (
        "debug" in kernel.run("t = %squeue -o '%i|%P'\nt = %sinfo -o '%P|%a'\nprint(t.rows)").text
    )
    reply = kernel.run("%scontrol show job 999999999")
    assert reply.content["ename"] == "CommandError"
    assert "Invalid job id" in reply.content["evalue"]


def test_a_batch_script_gives_a_handle(kernel: Kernel) -> None:
    ok(kernel.run("%%sbatch -J mine -- 'a b' -n\n#!/bin/bash\n#SBATCH --time=1\necho $1, $2"))
    ok(kernel.run("job = _"))
    assert kernel.run("print(job.wait().state, repr(job.output))").text == (
        "COMPLETED 'a b, -n\\n'\n"
    )


def test_the_widget_and_the_tables_show_the_job(kernel: Kernel) -> None:
    ok(kernel.run("%%slurm --name seen\n1"))
    for word in ("", "jobs"):
        reply = ok(kernel.run(f"%slurm {word}"))
        assert "seen" in json.dumps([message["content"] for message in reply.messages])
    assert "debug" in json.dumps(ok(kernel.run("%slurm info")).messages, default=str)
    ok(kernel.run("%slurm queue"))
    ok(kernel.run("%slurm clusters"))
    assert "✔" in ok(kernel.run("%slurm doctor")).text
