"""PURE: the words after `%%slurm_image` (or `jupyter slurm image build`) -> an `ImageRequest`.

Those that a cell has too are `line.py`'s; what the recipe below them means is the cluster's matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from jupyter_slurm.commands.line import Request, parse
from jupyter_slurm.commands.packages_here import Here
from jupyter_slurm.commands.scanner import OURS, OurOption, scan
from jupyter_slurm.errors import RequestError
from jupyter_slurm.slurm import options as sbatch
from jupyter_slurm.wire import ImageSpec

OPTIONS: Mapping[str, OurOption] = MappingProxyType(
    {
        "from": OurOption("IMAGE", "the image to start from: an alias, a name or a path"),
        "env-from-here": OurOption("", "the packages that this Python has, beside the recipe's"),
        "rebuild": OurOption("", "make it anew even if nothing has changed"),
    }
)
_OF_CELLS = frozenset({"cluster", "runtime", "detach", "wait", "on-interrupt", "no-raise"})
_WHOLE = re.compile(r"#!|(?:from|arg|bootstrap:)\s", re.IGNORECASE)
_SHARED = ("partition", "account", "qos", "reservation", "constraint", "clusters")
"""Of the options that a notebook has for all cells, those that say where a job may run: an image
is made without their GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    name: str
    """The image's; the reference of one that is pulled."""
    file: str | None
    """Where the recipe is read, on a command line."""
    base: str | None
    env_from_here: bool
    again: bool
    request: Request
    """The rest: sbatch's options, the cluster, how to wait."""

    def build_spec(
        self, job_id: str, text: str, here: Here | None, notebook: str | None = None
    ) -> ImageSpec:
        """`here`: the packages for --env-from-here. RequestError: they and the recipe do not go
        together."""
        recipe, base = text, self.base
        if here is not None:
            if _WHOLE.match(text.lstrip()):
                raise RequestError(
                    "--env-from-here adds to lines of packages only.",
                    hint="Leave it off, or write the recipe as lines: `pip install …`.",
                )
            recipe, base = here.recipe() + text, self.base or here.base
        spec = self.pull_spec(job_id, notebook)
        return msgspec.structs.replace(spec, name=self.name, recipe=recipe, base=base)

    def pull_spec(self, job_id: str, notebook: str | None = None) -> ImageSpec:
        return ImageSpec(
            id=job_id,
            base=self.name,
            cluster=self.request.cluster,
            runtime=self.request.runtime,
            options=dict(self.request.options),
            again=self.again,
            notebook=notebook,
        )


def parse_image(
    words: Sequence[str], usage: str, *, defaults: Request | None = None, takes_file: bool = False
) -> ImageRequest:
    """One word is the name, and perhaps one a file, before or among the options; RequestError for
    what cannot be. `defaults` are the notebook's for all cells.
    """
    names: list[str] = []
    values: dict[str, str] = {}
    rest: list[str] = []
    for item in scan(words, OPTIONS):
        if item.name is not None and item.name in OPTIONS:
            values[item.name] = _value(item.name, item.value)
        elif item.words[0].startswith("-") and item.words[0] != "-":
            rest += item.words
        else:
            names += item.words
    if not names:
        raise RequestError("Which image?", hint=usage)
    if len(names) > 1 + takes_file:
        raise RequestError(f"`{names[-1]}` is one word too many.", hint=usage)
    _refuse(rest)
    told = [] if defaults is None else _defaults(defaults)
    return ImageRequest(
        name=names[0],
        file=names[1] if len(names) > 1 else None,
        base=values.get("from"),
        env_from_here="env-from-here" in values,
        again="rebuild" in values,
        request=parse([*told, *rest]),
    )


def _value(option: str, value: str | None) -> str:
    if not OPTIONS[option].metavar:
        if value is not None:
            raise RequestError(f"--{option} takes no value, not `{value}`.")
        return ""
    if not value:
        raise RequestError(f"--{option} needs a value: --{option} {OPTIONS[option].metavar}.")
    return value


def _refuse(words: Sequence[str]) -> None:
    for item in scan(words):
        if item.name in OURS and item.name not in _OF_CELLS:
            hint = "Say --from IMAGE for what it is made of." if item.name == "image" else None
            told = f"--{item.name} belongs to cells, not to the making of images."
            raise RequestError(told, hint=hint)


def _defaults(request: Request) -> list[str]:
    words = ["--cluster", request.cluster] if request.cluster else []
    kept = {name: value for name, value in request.options.items() if name in _SHARED}
    return [*words, *sbatch.sbatch_args(kept)]


def removed(name: str, nodes: Sequence[str]) -> str:
    """Say that an image was removed, and on which nodes an engine still holds it."""
    if not nodes:
        return f"{name}: removed"
    return (
        f"{name}: removed. Docker (or Podman) on {', '.join(nodes)} still holds it; the next job "
        "there in another image that was built or pulled here removes it."
    )
