"""What the tests of known hosts share, with `host_keys`."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest

from tests.transport.host_keys import HOST, Keys, Signed, keygen


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    kinds = {"old": "ed25519", "new": "ed25519", "rsa": "rsa", "ecdsa": "ecdsa"}
    for name, kind in (kinds | {"ca": "ed25519", "ca_rsa": "rsa", "ca_ecdsa": "ecdsa"}).items():
        keygen("-q", "-t", kind, "-N", "", "-C", name, "-f", str(folder / name))
    return Keys(folder)


@pytest.fixture(scope="session")
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
