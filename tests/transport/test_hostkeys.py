"""Known hosts: our reading against ssh-keygen's, our decisions against ssh's, and what is said."""

from __future__ import annotations

import base64
import os
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import paramiko
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_slurm.errors import HostKeyError, LoginNeededError
from jupyter_slurm.transport import hostkeys, known_hosts_file
from jupyter_slurm.transport.ask import Prompt, nobody
from jupyter_slurm.transport.host_certificate import parse
from jupyter_slurm.transport.ssh_config import Hop
from jupyter_slurm.wire import QuestionKind
from tests.ssh.plugin import MakeSshd
from tests.ssh.sshd import Sshd

Signed = Callable[..., paramiko.PKey]
HOST = "gate.example.org"


class Keys(NamedTuple):
    """Files of ssh-keygen, made once."""

    folder: Path

    def public(self, name: str) -> str:
        """`type base64`."""
        return " ".join((self.folder / f"{name}.pub").read_text().split()[:2])

    def shown(self, name: str) -> paramiko.PKey:
        """As paramiko gives what a host has shown, also a certificate (`name-cert`)."""
        kind, encoded = self.public(name).split()
        blob = base64.b64decode(encoded)
        if "rsa" in kind:
            return paramiko.RSAKey(data=blob)
        if "ecdsa" in kind:
            return paramiko.ECDSAKey(data=blob)
        return paramiko.Ed25519Key(data=blob)

    def fingerprint(self, name: str) -> str:
        said = keygen("-l", "-f", str(self.folder / f"{name}.pub"))
        return said.split()[1]


def keygen(*argv: str) -> str:
    done = subprocess.run(
        ["ssh-keygen", *argv], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return done.stdout


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    kinds = {"old": "ed25519", "new": "ed25519", "rsa": "rsa", "ecdsa": "ecdsa"}
    for name, kind in (kinds | {"ca": "ed25519", "ca_rsa": "rsa", "ca_ecdsa": "ecdsa"}).items():
        keygen("-q", "-t", kind, "-N", "", "-C", name, "-f", str(folder / name))
    return Keys(folder)


@pytest.fixture(scope="module")
def signed(keys: Keys) -> Signed:
    """The certificate of the key `new`, made with these flags of ssh-keygen."""

    def sign(
        *flags: str, ca: str = "ca", key: str = "new", names: str | None = HOST
    ) -> paramiko.PKey:
        principals = () if names is None else ("-n", names)
        path = keys.folder / f"{key}.pub"
        host = () if "-U" in flags else ("-h",)
        flags = tuple(flag for flag in flags if flag != "-U")
        keygen("-q", "-s", str(keys.folder / ca), *host, "-I", "id", *principals, *flags, str(path))
        return keys.shown(f"{key}-cert")

    return sign


@pytest.fixture
def known(tmp_path: Path) -> Path:
    return tmp_path / "ssh" / "known_hosts"


def hop_to(*files: Path, **changes: object) -> Hop:
    fields: dict[str, object] = {
        "alias": "gate",
        "host": HOST,
        "port": 22,
        "user": "alice",
        "identity_files": (),
        "certificate_files": (),
        "identities_only": False,
        "identity_agent": None,
        "known_hosts": files,
        "host_key_alias": None,
        "strict": "ask",
        "hash_known_hosts": False,
        "proxy_command": None,
        "control_path": None,
        "connect_timeout_s": 20.0,
        "alive_interval_s": 15.0,
        "alive_count": 3,
        "remarks": (),
    }
    return Hop(**(fields | changes))  # type: ignore[arg-type]


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class Person:
    """Answers `answer` and remembers what was asked."""

    def __init__(self, answer: str = "yes") -> None:
        self.answer = answer
        self.asked: list[Prompt] = []

    def __call__(self, prompt: Prompt) -> str:
        self.asked.append(prompt)
        return self.answer


# --- reading, against ssh-keygen -F ---


def found_by_ssh_keygen(name: str, path: Path) -> list[int]:
    done = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", str(path)], capture_output=True, text=True, check=False
    )
    heads = [line for line in done.stdout.splitlines() if line.startswith("# Host ")]
    return [int(line.split("found: line ")[1].split()[0]) for line in heads]


def found_by_us(name: str, path: Path) -> list[int]:
    return [e.line for e in known_hosts_file.read([path]) if e.names_host(name)]


_NAMES = ["gate.example.org", "gate", "[gate]:2222", "node7", "10.0.0.7", "::1", "[::1]:22000"]
_PATTERNS = [
    *_NAMES, "*.example.org", "!gate.example.org", "GATE", "*", "node?", "[gate]:*", "10.0.*", "!*7"
]  # fmt: skip


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from(["", "", "@cert-authority ", "@revoked ", "@new ", "# "]),
            st.lists(st.sampled_from(_PATTERNS), min_size=1, max_size=3).map(",".join),
            st.sampled_from([" ", "  ", "\t"]),
            st.sampled_from(["old", "new", "rsa"]),
            st.sampled_from(["", " a comment", "\r"]),
        ),
        max_size=5,
    ),
    name=st.sampled_from(_NAMES),
    hashed=st.booleans(),
)
def test_lines_of_a_host_are_those_that_ssh_keygen_finds(
    keys: Keys,
    tmp_path: Path,
    lines: list[tuple[str, str, str, str, str]],
    name: str,
    hashed: bool,
) -> None:
    texts = [f"{mark}{names}{gap}{keys.public(key)}{end}" for mark, names, gap, key, end in lines]
    path = write(tmp_path / "known", *texts)
    if hashed and texts and "@new" not in path.read_text():  # ssh-keygen would hash nothing
        keygen("-H", "-f", str(path))
    assert found_by_us(name, path) == found_by_ssh_keygen(name, path)


@pytest.mark.parametrize(
    "bad",
    [
        "gate.example.org",
        "gate.example.org ssh-ed25519",
        "gate.example.org ssh-ed25519 AAAA",
        "gate.example.org ssh-ed25519 !!!not base64!!!",
        "gate.example.org ssh-rsa {new_blob}",
        "gate.example.org ssh-ed25519 {cut_blob}",
        "gate.example.org 2048 65537 1234567890",
        "|1|broken ssh-ed25519 {new_blob}",
        "|1|a|b|c ssh-ed25519 {new_blob}",
        "|2|AAAA|AAAA ssh-ed25519 {new_blob}",
        "@unknown gate.example.org ssh-ed25519 {new_blob}",
        "@revoked",
        "\udcff\udcfe \x00",
        "gate.example.org s\u017fh-ed25519 {new_blob}",
    ],
)
def test_bad_line_is_passed_over_and_the_others_hold(keys: Keys, known: Path, bad: str) -> None:
    blob = keys.public("new").split()[1]
    line = bad.format(new_blob=blob, cut_blob=blob[: len(blob) // 8 * 4])
    known.parent.mkdir()
    known.write_bytes(
        b"\n".join([os.fsencode(line), f"{HOST} {keys.public('old')}".encode(), b"# end"])
    )
    hop = hop_to(known)
    hostkeys.check(hop, keys.shown("old"), nobody)
    with pytest.raises(HostKeyError):
        hostkeys.check(hop, keys.shown("new"), nobody)


def test_files_that_are_not_there_or_no_files_are_empty(keys: Keys, tmp_path: Path) -> None:
    good = write(tmp_path / "good", f"{HOST} {keys.public('old')}")
    hop = hop_to(tmp_path / "missing", tmp_path, good, Path("/dev/null"))
    hostkeys.check(hop, keys.shown("old"), nobody)


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
    assert f"({known}:1)" in caught.value.message
    assert keys.fingerprint("new") in caught.value.message


# --- unknown keys ---


def test_unknown_key_is_shown_with_host_type_and_fingerprint(keys: Keys, known: Path) -> None:
    person = Person()
    hostkeys.check(hop_to(known, port=2222), keys.shown("new"), person)
    (prompt,) = person.asked
    assert prompt.kind is QuestionKind.HOST_KEY
    assert prompt.host == f"alice@{HOST}:2222"
    assert f"[{HOST}]:2222" in prompt.text
    assert f"ED25519 {keys.fingerprint('new')}" in prompt.instruction


def test_question_says_what_else_is_known(keys: Keys, known: Path) -> None:
    write(known, f"{HOST} ssh-dss AAAAB3NzaC1kc3M=", f"other {keys.public('new')}")
    person = Person()
    hostkeys.check(hop_to(known), keys.shown("new"), person)
    assert f"ssh-dss ({known}:1)" in person.asked[0].instruction
    assert f"The same key is known in {known}:2" in person.asked[0].instruction


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


def test_many_that_remember_at_once_lose_no_line_and_write_none_twice(
    keys: Keys, known: Path
) -> None:
    kind, encoded = keys.public("new").split()
    blob = base64.b64decode(encoded)
    hosts = [f"node{number % 8}" for number in range(32)]
    threads = [
        threading.Thread(
            target=known_hosts_file.append, args=(known, host, kind, blob), kwargs={"hashed": True}
        )
        for host in hosts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(known.read_text().splitlines()) == 8
    assert all(len(found_by_ssh_keygen(host, known)) == 1 for host in set(hosts))


def test_file_that_was_replaced_while_it_was_waited_for_gets_the_line(
    keys: Keys, known: Path
) -> None:
    """As `ssh-keygen -R` does: a new file in the old one's place."""
    write(known, "# old")
    kind, encoded = keys.public("new").split()
    with known_hosts_file._locked(known):
        waiting = threading.Thread(
            target=known_hosts_file.append,
            args=(known, HOST, kind, base64.b64decode(encoded)),
            kwargs={"hashed": False},
        )
        waiting.start()
        write(known.with_name("new"), "# new").replace(known)
    waiting.join()
    assert known.read_text().splitlines()[0] == "# new"
    assert found_by_ssh_keygen(HOST, known) == [2]


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


# --- certificates ---


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
    assert flaw in person.asked[0].instruction


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


# --- against a real host, beside a real ssh ---


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
            (verdict,) = {verdict for said, verdict in words.items() if said in exc.message}
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
