"""PURE: tell, before a job is sent, on which node its named container lies."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.jobs.submission.placed import named_without
from jupyter_slurm.jobs.submission.resolved import Resolved
from jupyter_slurm.wire import Message


def of_container(job: Resolved) -> Iterator[Objection]:
    """Yield where the container is, and that another image than it was made from is not used. Of a
    job that goes where its container is that is worth a word before it is sent, no warning."""
    name, there = job.spec.container_name, job.site.containers
    if name is None or not there:
        return
    nodes = [one.node for one in there]
    lacking = named_without(nodes, job.options.get("nodelist"))
    said = Message.of("The container {name} is on {nodes} only.", name=name, nodes=", ".join(nodes))
    hint = Message.of("The job runs on a node that has it.")
    if lacking:
        hint = Message.of("On {nodes} the job makes another one.", nodes=", ".join(lacking))
    yield Objection(said, hint, certain=False, option="container-name", passing=not lacking)
    asked, made = job.spec.image, there[0].image
    if asked is not None and made not in (None, asked):
        yield Objection(
            Message.of(
                "The container {name} was made from {made}, and {asked} changes nothing in it.",
                name=name,
                made=made,
                asked=asked,
            ),
            Message.of("To make it anew: `{slurm} image rm {name}`.", name=name),
            certain=False,
            option="image",
        )
