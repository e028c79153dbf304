"""Accounts and QOS in sacctmgr's output."""

from __future__ import annotations

from jupyter_slurm.slurm import sacctmgr

MINE = b"""\
site|physics|long,normal
nonsense
site|chem|
"""


def test_qos_of_accounts_are_parsed() -> None:
    assert sacctmgr.parse_associations(MINE) == [
        ("site", "physics", ("long", "normal")),
        ("site", "chem", ()),
    ]
    assert sacctmgr.parse_associations("") == []
