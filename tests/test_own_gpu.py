"""`jupyter slurm up` on a machine with an NVIDIA GPU, observed by CUDA's own driver.

The tests are skipped on every other machine, including CI's. `local_cluster/test_gpus.py` contains
the tests that need no GPU.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cluster import Shell
from tests.cluster.plugin import ROOT, jupyter_homes, kept
from tests.ssh.waiting import wait_until


def nvidia_smi(*query: str) -> list[str]:
    """Return the lines of nvidia-smi, or none if it is missing or fails."""
    if shutil.which("nvidia-smi") is None:
        return []
    argv = ["nvidia-smi", *query, "--format=csv,noheader,nounits"]
    told = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return [] if told.returncode else told.stdout.splitlines()


pytestmark = pytest.mark.skipif(
    not nvidia_smi("--query-gpu=uuid"), reason="this machine has no NVIDIA GPU"
)

DRIVER = """
import ctypes, json, os, sys, time, uuid

cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *args):
    status = getattr(cuda, name)(*args)
    assert status == 0, (name, status)

def devices():
    "UUIDs in CUDA's order."
    found = cuda.cuInit(0)
    if found == 100:  # CUDA_ERROR_NO_DEVICE
        return []
    assert found == 0, found
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    uuids = []
    for index in range(count.value):
        device, data = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        call("cuDeviceGet", ctypes.byref(device), index)
        call("cuDeviceGetUuid", ctypes.byref(data), device)
        uuids.append("GPU-" + str(uuid.UUID(bytes=bytes(data))))
    return uuids
"""
TELLS = DRIVER + "\nprint(json.dumps(devices()))\n"
HOLDS = (
    DRIVER
    + """
devices()
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(2 << 30))
print("holds", flush=True)
time.sleep(600)
"""
)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """Yield a shell after `jupyter slurm up`."""
    # not in pytest's folder, since a socket's path must be short
    home = Path(tempfile.mkdtemp(prefix="gpu-"))
    env = {**os.environ, **jupyter_homes(home), "PYTHONPATH": str(ROOT)}
    for name in ("SLURM_CONF", "JUPYTER_SLURM_AGENT", "JUPYTER_SLURM_CLUSTER"):
        env.pop(name, None)
    made = Shell(env, home)
    with kept(home, None):
        assert "of this machine" in made.ok("up", "--runtime", "none")
        made.write("tells.py", TELLS)
        made.write("holds.py", HOLDS)
        yield made
        made.ok("down", "--purge")
    shutil.rmtree(home)


def job(shell: Shell, name: str) -> dict[str, object]:
    [found] = [one for one in json.loads(shell.ok("jobs", "--json")) if one["name"] == name]
    return dict(found)


def test_job_has_the_requested_number_of_gpus(shell: Shell) -> None:
    uuids = nvidia_smi("--query-gpu=uuid")
    every = shell.ok("submit", "tells.py", "--gpus", str(len(uuids)))
    assert sorted(json.loads(every)) == sorted(uuids)
    assert json.loads(shell.ok("submit", "tells.py", "--gpus", "1"))[0] in uuids


def test_job_without_gpus_has_none(shell: Shell) -> None:
    assert json.loads(shell.ok("submit", "tells.py")) == []


def test_waiting_job_gets_the_gpu_of_a_killed_job(shell: Shell) -> None:
    """The first job's usage is measured, and its processes end."""
    every = ("--gpus", str(len(nvidia_smi("--query-gpu=uuid"))))
    before_mib = sum(map(float, nvidia_smi("--query-gpu=memory.used")))
    others = set(nvidia_smi("--query-compute-apps=pid"))
    shell.ok("submit", "holds.py", "--name", "holder", "--detach", *every)
    wait_until(lambda: job(shell, "holder")["state"] == "RUNNING")
    shell.ok("submit", "tells.py", "--name", "waiter", "--detach", *every)
    folder = Path(str(job(shell, "holder")["job_dir"]))
    usage = folder / "usage.0.jsonl"
    wait_until(lambda: usage.exists() and _most_mib(usage) > 2048)
    assert job(shell, "waiter")["state"] == "PENDING"
    holder = job(shell, "holder")
    shell.ok("cancel", str(holder["id"]))
    wait_until(lambda: job(shell, "waiter")["state"] == "COMPLETED")
    wait_until(lambda: sum(map(float, nvidia_smi("--query-gpu=memory.used"))) < before_mib + 1024)
    assert set(nvidia_smi("--query-compute-apps=pid")) <= others


def _most_mib(usage: Path) -> float:
    """Return the highest GPU memory of all samples."""
    samples = [json.loads(line) for line in usage.read_text().splitlines()]
    return max((gpu["memory_mib"] or 0 for one in samples for gpu in one["gpus"]), default=0)
