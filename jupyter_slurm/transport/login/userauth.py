"""The client's half of SSH user authentication (RFC 4252, 4256), message by message.

Which method is tried with what, and what a person is asked, is decided in `login.py`. paramiko has
this too, but: it signs without asking whether the host wants the key, so that passphrases are asked
for nothing; it tells the methods left only after a partial success; it runs a person's answer on
the thread that has to read the socket; and it drops the host's words.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

import paramiko
from paramiko.message import Message

from jupyter_slurm.errors import ConnectionLostError

_SERVICE_REQUEST, _SERVICE_ACCEPT = 5, 6
_REQUEST, _FAILURE, _SUCCESS, _BANNER = 50, 51, 52, 53
_OF_THE_METHOD = 60
"""PK_OK, PASSWD_CHANGEREQ or INFO_REQUEST, as the method has it."""
_INFO_RESPONSE = 61

_REPLY_TIMEOUT_S = 600.0
"""A host may wait that long, e.g. until somebody has confirmed the login on their phone."""
_LOOK_S = 0.5
_MOST_PROMPTS = 32
_MOST_ROUNDS = 100
"""Of prompts; one without any is answered without a person, and so could go on for ever."""
_LONGEST_BANNER = 1 << 16
_MOST_UNREAD = 100
"""Messages of the host that nobody has read yet; each has up to 256 KiB."""

Sign = Callable[[bytes, str], bytes]
"""(data, algorithm) -> a signature as it goes over the wire: the algorithm's name and the bytes."""


class AuthResult(Enum):
    SUCCESS = "success"
    PARTIAL = "partial"  # accepted, and the host wants another method too
    FAILURE = "failure"


class Round(NamedTuple):
    """One round of keyboard-interactive: `prompts` are (text, shown while typed), perhaps none."""

    name: str
    instruction: str
    prompts: tuple[tuple[str, bool], ...]


class PasswordExpiredError(Exception):
    """The host wants a new password in a way that OpenSSH's own server never does (RFC 4252, 8)."""


class _Handler:
    """What paramiko's thread hands the replies to; it never waits for anything."""

    def __init__(self, transport: paramiko.Transport, user: str) -> None:
        self.replies: queue.SimpleQueue[tuple[int, Message] | None] = queue.SimpleQueue()
        self._user = user
        self._transport = transport
        self._succeeded = False
        self._handler_table = {
            number: lambda message, number=number: self._take(number, message)
            for number in (_SERVICE_ACCEPT, _FAILURE, _SUCCESS, _BANNER, _OF_THE_METHOD)
        }

    def _take(self, number: int, message: Message) -> None:
        if self._succeeded:
            return  # RFC 4252, 5.1: nothing more is to come
        if self.replies.qsize() >= _MOST_UNREAD:
            raise paramiko.SSHException("the host says more during the login than anybody reads")
        if number == _SUCCESS:
            self._succeeded = True
            self._transport._auth_trigger()  # type: ignore[attr-defined]
        self.replies.put((number, message))

    # What paramiko's Transport asks of it.
    def is_authenticated(self) -> bool:
        return self._succeeded

    def get_username(self) -> str:
        return self._user

    def abort(self) -> None:
        self.replies.put(None)


class UserAuth:
    """One host's authentication of one user, from the thread that calls. ConnectionLostError."""

    def __init__(self, transport: paramiko.Transport, user: str) -> None:
        self.methods: tuple[str, ...] = ()
        """Those that can go on, as the host last said."""
        self.failures = 0
        """As sshd counts them for MaxAuthTries."""
        self.banner = ""
        self.farewell = ""
        """What the host said when it ended the connection."""
        self._transport = transport
        self._user = user
        self._last = AuthResult.FAILURE
        self._handler = _Handler(transport, user)
        transport.auth_handler = self._handler  # type: ignore[assignment]
        transport._parse_disconnect = self._note_farewell  # type: ignore[attr-defined]
        self._begun = False

    def none(self) -> AuthResult:
        """Succeeds where a host wants nothing; else the way to learn its methods."""
        return self._result(self._request("none"))

    def wants(self, algorithm: str, blob: bytes) -> bool:
        """Whether the host would take a signature of this public key or certificate."""
        return self._reply_of(self._request("publickey", False, algorithm, blob)) is not None

    def publickey(self, algorithm: str, blob: bytes, sign: Sign) -> AuthResult:
        session = Message()
        session.add_string(self._transport.session_id or b"")
        request = ("publickey", True, algorithm, blob)
        signature = sign(session.asbytes() + self._message(*request).asbytes(), algorithm)
        return self._result(self._request(*request, signature))

    def password(self, password: str) -> AuthResult:
        """PasswordExpiredError."""
        if self._reply_of(self._request("password", False, password)) is not None:
            raise PasswordExpiredError
        return self._last

    def keyboard_interactive(self, answer: Callable[[Round], Sequence[str]]) -> AuthResult:
        number, message = self._request("keyboard-interactive", "", "")
        rounds = 0
        while number == _OF_THE_METHOD:
            rounds += 1
            if rounds > _MOST_ROUNDS:
                raise self._lost()
            answers = answer(_round(message))
            response = Message()
            response.add_byte(bytes([_INFO_RESPONSE]))
            response.add_int(len(answers))
            for text in answers:
                response.add_string(text)
            number, message = self._exchange(response)
        return self._result((number, message))

    # --- messages ---

    def _message(self, method: str, *fields: bool | str | bytes) -> Message:
        message = Message()
        message.add_byte(bytes([_REQUEST]))
        for text in (self._user, "ssh-connection", method):
            message.add_string(text)
        for field in fields:
            if isinstance(field, bool):
                message.add_boolean(field)
            else:
                message.add_string(field)
        return message

    def _request(self, method: str, *fields: bool | str | bytes) -> tuple[int, Message]:
        if not self._begun:
            service = Message()
            service.add_byte(bytes([_SERVICE_REQUEST]))
            service.add_string("ssh-userauth")
            self._exchange(service)
            self._begun = True
        return self._exchange(self._message(method, *fields))

    def _exchange(self, message: Message) -> tuple[int, Message]:
        try:
            self._transport._send_message(message)  # type: ignore[attr-defined]
        except (OSError, EOFError, paramiko.SSHException) as exc:
            raise self._lost() from exc
        deadline = time.monotonic() + _REPLY_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                reply = self._handler.replies.get(timeout=_LOOK_S)
            except queue.Empty:
                if self._transport.is_active():
                    continue
                reply = None  # closed from this side, which paramiko does not tell the handler
            if reply is None:
                raise self._lost()
            if reply[0] != _BANNER:
                return reply
            more = reply[1].get_string().decode(errors="replace")
            self.banner = (self.banner + more)[:_LONGEST_BANNER]
        raise ConnectionLostError("The host stopped answering during the login.")

    def _reply_of(self, reply: tuple[int, Message]) -> Message | None:
        """The method's own message, or None: `_last` then holds how it ended."""
        if reply[0] == _OF_THE_METHOD:
            return reply[1]
        self._last = self._result(reply)
        return None

    def _result(self, reply: tuple[int, Message]) -> AuthResult:
        number, message = reply
        if number == _SUCCESS:
            return AuthResult.SUCCESS
        first = not self.methods
        self.methods = tuple(message.get_list())
        if message.get_boolean():
            return AuthResult.PARTIAL
        self.failures += not first
        return AuthResult.FAILURE

    def _note_farewell(self, message: Message) -> None:
        message.get_int()
        self.farewell = message.get_string().decode(errors="replace")

    def _lost(self) -> ConnectionLostError:
        return ConnectionLostError("The host ended the connection during the login.")


def _round(message: Message) -> Round:
    def text() -> str:
        return message.get_string().decode(errors="replace")

    name, instruction = text(), text()
    message.get_string()  # a language tag, of no use to anybody
    count = min(message.get_int(), _MOST_PROMPTS)
    return Round(name, instruction, tuple((text(), message.get_boolean()) for _ in range(count)))
