"""The small image that `scripts/image` makes, for tests that run something in a container."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def demo_image() -> Path:
    """A folder with Python, NumPy, Matplotlib and tqdm (no IPython), which Charliecloud runs.

    It is the demo's own, made once in the user's cache folder (about 10 s), and must not be
    changed. Its Python is the distribution's, so of the same version as the tests' own.
    """
    return made_image()


def made_image() -> Path:
    """For those who are no tests."""
    done = subprocess.run(
        [ROOT / "scripts" / "image"], stdout=subprocess.PIPE, text=True, check=True, timeout=280
    )
    return Path(done.stdout.removesuffix(os.linesep))
