"""Certificates of hosts, made by ssh-keygen: which are trusted, and that nothing else is."""

from __future__ import annotations

import time
from pathlib import Path

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.errors import HostKeyError, LoginNeededError
from jupyter_slurm.transport import hostkeys
from jupyter_slurm.transport.ask import nobody
from jupyter_slurm.transport.hostkeys.host_certificate import parse
from tests.transport.host_keys import HOST, Keys, Person, Signed, hop_to, write


@pytest.mark.parametrize("ca", ["ca", "ca_rsa", "ca_ecdsa"])
@pytest.mark.parametrize("key", ["new", "rsa", "ecdsa"])
def test_certificate_of_a_known_authority_is_trusted(
    keys: Keys, signed: Signed, known: Path, ca: str, key: str
) -> None:
    write(known, f"@cert-authority *.example.org {keys.public(ca)}")
    hop = hop_to(known, port=2222)
    hostkeys.check(hop, signed(ca=ca, key=key, names=f"other,{HOST}"), nobody)
    with pytest.raises(LoginNeededError):
        hostkeys.check(hop, keys.shown(key), nobody)


def test_certificate_for_the_alias_of_the_key_is_trusted(
    keys: Keys, signed: Signed, known: Path
) -> None:
    write(known, f"@cert-authority cluster {keys.public('ca')}")
    certificate = signed(names="cluster")
    hostkeys.check(hop_to(known, host_key_alias="cluster"), certificate, nobody)
    with pytest.raises(LoginNeededError):
        hostkeys.check(hop_to(known), certificate, nobody)


def test_principal_may_be_a_pattern(keys: Keys, signed: Signed, known: Path) -> None:
    write(known, f"@cert-authority * {keys.public('ca')}")
    hostkeys.check(hop_to(known), signed(names="*.example.org"), nobody)


@pytest.mark.parametrize(
    ("made", "flaw"),
    [
        ({"names": "other.example.org"}, "it is for other.example.org, not for gate.example.org"),
        ({"names": None}, "no host at all"),
        ({"flags": ("-V", "20200101:20200102")}, "has expired"),
        ({"flags": ("-V", "20900101:20900102")}, "does not hold yet"),
        ({"flags": ("-U",)}, "not one for hosts"),
        ({"flags": ("-O", "critical:new@example.org=x")}, "options that are not understood"),
        ({"flags": ("-t", "ssh-rsa"), "ca": "ca_rsa"}, "of a kind that is not accepted"),
    ],
)
def test_certificate_that_does_not_hold_is_a_question_that_says_why(
    keys: Keys, signed: Signed, known: Path, made: dict[str, object], flaw: str
) -> None:
    write(known, *(f"@cert-authority * {keys.public(ca)}" for ca in ("ca", "ca_rsa")))
    flags = made.pop("flags", ())
    person = Person("no")
    with pytest.raises(HostKeyError, match="was not accepted"):
        hostkeys.check(hop_to(known), signed(*flags, **made), person)  # type: ignore[misc]
    assert flaw in str(person.asked[0].instruction)


def test_certificate_of_an_unknown_authority_counts_as_its_key(
    keys: Keys, signed: Signed, known: Path
) -> None:
    write(known, f"@cert-authority * {keys.public('ca_rsa')}")
    person = Person()
    hostkeys.check(hop_to(known), signed(), person)
    assert known.read_text().splitlines()[1] == f"{HOST} {keys.public('new')}"
    hostkeys.check(hop_to(known), signed("-V", "20200101:20200102"), nobody)


@pytest.mark.parametrize("revoked", ["ca", "new"])
def test_revoked_authority_or_key_refuses_the_certificate(
    keys: Keys, signed: Signed, known: Path, revoked: str
) -> None:
    lines = (f"@cert-authority * {keys.public('ca')}", f"@revoked * {keys.public(revoked)}")
    write(known, *lines)
    with pytest.raises(HostKeyError, match="revoked"):
        hostkeys.check(hop_to(known), signed(), Person())


def blob_of(certificate: paramiko.PKey) -> bytes:
    assert certificate.public_blob is not None
    return certificate.public_blob.key_blob


def test_no_byte_of_a_certificate_can_be_changed(signed: Signed) -> None:
    blob = blob_of(signed())
    whole = parse(blob)
    assert whole is not None
    assert whole.flaw(HOST, time.time()) is None
    for at in range(len(blob)):
        other = parse(blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :])
        assert other is None or other.flaw(HOST, time.time()) is not None, at


def test_cut_certificate_is_none(signed: Signed) -> None:
    blob = blob_of(signed())
    assert [parse(blob[:length]) for length in range(len(blob))] == [None] * len(blob)
    assert parse(blob + b"\0") is None


@given(st.binary(max_size=200))
def test_anything_may_come_in_place_of_a_certificate(blob: bytes) -> None:
    found = parse(b"\0\0\0\x20ssh-ed25519-cert-v01@openssh.com" + blob)
    assert found is None or found.flaw(HOST, time.time()) is not None
