"""Users as found at sites: shells with output, homes with spaces, codes, expired passwords."""

from __future__ import annotations

import base64
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ssh.accounts import Account, change_passwd, make_account
from tests.ssh.kept import Keeper
from tests.ssh.sshd import PROGRAM, Sshd

BANNER = "*** Welcome to the cluster! Maintenance on Tuesday. ***"

_LOUD = f"echo '{BANNER}'; echo '{BANNER}' >&2\n"

# Login shell, home, the shell's startup file, and its content.
_KINDS = {
    "bash": ("bash", "home", ".bashrc", f"{_LOUD}alias ls='ls -l' cat='cat -n'\n"),
    "fish": ("fish", "home", ".config/fish/config.fish", _LOUD),
    "tcsh": ("tcsh", "home", ".tcshrc", f"echo '{BANNER}'\nset noclobber\nalias rm rm -i\n"),
    "zsh": ("zsh", "home", ".zshenv", f"{_LOUD}setopt noclobber\n"),
    "home with a blank": ("bash", "it's a home", ".bashrc", "set -o noclobber; export IFS=:\n"),
}
KINDS = tuple(_KINDS)


def make_odd_user(keeper: Keeper, folder: Path, kind: str) -> Account:
    """Create a user of one of `KINDS`. The login shells of most kinds print text at every start."""
    shell, home, path, text = _KINDS[kind]
    account = make_account(keeper, folder, f"/usr/bin/{shell}", home)
    account.write(path, text)
    return account


@dataclass(frozen=True)
class Person:
    """A user who logs in with a password and a one-time code."""

    account: Account
    password: str
    secret: str

    @classmethod
    def make(cls, keeper: Keeper, folder: Path) -> Person:
        return cls.of(make_account(keeper, folder))

    @classmethod
    def of(cls, account: Account) -> Person:
        """Give `account` a password and one-time codes."""
        person = cls(
            account, secrets.token_hex(8), base64.b32encode(secrets.token_bytes(20)).decode()
        )
        person.set_password(person.password)
        # google-authenticator's file. It allows reused codes and has no rate limit, since tests log
        # in more often than users.
        account.write(".google_authenticator", _code_file(person.secret), 0o400)
        return person

    def code(self) -> str:
        """Return the current code, which stays valid for a few minutes."""
        done = subprocess.run(
            ["oathtool", "--totp", "--base32", self.secret],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def wrong_code(self) -> str:
        """Return a code that was never valid."""
        return f"{(int(self.code()) + 500_000) % 1_000_000:06}"

    def set_password(self, password: str) -> None:
        change_passwd(["chpasswd"], f"{self.account.name}:{password}\n")


_STAGES = {
    "password": ("auth required pam_unix.so nodelay",),
    "code": ("auth required pam_google_authenticator.so",),
}


def make_gateway(
    keeper: Keeper,
    folder: Path,
    person: Person,
    stages: Sequence[str] = ("password", "code"),
    **settings: Any,
) -> Sshd:
    """Create an sshd that asks the questions of `stages` through PAM, in this order. Do not start
    it.

    `settings` are those of `Sshd`.
    """
    folder.mkdir(mode=0o711)
    # sshd uses its program name as PAM's service name.
    program = folder / f"jst-{secrets.token_hex(5)}"
    program.symlink_to(PROGRAM)
    service = Path("/etc/pam.d", program.name)
    keeper.at_end("rm", "-f", str(service))
    rules = [rule for stage in stages for rule in _STAGES[stage]]
    rules += ["account required pam_unix.so", "password required pam_unix.so"]
    rules += ["session required pam_permit.so", ""]
    service.write_text("\n".join(rules))
    lines = (
        "UsePAM yes",
        "KbdInteractiveAuthentication yes",
        "AuthenticationMethods keyboard-interactive",
        "MaxAuthTries 6",
    )
    return Sshd(keeper, folder, person.account, lines, program=str(program), **settings)


def _code_file(secret: str) -> str:
    lines = [secret, *(f'" {option}' for option in ("WINDOW_SIZE 17", "TOTP_AUTH"))]
    return "\n".join(lines) + "\n"
