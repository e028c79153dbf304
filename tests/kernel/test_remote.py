"""A kernel in a job, on a real Slurm: from the first cell to every kind of end."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.wire import JobState
from tests.kernel.conftest import PATIENCE_S, Home, MakeHome, RemoteKernel
from tests.ssh.processes import runs
from tests.ssh.waiting import wait_until


def nothing_left(home: Home, job_id: str) -> None:
    """No process of the job's folder, here where its node is."""
    folder = home.api.job(job_id).job_dir
    wait_until(lambda: not [p for p in psutil.process_iter(["cmdline"]) if _of(p, folder)])


def _of(process: psutil.Process, folder: str) -> bool:
    return any(folder in word for word in process.info["cmdline"] or ())


def test_cells_run_on_the_node_in_its_environment_ask_here_and_leave_nothing(home: Home) -> None:
    token = f"t{os.getpid()}x"
    home.add("--mem", "300M", "--env", "GREETING=good day", f"--env=TOKEN={token}")
    kernel = home.start()
    where = kernel.value("import os; x = 1; print(os.environ['SLURM_JOB_ID'])")
    assert where.strip() == kernel.job().slurm_id
    assert kernel.value("x += 1; print(x)") == "2\n"
    (job,) = home.jobs()
    assert (job.state, job.idle_s) == (JobState.RUNNING, 3600)
    reply = kernel.run("1 / 0")
    assert reply.content["ename"] == "ZeroDivisionError"
    told = kernel.value("import os; print(os.environ['GREETING'], os.environ['TOKEN'])")
    assert told == f"good day {token}\n"
    words = [one.info["cmdline"] or () for one in psutil.process_iter(["cmdline"])]
    assert not [one for one in words if any(token in word for word in one)]
    input_is_asked_here(kernel)
    kernel.manager.shutdown_kernel()
    assert home.until_job(job.id).state is JobState.COMPLETED
    nothing_left(home, job.id)


def input_is_asked_here(kernel: RemoteKernel) -> None:
    request = kernel.client.execute("print(input('who? ') + '!')", allow_stdin=True)
    asked = kernel.client.get_stdin_msg(timeout=PATIENCE_S)
    assert asked["content"]["prompt"] == "who? "
    kernel.client.input("me")
    assert kernel.reply(request).text == "me!\n"


def test_a_child_that_a_cell_forks_runs_no_later_cell_and_is_not_left_behind(home: Home) -> None:
    home.add()
    kernel = home.start()
    kernel.value("import os; parent = os.getpid()\nif os.fork() == 0: pass")
    for _ in range(3):
        assert kernel.value("print(os.getpid() == parent)") == "True\n"
    (job,) = home.jobs()
    kernel.manager.shutdown_kernel()
    home.until_job(job.id)
    nothing_left(home, job.id)


def test_cells_wait_with_the_job_and_show_why(home: Home) -> None:
    home.add("--hold", "--mem", "300M")
    kernel = home.start()  # is there while its job is not
    first, second = kernel.start("print('first')"), kernel.start("print('second')")
    kernel.until_shown(first, "waiting")
    kernel.until_shown(first, "On hold")
    assert not kernel.shown(second)
    asked, answered_to = kernel.client.complete("pri"), None
    while answered_to != asked:  # a client that waited long has asked more than once who it is
        answered_to = kernel.client.get_shell_msg(timeout=PATIENCE_S)["parent_header"]["msg_id"]
    home.api.release(kernel.job().id)
    answered = kernel.reply(first)
    assert answered.text == "first\n"
    kinds = [m["msg_type"] for m in answered.messages if m["msg_type"] != "status"]
    assert kinds.index("clear_output") < kinds.index("stream")
    assert kinds.count("display_data") == 1
    ids = {
        m["content"]["transient"]["display_id"]
        for m in answered.messages
        if "display_data" in m["msg_type"]
    }
    assert len(ids) == 1
    assert kernel.reply(second).text == "second\n"
    assert len(home.jobs()) == 1


def test_a_cell_that_waits_is_interrupted_at_once_and_a_restart_keeps_the_job(home: Home) -> None:
    home.add("--hold")
    kernel = home.start()
    first, second = kernel.start("1"), kernel.start("2")
    kernel.until_shown(first, "waiting")
    # What was sent behind them is answered at once: both have arrived.
    kernel.reply(kernel.client.kernel_info())
    kernel.manager.interrupt_kernel()
    assert kernel.reply(first).content["ename"] == "KeyboardInterrupt"
    assert kernel.reply(second).content["status"] == "aborted"
    kernel.until_shown(kernel.start("1"), "waiting")
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(timeout=PATIENCE_S)
    home.api.release(kernel.job().id)
    assert kernel.value("print(3)") == "3\n"
    assert len(home.jobs()) == 1


def test_scancel_is_told_and_only_a_restart_submits_again(home: Home) -> None:
    home.add()
    kernel = home.start()
    request = kernel.start("print('on', flush=True)\nimport time; time.sleep(1000)")
    kernel.until(lambda m: m["msg_type"] == "stream" and "on" in m["content"]["text"])
    home.cluster.run("scancel", str(kernel.job().slurm_id))
    reply = kernel.reply(request)
    assert reply.content["ename"] == "JobEnded"
    assert "cancelled" in reply.content["evalue"]
    assert "Cancelled." in reply.content["evalue"]
    assert "Restart the kernel" in "".join(reply.content["traceback"])
    again = kernel.run("1")
    assert again.content["ename"] == "JobEnded"
    assert kernel.manager.is_alive()
    assert len(home.jobs()) == 1
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(timeout=PATIENCE_S)
    assert kernel.value("print(5)") == "5\n"
    assert len(home.jobs()) == 2


def test_time_limit_is_told(home: Home) -> None:
    home.add("--time", "60m")
    kernel = home.start()
    request = kernel.start("print('on', flush=True)\nimport time; time.sleep(1000)")
    kernel.until(lambda m: m["msg_type"] == "stream")
    home.cluster.end_time_of(str(kernel.job().slurm_id))
    reply = kernel.reply(request)
    assert reply.content["ename"] == "JobEnded"
    assert "timed out" in reply.content["evalue"]
    nothing_left(home, kernel.job().id)


def test_a_kernel_whose_proxy_was_killed_is_found_again_until_its_job_has_ended(
    home: Home, tmp_path: Path
) -> None:
    home.add()
    kernel = home.start()
    kernel.value("import pathlib, time; kept = 42; print()")
    go = tmp_path / "go"
    kernel.start(f"print('in')\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(.05)")
    kernel.until(lambda m: m["msg_type"] == "stream" and "in" in m["content"]["text"])
    home.kill_proxy(kernel)
    go.touch()
    again = home.start(file=kernel.manager.connection_file)
    assert again.value("print(kept)") == "42\n"
    (job,) = home.jobs()
    assert job.state is JobState.RUNNING
    home.kill_proxy(again)
    home.cluster.run("scancel", str(job.slurm_id))
    again.until_job()
    last = home.start(file=kernel.manager.connection_file)
    assert last.run("1").content["ename"] == "JobEnded"
    assert len(home.jobs()) == 1, "another was submitted"


def test_a_notebook_finds_its_kernel_after_jupyter_was_gone(home: Home) -> None:
    home.add()
    kernel = home.start(JPY_SESSION_NAME="/a/notebook.ipynb")
    kernel.value("kept = 42; print()")
    home.kill_proxy(kernel)
    other = home.start(JPY_SESSION_NAME="/another.ipynb")
    again = home.start(JPY_SESSION_NAME="/a/notebook.ipynb")
    assert again.value("print(kept)") == "42\n"
    assert other.run("kept").content["ename"] == "NameError"
    third = home.start(JPY_SESSION_NAME="/a/notebook.ipynb")
    assert third.run("kept").content["ename"] == "NameError", "two clients have one job"
    assert len(home.jobs()) == 3


def test_a_notebook_that_was_renamed_finds_its_kernel_after_jupyter_was_gone(home: Home) -> None:
    home.add()
    kernel = home.start(JPY_SESSION_NAME="/a/notebook.ipynb")
    kernel.value("kept = 42; print()")
    home.api.notebook_moved("/a", "/b")
    home.kill_proxy(kernel)
    other = home.start(JPY_SESSION_NAME="/a/notebook.ipynb")
    again = home.start(JPY_SESSION_NAME="/b/notebook.ipynb")
    assert again.value("print(kept)") == "42\n"
    assert other.run("kept").content["ename"] == "NameError"


def test_jupyter_that_is_gone_takes_its_proxy_along(home: Home) -> None:
    home.add()
    code = (
        "from jupyter_client.manager import KernelManager\n"
        "m = KernelManager(kernel_name='far'); m.start_kernel()\n"
        "print(m.provisioner.pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as jupyter:
        assert jupyter.stdout is not None
        proxy = psutil.Process(int(jupyter.stdout.readline()))
        wait_until(lambda: bool(home.jobs()))
        home.until_job(home.jobs()[0].id, JobState.RUNNING)
        jupyter.kill()
    psutil.wait_procs([proxy], timeout=PATIENCE_S)
    assert not runs(proxy)
    assert home.jobs()[0].state is JobState.RUNNING


def test_nobody_connected_for_the_profiles_time_ends_the_job(make_home: MakeHome) -> None:
    home = make_home(idle_s=45.0)  # time enough to come for the first time on a busy machine
    home.add()
    kernel = home.start()
    kernel.value("print(1)")
    home.kill_proxy(kernel)
    job = kernel.until_job()
    assert job.state is JobState.COMPLETED
    assert str(job.why) == "Nobody had been connected to its kernel for 45 s."
    nothing_left(home, job.id)


def test_an_agent_that_is_killed_is_nothing_to_the_kernel_and_one_that_dies_goes_on_in_its_job(
    home: Home,
) -> None:
    home.add()
    kernel = home.start()
    kernel.value("x = 1; print()")
    request = kernel.start("import time\nfor i in range(30): print(i, flush=True); time.sleep(.05)")
    kernel.until(lambda m: m["msg_type"] == "stream" and "5" in m["content"]["text"])
    os.kill(home.api.status().pid, signal.SIGKILL)
    assert kernel.reply(request).text == "".join(f"{i}\n" for i in range(30))
    assert kernel.value("print(x)") == "1\n"
    reply = kernel.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert reply.content["ename"] == "KernelDied"
    assert "signal 9" in reply.content["evalue"]
    assert kernel.value("print(1)") == "1\n"
    assert len(home.jobs()) == 1


def test_a_python_without_ipykernel_is_told_with_the_remedy(make_home: MakeHome) -> None:
    home = make_home(python="/usr/bin/python3")
    home.add()
    reply = home.start().run("1")
    assert reply.content["ename"] == "JobEnded"
    assert "has no ipykernel" in reply.content["evalue"]
    assert "pip install ipykernel" in "".join(reply.content["traceback"])


def test_what_sbatch_refuses_is_told(home: Home) -> None:
    home.add("--partition", "nosuch")
    kernel = home.start()
    reply = kernel.run("1")
    assert reply.content["ename"] == "JobEnded"
    assert "nosuch" in reply.content["evalue"]
    assert kernel.manager.is_alive()


@pytest.mark.skipif(os.getuid() != 0, reason="another user can be had by root only")
def test_another_user_of_the_node_gets_nothing(home: Home) -> None:
    home.add()
    kernel = home.start()
    kernel.value("print(1)")
    code = (
        "import os, socket; os.setgid(65534); os.setuid(65534)\n"
        f"s = socket.socket(socket.AF_UNIX); s.connect('\\0jslurm-{kernel.job().id}')\n"
        "try: print(s.recv(1))\nexcept ConnectionError: print(b'')"
    )
    assert home.cluster.run("python3", "-c", code).stdout == "b''\n"
    assert kernel.value("print(2)") == "2\n"


def test_a_kernel_asks_the_cluster_little(home: Home) -> None:
    home.add("--mem", "300M")
    before = command_counts(home)
    kernels = [home.start(), home.start()]
    for kernel in kernels:
        kernel.value("print(1)")
    jobs = home.jobs()
    # What Slurm gave it is asked once, when the queue first shows that it runs.
    wait_until(lambda: all(home.api.job(job.id).usage is not None for job in jobs))
    begun = command_counts(home) - before
    assert {name: begun[name] for name in ("sbatch", "srun", "scontrol")} == {
        "sbatch": 2,
        "srun": 2 + 1,  # its version, once for the cluster
        "scontrol": 2,
    }
    for kernel, job in zip(kernels, reversed(jobs), strict=True):
        before, began_s = command_counts(home), time.monotonic()
        kernel.manager.shutdown_kernel()
        assert home.until_job(job.id).state is JobState.COMPLETED
        took_s = time.monotonic() - began_s
        ended = command_counts(home) - before
        assert ended["scancel"] == 1
        # Once whether the id is that job's still; then, after pauses that double, from a quarter of
        # a second to three seconds, how it has ended.
        assert 2 <= ended["scontrol"] <= 2 + math.log2(max(1.0, took_s / 0.25)) + took_s / 3
    assert command_counts(home)["srun"] == begun["srun"]


def command_counts(home: Home) -> Counter[str]:
    """How often each of Slurm's commands was run."""
    counts = home.api.status().commands.items()
    return Counter({name.removeprefix("local "): count for name, count in counts})
