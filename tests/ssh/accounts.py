"""Temporary users of this machine, for one test run. Needs root."""

from __future__ import annotations

import fcntl
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ssh.kept import Keeper

# With --system, the user gets no entries in subuid(5), and the password does not expire.
_FLAGS = ("--system", "--user-group", "--no-create-home", "--no-log-init")


@dataclass(frozen=True)
class Account:
    name: str
    home: Path

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.name).pw_uid

    def write(self, path: str, text: str, mode: int = 0o600) -> Path:
        """Write a file that belongs to the user, at `path` below their home."""
        target = self.home / path
        for folder in reversed(target.relative_to(self.home).parents[:-1]):
            (self.home / folder).mkdir(mode=0o700, exist_ok=True)
            shutil.chown(self.home / folder, self.name)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)
        shutil.chown(target, self.name)
        return target


PLAIN_SHELL = "SetEnv SHLVL=2"
"""Line for sshd_config(5). It keeps bash from reading .bashrc for commands over ssh (bash(1),
INVOCATION). The .bashrc of the user who runs the tests may take long or wait for input."""


def oneself() -> Account:
    entry = pwd.getpwuid(os.getuid())
    return Account(entry.pw_name, Path(entry.pw_dir))


def make_account(
    keeper: Keeper, folder: Path, shell: str = "/bin/bash", home: str = "home", password: str = "*"
) -> Account:
    """Create a user with the home `home` in `folder`. `password` is the field of passwd(5)."""
    name = new_name()
    place = folder / f"{home}-{name}"
    add_user(keeper, name, place, shell, password)
    place.mkdir(mode=0o700)
    shutil.chown(place, name, name)
    return Account(name, place)


def new_name() -> str:
    return f"jst{secrets.token_hex(5)}"


def add_user(
    keeper: Keeper, name: str, home: Path, shell: str = "/bin/bash", password: str = "*"
) -> None:
    """Add a user without creating their home."""
    keeper.at_end("flock", "/etc", "userdel", "--force", name)
    change_passwd(["useradd", *_FLAGS, "-d", str(home), "-s", shell, "-p", password, name])


def change_passwd(argv: Sequence[str], stdin: str = "") -> None:
    """Run a tool that changes passwd(5) or shadow(5). Tools run one at a time, since they soon give
    up waiting for each other."""
    etc = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(etc, fcntl.LOCK_EX)
        subprocess.run(argv, input=stdin, text=True, check=True, capture_output=True)
    finally:
        os.close(etc)


def make_folder(keeper: Keeper, prefix: str) -> Path:
    """Create a folder that other users can enter. They cannot enter pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    keeper.at_end("rm", "-rf", str(folder))
    folder.chmod(0o711)
    return folder
