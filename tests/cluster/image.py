"""The small image that `scripts/image` builds, for tests with containers."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.started import started

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def demo_image() -> Path:
    """A folder with Python, NumPy, Matplotlib and tqdm (no IPython) for Charliecloud.

    It is the demo's image, built once in the user's cache (about 10 s). Do not change it. Its
    Python is the distribution's, with the same version as the tests' own.
    """
    return started("The demo's image", made_image)


def made_image() -> Path:
    """Return the image, for callers other than tests."""
    done = subprocess.run(
        [ROOT / "scripts" / "image"], stdout=subprocess.PIPE, text=True, check=True, timeout=280
    )
    return Path(done.stdout.removesuffix(os.linesep))


@pytest.fixture(scope="session")
def engines_python() -> Path:
    """A Python with Ray and Dask, installed once in the user's cache."""
    return started("A Python with Ray and Dask", made_engines_python)


@pytest.fixture(scope="session")
def tensorflow_python() -> Path:
    """A Python with TensorFlow for CPUs, installed once in the user's cache."""
    return started("A Python with TensorFlow", lambda: made_engines_python("tensorflow"))


def made_engines_python(name: str = "engines") -> Path:
    words = [str(ROOT / "scripts" / "engines"), name]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=280)
    return Path(done.stdout.removesuffix(os.linesep))


_LEFT_OUT = (
    "usr/share",
    "usr/bin/*perl*",
    "usr/lib/*/perl",
    "usr/lib/*/perl-base",
    "usr/lib/*/libperl.*",
    "usr/lib/*/libdb-*",
    "usr/lib/*/gconv",
    "usr/lib/python3*/ensurepip",
    "usr/lib/python3*/idlelib",
    "usr/lib/python3*/lib2to3",
    "usr/lib/python3*/pydoc_data",
    "usr/lib/python3*/test",
)
"""Patterns of files that a shell and Python do not need; `*` also matches folders."""
_OF_PACKAGES = (
    "usr/local/lib/*.pyi",
    "usr/local/lib/*/f2py",
    "usr/local/lib/*/fontTools/*.so",
    "usr/local/lib/*/fontTools/*/__pycache__",
    "usr/local/lib/*/sample_data",
    "usr/local/lib/*/tests",
    "usr/local/lib/*/tzdata",
)
"""Patterns of files that NumPy and Matplotlib's figures do not need."""
_OF_PYTHON = (
    "usr/bin/*python3*",
    "usr/lib/python3*",
    "usr/lib/*/libgssapi*",
    "usr/lib/*/libkrb5*",
    "usr/lib/*/libmvec.*",
    "usr/lib/*/libsqlite3.*",
    "usr/lib/*/libssl.*",
    "usr/lib/*/libstdc++.*",
)
"""Patterns of files that a shell does not need."""


@pytest.fixture(scope="session")
def lean_image(demo_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep only a shell and Python, a sixth of the image, for tests that build images."""
    return lean_copy(demo_image, tmp_path_factory.mktemp("lean") / "image")


@pytest.fixture(scope="session")
def shell_image(lean_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Remove Python, too. Tests without cells pack and copy the result quickly."""
    return _copied(lean_image, tmp_path_factory.mktemp("shell") / "image", _OF_PYTHON)


_CH_IMAGE = """#!/bin/sh
# The real ch-image, after an import of the image that it would otherwise pull.
[ "$1" != build ] || /usr/bin/ch-image import {image} {name} || exit
exec /usr/bin/ch-image "$@"
"""


def ch_image_with(folder: Path, name: str, image: Path) -> Path:
    """Write a `ch-image` to `folder` that knows the folder `image` as the image `name`, and return
    its path. FROM in a Dockerfile cannot name a folder, and no registry is reachable."""
    program = folder / "ch-image"
    program.write_text(_CH_IMAGE.format(image=shlex.quote(str(image)), name=shlex.quote(name)))
    program.chmod(0o755)
    return program


def lean_copy(image: Path, folder: Path) -> Path:
    """Copy a shell and Python of `image` to a new `folder`, and return it."""
    return _copied(image, folder, ("usr/local/lib", *_LEFT_OUT))


def shell_copy(image: Path, folder: Path) -> Path:
    """Copy only the shell."""
    return _copied(image, folder, ("usr/local/lib", *_LEFT_OUT, *_OF_PYTHON))


def plain_copy(image: Path, folder: Path) -> Path:
    """Copy the packages, too: half of the image's size, and a third of its files."""
    return _copied(image, folder, (*_LEFT_OUT, *_OF_PACKAGES))


def _copied(image: Path, folder: Path, without: Sequence[str]) -> Path:
    folder.mkdir()
    left_out = [f"--exclude=./{pattern}" for pattern in without]
    with subprocess.Popen(
        ["tar", "-C", image, *left_out, "-c", "."], stdout=subprocess.PIPE
    ) as tar:
        subprocess.run(["tar", "-C", folder, "-x"], stdin=tar.stdout, check=True, timeout=280)
    assert tar.returncode == 0
    return folder
