"""sshare: how much of a cluster a user was meant to have, and has had of late.

Text, since --json came with 23.11 only. These fields are in every release from 18.08 on.
"""

from __future__ import annotations

from typing import NamedTuple

from .fields import lines, optional_float

_FIELDS = "Account,User,NormShares,EffectvUsage,FairShare"


class ShareRow(NamedTuple):
    """A user with an account. What `share` and `used` are parts of, from 0 to 1, depends on the
    cluster: of the account (Fair Tree), or of everything."""

    account: str
    user: str
    share: float
    used: float


def mine_argv() -> list[str]:
    """Ask for the caller's own rows."""
    return ["sshare", "-n", "-P", "-U", "-o", _FIELDS]


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
