"""Why sbatch and the other commands refuse, and whether that is their last word.

Definitive: nothing was submitted, and trying again gives the same. Transient: nothing was
submitted, but it may work in a while. Ambiguous: the request was sent and no answer came, so the
job may exist; look it up before anything is tried again.
Source: src/common/slurm_errno.c, its texts the same from 20.11 to 26.05; src/sbatch/opt.c.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Category = Literal["definitive", "transient", "ambiguous"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """`sentence` and `advice` for people, `text` is what Slurm (or the site) said.

    `known` False: the sentence is only that text, e.g. of a site's job_submit plugin; it counts as
    definitive, for Slurm's own troubles are all known.
    """

    category: Category
    sentence: str
    advice: str
    text: str
    known: bool = True


class _Case(NamedTuple):
    text: str
    category: Category
    sentence: str
    advice: str


_ASSOC: Final = "`sacctmgr show assoc user=$USER` lists what you may use."
_CASES: Final = (
    # The request had left: slurmctld may have taken the job (slurm_send_recv_controller_msg()).
    _Case(
        "Socket timed out on send/recv",
        "ambiguous",
        "The controller did not answer in time; the job may have been submitted all the same.",
        "Look for the job before submitting it again.",
    ),
    _Case(
        "Zero Bytes were transmitted or received",
        "ambiguous",
        "The connection to the controller broke; the job may have been submitted all the same.",
        "Look for the job before submitting it again.",
    ),
    _Case(
        "Unable to contact slurm controller (receive failure)",
        "ambiguous",
        "The controller's answer was lost; the job may have been submitted all the same.",
        "Look for the job before submitting it again.",
    ),
    _Case(
        "Message receive failure",
        "ambiguous",
        "The controller's answer was lost; the job may have been submitted all the same.",
        "Look for the job before submitting it again.",
    ),
    _Case(
        "Connection timed out reading",
        "ambiguous",
        "The controller did not answer in time; the job may have been submitted all the same.",
        "Look for the job before submitting it again.",
    ),
    _Case(
        "Unable to contact slurm controller",
        "transient",
        "The controller of the cluster cannot be reached.",
        "Try again in a while; `scontrol ping` shows whether it is up.",
    ),
    _Case(
        "Communication connection failure",
        "transient",
        "The controller of the cluster cannot be reached.",
        "Try again in a while; `scontrol ping` shows whether it is up.",
    ),
    _Case(
        "Connection refused",
        "transient",
        "The controller of the cluster (or its database) does not answer.",
        "Try again in a while; `scontrol ping` shows whether it is up.",
    ),
    _Case(
        "Unable to connect to database",
        "transient",
        "The accounting database does not answer.",
        "Try again in a while.",
    ),
    _Case(
        "Protocol authentication error",
        "transient",
        "The controller does not accept this machine's credentials (munge, or the clocks differ).",
        "If it does not pass by itself, tell the cluster's support.",
    ),
    _Case(
        "Munge encode failed",
        "transient",
        "The authentication service (munge) of this machine does not answer.",
        "If it does not pass by itself, tell the cluster's support.",
    ),
    _Case(
        "standby mode",
        "transient",
        "The backup controller answered and is not in charge.",
        "Try again in a while.",
    ),
    _Case(
        "Rate limit exceeded",
        "transient",
        "The controller is asked too often by you.",
        "Try again in a while, and watch fewer things at a time.",
    ),
    _Case(
        "MaxJobCount limit reached",
        "transient",
        "The cluster's queue is full.",
        "Try again in a while.",
    ),
    _Case(
        "temporarily unable to accept job",
        "transient",
        "The controller takes no jobs at the moment.",
        "Try again in a while.",
    ),
    _Case(
        "I/O error writing script/environment to file",
        "transient",
        "The controller could not keep the script; its disk may be full.",
        "Try again in a while, or tell the cluster's support.",
    ),
    _Case(
        "System submissions disabled",
        "transient",
        "The administrators have closed the queue for now.",
        "Try again later.",
    ),
    _Case(
        "Could not establish a configuration source",
        "transient",
        "Slurm's configuration is not found on this machine.",
        "Is this the cluster's login node? Set SLURM_CONF if the site says so.",
    ),
    _Case(
        "Invalid account or account/partition combination",
        "definitive",
        "The account does not exist, is not yours, or may not use this partition.",
        f"Give another --account or --partition. {_ASSOC}",
    ),
    _Case(
        "Invalid qos specification",
        "definitive",
        "The QOS does not exist, is not yours, or may not be used in this partition.",
        f"Give another --qos. {_ASSOC}",
    ),
    _Case(
        "Invalid partition name specified",
        "definitive",
        "There is no such partition.",
        "Give another --partition; `sinfo` lists them.",
    ),
    _Case(
        "No partition specified or system default partition",
        "definitive",
        "The cluster has no default partition.",
        "Give a --partition; `sinfo` lists them.",
    ),
    _Case(
        "User's group not permitted to use this partition",
        "definitive",
        "This partition is not open to you.",
        "Give another --partition.",
    ),
    _Case(
        "Required partition not available",
        "definitive",
        "The partition takes no jobs now.",
        "Give another --partition.",
    ),
    _Case(
        "Requested node configuration is not available",
        "definitive",
        "No node of the partition has this many GPUs, this GPU type or this much memory.",
        "Ask for less per node, or another GPU type; `sinfo -o '%P %c %m %G'`.",
    ),
    _Case(
        "Requested partition configuration not available now",
        "definitive",
        "The partition cannot give this size or this time.",
        "Ask for less, a shorter --time, or another --partition.",
    ),
    _Case(
        "Invalid generic resource (gres) specification",
        "definitive",
        "The cluster does not know this --gres (or GPU type).",
        "Write it as `gpu:2` or `gpu:TYPE:2`; `sinfo -o '%P %G'` lists them.",
    ),
    _Case(
        "Job violates accounting/QOS policy",
        "definitive",
        "It exceeds a limit of your account or QOS (number of jobs, size or time).",
        "Ask for less or a shorter --time, wait for your other jobs, or use another --qos.",
    ),
    _Case(
        "Requested time limit is invalid",
        "definitive",
        "The time limit is missing, or longer than the partition allows.",
        "Give a --time within the limit; `sinfo -o '%P %l'`.",
    ),
    _Case(
        "Time limit specification required, but not provided",
        "definitive",
        "This site demands a time limit.",
        "Give a --time.",
    ),
    _Case(
        "Memory required by task is not available",
        "definitive",
        "No node has as much memory as is asked for.",
        "Ask for less --mem.",
    ),
    _Case(
        "Node count specification invalid",
        "definitive",
        "The partition cannot give this number of nodes.",
        "Change --nodes.",
    ),
    _Case(
        "CPU count specification invalid",
        "definitive",
        "No node can give this number of CPUs.",
        "Change --cpus-per-task or --ntasks.",
    ),
    _Case(
        "More processors requested than permitted",
        "definitive",
        "It asks for more CPUs than the partition has.",
        "Change --cpus-per-task or --ntasks.",
    ),
    _Case(
        "Requested nodes not in this partition",
        "definitive",
        "A node of --nodelist is not in the partition.",
        "Change --nodelist or --partition.",
    ),
    _Case(
        "Invalid node name specified",
        "definitive",
        "There is no such node.",
        "Change --nodelist; `sinfo -N` lists the nodes.",
    ),
    _Case(
        "Invalid feature specification",
        "definitive",
        "No node has such a feature.",
        "Change --constraint; `sinfo -o '%P %f'` lists them.",
    ),
    _Case(
        "Invalid license specification",
        "definitive",
        "The cluster does not know this licence, or has not so many.",
        "Change --licenses; `scontrol show licenses` lists them.",
    ),
    _Case(
        "Requested reservation is invalid",
        "definitive",
        "There is no such reservation.",
        "Change --reservation; `scontrol show reservation` lists them.",
    ),
    _Case(
        "Access denied to requested reservation",
        "definitive",
        "This reservation is not for you.",
        "Leave --reservation out.",
    ),
    _Case(
        "Invalid job array specification",
        "definitive",
        "The array is malformed or larger than the site allows.",
        "Change --array; `scontrol show config | grep MaxArraySize`.",
    ),
    _Case(
        "Job dependency problem",
        "definitive",
        "The job named in --dependency does not exist (any more).",
        "Change --dependency.",
    ),
    _Case(
        "Invalid job id specified",
        "definitive",
        "The controller does not know this job (any more).",
        "Jobs that have ended are forgotten after some minutes.",
    ),
    _Case(
        "Access/permission denied",
        "definitive",
        "You may not do this.",
        "Only a job's owner or an administrator may.",
    ),
    _Case(
        "are mutually exclusive",
        "definitive",
        "Two options exclude each other.",
        "Leave one of them out; the site or an environment variable SBATCH_* may have set it.",
    ),
)


def explain_rejection(stderr: str) -> Rejection | None:
    """What a command's standard error means; None where it says nothing.

    Several texts: an ambiguous one decides, then a definitive one, since sbatch mentions a
    passing trouble (`retrying`) before its last word.

    >>> explain_rejection("sbatch: error: Socket timed out on send/recv operation").category
    'ambiguous'
    """
    text = stderr.strip()
    if not text:
        return None
    found = [case for case in _CASES if case.text in text]
    for category in ("ambiguous", "definitive", "transient"):
        for case in found:
            if case.category == category:
                return Rejection(case.category, case.sentence, case.advice, text)
    said = _message(text)
    return Rejection(
        "definitive", said, "Change the request as the text says, or ask the site.", text, False
    )


def _message(text: str) -> str:
    """The lines of errors without the command's name in front; a site's text stays as it is."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if ": error: " in line or ": fatal: " in line]
    kept = [line.partition(": error: ")[2] or line.partition(": fatal: ")[2] for line in errors]
    return " ".join(kept or lines)
