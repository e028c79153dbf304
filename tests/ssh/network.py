"""Machines that are network namespaces with host names of their own. Needs root.

They share this machine's files, but for what each has mounted over some; nothing of their network
is to be seen from outside, so that many such networks with the same addresses can live side by
side.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.ssh.kept import Keeper

_END = 'ip netns pids "$1" | xargs -r kill -9; ip netns del "$1"'
_ENTER = """set -e
hostname "$1"
shift
while [ "$1" != -- ]; do
  if [ "$1" = hidden ]; then mount -t tmpfs -o mode=700 tmpfs "$2"; else mount --rbind "$1" "$2"; fi
  shift 2
done
shift
exec "$@"
"""


def possible() -> bool:
    """Whether this process may make such machines; in some containers root may not."""
    if os.geteuid() != 0:
        return False
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, check=False
    )
    return done.returncode == 0


@dataclass(frozen=True)
class Machine:
    """`mounts`: folder or file -> where it is seen on this machine in place of what is there.
    `hidden`: folders that are empty there."""

    name: str
    namespace: str
    mounts: Mapping[Path, Path] = field(default_factory=dict)
    hidden: Sequence[Path] = ()

    @classmethod
    def make(
        cls,
        keeper: Keeper,
        name: str,
        mounts: Mapping[Path, Path] | None = None,
        hidden: Sequence[Path] = (),
    ) -> Machine:
        machine = cls(name, f"jst{secrets.token_hex(4)}-{name}", mounts or {}, hidden)
        keeper.at_end("sh", "-c", _END, "sh", machine.namespace)
        ip("netns", "add", machine.namespace)
        machine.ip("link", "set", "lo", "up")
        machine.run("sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_forward")
        return machine

    def argv(self, *command: str, user: str | None = None) -> list[str]:
        """The command line that runs `command` there, as root or as `user`."""
        over = [word for source, target in self.mounts.items() for word in (source, target)]
        over += [word for path in self.hidden for word in (Path("hidden"), path)]
        become = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}"]
        become += ["--init-groups"] if become else []
        return [
            *("nsenter", f"--net=/run/netns/{self.namespace}"),
            *("unshare", "--mount", "--uts", "sh", "-c", _ENTER, "sh", self.name),
            *(str(word) for word in over),
            *("--", *become, *command),
        ]

    def run(
        self, *command: str, user: str | None = None, check: bool = True, **settings: object
    ) -> subprocess.CompletedProcess[str]:
        """Runs `command` there and waits; `settings` are those of subprocess.run."""
        done: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]
            self.argv(*command, user=user),
            **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60}
            | settings,
            check=False,
        )
        assert not check or done.returncode == 0, f"{self.name}: {command}: {done.stderr}"
        return done

    def ip(self, *words: str) -> str:
        return ip("-n", self.namespace, *words)

    @contextmanager
    def rules(self, *rules: Sequence[str]) -> Iterator[None]:
        """Has these rules of iptables(8) at the end of its chains while it lasts."""
        for one in rules:
            self.run("iptables", "-A", *one)
        try:
            yield
        finally:
            for one in rules:
                self.run("iptables", "-D", *one)

    def processes(self, uid: int) -> list[psutil.Process]:
        """What this user runs there."""
        here = Path(f"/run/netns/{self.namespace}").stat().st_ino
        found = []
        for one in psutil.process_iter():
            try:
                there = os.stat(f"/proc/{one.pid}/ns/net").st_ino  # noqa: PTH116 - of hundreds
                if there == here and one.uids().real == uid:
                    found.append(one)
            except (psutil.Error, OSError):
                continue
        return found


def join(a: Machine, a_address: str, b: Machine, b_address: str) -> None:
    """A cable between two machines; addresses with their prefix's length."""
    names = _cable()
    for (machine, address), name in zip(((a, a_address), (b, b_address)), names, strict=True):
        ip("link", "set", name, "netns", machine.namespace, "name", f"to-{_other(machine, a, b)}")
        machine.ip("addr", "add", address, "dev", f"to-{_other(machine, a, b)}")
        machine.ip("link", "set", f"to-{_other(machine, a, b)}", "up")


def switch(keeper: Keeper, addresses: Mapping[str, Machine]) -> None:
    """A network of several machines: a bridge, and a cable from each to it."""
    bridge = Machine.make(keeper, "switch")
    bridge.ip("link", "add", "bridge", "type", "bridge")
    bridge.ip("link", "set", "bridge", "up")
    for address, machine in addresses.items():
        near, far = _cable()
        ip("link", "set", near, "netns", bridge.namespace)
        bridge.ip("link", "set", near, "master", "bridge", "up")
        ip("link", "set", far, "netns", machine.namespace, "name", "inside")
        machine.ip("addr", "add", address, "dev", "inside")
        machine.ip("link", "set", "inside", "up")


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout


def _cable() -> tuple[str, str]:
    """Two ends, still in this very namespace; they go with the first of the machines."""
    mark = secrets.token_hex(4)
    names = f"jst{mark}a", f"jst{mark}b"
    ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
    return names


def _other(machine: Machine, a: Machine, b: Machine) -> str:
    return b.name if machine is a else a.name
