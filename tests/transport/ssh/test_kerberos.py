"""Logins by a Kerberos ticket to a real sshd, with a real key distribution center."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.errors import LoginError
from tests.ssh.accounts import Account, make_account
from tests.ssh.kept import Keeper, clean_environment
from tests.ssh.sshd import Sshd, free_port
from tests.ssh.waiting import wait_until
from tests.transport.ssh.conftest import Connect, say

_REALM = "TESTS"
_HOST = "127.0.0.1"
_PASSWORD = "correct-horse-battery"
_KRB5_CONF = """
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
rdns = false
[realms]
{realm} = {{
  kdc = {host}:{port}
}}
"""
_KDC_CONF = """
[kdcdefaults]
kdc_listen = {host}:{port}
kdc_tcp_listen = {host}:{port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
}}
"""
_TICKET_ONLY = (
    "GSSAPIAuthentication yes",
    "PreferredAuthentications gssapi-with-mic",
    "IdentityFile none",
)


class Kerberos:
    """A running KDC for one realm. `env` is the environment of its programs."""

    def __init__(self, keeper: Keeper, folder: Path) -> None:
        folder.mkdir(mode=0o711)
        place = {"realm": _REALM, "host": _HOST, "port": free_port(), "folder": folder}
        (folder / "krb5.conf").write_text(_KRB5_CONF.format(**place))
        (folder / "kdc.conf").write_text(_KDC_CONF.format(**place))
        self.keytab = folder / "keytab"
        self.env = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5_KTNAME": str(self.keytab),
            "KRB5CCNAME": f"FILE:{folder / 'ticket'}",
        }
        self.run("kdb5_util", "create", "-s", "-P", _PASSWORD)
        self.admin(f"addprinc -randkey host/{_HOST}")
        self.admin(f"ktadd -k {self.keytab} host/{_HOST}")
        log = folder / "log"
        keeper.start(["krb5kdc", "-n"], log, clean_environment() | self.env)
        wait_until(lambda: "starting" in log.read_text(), seen=log.read_text)

    def run(self, *argv: str, stdin: str = "") -> None:
        subprocess.run(
            argv,
            env=clean_environment() | self.env,
            input=stdin,
            text=True,
            check=True,
            capture_output=True,
        )

    def admin(self, query: str) -> None:
        self.run("kadmin.local", "-r", _REALM, "-q", query)


@pytest.fixture
def kerberos(ssh_keeper: Keeper, ssh_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Kerberos:
    found = Kerberos(ssh_keeper, ssh_folder / "kerberos")
    for name in ("KRB5_CONFIG", "KRB5CCNAME"):
        monkeypatch.setenv(name, found.env[name])
    return found


@pytest.fixture
def account(ssh_keeper: Keeper, ssh_folder: Path) -> Account:
    if os.geteuid() != 0:
        pytest.skip("Only root can make users and sshds that log in others.")
    return make_account(ssh_keeper, ssh_folder)


def test_login_with_a_ticket_does_not_ask_questions(
    account: Account, kerberos: Kerberos, connect: Connect, ssh_keeper: Keeper, ssh_folder: Path
) -> None:
    kerberos.admin(f"addprinc -pw {_PASSWORD} {account.name}")
    folder = ssh_folder / "sshd-kerberos"
    folder.mkdir(mode=0o711)
    lines = ("GSSAPIAuthentication yes", "GSSAPIStrictAcceptorCheck no")
    only = (*lines, "AuthenticationMethods gssapi-with-mic")
    names = [f"{name}={kerberos.env[name]}" for name in ("KRB5_CONFIG", "KRB5_KTNAME")]
    sshd = Sshd(ssh_keeper, folder, account, only, prefix=("env", *names))
    sshd.start()
    with pytest.raises(LoginError, match="Kerberos ticket"):
        connect(sshd.hop(*_TICKET_ONLY)).open()

    kerberos.run("kinit", account.name, stdin=f"{_PASSWORD}\n")
    connection = connect(sshd.hop(*_TICKET_ONLY))
    connection.open()
    assert say(connection) == "there"
    assert "Accepted gssapi-with-mic for" in sshd.log()
    sshd.stop()
