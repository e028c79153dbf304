"""Explanations of why jobs wait, for every reason code of Slurm and for its free texts.

`rejections` explains why sbatch refuses a job, and `diagnosis` explains why a job failed. Slurm
shows one reason at a time, although several may apply. Source: job_state_reason.c
(job_reason_string() in slurm_protocol_defs.c up to 24.05) of 20.11 to 26.05; free texts:
`state_desc` in src/slurmctld.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason in plain words: `sentence` states the fact, and `advice` states the remedy.

    `known`: False if the sentence is only Slurm's own text. `code`: Slurm's word, or the stable
    name of a diagnosis. `suggested`: only the job's own output suggests it.
    """

    code: str
    sentence: str
    advice: str
    known: bool = True
    suggested: bool = False


class _Meaning(NamedTuple):
    """Texts in which `explain` replaces `{job}`, `{partition}` and other fields, with a blank
    before names."""

    sentence: str
    advice: str


_WAIT: Final = "Wait; it starts automatically."
_WAIT_FOR_JOBS: Final = "Wait for other jobs to end, or ask for less."
_SUPPORT: Final = "Report it to the cluster's support, with the job ID ({job})."
_LOOK: Final = "Look at the end of its output."
_SHORTER: Final = "Submit it again with a shorter --time, or another --qos."
_OTHER_PARTITION: Final = "Wait, or submit it to another partition."
_YOURS: Final = "List yours with `sacctmgr show assoc user=$USER`."
_LAUNCH: Final = _Meaning(
    "A node could not start it, and Slurm holds it.",
    "Retry with `scontrol release {job}`, or avoid the node with --exclude.",
)
_NODES_OUT: Final = _Meaning(
    "The nodes that could run it are down, drained or reserved.",
    "Wait, or ask for another GPU type or feature; `sinfo -R` shows why the nodes are out.",
)
_NODE_OUT: Final = _Meaning(
    "A node that it needs is down, drained or reserved.",
    "Wait, or submit it again without --nodelist.",
)
_RESERVATION_GONE: Final = _Meaning(
    "Its reservation was deleted or has ended.", "Submit it again without --reservation."
)
_HELD_AGAIN: Final = _Meaning(
    "Slurm put it back into the queue and holds it.",
    "Look at its output for the cause, then run `scontrol release {job}`.",
)
_NO_REASON: Final = _Meaning("Slurm gives no reason.", _WAIT)
_BURST_BUFFER: Final = _Meaning("An operation of the burst buffer failed.", _SUPPORT)

_REASONS: Final[Mapping[str, _Meaning]] = {
    "None": _Meaning("Slurm has not considered it yet.", "Wait a minute."),
    "Priority": _Meaning(
        "Other jobs are ahead of it in the queue.",
        "Wait, or ask for a shorter --time or fewer resources. See its priority with "
        "`%slurm why {job} --priority`.",
    ),
    "Resources": _Meaning(
        "Next in line, waiting for resources.",
        "Wait, or ask for less (also --mem, if the default is large).",
    ),
    "Dependency": _Meaning(
        "It waits for another job{dependency}.", "Wait until that job has ended."
    ),
    "DependencyNeverSatisfied": _Meaning(
        "It will never start: the job that it waits for{dependency} did not end as needed.",
        "Cancel it, and submit it again without that dependency.",
    ),
    "BeginTime": _Meaning(
        "Its start time is in the future (about two minutes after a requeue).",
        "Wait, or run `scontrol update JobId={job} StartTime=now`.",
    ),
    "JobHeldUser": _Meaning("On hold (by you).", "Release it with `scontrol release {job}`."),
    "JobHeldAdmin": _Meaning(
        "On hold (by an administrator, or by Slurm after a failed start).", _SUPPORT
    ),
    "JobHoldMaxRequeue": _Meaning(
        "It was put back into the queue too many times and is now held.",
        "Find the cause in its output or on its node, then submit it again.",
    ),
    # Slurm 22.05 and earlier also use this for a job killed by a signal; later versions use
    # RaisedSignal.
    "JobLaunchFailure": _LAUNCH,
    "PartitionDown": _Meaning("The partition{partition} is down.", _OTHER_PARTITION),
    "PartitionInactive": _Meaning(
        "The partition{partition} does not accept jobs now.", _OTHER_PARTITION
    ),
    "PartitionTimeLimit": _Meaning(
        "Its time limit is longer than the partition{partition} allows.",
        "Submit it again with a shorter --time, or to another partition; `sinfo -o '%P %l'` shows "
        "their limits.",
    ),
    "PartitionNodeLimit": _Meaning(
        "The partition{partition} cannot give this number of nodes now.",
        "Change --nodes, use another partition, or wait if some of its nodes are down.",
    ),
    "PartitionConfig": _Meaning(
        "The partition{partition} does not accept jobs of this account, QOS or size.",
        "Submit it to another partition, or with another --account or --qos.",
    ),
    "ReqNodeNotAvail": _NODE_OUT,
    "Reservation": _Meaning("Its reservation has not begun.", _WAIT),
    "ReservationDeleted": _RESERVATION_GONE,
    "ReservationInvalid": _RESERVATION_GONE,
    "BadConstraints": _Meaning(
        "No node of the cluster has what it asks for.",
        "Ask for another --constraint or GPU type, or for less memory per node; "
        "`sinfo -o '%P %f %G %m'` shows what nodes have.",
    ),
    "Constraints": _Meaning(
        "No node that is up now has what it asks for.",
        "Wait, or ask for another --constraint or GPU type.",
    ),
    "Licenses": _Meaning("A software license that it needs is in use.", _WAIT),
    "MpiPortsBusy": _Meaning("All network ports reserved for MPI are in use.", _WAIT),
    "NvidiaImexChannels": _Meaning("All channels between GPUs of several nodes are in use.", _WAIT),
    "BurstBufferResources": _Meaning("The burst buffer has no space left for it now.", _WAIT),
    "BurstBufferStageIn": _Meaning("Its files are being copied into the burst buffer.", _WAIT),
    "BurstBufferOperation": _BURST_BUFFER,
    "AssociationJobLimit": _Meaning("Your account has reached its job limit.", _WAIT_FOR_JOBS),
    "AssociationResourceLimit": _Meaning(
        "Your account has reached a resource limit.", _WAIT_FOR_JOBS
    ),
    "AssociationTimeLimit": _Meaning(
        "Its time limit is longer than your account allows.", _SHORTER
    ),
    "QOSJobLimit": _Meaning("The QOS{qos} has reached its job limit.", _WAIT_FOR_JOBS),
    "QOSResourceLimit": _Meaning("The QOS{qos} has reached a resource limit.", _WAIT_FOR_JOBS),
    "QOSTimeLimit": _Meaning("Its time limit is longer than the QOS{qos} allows.", _SHORTER),
    "MaxMemPerLimit": _Meaning(
        "It asks for more memory per CPU or node than one job may have.",
        "Submit it again with a smaller --mem.",
    ),
    "AccountNotAllowed": _Meaning(
        "The account{account} is not allowed to use the partition{partition}.",
        "Submit it with another --account or to another partition.",
    ),
    "QOSNotAllowed": _Meaning(
        "The QOS{qos} is not available to this account or in the partition{partition}.",
        f"Submit it with another --qos. {_YOURS}",
    ),
    "InvalidAccount": _Meaning(
        "Its account does not exist or is no longer yours.",
        f"Submit it with another --account. {_YOURS}",
    ),
    "InvalidQOS": _Meaning(
        "Its QOS does not exist or is no longer yours.",
        f"Submit it with another --qos. {_YOURS}",
    ),
    "AccountingPolicy": _Meaning(
        "The site's accounting policy prevents it from starting.",
        "Use another --account or --qos, or ask the cluster's support.",
    ),
    "QOSUsageThreshold": _Meaning(
        "Your recent usage is above the threshold of the QOS{qos}.", "Wait, or use another --qos."
    ),
    "JobArrayTaskLimit": _Meaning(
        "Its array already runs as many tasks as `%N` in --array allows.",
        "Wait, or run `scontrol update JobId={job} ArrayTaskThrottle=N`.",
    ),
    "Prolog": _Meaning("Its nodes are being prepared.", _WAIT),
    "Cleaning": _Meaning("Slurm is cleaning up after its previous run.", _WAIT),
    "DeadLine": _Meaning(
        "It can no longer end before its --deadline.",
        "Submit it again with a later --deadline or a shorter --time.",
    ),
    "FedJobLock": _Meaning("Another cluster of the federation is about to start it.", _WAIT),
    "SchedDefer": _Meaning("The scheduler starts jobs only in its regular cycles.", _WAIT),
    "MaxPoweredUpNodes": _Meaning("The cluster has reached its limit of powered-up nodes.", _WAIT),
    "PowerNotAvail": _Meaning("The cluster has reached its power limit.", _WAIT),
    "PowerReserved": _Meaning("The remaining power is reserved.", _WAIT),
    "FrontEndDown": _Meaning("The machine that starts its processes is down.", _SUPPORT),
    "BlockFreeAction": _Meaning("A block of nodes is being freed.", _WAIT),
    "BlockMaxError": _Meaning("A block of nodes has an error.", _SUPPORT),
    "InactiveLimit": _Meaning("Slurm ended it after it was idle for too long.", _LOOK),
    "TimeLimit": _Meaning("Time limit reached.", "Ask for a longer --time."),
    "NonZeroExitCode": _Meaning("It ended with an exit code other than 0.", _LOOK),
    "OutOfMemory": _Meaning("Out of memory.", "Ask for more --mem."),
    "RaisedSignal": _Meaning("Terminated by a signal.", _LOOK),
    "NodeDown": _Meaning("One of its nodes went down.", "Submit it again."),
    "SystemFailure": _Meaning("Slurm or one of its nodes failed.", _SUPPORT),
    "InvalidReason": _NO_REASON,
    "InvaildReason": _NO_REASON,  # the spelling of some releases
}
"""Meanings by code, for Slurm 20.11 to 26.05. `_LIMIT` matches codes that name a limit."""

OF_ANYBODY: Final[Mapping[str, str]] = {"JobHeldUser": "On hold (by its owner)."}
"""Sentences that differ for other users' jobs."""

_FREE_TEXTS: Final[tuple[tuple[str, _Meaning], ...]] = (
    (
        r"ReqNodeNotAvail, ?Reserved for maintenance",
        _Meaning(
            "It would still be running when maintenance of the cluster begins.",
            "Ask for a --time that ends before the maintenance (see `scontrol show reservation`), "
            "or wait until it is over.",
        ),
    ),
    (r"ReqNodeNotAvail", _NODE_OUT),
    (r"Nodes required for job are DOWN", _NODES_OUT),
    (r"Reservation .* (was deleted|is invalid|has ended)", _RESERVATION_GONE),
    (r"launch failed|launch failure", _LAUNCH),
    (r"job requeued in (special|held)", _HELD_AGAIN),
    (
        r"Job is at or exceeds (QOS|association) .* (minutes|wall limit)",
        _Meaning(
            "The job would exceed the time budget of your account or QOS.",
            "Ask for a shorter --time or fewer resources, or use another --account.",
        ),
    ),
    (
        r"RaisedSignal:53\b",
        _Meaning(
            "Its node could not open its output file or its working directory.",
            "Choose a folder that exists, is writable and is mounted on the nodes.",
        ),
    ),
    (r"[Bb]urst [Bb]uffer|burst_buffer/", _BURST_BUFFER),
)
"""Beginnings of free texts (regular expressions), the most specific first."""

_EXIT_SIGNAL = re.compile(r"RaisedSignal:([0-9]+)")
_LIMIT = re.compile(
    r"(?P<owner>Assoc|QOS|)(?P<scope>Grp|Max|Min)"
    r"(?P<resource>Cpu|CPU|Memory|Mem|Node|GRES|Billing|License|BB|Energy|SubmitJobs?|Jobs"
    r"|WallDuration|Wall|Unknown)"
    r"(?P<unit>RunMinutes|RunMins|MinutesPerJob|Minutes|PerJob|PerNode|NotSatisfied|)"
    r"(?:PerUser|PerAccount)?(?:Limit)?"
)
"""Codes that name a limit, e.g. `QOSMaxGRESPerUser`. Three quarters of Slurm's reason codes do."""
_RESOURCES: Final[Mapping[str, str]] = {
    "cpu": "CPUs",
    "mem": "memory",
    "node": "nodes",
    "gres": "GPUs or other generic resources",
    "billing": "billing units",
    "license": "licenses",
    "bb": "burst buffer space",
    "submitjob": "jobs in the queue",
    "submitjobs": "jobs in the queue",
    "jobs": "running jobs",
    "wall": "run time",
    "wallduration": "run time",
    "unknown": "a resource",
}


def explain(
    reason: str,
    *,
    job_id: str | None = None,
    partition: str | None = None,
    qos: str | None = None,
    account: str | None = None,
    dependency: str | None = None,
) -> Explanation:
    """Explain a reason from squeue or scontrol; the other arguments make it more specific.

    `dependency` is squeue's `%E`. For an unknown reason, return Slurm's own text, with known=False.

    >>> explain("Dependency", dependency="afterok:12").sentence
    'It waits for another job (afterok:12).'
    """
    text = reason.strip().strip("()")
    words = {
        "job": job_id or "JOBID",
        "partition": f" {partition}" if partition else "",
        "qos": f" {qos}" if qos else "",
        "account": f" {account}" if account else "",
        "dependency": f" ({dependency})" if dependency else "",
    }
    found = _find(text)
    if found is None and "," in text:  # the tasks of an array may wait for several reasons
        found = _find(text.partition(",")[0])
    if found is not None:
        return Explanation(
            text or "None",
            found.sentence.format_map(words),
            found.advice.format_map(words),
        )
    if match := _EXIT_SIGNAL.match(text):
        return Explanation(text, f"Terminated by signal {match[1]}.", _LOOK)
    return Explanation(
        text,
        f"Slurm reports: {text}." if text else "Slurm gives no reason.",
        "Ask the cluster's support what it means, and give the job ID.",
        known=False,
    )


def _find(text: str) -> _Meaning | None:
    if meaning := _REASONS.get(text or "None"):
        return meaning
    for pattern, meaning in _FREE_TEXTS:
        if re.match(pattern, text):
            return meaning
    match = _LIMIT.fullmatch(text)
    return None if match is None else _limit(match)


def _limit(match: re.Match[str]) -> _Meaning:
    resource = match["resource"].lower().removesuffix("ory")
    thing = _RESOURCES.get(resource, resource)
    owner = "your account" if match["owner"] == "Assoc" else "the QOS{qos}"
    scope, unit = match["scope"], match["unit"]
    if scope == "Min":
        return _Meaning(
            f"It asks for less {thing} than {owner} requires.",
            "Submit it again and ask for more, or use another --qos.",
        )
    if scope == "Grp" and (unit == "Minutes" or resource == "wall"):
        return _Meaning(
            f"The budget of {owner} ({thing} over time) is used up.",
            "Ask the project's manager for more, or use another --account.",
        )
    if scope == "Max" and unit in ("PerJob", "PerNode", "MinutesPerJob"):
        return _Meaning(
            f"It asks for more {thing} than {owner} allows per job.",
            "Submit it again with fewer resources or a shorter --time, or use another --qos.",
        )
    return _Meaning(f"The limit of {owner} on {thing} is used up.", _WAIT_FOR_JOBS)
