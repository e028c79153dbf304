"""How a host is reached, as `ssh -G` tells of ssh_config(5), and where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.transport.ssh_config import route
from jupyter_slurm.transport.ssh_config.config_words import (
    Destination,
    destination,
    matches,
    seconds,
    split_paths,
    this_user,
)
from jupyter_slurm.transport.ssh_config.remarks import NOT_READ

ME = this_user()
MakeConfig = Callable[..., Path]


@pytest.fixture
def config(tmp_path: Path) -> MakeConfig:
    def write(text: str, name: str = "config") -> Path:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


def test_host_that_nothing_is_said_of_has_the_defaults(config: MakeConfig) -> None:
    (hop,) = route("node.example.org", config=config(""))
    assert (hop.host, hop.port, hop.user) == ("node.example.org", 22, ME.name)
    assert hop.label == f"{ME.name}@node.example.org"
    assert hop.known_hosts[0] == ME.home / ".ssh" / "known_hosts"
    assert hop.known_hosts[-1] == Path("/etc/ssh/ssh_known_hosts2")
    assert ME.home / ".ssh" / "id_ed25519" in hop.identity_files
    assert (hop.strict, hop.proxy_command, hop.control_path) == ("ask", None, None)
    assert hop.alive_interval_s == 15.0
    assert hop.remarks == ()


def test_jump_hosts_come_first_and_each_is_read_by_itself(config: MakeConfig) -> None:
    text = """
        Host deep
          HostName deep.internal
          ProxyJump gate,carol@middle:2200
        Host gate
          HostName gate.example.org
          User alice
          ProxyCommand corkscrew proxy 80 %h %p
        Host middle
          ProxyCommand never used
          IdentityFile /k/middle
    """
    hops = route("deep", config=config(text))
    assert [hop.label for hop in hops] == [
        "alice@gate.example.org",
        "carol@middle:2200",
        f"{ME.name}@deep.internal",
    ]
    assert hops[0].proxy_command == "corkscrew proxy 80 gate.example.org 22"
    assert hops[1].proxy_command is None
    assert hops[1].identity_files == (Path("/k/middle"),)


def test_profile_wins_over_the_configuration(config: MakeConfig) -> None:
    path = config("Host *\n User one\n Port 9\nHost login\n ProxyJump elsewhere")
    hops = route("login", user="alice", port=7, jump=["bob@gate:8", "second"], config=path)
    assert [hop.label for hop in hops] == ["bob@gate:8", "one@second:9", "alice@login:7"]


def test_way_that_leads_in_a_circle_is_named(config: MakeConfig) -> None:
    path = config("Host a\n ProxyJump b\nHost b\n ProxyJump a")
    with pytest.raises(ConfigError, match="in a circle") as caught:
        route("a", config=path)
    assert "ProxyJump none" in str(caught.value)


def test_setting_with_an_unset_variable_is_left_out_and_said(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    (hop,) = route("a", config=config("IdentityFile ${NOT_THERE}/k\nIdentityFile /k"))
    assert hop.identity_files == (Path("/k"),)
    assert "NOT_THERE is not set" in str(hop.remarks[0])


def test_unknown_token_is_an_error(config: MakeConfig) -> None:
    with pytest.raises(ConfigError, match="%y"):
        route("a", config=config("IdentityFile /k/%y"))


def test_where_no_file_is_wanted_nothing_is_remembered(config: MakeConfig) -> None:
    path = config("UserKnownHostsFile none\nGlobalKnownHostsFile /g")
    (hop,) = route("a", config=path)
    assert hop.known_hosts == (Path("/dev/null"), Path("/g"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ForwardAgent yes", "agent is not handed on"),
        ("LocalForward 8080 localhost:80", "LocalForward"),
        ("PKCS11Provider /usr/lib/opensc.so", "smart card"),
        ("SecurityKeyProvider /usr/lib/libsk.so", "FIDO"),
        ("VerifyHostKeyDNS yes", "DNS is not asked"),
        ("ProxyUseFdpass yes", "ProxyUseFdpass"),
        ("RevokedHostKeys /etc/ssh/revoked", "@revoked"),
        ("KnownHostsCommand /bin/true", "KnownHostsCommand"),
        ("Compression yes", "Compression"),
        ("GSSAPIAuthentication yes\nPreferredAuthentications gssapi-with-mic", "Kerberos"),
    ],
)
def test_what_is_asked_for_and_not_done_is_said_in_a_sentence(
    config: MakeConfig, line: str, words: str
) -> None:
    (hop,) = route("a", config=config(line))
    remark = str(*hop.remarks)
    assert words in remark
    assert remark.endswith(".")


@pytest.mark.parametrize(
    "line",
    [
        "GSSAPIAuthentication yes",
        "ForwardAgent no",
        "SendEnv LANG LC_*",
        "VisualHostKey yes",
        "AddressFamily any",
        "PKCS11Provider none",
    ],
)
def test_what_costs_nothing_is_not_spoken_of(config: MakeConfig, line: str) -> None:
    assert route("a", config=config(line))[0].remarks == ()


@pytest.mark.parametrize(
    "host", ["-oProxyCommand=x", "$(id)", "a;b", "`id`", "a b", "", "a'b", "a\nb", "*"]
)
def test_host_that_could_do_harm_is_refused(config: MakeConfig, host: str) -> None:
    with pytest.raises(ConfigError, match="name of a host"):
        route(host, config=config(""))
    with pytest.raises(ConfigError):
        route("a", jump=[f"u@{host}"], config=config(""))


@pytest.mark.parametrize("user", ["-l", "a;b", "$(x)", "a`b", "a -b", "a\nb"])
def test_user_that_could_do_harm_is_refused(config: MakeConfig, user: str) -> None:
    with pytest.raises(ConfigError, match="name of a user"):
        route("a", user=user, config=config(""))


def test_harmful_name_in_the_configuration_is_refused_too(config: MakeConfig) -> None:
    path = config("HostName $(id).org\nProxyCommand nc %h %p")
    with pytest.raises(ConfigError, match="name of a host"):
        route("a", config=path)


def test_port_out_of_range_is_refused(config: MakeConfig) -> None:
    with pytest.raises(ConfigError, match="70000"):
        route("a", port=70000, config=config(""))


def test_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        route("a", config=tmp_path / "nowhere")


def test_environment_names_another_configuration(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_SLURM_SSH_CONFIG", str(config("User of-another-file")))
    assert route("a")[0].user == "of-another-file"
    assert route("a", config=config("User given", "given"))[0].user == "given"


def test_words_of_ssh_are_shown_when_it_refuses_a_configuration(config: MakeConfig) -> None:
    with pytest.raises(ConfigError, match="line 2: Bad configuration option: hostnam") as caught:
        route("a", config=config("User one\nHostNam b"))
    assert "ssh -G a" in str(caught.value)


@pytest.mark.parametrize("answer", [None, "illegal option -- G", "No user exists for uid 9"])
def test_where_no_ssh_can_read_the_configuration_only_the_profile_counts(
    config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None
) -> None:
    if answer:
        program = tmp_path / "ssh"
        program.write_text(f"#!/bin/sh\necho 'ssh: {answer}' >&2\nexit 255\n")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    path = config("Host *\n User one\n ProxyJump elsewhere\n StrictHostKeyChecking no")
    gate, login = route("login", user="alice", port=7, jump=["bob@gate:8"], config=path)
    assert (gate.label, login.label) == ("bob@gate:8", "alice@login:7")
    assert [hop.remarks for hop in (gate, login)] == [(NOT_READ,)] * 2
    (hop,) = route("login", config=path)
    assert (hop.label, hop.strict) == (f"{ME.name}@login", "ask")
    assert hop.known_hosts[0] == ME.home / ".ssh" / "known_hosts"
    assert ME.home / ".ssh" / "id_ed25519" in hop.identity_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "HostName %h.org\nUser one\nPort 9\nIdentityFile /k/%h-%n-%p-%r-%u-%i-%%",
            {"identity_files": (Path(f"/k/a.org-a-9-one-{ME.name}-{ME.uid}-%"),)},
        ),
        ("CertificateFile ~/%k", {"certificate_files": (ME.home / "a",)}),
        ("IdentityFile none", {"identity_files": ()}),
        ("IdentityFile ${KEYS}/id", {"identity_files": (Path("/keys of mine/id"),)}),
        ("User one\nProxyCommand nc '%h' %p # %r %%", {"proxy_command": "nc 'a' 22 # one %"}),
        ("IdentityAgent ~/agent-%u", {"identity_agent": f"{ME.home}/agent-{ME.name}"}),
        ("IdentityAgent none\nIdentitiesOnly yes", {"identity_agent": None}),
        ("IdentityAgent $OTHER_AGENT", {"identity_agent": "/run/other"}),
        ("IdentityAgent SSH_AUTH_SOCK", {"identity_agent": "/run/usual"}),
        ("ControlPath none", {"control_path": None}),
        ("HostKeyAlias Some.Name", {"host_key_alias": "some.name"}),
        ("StrictHostKeyChecking off\nHashKnownHosts yes", {"strict": "no"}),
        ("ServerAliveInterval 2m", {"alive_interval_s": 120.0}),
        ("ConnectTimeout 1h30", {"connect_timeout_s": 3630.0}),
        (
            'UserKnownHostsFile "/home/a b/known" /c\nGlobalKnownHostsFile /three',
            {"known_hosts": (Path("/home/a b/known"), Path("/c"), Path("/three"))},
        ),
    ],
)
def test_what_ssh_leaves_to_be_filled_in_is(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch, text: str, expected: dict[str, Any]
) -> None:
    monkeypatch.setenv("KEYS", "/keys of mine")
    monkeypatch.setenv("OTHER_AGENT", "/run/other")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/usual")
    (hop,) = route("a", config=config(text))
    assert {name: getattr(hop, name) for name in expected} == expected


def test_hash_of_a_connection_is_that_of_ssh(config: MakeConfig) -> None:
    *_, hop = route("a", config=config("User one\nControlPath /k/%C\nIdentityFile /k/%C"))
    assert hop.identity_files == (Path(str(hop.control_path)),)


@pytest.mark.parametrize(
    ("jump", "labels"),
    [
        ("b,two@c:99,[::1]:7", ["u@b", "two@c:99", "u@[::1]:7"]),
        ("ssh://two@b:99/,c", ["two@b:99", "u@c"]),
        ("%r@gate-%h", ["u@gate-a"]),
        ("none", []),
    ],
)
def test_jump_hosts_are_read_in_all_their_forms(
    config: MakeConfig, jump: str, labels: list[str]
) -> None:
    text = f"Host a\n ProxyJump {jump}\nHost *\n User u\n ProxyCommand none"
    assert [hop.label for hop in route("a", config=config(text))] == [*labels, "u@a"]


def test_control_path_of_ssh_is_not_filled_in_twice(config: MakeConfig) -> None:
    (hop,) = route("a", config=config("ControlPath /cm/%%h"))
    assert hop.control_path == "/cm/%h"


# --- words ---


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("gate", Destination("gate")),
        ("alice@gate:22", Destination("gate", "alice", 22)),
        ("a@b@gate", Destination("gate", "a@b")),
        ("[::1]:7", Destination("::1", None, 7)),
        ("alice@::1", Destination("::1", "alice")),
        ("ssh://al%2Bice@gate:7/", Destination("gate", "al+ice", 7)),
        ("ssh://gate", Destination("gate")),
    ],
)
def test_destination_is_read_in_all_its_forms(text: str, where: Destination) -> None:
    assert destination(text) == where


@pytest.mark.parametrize("text", ["@gate", "gate:x", "gate:0", "", "ssh://", "alice@", "[::1]x"])
def test_what_is_no_destination_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        destination(text)


@given(
    st.sampled_from(["gate", "::1", "a.b"]),
    st.sampled_from([None, "alice", "a@b"]),
    st.sampled_from([None, 22, 65535]),
)
def test_destination_reads_what_it_has_written(
    host: str, user: str | None, port: int | None
) -> None:
    assert destination(str(Destination(host, user, port))) == Destination(host, user, port)


def test_paths_on_one_line_keep_their_blanks() -> None:
    assert split_paths("/home/a b/k /home/c  ~/d") == ("/home/a b/k", "/home/c", "~/d")


def test_times_are_sums() -> None:
    assert seconds("x", "1w2d3h4m5s") == 604800 + 2 * 86400 + 3 * 3600 + 4 * 60 + 5


@given(st.text("a*?[", max_size=8))
def test_a_pattern_of_stars_and_a_name_of_any_length_end_soon(name: str) -> None:
    assert matches(name.replace("*", "a").replace("?", "a"), name)
