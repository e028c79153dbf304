"""Refusals by sbatch and other commands: a category, and a hint for Slurm's message. Definitive:
Slurm did not accept the job, and a retry fails in the same way. Transient: Slurm did not accept the
job, but a later retry may succeed. Ambiguous: the request got no answer, so the job may exist; look
it up before a retry. Source: src/common/slurm_errno.c, with the same texts from 20.11 to 26.05, and
src/sbatch/opt.c.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from .option_table import OPTIONS

Category = Literal["definitive", "transient", "ambiguous"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal in Slurm's or the site's words.

    An unknown text, e.g. from a site's job_submit plugin, is definitive, because Slurm's own
    transient errors are all known.
    """

    category: Category
    text: str
    """The message without names of commands."""
    hint: str | None = None
    """The hint; None for an unknown text."""
    option: str | None = None
    """The long name of the sbatch option that the refusal is about."""


class _Case(NamedTuple):
    text: str
    hint: str
    option: str | None = None


_JOB_ID: Final = re.compile(r"(?<![\w.])[0-9]+(?:_(?:[0-9]+|\[[0-9,:%-]*\]))?(?![\w.])")
_ABOUT_A_JOB: Final = re.compile(
    r"^(?:Kill job error on job id )?[0-9][0-9_,:%\[\]-]*: | for job \S+$"
)
"""The text before or after the reason in an error of scancel or scontrol (src/scancel/scancel.c,
src/scontrol/update_job.c)."""
_COMMAND: Final = re.compile(
    r"^(?:s[a-z]+: (?:error: |fatal: )?)?(?:allocation failure: |Batch job submission failed: )?"
)
"""The text before the reason in a command's message."""
_OPTION: Final = re.compile(r"--([a-z]+(?:-[a-z]+)*)")

_AMBIGUOUS: Final = (
    # The request was sent, so slurmctld may have accepted the job
    # (slurm_send_recv_controller_msg()).
    "Socket timed out on send/recv",
    "Connection timed out reading",
    "Zero Bytes were transmitted or received",
    "Unable to contact slurm controller (receive failure)",
    "Message receive failure",
    "Unable to contact slurm controller (send failure)",
)
_WAIT: Final = "Try again later."
_PING: Final = (
    "Check the controller with `scontrol ping`, and try again later. If `jupyter slurm up` created "
    "the cluster, run that again."
)
_SUPPORT: Final = "Try again, and report the error to the cluster's support if it persists."
_CONFIGURE: Final = (
    "Run `echo $SLURM_CONF` where `sbatch` works, and set `env.SLURM_CONF` in the cluster's "
    "profile to its output."
)
_TRANSIENT: Final[Mapping[str, str]] = {
    "Unable to contact slurm controller": _PING,
    "Communication connection failure": _PING,
    "Connection refused": _PING,
    "Unable to connect to database": _WAIT,
    "Protocol authentication error": _SUPPORT,
    "Munge encode failed": _SUPPORT,
    "standby mode": _WAIT,
    "Rate limit exceeded": "Try again later, and watch fewer clusters at a time.",
    "MaxJobCount limit reached": _WAIT,
    "temporarily unable to accept job": _WAIT,
    "I/O error writing script/environment to file": _SUPPORT,
    "System submissions disabled": "Try again later.",
    "Could not establish a configuration source": _CONFIGURE,
    # sbatch looks for the file for a minute, and first prints one of these two texts: 20.11 to
    # 22.05 print the second, later releases the first.
    "s_p_parse_file: cannot stat file": _CONFIGURE,
    "s_p_parse_file: unable to status file": _CONFIGURE,
    "Unable to process configuration file": _CONFIGURE,
}
"""Hints by text."""
_YOURS: Final = "List yours with `sacctmgr show assoc user=$USER`."
_DEFINITIVE: Final = (
    _Case(
        "Invalid account or account/partition combination",
        f"Use another --account or --partition. {_YOURS}",
        "account",
    ),
    _Case("Invalid qos specification", f"Use another --qos. {_YOURS}", "qos"),
    _Case(
        "Invalid partition name specified",
        "Use another --partition (see `sinfo`).",
        "partition",
    ),
    _Case(
        "No partition specified or system default partition",
        "Give a --partition (see `sinfo`).",
        "partition",
    ),
    _Case(
        "User's group not permitted to use this partition", "Use another --partition.", "partition"
    ),
    _Case("Required partition not available", "Use another --partition.", "partition"),
    _Case(
        "Memory specification can not be satisfied",
        "Ask for a smaller --mem; `sinfo -o '%P %m'` shows what nodes have.",
        "mem",
    ),
    _Case(
        "Temporary disk specification can not be satisfied",
        "Ask for a smaller --tmp; `sinfo -o '%P %d'` shows what nodes have.",
        "tmp",
    ),
    _Case("sbatch: unrecognized option", "Omit it: this release of Slurm does not have it."),
    _Case(
        "Requested node configuration is not available",
        "Ask for fewer CPUs or GPUs or less memory per node, or another GPU type; "
        "`sinfo -o '%P %c %m %G'` shows what nodes have.",
    ),
    _Case(
        "Requested partition configuration not available now",
        "Ask for fewer resources, a shorter --time, or another --partition.",
    ),
    _Case(
        "Invalid generic resource (gres) specification",
        "List the GPU types with `sinfo -o '%P %G'`.",
        "gpus",
    ),
    _Case(
        "Job violates accounting/QOS policy",
        "Ask for fewer resources or a shorter --time, wait for your other jobs, or use another "
        "--qos.",
    ),
    _Case(
        "Requested time limit is invalid",
        "Give a --time within the limit (see `sinfo -o '%P %l'`).",
        "time",
    ),
    _Case("Time limit specification required, but not provided", "Give a --time.", "time"),
    _Case("Memory required by task is not available", "Ask for a smaller --mem.", "mem"),
    _Case("Node count specification invalid", "Change --nodes.", "nodes"),
    _Case(
        "CPU count specification invalid", "Change --cpus-per-task or --ntasks.", "cpus-per-task"
    ),
    _Case(
        "More processors requested than permitted",
        "Change --cpus-per-task or --ntasks.",
        "cpus-per-task",
    ),
    _Case("Requested nodes not in this partition", "Change --nodelist or --partition.", "nodelist"),
    _Case("Invalid node name specified", "Change --nodelist (see `sinfo -N`).", "nodelist"),
    _Case(
        "Invalid feature specification",
        "Change --constraint (see `sinfo -o '%P %f'`).",
        "constraint",
    ),
    _Case(
        "Invalid license specification",
        "Change --licenses (see `scontrol show licenses`).",
        "licenses",
    ),
    _Case(
        "Requested reservation is invalid",
        "Change --reservation (see `scontrol show reservation`).",
        "reservation",
    ),
    _Case("Access denied to requested reservation", "Omit --reservation.", "reservation"),
    _Case(
        "Invalid job array specification",
        "Change --array; `scontrol show config | grep MaxArraySize` shows the limit.",
        "array",
    ),
    _Case("Job dependency problem", "Change --dependency.", "dependency"),
    _Case(
        "Invalid job id specified",
        "Check the job ID; Slurm forgets ended jobs after a few minutes.",
    ),
    _Case("Access/permission denied", "Ask the job's owner or an administrator."),
    _Case(
        "are mutually exclusive",
        "Omit one of them; the site or an environment variable SBATCH_* may have set it.",
    ),
)


def explain_rejection(stderr: str) -> Rejection | None:
    """Explain a command's standard error. Return None if it is empty. Of several texts, an
    ambiguous one takes precedence, then a definitive one, since sbatch prints temporary errors
    (`retrying`) before its final message.

    >>> explain_rejection("sbatch: error: Socket timed out on send/recv operation").category
    'ambiguous'
    """
    text = stderr.strip()
    if not text:
        return None
    said = message(text)
    if any(case in text for case in _AMBIGUOUS):
        return Rejection("ambiguous", said)
    for case in _DEFINITIVE:
        if case.text in text:
            return Rejection("definitive", said, case.hint, case.option)
    for known, hint in _TRANSIENT.items():
        if known in text:
            return Rejection("transient", said, hint)
    named = (name for name in _OPTION.findall(text) if name in OPTIONS)
    return Rejection("definitive", said, option=next(named, None))


_SUBMIT_LIMIT: Final = re.compile(r"\b(?:QOS|Assoc)[A-Za-z]*Submit[A-Za-z]*Limit\b")
"""The reasons from acct_policy_validate() (src/slurmctld/acct_policy.c), as sbatch prints them."""


def is_submit_limit(stderr: str) -> bool:
    """Return whether sbatch refused because too many jobs or tasks are in the queue.

    >>> is_submit_limit("sbatch: error: QOSMaxSubmitJobPerUserLimit\\nsbatch: error: Batch job …")
    True
    """
    return _SUBMIT_LIMIT.search(stderr) is not None


def is_dependency_problem(stderr: str) -> bool:
    """Return whether sbatch refused a job because of its --dependency."""
    return "Job dependency problem" in stderr


RUNS_ONCE: Final = "Slurm cannot run it again: it was submitted without `--requeue`."
NOT_BATCH: Final = "Slurm requeues only batch jobs; `srun` or `salloc` started this job."


def explain_requeue(stderr: str) -> str | None:
    """Return why Slurm cannot requeue a job, from the output of `scontrol requeue` (_job_requeue_op
    in src/slurmctld/job_mgr.c); None for another error."""
    if "Requested operation is presently disabled" in stderr:
        return RUNS_ONCE
    return NOT_BATCH if "Only batch jobs are accepted" in stderr else None


def refused(stderr: str, ids: Iterable[str]) -> dict[str, str]:
    """Map each job in the errors of scancel or scontrol to its error. Ignore lines without a job,
    such as scontrol's last line.

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
    """Return a command's error without the command's name. A site's text stays unchanged.

    >>> message("sbatch: lua: Name an account.\\nsbatch: error: cli_filter plugin terminated")
    'lua: Name an account.\\ncli_filter plugin terminated'
    """
    lines = (_COMMAND.sub("", line.strip()) for line in text.splitlines())
    return "\n".join(filter(None, lines))
