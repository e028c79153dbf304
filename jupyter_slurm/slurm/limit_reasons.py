"""The reasons that name a limit (`QOSMaxGRESPerUser`), read by their grammar.

Three in four of Slurm's reason codes are of this form: owner, scope, resource, unit.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .reason_table import Meaning

_OWNED = re.compile(
    r"(?P<owner>Assoc|QOS)(?P<scope>Grp|Max|Min)"
    r"(?P<resource>Cpu|CPU|Memory|Mem|Node|GRES|Billing|License|BB|Energy|SubmitJobs?|Jobs"
    r"|WallDuration|Wall|Unknown)"
    r"(?P<unit>RunMinutes|MinutesPerJob|Minutes|PerJob|PerNode|PerUser|NotSatisfied)?(?:Limit)?"
)
_PER_OWNER = re.compile(
    r"Max(?P<resource>Cpu|Memory|Node|GRES|Billing|License|BB|Energy|SubmitJobs|Jobs|Unknown)"
    r"(?P<unit>RunMins)?Per(?P<who>User|Account)"
)
_OWNERS: Final[Mapping[str, str]] = MappingProxyType(
    {"Assoc": "your account", "QOS": "the QOS{qos}"},
)
THINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu": "CPUs",
        "memory": "memory",
        "mem": "memory",
        "node": "nodes",
        "gres": "GPUs or other generic resources",
        "billing": "billing units",
        "license": "licenses",
        "bb": "burst buffer space",
        "energy": "energy",
        "jobs": "running jobs",
        "submitjob": "jobs in the queue",
        "submitjobs": "jobs in the queue",
        "wall": "run time",
        "wallduration": "run time",
        "unknown": "a resource",
    }
)


def explain_limit(reason: str) -> Meaning | None:
    """Return the sentence for a limit's code; None if it is not one."""
    match = _PER_OWNER.fullmatch(reason) or _OWNED.fullmatch(reason)
    if match is None:
        return None
    thing = THINGS[match["resource"].lower()]
    if match.re is _OWNED:
        return _owned(match, thing)
    return _per_owner(thing, match["unit"], match["who"])


def _owned(match: re.Match[str], thing: str) -> Meaning:
    owner = _OWNERS[match["owner"]]
    unit = match["unit"] or ""
    if match["scope"] == "Min":
        return Meaning(
            f"It asks for less {thing} than {owner} demands.",
            "Ask for more, or submit it again with another --qos.",
            never_starts=True,
        )
    if match["scope"] == "Grp":
        return _shared(thing, owner, unit)
    return _own(thing, owner, unit)


def _per_owner(thing: str, unit: str | None, who: str) -> Meaning:
    whose = "your jobs" if who == "User" else "the jobs of the account{account}"
    if unit:
        return Meaning(
            f"The time that {whose} may still run, counted in {thing}, is used up by running ones.",
            "Wait for some of them to end, or ask for a shorter --time.",
        )
    return Meaning(
        f"The limit on {thing} for {whose} together is reached in the QOS{{qos}}.",
        "Wait for some of them to end, or use another --qos.",
    )


def _shared(thing: str, owner: str, unit: str) -> Meaning:
    if unit == "Minutes" or thing == "run time":
        return Meaning(
            f"The budget of {owner} ({thing} over time) is used up.",
            "It will not start without a new allocation: ask who is in charge of the project, or "
            "use another --account.",
            never_starts=True,
        )
    if unit == "RunMinutes":
        return Meaning(
            f"The running jobs of {owner} have reserved all that it may use of {thing} over time.",
            "Wait for some of them to end, or ask for a shorter --time.",
        )
    return Meaning(
        f"Everyone in {owner} together, your own jobs included, uses all the {thing} it may have.",
        "Wait for some of those jobs to end.",
    )


def _own(thing: str, owner: str, unit: str) -> Meaning:
    if thing == "run time":
        return Meaning(
            f"Its time limit is longer than {owner} allows.",
            "Submit it again with a shorter --time, or another --qos.",
            never_starts=True,
        )
    if thing in ("running jobs", "jobs in the queue"):
        return Meaning(
            f"You have as many {thing} as {owner} allows.",
            "Wait for some of them to end; many small tasks go better into one array.",
        )
    if unit == "PerUser":
        return Meaning(
            f"Your running jobs already use all the {thing} that {owner} gives to one user.",
            "Wait for your own jobs to end, ask for less, or use another --qos.",
        )
    if unit == "RunMinutes":
        return Meaning(
            f"Running jobs have reserved all that {owner} allows of {thing} over time.",
            "Wait for some of them to end, or ask for a shorter --time.",
        )
    each = {"PerNode": "on one node", "MinutesPerJob": "times its time limit"}.get(unit, "")
    asked = f"more {thing} {each}".rstrip()
    return Meaning(
        f"It asks for {asked} than {owner} allows to one job.",
        "Submit it again and ask for less, or use another --qos.",
        never_starts=True,
    )
