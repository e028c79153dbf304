"""What measures a job: real processes, counted as node/usage.py counts them on a node."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from jupyter_slurm.jobs.submission.script import ScriptPlan, render_script
from jupyter_slurm.jobs.watching.usage import parse_samples
from jupyter_slurm.transport.node_program import node_file
from jupyter_slurm.wire import UsageSample
from tests.ssh.waiting import wait_until

if TYPE_CHECKING:
    import usage
else:
    spec = importlib.util.spec_from_file_location(
        "usage", resources.files("jupyter_slurm") / "node" / "usage.py"
    )
    usage = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(usage)

BUSY = "while True: pass"
HOLDS = "import time; held = bytearray(150 << 20); print(flush=True); time.sleep(600)"
NOBODY = 1 << 30
"""No process has this id."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def job_id() -> str:
    return f"test-{secrets.token_hex(4)}"


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(code, job_id)`: a Python in a session of its own, with that job's id in its
    environment; gone with its children at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str, job_id: str = "", **more: str) -> subprocess.Popen[str]:
        mark = {"SLURM_JOB_ID": job_id} if job_id else {}
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={"PATH": os.environ["PATH"], **mark, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def cpu_s(processes: usage.Processes) -> float:
    inside, outside = processes.look()
    return inside.cpu_s + outside.cpu_s


def memory_mib(processes: usage.Processes) -> float:
    inside, outside = processes.look()
    return inside.memory_mib + outside.memory_mib


# --- whose processes they are ---
def test_the_scripts_children_count_and_nobody_elses(start: Start, job_id: str) -> None:
    script = start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])")
    stranger = start(HOLDS, "another")
    read_line(stranger)
    ours = usage.Processes(script.pid, job_id, None)
    wait_until(lambda: cpu_s(ours) > 0.3)
    assert memory_mib(ours) < 100


def test_memory_is_what_they_hold_now(start: Start, job_id: str) -> None:
    script = start(HOLDS)
    read_line(script)
    assert 150 < memory_mib(usage.Processes(script.pid, job_id, None)) < 250


@pytest.mark.parametrize("others", [{}, {"FIRST": "1", "ZLAST": "2"}])
def test_what_has_the_jobs_id_in_its_environment_is_the_jobs(
    start: Start, job_id: str, others: dict[str, str]
) -> None:
    """As the processes of a container, or of a step of srun, which descend from no script."""
    container = start(HOLDS, job_id, **others)
    read_line(container)
    assert memory_mib(usage.Processes(NOBODY, job_id, None)) > 150
    assert memory_mib(usage.Processes(NOBODY, job_id, "another's")) == 0
    assert memory_mib(usage.Processes(NOBODY, job_id[:-1], None)) == 0


def test_what_runs_for_another_node_of_the_job_counts_there(start: Start, job_id: str) -> None:
    """Of `jupyter slurm up --nodes 2` all nodes are one machine."""
    read_line(start(HOLDS, job_id, SLURMD_NODENAME="n2"))
    assert memory_mib(usage.Processes(NOBODY, job_id, None, "n2")) > 150
    assert memory_mib(usage.Processes(NOBODY, job_id, None, None)) > 150
    assert memory_mib(usage.Processes(NOBODY, job_id, None, "n1")) == 0
    read_line(start(HOLDS, job_id))  # a container may not have been told
    assert 150 < memory_mib(usage.Processes(NOBODY, job_id, None, "n1")) < 250


def test_one_that_becomes_another_program_is_seen_to_be_the_jobs(start: Start, job_id: str) -> None:
    """The shell of a container is told of the job first, and then becomes the program."""
    environment = {"SLURM_JOB_ID": job_id}
    shell = start(
        "import os, sys; print(flush=True); sys.stdin.readline();"
        f"os.execve(sys.executable, ['python', '-c', {HOLDS!r}], {environment})"
    )
    read_line(shell)
    processes = usage.Processes(NOBODY, job_id, None)
    assert memory_mib(processes) == 0
    assert shell.stdin is not None
    shell.stdin.write("\n")
    shell.stdin.flush()
    wait_until(lambda: memory_mib(processes) > 150)


def test_a_child_that_was_counted_still_is_when_its_parents_are_gone(
    start: Start, job_id: str
) -> None:
    """A daemon: its parent ends, it has a session of its own, and a cleaned environment."""
    script = start(
        "import os, subprocess, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        f"        os.execve(sys.executable, ['python', '-c', {BUSY!r}], {{}})\n"
        "    sys.stdin.readline(); os._exit(0)\n"
        "os.wait(); print(flush=True); time.sleep(600)\n"
    )
    ours = usage.Processes(script.pid, job_id, None)
    daemon = psutil.Process(int(read_line(script)))
    try:
        cpu_s(ours)
        assert script.stdin is not None
        script.stdin.write("\n")
        script.stdin.flush()
        read_line(script)
        before_s = cpu_s(ours)
        wait_until(lambda: cpu_s(ours) > before_s + 0.3)
    finally:
        daemon.kill()


def test_what_a_child_has_used_counts_when_it_has_ended(start: Start, job_id: str) -> None:
    used = "import time\nwhile time.process_time() < 0.5: pass"
    script = start(
        "import subprocess, sys, time\n"
        f"subprocess.run([sys.executable, '-c', {used!r}])\n"
        "print(flush=True); time.sleep(600)"
    )
    read_line(script)
    # /proc has whole ticks, of user's and system's time each: up to two of 10 ms are missing.
    assert cpu_s(usage.Processes(script.pid, job_id, None)) >= 0.48


# --- cgroups ---
def folder(root: Path, path: str, **files: str) -> None:
    made = root / path
    made.mkdir(parents=True)
    for name, text in files.items():
        (made / name.replace("__", ".")).write_text(text)


def of_job(root: Path, *lines: str) -> usage.Cgroup:
    (root / "membership").write_text("".join(f"{line}\n" for line in lines))
    return usage.Cgroup.of_job("7", str(root / "membership"), str(root))


def test_version_2_counts_the_whole_job(tmp_path: Path) -> None:
    job = "/system.slice/slurmstepd.scope/job_7"
    stat = f"anon {3 << 20}\nfile {900 << 20}\nshmem {1 << 20}\n"
    folder(tmp_path, job[1:], cpu__stat="usage_usec 2500000\nuser_usec 1\n", memory__stat=stat)
    found = of_job(tmp_path, f"0::{job}/step_batch/user/task_0")
    assert (found.cpu_s(), found.memory_mib()) == (2.5, 4)


def test_version_1_counts_what_its_controllers_do(tmp_path: Path) -> None:
    job = "/slurm/uid_1000/job_7"
    stat = f"cache {900 << 20}\nrss 1\ntotal_rss {3 << 20}\ntotal_shmem {1 << 20}\n"
    folder(tmp_path, f"cpu,cpuacct{job}", cpuacct__usage="2500000000\n")
    folder(tmp_path, f"memory{job}", memory__stat=stat)
    lines = [f"4:cpu,cpuacct:{job}/step_batch/task_0", f"3:memory:{job}/step_batch", "1:name=x:/"]
    found = of_job(tmp_path, *lines)
    assert (found.cpu_s(), found.memory_mib()) == (2.5, 4)
    freezer = of_job(tmp_path, f"2:freezer:{job}/step_batch", *lines[1:])
    assert (freezer.cpu_s(), freezer.memory_mib()) == (None, 4)


@pytest.mark.parametrize(
    "line", ["0::/", "0::/user.slice", "0::/slurm/job_77/step_0", "4:cpuacct:/slurm/uid_1/job_7/x"]
)
def test_where_there_is_no_cgroup_of_the_job_nothing_is_known(tmp_path: Path, line: str) -> None:
    found = of_job(tmp_path, line)
    assert (found.cpu_s(), found.memory_mib()) == (None, None)
    assert usage.Cgroup.of_job("7", str(tmp_path / "none")).cpu_s() is None


def test_a_container_outside_of_the_jobs_cgroup_is_added_to_it(
    tmp_path: Path, start: Start, job_id: str
) -> None:
    stat = f"anon {3 << 20}\nfile 0\nshmem 0\n"
    folder(tmp_path, "job_7", cpu__stat="usage_usec 0\n", memory__stat=stat)
    read_line(start(HOLDS, job_id))
    meter = usage.Meter(
        usage.Processes(NOBODY, job_id, None), of_job(tmp_path, "0::/job_7/step_batch")
    )
    assert 153 < meter.look()[1] < 253


# --- GPUs ---
def test_what_nvidia_smi_says_of_a_gpu() -> None:
    assert usage.parse_gpu("NVIDIA A100-SXM4-40GB, 37, 1024, 40960") == {
        "name": "NVIDIA A100-SXM4-40GB",
        "utilisation": 0.37,
        "memory_mib": 1024,
        "memory_total_mib": 40960,
    }


@pytest.mark.parametrize("line", ["", "No devices were found", "A100, 1, ERR!, 2", "A100, 1, 2"])
def test_a_gpu_that_does_not_say_is_none(line: str) -> None:
    assert usage.parse_gpu(line) is None


def test_a_part_of_a_gpu_does_not_say_how_busy_it_is() -> None:
    assert usage.parse_gpu("NVIDIA A100 MIG 1g.5gb, [N/A], 12, 4864") == {
        "name": "NVIDIA A100 MIG 1g.5gb",
        "utilisation": None,
        "memory_mib": 12,
        "memory_total_mib": 4864,
    }


def test_a_gpu_without_memory_of_its_own_says_how_busy_it_is() -> None:
    assert usage.parse_gpu("NVIDIA GB10, 96, [N/A], [N/A]") == {
        "name": "NVIDIA GB10",
        "utilisation": 0.96,
        "memory_mib": None,
        "memory_total_mib": None,
    }


def test_what_is_missing_of_one_gpu_is_not_taken_from_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"  # a stand-in
    smi.write_text('#!/bin/sh\necho "A, 5, [Unknown Error], 2"\necho "B, 50, 3, 4"\n')
    smi.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert [gpu["name"] for gpu in usage.Gpus("0,1").look()] == ["A", "B"]


def test_the_jobs_gpus_are_asked_after_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\necho "A, b, 50, 10, 100"\n')
    smi.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    [gpu] = usage.Gpus.of_job().look()
    assert (gpu["name"], gpu["utilisation"]) == ("A, b", 0.5)
    assert "-i 1,3 " in (tmp_path / "asked").read_text()
    for none in ("", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert usage.Gpus.of_job().look() == []
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_an_nvidia_smi_that_fails_is_not_asked_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho x >>{tmp_path}/asked\nexit 9\n")
    smi.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    gpus = usage.Gpus("0")
    assert [gpus.look() for _ in range(9)] == [[]] * 9
    assert len((tmp_path / "asked").read_text().splitlines()) == usage.GPUS_TRIES
    monkeypatch.setenv("PATH", "/no/such/folder")
    assert usage.Gpus("0").look() == []


# --- how often ---
def test_samples_become_rarer_and_a_month_of_them_is_about_two_thousand() -> None:
    age_s, lines = 0.0, 0
    while age_s < 31 * 86400:
        age_s += usage.pause_s(age_s, 0.0)
        lines += 1
    assert 1500 < lines < 2200
    ages = [0, 59, 60, 3599, 3600, 17_000, 86_400]
    pauses = [usage.pause_s(age, 0.0) for age in ages]
    assert pauses == [2, 2, 10, 10, 60, 60, 288]


def test_looking_takes_less_than_a_hundredth_of_a_core() -> None:
    for cost_s in (0.001, 0.05, 3.0):
        assert cost_s < 0.01 * usage.pause_s(0.0, cost_s)


# --- beside a job's script ---
@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """`job(argv…)`: its script, as slurmd runs it, in `tmp_path`."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*argv: str, python: str = sys.executable) -> subprocess.Popen[bytes]:
        (tmp_path / "usage.py").write_bytes(node_file("usage.py"))
        script = tmp_path / "job.sh"
        script.write_text(render_script(ScriptPlan("t", str(tmp_path), argv, python=python)))
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SLURM_JOB_ID": tmp_path.name}
        env["SLURMD_NODENAME"] = "n1"
        process = subprocess.Popen(["/bin/bash", script], env=env, start_new_session=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        with_its_own = [process.pid, *(one.pid for one in measuring(tmp_path))]
        for pid in with_its_own:
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


def measuring(folder: Path) -> list[psutil.Process]:
    """The processes that measure the job in `folder`."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(folder / "usage.py") in (process.info["cmdline"] or ())
    ]


def samples(folder: Path) -> list[UsageSample]:
    path = folder / "usage.0.jsonl"
    return parse_samples(path.read_bytes())[0] if path.exists() else []


def test_a_job_is_measured_while_it_runs(
    job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    job(sys.executable, "-c", "held = bytearray(150 << 20)\nwhile True: pass")

    def at_work() -> list[UsageSample]:
        """Those since it holds what it is to hold: until then a busy machine has it begin."""
        return list(dropwhile(lambda one: one.memory_mib <= 150, samples(tmp_path)))

    wait_until(lambda: len(at_work()) >= 3, 120)
    assert all(later.time_s > earlier.time_s for earlier, later in pairwise(samples(tmp_path)))
    assert all(0 < one.cpus < 1.5 for one in at_work())
    assert all(150 < one.memory_mib < 300 for one in at_work())
    assert {one.node for one in samples(tmp_path)} == {"n1"}
    assert (tmp_path / "usage.0.jsonl").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "log.0").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_measures_ends_with_the_script_however_that_ends(
    job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, number: signal.Signals
) -> None:
    script = job("sleep", "600")
    wait_until(lambda: bool(measuring(tmp_path)))
    script.send_signal(number)
    script.wait()
    wait_until(lambda: not measuring(tmp_path))


def test_a_job_that_is_over_at_once_starts_nothing_beside(
    job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n: >'{tmp_path}/started'\n")
    python.chmod(0o700)
    script = job("true", python=str(python))
    assert script.wait() == 0
    beside = usage.Processes(NOBODY, tmp_path.name, None)
    wait_until(lambda: memory_mib(beside) == 0)
    assert not (tmp_path / "started").exists()


def test_signals_for_all_of_the_job_do_not_end_what_measures(
    job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    job("sh", "-c", "trap : TERM USR1; while :; do sleep 0.1; done")
    wait_until(lambda: len(samples(tmp_path)) >= 1, 60)
    [beside] = measuring(tmp_path)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        beside.send_signal(number)
    before = len(samples(tmp_path))
    wait_until(lambda: len(samples(tmp_path)) > before, 60)


def test_without_a_python_a_job_runs_all_the_same(
    job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    for name in ("mkdir", "mv", "sh", "sleep"):
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    script = tmp_path / "without.sh"
    plan = ScriptPlan("t", str(tmp_path), ["sleep", "1.5"], python="/no/such/python")
    script.write_text(render_script(plan))
    env = {"PATH": str(tmp_path / "bin"), "SLURM_JOB_ID": "1"}
    done = subprocess.run(["/bin/bash", script], env=env, check=False)
    assert done.returncode == 0
    assert json.loads((tmp_path / "exit.0.json").read_text())["exit_code"] == 0
    assert (tmp_path / "log.0").read_text() == ""


def test_a_person_whose_shell_keeps_to_posix_has_jobs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "job.sh"
    script.write_text(render_script(ScriptPlan("t", str(tmp_path), ["echo", "ran"])))
    env = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1", "POSIXLY_CORRECT": "1"}
    done = subprocess.run(["/bin/bash", script], env=env, check=False)
    assert done.returncode == 0
    assert (tmp_path / "log.0").read_text() == "ran\n"


def test_a_line_that_a_full_disk_has_cut_is_passed_over() -> None:
    line = b'{"time_s": 1, "cpus": 0.5, "memory_mib": 2, "gpus": []}\n'
    found, taken = parse_samples(line + b'{"time_s": 2, "cp\n' + line + b'{"time_s"')
    assert [one.time_s for one in found] == [1, 1]
    assert taken == 2 * len(line) + len(b'{"time_s": 2, "cp\n')
