"""Explain in plain words why a job waits: every reason code of Slurm, and the free texts instead.

`rejections` explains why sbatch refuses, `diagnosis` why a job failed. Slurm shows one reason at a
time, which is not always the only one. Source: job_state_reason.c (job_reason_string() in
slurm_protocol_defs.c up to 24.05) of 20.11 to 26.05; free texts: `state_desc` in src/slurmctld.
"""

import re
from dataclasses import dataclass

from .limit_reasons import explain_limit
from .reason_table import PREFIXES, REASONS, Meaning

_EXIT_SIGNAL = re.compile(r"RaisedSignal:([0-9]+)")


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason in words: `sentence` is the fact, `advice` the remedy.

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
) -> Explanation:
    """Explain a reason of squeue or scontrol; the other arguments make it more concrete.

    `dependency` is squeue's `%E`. Return an unknown reason as it is, with known=False.

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
    if found is None and "," in text:  # an array's tasks may wait for several reasons
        found = _find(text.partition(",")[0])
    if found is not None:
        return Explanation(
            text or "None",
            found.sentence.format_map(words),
            found.advice.format_map(words),
            found.never_starts,
        )
    if match := _EXIT_SIGNAL.match(text):
        ended = f"It was ended by signal {match[1]}."
        return Explanation(text, ended, "Look at the end of its output for the cause.")
    return Explanation(
        text,
        f"Slurm says: {text}." if text else "Slurm gives no reason.",
        "Ask the cluster's support what it means, with the job's id.",
        known=False,
    )


def _find(text: str) -> Meaning | None:
    if meaning := REASONS.get(text or "None"):
        return meaning
    for pattern, meaning in PREFIXES:
        if re.match(pattern, text):
            return meaning
    return explain_limit(text)
