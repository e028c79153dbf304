"""Canonical names of images."""

from __future__ import annotations

import pytest

from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.errors import RequestError


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("pytorch:22.11", "nvcr.io/nvidia/pytorch:22.11-py3"),
        ("tensorflow:22.02", "nvcr.io/nvidia/tensorflow:22.02-tf2-py3"),
        ("tritonserver:22.11-py3-sdk", "nvcr.io/nvidia/tritonserver:22.11-py3-sdk"),
        ("cuda:11.8.0-devel-ubuntu22.04", "nvcr.io/nvidia/cuda:11.8.0-devel-ubuntu22.04"),
        ("rapidsai/base:23.10", "nvcr.io/nvidia/rapidsai/base:23.10"),
        ("pytorch:2.1.0-cuda12.1", "docker.io/pytorch/pytorch:2.1.0-cuda12.1"),
        ("ubuntu:20.04", "docker.io/library/ubuntu:20.04"),
        ("docker://ubuntu:20.04", "docker.io/library/ubuntu:20.04"),
        ("continuumio/miniconda3", "docker.io/continuumio/miniconda3:latest"),
        ("nvcr.io/nvidia/pytorch:22.11-py3", "nvcr.io/nvidia/pytorch:22.11-py3"),
        ("nvcr.io#nvidia/pytorch:22.11-py3", "nvcr.io/nvidia/pytorch:22.11-py3"),
        ("localhost:5000/mine:1", "localhost:5000/mine:1"),
        (f"ubuntu@sha256:{'0' * 64}", f"docker.io/library/ubuntu@sha256:{'0' * 64}"),
        (f"quay.io/a/b:1@sha256:{'a' * 64}", f"quay.io/a/b:1@sha256:{'a' * 64}"),
    ],
)
def test_short_names_are_completed(text: str, whole: str) -> None:
    assert str(parse_reference(text)) == whole
    assert str(parse_reference(whole)) == whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "Ubuntu:20.04",
        "ubuntu:a b",
        "-it",
        "a@sha256:1",
        "a//b",
        "é",
    ],
)
def test_invalid_references_are_rejected(text: str) -> None:
    with pytest.raises(RequestError, match="not an image name"):
        parse_reference(text)
