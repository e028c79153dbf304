"""A real sshd on this machine, and its clients' files."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE, Hop, route
from tests.ssh.accounts import Account
from tests.ssh.kept import Keeper
from tests.ssh.processes import kill

_PORTS = range(20_000, 32_768)  # above the ports of Ray's workers, below Linux's ephemeral ports
_PATIENCE_S = 60.0
PROGRAM = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin") or "/usr/sbin/sshd"


@dataclass(frozen=True)
class Client:
    """A home for clients, with their key and `.ssh`. `folder` is their HOME."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Client:
        (folder / ".ssh").mkdir(mode=0o700, parents=True)
        client = cls(folder)
        make_key(client.key)
        client.known_hosts.touch(mode=0o600)
        client.config.touch(mode=0o600)
        return client

    @property
    def key(self) -> Path:
        return self.folder / ".ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.folder / ".ssh" / "known_hosts"

    @property
    def config(self) -> Path:
        return self.folder / ".ssh" / "config"

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of a program with this folder as the user's home."""
        ours = {key: text for key, text in os.environ.items() if not key.startswith("SSH_")}
        return ours | {"HOME": str(self.folder), CONFIG_VARIABLE: str(self.config)}


@dataclass
class Sshd:
    """An sshd and its client. It is initially stopped, see `start`.

    `lines` are inserted at the start of sshd_config(5), where the first value wins. Lines from the
    first `Match` on are appended. `prefix` precedes sshd's command line.
    """

    keeper: Keeper
    folder: Path
    account: Account
    lines: Sequence[str] = ()
    host: str = "127.0.0.1"
    port: int = 0
    prefix: tuple[str, ...] = ()
    program: str = PROGRAM
    client: Client = field(init=False)
    pid: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.client = Client.make(self.folder / "client")
        for kind in ("ed25519", "ecdsa"):
            make_key(self.folder / f"host_{kind}", kind)
        shutil.copy(self.client.key.with_suffix(".pub"), self.folder / "authorized_keys")
        (self.folder / "authorized_keys").chmod(0o644)  # sshd reads it as the user who logs in

    @property
    def user(self) -> str:
        return self.account.name

    @property
    def key(self) -> Path:
        return self.client.key

    @property
    def known_hosts(self) -> Path:
        return self.client.known_hosts

    @property
    def config(self) -> Path:
        """A configuration for `ssh -F`. Every host name leads to this sshd; use `alias`."""
        return self.client.config

    @property
    def env(self) -> dict[str, str]:
        return self.client.env

    @property
    def alias(self) -> str:
        return f"sshd-{self.port}"

    def known_hosts_lines(self) -> str:
        name = self.host if self.port == 22 else f"[{self.host}]:{self.port}"
        keys = [file.read_text().split() for file in sorted(self.folder.glob("host_*.pub"))]
        return "".join(f"{name} {kind} {key}\n" for kind, key, _ in keys)

    def stanza(self, alias: str, *lines: str) -> str:
        """Return this host's section for an ssh_config(5) with several hosts."""
        settings = (
            f"HostName {self.host}",
            f"Port {self.port}",
            f"User {self.user}",
            *((f"IdentityFile {self.key}",) if "IdentityFile none" not in lines else ()),
            "IdentitiesOnly yes",
            "IdentityAgent none",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
        )
        return "\n  ".join((f"Host {alias}", *lines, *settings)) + "\n"

    def hop(self, *lines: str) -> Hop:
        """Return a hop to this sshd, with `lines` of ssh_config(5), where the first value wins."""
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
        config = self.client.config.with_name(f"config-{digest}")
        config.write_text(self.stanza("*", *lines))
        return route(self.alias, config=config)[-1]

    # --- start and end ---

    def start(self) -> None:
        """Start sshd, and wait until it listens. The first start chooses the port."""
        while not self._start(self.port or free_port(self.host)):
            assert not self.port, f"port {self.port} is taken\n{self.log()}"
        self.known_hosts.write_text(self.known_hosts_lines())
        self.config.write_text(self.stanza("*"))

    def stop(self) -> None:
        """End the listener and every session, as if the machine were switched off."""
        if self.pid:
            # The listener ends first, so that new sessions cannot start.
            _end(_with_all_they_start([psutil.Process(self.pid)]))
            self.pid = 0

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        """Return the log, written at LogLevel VERBOSE."""
        path = self.folder / "sshd.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def askings(self) -> int:
        """Count PAM's conversations, successful or not."""
        begun = (
            r"^Postponed keyboard-interactive for "  # later rounds are `keyboard-interactive/pam`
        )
        return len(re.findall(begun, self.log(), re.MULTILINE))

    def logins(self) -> int:
        """Count logins. The log lags slightly behind the client."""
        return len(re.findall(r"^Accepted \S+ for ", self.log(), re.MULTILINE))

    def pids(self) -> list[int]:
        """Return the PID of each connection's process."""
        if not self.pid:
            return []
        # This reads proc(5), since psutil would inspect every process of the machine.
        told = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in told.split()]

    def processes(self) -> list[psutil.Process]:
        """Return the connections' processes and their descendants (except detached processes)."""
        return psutil.Process(self.pid).children(recursive=True) if self.pid else []

    # --- internal ---

    def _start(self, port: int) -> bool:
        """Start sshd; return False if the port is taken."""
        conf = self.folder / "sshd_config"
        conf.write_text(self._conf(port))
        before = len(self.log())
        if os.geteuid() == 0:
            # the package's service does this, too
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        argv = [*self.prefix, self.program, "-D", "-e", "-f", str(conf)]
        self.pid = self.keeper.start(argv, self.folder / "sshd.log")
        deadline_s = time.monotonic() + _PATIENCE_S
        while f"Server listening on {self.host} port {port}" not in (said := self.log()[before:]):
            if "Cannot bind any address" in said:
                self.pid = 0
                return False
            ended = not psutil.pid_exists(self.pid)
            assert not ended, f"sshd ended\n{said}"
            assert time.monotonic() < deadline_s, f"sshd does not listen\n{said}"
            time.sleep(0.01)
        self.port = port
        return True

    def _conf(self, port: int) -> str:
        lines = list(self.lines)
        match = next((i for i, line in enumerate(lines) if line.startswith("Match")), len(lines))
        base = [
            f"ListenAddress {self.host}",
            f"Port {port}",
            *(f"HostKey {self.folder / name}" for name in ("host_ed25519", "host_ecdsa")),
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            "PidFile none",
            "LogLevel VERBOSE",
            "StrictModes no",
            "UsePAM no",
            "UseDNS no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "PrintLastLog no",
            "PrintMotd no",
            "MaxStartups 300",
            "Subsystem sftp internal-sftp",
        ]
        return "\n".join([*lines[:match], *base, *lines[match:]]) + "\n"


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    if kind == "rsa":
        argv += ["-b", "2048"]  # generating a longer key takes seconds
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return path


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port


def _with_all_they_start(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Stop the processes and all descendants, since sshd forks after a login, and return them."""
    found: dict[int, psutil.Process] = {}
    looked_at = list(processes)
    while looked_at:
        one = looked_at.pop()
        if one.pid in found:
            continue
        try:
            one.suspend()
            found[one.pid] = one
            looked_at += one.children()
        except psutil.NoSuchProcess:
            continue
    return list(found.values())


def _end(processes: list[psutil.Process]) -> None:
    for one in processes:
        kill(one)
    _, alive = psutil.wait_procs(processes, timeout=_PATIENCE_S)
    assert not alive, f"these processes do not end: {alive}"
