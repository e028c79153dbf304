"""PURE. What stands inside the sentences of limits, policies and costs: how much, whose, where.

No sentences, and nothing else that is text: every text here is translated by itself
(labextension/said_sentences.py reads them), and then put into its sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_slurm.jobs.preflight.partition_facts import Source
from jupyter_slurm.readable import memory


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a QOS or an account that sets limits."""

    within: str
    first: str
    """The form that begins a sentence."""


THE_CODE = "the code"


def qos(name: str, partition: str | None) -> Name:
    """Name a QOS. `partition`: whose QOS it is; None: that of the job."""
    if partition is None:
        return Name(f"the QOS `{name}`", f"The QOS `{name}`")
    return Name(f"the QOS `{name}` of {partition}", f"The QOS `{name}` of {partition}")


def account(name: str, *, whole: bool) -> Name:
    """Name an account. `whole`: all of it, not the user's part."""
    if whole:
        return Name(f"the account `{name}`", f"The account `{name}`")
    return Name(f"your account `{name}`", f"Your account `{name}`")


def amount(tres: str, count: float) -> str:
    """Say how much of `cpu`, `node`, `mem` (MiB), `gres/gpu`, `gres/gpu:TYPE`. KeyError."""
    _, _, kind = tres.partition("gpu:")
    if kind:
        return f"1 GPU of the type {kind}" if count == 1 else f"{count:.0f} GPUs of the type {kind}"
    return {
        "cpu": "1 CPU" if count == 1 else f"{count:.0f} CPUs",
        "node": "1 node" if count == 1 else f"{count:.0f} nodes",
        "gres/gpu": "1 GPU" if count == 1 else f"{count:.0f} GPUs",
        "mem": f"{memory(count)} of memory",
    }[tres]


def jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def running_jobs(count: int) -> str:
    return "1 running job" if count == 1 else f"{count} running jobs"


def nodes_of(partition: str, count: int, of: int) -> str:
    if count >= of:
        return f"all {count} nodes of {partition}"
    return f"{count} of the {of} nodes of {partition}"


def told(what: str, by: Source) -> str:
    """Add whose word it is, unless it is the cluster's; also where that stands alone (`""`)."""
    match by:
        case Source.CLUSTER:
            return what
        case Source.PROFILE:
            return f"{what} (the profile says)"
        case Source.TEMPLATE:
            return f"{what} (the template says)"
