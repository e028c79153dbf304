"""The parser of our own says what `ssh -G` says, and what it does where that cannot be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.transport import ssh_config
from jupyter_slurm.transport.ssh_config import config_file as ssh_config_file
from jupyter_slurm.transport.ssh_config import route
from tests.transport.ssh_configs import ME, MakeConfig, assert_both_agree

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
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
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
