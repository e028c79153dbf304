"""What QOS and associations allow a job, and what makes it wait."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.wire import Association, InUse, Qos
from tests.jobs.judged import ALL, BARE, cluster_info, objections_to, only, partition

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
        ({"in_all": {"node": 1}}, "-N 2", "A job of the QOS `gpu` can have 1 node, not 2 nodes."),
        (
            {"per_job": {"gres/gpu": 3}, "in_all": {"gres/gpu": 2}},
            "--gpus 4",
            "A job of the QOS `gpu` can have 2 GPUs, not 4 GPUs.",
        ),
        (
            {"in_all": {"gres/gpu:a100": 1}},
            "--gpus a100:2",
            "A job of the QOS `gpu` can have 1 GPU of the type a100, not 2 GPUs of the type a100.",
        ),
        ({"in_all": {"mem": 1024}}, "--mem 2G", "can have 1.0 GiB of memory, not 2.0 GiB of mem"),
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
    assert str(lenient.hint).endswith("Else the job waits for ever.")
    assert not only(judged(f"{words} --hold", Qos(name="gpu", denies=True, **limits))).certain


def test_of_two_limits_that_are_alike_one_is_named() -> None:
    gpu = Qos(name="gpu", per_job={"cpu": 4}, per_user={"cpu": 4})
    found = only(judged("--qos gpu -c 5", gpu))
    assert str(found.sentence) == "A job of the QOS `gpu` can have 4 CPUs, not 5 CPUs."


def test_the_limits_of_ones_own_association_and_of_its_account() -> None:
    mine = Association(
        account="physics", qos=("normal",), per_job={"cpu": 2}, in_all={"gres/gpu": 2}
    )
    whole = Association(account="physics", whole=True, in_all={"gres/gpu": 3, "node": 1})
    (found,) = judged("--gpus 3", associations=(mine, whole))
    assert str(found.sentence) == "A job of your account `physics` can have 2 GPUs, not 3 GPUs."
    (found,) = judged("-c 3", associations=(mine, whole))
    assert str(found.sentence) == "A job of your account `physics` can have 2 CPUs, not 3 CPUs."
    assert not found.certain
    (found,) = judged("-N 2", associations=(mine, whole))
    assert str(found.sentence) == "A job of the account `physics` can have 1 node, not 2 nodes."


def test_a_limit_of_the_qos_takes_the_place_of_the_associations() -> None:
    mine = Association(account="physics", qos=("gpu",), per_job={"cpu": 2}, limit_s=60)
    generous = Qos(name="gpu", per_job={"cpu": 6}, limit_s=3600)
    assert judged("-c 5 --time 30", generous, associations=(mine,)) == []
    assert len(judged("-c 7 --time 61", generous, associations=(mine,), qos=("gpu",))) == 3


def test_the_qos_of_the_partition_comes_first_unless_the_jobs_own_says_otherwise() -> None:
    here = partition("small", default=True, qos="room")
    room = Qos(name="room", per_job={"gres/gpu": 1})
    found = only(judged("--qos gpu --gpus 3", room, Qos(name="gpu"), partitions=(here,)))
    assert str(found.sentence) == "A job of the QOS `room` of small can have 1 GPU, not 3 GPUs."
    gpu = Qos(name="gpu", per_job={"gres/gpu": 2}, denies=True)
    assert only(judged("--qos gpu --gpus 3", room, gpu, partitions=(here,))).certain
    over = Qos(name="gpu", per_job={"gres/gpu": 4}, over_partition=True)
    assert judged("--qos gpu --gpus 3", room, over, partitions=(here,)) == []
    assert only(judged("--qos room --gpus 3", room, partitions=(here,), qos=("room",)))


@pytest.mark.parametrize(
    ("associations", "words", "objected"),
    [
        ((MINE,), "", False),
        ((Association(account="a", qos=("gpu",)),), "", True),
        ((Association(account="a", qos=("gpu", "x"), default_qos="gpu"),), "", True),
        ((Association(account="a", qos=("gpu",)), Association(account="b")), "", False),
        ((Association(account="a", qos=("gpu",)), Association(account="b")), "-A a", True),
        ((Association(account="a", qos=("gpu",), default=True), MINE), "-A physics", False),
        ((MINE, Association(account="physics", partition="small", qos=("gpu",))), "", True),
        ((MINE, Association(account="physics", partition="other", qos=("gpu",))), "", False),
        ((), "", False),
        ((), "--qos gpu", True),
    ],
)
def test_the_qos_that_a_job_has_without_naming_one(
    associations: tuple[Association, ...], words: str, objected: bool
) -> None:
    gpu = Qos(name="gpu", per_job={"cpu": 1})
    accounts = tuple(one.account for one in associations)
    found = judged(f"-c 2 {words}", gpu, associations=associations, accounts=accounts)
    assert bool(found) == objected


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


def test_the_room_of_a_partition_counts_the_jobs_in_it() -> None:
    here = partition("small", default=True, qos="room")
    room = Qos(name="room", in_all={"cpu": 8})
    found = only(
        judged("-c 4", room, partitions=(here,), in_use=using(qos="normal", tres={"cpu": 5}))
    )
    assert str(found.sentence) == (
        "It will wait: the QOS `room` of small allows 8 CPUs in all, and you use 5 CPUs."
    )


def test_running_jobs_that_are_as_many_as_may_be() -> None:
    gpu = Qos(name="gpu", jobs_per_user=2)
    found = only(judged("--qos gpu", gpu, in_use=using(jobs=2, queued=5)))
    assert str(found.sentence) == (
        "It will wait: the QOS `gpu` allows 2 running jobs of a user, and you have 2."
    )
    assert judged("--qos gpu", gpu, in_use=using(jobs=1, queued=5)) == []
    mine = Association(account="physics", qos=("normal",), jobs_in_all=1)
    found = only(judged("", associations=(mine,), in_use=using(jobs=1)))
    assert "your account `physics` allows 1 running job in all, and you have 1." in str(
        found.sentence
    )


def test_a_queue_that_takes_no_more_and_an_array_that_never_fits() -> None:
    gpu = Qos(name="gpu", queued_per_user=3)
    full = only(judged("--qos gpu", gpu, in_use=using(queued=3)))
    assert str(full.sentence) == (
        "The QOS `gpu` lets 3 jobs of a user be in the queue, and you have 3."
    )
    assert (full.certain, full.passing) == (False, True)
    never = only(judged("--qos gpu --array 1-4", gpu))
    assert str(never.sentence) == "The QOS `gpu` lets 3 jobs of a user be in the queue."
    assert (never.certain, never.passing) == (True, False)
    assert judged("--qos gpu --array 1-3", gpu) == []
