"""Why a login failed, as a sentence with a remedy; the host's own words go into `detail`.

PURE: knows nothing of the conversation but what it was told of it. A host does not say why it
refuses, for good reason; where it says something after all, it says it in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from jupyter_slurm.errors import ConnectionLostError, LoginError
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.transport.ssh_config.remarks import NOT_READ
from jupyter_slurm.wire import Message, Text, together

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
    "publickey": Message.of("keys"),
    "keyboard-interactive": Message.of("questions (password, code)"),
    "password": Message.of("a password"),
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
        refused = Message.of(
            "{host} refused the answers: a wrong password or code.", host=self._host
        )
        if count > 1:
            refused = Message.of(
                "{host} refused the answers {count} times: a wrong password or code.",
                host=self._host,
                count=count,
            )
        remedy = Message.of(
            "A code is good for one login only: wait for the next one. Is the clock of the device "
            "that makes them right? The account may be locked, too: many hosts do that for a while "
            "after several wrong answers."
        )
        keys = Message.of(
            "{count} keys were tried before, which counts too: `IdentitiesOnly yes` in the ssh "
            "configuration keeps those out that are not meant for this host.",
            count=len(self.refused_keys),
        )
        return self._error(refused, together(remedy, keys if count < 3 else None))

    def nothing_left(self, methods: tuple[str, ...]) -> LoginError:
        """No method is left of those that the host takes."""
        foreign = [name for name in methods if name not in _OURS]
        if methods and len(foreign) == len(methods):
            sentence = Message.of(
                "{host} takes {methods} only, which OpenSSH itself can do.",
                host=self._host,
                methods=", ".join(foreign),
            )
            return self._error(sentence, self.master_hint())
        takes = self._takes(methods)
        if "publickey" not in methods:
            hint = Message.of(
                "The account may be locked, or not allowed on this host. Does `ssh` get in?"
            )
            return self._error(together(takes, Message.of("It asked nothing.")), hint)
        refused = Message.of("No key was accepted: {keys}.", keys=self._keys_tried())
        return self._error(together(takes, refused), self._key_hint(methods))

    def _takes(self, methods: tuple[str, ...]) -> Message:
        host, takes = self._host, _named(methods)
        if self.accepted:
            accepted = _named(self.accepted)
            return Message.of(
                "{host} takes {methods} after {accepted}.",
                host=host,
                methods=takes,
                accepted=accepted,
            )
        if methods == ("publickey",):
            return Message.of("{host} takes keys only.", host=host)
        return Message.of("{host} takes {methods}.", host=host, methods=takes)

    def password_expired(self) -> LoginError:
        sentence = Message.of(
            "The password of {host} has expired, and the host wants a new one.", host=self._host
        )
        return self._error(sentence, self._change_password())

    def ended(self, *, asked: bool) -> LoginError | ConnectionLostError:
        """The connection has ended. Where nobody was asked and nothing was said it was no refusal,
        but something on the way."""
        sentence = Message.of("{host} ended the connection during the login.", host=self._host)
        if asked or self._heard:
            remedy = Message.of(
                "Hosts wait for an answer for a while only, often two minutes. Try again."
            )
            return self._error(sentence, remedy)
        return ConnectionLostError(sentence, detail=self.greeting or None)

    def master_hint(self) -> Message:
        """Return how OpenSSH logs in and lends its connection."""
        path = self.hop.control_path or "~/.ssh/master-%C"
        command = f"`ssh -fNM -o ControlPath={path} {self.hop.alias}`"
        if self.hop.control_path:
            return Message.of(
                "Open a connection with OpenSSH, which is then used: {command}.", command=command
            )
        return Message.of(
            "Open a connection with OpenSSH, which is then used: {command}, with the same "
            "ControlPath in ~/.ssh/config.",
            command=command,
        )

    def _error(self, message: Text, hint: Text) -> LoginError:
        """Return the error, or a better one where the host's words say more."""
        heard = "\n".join(self._heard)
        searched = " ".join(heard.lower().split())
        host = self._host
        for pattern, sentence, remedy in (
            (
                _ACCOUNT_EXPIRED,
                Message.of("The account {host} has expired.", host=host),
                _ADMINISTRATORS,
            ),
            (_LOCKED, Message.of("The account {host} is locked.", host=host), _ADMINISTRATORS),
            (
                _PASSWORD_EXPIRED,
                Message.of("The password of {host} has expired.", host=host),
                self._change_password(),
            ),
            (
                _NO_LOGINS,
                Message.of("{host} lets nobody in at the moment.", host=host),
                Message.of("Try again later."),
            ),
            (
                _TOO_MANY,
                Message.of("{host} takes no further tries in one login.", host=host),
                Message.of(
                    "Tried: {keys}. `IdentitiesOnly yes` in the ssh configuration keeps those keys "
                    "out that are not meant for this host.",
                    keys=self._keys_tried(),
                ),
            ),
        ):
            if pattern.search(searched):
                message, hint = sentence, remedy
                break
        detail = "\n".join(part for part in (self.greeting, heard) if part)
        return LoginError(message, hint=hint, detail=detail[-_LONGEST_DETAIL:] or None)

    def _key_hint(self, methods: tuple[str, ...]) -> Text:
        if NOT_READ in self.hop.remarks:
            return NOT_READ
        if self.hop.remarks:
            return together(*self.hop.remarks, self.master_hint())
        if any(_ONLY_OPENSSH.match(name) for name in methods):
            names = ", ".join(methods)
            return together(Message.of("It takes {names} too.", names=names), self.master_hint())
        return Message.of(
            "Is the public key in ~/.ssh/authorized_keys there, is it the right user, and is the "
            "account open? `IdentityFile` in the ssh configuration names a key; `ssh-add -l` says "
            "what the agent holds."
        )

    def _change_password(self) -> Message:
        return Message.of(
            "Change it in a terminal: `{command}`. Then connect again.", command=self._ssh()
        )

    def _keys_tried(self) -> Text:
        if not self.refused_keys:
            return Message.of("there was none to try")
        told = "; ".join(self.refused_keys[:_MOST_KEYS_TOLD])
        more = len(self.refused_keys) - _MOST_KEYS_TOLD
        return Message.of("{told}; {more} more", told=told, more=more) if more > 0 else told

    @property
    def _host(self) -> str:
        return self.hop.label

    def _ssh(self) -> str:
        port = "" if self.hop.port == 22 else f" -p {self.hop.port}"
        return f"ssh{port} {self.hop.user}@{self.hop.alias}"


_ADMINISTRATORS = Message.of("Its administrators can open it again.")


def _named(methods: Iterable[str]) -> Text:
    """Return what these methods ask for, in words."""
    return together(*(_NAMES.get(one, one) for one in methods), between=", ") or Message.of(
        "nothing"
    )
