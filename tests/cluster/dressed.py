"""Local clusters that imitate real sites. They are reached over SSH under the site's own host name,
have its storage, nodes and partitions, and run jobs of an ordinary user. Needs root.

The profile has only the site's template and the answers to its questions. `rooms.py` mounts the
site's own folders; `dressed_slurm.py` configures its Slurm.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from random import randrange
from typing import Any

import pexpect

from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from tests.cluster.dressed_slurm import Shape, start_slurm
from tests.cluster.plugin import ROOT, jupyter_homes
from tests.cluster.rooms import Room
from tests.ssh.accounts import Account, add_user, new_name
from tests.ssh.kept import Keeper
from tests.ssh.odd_users import Person, make_gateway
from tests.ssh.sshd import Sshd

_PATIENCE_S = 300


@dataclass(frozen=True)
class Dress:
    """The description of a site. `{user}` in its folders and accounting stands for the test
    user."""

    template: str
    login: str
    """The host name in the template."""
    shape: Shape
    home: str
    """The user's home on the login machine and the nodes."""
    both: Sequence[str] = ()
    """Folders of the user on the login machine and on the nodes."""
    node_only: Sequence[str] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, Path] = field(default_factory=dict)
    """Paths on the login machine and the nodes that show files of this machine. They are below
    `home` or a folder of `both`, or replace an existing path."""
    home_on_nodes: bool = True
    gateway: str = ""
    """The gateway, which asks for a password and a one-time code; "" without a gateway."""
    port: int = 0
    """The port of the gateway's sshd, which then has its own address; 0 for any port."""


@dataclass
class Dressed:
    dress: Dress
    account: Account
    disks: Path
    login: Room
    inside: Room
    """All nodes of the site."""
    sshd: Sshd
    person: Person | None = None
    """The user who answers the gateway; None without a gateway."""
    logged_in: bool = False

    def log_in(self) -> None:
        """Log in in a terminal, as in the guide. Later agents need no login."""
        if self.person is None:
            return
        argv = ["-m", "jupyter_slurm", "login"]
        with pexpect.spawn(
            sys.executable, argv, env=self.env, encoding="utf-8", timeout=_PATIENCE_S, cwd="/"
        ) as terminal:
            if not self.logged_in:
                terminal.expect("Password: ")
                terminal.sendline(self.person.password)
                terminal.expect("Verification code: ")
                terminal.sendline(self.person.code())
            terminal.expect(pexpect.EOF)
            said = terminal.before
        assert terminal.exitstatus == 0, said
        self.logged_in = True

    def queue(self) -> list[str]:
        """Return the unfinished jobs."""
        return self.login.run("squeue", "--noheader").splitlines()

    def file(self, path: str) -> Path:
        """Return the path on this machine of the site's `path`, e.g. "/output/{user}"."""
        return self.disks / path.format(user=self.account.name).lstrip("/")

    @property
    def env(self) -> dict[str, str]:
        """Environment of a program on the user's own machine."""
        home = self.sshd.client.folder
        foreign = ("SLURM", "JUPYTER", "SSH_")
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith(foreign)},
            **jupyter_homes(home),
            "JUPYTER_CONFIG_PATH": str(home / "none"),
            "IPYTHONDIR": str(home / "ipython"),
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            CONFIG_VARIABLE: str(self.sshd.config),
        }


def make_dressed(keeper: Keeper, folder: Path, dress: Dress) -> Dressed:
    """Start the site in the new folder `folder`. Return when everything runs."""
    name = new_name()
    dress = _worn(dress, name)
    folder.mkdir(mode=0o711)
    add_user(keeper, name, Path(dress.home))
    account = Account(name, folder / "disks" / dress.home.lstrip("/"))
    for place in (dress.home, *dress.both, *dress.node_only):
        made = folder / "disks" / place.lstrip("/")
        made.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.chown(made, name, name)
    account.home.chmod(0o700)
    login, inside = _make_rooms(keeper, folder, dress)
    start_slurm(keeper, folder / "slurm", dress.shape, login, inside)
    sshd = _start_sshd(keeper, folder / "sshd", dress, account, login)
    site = Dressed(dress, account, folder / "disks", login, inside, sshd)
    if dress.gateway:
        site.person = Person.of(account)
        prefix = tuple(login.argv())
        gateway = make_gateway(keeper, folder / "gateway", site.person, prefix=prefix)
        gateway.start()
        with sshd.config.open("a") as config:
            config.write(gateway.stanza(dress.gateway))
    _write_profile(sshd.client.folder / "config", dress, name)
    return site


def _worn(dress: Dress, user: str) -> Dress:
    """Return the description with the user's name for `{user}`."""

    def filled(texts: Sequence[str]) -> list[str]:
        return [text.format(user=user) for text in texts]

    entries = dress.shape.accounting
    accounting = None if entries is None else [filled(entry) for entry in entries]
    return replace(
        dress,
        shape=replace(dress.shape, accounting=accounting),
        home=dress.home.format(user=user),
        both=filled(dress.both),
        node_only=filled(dress.node_only),
    )


def _make_rooms(keeper: Keeper, folder: Path, dress: Dress) -> tuple[Room, Room]:
    """Create the rooms of the login machine and of the nodes."""
    for one in ("run", "slurm"):
        (folder / one).mkdir(mode=0o755)
    host, first = dress.login.split(".")[0], next(iter(dress.shape.nodes))
    hosts = folder / "hosts"
    hosts.write_text(
        "".join(f"127.0.0.1 {one}\n" for one in ("localhost", host, *dress.shape.nodes))
    )
    common = {"/etc/slurm": folder / "slurm", "/etc/hosts": hosts}

    def mounts(*places: str) -> dict[str, Path]:
        tops = dict.fromkeys(_top(one) for one in places)
        disks = {top: folder / "disks" / top.lstrip("/") for top in tops}
        there = {at: w for at, w in dress.mounts.items() if _top(at) in tops or Path(at).exists()}
        return {**common, **disks, **there}

    seen_in_login = mounts(dress.home, *dress.both)
    on_nodes = (dress.home,) if dress.home_on_nodes else ()
    # The nodes' daemons have their own /run.
    seen_inside = mounts(*on_nodes, *dress.both, *dress.node_only) | {"/run": folder / "run"}
    return (
        Room.make(keeper, host, seen_in_login, folder / "login.log"),
        Room.make(keeper, first, seen_inside, folder / "nodes.log"),
    )


def _top(path: str) -> str:
    """Return the top-level folder of the path."""
    return f"/{PurePosixPath(path).parts[1]}"


def _start_sshd(keeper: Keeper, folder: Path, dress: Dress, account: Account, login: Room) -> Sshd:
    folder.mkdir(mode=0o711)
    host = f"127.{randrange(1, 255)}.{randrange(256)}.{randrange(1, 255)}"
    at: dict[str, Any] = {"host": host, "port": dress.port} if dress.port else {}
    sshd = Sshd(keeper, folder, account, prefix=tuple(login.argv()), **at)
    sshd.start()
    sshd.config.write_text(sshd.stanza(dress.login))
    return sshd


def _write_profile(config: Path, dress: Dress, user: str) -> None:
    answers = {"user": user, **dress.answers}
    lines = [f"[{dress.template}]", f"template = {json.dumps(dress.template)}"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in answers.items()]
    place = config / "jupyter-slurm"
    place.mkdir(parents=True)
    (place / "clusters.toml").write_text("\n".join([*lines, ""]))
