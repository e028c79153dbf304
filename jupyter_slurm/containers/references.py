"""The parser of registry images' names, in the form of any container tool. No I/O.

Short names of NVIDIA's frameworks with a month as tag (`pytorch:22.11`) refer to NGC. All other
names without a registry refer to Docker Hub, as in Docker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from jupyter_slurm.errors import RequestError

HUB = "docker.io"
NGC = "nvcr.io"

_MONTH = re.compile(r"(?P<month>[0-9]{2}\.[0-9]{2})(?P<rest>-.*)?")
_FRAMEWORKS = {
    "pytorch": "-py3",
    "tensorflow": "-tf2-py3",
    "jax": "-py3",
    "mxnet": "-py3",
    "paddlepaddle": "-py3",
    "tensorrt": "-py3",
    "tritonserver": "-py3",
    "nemo": "",
}
"""NGC's repositories below `nvidia/`, and the suffixes of their monthly tags."""
_PUBLISHERS = {"pytorch": "pytorch/pytorch", "tensorflow": "tensorflow/tensorflow"}
"""Short names for Docker Hub images outside `library/`."""
_FROM_NVIDIA = re.compile(r"(?:cuda|rapidsai/.+)")

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-f]{32,}")
_REGISTRY = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Reference:
    """`registry/repository:tag`, or with a digest (`sha256:…`) in addition to or instead of the
    tag."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None = None

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{self.version}"

    @property
    def version(self) -> str:
        """Return `:tag`, `@digest`, or both."""
        return (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse_reference(text: str) -> Reference:
    """Parse an image's name in the form of Docker, Apptainer (`docker://…`) or enroot
    (`registry#repository`), with or without a registry. Raise RequestError if `text` is not an
    image name."""
    name = text.removeprefix("docker://")
    name, _, digest = name.partition("@")
    registry, name = _registry(name)
    name, colon, tag = name.partition(":")
    good = (
        _REPOSITORY.fullmatch(name)
        and (not colon or _TAG.fullmatch(tag))
        and (not digest or _DIGEST.fullmatch(digest))
        and not text.endswith("@")
    )
    if not good:
        raise RequestError(
            f"{text!r} is not an image name.",
            hint="Use NAME:TAG, REGISTRY/NAME:TAG, or an absolute path on the cluster.",
            option="image",
        )
    if registry is None:
        registry, name, tag = _short(name, tag)
    return Reference(registry, name, tag or (None if digest else "latest"), digest or None)


def _registry(name: str) -> tuple[str | None, str]:
    """Split off the registry as Docker does. The first part is the registry if it has a dot or a
    port, or is localhost."""
    if "#" in name:
        registry, _, rest = name.partition("#")
        return (registry, rest) if _REGISTRY.fullmatch(registry) else (None, name)
    first, slash, rest = name.partition("/")
    if slash and _REGISTRY.fullmatch(first) and (set(first) & {".", ":"} or first == "localhost"):
        return first, _official(rest) if first == HUB else rest
    return None, name


def _short(name: str, tag: str) -> tuple[str, str, str]:
    """Return registry, repository and tag of a name without a registry."""
    month = _MONTH.fullmatch(tag)
    if name in _FRAMEWORKS and month:
        return NGC, f"nvidia/{name}", tag if tag.endswith("-py3") else _ngc_tag(name, month)
    if _FROM_NVIDIA.fullmatch(name):
        return NGC, f"nvidia/{name}", tag
    return HUB, _official(_PUBLISHERS.get(name, name)), tag


def _ngc_tag(name: str, month: re.Match[str]) -> str:
    rest = month["rest"]
    if rest is None:
        return month["month"] + _FRAMEWORKS[name]
    # `tensorflow:20.12-tf1`: add the Python part that the user omitted.
    return f"{month[0]}-py3" if rest in {"-tf1", "-tf2"} else month[0]


def _official(name: str) -> str:
    return name if "/" in name else f"library/{name}"
