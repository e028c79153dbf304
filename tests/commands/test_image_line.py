"""The line of `%%slurm_image`."""

from __future__ import annotations

import pytest

from jupyter_slurm.commands.arguments import read_arguments
from jupyter_slurm.commands.image_line import ImageRequest, parse_image
from jupyter_slurm.commands.packages_here import Here
from jupyter_slurm.commands.parsing import split
from jupyter_slurm.commands.submitting import IMAGE_CELL
from jupyter_slurm.errors import RequestError

_HERE = Here(("numpy==1.26",), (), (), "3.11")


def parsed(*words: str) -> ImageRequest:
    return parse_image(IMAGE_CELL, read_arguments(IMAGE_CELL, words, "notebook"))


def test_options_and_the_name_mix_in_any_order() -> None:
    line = "--from pytorch:22.11 -p gpu mine --time=30m --cluster far --rebuild --detach"
    request = parsed(*split(line))
    spec = request.build_spec("aaaaaaaa", "pip install x\n", None, "n.ipynb")
    assert (spec.name, spec.base, spec.cluster, spec.again) == (
        "mine",
        "pytorch:22.11",
        "far",
        True,
    )
    assert dict(spec.options) == {"partition": "gpu", "time": "00:30:00"}
    assert (spec.recipe, spec.notebook) == ("pip install x\n", "n.ipynb")
    assert request.request.detach


def test_build_uses_the_container_tool_and_options_from_slurm_use() -> None:
    args = read_arguments(IMAGE_CELL, ["mine"], "notebook")
    before = split("--runtime docker --partition gpu --gpus 1 --image other")
    spec = parse_image(IMAGE_CELL, args, before).build_spec("aaaaaaaa", "pip install x\n", None)
    assert (spec.runtime, dict(spec.options)) == ("docker", {"partition": "gpu"})


def test_env_from_here_option_adds_packages_before_the_recipe() -> None:
    request = parsed("mine", "--env-from-here")
    spec = request.build_spec("aaaaaaaa", "pip install x\n", _HERE)
    assert (spec.base, spec.recipe) == (
        "python:3.11-slim",
        "pip:\n  numpy==1.26\npip install x\n",
    )
    based = parsed("mine", "--env-from-here", "--from", "a")
    assert based.build_spec("aaaaaaaa", "", _HERE).base == "a"
    for text in ("#!/bin/sh\n", "FROM x\n", "Bootstrap: docker\n"):
        with pytest.raises(RequestError, match="--env-from-here"):
            request.build_spec("aaaaaaaa", text, _HERE)
