"""How a host is reached: `~/.ssh/config` → the hops from this machine to it.

`ssh -G` reads the configuration (6 ms a host); where no `ssh` can, nobody does, and the words of
the profile are all there is. Opens no connection, reads no key. What the configuration asks for
and nobody here does, and that it was not read, is a sentence in `Hop.remarks`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.transport.ssh_config.config_words import (
    Destination,
    ThisUser,
    checked,
    destination,
    expand,
    seconds,
    split_paths,
    this_user,
    without_tilde,
)
from jupyter_slurm.transport.ssh_config.remarks import remarks_on
from jupyter_slurm.wire import Message, Text

CONFIG_VARIABLE: Final = "JUPYTER_SLURM_SSH_CONFIG"
"""Names a file to read in place of the user's and the system's, as `ssh -F` does."""

Strict = Literal["yes", "ask", "accept-new", "no"]
Options = Mapping[str, tuple[str, ...]]
"""Keyword in lower case → its values, as `ssh -G` gives them: most tokens not yet filled in."""

_TIMEOUT_S = 30.0  # Match exec and CanonicalizeHostname may take their time
_CONNECT_TIMEOUT_S = 20.0
_ALIVE_INTERVAL_S = 15.0
_DEFAULT_KEYS = tuple(
    f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk")
)
_USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_FILLED_IN_BY_SSH = frozenset({"userknownhostsfile", "controlpath", "identityagent"})
_STRICT: Final[Mapping[str, Strict]] = {
    "true": "yes",
    "yes": "yes",
    "ask": "ask",
    "accept-new": "accept-new",
    "false": "no",
    "no": "no",
    "off": "no",
}


@dataclass(frozen=True, slots=True)
class Hop:
    """One login on the way, with everything that ssh_config(5) says about it."""

    alias: str
    """The name as it was given: what `ssh` would be called with."""
    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    """Private keys to try, in order; they need not be there."""
    certificate_files: tuple[Path, ...]
    identities_only: bool
    identity_agent: str | None
    """Path of the agent's socket; None: no agent."""
    known_hosts: tuple[Path, ...]
    """The user's files, then those of the system; new keys are appended to the first."""
    host_key_alias: str | None
    strict: Strict
    hash_known_hosts: bool
    proxy_command: str | None
    """For `sh -c`, tokens filled in; only a first hop has one."""
    control_path: str | None
    connect_timeout_s: float
    alive_interval_s: float
    remarks: tuple[Text, ...]
    """Sentences: what the configuration asks for that this does not do."""

    @property
    def label(self) -> str:
        """`alice@gateway.example.org`, with the port where that is not 22."""
        return str(Destination(self.host, self.user, None if self.port == 22 else self.port))


def route(
    host: str,
    *,
    user: str | None = None,
    port: int | None = None,
    jump: Sequence[str] = (),
    config: Path | None = None,
) -> tuple[Hop, ...]:
    """From this machine to `host`, the last hop last.

    `user`, `port` and `jump` (`[user@]host[:port]`, the outermost first) win over the
    configuration; `jump=("none",)` means no jump hosts. `config` is read in place of
    JUPYTER_SLURM_SSH_CONFIG, that in place of the user's and the system's files. ConfigError.
    """
    if config is None and os.environ.get(CONFIG_VARIABLE):
        config = Path(os.environ[CONFIG_VARIABLE])
    jumps = tuple(jump) if tuple(jump) == ("none",) else tuple(str(destination(j)) for j in jump)
    hops = _chain(checked(Destination(host, user, port)), jumps, config, ())
    _refuse_circle(hops)
    return hops


def _chain(
    where: Destination, jump: tuple[str, ...], config: Path | None, behind: tuple[Hop, ...]
) -> tuple[Hop, ...]:
    """The hops to `where`; `behind` are those for whose sake it is reached."""
    hop, jumps = _resolved(where, jump, config)
    _refuse_circle((hop, *behind))
    if not jumps:
        return (hop,)
    hops = _chain(jumps[0], (), config, (hop, *behind))
    # Only the first one's own ProxyJump counts: ssh, too, reaches the others by `ssh -J`.
    for passed, other in enumerate(jumps[1:], 1):
        hops += (_resolved(other, tuple(map(str, jumps[:passed])), config)[0],)
    return (*hops, hop)


def _resolved(
    where: Destination, jump: tuple[str, ...], config: Path | None
) -> tuple[Hop, tuple[Destination, ...]]:
    """What the configuration says of one host, and through which others it is reached."""
    me = this_user()
    options = _read(where, ",".join(jump), config)
    tokens = _tokens(where, options, me)
    jumps = tuple(destination(part) for part in tokens["j"].split(",") if tokens["j"])
    return _hop(where, options, tokens, me), jumps


def _refuse_circle(hops: Sequence[Hop]) -> None:
    names = [str(Destination(hop.alias, hop.user, hop.port)) for hop in hops]
    if len(set(names)) < len(names):
        raise ConfigError(
            "The way to {names} leads in a circle: {way}.",
            hint="Give the jump host `ProxyJump none` in ~/.ssh/config.",
            names=names[-1],
            way=" → ".join(names),
        )


def _read(where: Destination, jump: str, config: Path | None) -> Options:
    """Ask `ssh -G`, or take the caller's words for all there is where it cannot be asked."""
    program = shutil.which("ssh")
    options = _from_ssh(program, where, jump, config) if program else None
    if options is None:
        asked = {"user": where.user, "port": where.port, "proxyjump": jump}
        options = {keyword: (str(value),) for keyword, value in asked.items() if value}
    return options


def _from_ssh(program: str, where: Destination, jump: str, config: Path | None) -> Options | None:
    """What `ssh -G` says; None: this ssh cannot say. ConfigError with its own words."""
    argv = [program, "-G"]
    for flag, value in (("-F", config), ("-l", where.user), ("-p", where.port), ("-J", jump)):
        argv += [flag, str(value)] if value else []
    try:
        done = subprocess.run(
            [*argv, "--", where.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise ConfigError(
            "`ssh -G {host}` did not answer: {exc}.", host=where.host, exc=exc
        ) from exc
    words = os.fsdecode(done.stderr)
    if done.returncode and ("option -- G" in words or "No user exists" in words):
        return None
    if done.returncode:
        raise ConfigError(
            "The SSH configuration for {host} cannot be used.",
            hint="Try: ssh -G {host}",
            detail=words,
            host=where.host,
        )
    options: dict[str, tuple[str, ...]] = {}
    for line in os.fsdecode(done.stdout).split("\n"):
        keyword, _, value = line.strip().partition(" ")
        if keyword in _FILLED_IN_BY_SSH:
            value = value.replace("%", "%%")
        values = split_paths(value) if keyword.endswith("knownhostsfile") else (value,)
        options[keyword] = options.get(keyword, ()) + values
    return options


def _tokens(where: Destination, options: Options, me: ThisUser) -> dict[str, str]:
    """What `%h` and the others stand for (ssh_config(5), TOKENS); `j` is "" without a jump."""
    host = expand(_first(options, "hostname", where.host), {"h": where.host}, environ=None).lower()
    user = _first(options, "user", me.name)
    port = _number(options, "port", 22)
    checked(Destination(host, user, port))
    tokens = {"h": host, "n": where.host, "p": str(port), "r": user}
    jump = _first(options, "proxyjump", "none")
    tokens["j"] = "" if jump.lower() == "none" else expand(jump, tokens, environ=None)
    digest = hashlib.sha1(usedforsecurity=False)
    for part in (me.hostname, host, str(port), user, tokens["j"]):
        digest.update(os.fsencode(part))
    return tokens | {
        "u": me.name,
        "i": str(me.uid),
        "d": str(me.home),
        "l": me.hostname,
        "L": me.hostname.split(".")[0],
        "k": _first(options, "hostkeyalias", where.host).lower(),
        "C": digest.hexdigest(),
    }


def _hop(where: Destination, options: Options, tokens: Mapping[str, str], me: ThisUser) -> Hop:
    files = _Files(options, tokens, me)
    # Where the user wants no file there is none to append to.
    user_files = files.all("userknownhostsfile", _USER_FILES) or (Path(os.devnull),)
    proxy = _first(options, "proxycommand", "none")
    strict = _first(options, "stricthostkeychecking", "ask").lower()
    if strict not in _STRICT:
        raise ConfigError(
            "StrictHostKeyChecking {strict} of the SSH configuration is unknown.",
            strict=repr(strict),
        )
    alias = _first(options, "hostkeyalias", "").lower()
    alive_s = seconds("ServerAliveInterval", _first(options, "serveraliveinterval", "0"))
    connect = _first(options, "connecttimeout", "none").lower()
    return Hop(
        alias=where.host,
        host=tokens["h"],
        port=int(tokens["p"]),
        user=tokens["r"],
        identity_files=files.all("identityfile", _DEFAULT_KEYS),
        certificate_files=files.all("certificatefile"),
        identities_only=_flag(options, "identitiesonly"),
        identity_agent=_agent(options, files),
        known_hosts=user_files + files.all("globalknownhostsfile", _GLOBAL_FILES),
        host_key_alias=alias or None,
        strict=_STRICT[strict],
        hash_known_hosts=_flag(options, "hashknownhosts"),
        proxy_command=None if proxy.lower() == "none" else expand(proxy, tokens, environ=None),
        control_path=next((str(path) for path in files.all("controlpath")), None),
        connect_timeout_s=(
            _CONNECT_TIMEOUT_S if connect == "none" else seconds("ConnectTimeout", connect)
        ),
        alive_interval_s=alive_s or _ALIVE_INTERVAL_S,
        remarks=tuple(files.remarks) + remarks_on(options),
    )


class _Files:
    """Values that name files, filled in; those that cannot be are left out with a remark."""

    def __init__(self, options: Options, tokens: Mapping[str, str], me: ThisUser) -> None:
        self._options = options
        self._tokens = tokens
        self._me = me
        self.remarks: list[Text] = []

    def all(self, keyword: str, default: tuple[str, ...] = ()) -> tuple[Path, ...]:
        paths = []
        for text in self._options.get(keyword, default):
            if text.lower() == "none":
                continue
            try:
                full = expand(without_tilde(text, self._me.home), self._tokens, environ=os.environ)
            except KeyError as exc:
                self.remarks.append(
                    Message.of(
                        "{path} is left out: {name} is not set.", path=text, name=exc.args[0]
                    )
                )
            else:
                paths.append(Path(full))
        return tuple(dict.fromkeys(paths))


def _agent(options: Options, files: _Files) -> str | None:
    named = _first(options, "identityagent", "SSH_AUTH_SOCK")
    if named == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if named.startswith("$") and not named.startswith("${"):
        return os.environ.get(named[1:]) or None
    return next((str(path) for path in files.all("identityagent")), None)


def _first(options: Options, keyword: str, default: str) -> str:
    return options.get(keyword, (default,))[0]


def _flag(options: Options, keyword: str) -> bool:
    return _first(options, keyword, "no").lower() in ("yes", "true")


def _number(options: Options, keyword: str, default: int) -> int:
    text = _first(options, keyword, str(default))
    if not text.isdecimal():
        raise ConfigError(
            "{keyword} {text} of the SSH configuration is not a number.",
            keyword=keyword,
            text=repr(text),
        )
    return int(text)
