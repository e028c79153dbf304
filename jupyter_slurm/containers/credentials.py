"""The files where each tool keeps a registry's user and password, and how to add a login. PURE.

They are the tools' own files, in the home on the cluster, 0600, put in place by a rename. Nothing
here checks a login with the registry.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from jupyter_slurm.containers.references import NGC
from jupyter_slurm.errors import RequestError
from jupyter_slurm.foreign import check_json

NGC_USER = "$oauthtoken"
"""The user name for every API key of NGC: these very characters."""

_REGISTRY = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]+)?")
_HUB = re.compile(r"(?:(?:registry-1|index|www)\.)?docker\.(?:io|com)")
_HUB_KEY = "https://index.docker.io/v1/"
"""The name of Docker Hub in the files of Docker, podman and Apptainer."""
_JSON = {
    "docker": (".docker/config.json",),
    "sudo-docker": (".docker/config.json",),
    "podman": (".config/containers/auth.json",),
    "apptainer": (".apptainer/docker-config.json",),
    # Apptainer's file up to 3.x of Singularity, and what SingularityCE still reads.
    "singularity": (".singularity/docker-config.json", ".apptainer/docker-config.json"),
}
_ENROOT = ".config/enroot/.credentials"


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    registry: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"RegistryLogin({self.registry!r}, {self.user!r})"


def login(registry: str, user: str, password: str) -> RegistryLogin:
    """Return a login. RequestError: the registry, user or password is missing, or has a character
    that a tool cannot store."""
    registry = registry.removeprefix("https://").removeprefix("docker://").rstrip("/")
    if not _REGISTRY.fullmatch(registry):
        raise RequestError(
            "{registry} is not the name of a registry.",
            hint="Say e.g. nvcr.io or ghcr.io.",
            registry=repr(registry),
        )
    user = user or (NGC_USER if registry == NGC else "")
    if not user or not password:
        raise RequestError("A login to {registry} needs a user and a password.", registry=registry)
    if re.search(r"[\x00-\x1f\x7f]", user + password) or ":" in user:
        raise RequestError("The user or the password has a character that no tool takes.")
    return RegistryLogin("docker.io" if _HUB.fullmatch(registry) else registry, user, password)


def charliecloud_file(registry: str) -> str:
    """Return our own file, as ch-image has none: a line for the user, one for the password."""
    return f".jupyter-slurm/registries/{registry}"


def files(runtime: str, registry: str) -> tuple[str, ...]:
    """Return the files to read and write for a login, relative to the home; (): the runtime has no
    registries."""
    if runtime in ("pyxis", "enroot"):
        return (_ENROOT,)
    if runtime == "charliecloud":
        return (charliecloud_file(registry),)
    return _JSON.get(runtime, ())


def added(runtime: str, old: bytes | None, new: RegistryLogin) -> bytes:
    """Return the file's new content. RequestError: the old one is not valid."""
    if runtime in ("pyxis", "enroot"):
        return _netrc((old or b"").decode(errors="surrogateescape"), new)
    if runtime == "charliecloud":
        return f"{new.user}\n{new.password}\n".encode()
    return _json(old, new)


def _json(old: bytes | None, new: RegistryLogin) -> bytes:
    try:
        check_json(old or b"")
        content: Any = json.loads(old) if old and old.strip() else {}
        logins = content.setdefault("auths", {})
        keeper = content.get("credHelpers", {}).get(new.registry) or content.get("credsStore")
        logins.items()
    except (ValueError, AttributeError) as exc:
        raise RequestError(
            "The container tool's file of logins on the cluster is not understood.",
            hint="Look at it, or move it away.",
        ) from exc
    if keeper:
        raise RequestError(
            "On the cluster logins are kept by a program of its own ({keeper}).",
            hint="Log in there, with the container tool itself.",
            keeper=keeper,
        )
    key = _HUB_KEY if new.registry == "docker.io" else new.registry
    token = base64.b64encode(f"{new.user}:{new.password}".encode()).decode()
    logins[key] = {"auth": token}
    return (json.dumps(content, indent=2) + "\n").encode()


def _netrc(old: str, new: RegistryLogin) -> bytes:
    if re.search(r"[\s`\\]|\$", new.password) or " " in new.user:
        # It expands what looks like shell in a password.
        raise RequestError("enroot takes no blanks, `$`, backquotes or backslashes in a password.")
    machines = {"docker.io": ("auth.docker.io",), NGC: (NGC, "authn.nvidia.com")}
    ours = machines.get(new.registry, (new.registry,))
    kept = [
        line
        for line in old.splitlines()
        if not any(re.match(rf"\s*machine\s+{re.escape(one)}(\s|$)", line) for one in ours)
    ]
    lines = [f"machine {one} login {new.user} password {new.password}" for one in ours]
    return ("\n".join([*kept, *lines]) + "\n").encode(errors="surrogateescape")
