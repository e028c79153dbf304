"""Why a job waits, in plain words: every reason code of Slurm, and the free texts in its place.

Why sbatch refuses is in `rejections`, why a job failed in `diagnosis`. Slurm shows one reason at a
time, which is not always the only one. Source: job_state_reason.c (job_reason_string() in
slurm_protocol_defs.c up to 24.05) of 20.11 to 26.05; free texts: `state_desc` in src/slurmctld.
"""

import re
from dataclasses import dataclass, replace

from .limit_reasons import explain_limit
from .reason_table import PREFIXES, REASONS, Entry

_EXIT_SIGNAL = re.compile(r"RaisedSignal:([0-9]+)")


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason in words: `sentence` says what is so, `advice` what one can do.

    `never_starts`: it will not start without a change, so offer to cancel. `known`: False where
    the sentence is only Slurm's own text. `code`: Slurm's word, or the diagnosis' stable name.
    `suggested`: what a job has written points to it, and no more.
    """

    code: str
    sentence: str
    advice: str
    never_starts: bool = False
    known: bool = True
    suggested: bool = False


def explain(
    reason: str,
    *,
    job_id: str | None = None,
    partition: str | None = None,
    qos: str | None = None,
    account: str | None = None,
    dependency: str | None = None,
    time_limit: str | None = None,
    partition_limit: str | None = None,
) -> Explanation:
    """Explain a reason of squeue or scontrol; whatever else is known makes it more concrete.

    `dependency` is squeue's `%E`; `time_limit` and `partition_limit` are Slurm's texts. A reason
    that is not known is given back as it is, with known=False.

    >>> explain("Dependency", dependency="afterok:12").sentence
    'It waits for another job (afterok:12).'
    """
    text = reason.strip().strip("()")
    words = {
        "job": job_id or "JOBID",
        "the_partition": f"the partition {partition}" if partition else "the partition",
        "the_qos": f"the QOS {qos}" if qos else "the QOS",
        "the_account": f"the account {account}" if account else "the account",
        "which_job": f" ({dependency})" if dependency else "",
        "its_time": f" of {time_limit}" if time_limit else "",
        "the_limit": f" of {partition_limit}" if partition_limit else "",
    }
    found = _find(text)
    if found is not None:
        code, entry = found
        return Explanation(
            code,
            _sentence(entry.sentence.format_map(words)),
            entry.advice.format_map(words),
            entry.never_starts,
        )
    first, comma, _ = text.partition(",")
    if comma:  # an array's tasks may wait for several reasons
        known = explain(
            first,
            job_id=job_id,
            partition=partition,
            qos=qos,
            account=account,
            dependency=dependency,
            time_limit=time_limit,
            partition_limit=partition_limit,
        )
        if known.known:
            return replace(known, code=text)
    return Explanation(
        text,
        f"Slurm says: {text}." if text else "Slurm gives no reason.",
        "Ask the cluster's support what it means, with the job's id.",
        known=False,
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _find(text: str) -> tuple[str, Entry] | None:
    if entry := REASONS.get(text or "None"):
        return text or "None", entry
    for pattern, entry in PREFIXES:
        if re.match(pattern, text):
            return text, entry
    if entry := explain_limit(text):
        return text, entry
    if match := _EXIT_SIGNAL.match(text):
        return text, Entry(
            f"It was ended by signal {match[1]}.", "Look at the end of its output for the cause."
        )
    return None
