"""Reads what Slurm of several releases printed (tests/recorded)."""

import json
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1] / "recorded"

RELEASES = sorted(folder.name for folder in _ROOT.glob("[0-9]*"))


def output(release: str, name: str) -> bytes:
    return (_ROOT / release / f"{name}.txt").read_bytes()


def stderr(release: str, name: str) -> str:
    return (_ROOT / release / f"{name}.err").read_text()


def refusals(release: str) -> list[str]:
    """The names of the submissions that sbatch refused."""
    return sorted(
        path.stem
        for path in (_ROOT / release).glob("sbatch_*.err")
        if path.stem != "sbatch_test_only"
    )


@cache
def job_id(release: str, case: str) -> str:
    ids: dict[str, str] = json.loads((_ROOT / release / "ids.json").read_text())
    return ids[case]
