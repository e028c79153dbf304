"""node/usage.py with real processes."""

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

from jupyter_slurm.jobs.kinds.kind import node_files
from jupyter_slurm.jobs.submission.script import ScriptPlan, render_script
from jupyter_slurm.jobs.watching.usage import parse_samples
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
"""An ID without a process."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def job_id() -> str:
    return f"test-{secrets.token_hex(4)}"


@pytest.fixture
def start() -> Iterator[Start]:
    """Yield `start(code, job_id)`, which starts a Python in its own session, with the job's ID in
    its environment. The Python and its children end with the test."""
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


# --- the job's processes ---
def test_only_children_of_the_script_are_measured(start: Start, job_id: str) -> None:
    script = start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])")
    stranger = start(HOLDS, "another")
    read_line(stranger)
    ours = usage.Processes(script.pid, job_id, None)
    wait_until(lambda: cpu_s(ours) > 0.3)
    assert memory_mib(ours) < 100


@pytest.mark.parametrize("others", [{}, {"FIRST": "1", "ZLAST": "2"}])
def test_processes_with_the_job_id_are_measured(
    start: Start, job_id: str, others: dict[str, str]
) -> None:
    """Processes of containers and of srun's steps are not children of the script."""
    container = start(HOLDS, job_id, **others)
    read_line(container)
    assert memory_mib(usage.Processes(NOBODY, job_id, None)) > 150
    assert memory_mib(usage.Processes(NOBODY, job_id, "another's")) == 0
    assert memory_mib(usage.Processes(NOBODY, job_id[:-1], None)) == 0


# --- cgroups ---
def folder(root: Path, path: str, **files: str) -> None:
    made = root / path
    made.mkdir(parents=True)
    for name, text in files.items():
        (made / name.replace("__", ".")).write_text(text)


def of_job(root: Path, *lines: str) -> usage.Cgroup:
    (root / "membership").write_text("".join(f"{line}\n" for line in lines))
    return usage.Cgroup.of_job("7", str(root / "membership"), str(root))


def test_cgroup_version_2_is_read(tmp_path: Path) -> None:
    job = "/system.slice/slurmstepd.scope/job_7"
    stat = f"anon {3 << 20}\nfile {900 << 20}\nshmem {1 << 20}\n"
    folder(tmp_path, job[1:], cpu__stat="usage_usec 2500000\nuser_usec 1\n", memory__stat=stat)
    found = of_job(tmp_path, f"0::{job}/step_batch/user/task_0")
    assert (found.cpu_s(), found.memory_mib()) == (2.5, 4)


def test_cgroup_version_1_is_read(tmp_path: Path) -> None:
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
def test_cgroup_figures_are_none_without_a_cgroup(tmp_path: Path, line: str) -> None:
    found = of_job(tmp_path, line)
    assert (found.cpu_s(), found.memory_mib()) == (None, None)
    assert usage.Cgroup.of_job("7", str(tmp_path / "none")).cpu_s() is None


# --- GPUs ---
def test_nvidia_smi_line_is_parsed() -> None:
    assert usage.parse_gpu("NVIDIA A100-SXM4-40GB, 37, 1024, 40960") == {
        "name": "NVIDIA A100-SXM4-40GB",
        "utilisation": 0.37,
        "memory_mib": 1024,
        "memory_total_mib": 40960,
    }


@pytest.mark.parametrize("line", ["", "No devices were found", "A100, 1, ERR!, 2", "A100, 1, 2"])
def test_invalid_nvidia_smi_line_is_ignored(line: str) -> None:
    assert usage.parse_gpu(line) is None


def test_mig_device_has_no_utilisation() -> None:
    assert usage.parse_gpu("NVIDIA A100 MIG 1g.5gb, [N/A], 12, 4864") == {
        "name": "NVIDIA A100 MIG 1g.5gb",
        "utilisation": None,
        "memory_mib": 12,
        "memory_total_mib": 4864,
    }


def test_only_the_jobs_gpus_are_queried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# --- beside a job's script ---
@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Yield `job(argv…)`, which runs a job's script in `tmp_path` as slurmd does."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*argv: str, python: str = sys.executable) -> subprocess.Popen[bytes]:
        (tmp_path / "usage.py").write_bytes(node_files("usage.py")["usage.py"])
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
    """Return the processes that measure the job in `folder`."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(folder / "usage.py") in (process.info["cmdline"] or ())
    ]


def samples(folder: Path) -> list[UsageSample]:
    path = folder / "usage.0.jsonl"
    return parse_samples(path.read_bytes())[0] if path.exists() else []


def test_running_job_is_measured(
    job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    job(sys.executable, "-c", "held = bytearray(150 << 20)\nwhile True: pass")

    def at_work() -> list[UsageSample]:
        """Return the samples once all memory is allocated, which takes long on a busy machine."""
        return list(dropwhile(lambda one: one.memory_mib <= 150, samples(tmp_path)))

    wait_until(lambda: len(at_work()) >= 3, 120)
    assert all(later.time_s > earlier.time_s for earlier, later in pairwise(samples(tmp_path)))
    assert all(0 < one.cpus < 1.5 for one in at_work())
    assert all(150 < one.memory_mib < 300 for one in at_work())
    assert {one.node for one in samples(tmp_path)} == {"n1"}
    assert (tmp_path / "usage.0.jsonl").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "log.0").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_measurement_ends_with_the_script(
    job: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, number: signal.Signals
) -> None:
    script = job("sleep", "600")
    wait_until(lambda: bool(measuring(tmp_path)))
    script.send_signal(number)
    script.wait()
    wait_until(lambda: not measuring(tmp_path))


def test_job_runs_without_python(
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
