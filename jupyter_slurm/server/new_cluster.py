"""Routes that add a cluster, as `jupyter slurm clusters add` does.

They write a profile with the connection, describe the cluster after the login, and then complete or
remove the profile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import msgspec
from tornado.web import authenticated

from jupyter_slurm.api import Api
from jupyter_slurm.commands import new_cluster
from jupyter_slurm.errors import JupyterSlurmError, NotFoundError
from jupyter_slurm.profiles import save, templates
from jupyter_slurm.profiles.save import Setting
from jupyter_slurm.profiles.ssh_hosts import ssh_hosts
from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.handlers import StatefulHandler
from jupyter_slurm.server.kernels import Nothing
from jupyter_slurm.wire import ClusterInfo


class Template(msgspec.Struct, frozen=True):
    """A template of a known cluster."""

    name: str
    about: str
    hint: str
    """A note for the user to read before the login."""
    ask: dict[str, str]
    """Questions by setting, for values that only the user knows."""


class Ways(msgspec.Struct, frozen=True):
    """Choices for a new cluster."""

    hosts: list[str]
    """Host names in the user's SSH configuration."""
    templates: list[Template]


class Way(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new cluster: a host, or a template with answers to its questions."""

    name: str
    host: str = ""
    """`[user@]host[:port]`, or a name in ~/.ssh/config."""
    user: str = ""
    jump: str = ""
    """Jump hosts, the outermost first, separated by commas."""
    path: str = ""
    """Folder of Slurm's commands; "" if they are on PATH."""
    env: str = ""
    """Lines of `NAME=VALUE` with environment variables for Slurm's commands."""
    template: str = ""
    answers: dict[str, str] = {}


class Name(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class Found(msgspec.Struct, frozen=True):
    """A description of the cluster. The dialog proposes the first item of each list."""

    info: ClusterInfo
    python: str | None
    runtimes: list[str]
    job_roots: list[str]
    partition: str
    """The partition to propose; "" if Slurm has a default."""


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings other than the connection. The server ignores them for a template, because the
    template contains its own."""

    name: str
    runtime: str = ""
    job_root: str = ""
    partition: str = ""
    account: str = ""


class NewClusters:
    """Clusters that pages are adding. Their profiles have only the connection."""

    def __init__(self) -> None:
        self._ways: dict[str, dict[str, Setting]] = {}

    def ways(self, api: Api, wish: Nothing) -> Ways:
        """Return hosts and templates for a new cluster."""
        del api, wish
        known = [templates.read(name) for name in templates.names()]
        return Ways(
            ssh_hosts(),
            [
                Template(one.name, one.about, str(one.settings.get("hint", "")), dict(one.ask))
                for one in known
            ],
        )

    def begin(self, api: Api, wish: Way) -> Name:
        """Write a profile with the connection, so that the page can log in. Replace an abandoned
        profile. Raises RequestError."""
        way = _way(wish)
        if wish.name not in self._ways:
            save.check_new(wish.name)
        save.write_profile(wish.name, way)
        self._ways[wish.name] = way
        api.clusters()  # updates all pages
        return Name(wish.name)

    def found(self, api: Api, wish: Name) -> Found:
        """Describe the cluster. Raises LoginNeededError, or ConfigError if it has no Slurm."""
        found = api.describe(wish.name)
        new_cluster.check_slurm(found)
        self._ways[wish.name] = new_cluster.with_login_shell(self._way(wish.name), found)
        info = api.cluster_info(wish.name)
        return Found(
            info,
            found.python,
            new_cluster.runtimes(found),
            new_cluster.job_roots(found.folders),
            new_cluster.partition(info.partitions),
        )

    def keep(self, api: Api, wish: Choice) -> Name:
        """Write the whole profile, and make the cluster the default if none is set. Raises
        NotFoundError."""
        way = self._way(wish.name)
        if "template" not in way:
            chosen = new_cluster.chosen(wish.runtime, wish.job_root, wish.partition, wish.account)
            save.write_profile(wish.name, way | chosen)
        del self._ways[wish.name]
        if not any(one.default for one in api.clusters()):
            save.set_default(wish.name)
        return Name(wish.name)

    def drop(self, api: Api, wish: Name) -> Name:
        """Disconnect from the cluster and remove its profile. Raises NotFoundError."""
        self._way(wish.name)
        with suppress(JupyterSlurmError):  # raised if the cluster is not connected
            api.disconnect(wish.name)
        save.profile_path(wish.name).unlink(missing_ok=True)
        del self._ways[wish.name]
        api.clusters()  # updates all pages
        return Name(wish.name)

    def close(self) -> None:
        """Remove unfinished profiles when the server ends."""
        for name in self._ways:
            save.profile_path(name).unlink(missing_ok=True)
        self._ways.clear()

    def _way(self, name: str) -> dict[str, Setting]:
        way = self._ways.get(name)
        if way is None:
            raise NotFoundError(f"No page is adding a cluster `{name}`.")
        return way


def _way(wish: Way) -> dict[str, Setting]:
    if not wish.template:
        jump = new_cluster.gateways(wish.jump)
        commands = new_cluster.commands([wish.path.strip()], wish.env.splitlines())
        return new_cluster.way(wish.host, wish.user, jump=jump) | commands
    if wish.template not in templates.names():
        raise NotFoundError(f"Unknown template `{wish.template}`.")
    return new_cluster.by_template(templates.read(wish.template), {}, wish.answers)


STEPS: Mapping[str, tuple[type[Any], Callable[[NewClusters, Api, Any], object]]] = MappingProxyType(
    {
        "cluster_ways": (Nothing, NewClusters.ways),
        "cluster_begin": (Way, NewClusters.begin),
        "cluster_found": (Name, NewClusters.found),
        "cluster_keep": (Choice, NewClusters.keep),
        "cluster_drop": (Name, NewClusters.drop),
    }
)
"""Argument type and method by route."""


class NewClusterHandler(StatefulHandler[NewClusters]):
    """`POST cluster_STEP`: a step of adding a cluster."""

    @authenticated
    async def post(self, name: str) -> None:
        await self.permit(OWN[name])
        takes, does = STEPS[name]
        wish = self.wish(takes)
        self.give_value(await self.relay.with_agent(lambda agent: does(self.state, agent, wish)))
