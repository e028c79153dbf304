"""People as they are at sites: login shells that talk, homes with blanks, codes, old passwords."""

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

# Login shell, home, the file that shell reads at every start, and what is in it.
_KINDS = {
    "bash": ("bash", "home", ".bashrc", f"{_LOUD}alias ls='ls -l' cat='cat -n'\n"),
    "bash elsewhere": ("bash", "home", ".bashrc", "cd /tmp; set -o noclobber; export IFS=:\n"),
    "dash": ("dash", "home", ".profile", ""),
    "fish": ("fish", "home", ".config/fish/config.fish", _LOUD),
    "tcsh": ("tcsh", "home", ".tcshrc", f"echo '{BANNER}'\nset noclobber\nalias rm rm -i\n"),
    "zsh": ("zsh", "home", ".zshenv", f"{_LOUD}setopt noclobber\n"),
    "home with a blank": ("bash", "it's a home", ".bashrc", _LOUD),
}
KINDS = tuple(_KINDS)


def make_odd_user(keeper: Keeper, folder: Path, kind: str) -> Account:
    """A user of one of `KINDS`; most of their login shells talk whenever they start."""
    shell, home, path, text = _KINDS[kind]
    account = make_account(keeper, folder, f"/usr/bin/{shell}", home)
    account.write(path, text)
    return account


@dataclass(frozen=True)
class Person:
    """Somebody who logs in with a password and a one-time code."""

    account: Account
    password: str
    secret: str

    @classmethod
    def make(cls, keeper: Keeper, folder: Path) -> Person:
        return cls.of(make_account(keeper, folder))

    @classmethod
    def of(cls, account: Account) -> Person:
        """`account` gets a password and codes."""
        person = cls(
            account, secrets.token_hex(8), base64.b32encode(secrets.token_bytes(20)).decode()
        )
        person.set_password(person.password)
        # google-authenticator's file. That codes may be used once only, and a few a minute, is
        # for `only_once`: tests log in more often than people do.
        account.write(".google_authenticator", _code_file(person.secret), 0o400)
        return person

    def code(self) -> str:
        """The code of this moment, and of a few minutes."""
        done = subprocess.run(
            ["oathtool", "--totp", "--base32", self.secret],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def wrong_code(self) -> str:
        """One that was never right."""
        return f"{(int(self.code()) + 500_000) % 1_000_000:06}"

    def only_once(self) -> None:
        """From now on a code is refused when it is used again."""
        self.account.write(
            ".google_authenticator", _code_file(self.secret, "DISALLOW_REUSE"), 0o400
        )

    def set_password(self, password: str) -> None:
        change_passwd(["chpasswd"], f"{self.account.name}:{password}\n")

    def expire_password(self) -> None:
        """It is right, and a new one must be chosen at login."""
        change_passwd(["chage", "--lastday", "0", self.account.name])

    def expire_account(self) -> None:
        """The answers are right, and sshd lets nobody in."""
        change_passwd(["chage", "--expiredate", "0", self.account.name])

    def lock(self) -> None:
        """No password is right any more."""
        change_passwd(["usermod", "--lock", self.account.name])


_STAGES = {
    "password": ("auth required pam_unix.so nodelay",),
    "code": ("auth required pam_google_authenticator.so",),
    # Any answer will do: what counts is that the question comes.
    "menu": (
        "auth optional pam_echo.so file={menu}",
        "auth optional pam_google_authenticator.so [authtok_prompt=Your choice (1-2): ]",
    ),
}
_MENU = "Where do you want to go?\n 1. the cluster\n 2. the other cluster\n"


def make_gateway(
    keeper: Keeper,
    folder: Path,
    person: Person,
    stages: Sequence[str] = ("password", "code"),
    methods: str = "keyboard-interactive",
    **settings: Any,
) -> Sshd:
    """An sshd, not started, that asks by PAM what `stages` says, in this order.

    `methods` is AuthenticationMethods of sshd_config(5); `settings` are those of `Sshd`.
    """
    folder.mkdir(mode=0o711)
    # sshd takes the name it is called by for PAM's service.
    program = folder / f"jst-{secrets.token_hex(5)}"
    program.symlink_to(PROGRAM)
    service = Path("/etc/pam.d", program.name)
    keeper.at_end("rm", "-f", str(service))
    menu = folder / "menu"
    menu.write_text(_MENU)
    rules = [rule.format(menu=menu) for stage in stages for rule in _STAGES[stage]]
    rules += ["account required pam_unix.so", "password required pam_unix.so"]
    rules += ["session required pam_permit.so", ""]
    service.write_text("\n".join(rules))
    lines = (
        "UsePAM yes",
        "KbdInteractiveAuthentication yes",
        f"AuthenticationMethods {methods}",
        "MaxAuthTries 6",
    )
    return Sshd(keeper, folder, person.account, lines, program=str(program), **settings)


def _code_file(secret: str, *options: str) -> str:
    lines = [secret, *(f'" {option}' for option in ("WINDOW_SIZE 17", "TOTP_AUTH", *options))]
    return "\n".join(lines) + "\n"
