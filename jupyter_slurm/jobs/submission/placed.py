"""Send a job whose container stays on a node to that node, or refuse it.

`resolve.py` has read the notes of earlier jobs into `Resolved.site`; our own records know the jobs
that live. This asks the cluster nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from jupyter_slurm.containers.kept import removal_mark
from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.records.book import Book
from jupyter_slurm.jobs.submission.options import nodes_asked
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.slurm.units import parse_nodelist
from jupyter_slurm.wire import Job

_NODELIST = "nodelist"
_OPTION = "container-name"


def placed(job: Resolved, book: Book) -> Resolved:
    """Return the job with the nodes that have its container in `--nodelist`, unless its user named
    nodes. RequestError: no node has it and there is no image to make it from, or it is not known
    yet which node has it."""
    name = job.spec.container_name
    if name is None:
        return job
    _check_removal(name, job, book)
    nodes = [one.node for one in job.site.containers]
    asked = job.options.get(_NODELIST)
    if asked is not None or "nodefile" in job.options:
        _check_named(name, nodes, asked, job)
        return job
    nodes = nodes or _nodes_of_maker(name, job, book)
    wanted = nodes_asked(job.options)
    if job.image is None and len(nodes) < wanted:
        raise _lacking(name, nodes, wanted, job)
    if not nodes:
        return job
    there = ",".join(nodes[:wanted])
    spec = msgspec.structs.replace(job.spec, options={**job.spec.options, _NODELIST: there})
    return replace(job, spec=spec, options={**job.options, _NODELIST: there})


def named_without(nodes: Sequence[str], asked: str | None) -> list[str]:
    """Return the nodes of `--nodelist` that are not among `nodes`; none where sbatch has to say
    what is wrong with it."""
    try:
        named = parse_nodelist(asked or "")
    except ValueError:
        return []
    return [one for one in named if one not in nodes]


def _check_removal(name: str, job: Resolved, book: Book) -> None:
    mark = removal_mark(job.profile.name, name, "")
    for one in (record.job for record in book.live()):
        if one.fingerprint is not None and one.fingerprint.startswith(mark):
            raise RequestError(
                "The job {job} is removing the container {name}.",
                hint="Wait for its end, or take another name.",
                option=_OPTION,
                job=one.id,
                name=name,
            )


def _check_named(name: str, nodes: Sequence[str], asked: str | None, job: Resolved) -> None:
    """Raise RequestError where the named nodes lack a container that is known elsewhere."""
    lacking = named_without(nodes, asked)
    if job.image is None and nodes and lacking:
        raise RequestError(
            "The container {name} is on {nodes} only, and --nodelist names {lacking}.",
            hint="Leave out --nodelist, or say from which image to make another one there: "
            "--image IMAGE.",
            option=_OPTION,
            name=name,
            nodes=", ".join(nodes),
            lacking=", ".join(lacking),
        )


def _nodes_of_maker(name: str, job: Resolved, book: Book) -> list[str]:
    """Return the nodes of a job that runs and makes the container now. RequestError: one waits."""
    for one in (record.job for record in book.live()):
        if not _makes(one, name, job):
            continue
        if not one.nodes:
            raise RequestError(
                "The job {job} is about to make the container {name}; on which node is known when "
                "it runs.",
                hint="Wait until then, or name the node of both: --nodelist NODE.",
                option=_OPTION,
                job=one.id,
                name=name,
            )
        return list(one.nodes)
    return []


def _makes(one: Job, name: str, job: Resolved) -> bool:
    asked = (one.cluster, one.runtime, one.container_name)
    return asked == (job.profile.name, job.runtime.name, name)


def _lacking(name: str, nodes: Sequence[str], wanted: int, job: Resolved) -> RequestError:
    if nodes:
        return RequestError(
            "The container {name} is on {nodes} only, and the job asks for {wanted} nodes.",
            hint="Say from which image to make it on the others: --image IMAGE.",
            option=_OPTION,
            name=name,
            nodes=", ".join(nodes),
            wanted=wanted,
        )
    return RequestError(
        "There is no container {name} on {cluster}, and no image to make it from.",
        hint="Add --image IMAGE. `{slurm} image ls` lists the containers that jobs have made; to "
        "use another one, add --nodelist NODE.",
        option=_OPTION,
        name=name,
        cluster=job.profile.name,
    )
