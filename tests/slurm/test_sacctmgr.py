"""What sacctmgr tells of accounts and QOS."""

from __future__ import annotations

from jupyter_slurm.slurm import sacctmgr
from jupyter_slurm.slurm.sacctmgr import Association

QOS = b"""\
normal||||
short|00:20:00|DenyOnLimit,NoDecay|gres/gpu=1,mem=2G|cpu=4,gres/gpu=2
long|2-00:00:00||cpu=3|
"""


def test_accounts_with_the_qos_of_each() -> None:
    rows = sacctmgr.parse_associations(b"default|long,normal\nroot|\nnonsense\n")
    assert rows == [Association("default", ("long", "normal")), Association("root", ())]
    assert sacctmgr.parse_associations("") == []


def test_what_a_qos_allows() -> None:
    normal, short, long = sacctmgr.parse_qos(QOS)
    assert (normal.limit_s, normal.denies, dict(normal.tres_per_job)) == (None, False, {})
    assert (short.name, short.limit_s, short.denies) == ("short", 1200, True)
    assert dict(short.tres_per_job) == {"gres/gpu": 1, "mem": 2048}
    assert dict(short.tres_per_user) == {"cpu": 4, "gres/gpu": 2}
    assert (long.limit_s, long.denies) == (2 * 86400, False)


def test_a_line_that_is_none_is_left_out() -> None:
    assert sacctmgr.parse_qos("sacctmgr: warning\n") == []
