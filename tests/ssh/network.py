"""Machines as network namespaces with their own host names. Needs root.

They share this machine's files, except for mounts of their own. Their networks are invisible from
outside, so several with the same addresses can exist at once.
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
    """Return whether this process can create such machines. In some containers, root cannot."""
    if os.geteuid() != 0:
        return False
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, check=False
    )
    return done.returncode == 0


@dataclass(frozen=True)
class Machine:
    """`mounts` maps a folder or file to the path on this machine that it replaces. `hidden` has
    folders that appear empty."""

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
        """Return the command line that runs `command` on this machine, as root or as `user`."""
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
        """Run `command` on this machine and wait. `settings` are those of subprocess.run."""
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
        """Append these rules of iptables(8) for the duration of the block."""
        for one in rules:
            self.run("iptables", "-A", *one)
        try:
            yield
        finally:
            for one in rules:
                self.run("iptables", "-D", *one)

    def processes(self, uid: int) -> list[psutil.Process]:
        """Return this user's processes on this machine."""
        here = Path(f"/run/netns/{self.namespace}").stat().st_ino
        found = []
        for one in psutil.process_iter():
            try:
                there = os.stat(f"/proc/{one.pid}/ns/net").st_ino  # noqa: PTH116 - faster
                if there == here and one.uids().real == uid:
                    found.append(one)
            except (psutil.Error, OSError):
                continue
        return found


def join(a: Machine, a_address: str, b: Machine, b_address: str) -> None:
    """Connect two machines by a cable. The addresses include their prefix length."""
    names = _cable()
    for (machine, address), name in zip(((a, a_address), (b, b_address)), names, strict=True):
        ip("link", "set", name, "netns", machine.namespace, "name", f"to-{_other(machine, a, b)}")
        machine.ip("addr", "add", address, "dev", f"to-{_other(machine, a, b)}")
        machine.ip("link", "set", f"to-{_other(machine, a, b)}", "up")


def switch(keeper: Keeper, addresses: Mapping[str, Machine]) -> None:
    """Connect several machines by a bridge, with a cable from each."""
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
    """Create both ends of a cable in this namespace. They are deleted with the first machine."""
    mark = secrets.token_hex(4)
    names = f"jst{mark}a", f"jst{mark}b"
    ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
    return names


def _other(machine: Machine, a: Machine, b: Machine) -> str:
    return b.name if machine is a else a.name
