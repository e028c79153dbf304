"""Why a login failed, as a sentence with a remedy; the host's own words go into `detail`.

PURE: knows nothing of the conversation but what it was told of it. A host does not say why it
refuses, for good reason; where it says something after all, it says it in words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jupyter_slurm.errors import ConnectionLostError, LoginError
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.transport.ssh_config.remarks import NOT_READ

_LONGEST_DETAIL = 2000
_MOST_KEYS_TOLD = 8

# Looked for in lower case, on one line.
_LOCKED = re.compile(r"(account|login|user).{0,60}(lock|disabled|suspend|blocked)")
_ACCOUNT_EXPIRED = re.compile(r"account.{0,40}expired")
_PASSWORD_EXPIRED = re.compile(
    r"password.{0,40}(expired|must be changed|change required)|change your password"
)
_NO_LOGINS = re.compile(r"maintenance|nologin|logins? (are|is) .{0,20}disabled|going down")
_TOO_MANY = re.compile(r"too many (authentication|failed)")
_OURS = ("publickey", "keyboard-interactive", "password")
_ONLY_OPENSSH = re.compile(r"^(gssapi|hostbased)")
_NAMES = {
    "publickey": "keys",
    "keyboard-interactive": "questions (password, code)",
    "password": "a password",
}


@dataclass
class Report:
    """What is known of a login that goes on; each method gives the error to raise."""

    hop: Hop
    refused_keys: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    """Methods that the host was content with, and then wanted more."""
    silent_interactive: bool = False
    """keyboard-interactive failed without a question."""
    greeting: str = ""
    """What it says to everybody: told, but no reason for anything."""
    _heard: list[str] = field(default_factory=list)

    def hear(self, words: str) -> None:
        if words and words not in self._heard:
            self._heard.append(words)

    def hears_of_expiry(self, words: str) -> bool:
        """Whether a command's output says that the password has to be changed first."""
        self.hear(words)
        return _PASSWORD_EXPIRED.search(" ".join(words.lower().split())) is not None

    def wrong_answers(self, count: int) -> LoginError:
        times = {1: "", 2: " twice", 3: " three times"}.get(count, f" {count} times")
        keys = (
            f" {len(self.refused_keys)} keys were tried before, which counts too: `IdentitiesOnly "
            "yes` in the ssh configuration keeps those out that are not meant for this host."
            if count < 3
            else ""
        )
        return self._error(
            f"{self.hop.label} refused the answers{times}: a wrong password or code.",
            "A code is good for one login only: wait for the next one. Is the clock of the device "
            "that makes them right? The account may be locked, too: many hosts do that for a while "
            f"after several wrong answers.{keys}",
        )

    def nothing_left(self, methods: tuple[str, ...]) -> LoginError:
        """No method is left of those that the host takes."""
        foreign = [name for name in methods if name not in _OURS]
        if methods and len(foreign) == len(methods):
            return self._error(
                f"{self.hop.label} takes {_enumerated(foreign)} only, which OpenSSH itself can do.",
                self.master_hint(),
            )
        takes = _enumerated([_NAMES.get(name, name) for name in methods]) or "nothing"
        after = f" after {_enumerated([_NAMES[name] for name in self.accepted])}"
        if "publickey" not in methods:
            return self._error(
                f"{self.hop.label} takes {takes}{after if self.accepted else ''}, and asked "
                "nothing.",
                "The account may be locked, or not allowed on this host. Does `ssh` get in?",
            )
        only = " only" if methods == ("publickey",) else ""
        return self._error(
            f"{self.hop.label} takes {takes}{only}{after if self.accepted else ''}; no key was "
            f"accepted: {self._keys_tried()}.",
            self._key_hint(methods),
        )

    def password_expired(self) -> LoginError:
        return self._error(
            f"The password of {self.hop.label} has expired, and the host wants a new one.",
            f"Change it in a terminal: `{self._ssh()}`. Then connect again.",
        )

    def ended(self, *, asked: bool) -> LoginError | ConnectionLostError:
        """The connection has ended. Where nobody was asked and nothing was said it was no refusal,
        but something on the way."""
        sentence = f"{self.hop.label} ended the connection during the login."
        if asked or self._heard:
            remedy = "Hosts wait for an answer for a while only, often two minutes. Try again."
            return self._error(sentence, remedy)
        return ConnectionLostError(sentence, detail=self.greeting or None)

    def master_hint(self) -> str:
        """How OpenSSH logs in and lends its connection."""
        path = self.hop.control_path or "~/.ssh/master-%C"
        return (
            f"Open a connection with OpenSSH, which is then used: `ssh -fNM -o ControlPath={path} "
            f"{self.hop.alias}`"
            + ("." if self.hop.control_path else ", with the same ControlPath in ~/.ssh/config.")
        )

    def _error(self, message: str, hint: str) -> LoginError:
        """The error, or a better one where the host's words say more."""
        heard = "\n".join(self._heard)
        searched = " ".join(heard.lower().split())
        for pattern, sentence, remedy in (
            (_ACCOUNT_EXPIRED, f"The account {self.hop.label} has expired.", _ADMINISTRATORS),
            (_LOCKED, f"The account {self.hop.label} is locked.", _ADMINISTRATORS),
            (
                _PASSWORD_EXPIRED,
                f"The password of {self.hop.label} has expired.",
                f"Change it in a terminal: `{self._ssh()}`. Then connect again.",
            ),
            (_NO_LOGINS, f"{self.hop.label} lets nobody in at the moment.", "Try again later."),
            (
                _TOO_MANY,
                f"{self.hop.label} takes no further tries in one login.",
                f"Tried: {self._keys_tried()}. `IdentitiesOnly yes` in the ssh configuration "
                "keeps those keys out that are not meant for this host.",
            ),
        ):
            if pattern.search(searched):
                message, hint = sentence, remedy
                break
        detail = "\n".join(part for part in (self.greeting, heard) if part)
        return LoginError(message, hint=hint, detail=detail[-_LONGEST_DETAIL:] or None)

    def _key_hint(self, methods: tuple[str, ...]) -> str:
        if NOT_READ in self.hop.remarks:
            return NOT_READ
        if self.hop.remarks:
            return " ".join([*self.hop.remarks, self.master_hint()])
        if any(_ONLY_OPENSSH.match(name) for name in methods):
            return f"It takes {_enumerated(list(methods))} too. {self.master_hint()}"
        return (
            "Is the public key in ~/.ssh/authorized_keys there, is it the right user, and is the "
            "account open? `IdentityFile` in the ssh configuration names a key; `ssh-add -l` says "
            "what the agent holds."
        )

    def _keys_tried(self) -> str:
        told = self.refused_keys[:_MOST_KEYS_TOLD]
        more = len(self.refused_keys) - len(told)
        return "; ".join([*told, *([f"{more} more"] if more else [])]) or "there was none to try"

    def _ssh(self) -> str:
        port = "" if self.hop.port == 22 else f" -p {self.hop.port}"
        return f"ssh{port} {self.hop.user}@{self.hop.alias}"


_ADMINISTRATORS = "Its administrators can open it again."


def _enumerated(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
