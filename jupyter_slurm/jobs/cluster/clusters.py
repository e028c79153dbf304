"""The open clusters. Each has one SlurmCluster and one Watch, created on first use.

Opening a cluster does not connect to it. The first command connects.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from itertools import count

from jupyter_slurm.errors import ConfigError, JupyterSlurmError, RequestError
from jupyter_slurm.jobs.cluster.logins import Login, Logins
from jupyter_slurm.jobs.cluster.slurm_cluster import ClusterAccess, SlurmCluster
from jupyter_slurm.jobs.records.registry import JobRegistry
from jupyter_slurm.jobs.watching.watcher import Watch
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.profiles.reading import ProfileFiles, Profiles
from jupyter_slurm.transport import TimedOutError
from jupyter_slurm.wire import Cluster, Connection, ConnectionState

_STANDS = frozenset(
    (ConnectionState.OPEN, ConnectionState.CONNECTING, ConnectionState.ASKING, ConnectionState.LOST)
)


class Clusters:
    def __init__(self, registry: JobRegistry) -> None:
        self._registry = registry
        self._profiles = ProfileFiles()
        self._lock = threading.Lock()
        """A lock for short operations. Slow operations hold the lock of their cluster."""
        self._locks: dict[str, threading.RLock] = {}
        self._open: dict[str, SlurmCluster] = {}
        self._watches: dict[str, Watch] = {}
        self._began_s = time.time()
        self._change_counts = count(1)
        self.change_count = 0
        """The number of changes to connections, logins and profiles. Each change also notifies the
        registry."""
        self.logins = Logins(self._notify)
        self._listed: Profiles | None = None
        """The profiles at the last call of `listed`."""

    def named(self, name: str | None) -> SlurmCluster:
        """Return the cluster with this name, or the default cluster for None. Reopen the cluster if
        its profile has changed. Raises NotFoundError or ConfigError."""
        profile = self._profiles.load().get(name)
        open_now = self._open.get(profile.name)
        if open_now is not None and open_now.profile == profile:
            return open_now
        name = profile.name
        with self._lock_of(name):  # `ssh -G` may hang (`Match exec`, a DNS query)
            # Read the profile under the lock. Otherwise, a thread with an older profile could
            # restore that profile.
            profile = self._profiles.load().get(name)
            known = self._open.get(profile.name)
            if known is not None and known.profile == profile:
                return known
            same = None if known is None else known.access.again(known.profile, profile)
            if same is not None:
                return self._opened(SlurmCluster(profile, same))  # keeps the login
            cluster = SlurmCluster(profile, self._access_to(profile))
            if known is not None:
                known.access.close()
            return self._opened(cluster)

    def may_be_shown_below(self, name: str) -> bool:
        """Return whether the cluster's profile allows labs and dashboards below the URL of a
        Jupyter server. Return False without a valid profile."""
        with suppress(JupyterSlurmError):  # the cluster's profile was removed
            return self.named(name).profile.lab_same_origin
        return False

    def _lock_of(self, name: str) -> threading.RLock:
        with self._lock:
            return self._locks.setdefault(name, threading.RLock())

    def _access_to(self, profile: ClusterProfile) -> ClusterAccess:
        return ClusterAccess.to(profile, on_change=lambda: self._connection_changed(profile.name))

    def _opened(self, cluster: SlurmCluster) -> SlurmCluster:
        """Replace the open cluster of the same name, and its watch. Return `cluster`."""
        with self._lock:
            self._open[cluster.name] = cluster
            outdated = self._watches.pop(cluster.name, None)
        if outdated is not None:
            outdated.close()
            self.watch(cluster).look()
        return cluster

    def _by_the_configuration_of_now(self, cluster: SlurmCluster) -> SlurmCluster:
        """Return the cluster. If it is not connected and its ssh configuration has changed, reopen
        it with a new `ClusterAccess`. Raises ConfigError."""
        old = cluster.access.connection
        if old is None or old.state in _STANDS:
            return cluster
        with self._lock_of(cluster.name):
            now = self._open.get(cluster.name, cluster)
            if now is not cluster:
                return now
            access = self._access_to(cluster.profile)
            if access.connection is None or access.connection.hops == old.hops:
                return cluster
            cluster.access.close()
            return self._opened(SlurmCluster(cluster.profile, access))

    def _connection_changed(self, name: str) -> None:
        """Wake waiting calls. The caller may hold any lock, so do not take `_lock` or a cluster's
        lock."""
        cluster, watch = self._open.get(name), self._watches.get(name)
        connection = cluster.access.connection if cluster is not None else None
        if (
            watch is not None
            and connection is not None
            and connection.state is ConnectionState.OPEN
        ):
            watch.way_opened()
        self.logins.notify()
        self._notify()

    def _notify(self) -> None:
        self.change_count = next(self._change_counts)
        self._registry.notify()

    def connect(
        self, cluster: str | None = None, caller: str = "", wait_s: float = 0.0
    ) -> Connection:
        """Connect to a cluster; see `Api.connect`."""
        known = self._by_the_configuration_of_now(self.named(cluster))
        login = self.login(known)
        if login is None:
            return self.connection(known)
        return self._with_a_shell(known, login.connect(caller, wait_s))

    def _with_a_shell(self, cluster: SlurmCluster, found: Connection) -> Connection:
        """Return `found`. If the connection is open, first check it with a command. Raises
        TransportError."""
        if found.state is ConnectionState.OPEN:
            with suppress(TimedOutError):
                cluster.transport.run(["true"])
        return found

    def answer(self, question_id: str, text: str | None, wait_s: float = 0.0) -> Connection:
        login = self.logins.asking(question_id)
        if login is None:
            raise RequestError(
                "That question is no longer open.", hint="Log in again if a login is still needed."
            )
        found = login.answer(question_id, text, wait_s)
        return self._with_a_shell(self.named(found.cluster), found)

    def disconnect(self, cluster: str | None = None) -> Connection:
        known = self.named(cluster)
        if known.access.connection is not None:
            known.access.connection.disconnect()
            self.logins.of(known.name, known.access.connection).give_up()
        return self.connection(known)

    def connection(self, cluster: SlurmCluster, caller: str = "") -> Connection:
        """Return the connection as `caller` sees it, including any question for this caller."""
        login = self.login(cluster)
        if login is not None:
            return login.seen_by(caller)
        return Connection(cluster=cluster.name, state=ConnectionState.LOCAL, since_s=self._began_s)

    def login(self, cluster: SlurmCluster) -> Login | None:
        """Return the cluster's login; None if the cluster is this machine."""
        connection = cluster.access.connection
        return None if connection is None else self.logins.of(cluster.name, connection)

    def connections(self) -> list[Connection]:
        """Return the connection of every cluster. If a cluster's profile or ssh configuration is
        invalid, its connection has a `problem`."""
        profiles = self._profiles.load()
        found = []
        for profile in profiles:
            try:
                found.append(self.connection(self.named(profile.name)))
            except ConfigError as exc:
                found.append(self._unusable(profile.name, exc))
        return found + [self._unusable(*one) for one in profiles.broken.items()]

    def _unusable(self, name: str, error: ConfigError) -> Connection:
        return Connection(
            cluster=name,
            state=ConnectionState.CLOSED,
            since_s=self._began_s,
            problem=error.problem(),
        )

    def seen(self, caller: str) -> tuple[Connection, ...]:
        """Return the connections as `caller` sees them, without opening clusters. A remote cluster
        that is not open is CLOSED."""
        profiles = self._profiles.load()
        known = tuple(self._seen(profile, caller) for profile in profiles)
        return known + tuple(self._unusable(*one) for one in profiles.broken.items())

    def _seen(self, profile: ClusterProfile, caller: str) -> Connection:
        known = self._open.get(profile.name)
        if known is not None and known.profile == profile:
            return self.connection(known, caller)
        state = ConnectionState.LOCAL if profile.host is None else ConnectionState.CLOSED
        return Connection(cluster=profile.name, state=state, since_s=self._began_s)

    def watch(self, cluster: SlurmCluster) -> Watch:
        """Return the watch for the name of `cluster`; create it if needed. A new watch watches the
        open cluster with this name, or else `cluster`."""
        with self._lock:
            if cluster.name not in self._watches:
                now = self._open.get(cluster.name, cluster)
                self._watches[cluster.name] = Watch(self._registry, now)
            return self._watches[cluster.name]

    def listed(self) -> list[Cluster]:
        """Return the clusters that the profiles define, the default first. Wake waiting calls if
        the profiles have changed. Raise ConfigError if a file is unreadable and the other files do
        not define a cluster."""
        profiles = self._profiles.load()
        if profiles != self._listed:
            self._listed = profiles
            self._notify()
        if profiles.unread is not None and not profiles.clusters and not profiles.broken:
            raise profiles.unread
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
        found += [
            Cluster(
                name=name,
                host=None,
                runtime="",
                origin="",
                default=name == profiles.wanted,
                problem=error.problem(),
            )
            for name, error in profiles.broken.items()
        ]
        return sorted(found, key=lambda cluster: (not cluster.default, cluster.name))

    def counts(self) -> dict[str, int]:
        """Return the number of runs of each program. The keys are `CLUSTER PROGRAM`."""
        return {
            f"{name} {program}": count
            for name, cluster in list(self._open.items())  # may change during the loop
            for program, count in cluster.counts().items()
        }

    def wake_waiters(self) -> None:
        """Answer all calls that wait for the nodes of a cluster."""
        with self._lock:
            watches = list(self._watches.values())
        for watch in watches:
            watch.wake_waiters()

    def close(self) -> None:
        self.logins.close()
        for watch in list(self._watches.values()):
            watch.close()
        for cluster in self._open.values():
            cluster.access.leave()
