"""sacctmgr: the accounts and QOS that a user may use."""

from __future__ import annotations

from typing import NamedTuple

from .fields import lines

_FIELDS = "cluster,account,qos"


class Association(NamedTuple):
    """An association: the QOSes that a user has with an account on a cluster."""

    cluster: str
    account: str
    qos: tuple[str, ...]


def associations_argv(user: str) -> list[str]:
    """Return the argv that queries a user's associations."""
    return [
        *("sacctmgr", "--noheader", "--parsable2", "show"),
        *("user", user, "withassoc", f"format={_FIELDS}"),
    ]


def parse_associations(output: str | bytes) -> list[Association]:
    """Parse the lines of associations_argv."""
    cut = (line.split("|") for line in lines(output))
    return [
        Association(cluster, account, tuple(filter(None, qos.split(","))))
        for cluster, account, qos in (one for one in cut if len(one) == 3)
    ]
