"""Explain why sbatch and the other commands refuse, and whether that is their last word.

Definitive: nothing was submitted, and trying again gives the same. Transient: nothing was
submitted, but it may work in a while. Ambiguous: the request was sent and no answer came, so the
job may exist; look it up before trying again.
Source: src/common/slurm_errno.c, its texts the same from 20.11 to 26.05; src/sbatch/opt.c.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from jupyter_slurm.formatting import joined

Category = Literal["definitive", "transient", "ambiguous"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal: `sentence` and `advice` for users; `text` is from Slurm (or the site).

    `known` False: the sentence is only that text, e.g. of a site's job_submit plugin; it counts as
    definitive, since Slurm's own troubles are all known.
    """

    category: Category
    sentence: str
    advice: str
    text: str
    known: bool = True
    option: str | None = None
    """The option of sbatch that it is about, by its long name."""


class _Case(NamedTuple):
    text: str
    category: Category
    sentence: str
    advice: str
    option: str | None = None


def _no(text: str, sentence: str, advice: str, option: str | None = None) -> _Case:
    return _Case(text, "definitive", sentence, advice, option)


def _maybe(text: str, sentence: str) -> _Case:
    return _Case(text, "ambiguous", sentence, "Look for the job before submitting it again.")


def _later(text: str, sentence: str, advice: str = "Try again in a while.") -> _Case:
    return _Case(text, "transient", sentence, advice)


_JOB_ID: Final = re.compile(r"(?<![\w.])[0-9]+(?:_(?:[0-9]+|\[[0-9,:%-]*\]))?(?![\w.])")
_ABOUT_A_JOB: Final = re.compile(
    r"^(?:Kill job error on job id )?[0-9][0-9_,:%\[\]-]*: | for job \S+$"
)
"""The words around the reason (src/scancel/scancel.c, src/scontrol/update_job.c)."""
_COMMAND: Final = re.compile(r"^(?:s[a-z]+: )(?:error: |fatal: )?")
"""The name of a Slurm command before its words."""
_ASSOC: Final = "`sacctmgr show assoc user=$USER` lists what you may use."
_PING: Final = (
    "Try again in a while; `scontrol ping` shows whether it is up. `jupyter slurm up` starts a "
    "cluster that it has made."
)
_NO_ANSWER: Final = (
    "The controller did not answer in time; the job may have been submitted all the same."
)
_BROKE: Final = (
    "The connection to the controller broke; the job may have been submitted all the same."
)
_LOST: Final = "The controller's answer was lost; the job may have been submitted all the same."
_NOT_CONFIGURED: Final = "Slurm's commands find no configuration where they run."
_NO_CONF: Final = "Slurm's commands cannot read their configuration file."
_CONFIGURE: Final = (
    "Put what `echo $SLURM_CONF` prints where `sbatch` works into the cluster's profile, as "
    "`env.SLURM_CONF`."
)
_CASES: Final = (
    # The request had left: slurmctld may have taken the job (slurm_send_recv_controller_msg()).
    _maybe("Socket timed out on send/recv", _NO_ANSWER),
    _maybe("Connection timed out reading", _NO_ANSWER),
    _maybe("Zero Bytes were transmitted or received", _BROKE),
    _maybe("Unable to contact slurm controller (receive failure)", _LOST),
    _maybe("Message receive failure", _LOST),
    _maybe("Unable to contact slurm controller (send failure)", _LOST),
    _later("Unable to contact slurm controller", "The controller cannot be reached.", _PING),
    _later("Communication connection failure", "The controller cannot be reached.", _PING),
    _later("Connection refused", "The controller (or its database) does not answer.", _PING),
    _later(
        "Unable to connect to database",
        "The accounting database does not answer.",
    ),
    _later(
        "Protocol authentication error",
        "The controller does not accept this machine's credentials (munge, or the clocks differ).",
        "If it does not pass by itself, tell the cluster's support.",
    ),
    _later(
        "Munge encode failed",
        "The authentication service (munge) of this machine does not answer.",
        "If it does not pass by itself, tell the cluster's support.",
    ),
    _later(
        "standby mode",
        "The backup controller answered and is not in charge.",
    ),
    _later(
        "Rate limit exceeded",
        "The controller is asked too often by you.",
        "Try again in a while, and watch fewer things at a time.",
    ),
    _later(
        "MaxJobCount limit reached",
        "The cluster's queue is full.",
    ),
    _later(
        "temporarily unable to accept job",
        "The controller takes no jobs at the moment.",
    ),
    _later(
        "I/O error writing script/environment to file",
        "The controller could not keep the script; its disk may be full.",
        "Try again in a while, or tell the cluster's support.",
    ),
    _later(
        "System submissions disabled",
        "The administrators have closed the queue for now.",
        "Try again later.",
    ),
    _later(
        "Could not establish a configuration source",
        _NOT_CONFIGURED,
        _CONFIGURE,
    ),
    # It looks for the file for a minute, and says this first (20.11 to 22.05: the second).
    _later("s_p_parse_file: cannot stat file", _NO_CONF, _CONFIGURE),
    _later("s_p_parse_file: unable to status file", _NO_CONF, _CONFIGURE),
    _later("Unable to process configuration file", _NO_CONF, _CONFIGURE),
    _no(
        "Invalid account or account/partition combination",
        "The account does not exist, is not yours, or may not use this partition.",
        joined("Give another --account or --partition.", _ASSOC),
        "account",
    ),
    _no(
        "Invalid qos specification",
        "The QOS does not exist, is not yours, or may not be used in this partition.",
        joined("Give another --qos.", _ASSOC),
        "qos",
    ),
    _no(
        "Invalid partition name specified",
        "There is no such partition.",
        "Give another --partition; `sinfo` lists them.",
        "partition",
    ),
    _no(
        "No partition specified or system default partition",
        "The cluster has no default partition.",
        "Give a --partition; `sinfo` lists them.",
        "partition",
    ),
    _no(
        "User's group not permitted to use this partition",
        "This partition is not open to you.",
        "Give another --partition.",
        "partition",
    ),
    _no(
        "Required partition not available",
        "The partition takes no jobs now.",
        "Give another --partition.",
        "partition",
    ),
    _no(
        "Memory specification can not be satisfied",
        "No node of the partition has as much memory as is asked for.",
        "Ask for less --mem; `sinfo -o '%P %m'`.",
        "mem",
    ),
    _no(
        "Temporary disk specification can not be satisfied",
        "No node of the partition has as much temporary disk as is asked for.",
        "Ask for less --tmp; `sinfo -o '%P %d'`.",
        "tmp",
    ),
    _no(
        "sbatch: unrecognized option",
        "The cluster's sbatch does not have this option: its Slurm is too old or too new for it.",
        "Leave it out; Slurm's own words name it.",
    ),
    _no(
        "Requested node configuration is not available",
        "No node of the partition has this many GPUs, this GPU type or this much memory.",
        "Ask for less per node, or another GPU type; `sinfo -o '%P %c %m %G'`.",
    ),
    _no(
        "Requested partition configuration not available now",
        "The partition cannot give this size or this time.",
        "Ask for less, a shorter --time, or another --partition.",
    ),
    _no(
        "Invalid generic resource (gres) specification",
        "The cluster has no such GPU type or --gres, or these options do not go together.",
        "Slurm's own words say which; `sinfo -o '%P %G'` lists the types.",
        "gpus",
    ),
    _no(
        "Job violates accounting/QOS policy",
        "It exceeds a limit of your account or QOS (number of jobs, size or time).",
        "Ask for less or a shorter --time, wait for your other jobs, or use another --qos.",
    ),
    _no(
        "Requested time limit is invalid",
        "The time limit is missing, or longer than the partition allows.",
        "Give a --time within the limit; `sinfo -o '%P %l'`.",
        "time",
    ),
    _no(
        "Time limit specification required, but not provided",
        "This site demands a time limit.",
        "Give a --time.",
        "time",
    ),
    _no(
        "Memory required by task is not available",
        "No node has as much memory as is asked for.",
        "Ask for less --mem.",
        "mem",
    ),
    _no(
        "Node count specification invalid",
        "The partition cannot give this number of nodes.",
        "Change --nodes.",
        "nodes",
    ),
    _no(
        "CPU count specification invalid",
        "No node can give this number of CPUs.",
        "Change --cpus-per-task or --ntasks.",
        "cpus-per-task",
    ),
    _no(
        "More processors requested than permitted",
        "It asks for more CPUs than the partition has.",
        "Change --cpus-per-task or --ntasks.",
        "cpus-per-task",
    ),
    _no(
        "Requested nodes not in this partition",
        "A node of --nodelist is not in the partition.",
        "Change --nodelist or --partition.",
        "nodelist",
    ),
    _no(
        "Invalid node name specified",
        "There is no such node.",
        "Change --nodelist; `sinfo -N` lists the nodes.",
        "nodelist",
    ),
    _no(
        "Invalid feature specification",
        "No node has such a feature.",
        "Change --constraint; `sinfo -o '%P %f'` lists them.",
        "constraint",
    ),
    _no(
        "Invalid license specification",
        "The cluster does not know this license, or has not so many.",
        "Change --licenses; `scontrol show licenses` lists them.",
        "licenses",
    ),
    _no(
        "Requested reservation is invalid",
        "There is no such reservation.",
        "Change --reservation; `scontrol show reservation` lists them.",
        "reservation",
    ),
    _no(
        "Access denied to requested reservation",
        "This reservation is not for you.",
        "Leave --reservation out.",
        "reservation",
    ),
    _no(
        "Invalid job array specification",
        "The array is malformed or larger than the site allows.",
        "Change --array; `scontrol show config | grep MaxArraySize`.",
        "array",
    ),
    _no(
        "Job dependency problem",
        "The job named in --dependency does not exist (any more).",
        "Change --dependency.",
        "dependency",
    ),
    _no(
        "Invalid job id specified",
        "The controller does not know this job (any more).",
        "Jobs that have ended are forgotten after some minutes.",
    ),
    _no(
        "Access/permission denied",
        "You may not do this.",
        "Only a job's owner or an administrator may.",
    ),
    _no(
        "are mutually exclusive",
        "Two options exclude each other.",
        "Leave one of them out; the site or an environment variable SBATCH_* may have set it.",
    ),
)


def explain_rejection(stderr: str) -> Rejection | None:
    """Explain a command's standard error; return None if that is empty.

    Among several texts an ambiguous one decides, then a definitive one, since sbatch mentions a
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
                return Rejection(
                    case.category, case.sentence, case.advice, text, option=case.option
                )
    said = message(text)
    return Rejection(
        "definitive", said, "Change the request as the text says, or ask the site.", text, False
    )


RUNS_ONCE: Final = "Slurm may not run it again: it was submitted without `--requeue`."
NOT_BATCH: Final = "Slurm runs only batch jobs again, and this one is of `srun` or `salloc`."


def explain_requeue(stderr: str) -> str | None:
    """Return why Slurm never puts a job back into the queue, from the words of `scontrol requeue`
    (_job_requeue_op in src/slurmctld/job_mgr.c). None: they are about something else."""
    if "Requested operation is presently disabled" in stderr:
        return RUNS_ONCE
    return NOT_BATCH if "Only batch jobs are accepted" in stderr else None


def refused(stderr: str, ids: Iterable[str]) -> dict[str, str]:
    """Map those of several jobs that scancel or scontrol names in its errors to its words on each.
    A line that names none, as scontrol's last one, is about all.

    >>> refused("scancel: error: Kill job error on job id 7: Access/permission denied", ["7", "8"])
    {'7': 'Access/permission denied'}
    >>> refused("Job has already finished for job 9_[2-3]\\nslurm_suspend error: -", ["9_[2-3]"])
    {'9_[2-3]': 'Job has already finished'}
    """
    wanted = set(ids)
    of_arrays = {one.partition("_")[0]: one for one in wanted}
    found: dict[str, str] = {}
    for line in filter(str.strip, stderr.splitlines()):
        tokens = _JOB_ID.findall(line)
        named = wanted.intersection(tokens) or {
            of_arrays[base] for one in tokens if (base := one.partition("_")[0]) in of_arrays
        }
        found |= dict.fromkeys(named, _ABOUT_A_JOB.sub("", message(line)))
    return found


def message(text: str) -> str:
    """Return a command's words line by line, without its name in front; a site's text unchanged.

    >>> message("sbatch: lua: Name an account.\\nsbatch: error: cli_filter plugin terminated")
    'lua: Name an account.\\ncli_filter plugin terminated'
    """
    lines = (_COMMAND.sub("", line.strip()) for line in text.splitlines())
    return "\n".join(filter(None, lines))
