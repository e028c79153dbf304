"""The clusters that are open: one SlurmCluster and one Watch each, opened when first needed."""

from __future__ import annotations

import threading

from jupyter_slurm.errors import JupyterSlurmError
from jupyter_slurm.jobs.book import Book
from jupyter_slurm.jobs.cluster import SlurmCluster
from jupyter_slurm.jobs.watch import Watch
from jupyter_slurm.profiles import ProfileFiles
from jupyter_slurm.wire import Cluster


class Clusters:
    def __init__(self, book: Book) -> None:
        self._book = book
        self._profiles = ProfileFiles()
        self._lock = threading.RLock()
        self._open: dict[str, SlurmCluster] = {}
        self._watches: dict[str, Watch] = {}

    def named(self, name: str | None) -> SlurmCluster:
        """None: the default. Opened anew when its profile has changed. NotFoundError,
        ConfigError."""
        profile = self._profiles.load().get(name)
        with self._lock:
            known = self._open.get(profile.name)
            if known is None or known.profile != profile:
                known = self._open[profile.name] = SlurmCluster(profile)
                outdated = self._watches.pop(profile.name, None)
                if outdated is not None:
                    outdated.close()
                    self.watch(known).look()
            return known

    def watch(self, cluster: SlurmCluster) -> Watch:
        with self._lock:
            if cluster.name not in self._watches:
                self._watches[cluster.name] = Watch(self._book, cluster)
            return self._watches[cluster.name]

    def listed(self) -> list[Cluster]:
        """What the profiles name, the default first."""
        profiles = self._profiles.load()
        try:
            default = profiles.default.name
        except JupyterSlurmError:
            default = None
        found = [
            Cluster(
                name=profile.name,
                host=profile.host,
                runtime=profile.runtime,
                origin=profile.origin,
                default=profile.name == default,
                images=tuple(profile.images),
            )
            for profile in profiles
        ]
        return sorted(found, key=lambda cluster: (not cluster.default, cluster.name))

    def counts(self) -> dict[str, int]:
        """`cluster program` -> how often it was run."""
        return {
            f"{name} {program}": count
            for name, cluster in self._open.items()
            for program, count in cluster.counts().items()
        }

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        for cluster in self._open.values():
            cluster.transport.close()
