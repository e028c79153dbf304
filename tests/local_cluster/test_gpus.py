"""`jupyter slurm up` on a machine with GPUs, with a real Slurm and a stand-in for nvidia-smi that
prints recorded answers. `test_own_gpu.py` uses a real GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_slurm.cli import main
from jupyter_slurm.local_cluster import Gpu, LocalSpec, LocalStatus, gpus, own_gpus, status, up
from tests.cluster.plugin import jupyter_homes, kept
from tests.local_cluster.test_cluster import slurm

pytestmark = pytest.mark.real

MIXED = "0, NVIDIA H100 80GB HBM3\n1, NVIDIA L4\n2, NVIDIA H100 80GB HBM3\n"
H100, L4 = "nvidia_h100_80gb_hbm3", "nvidia_l4"
NvidiaSmi = Callable[..., Path]


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvidiaSmi:
    """Return a function that installs a stand-in on PATH. The stand-in prints a text, and records
    its arguments in the returned file."""
    folder = tmp_path / "driver"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def says(text: str, status: int = 0) -> Path:
        program, asked = folder / "nvidia-smi", folder / "asked"
        program.write_text(
            f'#!/bin/sh\necho "$*" >>{asked}\ncat <<"END"\n{text.rstrip()}\nEND\nexit {status}\n'
        )
        program.chmod(0o700)
        return asked

    return says


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, place in jupyter_homes(tmp_path).items():
        monkeypatch.setenv(name, place)
    with kept(tmp_path, None):
        yield tmp_path


def nothing_to_say(text: str) -> None:
    pytest.fail(str(text))


# --- detection ---
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", H100),
        ("Quadro RTX 6000/8000", "quadro_rtx_6000_8000"),
        ("3g.20gb", "3g.20gb"),
    ],
)
def test_gpu_type_matches_slurms_name(name: str, kind: str) -> None:
    assert gpus.type_of(name) == kind
    LocalSpec(own_gpus=(Gpu(0, kind),))


def test_gpus_are_read_from_nvidia_smi(nvidia_smi: NvidiaSmi) -> None:
    asked = nvidia_smi("WARNING: infoROM is corrupted at gpu 0000:01:00.0\n" + MIXED)
    assert own_gpus(nothing_to_say) == (Gpu(0, H100), Gpu(1, L4), Gpu(2, H100))
    assert "-i" not in asked.read_text()


def test_failure_of_nvidia_smi_is_reported(nvidia_smi: NvidiaSmi) -> None:
    nvidia_smi("NVIDIA-SMI has failed because it couldn't communicate with the driver.", 9)
    said: list[str] = []
    assert own_gpus(said.append) == ()
    assert "couldn't communicate" in str(said[0])


def test_machine_without_nvidia_smi_has_no_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/no/such/folder")
    assert own_gpus(nothing_to_say) == ()


def test_only_visible_gpus_are_used(nvidia_smi: NvidiaSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = nvidia_smi("2, NVIDIA L4\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    assert own_gpus(nothing_to_say) == (Gpu(2, L4),)
    assert asked.read_text().startswith("-i 2 ")
    for none in ("", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert own_gpus(nothing_to_say) == ()


# --- GPUs of jobs ---
def seen(where: LocalStatus, *options: str) -> str:
    """Return the GPUs that a batch job and its step get."""
    program = 'echo "[$CUDA_VISIBLE_DEVICES] $CUDA_DEVICE_ORDER"'
    wrap = f"{program}; srun sh -c '{program}'"
    slurm(where, "sbatch", "--wait", "-o", "seen.out", *options, "--wrap", wrap)
    job, step = (where.folder / "jobs" / "seen.out").read_text().splitlines()
    assert job == step
    devices, order = job.split(" ")
    assert order == "PCI_BUS_ID"
    return devices


def test_jobs_get_the_gpu_numbers_of_nvidia_smi(home: Path) -> None:
    # Slurm numbers GPUs by type, in the order of gres.conf. With 22.05 the L4 has number 2.
    own = (Gpu(0, H100), Gpu(1, L4), Gpu(5, H100))
    made = up(LocalSpec(nodes=2, cpus=4, memory_mib=2048, own_gpus=own))
    assert seen(made, f"--gpus={L4}:1") == "[1]"
    assert seen(made, f"--gpus={H100}:2") == "[0,5]"
    assert seen(made, "--gpus=3") == "[0,5,1]"
    assert seen(made, "-w", "n1") == "[]", "a job that requested no GPU gets one"
    assert seen(made, "-w", "n2") == "[]"
    told = slurm(made, "sinfo", "-h", "-N", "-p", "debug", "-o", "%N %G").splitlines()
    assert told == [f"n1 gpu:{H100}:2,gpu:{L4}:1", "n2 (null)"]


# --- the command ---
def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run `jupyter slurm` with these words, which must succeed. Return its output."""
    code = main(words)
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def test_up_uses_the_machines_gpus_and_a_job_gets_only_its_own(
    home: Path, nvidia_smi: NvidiaSmi, capsys: pytest.CaptureFixture[str]
) -> None:
    nvidia_smi(MIXED)
    out = printed(capsys, "up", "--cpus", "4", "--memory", "2G")
    assert f"and 3 GPUs of this machine ({H100}, {L4})." in out
    known = status()
    assert known is not None
    assert seen(known, f"--gpus={L4}:1") == "[1]"


def test_gpus_own_is_rejected_on_a_machine_without_a_gpu(
    home: Path, nvidia_smi: NvidiaSmi, capsys: pytest.CaptureFixture[str]
) -> None:
    nvidia_smi("No devices were found", status=6)
    assert main(["up", "--gpus", "own"]) == 2
    err = capsys.readouterr().err
    assert "nvidia-smi finds no GPU: No devices were found" in err
    assert "`--gpus 2`" in err
    assert status() is None
    assert main(["up", "--gpus", "some"]) == 2
    assert "--gpus: `some` is not a number" in capsys.readouterr().err
