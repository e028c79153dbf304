"""What sacctmgr tells of accounts and QOS."""

from __future__ import annotations

from jupyter_slurm.slurm import sacctmgr
from jupyter_slurm.slurm.sacctmgr import Allowed, Association

QOS = b"""\
normal|||||||||
short|DenyOnLimit,NoDecay|00:20:00|gres/gpu=1,mem=2G|cpu=4,gres/gpu=2|node=9|3|20|4|40
long|OverPartQOS|2-00:00:00|cpu=3||||||
"""
MINE = b"""\
site|physics|physics||long,normal||||||||
nonsense
site|physics|chem|gpu|normal|normal|01:40:00|cpu=7|gres/gpu=5,mem=1T|3|5|9|99
"""


def test_accounts_with_the_qos_and_the_limits_of_each() -> None:
    rows = sacctmgr.parse_associations(MINE)
    assert rows == [
        Association("site", "physics", None, ("long", "normal"), None, True, Allowed()),
        Association(
            "site",
            "chem",
            "gpu",
            ("normal",),
            "normal",
            False,
            Allowed(
                limit_s=6000,
                tres_per_job={"cpu": 7},
                tres_in_all={"gres/gpu": 5, "mem": 1024 * 1024},
                jobs_per_user=3,
                jobs_in_all=5,
                queued_per_user=9,
                queued_in_all=99,
            ),
        ),
    ]
    assert sacctmgr.parse_associations("") == []


def test_what_a_qos_allows() -> None:
    normal, short, long = sacctmgr.parse_qos(QOS)
    assert (normal.denies, normal.over_partition, normal.allowed) == (False, False, Allowed())
    assert (short.name, short.denies, short.over_partition) == ("short", True, False)
    assert short.allowed == Allowed(
        limit_s=1200,
        tres_per_job={"gres/gpu": 1, "mem": 2048},
        tres_per_user={"cpu": 4, "gres/gpu": 2},
        tres_in_all={"node": 9},
        jobs_per_user=3,
        jobs_in_all=20,
        queued_per_user=4,
        queued_in_all=40,
    )
    assert (long.allowed.limit_s, long.denies, long.over_partition) == (2 * 86400, False, True)
