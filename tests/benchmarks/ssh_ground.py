"""The setup for measuring SSH: OpenSSH, and sshds on this machine that are near, distant or behind
a jump host.

Both sides use one ssh_config(5), which gives `ssh` its fastest cipher.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE, route
from tests.ssh.accounts import PLAIN_SHELL, make_folder, oneself
from tests.ssh.kept import Keeper, keeping
from tests.ssh.slow_line import lay
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until


class Way(NamedTuple):
    alias: str
    title: str


WAYS = (
    Way("near", "0 ms"),
    Way("far", "20 ms of round trip"),
    Way("jumped", "0 ms, behind a jump host"),
)
NARROW = Way("narrow", "10 MB/s, 20 ms of round trip")


@dataclass(frozen=True)
class Ground:
    keeper: Keeper
    folder: Path
    config: Path

    def ssh(self, *argv: str) -> list[str]:
        return ["ssh", "-F", str(self.config), "-o", "BatchMode=yes", *argv]

    def master(self, alias: str) -> list[str]:
        """Return an `ssh` command line that uses an open connection and ends with the host's
        name."""
        control = self.folder / f"control-{alias}"
        if not control.exists():
            argv = self.ssh("-M", "-N", "-S", str(control), alias)
            self.keeper.start(argv, self.folder / "masters.log", dict(os.environ))
            wait_until(control.exists)
        return self.ssh("-S", str(control), alias)

    @contextmanager
    def connection(self, alias: str) -> Iterator[SshConnection]:
        connection = SshConnection(route(alias), name=alias)
        try:
            connection.open()
            yield connection
        finally:
            connection.close()


@contextmanager
def ground() -> Iterator[Ground]:
    """Run the setup. Everything ends with the context, even if this process is killed."""
    with keeping() as keeper:
        folder = make_folder(keeper, "bench-ssh-")
        target = _sshd(keeper, folder / "target")
        gateway = _sshd(keeper, folder / "gateway")
        far = lay(keeper, folder, target.port, 0.01).port
        narrow = lay(keeper, folder, target.port, 0.01, 10e6).port
        # All ports belong to the same host.
        known = "HostKeyAlias target"
        stanzas = (
            target.stanza("near", known),
            target.stanza("far", known, f"Port {far}"),
            target.stanza("narrow", known, f"Port {narrow}"),
            target.stanza("jumped", known, "ProxyJump gateway"),
            gateway.stanza("gateway"),
            "Host *\n  Ciphers aes128-gcm@openssh.com\n",
        )
        config = folder / "ssh_config"
        config.write_text("".join(stanzas))
        lines = target.known_hosts_lines().splitlines()
        target.known_hosts.write_text(
            "".join(f"target {line.split(' ', 1)[1]}\n" for line in lines)
        )
        os.environ[CONFIG_VARIABLE] = str(config)
        yield Ground(keeper, folder, config)


def _sshd(keeper: Keeper, folder: Path) -> Sshd:
    folder.mkdir(mode=0o711)
    sshd = Sshd(keeper, folder, oneself(), [PLAIN_SHELL])
    sshd.start()
    return sshd


def checked(argv: list[str]) -> None:
    """Run a program; a failure ends the benchmark."""
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{argv}: {done.stderr}"
