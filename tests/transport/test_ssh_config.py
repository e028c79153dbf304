"""ssh_config(5) read by `ssh -G` and by the parser of our own: they agree, and what they say."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.transport import ssh_config, ssh_config_file
from jupyter_slurm.transport.ssh_config import Hop, route
from jupyter_slurm.transport.ssh_config_words import (
    Destination,
    destination,
    matches,
    seconds,
    split_paths,
    this_user,
)

ME = this_user()
MakeConfig = Callable[..., Path]


@contextlib.contextmanager
def without_ssh() -> Iterator[None]:
    with mock.patch.dict(os.environ, {"PATH": ""}):
        yield


@pytest.fixture(params=["ssh -G", "own parser"])
def either_reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test is run with both; nothing may differ."""
    with without_ssh() if request.param == "own parser" else contextlib.nullcontext():
        yield


@pytest.fixture
def config(tmp_path: Path) -> MakeConfig:
    def write(text: str, name: str = "config") -> Path:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


def comparable(hop: Hop) -> dict[str, Any]:
    """Less the keys that are tried when none is named, which differ from one OpenSSH to the next,
    and `%C`, which since 2024 is made of the jump hosts too."""
    fields = asdict(hop)
    defaults = ME.home / ".ssh"
    fields["identity_files"] = [p for p in hop.identity_files if p.parent != defaults]
    return fields


def answer(host: str, path: Path, **asked: Any) -> Any:
    try:
        return [comparable(hop) for hop in route(host, config=path, **asked)]
    except ConfigError:
        return ConfigError


def assert_both_agree(host: str, path: Path, **asked: Any) -> Any:
    by_ssh = answer(host, path, **asked)
    with without_ssh():
        assert answer(host, path, **asked) == by_ssh, path.read_text()
    return by_ssh


# --- the two readers agree ---

CONFIGS = {
    "the first value wins": "Host a\n User one\nHost *\n User two\n Port 2222\n Port 3333",
    "several identity files add up": 'IdentityFile /k/1\nHost *\n IdentityFile "/k/2 3"',
    "the same identity file counts once": "IdentityFile /k\nHost *\n IdentityFile /k",
    "several certificates add up": "CertificateFile /c/1\nCertificateFile /c/2",
    "no identity file at all": "IdentityFile none",
    "equals signs": "Host=a\n User = one\n Port=99\nIdentitiesOnly= yes",
    "tabs and blank ends": "Host\ta \n\tUser\tone\t\n\n   # comment\n#another\n Port 9  ",
    "comments behind": "User one # who\nPort 22 #x\nHostName b # where",
    "quotes": "User 'one two'\nIdentityFile '/k/a\"b'\nCertificateFile \"/c/a\\\"b\"",
    "escaped blank": "IdentityFile /k/a\\ b",
    "keywords in any case": "HOST a\n uSeR one\n hostname B.Example.ORG",
    "negation": "Host * !a\n User one\nHost !b *\n Port 99",
    "negation alone": "Host !b\n User one",
    "wildcards": "Host ?\n User one\nHost a*b\n Port 2",
    "brackets are no wildcards": "Host [a]\n User one\nHost *\n User two",
    "windows line ends": "Host a\r\n User one\r\n",
    "tokens": "HostName %h.org\nUser one\nPort 9\nIdentityFile /k/%h-%n-%p-%r-%u-%i-%l-%L-%%\n"
    "IdentityFile %d/k\nCertificateFile ~/%k",
    "hash token": "User one\nIdentityFile /k/%C",
    "control path": "ControlPath ~/cm/%r@%h:%p-%C",
    "no control path": "ControlPath none",
    "tokens of a proxy command": "ProxyCommand nc -X 5 '%h' %p # %n %r %%\nUser one",
    "no proxy command": "ProxyCommand none",
    "known hosts": 'UserKnownHostsFile ~/one "/two"\nGlobalKnownHostsFile /three',
    "known hosts by tokens": "UserKnownHostsFile /k/%h ~/.ssh/k_%n",
    "no known hosts": "UserKnownHostsFile none\nGlobalKnownHostsFile none",
    "known hosts nowhere": "UserKnownHostsFile /dev/null\nStrictHostKeyChecking no",
    "blanks in known hosts": 'UserKnownHostsFile "/home/a b/known_hosts" /home/c',
    "alias of the key": "HostKeyAlias Some.Name\nIdentityFile /k/%k",
    "strict": "StrictHostKeyChecking accept-new\nHashKnownHosts yes",
    "strict off": "StrictHostKeyChecking off",
    "strict yes": "StrictHostKeyChecking yes",
    "times": "ServerAliveInterval 2m\nServerAliveCountMax 7\nConnectTimeout 1h30",
    "agent": "IdentityAgent ~/agent-%u",
    "no agent": "IdentityAgent none\nIdentitiesOnly yes",
    "agent of a variable": "IdentityAgent $OTHER_AGENT",
    "agent of the usual variable": "IdentityAgent SSH_AUTH_SOCK",
    "variables": "IdentityFile ${KEYS}/id\nUserKnownHostsFile ${KEYS}/known",
    "jump": "Host a\n ProxyJump b\nHost b\n User two\n Port 99",
    "jump with everything": "Host a\n ProxyJump two@b:99",
    "jump over several": "Host a\n ProxyJump b,two@c:99,[::1]:7\nHost b c\n User u",
    "jump by address": "Host a\n ProxyJump ssh://two@b:99/,c",
    "jump with tokens": "Host a\n User one\n ProxyJump %r@gate-%h",
    "jump over jumps": "Host a\n ProxyJump b\nHost b\n ProxyJump c",
    "only the first of several has jumps of its own": (
        "Host a\n ProxyJump b,d\nHost b\n ProxyJump c\nHost d\n ProxyJump e"
    ),
    "no jump": "Host a\n ProxyJump none\nHost *\n ProxyJump b",
    "jump in a circle": "Host *\n ProxyJump b",
    "jump before proxy command": "ProxyJump b\nProxyCommand x\nHost b\n ProxyJump none",
    "proxy command before jump": "Host a\n ProxyCommand x\n ProxyJump b",
    "no jump and a proxy command": "ProxyJump none\nProxyJump b\nProxyCommand x",
    "no proxy command and a jump": "ProxyCommand none\nProxyJump b",
    "match host": "HostName b.org\nMatch host b.org\n User one\nMatch host a\n Port 9",
    "match host in lower case": "Match host A,c\n User one",
    "match original host": "HostName b\nMatch originalhost a,!c\n User one",
    "match user": "User one\nMatch user one\n Port 9\nMatch user two,t*\n Port 10",
    "match local user": f"Match localuser {ME.name}\n User one\nMatch localuser x*\n Port 9",
    "match all": "Match all\n User one",
    "match not": "Match !host a\n User one\nMatch host a !user two\n Port 9",
    "match several": "Match host a user one\n Port 1\nMatch host a localuser *\n Port 2",
    "match canonical": "Match canonical\n User one",
    "match final": "Host a\n HostName B.org\nHost b.org\n Port 9\nMatch final host b.org\n User f",
    "match final all": "Match final all\n User one\nHost a\n HostName b",
    "host after match": "Match host b\n User no\nHost a\n User one",
    "user of the match comes first": "Match user two\n Port 9\nHost *\n User one",
    "forwards": "LocalForward 8080 b:80\nDynamicForward 1080\nForwardAgent yes\nCompression yes",
    "kerberos alone": "GSSAPIAuthentication yes\nPreferredAuthentications gssapi-with-mic",
    "kerberos among others": "GSSAPIAuthentication yes",
    "smart card": "PKCS11Provider /usr/lib/opensc.so",
    "bad time": "ConnectTimeout soon",
    "bad port": "Port ninety",
    "open quote": 'IdentityFile "/k/1',
    "two arguments": "HostName a b",
    "no argument": "HostName",
    "match without criterion": "Match",
    "match without pattern": "Match host",
    "match all and more": "Match host a user b all\n User one",
}


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("host", ["a", "A", "b"])
def test_own_parser_says_what_ssh_says(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch, text: str, host: str
) -> None:
    monkeypatch.setenv("KEYS", "/keys of mine")
    monkeypatch.setenv("OTHER_AGENT", "/run/other")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/usual")
    assert_both_agree(host, config(text))


@pytest.mark.parametrize(
    "asked",
    [
        {"user": "alice"},
        {"port": 7},
        {"jump": ("b", "carol@c:9")},
        {"jump": ("none",)},
        {"user": r"DOMAIN\alice", "port": 7, "jump": ("::1",)},
    ],
    ids=str,
)
def test_own_parser_says_what_ssh_says_when_the_profile_says_something(
    config: MakeConfig, asked: dict[str, Any]
) -> None:
    text = "Host a\n User one\n Port 9\n ProxyJump d\nMatch user alice\n IdentityFile /k/%r"
    assert assert_both_agree("a", config(text), **asked) is not ConfigError


_HOSTS = ["gw", "login1", "login2", "node7.cluster", "Web"]
_PATTERNS = ["*", "gw", "login?", "login1", "!login2", "*.cluster", "n*", "web", "!gw", "?[w]"]
_NAMES = st.sampled_from(["one", "two", "t%"])
_OPTIONS = st.one_of(
    st.sampled_from(["%h", "%h.org", "10.0.0.7", "Big.Name"]).map("HostName {}".format),
    st.integers(1, 65535).map("Port {}".format),
    st.sampled_from(["one", "'one two'", "three"]).map("User {}".format),
    st.sampled_from(["/k/1", '"/k/2 x"', "/k/%r@%h:%p", "~/k", "none"]).map(
        "IdentityFile={}".format
    ),
    st.sampled_from(["/c/1", "%d/c-%n", "/c/%k"]).map("CertificateFile {}".format),
    st.sampled_from(["yes", "no"]).map("IdentitiesOnly = {}".format),
    st.sampled_from(["/k/u", "/k/u2 ~/u3", "none"]).map("UserKnownHostsFile {}".format),
    st.sampled_from(["alias", "Alias2"]).map("HostKeyAlias {} # why".format),
    st.sampled_from(["yes", "no", "ask", "accept-new"]).map("StrictHostKeyChecking {}".format),
    st.sampled_from(["nc %h %p", "none", 'sh -c "x %%"']).map("ProxyCommand {}".format),
    st.sampled_from(["gw", "none", "u@gw:3,far", "%r@login1"]).map("ProxyJump {}".format),
    st.sampled_from(["5", "1m30s", "0"]).map("ServerAliveInterval {}".format),
    st.sampled_from(["5", "none", "2m"]).map("ConnectTimeout {}".format),
)
_CRITERIA = st.one_of(
    st.lists(st.sampled_from(_PATTERNS), min_size=1, max_size=3)
    .map(",".join)
    .map("host {}".format),
    st.sampled_from(["gw", "l*,!login2", "WEB"]).map("!originalhost {}".format),
    st.sampled_from(["one", "!one,*", "t*"]).map("user {}".format),
    st.just("canonical"),
    st.just("final"),
)
_BLOCKS = st.one_of(
    st.lists(st.sampled_from(_PATTERNS), min_size=1, max_size=3)
    .map(" ".join)
    .map("Host {}".format),
    st.lists(_CRITERIA, min_size=1, max_size=2).map(" ".join).map("Match {}".format),
    st.just("Match all"),
)
_CONFIGS = st.lists(
    st.tuples(_BLOCKS, st.lists(_OPTIONS, max_size=3).map("\n  ".join)).map("\n  ".join),
    min_size=1,
    max_size=5,
).map("\n".join)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=_CONFIGS, host=st.sampled_from(_HOSTS), user=st.sampled_from([None, "one"]))
def test_own_parser_says_what_ssh_says_of_any_config(
    config: MakeConfig, text: str, host: str, user: str | None
) -> None:
    assert_both_agree(host, config(text), user=user)


def test_included_files_count_where_they_are_included(config: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    config("User from-1\nHost b\n Port 1", "conf.d/1.conf")
    config("User from-2\nHost a\n Port 2", "conf.d/2.conf")
    config("Include more.conf", "conf.d/3.conf")
    text = f"Host a\n Include {tmp_path}/conf.d/*.conf {tmp_path}/none\n IdentityFile /k\n"
    path = config(text + "Host *\n User last")
    for host, user, port in (("a", "from-1", 2), ("b", "last", 22)):
        (hop,) = assert_both_agree(host, path)
        assert (hop["user"], hop["port"]) == (user, port)


def test_files_that_include_one_another_are_an_error(config: MakeConfig, tmp_path: Path) -> None:
    path = config(f"Include {tmp_path}/config")
    assert assert_both_agree("a", path) is ConfigError


def test_included_file_that_others_may_write_is_refused(config: MakeConfig) -> None:
    included = config("ProxyCommand evil", "included")
    included.chmod(0o666)
    assert assert_both_agree("a", config(f"Include {included}")) is ConfigError


# --- what they say ---


@pytest.mark.usefixtures("either_reader")
class TestRoute:
    def test_host_that_nothing_is_said_of_has_the_defaults(self, config: MakeConfig) -> None:
        (hop,) = route("node.example.org", config=config(""))
        assert (hop.host, hop.port, hop.user) == ("node.example.org", 22, ME.name)
        assert hop.label == f"{ME.name}@node.example.org"
        assert hop.known_hosts[0] == ME.home / ".ssh" / "known_hosts"
        assert hop.known_hosts[-1] == Path("/etc/ssh/ssh_known_hosts2")
        assert ME.home / ".ssh" / "id_ed25519" in hop.identity_files
        assert (hop.strict, hop.proxy_command, hop.control_path) == ("ask", None, None)
        assert (hop.alive_interval_s, hop.alive_count) == (15.0, 3)
        assert hop.remarks == ()

    def test_jump_hosts_come_first_and_each_is_read_by_itself(self, config: MakeConfig) -> None:
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

    def test_profile_wins_over_the_configuration(self, config: MakeConfig) -> None:
        path = config("Host *\n User one\n Port 9\nHost login\n ProxyJump elsewhere")
        hops = route("login", user="alice", port=7, jump=["bob@gate:8", "second"], config=path)
        assert [hop.label for hop in hops] == ["bob@gate:8", "one@second:9", "alice@login:7"]

    def test_way_that_leads_in_a_circle_is_named(self, config: MakeConfig) -> None:
        path = config("Host a\n ProxyJump b\nHost b\n ProxyJump a")
        with pytest.raises(ConfigError, match="in a circle") as caught:
            route("a", config=path)
        assert "ProxyJump none" in str(caught.value)

    def test_setting_with_an_unset_variable_is_left_out_and_said(
        self, config: MakeConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("NOT_THERE", raising=False)
        (hop,) = route("a", config=config("IdentityFile ${NOT_THERE}/k\nIdentityFile /k"))
        assert hop.identity_files == (Path("/k"),)
        assert "NOT_THERE is not set" in hop.remarks[0]

    def test_unknown_token_is_an_error(self, config: MakeConfig) -> None:
        with pytest.raises(ConfigError, match="%y"):
            route("a", config=config("IdentityFile /k/%y"))

    def test_where_no_file_is_wanted_nothing_is_remembered(self, config: MakeConfig) -> None:
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
        self, config: MakeConfig, line: str, words: str
    ) -> None:
        (hop,) = route("a", config=config(line))
        (remark,) = hop.remarks
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
    def test_what_costs_nothing_is_not_spoken_of(self, config: MakeConfig, line: str) -> None:
        assert route("a", config=config(line))[0].remarks == ()

    @pytest.mark.parametrize(
        "host", ["-oProxyCommand=x", "$(id)", "a;b", "`id`", "a b", "", "a'b", "a\nb", "*"]
    )
    def test_host_that_could_do_harm_is_refused(self, config: MakeConfig, host: str) -> None:
        with pytest.raises(ConfigError, match="name of a host"):
            route(host, config=config(""))
        with pytest.raises(ConfigError):
            route("a", jump=[f"u@{host}"], config=config(""))

    @pytest.mark.parametrize("user", ["-l", "a;b", "$(x)", "a`b", "a -b", "a\nb"])
    def test_user_that_could_do_harm_is_refused(self, config: MakeConfig, user: str) -> None:
        with pytest.raises(ConfigError, match="name of a user"):
            route("a", user=user, config=config(""))

    def test_harmful_name_in_the_configuration_is_refused_too(self, config: MakeConfig) -> None:
        path = config("HostName $(id).org\nProxyCommand nc %h %p")
        with pytest.raises(ConfigError, match="name of a host"):
            route("a", config=path)

    def test_port_out_of_range_is_refused(self, config: MakeConfig) -> None:
        with pytest.raises(ConfigError, match="70000"):
            route("a", port=70000, config=config(""))

    def test_configuration_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="nowhere"):
            route("a", config=tmp_path / "nowhere")

    def test_environment_names_another_configuration(
        self, config: MakeConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JUPYTER_SLURM_SSH_CONFIG", str(config("User of-another-file")))
        assert route("a")[0].user == "of-another-file"
        assert route("a", config=config("User given", "given"))[0].user == "given"


def test_words_of_ssh_are_shown_when_it_refuses_a_configuration(config: MakeConfig) -> None:
    with pytest.raises(ConfigError, match="line 2: Bad configuration option: hostnam") as caught:
        route("a", config=config("User one\nHostNam b"))
    assert "ssh -G a" in str(caught.value)


def test_old_ssh_that_cannot_say_is_not_asked(
    config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'ssh: illegal option -- G' >&2\nexit 255\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    assert route("a", config=config("User one"))[0].user == "one"


def test_control_path_of_ssh_is_not_filled_in_twice(config: MakeConfig) -> None:
    (hop,) = route("a", config=config("ControlPath /cm/%%h"))
    assert hop.control_path == "/cm/%h"


# --- the parser of our own, where ssh cannot be compared ---


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home of the user as far as the parser knows; no ssh."""
    home = tmp_path / "home with blanks"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(ssh_config, "this_user", lambda: ME._replace(home=home))
    monkeypatch.setattr(ssh_config_file, "SYSTEM_FILE", tmp_path / "etc" / "ssh_config")
    return home


def test_user_file_comes_before_that_of_the_system(home: Path, config: MakeConfig) -> None:
    config("User mine\nInclude extra", "home with blanks/.ssh/config")
    config("Port 7", "home with blanks/.ssh/extra")
    home.with_name("etc").mkdir()
    config("User theirs\nHashKnownHosts yes\nInclude extra", "etc/ssh_config")
    config("ServerAliveInterval 9", "etc/extra")
    (hop,) = route("a")
    assert (hop.user, hop.port, hop.hash_known_hosts) == ("mine", 7, True)
    assert hop.alive_interval_s == 9
    assert hop.known_hosts[0] == home / ".ssh" / "known_hosts"


def test_user_file_that_others_may_write_is_refused(home: Path, config: MakeConfig) -> None:
    config("User mine", "home with blanks/.ssh/config").chmod(0o660)
    with pytest.raises(ConfigError, match="chmod 600"):
        route("a")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("criterion", ["exec true", "tagged x", "localnetwork 10.0.0.0/8", "new 1"])
def test_match_that_is_not_understood_names_file_and_line(
    config: MakeConfig, criterion: str
) -> None:
    path = config(f"User one\nMatch {criterion}\n Port 9")
    with pytest.raises(ConfigError, match=f"{path}, line 2: Match {criterion[:3]}"):
        route("a", config=path)


@pytest.mark.usefixtures("home")
def test_match_that_is_not_understood_is_of_no_matter_for_other_hosts(config: MakeConfig) -> None:
    path = config("Match host b exec true\n Port 9")
    assert route("a", config=path)[0].port == 22
    with pytest.raises(ConfigError, match="Match exec"):
        route("b", config=path)


@pytest.mark.usefixtures("home")
def test_canonical_names_need_ssh_and_that_is_said(config: MakeConfig) -> None:
    (remark,) = route("a", config=config("CanonicalizeHostname yes"))[0].remarks
    assert "CanonicalizeHostname" in remark


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
