"""What a configuration of SSH asks for and nobody here does: a table, in sentences. Pure.

Only what changes whether or how a host is reached, or what a user would miss; a preference that
costs nothing (VisualHostKey, IPQoS) gets no sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_READ: Final = (
    "~/.ssh/config is not read, since this machine has no `ssh` that could (`ssh -G`): what the"
    " profile says of host, user, port and jump is all that counts. Install OpenSSH's client if"
    " more is needed."
)

_OFF: Final = frozenset({"none", "no", "false", "internal", "any", ""})
_ON: Final = frozenset({"yes", "true"})

_MASTER: Final = "a connection that it has open is used"
KERBEROS: Final = f"GSSAPIAuthentication (Kerberos) is for OpenSSH; {_MASTER}."

SENTENCES: Final[Mapping[str, str]] = {
    "pkcs11provider": f"PKCS11Provider: keys of a smart card are for OpenSSH; {_MASTER}.",
    "securitykeyprovider": (
        f"SecurityKeyProvider: keys of a FIDO token are for OpenSSH; {_MASTER}."
    ),
    "hostbasedauthentication": f"HostbasedAuthentication is for OpenSSH; {_MASTER}.",
    "knownhostscommand": (
        "KnownHostsCommand is not run: host keys come from UserKnownHostsFile and"
        " GlobalKnownHostsFile."
    ),
    "revokedhostkeys": (
        "RevokedHostKeys is not read: mark such keys with @revoked in a known_hosts file."
    ),
    "verifyhostkeydns": "VerifyHostKeyDNS: DNS is not asked, so you may be.",
    "proxyusefdpass": ("ProxyUseFdpass is not done: the ProxyCommand must carry the bytes itself."),
    "addressfamily": "AddressFamily is not followed: the first address that answers is taken.",
    "bindaddress": "BindAddress is not followed: the system chooses the address to connect from.",
    "bindinterface": "BindInterface is not followed: the system chooses the way.",
    "forwardagent": (
        "ForwardAgent: your agent is not handed on; keys for further hosts stay on this machine."
    ),
    "compression": "Compression is not used.",
    "localforward": "LocalForward is not opened: open a tunnel where you need one.",
    "remoteforward": "RemoteForward is not opened.",
    "dynamicforward": "DynamicForward is not opened: open a tunnel where you need one.",
    "remotecommand": "RemoteCommand is not run: Slurm's commands are.",
}
_OTHER_METHODS: Final = (
    "pubkeyauthentication",
    "passwordauthentication",
    "kbdinteractiveauthentication",
)


def remarks_on(options: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Sentences for what stands in `options` (keyword in lower case → values)."""
    if "hostname" not in options:  # which `ssh -G` always names
        return (NOT_READ,)
    remarks = [
        sentence
        for keyword, sentence in SENTENCES.items()
        if any(value.lower() not in _OFF for value in options.get(keyword, ()))
    ]
    if _only_gssapi(options):
        remarks.append(KERBEROS)
    return tuple(remarks)


def _only_gssapi(options: Mapping[str, tuple[str, ...]]) -> bool:
    if not _says(options, "gssapiauthentication", "no"):
        return False
    preferred = options.get("preferredauthentications", ("",))[0]
    if preferred:
        return not {"publickey", "password", "keyboard-interactive"} & set(preferred.split(","))
    return not any(_says(options, method, "yes") for method in _OTHER_METHODS)


def _says(options: Mapping[str, tuple[str, ...]], keyword: str, default: str) -> bool:
    return options.get(keyword, (default,))[0].lower() in _ON
