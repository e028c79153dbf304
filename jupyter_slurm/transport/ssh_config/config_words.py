"""The small grammars inside values of ssh_config(5): tokens, `~`, destinations, times, patterns.

Pure but for asking who runs this (`this_user`). Reads no file; knows no keyword.
"""

from __future__ import annotations

import fnmatch
import os
import pwd
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from jupyter_slurm.errors import ConfigError

_TOKEN = re.compile(r"%(?P<token>.?)|\$\{(?P<name>[^}]*)(?P<end>\}?)", re.DOTALL)
_TIME = re.compile(r"(\d+)([smhdw]?)", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_NOT_IN_A_HOST = re.compile(r"[\s\x00-\x1f\x7f'`\"$\\;&<>|(){}\[\]*?#,/]")
_NOT_IN_A_USER = re.compile(r"[\x00-\x1f\x7f'`\";&<>|(){}]|\s-|\\\Z")


class ThisUser(NamedTuple):
    """Who runs this. OpenSSH takes the home from the password database, never from HOME."""

    name: str
    uid: int
    home: Path
    hostname: str


def this_user() -> ThisUser:
    uid = os.getuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # an arbitrary uid in a container
        return ThisUser(os.environ.get("USER", str(uid)), uid, Path.home(), socket.gethostname())
    return ThisUser(entry.pw_name, uid, Path(entry.pw_dir), socket.gethostname())


class Destination(NamedTuple):
    """`[user@]host[:port]`; None: not said."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        """The same again, as `ssh -J` reads it."""
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return user + host + (f":{self.port}" if self.port else "")


def destination(text: str) -> Destination:
    """Reads `[user@]host[:port]`, `[user@][v6]:port` or `ssh://user@host:port/`. ConfigError."""
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
            "{text} does not name a host to reach over SSH.",
            hint="Write [user@]host[:port] or ssh://user@host:port.",
            text=repr(text),
        )
    return checked(Destination(host, user or None, int(port) if port else None))


def checked(where: Destination) -> Destination:
    """`where`, when its names can do no harm in a command line or a shell. ConfigError.

    The rules of OpenSSH 9.6, which came with CVE-2023-51385: a name with `$(…)` in it must not
    reach the shell that runs a ProxyCommand.
    """
    if not where.host or where.host.startswith("-") or _NOT_IN_A_HOST.search(where.host):
        raise ConfigError(
            "{host} cannot be the name of a host.",
            hint="A host is a name of DNS, an address, or a Host of ~/.ssh/config.",
            host=repr(where.host),
        )
    if where.user is not None and (where.user.startswith("-") or _NOT_IN_A_USER.search(where.user)):
        raise ConfigError(
            "{user} cannot be the name of a user on {host}.",
            hint="Names of users have no quotes, semicolons or other signs of the shell in them.",
            user=repr(where.user),
            host=where.host,
        )
    if where.port is not None and not 0 < where.port < 65536:
        raise ConfigError(
            "{port} cannot be a port of {host}: it is 1 to 65535.", port=where.port, host=where.host
        )
    return where


def expand(text: str, tokens: Mapping[str, str], *, environ: Mapping[str, str] | None) -> str:
    """`text` with `%h`, `%%` and, where `environ` is given, `${NAME}` filled in.

    ConfigError for an unknown token; KeyError for a variable that is not set, as OpenSSH then
    ignores the setting.
    """

    def value(found: re.Match[str]) -> str:
        token, name = found["token"], found["name"]
        if token is not None:
            if token == "%":  # noqa: S105 (of ssh_config, not of a login)
                return "%"
            if token not in tokens:
                raise ConfigError(
                    "%{token} in {text} of the SSH configuration is not known.",
                    token=token,
                    text=repr(text),
                )
            return tokens[token]
        if environ is None:
            return found[0]
        if not name or not found["end"]:
            raise ConfigError(
                "${…} in {text} of the SSH configuration has no name or no end.", text=repr(text)
            )
        return environ[name]

    return _TOKEN.sub(value, text)


def without_tilde(text: str, home: Path) -> str:
    """`~/x` and `~user/x` as absolute paths, anything else as it is. ConfigError."""
    if not text.startswith("~"):
        return text
    user, _, rest = text[1:].partition("/")
    if user:
        try:
            home = Path(pwd.getpwnam(user).pw_dir)
        except KeyError as exc:
            raise ConfigError(
                "{text} of the SSH configuration names no known user.", text=repr(text)
            ) from exc
    return str(home / rest.lstrip("/"))


def split_paths(line: str) -> tuple[str, ...]:
    """The files that `ssh -G` prints on one line, without the quotes they had.

    A blank before something that cannot begin a path of its own belongs to the path: homes have
    blanks in them, and those paths are absolute.
    """
    return tuple(re.split(r"[ \t]+(?=[/~%$])", line.strip()))


def seconds(keyword: str, text: str) -> float:
    """`90`, `2m`, `1h30m` in seconds. ConfigError."""
    if not re.fullmatch(rf"({_TIME.pattern})+", text, re.IGNORECASE):
        raise ConfigError(
            "{keyword} {text} of the SSH configuration is not a time.",
            keyword=keyword,
            text=repr(text),
        )
    return float(sum(int(n) * _SECONDS[unit.lower()] for n, unit in _TIME.findall(text)))


def matches(name: str, pattern: str) -> bool:
    """Whether `name` fits a pattern with `*` and `?`, the only wildcards there are."""
    # Brackets are signs like any other here, and classes of signs in fnmatch.
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits and no negated one (`!pattern`) does."""
    found = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if matches(name, pattern[1:]):
                return False
        else:
            found = found or matches(name, pattern)
    return found
