"""Recorded output of several Slurm releases (tests/recorded)."""

import json
from functools import cache
from pathlib import Path

from jupyter_slurm.slurm import squeue
from jupyter_slurm.slurm.fields import FIELD_END, RECORD_END

_ROOT = Path(__file__).parents[1] / "recorded"

RELEASES = sorted(folder.name for folder in _ROOT.glob("[0-9]*"))

_OF_SQUEUE = tuple(
    "slurm_id raw_id array_job_id array_task_id state user reason partition qos account node_count "
    "nodelist batch_host start end submit elapsed left limit priority dependency gres name "
    "comment".split()
)
"""The columns of squeue_*.txt."""


def output(release: str, name: str) -> bytes:
    """Return the command's output. Fields that the recording lacks are not set."""
    printed = (_ROOT / release / f"{name}.txt").read_bytes()
    return _as_asked_now(printed) if name.startswith("squeue_") else printed


def _as_asked_now(printed: bytes) -> bytes:
    # ISO 8859-1 decodes every byte, and job names may contain any.
    *records, rest = printed.decode("iso-8859-1").split(RECORD_END)
    for at, record in enumerate(records):
        values = record.removeprefix("\n").split(FIELD_END, len(_OF_SQUEUE) - 1)
        told = dict(zip(_OF_SQUEUE, values, strict=True))
        begin = "\n" if record.startswith("\n") else ""
        records[at] = begin + FIELD_END.join(told.get(name, "(null)") for name in squeue._FIELDS)
    return RECORD_END.join((*records, rest)).encode("iso-8859-1")


def stderr(release: str, name: str) -> str:
    return (_ROOT / release / f"{name}.err").read_text()


def refusals(release: str) -> list[str]:
    """Return the names of the submissions that sbatch refused."""
    return sorted(
        path.stem
        for path in (_ROOT / release).glob("sbatch_*.err")
        if path.stem != "sbatch_test_only"
    )


@cache
def job_id(release: str, case: str) -> str:
    ids: dict[str, str] = json.loads((_ROOT / release / "ids.json").read_text())
    return ids[case]
