"""A kernel in a job of a real Slurm: from the first cell to every kind of end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from jupyter_slurm.wire import JobState
from tests.kernel.conftest import PATIENCE_S, Home, MakeHome, RemoteKernel
from tests.ssh.waiting import wait_until


def nothing_left(home: Home, job_id: str) -> None:
    """Wait until no process in the job's folder is left on this machine, which is the node."""
    folder = home.api.job(job_id).job_dir
    wait_until(lambda: not [p for p in psutil.process_iter(["cmdline"]) if _of(p, folder)])


def _of(process: psutil.Process, folder: str) -> bool:
    return any(folder in word for word in process.info["cmdline"] or ())


def test_cells_run_on_the_node_and_leave_nothing_behind(home: Home) -> None:
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


def test_cells_wait_for_the_job_and_show_the_reason(home: Home) -> None:
    home.add("--hold", "--mem", "300M")
    kernel = home.start()  # the kernel is available before its job runs
    first, second = kernel.start("print('first')"), kernel.start("print('second')")
    kernel.until_shown(first, "waiting")
    kernel.until_shown(first, "On hold")
    assert not kernel.shown(second)
    asked, answered_to = kernel.client.complete("pri"), None
    while answered_to != asked:  # a waiting client may have requested kernel info repeatedly
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


def test_waiting_cell_can_be_interrupted_and_a_restart_keeps_the_job(home: Home) -> None:
    home.add("--hold")
    kernel = home.start()
    first, second = kernel.start("1"), kernel.start("2")
    kernel.until_shown(first, "waiting")
    # The answer to a later request is immediate, so both have arrived.
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


def test_scancel_is_reported_and_only_a_restart_resubmits(home: Home) -> None:
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


def test_kernel_survives_its_killed_proxy(home: Home, tmp_path: Path) -> None:
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
    assert len(home.jobs()) == 1, "another job was submitted"


def test_notebook_finds_its_kernel_after_a_jupyter_restart(home: Home) -> None:
    home.add()
    kernel = home.start(JPY_SESSION_NAME="/a/notebook.ipynb")
    kernel.value("kept = 42; print()")
    home.kill_proxy(kernel)
    other = home.start(JPY_SESSION_NAME="/another.ipynb")
    again = home.start(JPY_SESSION_NAME="/a/notebook.ipynb")
    assert again.value("print(kept)") == "42\n"
    assert other.run("kept").content["ename"] == "NameError"
    third = home.start(JPY_SESSION_NAME="/a/notebook.ipynb")
    assert third.run("kept").content["ename"] == "NameError", "the two clients do not share a job"
    assert len(home.jobs()) == 3


def test_kernel_survives_a_killed_agent_and_its_own_crash(
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


def test_missing_ipykernel_is_reported_with_a_hint(make_home: MakeHome) -> None:
    home = make_home(python="/usr/bin/python3")
    home.add()
    reply = home.start().run("1")
    assert reply.content["ename"] == "JobEnded"
    assert "has no ipykernel" in reply.content["evalue"]
    assert "pip install ipykernel" in "".join(reply.content["traceback"])
