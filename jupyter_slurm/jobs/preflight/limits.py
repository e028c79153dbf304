"""What a job asks for against what is known of the cluster: what cannot be, and why. PURE.

What is certain is what sbatch itself would refuse, or would let wait for ever above a partition's
limit, on the cluster's own word or on that of the person's profile; a template may be out of date,
and only warns. What a QOS or an account allows is
`policies.py`'s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jupyter_slurm.formatting import duration, joined, memory
from jupyter_slurm.jobs.preflight import phrases, policies
from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.jobs.preflight.partition_facts import (
    Figure,
    KnownPartition,
    Source,
    known_partitions,
)
from jupyter_slurm.jobs.preflight.resources import Resources
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.slurm.units import format_memory, format_time
from jupyter_slurm.wire import ClusterInfo

_FEW = 3
_WORDS = {"qos": "QOS", "account": "account"}
"""Words for the values of options."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges jobs by a profile, and by what the cluster said of itself, where it was asked."""

    profile: ClusterProfile
    info: ClusterInfo | None = None

    def partition(self, job: Resources) -> KnownPartition | None:
        """Return the partition that the job would go to, as far as known; of several the first."""
        known = known_partitions(self.profile, self.info)
        return next((known[name] for name in self._wanted(job) if name in known), None)

    def objections(self, job: Resources) -> list[Objection]:
        """Return what speaks against the job; of several partitions the best judges it."""
        known = known_partitions(self.profile, self.info)
        judged = [
            list(self._of_partition(job, known[name]) if name in known else self._of_name(name))
            for name in self._wanted(job)
        ]
        best = min(judged, key=_gravity, default=[])
        if job.held:
            best = [replace(one, certain=False) for one in best]
        rest = [*self._of_qos(job), *self._of_account(job), *self._of_policies(job)]
        return [*best, *rest, *of_inputs(job)]

    def _wanted(self, job: Resources) -> Sequence[str]:
        default = [one.name for one in self.info.partitions if one.default] if self.info else []
        return job.partitions or default

    # --- partitions ---

    def _of_name(self, name: str) -> Iterator[Objection]:
        """Object to an unknown name. A profile need not name all partitions: it only warns."""
        known = list(known_partitions(self.profile, self.info))
        if known and not (self.info and name in self.info.hidden):
            near = suggest(name, known)
            yield Objection(
                f"There is no partition `{name}`{_did_you_mean(near)}",
                f"Partitions: {', '.join(known)}.",
                certain=self._enforced("requests", Source.CLUSTER),
                option="partition",
            )

    def _of_partition(self, job: Resources, known: KnownPartition) -> Iterator[Objection]:
        if known.live and not known.live.up:
            sentence = f"The partition {known.name} is down."
            yield Objection(sentence, "Jobs wait.", certain=False, option="partition")
        yield from self._of_time(job, known)
        name = known.name
        if (most := self._max_nodes(job, known)) and job.nodes > most.value:
            sentence = (
                f"{job.nodes} nodes are more than {name} has for a job: {_with_source(most)}."
            )
            yield self._too_much(sentence, most, "nodes")
        yield from self._of_gpus(job, known)
        if (most := known.cpus) and job.cpus_per_node > most.value:
            sentence = (
                f"{job.cpus_per_node} CPUs are more than {name} has on a node: "
                f"{_with_source(most)}."
            )
            yield self._too_much(sentence, most, "cpus-per-task")
        mib = job.memory_per_node_mib or 0
        if (most := known.memory_mib) and mib > most.value:
            asked, told = format_memory(mib), phrases.with_source(memory(most.value), most.by)
            sentence = f"{asked} of memory are more than {name} has on a node: {told}."
            yield self._too_much(sentence, most, "mem", memory(most.value))

    def _max_nodes(self, job: Resources, known: KnownPartition) -> Figure | None:
        if known.live and "nodes" in self._beyond(job, known):
            return Figure(known.live.nodes, Source.CLUSTER)
        return known.max_nodes

    def _beyond(self, job: Resources, known: KnownPartition) -> Sequence[str]:
        """Return which of the partition's limits the job's QOS lifts."""
        qos = policies.qos(job, self.info, known.live) if self.info else None
        return qos.beyond if qos else ()

    def _of_time(self, job: Resources, known: KnownPartition) -> Iterator[Objection]:
        limit, wanted_s = known.limit_s, job.limit_s
        if limit is None or wanted_s is None or wanted_s <= limit.value:
            return
        if "time" in self._beyond(job, known):
            return
        longer = [
            (one.limit_s.value, one.name)
            for one in known_partitions(self.profile, self.info).values()
            if one.limit_s and one.limit_s.value >= wanted_s
            if not job.gpus or (one.gpus and one.gpus.value)
        ]
        names = [name for _, name in sorted(longer)][:_FEW]
        asked = format_time(None if wanted_s == math.inf else wanted_s)
        most = phrases.with_source(duration(limit.value), limit.by)
        yield Objection(
            f"--time {asked} is more than {known.name} allows: {most}.",
            joined(_shorter(format_time(limit.value), names), self._remedy(limit.by)),
            certain=self._enforced("requests", limit.by),
            by=limit.by,
            option="time",
        )

    def _of_gpus(self, job: Resources, known: KnownPartition) -> Iterator[Objection]:
        figure, live = known.gpus, known.live
        if live and live.gpus == 0 and job.gpus:
            others = [one.name for one in self.info.partitions if one.gpus] if self.info else []
            yield Objection(
                f"{known.name} has no GPUs.",
                f"Partitions with GPUs: {', '.join(others) or 'none'}.",
                certain=self._enforced("requests", Source.CLUSTER),
                option="gpus",
            )
        elif figure and job.gpus_per_node > figure.value:
            asked, most = job.gpus_per_node, _with_source(figure)
            sentence = f"{asked} GPUs are more than {known.name} has on a node: {most}."
            yield self._too_much(sentence, figure, "gpus")
        elif live and job.gpus > live.gpus:
            sentence = f"{job.gpus} GPUs are more than {known.name} has in all: {live.gpus}."
            yield self._too_much(sentence, Figure(live.gpus, Source.CLUSTER), "gpus")
        types = live.gpu_types if live else ()
        for kind in job.gpu_types if types else ():
            if kind.lower() not in {one.lower() for one in types}:
                near = suggest(kind, types)
                yield Objection(
                    f"{known.name} has no GPU of the type `{kind}`{_did_you_mean(near)}",
                    f"It has: {', '.join(types)}.",
                    certain=self._enforced("requests", Source.CLUSTER),
                    option="gpus",
                )

    def _too_much(
        self, sentence: str, figure: Figure, option: str, most: str | None = None
    ) -> Objection:
        """Return the objection. `most`: the figure in words; None: as a number."""
        most = f"{figure.value:.0f}" if most is None else most
        return Objection(
            sentence,
            joined(f"Ask for {most} or less.", self._remedy(figure.by)),
            certain=self._enforced("requests", figure.by),
            by=figure.by,
            option=option,
        )

    # --- QOS and accounts ---

    def _of_qos(self, job: Resources) -> Iterator[Objection]:
        here = self.partition(job)
        allowed = here.live.allow_qos if here and here.live else ()
        offered = self.info.qos if self.info else ()
        yield from self._of_word("qos", job.qos, offered, self.profile.qos, allowed)

    def _of_policies(self, job: Resources) -> Iterator[Objection]:
        here = self.partition(job)
        if self.info is not None:
            yield from policies.objections(job, self.info, here.live if here else None)

    def _of_account(self, job: Resources) -> Iterator[Objection]:
        here = self.partition(job)
        allowed = here.live.allow_accounts if here and here.live else ()
        offered = self.info.accounts if self.info else ()
        yield from self._of_word("accounts", job.account, offered, self.profile.accounts, allowed)

    def _of_word(
        self,
        key: str,
        word: str | None,
        offered: Sequence[str],
        told: Sequence[str],
        allowed: Sequence[str],
    ) -> Iterator[Objection]:
        """Object to a word not `offered` by the cluster (else `told` by the profile), or
        `allowed`."""
        if word is None:
            return
        by = Source.CLUSTER
        if not offered:
            by = Source.TEMPLATE if ("", key) in self.profile.by_template else Source.PROFILE
        known = offered or told
        kind, option = ("qos", "qos") if key == "qos" else ("associations", "account")
        if known and word not in known:
            yield Objection(
                _unknown(option, word, suggest(word, known), phrases.with_source("", by)),
                joined(f"There are: {', '.join(known)}.", self._remedy(by)),
                certain=self._enforced(kind, by),
                by=by,
                option=option,
            )
        elif allowed and word not in allowed:
            yield Objection(
                f"The partition does not allow the {_WORDS[option]} `{word}`.",
                f"It allows: {', '.join(allowed)}.",
                certain=self._enforced(kind, Source.CLUSTER),
                option=option,
            )

    # --- whose word it is ---

    def _enforced(self, kind: str, by: Source) -> bool:
        if by is Source.CLUSTER:
            return self.info is not None and kind in self.info.enforced
        return by is Source.PROFILE

    def _remedy(self, by: Source) -> str:
        if by is Source.CLUSTER:
            return ""
        return f"If that is out of date, change it in {self.profile.origin}."


def of_inputs(job: Resources) -> Iterator[Objection]:
    """Warn where inputs fill the memory. Arrays are mapped, and take none until touched."""
    mib = job.memory_per_node_mib
    if mib and job.inputs_mib >= mib:
        yield Objection(
            f"The variables of --in take {memory(job.inputs_mib)} or more, and the job asks "
            f"for {memory(mib)} of memory.",
            "Where the cluster enforces --mem, Slurm ends the job: ask for more.",
            certain=False,
            option="mem",
        )


def _gravity(objections: Sequence[Objection]) -> tuple[bool, int]:
    return any(one.certain for one in objections), len(objections)


def _with_source(figure: Figure) -> str:
    return phrases.with_source(f"{figure.value:.0f}", figure.by)


def _shorter(most: str, partitions: Sequence[str]) -> str:
    """Return the remedy. `partitions`: up to three that allow the time that was asked for."""
    other = f", or use {' or '.join(partitions)}" if partitions else ""
    return f"Ask for --time {most} or less{other}."


def _unknown(option: str, word: str, near: str | None, told: str) -> str:
    return f"You have no {_WORDS[option]} `{word}`{told}{_did_you_mean(near)}"


def _did_you_mean(near: str | None) -> str:
    """Return the end of a sentence about an unknown word."""
    return f"; did you mean `{near}`?" if near else "."
