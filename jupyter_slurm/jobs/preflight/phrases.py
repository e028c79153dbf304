"""PURE. What stands inside the sentences of limits, policies and costs: how much, whose, where.

Each is a message of its own, put into its sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_slurm.jobs.preflight.partition_facts import Source
from jupyter_slurm.readable import memory
from jupyter_slurm.wire import Message, Text


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a QOS or an account that sets limits."""

    within: Message
    first: Message
    """The form that begins a sentence."""


def qos(name: str, partition: str | None) -> Name:
    """Name a QOS. `partition`: whose QOS it is; None: that of the job."""
    if partition is None:
        return Name(
            Message.of("the QOS `{name}`", name=name), Message.of("The QOS `{name}`", name=name)
        )
    return Name(
        Message.of("the QOS `{name}` of {partition}", name=name, partition=partition),
        Message.of("The QOS `{name}` of {partition}", name=name, partition=partition),
    )


def account(name: str, *, whole: bool) -> Name:
    """Name an account. `whole`: all of it, not the user's part."""
    if whole:
        return Name(
            Message.of("the account `{name}`", name=name),
            Message.of("The account `{name}`", name=name),
        )
    return Name(
        Message.of("your account `{name}`", name=name),
        Message.of("Your account `{name}`", name=name),
    )


def amount(tres: str, count: float) -> Message:
    """Say how much of `cpu`, `node`, `mem` (MiB), `gres/gpu`, `gres/gpu:TYPE`. KeyError."""
    _, _, kind = tres.partition("gpu:")
    if kind:
        return (
            Message.of("1 GPU of the type {kind}", kind=kind)
            if count == 1
            else Message.of("{count} GPUs of the type {kind}", count=f"{count:.0f}", kind=kind)
        )
    return {
        "cpu": Message.of("1 CPU")
        if count == 1
        else Message.of("{count} CPUs", count=f"{count:.0f}"),
        "node": Message.of("1 node")
        if count == 1
        else Message.of("{count} nodes", count=f"{count:.0f}"),
        "gres/gpu": Message.of("1 GPU")
        if count == 1
        else Message.of("{count} GPUs", count=f"{count:.0f}"),
        "mem": Message.of("{count} of memory", count=memory(count)),
    }[tres]


def jobs(count: int) -> Message:
    return Message.of("1 job") if count == 1 else Message.of("{count} jobs", count=count)


def running_jobs(count: int) -> Message:
    return (
        Message.of("1 running job")
        if count == 1
        else Message.of("{count} running jobs", count=count)
    )


def nodes_of(partition: str, count: int, of: int) -> Message:
    if count >= of:
        return Message.of("all {count} nodes of {partition}", count=count, partition=partition)
    return Message.of(
        "{count} of the {of} nodes of {partition}", count=count, of=of, partition=partition
    )


def with_source(value: str, by: Source) -> Text:
    """Add whose word it is, unless it is the cluster's; also where that stands alone (`""`)."""
    match by:
        case Source.CLUSTER:
            return value
        case Source.PROFILE:
            return Message.of("{value} (the profile says)", value=value)
        case Source.TEMPLATE:
            return Message.of("{value} (the template says)", value=value)
