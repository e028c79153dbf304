"""What is said of a job before it is sent: what cannot be, by whose word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.jobs.preflight.costs import cost
from jupyter_slurm.jobs.preflight.limits import Judge
from jupyter_slurm.jobs.preflight.objection import Objection
from jupyter_slurm.jobs.preflight.partition_facts import Source
from jupyter_slurm.jobs.preflight.resources import resources_of
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.views.preview_text import cost_text
from jupyter_slurm.wire import ClusterInfo, Qos
from tests.jobs.judged import (
    ALL,
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
    ("words", "option"),
    [
        ("-p small --time 2h", "time"),
        ("-p small -N 2", "nodes"),
        ("-p long --gres gpu:3", "gpus"),
        ("-p small -c 25", "cpus-per-task"),
        ("-p small --mem 65G", "mem"),
        ("--qos norml", "qos"),
        ("--account deep", "account"),
    ],
)
def test_an_objection_says_which_option_it_is_about(words: str, option: str) -> None:
    assert only(objections_to(words)).check().option == option


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (
            "-p small --time 2h",
            "--time 02:00:00 is more than small allows: 1 h (the profile says).",
            "Ask for --time 01:00:00 or less, or take long.",
        ),
        (
            "-p small --time UNLIMITED",
            "--time UNLIMITED is more than small allows",
            "Ask for --time 01:00:00 or less. ",
        ),
        ("-p small -N 2", "2 nodes are more than small has for a job: 1", "Ask for 1 or less."),
        ("-p long --gres gpu:3", "3 GPUs are more than long has on a node: 2", "Ask for 2"),
        ("-p small -c 25", "25 CPUs are more than small has on a node: 24", "Ask for 24"),
        ("-p small --mem 65G", "65G of memory are more than small has on a node: 64.0 GiB", "Ask"),
        (
            "--qos norml",
            "There is no QOS `norml` for you (the profile says); did you mean `normal`?",
            "There are: normal, 1gpulong.",
        ),
        ("--account deep", "There is no account `deep` for you (the profile says); did", "deepfun"),
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


@pytest.mark.parametrize(
    "words",
    ["-p small --time 2h", "-p small -N 2", "-p long --gres gpu:3", "-p small -c 25", "--qos x"],
)
def test_what_only_a_template_says_is_a_warning(words: str) -> None:
    found = only(objections_to(words, TEMPLATE))
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


def test_several_partitions_that_all_will_not_do_are_objected_to() -> None:
    assert only(objections_to("-p small,long --gres gpu:3")).certain


def test_a_partition_that_only_the_profile_has_is_none_once_the_cluster_was_asked() -> None:
    found = only(objections_to("-p long", PROFILE, cluster_info()))
    assert str(found.sentence) == "There is no partition `long`."
    assert str(found.hint) == "Partitions: small."
    assert found.certain


def test_a_held_job_is_only_warned_of() -> None:
    assert not only(objections_to("-p small --time 2h --hold")).certain


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
        ("--qos nrmal", "There is no QOS `nrmal` for you; did you mean `normal`?"),
        ("-A phys", "There is no account `phys` for you; did you mean `physics`?"),
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


def test_the_type_of_a_gpu_is_told_apart_without_case() -> None:
    assert objections_to("--gres gpu:A100:1", BARE, cluster_info()) == []


def test_a_partition_without_gpus_names_those_with_some() -> None:
    info = cluster_info(
        partition("cpu", default=True, gpus=0, gpus_per_node=0, gpu_types=()), partition("gpu")
    )
    found = only(objections_to("--gres gpu:1", BARE, info))
    assert str(found.sentence) == "cpu has no GPUs."
    assert str(found.hint) == "Partitions with GPUs: gpu."


def test_a_hidden_partition_may_be_named() -> None:
    assert objections_to("-p secret", BARE, cluster_info(hidden=("secret",))) == []


def test_a_partition_that_is_down_makes_jobs_wait() -> None:
    found = only(objections_to("-p small", BARE, cluster_info(partition("small", up=False))))
    assert (str(found.sentence), found.certain) == ("The partition small is down.", False)


def test_a_partition_that_takes_only_some_qos_and_accounts() -> None:
    info = cluster_info(
        partition("small", default=True, allow_qos=("long",), allow_accounts=("chem",)),
        qos=("normal", "long"),
        accounts=("physics", "chem"),
    )
    assert [str(one.sentence) for one in objections_to("--qos normal -A physics", BARE, info)] == [
        "The partition does not take the QOS `normal`.",
        "The partition does not take the account `physics`.",
    ]
    assert objections_to("--qos long -A chem", BARE, info) == []


@given(
    st.lists(
        st.sampled_from(
            "-N=2 -n=9 -c=30 --mem=1T --mem=0 --gres=gpu:9 --gpus=a:3 --exclusive --time=9d "
            "--time=0 --partition=small --partition=x,small --qos=x --account=y --array=1-9".split()
        )
    ),
    st.sampled_from([PROFILE, TEMPLATE, BARE]),
    st.sampled_from([None, cluster_info(), cluster_info(enforced=())]),
)
def test_any_job_can_be_judged_and_priced(
    words: list[str], profile: ClusterProfile, info: ClusterInfo | None
) -> None:
    options = dict(word.lstrip("-").partition("=")[::2] for word in words)
    names = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task"}
    wanted = resources_of({names.get(name, name): value for name, value in options.items()})
    judge = Judge(profile, info)
    for found in judge.objections(wanted):
        assert str(found.sentence).endswith((".", "?"))
        assert found.hint
        assert not (found.certain and profile is TEMPLATE and info is None)
    price = cost(wanted, judge.partition(wanted), unit="UA")
    if price is not None:
        assert min(price.cpu_hours, price.gpu_hours, price.units or 0, price.node_hours or 0) >= 0
        assert cost_text(price).startswith("Up to ")


# --- QOS ------------------------------------------------------------------------------------------

SHORT = Qos(name="short", limit_s=1200, per_job={"gres/gpu": 1, "mem": 2048, "x": 0}, denies=True)


def of_qos(words: str, qos: Qos = SHORT, **changes: Any) -> list[Objection]:
    settings: dict[str, Any] = {"qos": ("normal", "short"), "enforced": (*ALL, "limits")}
    return objections_to(words, BARE, cluster_info(**{**settings, **changes, "qos_limits": (qos,)}))


def test_what_a_qos_allows_is_certain_where_it_denies() -> None:
    found = only(of_qos("--qos short --time 30m"))
    assert str(found.sentence) == "A job of the QOS `short` can run for 20 min."
    assert str(found.hint) == "Ask for --time 00:20:00 or less."
    assert found.certain
    assert str(only(of_qos("--qos short --gpus 2 --time 1")).sentence).endswith(
        "can have 1 GPU, not 2 GPUs."
    )
    assert str(only(of_qos("--qos short --mem 3G --time 1")).sentence).endswith(
        "2.0 GiB of memory, not 3.0 GiB of memory."
    )
    assert of_qos("--qos short --time 20m --gpus 1 --mem 2G") == []
    assert of_qos("--qos normal --time 30m --gpus 2") == []


def test_a_qos_that_does_not_deny_lets_jobs_wait_for_ever() -> None:
    lenient = Qos(name="short", limit_s=1200)
    found = only(of_qos("--qos short --time 30m", lenient))
    assert not found.certain
    assert str(found.hint).endswith("Else the job waits for ever.")
    assert not only(of_qos("--qos short --time 30m", enforced=ALL)).certain


def test_a_qos_lifts_the_limits_of_a_partition_but_not_the_number_of_its_nodes() -> None:
    wide = Qos(name="short", beyond=("time", "nodes"))
    here = partition("small", default=True, max_nodes=1)
    info = cluster_info(here, qos=("normal", "short"), qos_limits=(wide,))
    assert objections_to("--qos short --time 9d -N 2", BARE, info) == []
    assert len(objections_to("--qos normal --time 9d -N 2", BARE, info)) == 2
    assert only(objections_to("--qos short -N 3", BARE, info)).certain


def test_the_only_qos_of_a_person_is_that_of_their_jobs() -> None:
    assert len(of_qos("--time 30m", qos=SHORT)) == 0
    info = cluster_info(qos=("short",), qos_limits=(SHORT,))
    assert str(only(objections_to("--time 30m", BARE, info)).sentence).startswith(
        "A job of the QOS `short`"
    )
