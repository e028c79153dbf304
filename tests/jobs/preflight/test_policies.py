"""What QOS and associations allow a job, and what makes it wait."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.wire import Association, InUse, Qos
from tests.jobs.judged import ALL, BARE, cluster_info, objections_to, only

MINE = Association(account="physics", qos=("normal", "gpu"), default=True)


def judged(words: str, *qos: Qos, **changes: Any) -> list[Objection]:
    """By a cluster that enforces limits, for a user of one account."""
    settings: dict[str, Any] = {
        "qos": ("normal", "gpu"),
        "accounts": ("physics",),
        "associations": (MINE,),
        "enforced": (*ALL, "limits"),
        "qos_limits": qos or (Qos(name="normal"),),
    }
    return objections_to(words, BARE, cluster_info(**{**settings, **changes}))


def using(**changes: Any) -> tuple[InUse, ...]:
    settings: dict[str, Any] = {"qos": "gpu", "account": "physics", "partition": "small"}
    return (InUse(**{**settings, **changes}),)


# --- what one job alone is too much for ----------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "words", "sentence"),
    [
        ({"per_job": {"cpu": 4}}, "-c 5", "A job of the QOS `gpu` can have 4 CPUs, not 5 CPUs."),
        ({"per_user": {"gres/gpu": 1}}, "--gpus 2", "A job of the QOS `gpu` can have 1 GPU, not 2"),
        ({"limit_s": 60}, "--time 2", "A job of the QOS `gpu` can run for 1 min."),
    ],
)
def test_what_one_job_is_too_much_for_is_refused_or_waits_for_ever(
    limits: dict[str, Any], words: str, sentence: str
) -> None:
    words = f"--qos gpu {words}"
    found = only(judged(words, Qos(name="gpu", denies=True, **limits)))
    assert sentence in str(found.sentence)
    assert (found.certain, found.passing) == (True, False)
    lenient = only(judged(words, Qos(name="gpu", **limits)))
    assert not lenient.certain
    assert str(lenient.hint).endswith("Otherwise the job waits forever.")
    assert not only(judged(f"{words} --hold", Qos(name="gpu", denies=True, **limits))).certain


# --- what only makes it wait ----------------------------------------------------------------------


def test_what_one_uses_already_makes_a_job_wait() -> None:
    gpu = Qos(name="gpu", per_user={"gres/gpu": 2})
    used = using(jobs=2, queued=2, tres={"gres/gpu": 2, "cpu": 9})
    found = only(judged("--qos gpu --gpus 1", gpu, in_use=used))
    assert (
        str(found.sentence)
        == "It will wait: the QOS `gpu` allows 2 GPUs a user, and you use 2 GPUs."
    )
    assert (found.certain, found.passing) == (False, True)
    assert judged("--qos gpu", gpu, in_use=used) == []
    assert judged("--qos gpu --gpus 1", gpu, in_use=using(tres={"gres/gpu": 1})) == []
    assert judged("--gpus 1", gpu, Qos(name="normal"), in_use=used) == []
    assert judged("--qos gpu --gpus 1", gpu, in_use=used, enforced=ALL) == []
    alone = only(judged("--qos gpu --gpus 3", gpu, in_use=used))
    assert "can have 2 GPUs, not 3" in str(alone.sentence)
