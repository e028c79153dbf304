"""sshare: how much of a cluster a user was meant to have, has had of late, and may have in all.

Text, since --json came with 23.11 only. These fields are in every release from 18.08 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from .fields import lines, optional_float
from .units import parse_tres

_FIELDS = "Account,User,NormShares,EffectvUsage,FairShare"
_QUOTA_FIELDS = "Account,User,GrpTRESMins,GrpTRESRaw"


class ShareRow(NamedTuple):
    """A user with an account. What `share` and `used` are parts of, from 0 to 1, depends on the
    cluster: of the account (Fair Tree), or of everything."""

    account: str
    user: str
    share: float
    used: float


class QuotaRow(NamedTuple):
    """Holds an account's limits and use in minutes, or those of one user of it (`user` not "").
    Slurm forgets old use where PriorityDecayHalfLife is set."""

    account: str
    user: str
    limits: Mapping[str, float]
    used: Mapping[str, float]


def mine_argv() -> list[str]:
    """Ask for the caller's own rows."""
    return ["sshare", "-n", "-P", "-U", "-o", _FIELDS]


def quotas_argv(accounts: Iterable[str], user: str) -> list[str]:
    """Ask for accounts, and for the user with them."""
    return ["sshare", "-n", "-P", "-A", ",".join(accounts), "-u", user, "-o", _QUOTA_FIELDS]


def parse_quotas(output: str | bytes) -> list[QuotaRow]:
    """Parse the rows of quotas_argv that have a limit."""
    rows = []
    for line in lines(output):
        values = [value.strip() for value in line.split("|")]
        if len(values) == _QUOTA_FIELDS.count(",") + 1 and (limits := parse_tres(values[2])):
            used = MappingProxyType(parse_tres(values[3]))
            rows.append(QuotaRow(values[0], values[1], MappingProxyType(limits), used))
    return rows


def parse(output: str | bytes) -> list[ShareRow]:
    """Parse the rows of mine_argv."""
    rows = []
    for line in lines(output):
        values = [value.strip() for value in line.split("|")]
        if len(values) != _FIELDS.count(",") + 1:
            continue
        account, user, *numbers = values
        share, used, _ = map(optional_float, numbers)
        if share is not None and used is not None:
            rows.append(ShareRow(account, user, share, used))
    return rows
