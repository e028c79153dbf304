"""What is said of a job before it is sent: what cannot be, by whose word."""

from __future__ import annotations

import pytest

from jupyter_slurm.jobs.preflight.partition_facts import Source
from tests.jobs.judged import (
    BARE,
    PROFILE,
    TEMPLATE,
    cluster_info,
    objections_to,
    only,
    partition,
)

# --- refused, warned of, let through ------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (
            "-p small --time 2h",
            "--time 02:00:00 is more than small allows: 1 h (the profile says).",
            "Ask for --time 01:00:00 or less, or use long.",
        ),
        ("-p small -N 2", "2 nodes are more than small has for a job: 1", "Ask for 1 or less."),
        (
            "--qos norml",
            "You have no QOS `norml` (the profile says); did you mean `normal`?",
            "There are: normal, 1gpulong.",
        ),
    ],
)
def test_what_the_persons_own_profile_rules_out_is_certain(
    words: str, sentence: str, hint: str
) -> None:
    found = only(objections_to(words))
    assert sentence in str(found.sentence)
    assert hint in str(found.hint)
    assert "change it in /etc/clusters.toml" in str(found.hint)
    assert (found.certain, found.by) == (True, Source.PROFILE)


def test_what_only_a_template_says_is_a_warning() -> None:
    found = only(objections_to("-p small --time 2h", TEMPLATE))
    assert not found.certain
    assert "(the template says)" in str(found.sentence)
    assert found.check().ok is None


@pytest.mark.parametrize(
    "words",
    [
        "",
        "-p small --time 1h",
        "-p small",
        "-p long --time 31d -N 100",
        "-p small --mem 0",
        "-p small --gpus 8",
        "--time 99d",
        "--qos 1gpulong -A deepfun",
        "-p small,long --time 2h",
    ],
)
def test_what_may_be_is_not_objected_to(words: str) -> None:
    assert objections_to(words) == []


def test_a_profile_need_not_name_every_partition() -> None:
    found = only(objections_to("-p smal"))
    assert str(found.sentence) == "There is no partition `smal`; did you mean `small`?"
    assert str(found.hint) == "Partitions: small, long."
    assert not found.certain


def test_a_partition_that_only_the_profile_has_is_none_once_the_cluster_was_asked() -> None:
    found = only(objections_to("-p long", PROFILE, cluster_info()))
    assert str(found.sentence) == "There is no partition `long`."
    assert str(found.hint) == "Partitions: small."
    assert found.certain


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert objections_to("-p gpu --time 99d --gres gpu:99 --qos x -A y", BARE) == []


# --- what the cluster says --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("-p small --time 2h", "--time 02:00:00 is more than small allows: 1 h."),
        ("--time 2h", "--time 02:00:00 is more than small allows: 1 h."),
        ("-N 3", "3 nodes are more than small has for a job: 2."),
        ("--gres gpu:5", "5 GPUs are more than small has on a node: 4."),
        ("--gpus 9", "9 GPUs are more than small has in all: 8."),
        ("--gpus a1000:1", "small has no GPU of the type `a1000`; did you mean `a100`?"),
        ("-c 9", "9 CPUs are more than small has on a node: 8."),
        ("--mem 17G", "17G of memory are more than small has on a node: 16.0 GiB."),
        ("-p smal", "There is no partition `smal`; did you mean `small`?"),
        ("--qos nrmal", "You have no QOS `nrmal`; did you mean `normal`?"),
        ("-A phys", "You have no account `phys`; did you mean `physics`?"),
    ],
)
def test_what_the_cluster_refuses_is_certain_where_it_enforces_it(
    words: str, sentence: str
) -> None:
    known = {"qos": ("normal",), "accounts": ("physics",)}
    found = only(objections_to(words, BARE, cluster_info(**known)))
    assert str(found.sentence) == sentence
    assert (found.certain, found.by) == (True, Source.CLUSTER)
    assert not only(objections_to(words, BARE, cluster_info(enforced=(), **known))).certain


def test_the_cluster_knows_better_than_the_profile() -> None:
    info = cluster_info(
        partition(
            "small", limit_s=None, cpus=128, memory_mib=10**6, gpus_per_node=16, gpus=144, nodes=9
        )
    )
    words = "-p small --time 9d -N 5 --gres gpu:9 -c 100 --mem 100G"
    assert len(objections_to(words)) == 5
    assert objections_to(words, PROFILE, info) == []


def test_a_partition_without_gpus_names_those_with_some() -> None:
    info = cluster_info(
        partition("cpu", default=True, gpus=0, gpus_per_node=0, gpu_types=()), partition("gpu")
    )
    found = only(objections_to("--gres gpu:1", BARE, info))
    assert str(found.sentence) == "cpu has no GPUs."
    assert str(found.hint) == "Partitions with GPUs: gpu."


def test_a_partition_that_is_down_makes_jobs_wait() -> None:
    found = only(objections_to("-p small", BARE, cluster_info(partition("small", up=False))))
    assert (str(found.sentence), found.certain) == ("The partition small is down.", False)
