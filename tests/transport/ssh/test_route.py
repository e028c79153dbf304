"""The route to a host, as `ssh -G` reads it from ssh_config(5) and as we read it without `ssh`."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.transport.ssh.route import Destination, destination, route

ME = getpass.getuser()
MakeConfig = Callable[..., Path]


@pytest.fixture
def config(tmp_path: Path) -> MakeConfig:
    def write(text: str, name: str = "config") -> Path:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


def test_jump_hosts_come_first_with_their_own_settings(config: MakeConfig) -> None:
    text = """
        Host deep
          HostName deep.internal
          ProxyJump gate,carol@middle:2200
        Host gate
          HostName gate.example.org
          User alice
    """
    hops = route("deep", config=config(text))
    assert [hop.label for hop in hops] == [
        "alice@gate.example.org",
        "carol@middle:2200",
        f"{ME}@deep.internal",
    ]


def test_profile_overrides_the_ssh_config(config: MakeConfig) -> None:
    path = config("Host *\n User one\n Port 9\nHost login\n ProxyJump elsewhere")
    hops = route("login", user="alice", port=7, jump=["bob@gate:8", "second"], config=path)
    assert [hop.label for hop in hops] == ["bob@gate:8", "one@second:9", "alice@login:7"]
    assert [hop.label for hop in route("login", jump=["none"], config=path)] == ["one@login:9"]


def test_circular_proxy_jump_is_rejected(config: MakeConfig) -> None:
    path = config("Host a\n ProxyJump b\nHost b\n ProxyJump a")
    with pytest.raises(ConfigError) as caught:
        route("a", config=path)
    assert "ProxyJump none" in str(caught.value)


@pytest.mark.parametrize(
    "host", ["-oProxyCommand=x", "$(id)", "a;b", "`id`", "a b", "", "a'b", "a\nb", "*"]
)
def test_dangerous_host_name_is_rejected(config: MakeConfig, host: str) -> None:
    with pytest.raises(ConfigError):
        route(host, config=config(""))
    with pytest.raises(ConfigError):
        route("a", jump=[f"u@{host}"], config=config(""))


@pytest.mark.parametrize("user", ["-l", "a;b", "$(x)", "a`b", "a -b", "a\nb"])
def test_dangerous_user_name_is_rejected(config: MakeConfig, user: str) -> None:
    with pytest.raises(ConfigError):
        route("a", user=user, config=config(""))


def test_error_of_ssh_about_its_config_is_shown(config: MakeConfig) -> None:
    with pytest.raises(ConfigError, match="line 2: Bad configuration option: hostnam") as caught:
        route("a", config=config("User one\nHostNam b"))
    assert "ssh -G a" in str(caught.value)


def test_only_the_profile_sets_the_route_without_ssh(
    config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = config("Host *\n User one\n ProxyJump elsewhere")
    gate, login = route("login", user="alice", port=7, jump=["bob@gate:8"], config=path)
    assert (gate.label, login.label) == ("bob@gate:8", "alice@login:7")


# --- destinations ---


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
def test_every_form_of_destination_is_parsed(text: str, where: Destination) -> None:
    assert destination(text) == where


@pytest.mark.parametrize("text", ["@gate", "gate:x", "gate:0", "", "ssh://", "alice@", "[::1]x"])
def test_invalid_destination_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError):
        destination(text)
