"""The reasons that have a sentence of their own, and the free texts Slurm shows in their place.

Only data. `reasons.explain` fills in `{job}`, `{partition}` and the like; a name brings the blank
before it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """The meaning of a reason: the fact, its remedy, and whether the job will start without a
    change."""

    sentence: str
    advice: str
    never_starts: bool = False


_WAIT: Final = "Wait; it starts by itself."
_SUPPORT: Final = "Tell the cluster's support, with the job's id ({job})."
_LIMIT_WAIT: Final = "Wait for some of those jobs to end."
_HELD_AGAIN: Final = "Look at its output for the cause, then `scontrol release {job}`."
_LAUNCH: Final = Meaning(
    "A node could not start it, and it is held.",
    "`scontrol release {job}` tries once more; `--exclude` leaves a bad node out. "
    "If it happens again, tell the cluster's support.",
)
_TOO_LONG: Final = "Submit it again with a shorter --time, or another --qos."
_NODES_OUT: Final = Meaning(
    "The nodes that could run it are down, drained or reserved.",
    "Wait, or ask for another GPU type or feature; `sinfo -R` says why the nodes are out.",
)
_MAINTENANCE: Final = Meaning(
    "It would still be running when a maintenance of the cluster begins.",
    "Ask for a --time that ends before it (`scontrol show reservation`), or wait until it is over.",
)
_NODE_NOT_THERE: Final = Meaning(
    "A node that it needs is down, drained or reserved.",
    "Wait, or submit it again without --nodelist.",
)
_NOT_EVEN_SLURM: Final = Meaning("Slurm gives no reason that it knows itself.", _WAIT)

REASONS: Final[Mapping[str, Meaning]] = {
    "None": Meaning("Slurm has not looked at it yet.", "Wait a minute; this is usual at first."),
    "Priority": Meaning(
        "Other jobs are ahead of it in the queue.",
        "A shorter time limit or fewer resources may let it start sooner. See its priority: "
        "`%slurm why {job} --priority`.",
    ),
    "Resources": Meaning(
        "Next in line, waiting for resources.",
        "Wait. Asking for less (--mem too, where the default is large) can help.",
    ),
    "Dependency": Meaning(
        "It waits for another job{dependency}.", "Wait until that job has ended."
    ),
    "DependencyNeverSatisfied": Meaning(
        "The job that it waits for{dependency} did not end as needed, so it will never start.",
        "Cancel it, and submit it again without that dependency.",
        never_starts=True,
    ),
    "BeginTime": Meaning(
        "Its start time lies in the future (after a requeue: about two minutes).",
        "Wait, or `scontrol update JobId={job} StartTime=now`.",
    ),
    "JobHeldUser": Meaning("On hold (by you).", "`scontrol release {job}` lets it go."),
    "JobHeldAdmin": Meaning(
        "On hold (by an administrator, or by Slurm after a failed start).", _SUPPORT
    ),
    "JobHoldMaxRequeue": Meaning(
        "It was put back into the queue too many times and is now held.",
        "Find out why it does not start (its output, the node), then submit it again.",
        never_starts=True,
    ),
    # Up to 22.05 also the reason of a job that was ended by a signal (later RaisedSignal).
    "JobLaunchFailure": _LAUNCH,
    "launch failed requeued held": _LAUNCH,
    "launch failure limit exceeded requeued held": _LAUNCH,
    "job requeued in held state": Meaning("It was put back into the queue and held.", _HELD_AGAIN),
    "job requeued in special exit state": Meaning(
        "It ended with an exit code after which this site requeues and holds jobs.", _HELD_AGAIN
    ),
    "PartitionDown": Meaning(
        "The partition{partition} is closed for now.", "Wait, or submit it to another partition."
    ),
    "PartitionInactive": Meaning(
        "The partition{partition} takes no jobs now.", "Wait, or submit it to another partition."
    ),
    "PartitionTimeLimit": Meaning(
        "Its time limit is longer than the partition{partition} allows.",
        "Submit it again with a shorter --time, or to another partition (`sinfo -o '%P %l'`).",
        never_starts=True,
    ),
    "PartitionNodeLimit": Meaning(
        "It asks for a number of nodes that the partition{partition} does not give now.",
        "Change --nodes, use another partition, or wait if nodes of it are down.",
    ),
    "PartitionConfig": Meaning(
        "The partition{partition} does not let jobs of this account, QOS or size in.",
        "Submit it to another partition, or with another --account or --qos.",
    ),
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        _NODES_OUT
    ),
    "ReqNodeNotAvail": _NODE_NOT_THERE,
    "Reservation": Meaning("Its reservation has not begun.", _WAIT),
    "ReservationDeleted": Meaning(
        "Its reservation was deleted.",
        "Submit it again without --reservation, or take it off and `scontrol release {job}`.",
        never_starts=True,
    ),
    "ReservationInvalid": Meaning(
        "Its reservation cannot be used any more.",
        "Submit it again without --reservation, or with another one.",
        never_starts=True,
    ),
    "BadConstraints": Meaning(
        "No node of the cluster can ever give what it asks for.",
        "Ask for another --constraint, GPU type or less memory per node; `sinfo -o '%P %f %G %m'`.",
        never_starts=True,
    ),
    "Constraints": Meaning(
        "No node that is up now has what it asks for.",
        "Wait, or ask for another --constraint or GPU type.",
    ),
    "Licenses": Meaning("A software license that it needs is in use.", _WAIT),
    "MpiPortsBusy": Meaning("All network ports kept for MPI are in use.", _WAIT),
    "NvidiaImexChannels": Meaning("All channels between GPUs of several nodes are in use.", _WAIT),
    "BurstBufferResources": Meaning("The burst buffer has no space left for it now.", _WAIT),
    "BurstBufferStageIn": Meaning("Its files are being copied into the burst buffer.", _WAIT),
    "BurstBufferOperation": Meaning("An operation of the burst buffer failed.", _SUPPORT),
    "AssociationJobLimit": Meaning("Your account has as many jobs as it may have.", _LIMIT_WAIT),
    "AssociationResourceLimit": Meaning("Your account uses all it may use now.", _LIMIT_WAIT),
    "AssociationTimeLimit": Meaning(
        "Its time limit is longer than your account allows.", _TOO_LONG, True
    ),
    "QOSJobLimit": Meaning("The QOS{qos} has as many jobs as it may have.", _LIMIT_WAIT),
    "QOSResourceLimit": Meaning("The QOS{qos} uses all it may use now.", _LIMIT_WAIT),
    "QOSTimeLimit": Meaning("Its time limit is longer than the QOS{qos} allows.", _TOO_LONG, True),
    "MaxMemPerLimit": Meaning(
        "It asks for more memory per CPU or node than one job may have.",
        "Submit it again with less --mem.",
        never_starts=True,
    ),
    "AccountNotAllowed": Meaning(
        "The account{account} may not use the partition{partition}.",
        "Submit it with another --account or to another partition.",
        never_starts=True,
    ),
    "QOSNotAllowed": Meaning(
        "The QOS{qos} may not be used by this account or in the partition{partition}.",
        "Submit it with another --qos; `sacctmgr show assoc user=$USER` lists yours.",
        never_starts=True,
    ),
    "InvalidAccount": Meaning(
        "Its account does not exist or is no longer yours.",
        "Submit it with another --account; `sacctmgr show assoc user=$USER` lists yours.",
        never_starts=True,
    ),
    "InvalidQOS": Meaning(
        "Its QOS does not exist or is no longer yours.",
        "Submit it with another --qos; `sacctmgr show assoc user=$USER` lists yours.",
        never_starts=True,
    ),
    "AccountingPolicy": Meaning(
        "A rule of the site's accounting keeps it from starting.",
        "Try another --account or --qos, or ask the cluster's support.",
    ),
    "QOSUsageThreshold": Meaning(
        "You have used so much lately that the QOS{qos} makes you wait.",
        "Wait, or use another --qos.",
    ),
    "JobArrayTaskLimit": Meaning(
        "Its array runs as many tasks at a time as you allowed (`--array=...%N`).",
        "Wait, or `scontrol update JobId={job} ArrayTaskThrottle=N`.",
    ),
    "Prolog": Meaning("Its nodes are being prepared for it.", _WAIT),
    "Cleaning": Meaning(
        "What is left of its run before is being cleaned up.",
        "Wait; if it takes more than a quarter of an hour, tell the cluster's support.",
    ),
    "DeadLine": Meaning(
        "It can no longer end before its --deadline.",
        "Cancel it, and submit it again with a later --deadline or a shorter --time.",
        never_starts=True,
    ),
    "FedJobLock": Meaning("Another cluster of the federation is about to start it.", _WAIT),
    "SchedDefer": Meaning("The scheduler starts nothing at the moment of submission here.", _WAIT),
    "MaxPoweredUpNodes": Meaning("The cluster has as many nodes switched on as it may.", _WAIT),
    "PowerNotAvail": Meaning("The cluster's power limit leaves none for it now.", _WAIT),
    "PowerReserved": Meaning("The power that is left is reserved.", _WAIT),
    "FrontEndDown": Meaning("The machine that starts its processes is down.", _SUPPORT),
    "BlockFreeAction": Meaning("A block of nodes is being set free.", _WAIT),
    "BlockMaxError": Meaning("A block of nodes has an error.", _SUPPORT),
    "InactiveLimit": Meaning(
        "It was ended because it was idle for too long.", "Start its work at once."
    ),
    "TimeLimit": Meaning("Time limit reached.", "Ask for a longer --time."),
    "NonZeroExitCode": Meaning(
        "It ended with an exit code other than 0.", "Look at the end of its output."
    ),
    "OutOfMemory": Meaning("Out of memory.", "Ask for more --mem."),
    "RaisedSignal": Meaning("It was ended by a signal.", "Look at the end of its output."),
    "NodeDown": Meaning("A node of it went down.", "Submit it again."),
    "SystemFailure": Meaning("Slurm or a node of it failed.", _SUPPORT),
    "InvalidReason": _NOT_EVEN_SLURM,
    "InvaildReason": _NOT_EVEN_SLURM,  # as some releases spell it
}
"""Code, or the whole of a free text -> what it means; 20.11 to 26.05."""

OF_ANYBODY: Final[Mapping[str, str]] = {"JobHeldUser": "On hold (by its owner)."}
"""The sentences that differ where the job may be somebody else's."""

PREFIXES: Final[tuple[tuple[str, Meaning], ...]] = (
    (r"ReqNodeNotAvail, ?Reserved for maintenance", _MAINTENANCE),
    (r"ReqNodeNotAvail", _NODE_NOT_THERE),
    (r"Nodes required for job are DOWN", _NODES_OUT),
    (r"Reservation .* (was deleted|is invalid|has ended)", REASONS["ReservationDeleted"]),
    (r"launch failed|launch failure", _LAUNCH),
    (r"job requeued in special", REASONS["job requeued in special exit state"]),
    (r"job requeued in held", REASONS["job requeued in held state"]),
    (
        r"Job is at or exceeds (QOS|association) .* (minutes|wall limit)",
        Meaning(
            "The time that your account or QOS was given is used up, or would be by this job.",
            "Ask for a shorter --time or less, or ask who is in charge of the project.",
        ),
    ),
    (
        r"RaisedSignal:53\b",
        Meaning(
            "Its node could not open its output file or its working folder.",
            "Choose a folder that exists, may be written and is mounted on the nodes.",
        ),
    ),
    (r"[Bb]urst [Bb]uffer|burst_buffer/", REASONS["BurstBufferOperation"]),
)
"""Free texts by how they begin (regular expressions), the more special first."""
