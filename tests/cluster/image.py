"""The small image that `scripts/image` makes, for tests that run something in a container."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster.started import started

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def demo_image() -> Path:
    """A folder with Python, NumPy, Matplotlib and tqdm (no IPython), which Charliecloud runs.

    It is the demo's own, made once in the user's cache folder (about 10 s), and must not be
    changed. Its Python is the distribution's, so of the same version as the tests' own.
    """
    return started("The demo's image", made_image)


def made_image() -> Path:
    """For those who are no tests."""
    done = subprocess.run(
        [ROOT / "scripts" / "image"], stdout=subprocess.PIPE, text=True, check=True, timeout=280
    )
    return Path(done.stdout.removesuffix(os.linesep))


LEFT_OUT = (
    "usr/local/lib",
    "usr/share",
    "usr/lib/*/perl",
    "usr/lib/*/perl-base",
    "usr/lib/*/gconv",
)
"""Patterns of what a shell and Python do without."""


@pytest.fixture(scope="session")
def lean_image(demo_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of it a shell and Python alone, a quarter of its size: for tests that make images of it."""
    return lean_copy(demo_image, tmp_path_factory.mktemp("small") / "image")


def lean_copy(image: Path, folder: Path) -> Path:
    """The same of `image`, in a `folder` that is not there yet; that folder."""
    folder.mkdir()
    left_out = [f"--exclude=./{pattern}" for pattern in LEFT_OUT]
    with subprocess.Popen(
        ["tar", "-C", image, *left_out, "-c", "."], stdout=subprocess.PIPE
    ) as tar:
        subprocess.run(["tar", "-C", folder, "-x"], stdin=tar.stdout, check=True, timeout=280)
    assert tar.returncode == 0
    return folder
