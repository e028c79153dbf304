"""The supervisor: what a cell writes, in order and whole; how its process ends."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

from jupyter_slurm.errors import SignatureError
from jupyter_slurm.jobs.outcome.result import parse_result
from jupyter_slurm.jobs.submission import payload
from jupyter_slurm.wire import DisplayData, ErrorOutput, ExecuteResult, Hello, Stream
from tests.node.cells import BARE, FULL, RunCell, Runner


def out(text: str) -> Stream:
    return Stream(name="stdout", text=text)


def err(text: str) -> Stream:
    return Stream(name="stderr", text=text)


def wait_for(runner: Runner, process: subprocess.Popen[str], text: bytes) -> None:
    """Return when the cell's output holds `text`."""
    output = runner.job_dir / "output.0.jsonl"
    while text not in (output.read_bytes() if output.exists() else b""):
        assert process.poll() is None
        time.sleep(0.005)


def test_first_record_says_who_runs_the_cell(run: RunCell) -> None:
    hello = run("pass").outputs[0]
    assert isinstance(hello, Hello)
    assert hello.python == sys.version_info[:3]
    assert hello.ipython == version("ipython")
    assert hello.host == os.uname().nodename
    assert hello.pid > 0
    assert hello.time_s > 0


def test_python_without_ipython_says_so(run: RunCell) -> None:
    hello = run("pass", python=BARE).outputs[0]
    assert isinstance(hello, Hello)
    assert hello.ipython is None


def test_result_of_a_good_cell_is_signed_and_measured(run: RunCell) -> None:
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


def test_neither_process_imports_what_takes_milliseconds(run: RunCell) -> None:
    done = run("import sys\nprint({'ast', 'hashlib'} & {*sys.modules})", python=BARE)
    assert done.text() == "set()\n"
    sign = (
        "import sys; sys.path.insert(0, sys.argv[1]); import runner\n"
        "print(runner.Signer(sys.argv[2]).sign(b'body'), {'hashlib', 'hmac'} & {*sys.modules})"
    )
    for key in (done.key, b"short", b"longer than a block of SHA-256 " * 3):
        (done.job_dir / "key").write_bytes(key)
        words = [*BARE, "-c", sign, str(done.job_dir), str(done.job_dir / "key")]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert said == f"{hmac.new(key.strip(), b'body', 'sha256').hexdigest()} set()\n"


def test_what_the_runner_writes_is_for_its_owner_alone(run: RunCell) -> None:
    job_dir = run("x = 1", names_out=["x"]).job_dir
    for name in ("output.0.jsonl", "result.0.json", "vars.0"):
        assert stat.S_IMODE((job_dir / name).stat().st_mode) == 0o600


def test_runner_leaves_nothing_but_its_files(run: RunCell) -> None:
    before_and_after = {"output.0.jsonl", "result.0.json"}
    done = run("x = 1")
    names = {path.name for path in done.job_dir.iterdir()}
    sent = {name for name in names if name.startswith("runner")}
    rest = {"cell.py", "task.json", "key", "cloudpickle.zip"}
    assert names == before_and_after | sent | rest
    assert sent == set(payload.needed_files(variables=False))


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


def test_output_of_c_code_is_kept(run: RunCell) -> None:
    done = run("import ctypes\nc = ctypes.CDLL(None)\nc.puts(b'from c'); c.fflush(None);")
    assert done.text() == "from c\n"


def test_each_record_has_the_time_when_it_was_written(run: RunCell) -> None:
    done = run("import sys, time\nprint(time.time())\nprint(time.time(), file=sys.stderr)")
    for name in ("stdout", "stderr"):
        # On a busy machine a line may come in pieces.
        pieces = [one for one in done.outputs if isinstance(one, Stream) and one.name == name]
        assert pieces
        for piece in pieces:
            assert int(float(done.text(name))) <= piece.time_s <= time.time()


def test_a_piece_of_a_line_is_shown_before_the_line_ends(runner: Runner) -> None:
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


def test_progress_bar_keeps_its_carriage_returns(run: RunCell) -> None:
    done = run("from tqdm import tqdm\nfor _ in tqdm(range(3), mininterval=0): pass")
    text = done.text("stderr")
    assert text.count("\r") >= 3
    assert "3/3" in text


# --- difficult text -----------------------------------------------------------------------------


@pytest.mark.parametrize("python", [BARE, (sys.executable,)], ids=["bare", "full"])
@pytest.mark.parametrize(
    "text",
    ["nul\0nul", "lone \udc80 surrogate \ud800", "\x1b[31mred\r\b", "日本語 🎉 é", "'\"\\$`\u2028"],
)
def test_difficult_text_survives(run: RunCell, text: str, python: tuple[str, ...]) -> None:
    done = run(f"print({text!r}, end='')\n{text!r}", python=python)
    # Half a pair is told as text where it is read (jobs/outcome/result.py).
    assert done.text() == text.encode("utf-8", "backslashreplace").decode()
    assert done.value == {"text/plain": repr(text)}


def test_surrogate_that_is_cut_in_two_by_the_pipe_survives(run: RunCell) -> None:
    text = r"\udc80" * 100_000
    assert run("print('x' + '\\udc80' * 100_000, end='')").text() == "x" + text


def test_bytes_that_are_no_utf8_are_replaced(run: RunCell) -> None:
    done = run(r"import sys; sys.stdout.buffer.write(b'a\xff\xfe\xc3'); print(end='')")
    assert done.text() == "a\ufffd\ufffd\ufffd"


def test_character_that_is_written_in_two_pieces_is_one(run: RunCell) -> None:
    done = run("import os\nfor byte in '日é'.encode(): os.write(1, bytes([byte]))")
    assert done.text() == "日é"


def test_very_long_line_comes_in_pieces_of_at_most_64_kib(run: RunCell) -> None:
    done = run("print('x' * 1_000_000)")
    assert done.text() == "x" * 1_000_000 + "\n"
    assert all(len(o.text) <= 65536 for o in done.outputs if isinstance(o, Stream))


def test_output_of_100_mb_is_whole_and_passes_through_little_memory(runner: Runner) -> None:
    runner.prepare("line = 'y' * 9_999\nfor _ in range(10_000): print(line)")
    process = runner.start()
    # VmHWM of the supervisor itself: it has to be read before it is gone.
    peak_kib = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as file:  # noqa: PTH123
                found = [line.split()[1] for line in file if line.startswith("VmHWM")]
        except OSError:
            break
        peak_kib = max([peak_kib, *map(int, found)])
        time.sleep(0.005)
    done = runner.finish(process)
    assert done.exit_code == 0
    assert 0 < peak_kib < 40_000
    assert len(done.text()) == 100_000_000


# --- ends ---------------------------------------------------------------------------------------


def test_segfault_is_told_with_what_was_written_before(run: RunCell) -> None:
    done = run("import ctypes\nprint('before')\nctypes.string_at(0)")
    assert done.exit_code == 128 + signal.SIGSEGV
    assert done.result.status == "killed"
    assert done.result.signal == signal.SIGSEGV
    assert done.result.ename == "SIGSEGV"
    assert done.text() == "before\n"
    assert "Segmentation fault" in done.text("stderr")
    assert done.error.ename == "SIGSEGV"
    assert 'File "slurm cell' in done.text("stderr")
    assert "runner" not in done.text("stderr"), "frames of ours"


def test_frames_of_ours_are_left_out_of_a_crash_that_is_written_slowly(run: RunCell) -> None:
    """Faulthandler writes a line in pieces, between which a loaded node may let time pass."""
    done = run(
        "import os, sys, time\n"
        "path = os.path.abspath(sys.modules['runner_cell'].__file__)\n"
        "path = path.encode('ascii', 'backslashreplace')\n"
        "frame = b'  File \"' + path + b'\", line 6 in run\\n'\n"
        "pieces = [frame[at : at + 20] for at in range(0, len(frame), 20)]\n"
        "for piece in [b'Fatal Python error\\n', *pieces, b'  a line of its own']:\n"
        "    os.write(2, piece)\n"
        "    time.sleep(0.03)\n"
    )
    assert done.text("stderr") == "Fatal Python error\n  a line of its own"


def test_os_exit_is_no_success(run: RunCell) -> None:
    done = run("import os\nprint('before')\nos._exit(3)")
    assert (done.exit_code, done.result.status, done.result.exit_code) == (3, "killed", 3)
    assert done.result.signal is None
    assert "exit code 3" in (done.result.evalue or "")
    assert done.text() == "before\n"


def test_os_exit_0_is_no_success_either(run: RunCell) -> None:
    done = run("import os\nos._exit(0)")
    assert (done.exit_code, done.result.status) == (1, "killed")


def test_kill_names_memory_as_the_likely_cause(run: RunCell) -> None:
    done = run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert done.exit_code == 128 + signal.SIGKILL
    assert done.result.signal == signal.SIGKILL
    assert "memory" in (done.result.evalue or "")


def test_crash_after_the_cells_end_does_not_undo_it(run: RunCell) -> None:
    done = run("import atexit, os\natexit.register(os.abort)\nx = 1", names_out=["x"])
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert done.variables() == {"x": 1}


def test_what_runs_at_exit_is_shown(run: RunCell) -> None:
    done = run("import atexit\natexit.register(print, 'bye')")
    assert done.text() == "bye\n"


def test_background_process_does_not_hold_up_the_end(run: RunCell) -> None:
    done = run("import subprocess\nchild = subprocess.Popen(['sleep', '100'])\nprint(child.pid)")
    os.kill(int(done.text()), signal.SIGKILL)
    assert done.result.status == "ok"


def test_background_process_that_never_stops_writing_does_not_hold_up_the_end(
    run: RunCell,
) -> None:
    done = run(
        "import subprocess, sys\n"
        "loop = ['sh', '-c', 'while :; do echo y; done']\n"
        "print(subprocess.Popen(loop).pid, file=sys.stderr)"
    )
    with contextlib.suppress(ProcessLookupError):  # nobody reads the pipe any more: SIGPIPE
        os.kill(int(done.text("stderr")), signal.SIGKILL)
    assert done.result.status == "ok"


def test_process_that_the_cell_forks_shares_its_streams(run: RunCell) -> None:
    done = run(
        "import os\n"
        "if os.fork() == 0:\n"
        "    print('child'); display('shown'); os._exit(0)\n"
        "os.wait(); print('parent')"
    )
    assert done.shown == [out("child\n'shown'\nparent\n")]


@pytest.mark.parametrize("python", [FULL, BARE], ids=["full", "bare"])
@pytest.mark.parametrize(
    ("child", "status", "shown"),
    [
        ("print('child')", 0, "child"),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('stopped')", 1, "stopped"),
        ("sys.exit()", 0, ""),
        ("raise ValueError('bad')", 1, "ValueError: bad"),
    ],
)
def test_forked_child_that_falls_off_the_end_ends_as_in_python(
    run: RunCell, python: Sequence[str], child: str, status: int, shown: str
) -> None:
    done = run(
        "import os, sys\nwho = 'parent'\npid = os.fork()\n"
        f"if pid == 0:\n    who = 'child'\n    {child}\n"
        "else:\n    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\npid and status",
        names_out=("who", "status"),
        python=python,
    )
    assert done.result.status == "ok"
    assert done.variables() == {"who": "parent", "status": status}
    assert done.value["text/plain"] == str(status)
    printed = done.text() + done.text("stderr")
    assert shown in printed
    assert "runner" not in printed
    assert printed.strip() or not shown


def test_forked_child_that_outlives_the_cell_leaves_its_result_alone(run: RunCell) -> None:
    done = run(
        "import os, threading, time\n"
        "threading.Thread(target=time.sleep, args=(0.5,)).start()\n"
        "if os.fork() == 0:\n    time.sleep(0.1); who = 'child'\n"
        "else:\n    who = 'parent'",
        names_out=("who",),
    )
    assert done.variables() == {"who": "parent"}


def test_forked_child_writes_its_files_waits_for_its_threads_and_removes_nothing(
    run: RunCell,
) -> None:
    done = run(
        "import atexit, os, tempfile, threading, time, IPython\n"
        "kept = tempfile.TemporaryDirectory()\n"
        "if os.fork() == 0:\n"
        "    file = open('child.txt', 'w'); file.write('written')\n"
        "    def late():\n        time.sleep(0.1); open('late.txt', 'w').write('late')\n"
        "    threading.Thread(target=late).start()\n"
        "else:\n"
        "    os.wait()\n"
        "    found = open('child.txt').read() + open('late.txt').read(), os.path.isdir(kept.name)\n"
        "    found += (os.path.isdir(IPython.get_ipython().ipython_dir),)",
        names_out=("found",),
    )
    assert done.variables() == {"found": ("writtenlate", True, True)}


def test_process_pools_daemons_and_children_of_threads_leave_the_result_alone(
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
    """Start the cell, and send signals to the supervisor once it has printed."""
    process = runner.start()
    wait_for(runner, process, b"ready")
    for number in numbers:
        process.send_signal(number)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_signal_that_the_cell_handles_lets_it_save_and_end_well(
    runner: Runner, number: signal.Signals
) -> None:
    runner.prepare(SAVES, names_out=["saved"])
    done = runner.finish(interrupt(runner, number))
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert done.result.interrupted_by == number.name
    assert done.text() == "ready\nsaving\n"
    assert done.variables() == {"saved": "all"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_that_nobody_handles_interrupts_the_cell(
    runner: Runner, number: signal.Signals
) -> None:
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
def test_cell_is_interrupted_whatever_it_waits_for(runner: Runner, wait: str) -> None:
    runner.prepare(wait)
    done = runner.finish(interrupt(runner, signal.SIGTERM))
    assert (done.exit_code, done.result.status) == (143, "interrupted")
    assert "runner" not in "".join(done.result.traceback), "frames of ours"
    assert done.error.ename == "KeyboardInterrupt"
    shown = [o for o in done.outputs if isinstance(o, Stream) and o.name == "stderr"]
    assert shown == []


def test_signal_to_every_process_of_the_job_is_one_interrupt(runner: Runner) -> None:
    runner.prepare("import os\n" + SAVES.replace("'ready", "f'ready {os.getpid()}"))
    process = interrupt(runner)
    text = (runner.job_dir / "output.0.jsonl").read_text()
    pid = int(text.partition("ready ")[2].partition("\\n")[0])
    for target in (pid, process.pid, pid, process.pid):
        with suppress(ProcessLookupError):  # it is already done
            os.kill(target, signal.SIGTERM)
    done = runner.finish(process)
    assert (done.result.status, done.result.interrupted_by) == ("ok", "SIGTERM")


def test_signal_after_the_cells_end_ends_what_lingers(runner: Runner) -> None:
    runner.prepare(
        "import atexit, time\ndef linger():\n    print('ready')\n    time.sleep(100)\n"
        "atexit.register(linger)\nx = 1",
        names_out=["x"],
    )
    done = runner.finish(interrupt(runner, signal.SIGTERM))
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert done.result.interrupted_by is None


def test_worker_processes_end_by_sigterm_as_ever(run: RunCell) -> None:
    done = run(
        "import multiprocessing, time\n"
        "worker = multiprocessing.get_context('fork').Process(target=time.sleep, args=(100,))\n"
        "worker.start(); worker.terminate(); worker.join()\n"
        "worker.exitcode"
    )
    assert done.value == {"text/plain": "-15"}
    assert done.text("stderr") == ""


def test_error_after_an_interrupt_is_an_error(runner: Runner) -> None:
    runner.prepare(
        "import time\n"
        "try:\n    print('ready')\n    time.sleep(100)\nexcept KeyboardInterrupt:\n    1 / 0"
    )
    done = runner.finish(interrupt(runner, signal.SIGTERM))
    assert (done.exit_code, done.result.status) == (1, "error")
    assert done.result.ename == "ZeroDivisionError"
    assert done.result.interrupted_by == "SIGTERM"


# --- no room ------------------------------------------------------------------------------------


def limited(bytes_: int) -> tuple[str, ...]:
    """A Python whose files may not grow beyond `bytes_`: writing more fails, as on a full disk."""
    return ("prlimit", f"--fsize={bytes_}", sys.executable, "-u")


def test_output_that_finds_no_room_does_not_stop_the_cell(run: RunCell) -> None:
    done = run("for _ in range(200): print('z' * 999)\nx = 5", python=limited(20_000))
    assert (done.exit_code, done.result.status) == (0, "ok")
    assert "output cannot be written" in done.stderr
    lines = (done.job_dir / "output.0.jsonl").read_bytes().splitlines()
    assert all(json.loads(line) for line in lines)
    assert 0 < len(done.text()) < 200_000


def test_a_record_that_is_too_long_for_the_room_is_kept_from_its_beginning(run: RunCell) -> None:
    """A supervisor that is slow reads much at once, and there must be room for the result still."""
    code = "import os\nos.write(1, b'up\\n' + b'x' * 60_000)\nos.write(2, b'y' * 60_000)"
    done = run(code, python=limited(40_000))
    assert (done.exit_code, done.result.status) == (0, "ok")
    output = done.job_dir / "output.0.jsonl"
    assert done.text().startswith("up\nxxx")
    assert 8_000 < output.stat().st_size < 24_000
    lines = output.read_bytes().splitlines()
    kept = len(done.text()) + len(done.text("stderr"))
    assert all(json.loads(line) for line in lines)
    assert 120_003 - kept <= done.result.lost_output_bytes < 120_003 - kept + 500


def test_variables_that_find_no_room_are_named(run: RunCell) -> None:
    done = run("x = 'x' * 100_000", names_out=["x"], python=limited(50_000))
    assert done.result.status == "ok"
    assert done.result.variables is not None
    assert "File too large" in done.result.variables.failed["x"]
    assert [path.name for path in done.job_dir.glob("vars*")] == ["vars.0"]  # no part of one


def test_result_that_finds_no_room_is_exit_code_74(runner: Runner) -> None:
    runner.prepare("pass")
    (runner.job_dir / "result.0.json.partial").mkdir()
    process = runner.start()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 74
    assert "the result cannot be written" in stderr


def test_folder_that_cannot_be_written_is_exit_code_74_and_the_cell_is_not_run(
    runner: Runner,
) -> None:
    runner.prepare("open('was-run', 'w')")
    (runner.job_dir / "output.0.jsonl").mkdir()
    process = runner.start()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 74
    assert "the cell was not run" in stderr
    assert not (runner.job_dir.parent / "was-run").exists()


def test_value_after_much_output_comes_last(run: RunCell) -> None:
    done = run("import sys\nprint('x' * 300_000)\nprint('y' * 300_000, file=sys.stderr)\n7")
    assert [type(output) for output in done.shown] == [Stream, Stream, ExecuteResult]
    assert not any(isinstance(output, ErrorOutput) for output in done.outputs)


def test_a_signal_before_the_cell_begins_waits_until_somebody_can_tell_of_it() -> None:
    code = (
        "import os, signal, runner_process\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, runner_process.SIGNALS)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "interrupts = runner_process.Interrupts()\n"
        "interrupts.hold()\n"
        "interrupts.install()\n"
        "print('installed')\n"
        "try:\n"
        "    interrupts.release()\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted by', interrupts.first)\n"
    )
    node = Path(payload.__file__).parents[2] / "node"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=node, capture_output=True, text=True, check=True
    )
    assert done.stdout == "installed\ninterrupted by 15\n"
