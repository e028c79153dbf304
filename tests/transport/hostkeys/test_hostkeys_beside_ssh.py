"""A real host is shown to us and to `ssh`, with the same known hosts: the same verdict."""

from __future__ import annotations

import subprocess
from pathlib import Path

import paramiko
import pytest

from jupyter_slurm.errors import HostKeyError
from jupyter_slurm.transport import hostkeys
from jupyter_slurm.transport.ask import nobody
from jupyter_slurm.transport.connection import SshConnection
from tests.ssh.plugin import MakeSshd
from tests.ssh.sshd import Sshd
from tests.transport.host_keys import Keys, Person, Signed, write


def verdict_of_ssh(sshd: Sshd, known: Path) -> str:
    argv = ["ssh", "-F", str(sshd.config), "-o", f"UserKnownHostsFile={known}"]
    argv += ["-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", sshd.alias, "true"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env=sshd.env, stdin=subprocess.DEVNULL
    )
    if done.returncode == 0:
        return "trusted"
    words = {"HAS CHANGED": "changed", "REVOKED": "revoked", "host key is known": "unknown"}
    (verdict,) = {verdict for said, verdict in words.items() if said in done.stderr}
    return verdict


def verdict_of_ours(sshd: Sshd, known: Path) -> str:
    hop = sshd.hop(known_hosts=(known,), strict="yes")
    with paramiko.Transport((sshd.host, sshd.port)) as transport:
        options = transport.get_security_options()
        known_first = [*hostkeys.known_algorithms(hop), *options.key_types]
        options.key_types = tuple(dict.fromkeys(known_first))
        transport.start_client(timeout=20)
        try:
            hostkeys.check(hop, transport.get_remote_server_key(), Person())
        except HostKeyError as exc:
            words = {"is not the one": "changed", "revoked": "revoked", "No key of": "unknown"}
            (verdict,) = {verdict for said, verdict in words.items() if said in str(exc.message)}
            return verdict
    return "trusted"


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["{where} {ed25519}"], "trusted"),
        (["{where} {ecdsa}"], "trusted"),
        (["127.0.0.1 {ed25519}"], "trusted"),
        (["127.0.0.1 {old}"], "unknown"),
        (["{where} {old}"], "changed"),
        (["{where} {rsa}"], "changed"),
        (["{where} {old}", "127.0.0.1 {ed25519}"], "changed"),
        (["{where} {old}", "* {ed25519}"], "trusted"),
        (["@revoked * {ed25519}", "{where} {ed25519}"], "revoked"),
        (["@revoked * {ed25519}", "{where} {ecdsa}"], "trusted"),
        (["@cert-authority * {ed25519}"], "unknown"),
        (["broken", "@what * {old}", "", "#", "{where}\t{ed25519} comment"], "trusted"),
        ([], "unknown"),
    ],
)
def test_verdict_is_that_of_ssh(
    sshd: Sshd, keys: Keys, known: Path, lines: list[str], verdict: str
) -> None:
    names = {kind: Keys(sshd.folder).public(f"host_{kind}") for kind in ("ed25519", "ecdsa")}
    names |= {"old": keys.public("old"), "rsa": keys.public("rsa")}
    where = f"[{sshd.host}]:{sshd.port}"
    write(known, *(line.format(where=where, **names) for line in lines))
    assert verdict_of_ssh(sshd, known) == verdict
    assert verdict_of_ours(sshd, known) == verdict


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["@cert-authority * {ca}"], "trusted"),
        (["@cert-authority {where} {ca}"], "trusted"),
        (["@cert-authority 127.0.0.1 {ca}"], "trusted"),
        (["@cert-authority * {old}", "@cert-authority * {ca}"], "trusted"),
        (["@cert-authority * {old}"], "unknown"),
        (["@cert-authority elsewhere {ca}"], "unknown"),
        (["@cert-authority * {ca}", "@revoked * {ca}"], "revoked"),
        (["@cert-authority * {ca}", "@revoked * {new}"], "revoked"),
        (["@cert-authority * {ca}", "{where} {old}"], "trusted"),
        (["@cert-authority * {old}", "{where} {new}"], "trusted"),
    ],
)
def test_verdict_on_a_certificate_is_that_of_ssh(
    certified: Sshd, keys: Keys, known: Path, lines: list[str], verdict: str
) -> None:
    names = {name: keys.public(name) for name in ("ca", "old", "new")}
    where = f"[{certified.host}]:{certified.port}"
    write(known, *(line.format(where=where, **names) for line in lines))
    assert verdict_of_ssh(certified, known) == verdict
    assert verdict_of_ours(certified, known) == verdict


@pytest.fixture
def certified(make_sshd: MakeSshd, keys: Keys, signed: Signed) -> Sshd:
    """An sshd whose key `new` an authority has signed."""
    signed(names="127.0.0.1")
    certificate = keys.folder / "new-cert.pub"
    return make_sshd(f"HostKey {keys.folder / 'new'}", f"HostCertificate {certificate}")


def test_connection_asks_for_the_certificate_and_trusts_it(
    certified: Sshd, keys: Keys, known: Path
) -> None:
    write(known, f"@cert-authority 127.0.0.1 {keys.public('ca')}")
    connection = SshConnection([certified.hop(known_hosts=(known,))], name="certified")
    try:
        connection.open(nobody)
        shown = connection.transport().get_remote_server_key()
        assert shown.public_blob is not None
        assert shown.public_blob.key_type == "ssh-ed25519-cert-v01@openssh.com"
    finally:
        connection.close()
