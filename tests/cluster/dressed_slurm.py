"""The Slurm of an imitated site (`dressed.py`): its files, and its daemons in the site's rooms.

The daemons run as root, so that jobs run as their users. They use this machine's loopback and their
own ports.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_slurm.local_cluster import conf, software
from jupyter_slurm.local_cluster.conf import Ports, Setting
from jupyter_slurm.local_cluster.paths import Paths
from jupyter_slurm.local_cluster.spec import LocalSpec
from tests.cluster import accounting
from tests.cluster.rooms import Room
from tests.ssh.kept import Keeper, clean_environment
from tests.ssh.sshd import free_port
from tests.ssh.waiting import wait_until

_PATIENCE_S = 300.0
_REPLACED = ("SlurmctldHost", "NodeName", "PartitionName", "DefMemPerCPU")


@dataclass(frozen=True)
class Shape:
    """`nodes` maps names to their settings in slurm.conf(5), e.g. "CPUs=8 RealMemory=16384
    Gres=gpu:k40:2". `lines` are further lines of slurm.conf, such as partitions."""

    cluster: str
    nodes: Mapping[str, str]
    lines: Sequence[str]
    accounting: Sequence[Sequence[str]] | None = None
    """Entries for sacctmgr(1) besides the cluster; None without accounting."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Other files beside slurm.conf, by name."""


def start_slurm(keeper: Keeper, folder: Path, shape: Shape, login: Room, inside: Room) -> None:
    """Start Slurm, and return when all nodes are idle. The empty `folder` becomes /etc/slurm in the
    rooms."""
    paths = Paths.of(folder)
    assert paths.base == folder, "the path is too long for Slurm"
    for name in ("gpu", "log", "run", "state"):
        (folder / name).mkdir(mode=0o755)
    for node in shape.nodes:
        paths.spool(node).mkdir(parents=True, mode=0o755)
    paths.munge_key.write_text(secrets.token_hex(512))
    paths.munge_key.chmod(0o400)
    ports: set[int] = set()
    while len(ports) < 2 + len(shape.nodes):
        ports.add(free_port())
    slurmctld, slurmdbd, *slurmd = ports
    own = Ports(slurmctld, tuple(slurmd))
    slurm = _Slurm(shape, paths, own, slurmdbd, keeper, login, inside)
    slurm.write_conf()
    slurm.start()


@dataclass(frozen=True)
class _Slurm:
    shape: Shape
    paths: Paths
    ports: Ports
    dbd_port: int
    keeper: Keeper
    login: Room
    inside: Room

    def write_conf(self) -> None:
        found = software.installed()
        assert found is not None
        folder = self.paths.base
        with_dbd = self.shape.accounting is not None
        spec = LocalSpec(name=self.shape.cluster, nodes=len(self.shape.nodes))
        at = Setting(self.login.host, "root", self.paths, self.ports, found.version)
        usual = conf.slurm_conf(spec, at).splitlines()
        lines = [f"SlurmctldHost={self.login.host}(127.0.0.1)"]
        lines += [line for line in usual if not line.startswith(_REPLACED)]
        lines += accounting.slurm_lines(self.paths, self.dbd_port) if with_dbd else []
        for (name, facts), port in zip(self.shape.nodes.items(), self.ports.slurmd, strict=True):
            where = f"NodeHostname={self.inside.host} NodeAddr=127.0.0.1 Port={port}"
            lines.append(f"NodeName={name} {where} {facts} State=UNKNOWN")
        _write(folder / "slurm.conf", "\n".join([*lines, *self.shape.lines, ""]))
        _write(folder / "gres.conf", "\n".join(["AutoDetect=off", *self._gpus(), ""]))
        _write(folder / "cgroup.conf", conf.cgroup_conf(found.version))
        for name, text in self.shape.files.items():
            _write(folder / name, text)
        if with_dbd:
            text = accounting.slurmdbd_conf(self.paths, self.login.host, "root", self.dbd_port)
            (folder / "slurmdbd.conf").write_text(text)
            (folder / "slurmdbd.conf").chmod(0o600)

    def _gpus(self) -> list[str]:
        lines = []
        for name, facts in self.shape.nodes.items():
            if has := re.search(r"Gres=gpu:(\w+):(\d+)", facts):
                for index in range(int(has[2])):
                    if not self.paths.gpu(index).is_symlink():
                        self.paths.gpu(index).symlink_to(os.devnull)
                files = f"{self.paths.gpu(0)}".removesuffix("0") + f"[0-{int(has[2]) - 1}]"
                lines.append(f"NodeName={name} Name=gpu Type={has[1]} File={files}")
        return lines

    def start(self) -> None:
        try:
            self._start()
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{self._last_words()}") from exc

    def _start(self) -> None:
        munged = (
            *("munged", "--foreground", "--force"),
            f"--key-file={self.paths.munge_key}",
            f"--socket={self.paths.munge_socket}",
            f"--pid-file={self.paths.base}/run/munged.pid",
            f"--log-file={self.paths.log('munged')}",
            f"--seed-file={self.paths.base}/run/munged.seed",
        )
        self._daemon(self.login, *munged)
        wait_until(self.paths.munge_socket.exists, _PATIENCE_S)
        if self.shape.accounting is not None:
            self._start_accounting(self.shape.accounting)
        self._daemon(self.login, "slurmctld", "-D")
        for node in self.shape.nodes:
            self._daemon(self.inside, "slurmd", "-D", "-N", node)
        wait_until(lambda: set(self._states()) == {"idle"}, _PATIENCE_S)

    def _start_accounting(self, entries: Sequence[Sequence[str]]) -> None:
        socket = accounting.database_socket(self.paths)
        self.login.run(*accounting.install_argv(self.paths, "root"))
        self._daemon(self.login, *accounting.mariadbd_argv(self.paths, "root"))
        wait_until(socket.exists, _PATIENCE_S)
        self._daemon(self.login, "slurmdbd", "-D", MYSQL_UNIX_PORT=str(socket))
        sacctmgr = ("sacctmgr", "--immediate", "--quiet")
        wait_until(lambda: self._answers("sacctmgr", "show", "cluster"), _PATIENCE_S)
        for entry in (("add", "cluster", self.shape.cluster), *entries):
            self.login.run(*sacctmgr, *entry)

    def _daemon(self, room: Room, *argv: str, **environment: str) -> None:
        log = self.paths.base / "log" / f"{argv[0]}.words"
        self.keeper.start(room.argv(*argv), log, clean_environment() | environment)

    def _answers(self, *argv: str) -> bool:
        try:
            self.login.run(*argv)
        except AssertionError:
            return False
        return True

    def _last_words(self) -> str:
        files = sorted((self.paths.base / "log").iterdir())
        return "\n".join(f"{file.name}:\n{file.read_text()[-8000:]}" for file in files)

    def _states(self) -> list[str]:
        try:
            return self.login.run("sinfo", "-h", "-N", "-o", "%T").split()
        except AssertionError:
            return []


def _write(path: Path, text: str) -> None:
    """Write a file that all users can read."""
    path.write_text(text)
    path.chmod(0o644)
