"""What a job asks for against what is known of the cluster: what cannot be, and why. PURE.

What is certain is what sbatch itself would refuse, on the cluster's own word or on that of the
person's profile; a template may be out of date, and only warns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jupyter_slurm.jobs.asked import Asked
from jupyter_slurm.jobs.known import Figure, KnownPartition, Source, known_partitions
from jupyter_slurm.profiles import ClusterProfile
from jupyter_slurm.readable import duration, memory
from jupyter_slurm.slurm.options import suggest
from jupyter_slurm.slurm.units import format_memory, format_time
from jupyter_slurm.wire import Check, ClusterInfo

_FEW = 3


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a job would not run as asked, `by` whose word. `certain`: sbatch refuses it."""

    sentence: str
    hint: str
    certain: bool
    by: Source = Source.CLUSTER

    def check(self) -> Check:
        return Check(ok=False if self.certain else None, sentence=self.sentence, hint=self.hint)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges jobs by a profile, and by what the cluster said of itself, where it was asked."""

    profile: ClusterProfile
    info: ClusterInfo | None = None

    def partition(self, job: Asked) -> KnownPartition | None:
        """The one that the job would go to, as far as is known; of several the first."""
        known = known_partitions(self.profile, self.info)
        return next((known[name] for name in self._wanted(job) if name in known), None)

    def objections(self, job: Asked) -> list[Objection]:
        """What speaks against it. A job for several partitions is judged by the best of them."""
        known = known_partitions(self.profile, self.info)
        judged = [
            list(self._of_partition(job, known[name]) if name in known else self._of_name(name))
            for name in self._wanted(job)
        ]
        best = min(judged, key=_gravity, default=[])
        if job.held:
            best = [replace(one, certain=False) for one in best]
        return [*best, *self._of_qos(job), *self._of_qos_limits(job), *self._of_account(job)]

    def _wanted(self, job: Asked) -> Sequence[str]:
        default = [one.name for one in self.info.partitions if one.default] if self.info else []
        return job.partitions or default

    # --- partitions ---

    def _of_name(self, name: str) -> Iterator[Objection]:
        """A name that nobody knows. A profile need not name them all, and so only warns."""
        known = list(known_partitions(self.profile, self.info))
        if known and not (self.info and name in self.info.hidden):
            yield Objection(
                f"There is no partition `{name}`{_near(name, known)}",
                f"Partitions: {', '.join(known)}.",
                certain=self._enforced("requests", Source.CLUSTER),
            )

    def _of_partition(self, job: Asked, known: KnownPartition) -> Iterator[Objection]:
        if known.live and not known.live.up:
            yield Objection(f"The partition {known.name} is down.", "Jobs wait.", certain=False)
        yield from self._of_time(job, known)
        if known.max_nodes and job.nodes > known.max_nodes.value:
            most = f"{known.max_nodes.value:.0f}"
            yield self._too_much(
                f"{job.nodes} nodes", most, "for a job", known, known.max_nodes, "partitions"
            )
        yield from self._of_gpus(job, known)
        if known.cpus and job.cpus_per_node > known.cpus.value:
            asked, most = f"{job.cpus_per_node} CPUs", f"{known.cpus.value:.0f}"
            yield self._too_much(asked, most, "on a node", known, known.cpus, "requests")
        mib = job.memory_per_node_mib or 0
        if known.memory_mib and mib > known.memory_mib.value:
            most = memory(known.memory_mib.value)
            asked = f"{format_memory(mib)} of memory"
            yield self._too_much(asked, most, "on a node", known, known.memory_mib, "requests")

    def _of_time(self, job: Asked, known: KnownPartition) -> Iterator[Objection]:
        limit, wanted_s = known.limit_s, job.limit_s
        if limit is None or wanted_s is None or wanted_s <= limit.value:
            return
        longer = [
            (one.limit_s.value, one.name)
            for one in known_partitions(self.profile, self.info).values()
            if one.limit_s and one.limit_s.value >= wanted_s
            if not job.gpus or (one.gpus and one.gpus.value)
        ]
        names = [name for _, name in sorted(longer)][:_FEW]
        elsewhere = f", or take {' or '.join(names)}" if names else ""
        asked = format_time(None if wanted_s == math.inf else wanted_s)
        most = format_time(limit.value)
        yield Objection(
            f"--time {asked} is more than {known.name} allows: {duration(limit.value)}"
            f"{_says(limit.by)}.",
            f"Ask for --time {most} or less{elsewhere}.{self._remedy(limit.by)}",
            certain=self._enforced("partitions", limit.by),
            by=limit.by,
        )

    def _of_gpus(self, job: Asked, known: KnownPartition) -> Iterator[Objection]:
        figure, live = known.gpus, known.live
        if live and live.gpus == 0 and job.gpus:
            others = [one.name for one in self.info.partitions if one.gpus] if self.info else []
            yield Objection(
                f"{known.name} has no GPUs.",
                f"Partitions with GPUs: {', '.join(others) or 'none'}.",
                certain=self._enforced("requests", Source.CLUSTER),
            )
        elif figure and job.gpus_per_node > figure.value:
            asked, most = f"{job.gpus_per_node} GPUs", f"{figure.value:.0f}"
            yield self._too_much(asked, most, "on a node", known, figure, "requests")
        elif live and job.gpus > live.gpus:
            figure = Figure(live.gpus, Source.CLUSTER)
            asked, most = f"{job.gpus} GPUs", f"{live.gpus}"
            yield self._too_much(asked, most, "in all", known, figure, "requests")
        types = live.gpu_types if live else ()
        for kind in job.gpu_types if types else ():
            if kind.lower() not in {one.lower() for one in types}:
                yield Objection(
                    f"{known.name} has no GPU of the type `{kind}`{_near(kind, types)}",
                    f"It has: {', '.join(types)}.",
                    certain=self._enforced("requests", Source.CLUSTER),
                )

    def _too_much(
        self, asked: str, most: str, where: str, known: KnownPartition, figure: Figure, kind: str
    ) -> Objection:
        return Objection(
            f"{asked} are more than {known.name} has {where}: {most}{_says(figure.by)}.",
            f"Ask for {most} or less.{self._remedy(figure.by)}",
            certain=self._enforced(kind, figure.by),
            by=figure.by,
        )

    # --- QOS and accounts ---

    def _of_qos(self, job: Asked) -> Iterator[Objection]:
        here = self.partition(job)
        allowed = here.live.allow_qos if here and here.live else ()
        offered = self.info.qos if self.info else ()
        yield from self._of_word("qos", "QOS", job.qos, offered, self.profile.qos, allowed)

    def _of_qos_limits(self, job: Asked) -> Iterator[Objection]:
        info = self.info
        word = job.qos or (info.qos[0] if info and len(info.qos) == 1 else None)
        qos = next((one for one in info.qos_limits if one.name == word), None) if info else None
        if qos is None:
            return
        certain = qos.denies and self._enforced("limits", Source.CLUSTER) and not job.held
        otherwise = "" if certain else " Else the job waits for ever."
        limit_s = qos.limit_s or math.inf
        # Without --time it may have as much as the partition gives it.
        wanted_s = job.limit_s if job.limit_s is not None else self._default_s(job)
        if wanted_s > limit_s:
            yield Objection(
                f"A job of the QOS `{word}` can run for {duration(limit_s)}.",
                f"Ask for --time {format_time(limit_s)} or less.{otherwise}",
                certain,
            )
        wanted = {
            "cpu": job.cpus,
            "node": job.nodes,
            "gres/gpu": job.gpus,
            "mem": (job.memory_per_node_mib or 0) * job.nodes,
        }
        for tres, most in qos.most.items():
            if wanted.get(tres, 0) > most:
                text = memory(most) if tres == "mem" else f"{most:.0f} of {tres}"
                yield Objection(
                    f"A job of the QOS `{word}` can have {text}.",
                    f"Ask for less, or take another QOS.{otherwise}",
                    certain,
                )

    def _default_s(self, job: Asked) -> float:
        here = self.partition(job)
        return here.live.default_time_s or 0 if here and here.live else 0

    def _of_account(self, job: Asked) -> Iterator[Objection]:
        here = self.partition(job)
        allowed = here.live.allow_accounts if here and here.live else ()
        offered = self.info.accounts if self.info else ()
        yield from self._of_word(
            "accounts", "account", job.account, offered, self.profile.accounts, allowed
        )

    def _of_word(
        self,
        key: str,
        what: str,
        word: str | None,
        offered: Sequence[str],
        told: Sequence[str],
        allowed: Sequence[str],
    ) -> Iterator[Objection]:
        """`offered` by the cluster, else `told` by the profile; `allowed` by the partition."""
        if word is None:
            return
        by = Source.CLUSTER
        if not offered:
            by = Source.TEMPLATE if ("", key) in self.profile.by_template else Source.PROFILE
        known = offered or told
        kind = "qos" if key == "qos" else "associations"
        if known and word not in known:
            yield Objection(
                f"There is no {what} `{word}` for you{_says(by)}{_near(word, known)}",
                f"There are: {', '.join(known)}.{self._remedy(by)}",
                certain=self._enforced(kind, by),
                by=by,
            )
        elif allowed and word not in allowed:
            yield Objection(
                f"The partition does not take the {what} `{word}`.",
                f"It takes: {', '.join(allowed)}.",
                certain=self._enforced(kind, Source.CLUSTER),
            )

    # --- whose word it is ---

    def _enforced(self, kind: str, by: Source) -> bool:
        if by is Source.CLUSTER:
            return self.info is not None and kind in self.info.enforced
        return by is Source.PROFILE

    def _remedy(self, by: Source) -> str:
        if by is Source.CLUSTER:
            return ""
        return f" If that is out of date, change it in {self.profile.origin}."


def _gravity(objections: Sequence[Objection]) -> tuple[bool, int]:
    return any(one.certain for one in objections), len(objections)


def _says(by: Source) -> str:
    return "" if by is Source.CLUSTER else f" ({by} says)"


def _near(word: str, known: Sequence[str]) -> str:
    near = suggest(word, known)
    return f"; did you mean `{near}`?" if near else "."
