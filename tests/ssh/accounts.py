"""Users of this machine that live as long as a test run. Needs root."""

from __future__ import annotations

import fcntl
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.ssh.kept import Keeper

_LOCK = Path(tempfile.gettempdir(), "jupyter-slurm-tests-passwd.lock")

# --system: no entries in subuid(5), no ageing.
_FLAGS = ("--system", "--user-group", "--no-create-home", "--no-log-init")


@dataclass(frozen=True)
class Account:
    name: str
    home: Path

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.name).pw_uid

    def write(self, path: str, text: str, mode: int = 0o600) -> Path:
        """A file of theirs, at `path` below their home."""
        target = self.home / path
        for folder in reversed(target.relative_to(self.home).parents[:-1]):
            (self.home / folder).mkdir(mode=0o700, exist_ok=True)
            shutil.chown(self.home / folder, self.name)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)
        shutil.chown(target, self.name)
        return target


def oneself() -> Account:
    entry = pwd.getpwuid(os.getuid())
    return Account(entry.pw_name, Path(entry.pw_dir))


def make_account(
    keeper: Keeper, folder: Path, shell: str = "/bin/bash", home: str = "home", password: str = "*"
) -> Account:
    """A new user whose home is `home` in `folder`; `password` is what passwd(5) holds."""
    name = f"jst{secrets.token_hex(5)}"
    place = folder / f"{home}-{name}"
    # Two at once, and one of them finds passwd(5) locked.
    keeper.at_end("flock", str(_LOCK), "userdel", "--force", name)
    with _LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(
            ["useradd", *_FLAGS, "-d", str(place), "-s", shell, "-p", password, name],
            check=True,
            capture_output=True,
        )
    place.mkdir(mode=0o700)
    shutil.chown(place, name, name)
    return Account(name, place)


def make_folder(keeper: Keeper, prefix: str) -> Path:
    """A new folder that other users may pass through (pytest's own ones are closed to them)."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    keeper.at_end("rm", "-rf", str(folder))
    folder.chmod(0o711)
    return folder
