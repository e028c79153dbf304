"""A real Slurm whose nodes are separate machines on a network. Needs root.

Each node is a network namespace with its own host name, `/tmp` and `/dev/shm`, so that tests can
count leftovers of a job. The nodes combine the faults of real nodes. Each resolves every node's
name to 127.0.0.1 and lacks `scontrol`, and other programs hold the engines' usual ports.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest

from jupyter_slurm.local_cluster import software
from tests.cluster.started import started
from tests.ssh import network, site_slurm
from tests.ssh.accounts import oneself
from tests.ssh.kept import Keeper
from tests.ssh.network import Machine
from tests.ssh.processes import name_of, runs, words_of

_LOGIN = "10.78.2.2"
ADDRESSES = {"n1": "10.78.2.11", "n2": "10.78.2.12", "n3": "10.78.2.13"}
_TAKEN = (6379, 8265, 8786, 8787, 10001, 29400, 29500)
"""Ports of Ray, Dask and torchrun that are taken on all addresses."""
OWN_PORTS = "6818,61001:61500"
"""Ports of slurmd and srun, which a site's firewall allows."""
_CONF = "SrunPortRange=61001-61500\nTaskProlog={folder}/prolog\n"
_WAIT = """#!/bin/sh
while [ -e {folder}/$SLURMD_NODENAME/waits ]; do sleep 0.2; done
"""
_OCCUPY = """
import socket, sys, time
kept = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
time.sleep(1e6)
"""
_WRAP = """#!/bin/sh
# A job's own commands stay on its node.
[ -n "${{SLURM_JOB_ID-}}" ] && exec {program} "$@"
exec nsenter --net=/run/netns/{namespace} {program} "$@"
"""
_COMMANDS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun", "sacct", "sacctmgr")


@dataclass(frozen=True)
class Node:
    """A machine that runs jobs."""

    machine: Machine
    address: str
    folder: Path
    """The folder with the node's /tmp in `tmp`, its /dev/shm in `shm`, and its `images`."""

    @property
    def name(self) -> str:
        return self.machine.name

    def running(self) -> list[str]:
        """Return the command lines of running processes."""
        found = [" ".join(words_of(one)) for one in self.machine.processes(0) if runs(one)]
        return sorted(one for one in found if one)

    def traces(self) -> list[str]:
        """Return processes, listening ports, and files in /tmp and /dev/shm."""
        found = self.running()
        told = self.machine.run("ss", "-Hlntux").stdout
        found += [f"{line.split()[0]} {line.split()[4]}" for line in told.splitlines()]
        for name in ("tmp", "shm"):
            found += [str(one) for one in (self.folder / name).rglob("*")]
        return sorted(found)

    def listening(self, word: str) -> list[str]:
        """Return the ADDRESS:PORT where Python programs with this word in their command lines
        listen."""
        told = self.machine.run("ss", "-Hltnp").stdout
        found = [line.split() for line in told.splitlines()]
        where = []
        for fields in found:
            for pid in re.findall(r"pid=(\d+)", fields[-1]):
                with suppress(psutil.NoSuchProcess):  # the process has just ended
                    words = words_of(psutil.Process(int(pid)))
                    if "python" in "".join(words[:1]) and any(word in one for one in words[1:]):
                        where.append(fields[3])
        return where

    def slurmd(self) -> psutil.Process:
        return next(one for one in self.machine.processes(0) if name_of(one) == "slurmd")

    @contextmanager
    def without_power(self, keeper: Keeper) -> Iterator[None]:
        """Disconnect the node and kill its programs. Start its slurmd again after the context."""
        words = words_of(self.slurmd())
        self.machine.ip("link", "set", "inside", "down")
        for one in self.machine.processes(0):
            with suppress(psutil.NoSuchProcess):
                if _OCCUPY not in words_of(one):
                    one.kill()
        try:
            yield
        finally:
            self.machine.ip("link", "set", "inside", "up")
            keeper.start(self.machine.argv(*words, user=oneself().name), self.folder / "slurmd.log")

    @contextmanager
    def late(self) -> Iterator[None]:
        """Block Slurm's `TaskProlog` on the node during the context."""
        mark = self.folder / "waits"
        mark.touch()
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)

    @contextmanager
    def firewall(self, *rules: str) -> Iterator[None]:
        """Drop incoming packets that match one of the `rules` of iptables during the context."""
        with self.machine.rules(*(["INPUT", *one.split(), "-j", "DROP"] for one in rules)):
            yield


@dataclass(frozen=True)
class Machines:
    """A running cluster of this kind, with the interface of `SlurmCluster`."""

    name: str
    folder: Path
    profile_path: Path
    env: dict[str, str]
    login: Machine
    nodes: dict[str, Node]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, env=self.env, cwd=self.folder, capture_output=True, text=True, check=True
        )

    def running(self) -> dict[str, list[str]]:
        return {name: node.running() for name, node in self.nodes.items()}

    def traces(self) -> dict[str, list[str]]:
        return {name: node.traces() for name, node in self.nodes.items()}

    def wait_until_idle(self) -> None:
        """Return when each node accepts jobs."""
        deadline_s = time.monotonic() + 60
        while set(told := self._states()) != {"idle"}:
            for state in told:
                if state.startswith(("down", "drain")):
                    names = ",".join(self.nodes)
                    self.run("scontrol", "update", f"NodeName={names}", "State=RESUME")
                    break
            assert time.monotonic() < deadline_s, told
            time.sleep(0.2)

    def _states(self) -> list[str]:
        return self.run("sinfo", "-h", "-N", "-o", "%T").stdout.split()


def make_machines(keeper: Keeper) -> Machines:
    """Return the cluster once all its nodes answer."""
    folder = Path(tempfile.mkdtemp(prefix="jsm-", dir="/var/tmp"))  # the nodes have their own /tmp
    keeper.at_end("rm", "-rf", str(folder))
    folder.chmod(0o711)
    user = oneself()
    slurm = folder / "slurm"
    etc = site_slurm.write_conf(slurm, user, f"login({_LOGIN})", ADDRESSES)
    (folder / "prolog").write_text(_WAIT.format(folder=folder))
    (folder / "prolog").chmod(0o755)
    conf = etc / "slurm.conf"
    # Without TmpFS, Slurm uses /tmp, as on most clusters.
    lines = [one for one in conf.read_text().splitlines() if not one.startswith("TmpFS=")]
    conf.write_text("\n".join(lines) + "\n" + _CONF.format(folder=folder))
    images = folder / "images"
    images.mkdir()
    nothing = folder / "nothing"
    nothing.touch(0o644)
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost login " + " ".join(ADDRESSES) + "\n")
    seen = {hosts: Path("/etc/hosts"), etc: Path("/etc/slurm")}
    login = Machine.make(keeper, "login", seen)
    nodes = {}
    for name, address in ADDRESSES.items():
        own = folder / name
        for part in ("tmp", "shm", "images"):
            (own / part).mkdir(parents=True)
            (own / part).chmod(0o777 | stat.S_ISVTX)
        mounts = {own / "tmp": Path("/tmp"), own / "shm": Path("/dev/shm"), **seen}
        home = Path.home()
        if home.is_relative_to("/tmp"):
            # The node's /tmp hides the user's home, so bind the home inside it first.
            inside = own / "tmp" / home.relative_to("/tmp")
            inside.mkdir(parents=True, exist_ok=True)
            mounts = {home: inside, **mounts}
        mounts[own / "images"] = images
        mounts[nothing] = Path(software.programs()["scontrol"])
        machine = Machine.make(keeper, name, mounts)
        nodes[name] = Node(machine, address, own)
    addresses = {f"{node.address}/24": node.machine for node in nodes.values()}
    network.switch(keeper, {f"{_LOGIN}/24": login, **addresses})
    every = [node.machine for node in nodes.values()]
    for machine in every:
        argv = machine.argv("/usr/bin/python3", "-c", _OCCUPY, *map(str, _TAKEN))
        keeper.start(argv, slurm / "log" / "taken")
    site_slurm.start(keeper, slurm, user.name, login, every)
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for command in _COMMANDS:
        program = shutil.which(command)
        if program is not None:
            path = bin_folder / command
            path.write_text(_WRAP.format(program=program, namespace=login.namespace))
            path.chmod(0o755)
    name = f"apart{secrets.token_hex(3)}"
    profile = folder / f"{name}.toml"
    profile.write_text(
        'runtime = "charliecloud"\nlogin_shell = false\npython = "/usr/bin/python3"\n'
        f'path = ["{bin_folder}"]\n[env]\nSLURM_CONF = "{conf}"\n'
    )
    env = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    return Machines(name, folder, profile, env, login, nodes)


@pytest.fixture(scope="session")
def machines(ssh_keeper: Keeper) -> Machines:
    """The nodes n1, n2 and n3 that tests share."""
    if not network.possible():
        pytest.skip("Network namespaces need root and a machine that permits them.")
    return started("Nodes with a network between them", partial(make_machines, ssh_keeper))
