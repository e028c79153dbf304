"""How a hop is logged in to: which method comes when, what a person is asked, what went wrong.

The messages are in `userauth.py`, keys in `identities.py`, sentences for refusals in
`refusals.py`; the hop's host key has been checked before anything here is called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko

from jupyter_slurm.errors import ConnectionLostError
from jupyter_slurm.transport.ask import Ask, Prompt, nobody
from jupyter_slurm.transport.login import refusals
from jupyter_slurm.transport.login.identities import Identity, algorithm, identities, sign
from jupyter_slurm.transport.login.private_keys import (
    CannotSignError,
    UnlockedKeys,
    key_type,
    public_blob,
)
from jupyter_slurm.transport.login.server_text import shown, shown_line
from jupyter_slurm.transport.login.userauth import AuthResult, PasswordExpiredError, Round, UserAuth
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.wire import Message, QuestionKind, Text

_MOST_FAILURES = 5
"""sshd ends the connection at the sixth (MaxAuthTries)."""
_MOST_WRONG_ANSWERS = 3

logging.getLogger("paramiko").setLevel(logging.CRITICAL)
# At lower levels it tells user names, keys' fingerprints and the host's banner.


def log_in(
    transport: paramiko.Transport, hop: Hop, ask: Ask, unlocked: UnlockedKeys | None = None
) -> bool:
    """Logs in as OpenSSH would: keys, then questions, then a password; as many of them as the host
    wants. Keys whose passphrase was given are added to `unlocked`. True: a person had to answer,
    and will have to the next time too.

    LoginError: refused, with the host's own words. LoginNeededError: `ask` has nobody to answer.
    """
    return _Authentication(transport, hop, ask, unlocked or UnlockedKeys()).run()


class _Authentication:
    def __init__(
        self, transport: paramiko.Transport, hop: Hop, ask: Ask, unlocked: UnlockedKeys
    ) -> None:
        self._hop = hop
        self._ask = ask
        self._unlocked = unlocked
        self._auth = UserAuth(transport, hop.user)
        self._accepted = tuple(_accepted_algorithms(transport))
        self._keys: Iterator[Identity] = iter(identities(hop))
        self._report = refusals.Report(hop)
        self._greeting = ""
        self._told_banner = 0
        self._untold: list[str] = []
        """What was said without a question, for the next one."""
        self._wrong_answers = 0
        self._refused = False
        """What was last answered was wrong, and the person has not yet been told."""
        self._passphrases: set[Path] = set()
        """Keys that one was asked for."""
        self._asked = 0
        self._by_person = False
        self._unasked: Prompt | None = None
        """The first question that was left out for want of a person."""

    def run(self) -> bool:
        try:
            outcome = self._auth.none()
            self._greeting = self._auth.banner
            self._report.greeting = shown(self._greeting)
            while outcome is not AuthResult.SUCCESS:
                outcome = self._next()
        except ConnectionLostError as exc:
            self._note()
            raise self._report.ended(asked=self._asked > 0) from exc
        return self._by_person

    def _next(self) -> AuthResult:
        """One step: the first method that the host takes and that we have something left for."""
        steps: dict[str, Callable[[], AuthResult | None]] = {
            "publickey": self._publickey,
            "keyboard-interactive": self._keyboard_interactive,
            "password": self._password,
        }
        for name, step in steps.items():
            if name in self._auth.methods:
                outcome = step()
                if outcome is not None:
                    if outcome is AuthResult.PARTIAL:
                        self._report.accepted.append(name)
                        self._report.silent_interactive = False
                    return outcome
        if self._unasked is not None:
            nobody(self._unasked)
        self._note()
        raise self._report.nothing_left(self._auth.methods)

    # --- keys ---

    def _publickey(self) -> AuthResult | None:
        """None: there is no key left to try."""
        for identity in self._keys:
            if self._auth.failures >= self._most_key_failures():
                self._report.refused_keys.append("… (no further ones were tried)")
                self._keys = iter(())
                return None
            outcome = self._try_key(identity)
            if outcome in {AuthResult.SUCCESS, AuthResult.PARTIAL}:
                return outcome
        return None

    def _most_key_failures(self) -> int:
        """One try is left for a password or code, where the host takes any."""
        questions = {"keyboard-interactive", "password"} & set(self._auth.methods)
        return _MOST_FAILURES - bool(questions)

    def _try_key(self, identity: Identity) -> AuthResult:
        name = shown_line(identity.name)
        try:
            blob = identity.blob
            if blob is None and identity.path is not None:
                key = self._unlocked.private_key(identity.path, self._passphrase)
                blob = public_blob(key)
            if not blob:
                return AuthResult.FAILURE
            chosen = algorithm(blob, self._accepted)
            if chosen is None or not self._auth.wants(chosen, blob):
                self._report.refused_keys.append(name)
                return AuthResult.FAILURE
            if key_type(blob).startswith("sk-"):  # on a security key, which has to be touched
                if not self._may_ask(
                    self._prompt(Message.of("Touch the security key of {name}.", name=name))
                ):
                    return AuthResult.FAILURE
                self._by_person = True
            signer = sign(identity, self._hop, self._unlocked, self._passphrase)
            outcome = self._auth.publickey(chosen, blob, signer)
        except CannotSignError as exc:
            self._report.refused_keys.append(f"{name} ({exc})")
            return AuthResult.FAILURE
        if outcome is AuthResult.FAILURE:
            self._report.refused_keys.append(f"{name} ({key_type(blob)})")
        return outcome

    def _passphrase(self, path: Path) -> str | None:
        text = Message.of("Passphrase of the key {path}:", path=shown_line(str(path)))
        again = path in self._passphrases
        self._passphrases.add(path)
        prompt = Prompt(QuestionKind.PASSPHRASE, self._hop.label, text, refused=again)
        return self._ask(prompt) if self._may_ask(prompt) else None

    # --- questions ---

    def _keyboard_interactive(self) -> AuthResult | None:
        """None: the host asks nothing this way, or nobody is there to be asked."""
        if self._report.silent_interactive or not self._may_ask(self._prompt("")):
            return None
        asked_before = self._asked
        outcome = self._auth.keyboard_interactive(self._answers)
        self._by_person = True  # without a question too: it may have rung their phone
        if outcome is AuthResult.FAILURE:
            if self._asked == asked_before:
                self._report.silent_interactive = True
            else:
                self._count_wrong()
        return outcome

    def _answers(self, asked: Round) -> list[str]:
        said = [shown_line(asked.name), shown(asked.instruction)]
        self._report.hear(_joined(said))
        self._untold += said
        answers = []
        for text, echo in asked.prompts:
            # sshd puts what PAM says before a question in front of the question.
            *before, question = shown(text).rsplit("\n", 1)
            self._report.hear(_joined([*before, question]))
            told, self._untold = [self._fresh_banner(), *self._untold], []
            prompt = self._prompt(shown_line(question) or "Answer:")
            kind = QuestionKind.TEXT if echo else QuestionKind.SECRET
            instruction = _joined([*told, *before])
            answers.append(self._put(prompt._replace(kind=kind, instruction=instruction)))
        return answers

    def _password(self) -> AuthResult | None:
        """None: nobody is there to be asked."""
        prompt = self._prompt(Message.of("{host}'s password:", host=self._hop.label))
        if not self._may_ask(prompt):
            return None
        self._by_person = True
        answer = self._put(prompt._replace(instruction=self._fresh_banner()))
        try:
            outcome = self._auth.password(answer)
        except PasswordExpiredError as exc:
            self._note()
            raise self._report.password_expired() from exc
        if outcome is AuthResult.FAILURE:
            self._count_wrong()
        return outcome

    def _prompt(self, text: Text) -> Prompt:
        return Prompt(QuestionKind.SECRET, self._hop.label, text)

    def _may_ask(self, prompt: Prompt) -> bool:
        """Without a person nothing is begun that would need one; what needs none is tried first."""
        if self._ask is nobody and self._unasked is None:
            self._unasked = prompt
        return self._ask is not nobody

    def _put(self, prompt: Prompt) -> str:
        self._asked += 1
        refused, self._refused = self._refused, False
        return self._ask(prompt._replace(refused=refused))

    def _count_wrong(self) -> None:
        self._wrong_answers += 1
        self._refused = True
        if self._wrong_answers >= _MOST_WRONG_ANSWERS or self._auth.failures >= _MOST_FAILURES:
            self._note()
            raise self._report.wrong_answers(self._wrong_answers)

    # --- what the host says ---

    def _fresh_banner(self) -> str:
        """What it has said since this was last asked for."""
        fresh = self._auth.banner[self._told_banner :]
        self._told_banner = len(self._auth.banner)
        return shown(fresh)

    def _note(self) -> None:
        after = self._auth.banner.removeprefix(self._greeting)
        self._report.hear(shown(after))
        self._report.hear(shown(self._auth.farewell))


def _joined(parts: list[str]) -> str:
    return "\n".join(part for part in parts if part)


def _accepted_algorithms(transport: paramiko.Transport) -> list[str]:
    extensions: dict[str, bytes] = getattr(transport, "server_extensions", {})
    names = extensions.get("server-sig-algs", b"").decode(errors="replace")
    return [name for name in names.split(",") if name]
