"""PURE. Phrases inside the sentences of limits, policies and costs: amounts, owners, places."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_slurm.formatting import counted, memory
from jupyter_slurm.jobs.preflight.partition_facts import Source


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a QOS or an account that sets limits."""

    within: str
    first: str
    """The form that begins a sentence."""


def qos(name: str, partition: str | None) -> Name:
    """Name a QOS. `partition`: whose QOS it is; None: that of the job."""
    of = f" of {partition}" if partition else ""
    return Name(f"the QOS `{name}`{of}", f"The QOS `{name}`{of}")


def account(name: str, *, whole: bool) -> Name:
    """Name an account. `whole`: all of it, not the user's part."""
    if whole:
        return Name(f"the account `{name}`", f"The account `{name}`")
    return Name(f"your account `{name}`", f"Your account `{name}`")


def amount(tres: str, count: float) -> str:
    """Say how much of `cpu`, `node`, `mem` (MiB), `gres/gpu`, `gres/gpu:TYPE`. KeyError."""
    _, _, kind = tres.partition("gpu:")
    if kind:
        return f"{counted(round(count), 'GPU')} of the type {kind}"
    if tres == "mem":
        return f"{memory(count)} of memory"
    return counted(round(count), {"cpu": "CPU", "node": "node", "gres/gpu": "GPU"}[tres])


def nodes_of(partition: str, count: int, of: int) -> str:
    if count >= of:
        return f"all {count} nodes of {partition}"
    return f"{count} of the {of} nodes of {partition}"


def with_source(value: str, by: Source) -> str:
    """Add whose word it is, unless it is the cluster's; also where that stands alone (`""`)."""
    match by:
        case Source.CLUSTER:
            return value
        case Source.PROFILE:
            return f"{value} (the profile says)"
        case Source.TEMPLATE:
            return f"{value} (the template says)"
