"""Which host keys are trusted, what a person is asked and told, and what is remembered."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from pathlib import Path
from typing import Literal, NamedTuple

import paramiko
import pytest

from jupyter_slurm.errors import HostKeyError, LoginNeededError
from jupyter_slurm.transport import hostkeys
from jupyter_slurm.transport.ask import nobody
from jupyter_slurm.wire import QuestionKind
from tests.transport.host_keys import HOST, Keys, Person, found_by_ssh_keygen, hop_to, keygen, write

# --- what is trusted ---


class Case(NamedTuple):
    lines: list[str]
    verdict: Literal["trusted", "unknown", "refused"]
    shown: str = "new"
    changes: dict[str, object] = {}  # noqa: RUF012 (never changed)


CASES = {
    "nothing is known": Case([], "unknown"),
    "the very key": Case(["gate.example.org {new}"], "trusted"),
    "the same key among others": Case(
        ["gate.example.org {old}", "x,gate.example.org {new}"], "trusted"
    ),
    "another key": Case(["gate.example.org {old}"], "refused"),
    "another host": Case(["other {new}"], "unknown"),
    "another type, which was offered first": Case(["gate.example.org {rsa}"], "refused"),
    "another type, which cannot be used": Case(
        ["gate.example.org ssh-dss AAAAB3NzaC1kc3M="], "unknown"
    ),
    "rsa": Case(["gate.example.org {rsa}"], "trusted", "rsa"),
    "ecdsa": Case(["gate.example.org {rsa}", "gate.example.org {ecdsa}"], "trusted", "ecdsa"),
    "wildcard": Case(["*.example.org {new}"], "trusted"),
    "negated": Case(["*.example.org,!gate.* {new}"], "unknown"),
    "revoked": Case(["@revoked * {new}", "gate.example.org {new}"], "refused"),
    "revoked for another": Case(["@revoked other {new}", "gate.example.org {new}"], "trusted"),
    "key of an authority is no key of a host": Case(["@cert-authority * {new}"], "unknown"),
    "port": Case(["[gate.example.org]:2222 {new}"], "trusted", "new", {"port": 2222}),
    "port, known without": Case(["gate.example.org {new}"], "trusted", "new", {"port": 2222}),
    "port, other key known without": Case(
        ["gate.example.org {old}"], "unknown", "new", {"port": 2222}
    ),
    "port, other key": Case(
        ["[gate.example.org]:2222 {old}", "gate.example.org {new}"],
        "refused",
        "new",
        {"port": 2222},
    ),
    "port, changed": Case(["[gate.example.org]:2222 {old}"], "refused", "new", {"port": 2222}),
    "port, revoked without": Case(
        ["[gate.example.org]:2222 {new}", "@revoked gate.example.org {new}"],
        "refused",
        "new",
        {"port": 2222},
    ),
    "no port is not any port": Case(["[gate.example.org]:2222 {new}"], "unknown"),
    "alias": Case(
        ["cluster {new}", "gate.example.org {old}"],
        "trusted",
        "new",
        {"host_key_alias": "cluster", "port": 2222},
    ),
    "alias, unknown": Case(
        ["gate.example.org {new}"], "unknown", "new", {"host_key_alias": "cluster"}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("hashed", [False, True], ids=["plain", "hashed"])
def test_key_is_judged_by_what_is_known(keys: Keys, known: Path, case: Case, hashed: bool) -> None:
    names = {name: keys.public(name) for name in ("old", "new", "rsa", "ecdsa")}
    write(known, *(line.format(**names) for line in case.lines))
    if hashed and case.lines:
        keygen("-H", "-f", str(known))
    hop = hop_to(known, **case.changes)
    if case.verdict == "trusted":
        hostkeys.check(hop, keys.shown(case.shown), nobody)
    else:
        expected = LoginNeededError if case.verdict == "unknown" else HostKeyError
        with pytest.raises(expected):
            hostkeys.check(hop, keys.shown(case.shown), nobody)


def test_key_of_the_second_file_is_trusted(keys: Keys, known: Path, tmp_path: Path) -> None:
    system = write(tmp_path / "system", f"{HOST} {keys.public('new')}")
    write(known, f"other {keys.public('old')}")
    hostkeys.check(hop_to(known, system), keys.shown("new"), nobody)


@pytest.mark.parametrize("strict", ["ask", "yes", "accept-new", "no"])
def test_changed_key_is_refused_whatever_the_configuration_says(
    keys: Keys, known: Path, strict: str
) -> None:
    write(known, "# mine", f"{HOST} {keys.public('old')}")
    person = Person()
    with pytest.raises(HostKeyError) as caught:
        hostkeys.check(hop_to(known, strict=strict), keys.shown("new"), person)
    said = str(caught.value)
    assert not person.asked
    assert f"ED25519 {keys.fingerprint('new')}" in said
    assert f"ED25519 {keys.fingerprint('old')} ({known}:2)" in said
    assert f"ssh-keygen -R {HOST} -f {known}" in said
    assert not caught.value.transient


def test_remedy_for_a_changed_key_works(keys: Keys, known: Path) -> None:
    write(known, f"[{HOST}]:2222 {keys.public('old')}")
    hop = hop_to(known, port=2222)
    with pytest.raises(HostKeyError) as caught:
        hostkeys.check(hop, keys.shown("new"), nobody)
    command = str(caught.value.hint).split(": ", 1)[1]
    subprocess.run(command, shell=True, check=True, capture_output=True)
    hostkeys.check(hop, keys.shown("new"), Person())


def test_revoked_key_is_named(keys: Keys, known: Path) -> None:
    write(known, f"@revoked * {keys.public('new')}")
    with pytest.raises(HostKeyError, match="marked as revoked") as caught:
        hostkeys.check(hop_to(known, strict="no"), keys.shown("new"), Person())
    assert f"({known}:1)" in str(caught.value.message)
    assert keys.fingerprint("new") in str(caught.value.message)


# --- unknown keys ---


def test_unknown_key_is_shown_with_host_type_and_fingerprint(keys: Keys, known: Path) -> None:
    person = Person()
    hostkeys.check(hop_to(known, port=2222), keys.shown("new"), person)
    (prompt,) = person.asked
    assert prompt.kind is QuestionKind.HOST_KEY
    assert prompt.host == f"alice@{HOST}:2222"
    assert f"[{HOST}]:2222" in str(prompt.text)
    assert f"ED25519 {keys.fingerprint('new')}" in str(prompt.instruction)


def test_question_says_what_else_is_known(keys: Keys, known: Path) -> None:
    write(known, f"{HOST} ssh-dss AAAAB3NzaC1kc3M=", f"other {keys.public('new')}")
    person = Person()
    hostkeys.check(hop_to(known), keys.shown("new"), person)
    assert f"ssh-dss ({known}:1)" in str(person.asked[0].instruction)
    assert f"The same key is known in {known}:2" in str(person.asked[0].instruction)


def test_accepted_key_is_remembered_and_not_asked_for_again(keys: Keys, known: Path) -> None:
    hostkeys.check(hop_to(known), keys.shown("new"), Person(" Yes\n"))
    assert known.read_text() == f"{HOST} {keys.public('new')}\n"
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    assert stat.S_IMODE(known.parent.stat().st_mode) == 0o700
    hostkeys.check(hop_to(known), keys.shown("new"), nobody)


@pytest.mark.parametrize("answer", ["no", "", "y", "yes please", "ja"])
def test_any_other_answer_refuses_and_remembers_nothing(
    keys: Keys, known: Path, answer: str
) -> None:
    with pytest.raises(HostKeyError, match="was not accepted"):
        hostkeys.check(hop_to(known), keys.shown("new"), Person(answer))
    assert not known.exists()


def test_where_nobody_can_answer_a_login_is_needed(keys: Keys, known: Path) -> None:
    with pytest.raises(LoginNeededError):
        hostkeys.check(hop_to(known), keys.shown("new"), nobody)
    assert not known.exists()


def test_strict_refuses_an_unknown_key_without_asking(keys: Keys, known: Path) -> None:
    with pytest.raises(HostKeyError, match="StrictHostKeyChecking") as caught:
        hostkeys.check(hop_to(known, strict="yes"), keys.shown("new"), Person())
    assert keys.fingerprint("new") in str(caught.value)
    assert not known.exists()


@pytest.mark.parametrize("strict", ["accept-new", "no"])
def test_configuration_may_accept_unknown_keys_for_the_person(
    keys: Keys, known: Path, strict: str
) -> None:
    hostkeys.check(hop_to(known, strict=strict), keys.shown("new"), nobody)
    assert found_by_ssh_keygen(HOST, known) == [1]


def test_hashed_line_says_no_name_and_ssh_keygen_finds_it(keys: Keys, known: Path) -> None:
    hop = hop_to(known, hash_known_hosts=True, port=2222)
    hostkeys.check(hop, keys.shown("new"), Person())
    assert "gate" not in known.read_text()
    assert found_by_ssh_keygen(f"[{HOST}]:2222", known) == [1]
    hostkeys.check(hop, keys.shown("new"), nobody)


def test_what_was_in_the_file_stays_as_it_was(keys: Keys, known: Path) -> None:
    known.parent.mkdir()
    before = f"# mine\n@cert-authority *.x {keys.public('ca')}\nbroken\r\nno newline".encode()
    known.write_bytes(before)
    known.chmod(0o644)
    hostkeys.check(hop_to(known), keys.shown("new"), Person())
    assert known.read_bytes() == before + f"\n{HOST} {keys.public('new')}\n".encode()
    assert stat.S_IMODE(known.stat().st_mode) == 0o644


def test_link_to_a_file_elsewhere_stays_a_link(keys: Keys, known: Path, tmp_path: Path) -> None:
    real = write(tmp_path / "dotfiles" / "known_hosts", "# mine")
    known.parent.mkdir()
    known.symlink_to(real)
    hostkeys.check(hop_to(known), keys.shown("new"), Person())
    assert known.is_symlink()
    assert found_by_ssh_keygen(HOST, real) == [2]


def test_nothing_is_left_where_nothing_shall_be_remembered(keys: Keys) -> None:
    mode = Path(os.devnull).stat().st_mode
    hostkeys.check(hop_to(Path(os.devnull), strict="no"), keys.shown("new"), nobody)
    assert Path(os.devnull).stat().st_mode == mode


def test_login_goes_on_where_the_key_cannot_be_written(
    keys: Keys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = write(tmp_path / "file")
    hostkeys.check(hop_to(in_the_way / "known_hosts"), keys.shown("new"), Person())
    assert "could not be added" in caplog.text


@pytest.mark.parametrize("alias", ["a,b", "*", "!x", "#x", "@revoked", "|1|x", "a b"])
def test_name_that_would_mean_something_else_in_the_file_is_not_written(
    keys: Keys, known: Path, caplog: pytest.LogCaptureFixture, alias: str
) -> None:
    hostkeys.check(hop_to(known, host_key_alias=alias), keys.shown("new"), Person())
    assert not known.exists()
    assert "not remembered" in caplog.text


# --- what to offer first ---


def test_algorithms_of_known_keys_are_offered_first(keys: Keys, known: Path) -> None:
    assert hostkeys.known_algorithms(hop_to(known)) == ()
    lines = (f"{HOST} {keys.public(name)}" for name in ("rsa", "ecdsa"))
    write(known, *lines, f"@revoked {HOST} {keys.public('new')}")
    assert hostkeys.known_algorithms(hop_to(known)) == (
        "ecdsa-sha2-nistp256",
        "rsa-sha2-512",
        "rsa-sha2-256",
    )


def test_key_known_without_the_port_is_offered_unless_one_is_known_with_it(
    keys: Keys, known: Path
) -> None:
    write(known, f"{HOST} {keys.public('ecdsa')}")
    hop = hop_to(known, port=2222)
    assert hostkeys.known_algorithms(hop) == ("ecdsa-sha2-nistp256",)
    write(known, f"{HOST} {keys.public('ecdsa')}", f"[{HOST}]:2222 {keys.public('rsa')}")
    assert hostkeys.known_algorithms(hop) == ("rsa-sha2-512", "rsa-sha2-256")


def test_certificates_are_asked_for_where_an_authority_is_known(keys: Keys, known: Path) -> None:
    write(
        known, f"@cert-authority *.example.org {keys.public('ca')}", f"{HOST} {keys.public('rsa')}"
    )
    offered = hostkeys.known_algorithms(hop_to(known))
    assert offered[0] == "ssh-ed25519-cert-v01@openssh.com"
    assert offered[-2:] == ("rsa-sha2-512", "rsa-sha2-256")
    assert hostkeys.known_algorithms(hop_to(known, host="elsewhere")) == ()


def test_offered_algorithms_are_all_known_to_paramiko(keys: Keys, known: Path) -> None:
    write(known, f"@cert-authority * {keys.public('ca')}", f"* {keys.public('new')}")
    offered = hostkeys.known_algorithms(hop_to(known))
    with socket.socket() as unconnected:
        options = paramiko.Transport(unconnected).get_security_options()
        options.key_types = offered  # ValueError for one that it does not know
        assert options.key_types == offered
