"""Host keys, certificates and people who vouch for them, for the tests of known hosts."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import paramiko

from jupyter_slurm.transport.ask import Prompt
from jupyter_slurm.transport.ssh_config import Hop

HOST = "gate.example.org"
Signed = Callable[..., paramiko.PKey]


class Keys(NamedTuple):
    """Files of ssh-keygen, made once."""

    folder: Path

    def public(self, name: str) -> str:
        """`type base64`."""
        return " ".join((self.folder / f"{name}.pub").read_text().split()[:2])

    def shown(self, name: str) -> paramiko.PKey:
        """As paramiko gives what a host has shown, also a certificate (`name-cert`)."""
        kind, encoded = self.public(name).split()
        blob = base64.b64decode(encoded)
        if "rsa" in kind:
            return paramiko.RSAKey(data=blob)
        if "ecdsa" in kind:
            return paramiko.ECDSAKey(data=blob)
        return paramiko.Ed25519Key(data=blob)

    def fingerprint(self, name: str) -> str:
        said = keygen("-l", "-f", str(self.folder / f"{name}.pub"))
        return said.split()[1]


def keygen(*argv: str) -> str:
    done = subprocess.run(
        ["ssh-keygen", *argv], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return done.stdout


def hop_to(*files: Path, **changes: object) -> Hop:
    fields: dict[str, object] = {
        "alias": "gate",
        "host": HOST,
        "port": 22,
        "user": "alice",
        "identity_files": (),
        "certificate_files": (),
        "identities_only": False,
        "identity_agent": None,
        "known_hosts": files,
        "host_key_alias": None,
        "strict": "ask",
        "hash_known_hosts": False,
        "proxy_command": None,
        "control_path": None,
        "connect_timeout_s": 20.0,
        "alive_interval_s": 15.0,
        "remarks": (),
    }
    return Hop(**(fields | changes))  # type: ignore[arg-type]


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class Person:
    """Answers `answer` and remembers what was asked."""

    def __init__(self, answer: str = "yes") -> None:
        self.answer = answer
        self.asked: list[Prompt] = []

    def __call__(self, prompt: Prompt) -> str:
        self.asked.append(prompt)
        return self.answer


def found_by_ssh_keygen(name: str, path: Path) -> list[int]:
    done = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", str(path)], capture_output=True, text=True, check=False
    )
    heads = [line for line in done.stdout.splitlines() if line.startswith("# Host ")]
    return [int(line.split("found: line ")[1].split()[0]) for line in heads]
