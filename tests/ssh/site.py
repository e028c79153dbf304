"""A site on one machine: a laptop, a gateway, a login node, and the compute nodes c1 and c2.

The laptop reaches only the gateway, which asks for a password and a one-time code through PAM.
Behind it are the login node and the nodes; the login node and c1 accept the laptop's key, and c2
has no sshd. All three run a real Slurm as the user who logs in.
"""

from __future__ import annotations

import itertools
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.cluster.plugin import jupyter_homes
from tests.ssh import network, site_slurm
from tests.ssh.kept import Keeper
from tests.ssh.network import Machine
from tests.ssh.odd_users import Person, make_gateway
from tests.ssh.processes import name_of, process_text
from tests.ssh.profile import write_profile
from tests.ssh.sshd import Client, Sshd
from tests.ssh.waiting import wait_until

_ADDRESSES = {"login": "10.77.2.2", "c1": "10.77.2.11", "c2": "10.77.2.12"}
_GATEWAY = "10.77.1.1"
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Home:
    """A user's home on the laptop, with keys, a configuration and known hosts for the site.

    In its ssh_config(5), `gateway`, `login`, `c1` and `c2` are the site's machines, each reached
    through the machine before it.
    """

    folder: Path

    @property
    def client(self) -> Client:
        return Client(self.folder)

    @property
    def env(self) -> dict[str, str]:
        """Return an environment with Jupyter's folders below this home."""
        return self.client.env | jupyter_homes(self.folder)

    def write_profile(self, name: str = "site", **changes: Any) -> Path:
        """Write a profile of the cluster; `changes` take precedence, and None removes a setting."""
        settings = {"host": "login", "poll_s": 1.0} | changes
        return write_profile(self.folder / "config", name, settings)


@dataclass
class Site:
    keeper: Keeper
    folder: Path
    person: Person
    laptop_machine: Machine
    gateway_machine: Machine
    machines: dict[str, Machine]
    """The machines `login`, `c1` and `c2`."""
    gateway: Sshd
    login: Sshd
    node: Sshd
    """The sshd of c1."""
    _homes: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # --- the laptop ---

    def home(self) -> Home:
        """Create a new home on the laptop, without a login so far."""
        home = Home(self.folder / "laptop" / str(next(self._homes)))
        (home.folder / ".ssh").mkdir(mode=0o700, parents=True)
        shutil.copy(self.gateway.key, home.client.key)
        hosts = (self.gateway, self.login, self.node)
        home.client.known_hosts.write_text("".join(one.known_hosts_lines() for one in hosts))
        ways = (
            "Host gateway\n  HostName {gateway}\n",
            "Host login\n  HostName {login}\n  ProxyJump gateway\n",
            "Host c1\n  HostName {c1}\n  ProxyJump login\n",
            "Host c2\n  HostName {c2}\n  ProxyJump login\n",
            "Host *\n  User {user}\n  IdentityFile {key}\n  IdentitiesOnly yes\n",
            "  IdentityAgent none\n  UserKnownHostsFile {known}\n",
            "  GlobalKnownHostsFile /dev/null\n",
        )
        home.client.config.write_text(
            "".join(ways).format(
                **_ADDRESSES,
                gateway=_GATEWAY,
                user=self.person.account.name,
                key=home.client.key,
                known=home.client.known_hosts,
            )
        )
        return home

    def laptop(self, argv: list[str], home: Home, **settings: Any) -> subprocess.Popen[Any]:
        """Start a program on the laptop, without the site's files. `settings` are Popen's."""
        env = home.env | settings.pop("env", {})
        return subprocess.Popen(
            self.laptop_machine.argv(*argv), env=env, **{"cwd": home.folder} | settings
        )

    def cut(self) -> None:
        """Silently drop the laptop's packets."""
        self.gateway_machine.ip("link", "set", "to-laptop", "down")

    def heal(self) -> None:
        self.gateway_machine.ip("link", "set", "to-laptop", "up")

    # --- the site ---

    def restart_gateway(self) -> None:
        """Restart the gateway, which breaks every connection."""
        self.gateway.restart()

    def logins(self) -> int:
        """Count logins at the gateway, whose log lags slightly."""
        return self.gateway.logins()

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program on the login node as the user, in their home."""
        account = self.person.account
        env = {"HOME": str(account.home), "USER": account.name, "PATH": "/usr/bin:/bin"}
        return self.machines["login"].run(
            *argv, user=account.name, check=check, env=env | _TOOLS, cwd=account.home
        )

    def processes(self, machine: str = "login") -> list[psutil.Process]:
        """Return the user's processes on a machine, except Slurm's daemons and sshd."""
        found = self.machines[machine].processes(self.person.account.uid)
        return [one for one in found if name_of(one) not in _DAEMONS]

    def programs(self, machine: str = "login") -> list[str]:
        """Return the names of `processes`, or "" for a process that has just ended."""
        return [name_of(one) for one in self.processes(machine)]

    def wait_until_empty(self, machine: str) -> None:
        """Wait until no process of the user's is left on that machine."""
        wait_until(
            lambda: self.programs(machine) == [],
            _PATIENCE_S,
            lambda: "\n".join(process_text(one) for one in self.processes(machine)),
        )

    def end_jobs(self) -> None:
        """Cancel the remaining jobs."""
        if left := self._jobs():
            self.run("scancel", *left)
            wait_until(lambda: self._jobs() == [], _PATIENCE_S)

    def _jobs(self) -> list[str]:
        return self.run("squeue", "-h", "-o", "%A").stdout.split()

    def stop_controller(self) -> None:
        """Send SIGSTOP: the daemon accepts connections, but does not answer them."""
        self._signal_controller(signal.SIGSTOP)

    def cont_controller(self) -> None:
        self._signal_controller(signal.SIGCONT)

    def _signal_controller(self, number: signal.Signals) -> None:
        for one in self.machines["login"].processes(self.person.account.uid):
            if name_of(one) == "slurmctld":
                one.send_signal(number)

    def rpcs(self) -> dict[str, int]:
        """Count the controller's requests by kind, since its start or `forget_rpcs`."""
        told = self.run("sdiag").stdout.partition("by message type")[2].partition("\n\n")[0]
        counts = re.findall(r"^\s*(\w+)\s*\(\s*\d+\)\s*count:(\d+)", told, re.MULTILINE)
        return {name: int(count) for name, count in counts}

    def forget_rpcs(self) -> None:
        self.run("sdiag", "--reset")


_TOOLS = {"LC_ALL": "C.UTF-8"}
_DAEMONS = {"munged", "slurmctld", "slurmd", "slurmscriptd", "sshd"}


def make_site(keeper: Keeper, folder: Path, cpus: int = 8) -> Site:
    """Create a site in the new folder `folder`, and return when everything runs. `cpus` is the
    number of CPUs of each node."""
    folder.mkdir(mode=0o711)
    (folder / "laptop").mkdir()
    far = folder / "far"
    far.mkdir(mode=0o711)
    person = Person.make(keeper, far)
    account = person.account
    controller = f"login({_ADDRESSES['login']})"
    nodes = {name: _ADDRESSES[name] for name in ("c1", "c2")}
    etc = site_slurm.write_conf(far / "slurm", account, controller, nodes, cpus)
    hosts = far / "hosts"
    hosts.write_text(
        "127.0.0.1 localhost\n" + "".join(f"{to} {name}\n" for name, to in _ADDRESSES.items())
    )
    seen = {hosts: Path("/etc/hosts"), etc: Path("/etc/slurm")}
    laptop = Machine.make(keeper, "laptop", hidden=(far,))
    gateway = Machine.make(keeper, "gateway")
    inside = {name: Machine.make(keeper, name, seen) for name in _ADDRESSES}
    network.join(laptop, "10.77.1.2/24", gateway, f"{_GATEWAY}/24")
    addresses = {f"{_ADDRESSES[name]}/24": machine for name, machine in inside.items()}
    network.switch(keeper, {"10.77.2.1/24": gateway} | addresses)
    site_slurm.start(
        keeper, far / "slurm", account.name, inside["login"], [inside["c1"], inside["c2"]]
    )
    way_in = make_gateway(
        keeper, folder / "gateway", person, host=_GATEWAY, port=22, prefix=tuple(gateway.argv())
    )
    site = Site(
        keeper,
        folder,
        person,
        laptop,
        gateway,
        inside,
        way_in,
        _sshd(keeper, folder, person, inside["login"]),
        _sshd(keeper, folder, person, inside["c1"]),
    )
    key = site.gateway.key.with_suffix(
        ".pub"
    ).read_text()  # this is one key for all machines that accept keys
    for one in (site.gateway, site.login, site.node):
        (one.folder / "authorized_keys").write_text(key)
        one.start()
    return site


def _sshd(keeper: Keeper, folder: Path, person: Person, machine: Machine) -> Sshd:
    place = folder / f"sshd-{machine.name}"
    place.mkdir(mode=0o711)
    address = _ADDRESSES[machine.name]
    return Sshd(keeper, place, person.account, host=address, port=22, prefix=tuple(machine.argv()))
