"""The GPUs of this machine, from nvidia-smi."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable

from jupyter_slurm.local_cluster.spec import GPU_TYPE_CHARACTERS, Gpu

_LIMIT_S = 60.0
"""Seconds for nvidia-smi to wake every GPU. Each takes several seconds if no program keeps the
driver loaded."""


def own_gpus(say: Callable[[str], None]) -> tuple[Gpu, ...]:
    """Return this machine's GPUs that the caller can use. Report the output of nvidia-smi if it
    does not list any. CUDA_VISIBLE_DEVICES applies, because in a job of another Slurm it names
    the job's GPUs."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    program = shutil.which("nvidia-smi")
    if program is None or devices in ("", "NoDevFiles"):
        return ()
    only = [] if devices is None else ["-i", devices]
    argv = [program, *only, "--query-gpu=index,name", "--format=csv,noheader"]
    try:
        told = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        say(f"Cannot run nvidia-smi: {exc}")
        return ()
    gpus = parse(told.stdout)
    if not gpus:  # nvidia-smi also reports errors on stdout
        words = (told.stdout + told.stderr).strip()
        say(f"nvidia-smi finds no GPU: {words}")
    return gpus


def parse(told: str) -> tuple[Gpu, ...]:
    """Return the GPUs in lines of `index,name`; skip other lines (warnings).

    >>> parse("0, NVIDIA H100 80GB HBM3")
    (Gpu(index=0, type='nvidia_h100_80gb_hbm3'),)
    """
    pairs = (line.split(", ", 1) for line in told.splitlines())
    return tuple(
        Gpu(int(pair[0]), type_of(pair[1]))
        for pair in pairs
        if len(pair) == 2 and pair[0].isdigit()
    )


def type_of(name: str) -> str:
    """Return the type that Slurm's own `AutoDetect=nvml` gives a GPU (gres.conf(5)): lower case,
    with `_` for blanks. This function also replaces other characters that a type cannot have with
    `_`.

    >>> type_of("Quadro RTX 6000/8000")
    'quadro_rtx_6000_8000'
    """
    return re.sub(f"[^{GPU_TYPE_CHARACTERS}]+", "_", name.strip().lower()).lstrip("_.-")
