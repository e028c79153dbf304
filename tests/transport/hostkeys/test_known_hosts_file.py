"""Files of known hosts: our reading against ssh-keygen's, and lines added by many at once."""

from __future__ import annotations

import base64
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_slurm.errors import HostKeyError
from jupyter_slurm.transport import hostkeys
from jupyter_slurm.transport.ask import nobody
from jupyter_slurm.transport.hostkeys import known_hosts_file
from tests.transport.host_keys import HOST, Keys, found_by_ssh_keygen, hop_to, keygen, write


def found_by_us(name: str, path: Path) -> list[int]:
    return [e.line for e in known_hosts_file.read([path]) if e.names_host(name)]


_NAMES = ["gate.example.org", "gate", "[gate]:2222", "node7", "10.0.0.7", "::1", "[::1]:22000"]
_PATTERNS = [
    *_NAMES, "*.example.org", "!gate.example.org", "GATE", "*", "node?", "[gate]:*", "10.0.*", "!*7"
]  # fmt: skip


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
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
