"""scontrol: one job in full, the controller's configuration, and changes to a job.

The module uses the text forms, because scontrol has --json only since 23.02.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from .fields import decode, lines, optional, optional_int, optional_text
from .rejections import NOT_BATCH, RUNS_ONCE
from .states import parse_state
from .units import (
    format_time,
    gpus_in_tres,
    parse_duration_s,
    parse_epoch,
    parse_exit,
    parse_nodelist,
    parse_time_s,
    parse_tres,
)

UpdateVerb = Literal["hold", "uhold", "release", "requeue", "requeuehold"]

# A record is `Key=value Key=value`, unquoted, keys in the order of src/api/job_info.c. Values may
# contain anything, so the record is cut in three: the part up to the job's name, Slurm's own text,
# and the user's text, starting at Command.
_RECORD_START = re.compile(
    r"^(?=JobId=[0-9]+ (?:ArrayJobId=|HetJobId=|JobName=|SLUID=))", re.MULTILINE
)
_NAME = re.compile(
    r" ?JobName=(?P<name>.*?)(?P<ids>(?: (?:HetJobIdSet|SLUID)=\S++)*+)"
    r"(?= UserId=[^ ]*\([0-9]+\) GroupId=[^ ]*\([0-9]+\) )",
    re.DOTALL,
)
_KEY = re.compile(r"(?:^|(?<! ) +)([A-Z][A-Za-z0-9/:_]*)=")
_USER_TEXT = re.compile(
    r"(?<! ) +(Command|SubmitLine|WorkDir|AdminComment|SystemComment|Comment|Extra"
    r"|Container|ContainerID|StdErr|StdIn|StdOut|Switches|BurstBuffer|BurstBufferState|Power"
    r"|GresEnforceBind|KillOInInvalidDependent|SpreadJob|CpusPerTres|MemPerTres|TresBind|TresFreq"
    r"|TresPerJob|TresPerNode|TresPerSocket|TresPerTask|NtasksPerTRES|MailUser|MailType"
    r"|SelinuxContext|StepMgrEnabled)[=:]"
)

NO_TASK = "4294967294"
"""Slurm's array index for waiting tasks, and for jobs that are not arrays."""
_PATTERN = re.compile(r"%(?P<width>[0-9]{0,2})(?P<letter>[AajNntux%])")
"""A pattern in sbatch's --output."""


@dataclass(frozen=True, slots=True)
class ControlRow:
    """A job in slurmctld; None means "not set". `fields` contains every key as printed. `requeues`
    is Slurm's Restarts. `exit_code` and `exit_signal` describe the batch script; both are 0 while
    it runs. `tres` has memory in MiB. In the paths `stdout` and `stderr`, all of Slurm's %-patterns
    are replaced, including those that only slurmstepd replaces."""

    slurm_id: str
    array_task_id: str | None
    name: str
    state: str
    requeues: int
    exit_code: int | None
    exit_signal: int | None
    limit_s: float | None
    submit_s: float | None
    end_s: float | None
    nodelist: str | None
    cpus: int | None
    tres: Mapping[str, float]
    stdout: str | None
    stderr: str | None
    comment: str | None
    fields: Mapping[str, str]

    @property
    def no_requeue(self) -> str | None:
        """Return why `scontrol requeue` would refuse the running job; None if it would not."""
        if self.fields.get("BatchFlag") == "0":
            return NOT_BATCH
        return RUNS_ONCE if self.fields.get("Requeue") == "0" else None

    def unasked_gpus(self, node: str) -> int:
        """Count the GPUs that the job has on this node without a request, because it has the whole
        node. Return 0 if unknown (before 20.11)."""
        asked = [value for key, value in self.fields.items() if key.startswith("TresPer")]
        if any("gpu" in value for value in asked):
            return 0
        try:
            is_there = node in parse_nodelist(self.fields.get("Nodes", ""))
        except ValueError:
            return 0
        return gpus_in_tres(self.fields.get("GRES", "")) if is_there else 0


def job_argv(slurm_id: str) -> list[str]:
    """Return the argv that queries a job, or all tasks of an array, one line each.

    `-d` also prints DerivedExitCode and the job's GPUs on each node (src/api/job_info.c).
    """
    return ["scontrol", "show", "job", "-d", "-o", slurm_id]


def config_argv() -> list[str]:
    """Return the argv that queries the controller's configuration, once per session."""
    return ["scontrol", "show", "config"]


def update_argv(verb: UpdateVerb, ids: Iterable[str]) -> list[str]:
    """Return the argv that holds, releases or requeues jobs. `uhold` is a hold that the job's owner
    can release."""
    return ["scontrol", verb, ",".join(ids)]


def time_limit_argv(slurm_id: str, limit: str) -> list[str]:
    """Return the argv that sets a job's time limit to `limit`, in a form of sbatch's --time or like
    `2h`. A `limit` with `+` or `-` is added to the time limit or subtracted from it (scontrol(1),
    TimeLimit). Raise ValueError if `limit` is not a time.

    >>> time_limit_argv("12", "+1h"), time_limit_argv("12", "90")[-1]
    (['scontrol', 'update', 'JobId=12', 'TimeLimit=+01:00:00'], 'TimeLimit=01:30:00')
    """
    sign = limit[:1] if limit[:1] in ("+", "-") else ""
    seconds = parse_time_s(limit.removeprefix(sign))
    if not seconds and (sign or seconds is not None):
        raise ValueError(f"`{limit}` is not a change of a time limit, such as +30m")
    return ["scontrol", "update", f"JobId={slurm_id}", f"TimeLimit={sign}{format_time(seconds)}"]


def is_denied(stderr: str) -> bool:
    """Return whether Slurm denied the change to this user. Only operators and administrators are
    allowed to raise a time limit; a job's owner can only lower it (_update_job in
    src/slurmctld/job_mgr.c, all releases)."""
    return "Access/permission denied" in stderr


def is_unknown_job(stderr: str) -> bool:
    """Return whether the controller has forgotten the job, or never knew it. It forgets jobs
    MinJobAge seconds after their end.
    """
    return "Invalid job id specified" in stderr


def parse_jobs(output: str | bytes) -> list[ControlRow]:
    """Parse the jobs of job_argv."""
    pieces = (piece.rstrip("\n") for piece in _RECORD_START.split(decode(output)))
    return [_row(_cut(piece)) for piece in pieces if piece.startswith("JobId=")]


def parse_config(output: str | bytes) -> dict[str, str]:
    """Return the values by key. Lists within a value are unchanged, and `(null)` becomes "".

    `SLURM_VERSION`, `MinJobAge` (`300 sec`), `KillWait`, `AccountingStorageType`, `ClusterName` and
    `MaxArraySize` are in every release.
    """
    settings: dict[str, str] = {}
    for line in lines(output):
        key, equals, value = line.partition("=")
        if equals and key.strip() and " " not in key.strip():
            text = value.strip()
            settings.setdefault(key.strip(), "" if text in ("(null)", "(none)") else text)
    return settings


def _cut(record: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    head, rest = record, ""
    if match := _NAME.search(record):
        head, rest = record[: match.start()], record[match.end() :]
        fields |= _pairs(_KEY, match["ids"]) | {"JobName": match["name"]}
    middle, tail = rest, ""
    if match := re.search(r"(?<! ) +(?=Command=| WorkDir=)", rest):
        middle, tail = rest[: match.start()], rest[match.start() :]
    return _pairs(_KEY, head) | fields | _pairs(_KEY, middle) | _pairs(_USER_TEXT, tail)


def _pairs(key: re.Pattern[str], text: str) -> dict[str, str]:
    matches = list(key.finditer(text))
    ends = [*(match.start() for match in matches[1:]), len(text)]
    return {
        match[1]: text[match.end() : end].rstrip(" ")
        for match, end in zip(matches, ends, strict=False)  # no match, so the text has no key
    }


def _row(fields: Mapping[str, str]) -> ControlRow:
    code, signal = parse_exit(fields.get("ExitCode", "")) or (None, None)
    return ControlRow(
        slurm_id=fields["JobId"],
        array_task_id=optional(fields.get("ArrayTaskId", "")),
        name=fields.get("JobName", ""),
        state=parse_state(fields.get("JobState", "")),
        requeues=optional_int(fields.get("Restarts", "")) or 0,
        exit_code=code,
        exit_signal=signal,
        limit_s=parse_duration_s(fields.get("TimeLimit", "")),
        submit_s=parse_epoch(fields.get("SubmitTime", "")),
        end_s=parse_epoch(fields.get("EndTime", "")),
        nodelist=optional(fields.get("NodeList", "")),
        cpus=_first_int(fields.get("NumCPUs", "")),
        tres=MappingProxyType(parse_tres(fields.get("AllocTRES") or fields.get("TRES", ""))),
        stdout=_filled(fields, "StdOut"),
        stderr=_filled(fields, "StdErr"),
        comment=optional_text(fields.get("Comment", "")),
        fields=MappingProxyType(dict(fields)),
    )


def fill_in(path: str, values: Mapping[str, str]) -> str | None:
    """Replace sbatch's patterns; return None if a value is missing.

    >>> fill_in("%03a %x 100%%", {"a": "7", "x": "fit"})
    '007 fit 100%'
    """
    known = {"%": "%", **values}
    if any(match["letter"] not in known for match in _PATTERN.finditer(path)):
        return None

    def filled(match: re.Match[str]) -> str:
        value = known[match["letter"]]
        return value.zfill(int(match["width"] or 0)) if value.isdecimal() else value

    return _PATTERN.sub(filled, path)


def output_pattern(fields: Mapping[str, str], stream: str = "StdOut") -> str | None:
    """Return the path in `StdOut` or `StdErr` as a pattern for `fill_in`; None if not set. A `%` in
    the job's folder is literal."""
    path = optional(fields.get(stream, ""))
    folder = fields.get("WorkDir", "").rstrip("/") + "/"
    if path is None or not path.startswith(folder):
        return path
    return folder.replace("%", "%%") + path.removeprefix(folder)


def _filled(fields: Mapping[str, str], stream: str) -> str | None:
    path = output_pattern(fields, stream)
    if path is None:
        return None
    slurm_id, task = fields["JobId"], fields.get("ArrayTaskId", "")
    values = {
        "j": slurm_id,
        "A": fields.get("ArrayJobId", slurm_id),
        "a": task if task.isdecimal() else NO_TASK,
        "n": "0",
        "t": "0",
        "u": fields.get("UserId", "").partition("(")[0],
        "x": fields.get("JobName", ""),
    }
    if host := optional(fields.get("BatchHost", "")):
        values["N"] = host.partition(".")[0]
    return fill_in(path, values) or fields[stream]


def _first_int(text: str) -> int | None:
    """Return the number; None if it is not set. For the range of a waiting job (`2-4`), return the
    lower end."""
    return optional_int(text.partition("-")[0])
