"""The hops to a host, from OpenSSH's configuration.

`ssh -G` reads the configuration; without an `ssh` program, only the profile counts. This module
does not open connections.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from jupyter_slurm.errors import ConfigError

CONFIG_VARIABLE: Final = "JUPYTER_SLURM_SSH_CONFIG"
"""The variable that names an SSH configuration to read instead of the user's and the system's, like
`ssh -F`."""

NO_SSH: Final = (
    "This machine lacks `ssh`, so jupyter-slurm does not read ~/.ssh/config. It uses only the "
    "profile's host, user, port and jump hosts. Install OpenSSH's client to use other settings."
)
_TIMEOUT_S = 30.0  # Match exec and CanonicalizeHostname may take their time
_CONNECT_TIMEOUT_S = 20
_ALIVE_INTERVAL_S = 15
_NO_STRICT_CHECKING = {"no", "off", "false"}
# The rules of OpenSSH 9.6, added because of CVE-2023-51385: a name with `$(…)` must not reach the
# shell that runs a ProxyCommand.
_NOT_IN_A_HOST = re.compile(r"[\s\x00-\x1f\x7f'`\"$\\;&<>|(){}\[\]*?#,/]")
_NOT_IN_A_USER = re.compile(r"[\x00-\x1f\x7f'`\";&<>|(){}]|\s-|\\\Z")
_TOKEN = re.compile("%(.)")


class Destination(NamedTuple):
    """A parsed `[user@]host[:port]`; None for omitted parts."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        """Return the host in the form of `ssh -J`."""
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return user + host + (f":{self.port}" if self.port else "")


@dataclass(frozen=True, slots=True)
class Hop:
    """One login of a route."""

    alias: str
    """The name to call `ssh` with."""
    host: str
    port: int
    user: str
    flags: tuple[str, ...] = ()
    """`-F`, `-l`, `-p` and other options before the alias."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The output of `ssh -G`: values by keyword in lower case, the values of a repeated keyword
    joined by newlines; {} without an `ssh`."""

    @property
    def label(self) -> str:
        """The user and host, such as `alice@gateway.example.org`, and the port unless it is 22."""
        return str(Destination(self.host, self.user, None if self.port == 22 else self.port))

    @property
    def connect_timeout_s(self) -> int:
        return self._seconds("connecttimeout") or _CONNECT_TIMEOUT_S

    @property
    def alive_interval_s(self) -> int:
        """Seconds of silence after which ssh sends a keep-alive."""
        return min(self._seconds("serveraliveinterval") or _ALIVE_INTERVAL_S, _ALIVE_INTERVAL_S)

    @property
    def accepts_changed_keys(self) -> bool:
        return self.settings.get("stricthostkeychecking", "").lower() in _NO_STRICT_CHECKING

    def _seconds(self, keyword: str) -> int:
        text = self.settings.get(keyword, "")
        return int(text) if text.isdecimal() else 0


def route(
    host: str,
    *,
    user: str | None = None,
    port: int | None = None,
    jump: Sequence[str] = (),
    config: Path | None = None,
) -> tuple[Hop, ...]:
    """Return the hops from this machine to `host`, with `host` last. `user`, `port` and `jump`
    (`[user@]host[:port]`, the outermost first) override the configuration; `jump=("none",)` means
    no jump hosts. `config` is a file to read instead of JUPYTER_SLURM_SSH_CONFIG, or else of the
    user's and the system's files. Raises ConfigError.
    """
    if config is None and os.environ.get(CONFIG_VARIABLE):
        config = Path(os.environ[CONFIG_VARIABLE])
    jumps = tuple(jump) if tuple(jump) == ("none",) else tuple(str(destination(j)) for j in jump)
    return _chain(checked(Destination(host, user, port)), jumps, config, ())


def _chain(
    where: Destination, jump: tuple[str, ...], config: Path | None, behind: tuple[Hop, ...]
) -> tuple[Hop, ...]:
    """Return the hops to `where`. `behind` contains the hosts that are reached through `where`."""
    hop, jumps = _resolved(where, jump, config)
    _refuse_circle((hop, *behind))
    if not jumps:
        return (hop,)
    hops = _chain(jumps[0], (), config, (hop, *behind))
    # Only the first host's own ProxyJump counts: ssh reaches the others through it with `ssh -J`.
    for passed, other in enumerate(jumps[1:], 1):
        hops += (_resolved(other, tuple(map(str, jumps[:passed])), config)[0],)
    _refuse_circle((*hops, hop))
    return (*hops, hop)


def _refuse_circle(hops: Sequence[Hop]) -> None:
    names = [str(Destination(hop.alias, hop.user, hop.port)) for hop in hops]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"The jump hosts of {names[-1]} form a loop: {' → '.join(names)}.",
            hint="Set `ProxyJump none` for the jump host in ~/.ssh/config.",
        )


def _resolved(
    where: Destination, jump: tuple[str, ...], config: Path | None
) -> tuple[Hop, tuple[Destination, ...]]:
    """Return the configuration of one host, and the hosts to jump through."""
    flags: tuple[str, ...] = ()
    for flag, value in (("-F", config), ("-l", where.user), ("-p", where.port)):
        flags += (flag, str(value)) if value else ()
    if not has_openssh():
        settings, names = {}, jump if jump != ("none",) else ()
    else:
        settings = _read(["ssh", "-G", *flags, *_jump(jump), "--", where.host], where.host)
        named = settings.get("proxyjump", "none")
        names = () if named.lower() == "none" else tuple(named.split(","))
    host = settings.get("hostname", where.host).replace("%h", where.host).replace("%%", "%").lower()
    port = int(settings.get("port", where.port or 22))
    user = settings.get("user") or where.user or os.environ.get("USER") or str(os.getuid())
    checked(Destination(host, user, port))
    if jump == ("none",):
        flags += _jump(jump)
    hop = Hop(where.host, host, port, user, flags, settings)
    tokens = {"h": host, "n": where.host, "p": str(port), "r": user, "%": "%"}
    filled = (_TOKEN.sub(lambda t: tokens.get(t[1], t[0]), name) for name in names)
    return hop, tuple(destination(name) for name in filled)


def _jump(jump: tuple[str, ...]) -> tuple[str, ...]:
    return ("-o", f"ProxyJump={','.join(jump)}") if jump else ()


def _read(argv: Sequence[str], host: str) -> dict[str, str]:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise ConfigError(f"`ssh -G {host}` did not answer: {exc}.") from exc
    if done.returncode:
        raise ConfigError(
            f"Cannot use the SSH configuration for {host}.",
            hint=f"Run `ssh -G {host}` in a terminal.",
            detail=os.fsdecode(done.stderr),
        )
    settings: dict[str, str] = {}
    for line in os.fsdecode(done.stdout).splitlines():
        keyword, _, value = line.strip().partition(" ")
        settings[keyword] = f"{settings[keyword]}\n{value}" if keyword in settings else value
    return settings


def has_openssh() -> bool:
    """Return whether this machine has a working `ssh`. `ssh` refuses to run for a user without a
    name, for example in a container."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return shutil.which("ssh") is not None


def destination(text: str) -> Destination:
    """Read `[user@]host[:port]`, `[user@][v6]:port` or `ssh://user@host:port/`. Raises
    ConfigError."""
    rest, is_uri = text.strip(), text.strip().startswith("ssh://")
    if is_uri:
        rest = rest.removeprefix("ssh://").split("/", 1)[0]
    user, at, rest = rest.rpartition("@")
    if is_uri:
        user = unquote(user.split(";", 1)[0])
    bracketed = re.fullmatch(r"\[([^]]*)\](?::(\d+))?", rest)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
    elif rest.count(":") > 1:
        host, port = rest, None
    else:
        host, _, port = rest.partition(":")
    if (at and not user) or (port and not port.isdecimal()):
        raise ConfigError(
            f"{text!r} is not a host to reach over SSH.",
            hint="Write [user@]host[:port] or ssh://user@host:port.",
        )
    return checked(Destination(host, user or None, int(port) if port else None))


def checked(where: Destination) -> Destination:
    """Return `where` if its names are harmless in a command line and a shell. Otherwise raise
    ConfigError."""
    if not where.host or where.host.startswith("-") or _NOT_IN_A_HOST.search(where.host):
        raise ConfigError(
            f"{where.host!r} is not a valid host name.",
            hint="Use a DNS name, an address, or a Host in ~/.ssh/config.",
        )
    if where.user is not None and (where.user.startswith("-") or _NOT_IN_A_USER.search(where.user)):
        raise ConfigError(f"{where.user!r} is not a valid user name on {where.host}.")
    if where.port is not None and not 0 < where.port < 65536:
        raise ConfigError(f"{where.port} is not a valid port of {where.host}.")
    return where
