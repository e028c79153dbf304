"""The supervisor: the output of a cell, and the end of its process."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from jupyter_slurm.errors import SignatureError
from jupyter_slurm.jobs.outcome.result import parse_result
from jupyter_slurm.wire import DisplayData, Hello, Stream
from tests.node.cells import BARE, RunCell, Runner


def out(text: str) -> Stream:
    return Stream(name="stdout", text=text)


def err(text: str) -> Stream:
    return Stream(name="stderr", text=text)


def wait_for(runner: Runner, process: subprocess.Popen[str], text: bytes) -> None:
    """Wait until the cell's output contains `text`."""
    output = runner.job_dir / "output.0.jsonl"
    while text not in (output.read_bytes() if output.exists() else b""):
        assert process.poll() is None
        time.sleep(0.005)


def test_first_record_is_hello(run: RunCell) -> None:
    hello = run("pass").outputs[0]
    assert isinstance(hello, Hello)
    assert (hello.python, hello.executable) == (sys.version_info[:3], sys.executable)


def test_result_is_signed_and_has_usage(run: RunCell) -> None:
    done = run("sum(i for i in range(100_000))")
    assert done.exit_code == 0
    assert done.stderr == ""
    result = done.result
    assert (result.status, result.exit_code, result.signal) == ("ok", 0, None)
    assert result.started_s <= result.ended_s
    assert result.peak_rss_mib > 1
    assert result.cpu_s > 0
    assert result.python == sys.version_info[:3]
    with pytest.raises(SignatureError):
        parse_result((done.job_dir / "result.0.json").read_bytes(), b"another key")


def test_files_of_the_runner_are_private(run: RunCell) -> None:
    job_dir = run("x = 1", names_out=["x"]).job_dir
    for name in ("output.0.jsonl", "result.0.json", "vars.0"):
        assert stat.S_IMODE((job_dir / name).stat().st_mode) == 0o600


# --- order --------------------------------------------------------------------------------------


@pytest.mark.parametrize("python", [BARE, (sys.executable,)], ids=["bare", "full"])
def test_stdout_and_stderr_keep_their_order(run: RunCell, python: tuple[str, ...]) -> None:
    done = run(
        "import sys\n"
        "for i in range(1000):\n"
        "    print('out', i)\n"
        "    print('err', i, file=sys.stderr)\n",
        python=python,
    )
    expected = []
    for i in range(1000):
        expected += [out(f"out {i}\n"), err(f"err {i}\n")]
    assert done.shown == expected


def test_subprocesses_and_displays_keep_their_order(run: RunCell) -> None:
    done = run(
        "import os, subprocess, sys\n"
        "for i in range(20):\n"
        "    print('before', end=' ')\n"
        "    os.system('echo system')\n"
        "    print('then', file=sys.stderr)\n"
        "    subprocess.run(['echo', 'run'])\n"
        "    display(i)\n"
        "    subprocess.run('echo error >&2', shell=True)\n"
    )
    expected: list[object] = []
    for i in range(20):
        expected += [out("before system\n"), err("then\n"), out("run\n")]
        expected += [DisplayData(data={"text/plain": str(i)}), err("error\n")]
    assert done.shown == expected


def test_output_of_c_code_is_captured(run: RunCell) -> None:
    done = run("import ctypes\nc = ctypes.CDLL(None)\nc.puts(b'from c'); c.fflush(None);")
    assert done.text() == "from c\n"


def test_records_have_the_time_of_their_output(run: RunCell) -> None:
    done = run("import sys, time\nprint(time.time())\nprint(time.time(), file=sys.stderr)")
    for name in ("stdout", "stderr"):
        # On a busy machine, a line may arrive in pieces.
        pieces = [one for one in done.outputs if isinstance(one, Stream) and one.name == name]
        assert pieces
        for piece in pieces:
            assert int(float(done.text(name))) <= piece.time_s <= time.time()


def test_incomplete_line_is_shown(runner: Runner) -> None:
    runner.prepare(
        "import time, pathlib\n"
        "print('epoch 1 ...', end='')\n"
        "while not pathlib.Path('go').exists():\n"
        "    time.sleep(0.01)\n"
    )
    process = runner.start()
    wait_for(runner, process, b"epoch 1 ...")
    (runner.job_dir.parent / "go").touch()
    assert runner.finish(process).text() == "epoch 1 ..."


# --- difficult text -----------------------------------------------------------------------------


@pytest.mark.parametrize("python", [BARE, (sys.executable,)], ids=["bare", "full"])
@pytest.mark.parametrize(
    "text",
    ["nul\0nul", "lone \udc80 surrogate \ud800", "\x1b[31mred\r\b", "日本語 🎉 é", "'\"\\$`\u2028"],
)
def test_difficult_text_is_unchanged(run: RunCell, text: str, python: tuple[str, ...]) -> None:
    done = run(f"print({text!r}, end='')\n{text!r}", python=python)
    # jobs/outcome/result.py decodes half of a surrogate pair as text.
    assert done.text() == text.encode("utf-8", "backslashreplace").decode()
    assert done.value == {"text/plain": repr(text)}


def test_invalid_utf8_is_replaced(run: RunCell) -> None:
    done = run(r"import sys; sys.stdout.buffer.write(b'a\xff\xfe\xc3'); print(end='')")
    assert done.text() == "a\ufffd\ufffd\ufffd"


# --- ends ---------------------------------------------------------------------------------------


def test_segfault_keeps_earlier_output(run: RunCell) -> None:
    done = run("import ctypes\nprint('before')\nctypes.string_at(0)")
    assert done.exit_code == 128 + signal.SIGSEGV
    assert done.result.status == "killed"
    assert done.result.signal == signal.SIGSEGV
    assert done.result.ename == "SIGSEGV"
    assert done.text() == "before\n"
    assert "Segmentation fault" in done.text("stderr")
    assert done.error.ename == "SIGSEGV"
    assert 'File "slurm cell' in done.text("stderr")
    assert "runner" not in done.text("stderr"), "the traceback contains our frames"


def test_os_exit_0_is_a_failure(run: RunCell) -> None:
    done = run("import os\nos._exit(0)")
    assert (done.exit_code, done.result.status) == (1, "killed")


def test_error_after_sigkill_suggests_more_memory(run: RunCell) -> None:
    done = run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert done.exit_code == 128 + signal.SIGKILL
    assert done.result.signal == signal.SIGKILL
    assert "memory" in (done.result.evalue or "")


def test_crash_after_the_cell_does_not_affect_its_result(run: RunCell) -> None:
    done = run("import atexit, os\natexit.register(os.abort)\nx = 1", names_out=["x"])
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert done.variables() == {"x": 1}


def test_background_process_does_not_delay_the_end_of_the_cell(run: RunCell) -> None:
    done = run("import subprocess\nchild = subprocess.Popen(['sleep', '100'])\nprint(child.pid)")
    os.kill(int(done.text()), signal.SIGKILL)
    assert done.result.status == "ok"


@pytest.mark.parametrize(
    ("child", "status", "shown"),
    [
        ("print('child')", 0, "child"),
        ("sys.exit(3)", 3, ""),
        ("raise ValueError('bad')", 1, "ValueError: bad"),
    ],
)
def test_forked_child_exits_as_in_python(run: RunCell, child: str, status: int, shown: str) -> None:
    done = run(
        "import os, sys\nwho = 'parent'\npid = os.fork()\n"
        f"if pid == 0:\n    who = 'child'\n    {child}\n"
        "else:\n    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\npid and status",
        names_out=("who", "status"),
    )
    assert done.result.status == "ok"
    assert done.variables() == {"who": "parent", "status": status}
    assert done.value["text/plain"] == str(status)
    printed = done.text() + done.text("stderr")
    assert shown in printed
    assert "runner" not in printed
    assert printed.strip() or not shown


def test_child_processes_do_not_affect_the_result(
    run: RunCell,
) -> None:
    done = run(
        "import multiprocessing, os, subprocess, sys, threading\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def double(n):\n    return 2 * n\n"
        "fork = multiprocessing.get_context('fork')\n"
        "with fork.Pool(2) as pool:\n    pooled = pool.map(double, range(3))\n"
        "with ProcessPoolExecutor(2, mp_context=fork) as pool:\n"
        "    mapped = list(pool.map(double, range(3)))\n"
        "failed = fork.Process(target=sys.exit, args=(3,)); failed.start(); failed.join()\n"
        "spawn = multiprocessing.get_context('spawn')\n"
        "spawned = spawn.Process(target=os.getpid); spawned.start(); spawned.join()\n"
        "def in_thread():\n"
        "    if (pid := os.fork()) == 0:\n        return\n"
        "    of_thread.append(os.waitpid(pid, 0)[1])\n"
        "of_thread = []\n"
        "thread = threading.Thread(target=in_thread); thread.start(); thread.join()\n"
        "r, w = os.pipe()\n"
        "if (pid := os.fork()) == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n        os.write(w, b'daemon')\n"
        "    sys.exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "told = os.read(r, 100)\n"
        "ran = subprocess.run([sys.executable, '-c', 'raise SystemExit(4)']).returncode\n"
        "found = pooled, mapped, failed.exitcode, spawned.exitcode, of_thread, told, ran",
        names_out=("found",),
    )
    assert done.result.status == "ok", done.text("stderr")
    doubled = [0, 2, 4]
    assert done.variables() == {"found": (doubled, doubled, 3, 0, [0], b"daemon", 4)}


# --- signals ------------------------------------------------------------------------------------

SAVES = """
import signal, time
try:
    print('ready\\n', end='')  # in one piece: what is there of it may be seen at once
    time.sleep(100)
except KeyboardInterrupt:
    print('saving')
    for again in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.raise_signal(again)
    saved = 'all'
"""


def interrupt(runner: Runner, *numbers: int) -> subprocess.Popen[str]:
    """Start the cell, and signal the supervisor after the first output."""
    process = runner.start()
    wait_for(runner, process, b"ready")
    for number in numbers:
        process.send_signal(number)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_cell_can_handle_a_signal(runner: Runner, number: signal.Signals) -> None:
    runner.prepare(SAVES, names_out=["saved"])
    done = runner.finish(interrupt(runner, number))
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert done.result.interrupted_by == number.name
    assert done.text() == "ready\nsaving\n"
    assert done.variables() == {"saved": "all"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_unhandled_signal_interrupts_the_cell(runner: Runner, number: signal.Signals) -> None:
    runner.prepare("import time\nprint('ready')\ntime.sleep(100)", names_out=["x"])
    done = runner.finish(interrupt(runner, number, number, number))
    assert done.exit_code == 128 + number
    assert done.result.status == "interrupted"
    assert done.result.interrupted_by == number.name
    assert done.error.ename == done.result.ename == "KeyboardInterrupt"
    assert done.result.variables is None


@pytest.mark.parametrize(
    "wait",
    [
        "import asyncio\nprint('ready')\nawait asyncio.sleep(100)",
        "import subprocess\nprint('ready')\nsubprocess.run(['sleep', '100'])",
        "import threading\nprint('ready')\nthreading.Event().wait()",
        "print('ready')\nwhile True: display('x' * 10_000)",
    ],
    ids=["await", "subprocess", "event", "display"],
)
def test_interrupt_reaches_a_blocked_cell(runner: Runner, wait: str) -> None:
    runner.prepare(wait)
    done = runner.finish(interrupt(runner, signal.SIGTERM))
    assert (done.exit_code, done.result.status) == (143, "interrupted")
    assert "runner" not in "".join(done.result.traceback), "the traceback contains our frames"
    assert done.error.ename == "KeyboardInterrupt"
    shown = [o for o in done.outputs if isinstance(o, Stream) and o.name == "stderr"]
    assert shown == []


def test_sigterm_ends_worker_processes(run: RunCell) -> None:
    done = run(
        "import multiprocessing, time\n"
        "worker = multiprocessing.get_context('fork').Process(target=time.sleep, args=(100,))\n"
        "worker.start(); worker.terminate(); worker.join()\n"
        "worker.exitcode"
    )
    assert done.value == {"text/plain": "-15"}
    assert done.text("stderr") == ""


# --- full disk ----------------------------------------------------------------------------------


def limited(bytes_: int) -> tuple[str, ...]:
    """Return a Python whose files cannot exceed `bytes_`. Further writes fail as on a full disk."""
    return ("prlimit", f"--fsize={bytes_}", sys.executable, "-u")


def test_full_disk_does_not_stop_the_cell(run: RunCell) -> None:
    done = run("for _ in range(200): print('z' * 999)\nx = 5", python=limited(20_000))
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert "cannot write output" in done.stderr
    lines = (done.job_dir / "output.0.jsonl").read_bytes().splitlines()
    assert all(json.loads(line) for line in lines)
    assert 0 < len(done.text()) < 200_000


def test_runner_with_an_unwritable_folder_exits_with_code_74(
    runner: Runner,
) -> None:
    runner.prepare("open('was-run', 'w')")
    (runner.job_dir / "output.0.jsonl").mkdir()
    process = runner.start()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 74
    assert "the cell did not run" in stderr
    assert not (runner.job_dir.parent / "was-run").exists()
