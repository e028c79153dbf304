"""What is said of a job before it is sent: limits, prices, what it would meet."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.jobs.asked import Asked, asked
from jupyter_slurm.jobs.costs import cost, limit_s, outlook
from jupyter_slurm.jobs.known import Figure, KnownPartition, Source, differences, known_partitions
from jupyter_slurm.jobs.limits import Judge, Objection
from jupyter_slurm.preview_text import cost_text
from jupyter_slurm.profiles import ClusterProfile, PartitionLimits
from jupyter_slurm.slurm.options import parse_options
from jupyter_slurm.wire import Check, ClusterInfo, Cost, Partition, Qos, Reservation

SMALL = PartitionLimits(limit="1h", nodes=1, cpus=24, memory_mib=65536, gpus=2, gpu="K40", cost=36)
LONG = PartitionLimits(limit="31d", cpus=24, gpus=2, cost=36, exclusive=True)
PROFILE = ClusterProfile(
    name="sd",
    partitions={"small": SMALL, "long": LONG},
    qos=("normal", "1gpulong"),
    accounts=("deepfun",),
    cost_unit="UA",
    origin="/etc/clusters.toml",
)
TEMPLATE = ClusterProfile(
    name="sd",
    partitions={"small": SMALL, "long": LONG},
    qos=("normal", "1gpulong"),
    by_template=frozenset(
        {(name, key) for name in ("small", "long") for key in ("limit", "nodes", "cpus", "gpus")}
        | {("small", "memory_mib"), ("", "qos")}
    ),
    origin="/etc/clusters.toml",
)
BARE = ClusterProfile(name="bare")
ALL = ("requests", "partitions", "associations", "qos")
NOW_S = 1_800_000_000.0


def partition(name: str, **changes: Any) -> Partition:
    settings: dict[str, Any] = {
        "default": False,
        "up": True,
        "limit_s": 3600,
        "nodes": 2,
        "idle_nodes": 1,
        "gpu_types": ("a100",),
        "gpus": 8,
        "free_gpus": 3,
        "cpus": 8,
        "memory_mib": 16384,
        "gpus_per_node": 4,
    }
    return Partition(name=name, **{**settings, **changes})


def told(*partitions: Partition, **changes: Any) -> ClusterInfo:
    settings: dict[str, Any] = {
        "name": "sd",
        "slurm_version": "22.05.8",
        "partitions": partitions or (partition("small", default=True),),
        "accounting": True,
        "enforced": ALL,
        "asked_s": NOW_S,
    }
    return ClusterInfo(**{**settings, **changes})


def job(words: str) -> Asked:
    return asked(parse_options(words.split()))


def said(
    words: str, profile: ClusterProfile = PROFILE, info: ClusterInfo | None = None
) -> list[Objection]:
    return Judge(profile, info).objections(job(words))


def only(found: list[Objection]) -> Objection:
    assert len(found) == 1, found
    return found[0]


# --- refused, warned of, let through ------------------------------------------------------------


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
    found = only(said(words))
    assert sentence in found.sentence
    assert hint in found.hint
    assert "change it in /etc/clusters.toml" in found.hint
    assert (found.certain, found.by) == (True, Source.PROFILE)


@pytest.mark.parametrize(
    "words",
    ["-p small --time 2h", "-p small -N 2", "-p long --gres gpu:3", "-p small -c 25", "--qos x"],
)
def test_what_only_a_template_says_is_a_warning(words: str) -> None:
    found = only(said(words, TEMPLATE))
    assert not found.certain
    assert "(the template says)" in found.sentence
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
    assert said(words) == []


def test_a_profile_need_not_name_every_partition() -> None:
    found = only(said("-p smal"))
    assert found.sentence == "There is no partition `smal`; did you mean `small`?"
    assert found.hint == "Partitions: small, long."
    assert not found.certain


def test_several_partitions_that_all_will_not_do_are_objected_to() -> None:
    assert only(said("-p small,long --gres gpu:3")).certain


def test_a_partition_that_only_the_profile_has_is_none_once_the_cluster_was_asked() -> None:
    found = only(said("-p long", PROFILE, told()))
    assert found.sentence == "There is no partition `long`."
    assert found.hint == "Partitions: small."
    assert found.certain


def test_a_held_job_is_only_warned_of() -> None:
    assert not only(said("-p small --time 2h --hold")).certain


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert said("-p gpu --time 99d --gres gpu:99 --qos x -A y", BARE) == []


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
    found = only(said(words, BARE, told(**known)))
    assert found.sentence == sentence
    assert (found.certain, found.by) == (True, Source.CLUSTER)
    assert not only(said(words, BARE, told(enforced=(), **known))).certain


def test_the_cluster_knows_better_than_the_profile() -> None:
    info = told(
        partition(
            "small", limit_s=None, cpus=128, memory_mib=10**6, gpus_per_node=16, gpus=144, nodes=9
        )
    )
    words = "-p small --time 9d -N 5 --gres gpu:9 -c 100 --mem 100G"
    assert len(said(words)) == 5
    assert said(words, PROFILE, info) == []


def test_the_type_of_a_gpu_is_told_apart_without_case() -> None:
    assert said("--gres gpu:A100:1", BARE, told()) == []


def test_a_partition_without_gpus_names_those_with_some() -> None:
    info = told(
        partition("cpu", default=True, gpus=0, gpus_per_node=0, gpu_types=()), partition("gpu")
    )
    found = only(said("--gres gpu:1", BARE, info))
    assert found.sentence == "cpu has no GPUs."
    assert found.hint == "Partitions with GPUs: gpu."


def test_a_hidden_partition_may_be_named() -> None:
    assert said("-p secret", BARE, told(hidden=("secret",))) == []


def test_a_partition_that_is_down_makes_jobs_wait() -> None:
    found = only(said("-p small", BARE, told(partition("small", up=False))))
    assert (found.sentence, found.certain) == ("The partition small is down.", False)


def test_a_partition_that_takes_only_some_qos_and_accounts() -> None:
    info = told(
        partition("small", default=True, allow_qos=("long",), allow_accounts=("chem",)),
        qos=("normal", "long"),
        accounts=("physics", "chem"),
    )
    assert [one.sentence for one in said("--qos normal -A physics", BARE, info)] == [
        "The partition does not take the QOS `normal`.",
        "The partition does not take the account `physics`.",
    ]
    assert said("--qos long -A chem", BARE, info) == []


@given(
    st.lists(
        st.sampled_from(
            "-N=2 -n=9 -c=30 --mem=1T --mem=0 --gres=gpu:9 --gpus=a:3 --exclusive --time=9d "
            "--time=0 --partition=small --partition=x,small --qos=x --account=y --array=1-9".split()
        )
    ),
    st.sampled_from([PROFILE, TEMPLATE, BARE]),
    st.sampled_from([None, told(), told(enforced=())]),
)
def test_any_job_can_be_judged_and_priced(
    words: list[str], profile: ClusterProfile, info: ClusterInfo | None
) -> None:
    options = dict(word.lstrip("-").partition("=")[::2] for word in words)
    names = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task"}
    wanted = asked({names.get(name, name): value for name, value in options.items()})
    judge = Judge(profile, info)
    for found in judge.objections(wanted):
        assert found.sentence.endswith((".", "?"))
        assert found.hint
        assert not (found.certain and profile is TEMPLATE and info is None)
    price = cost(wanted, judge.partition(wanted), unit="UA")
    if price is not None:
        assert min(price.cpu_hours, price.gpu_hours, price.units or 0, price.node_hours or 0) >= 0
        assert cost_text(price).startswith("At most")


# --- prices -------------------------------------------------------------------------------------


def price(words: str, profile: ClusterProfile = PROFILE, info: ClusterInfo | None = None) -> Cost:
    judge, wanted = Judge(profile, info), job(words)
    found = cost(
        wanted,
        judge.partition(wanted),
        unit=profile.cost_unit,
        max_tres=info is not None and info.max_tres,
    )
    assert found is not None
    return found


def test_a_whole_node_is_charged_whole() -> None:
    gdl = PartitionLimits(limit="48h", cpus=40, gpus=8, cost=80, exclusive=True)
    found = price("-p gdl --time 10h", ClusterProfile(name="a", partitions={"gdl": gdl}))
    assert (found.units, found.node_hours, found.cpu_hours, found.gpu_hours) == (800, 10, 400, 80)
    asked_for = price("-p small --exclusive --time 30m -c 2")
    assert (asked_for.units, asked_for.unit, asked_for.cpu_hours) == (18, "UA", 12)


def test_a_part_of_a_node_is_charged_for_its_largest_share() -> None:
    found = price("-p small --time 1h --gres gpu:1 -c 6")
    assert (found.units, found.node_hours) == (18, None)
    assert (found.cpu_hours, found.gpu_hours) == (6, 1)


def test_an_array_costs_all_its_jobs() -> None:
    found = price("-p long --time 1h --array 1-10")
    assert (found.units, found.jobs) == (360, 10)
    assert "360 UA, in 1 h for each of 10 jobs" in cost_text(found)


def test_billing_is_the_sum_of_what_is_weighed_or_the_largest() -> None:
    weights = {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 2.0}
    here = partition("small", default=True, billing=weights)
    words = "--time 1h -c 4 --mem 8G --gres gpu:1"
    assert price(words, BARE, told(here)).billing_hours == 4 + 2 + 2
    assert price(words, BARE, told(here, max_tres=True)).billing_hours == 4
    whole = price("--time 1h --exclusive", BARE, told(here)).billing_hours
    assert whole == 8 + 4 + 8
    assert price(words, BARE, told()).billing_hours is None


def test_a_job_without_a_time_is_priced_for_what_the_partition_gives_it() -> None:
    short = told(partition("small", default=True, default_time_s=600))
    assert price("", BARE, short).limit_s == 600
    assert price("-p small").limit_s == 3600
    endless = told(partition("small", default=True, limit_s=None))
    assert cost(job(""), Judge(BARE, endless).partition(job(""))) is None
    assert limit_s(job("--time 9d"), KnownPartition("a")) == 9 * 86400
    assert limit_s(job("--time 9d"), Judge(PROFILE).partition(job("-p small"))) == 3600


# --- what it would meet -------------------------------------------------------------------------


def meets(words: str, info: ClusterInfo) -> list[Check]:
    wanted = job(words)
    return list(outlook(wanted, Judge(BARE, info).partition(wanted), info, NOW_S))


def test_what_is_free_is_told_with_its_time() -> None:
    (free,) = meets("", told())
    assert free.sentence.startswith("small at ")
    assert free.sentence.endswith(": 1 of 2 nodes idle, 3 of 8 GPUs free.")
    (no_gpus,) = meets("", told(partition("small", default=True, free_gpus=None)))
    assert no_gpus.sentence.endswith(": 1 of 2 nodes idle.")
    assert meets("-p elsewhere", told()) == []


def kept(**changes: Any) -> Reservation:
    settings: dict[str, Any] = {
        "name": "upgrade",
        "start_s": NOW_S + 7200,
        "end_s": NOW_S + 9000,
        "maintenance": True,
        "partitions": {"small": 2},
    }
    return Reservation(**{**settings, **changes})


def roomy(*reservations: Reservation) -> ClusterInfo:
    return told(partition("small", default=True, limit_s=864000), reservations=reservations)


def test_maintenance_that_the_time_limit_runs_into_is_told_with_the_time_that_fits() -> None:
    assert len(meets("--time 1h", roomy(kept()))) == 1
    _, check = meets("--time 3h", roomy(kept()))
    assert check.ok is None
    assert check.sentence.startswith("Maintenance (`upgrade`) keeps all 2 nodes of small from ")
    assert check.sentence.endswith("on these a job of 3 h starts after it.")
    assert check.hint == "With --time 01:59:00 or less it can be done before."


def test_a_reservation_of_some_nodes_that_has_begun_or_is_ones_own() -> None:
    _, some = meets("--time 3h", roomy(kept(maintenance=False, partitions={"small": 1})))
    assert some.sentence.startswith("A reservation (`upgrade`) keeps 1 of the 2 nodes of small")
    _, begun = meets("--time 1h", roomy(kept(start_s=NOW_S - 60)))
    assert " until " in begun.sentence
    assert begun.hint is None
    _, soon = meets("--time 1h", roomy(kept(start_s=NOW_S + 70)))
    assert soon.hint is None
    for none in (kept(partitions={"other": 1}), kept(end_s=NOW_S - 1, start_s=NOW_S - 9)):
        assert len(meets("--time 3h", roomy(none))) == 1
    assert len(meets("--time 3h --reservation upgrade", roomy(kept()))) == 1


# --- the profile against the cluster --------------------------------------------------------------


def test_where_the_profile_is_out_of_date_it_is_told() -> None:
    info = told(partition("small", limit_s=7200, cpus=24, memory_mib=32768, gpus_per_node=4))
    assert list(differences(PROFILE, info)) == [
        "The cluster does not have what the profile names: `long`.",
        "`small` has a time limit of 2 h, not 1 h, as the profile says.",
        "`small` has GPUs on a node: 4, not 2, as the profile says.",
        "`small` has nodes for a job: 2, not 1, as the profile says.",
        "`small` has 32.0 GiB on a node, not 64.0 GiB, as the profile says.",
    ]


def test_a_profile_that_agrees_has_no_differences() -> None:
    here = partition("small", cpus=24, memory_mib=65600, gpus_per_node=2, max_nodes=1)
    there = partition("long", limit_s=31 * 86400, cpus=24, gpus_per_node=2)
    assert list(differences(PROFILE, told(here, there))) == []
    assert list(differences(PROFILE, told(here, hidden=("long",)))) == []


def test_each_figure_keeps_who_says_it() -> None:
    alone = known_partitions(PROFILE, None)["small"]
    assert alone.limit_s == Figure(3600, Source.PROFILE)
    assert alone.memory_mib == Figure(65536, Source.PROFILE)
    both = known_partitions(PROFILE, told())
    assert list(both) == ["small"], "the cluster has no other"
    assert list(known_partitions(PROFILE, told(hidden=("long",)))) == ["small", "long"]
    assert both["small"].limit_s == Figure(3600, Source.CLUSTER)
    assert both["small"].cost == 36
    assert known_partitions(TEMPLATE, None)["long"].limit_s == Figure(31 * 86400, Source.TEMPLATE)
    endless = known_partitions(BARE, told(partition("x", limit_s=None)))["x"]
    assert endless.limit_s == Figure(math.inf, Source.CLUSTER)


# --- QOS ------------------------------------------------------------------------------------------

SHORT = Qos(name="short", limit_s=1200, most={"gres/gpu": 1, "mem": 2048, "x": 0}, denies=True)


def of_qos(words: str, qos: Qos = SHORT, **changes: Any) -> list[Objection]:
    settings: dict[str, Any] = {"qos": ("normal", "short"), "enforced": (*ALL, "limits")}
    return said(words, BARE, told(**{**settings, **changes, "qos_limits": (qos,)}))


def test_what_a_qos_allows_is_certain_where_it_denies() -> None:
    found = only(of_qos("--qos short --time 30m"))
    assert found.sentence == "A job of the QOS `short` can run for 20 min."
    assert found.hint == "Ask for --time 00:20:00 or less."
    assert found.certain
    assert only(of_qos("--qos short --gpus 2 --time 1")).sentence.endswith("1 of gres/gpu.")
    assert only(of_qos("--qos short --mem 3G --time 1")).sentence.endswith("2.0 GiB.")
    assert of_qos("--qos short --time 20m --gpus 1 --mem 2G") == []
    assert of_qos("--qos normal --time 30m --gpus 2") == []


def test_a_qos_that_does_not_deny_lets_jobs_wait_for_ever() -> None:
    lenient = Qos(name="short", limit_s=1200)
    found = only(of_qos("--qos short --time 30m", lenient))
    assert not found.certain
    assert found.hint.endswith("Else the job waits for ever.")
    assert not only(of_qos("--qos short --time 30m", enforced=ALL)).certain


def test_the_only_qos_of_a_person_is_that_of_their_jobs() -> None:
    assert len(of_qos("--time 30m", qos=SHORT)) == 0
    info = told(qos=("short",), qos_limits=(SHORT,))
    assert only(said("--time 30m", BARE, info)).sentence.startswith("A job of the QOS `short`")
