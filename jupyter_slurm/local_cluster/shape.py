"""Choose the shape of a private cluster: what the user asks for, else what it had last time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from jupyter_slurm.errors import RequestError
from jupyter_slurm.local_cluster.cluster import silent, status
from jupyter_slurm.local_cluster.gpus import own_gpus
from jupyter_slurm.local_cluster.spec import LocalSpec, LocalStatus

Gpus = int | Literal["own"] | None
"""The number of GPUs to pretend; "own": use this machine's; None: use those that it has, if any."""


def shape(
    name: str = "local",
    gpus: Gpus = None,
    asked: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = silent,
) -> LocalSpec:
    """Return the shape for the cluster `name`; `asked` has fields of `LocalSpec`. RequestError:
    this machine's GPUs are asked for, and it has none."""
    known = status(name)
    base = known.spec if known else LocalSpec(name=name)
    fields = dict(asked or {})
    fields |= _gpus(gpus, fields.get("gpu_type"), known, say)
    return dataclasses.replace(base, **fields)


def _gpus(
    asked: Gpus, gpu_type: str | None, known: LocalStatus | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return the GPUs of the shape. Look for this machine's anew whenever the cluster comes up:
    some may have come or gone."""
    if isinstance(asked, int):
        return {"gpus": asked, "own_gpus": ()}
    had_own = bool(known and known.spec.own_gpus)
    if asked is None and known and (not known.stopped or not had_own):
        return {}
    own = own_gpus(say)
    if not own and (asked == "own" or had_own):
        raise RequestError(
            "This machine has no GPU that can be used: nvidia-smi tells of none.",
            hint="`--gpus 2` pretends two: jobs are given numbers, and no device.",
            option="gpus",
        )
    kind = gpu_type or _type_given(known)
    return {"own_gpus": tuple(dataclasses.replace(gpu, type=kind or gpu.type) for gpu in own)}


def _type_given(known: LocalStatus | None) -> str | None:
    """Return the earlier `--gpu-type` of this machine's GPUs, which queued jobs name."""
    if known is None or {gpu.type for gpu in known.spec.own_gpus} != {known.spec.gpu_type}:
        return None
    return known.spec.gpu_type
