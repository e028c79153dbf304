"""sacct: accounting records of jobs and steps, and a job's efficiency.

sacct needs slurmdbd, which may be missing (`is_disabled`) or lag by minutes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .fields import FIELD_END, optional, optional_int, split_lines
from .states import cancelled_by, parse_state
from .units import (
    gpus_in_tres,
    parse_duration_s,
    parse_epoch,
    parse_exit,
    parse_memory_mib,
    parse_tres,
)

# JobName comes last, because the user chose it, and it may contain a newline.
_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "JobID",
        "raw_id": "JobIDRaw",
        "state": "State",
        "exit": "ExitCode",
        "derived_exit": "DerivedExitCode",
        "submit": "Submit",
        "eligible": "Eligible",
        "start": "Start",
        "end": "End",
        "elapsed": "ElapsedRaw",
        "limit_minutes": "TimelimitRaw",
        "cpus": "AllocCPUS",
        "nodes": "NNodes",
        "tasks": "NTasks",
        "cpu_time": "TotalCPU",
        "max_rss": "MaxRSS",
        "used_tres": "TRESUsageInTot",
        "requested": "ReqMem",
        "requested_tres": "ReqTRES",
        "allocated_tres": "AllocTRES",
        "partition": "Partition",
        "qos": "QOS",
        "account": "Account",
        "user": "User",
        "nodelist": "NodeList",
        "name": "JobName",
    }
)
_SPENT_FIELDS: Final = ("User", "Account", "Partition", "ElapsedRaw", "AllocTRES")
_ONE_TIME: Final = ("sacct", "-n", "-P", "-D", "--units=K", f"--delimiter={FIELD_END}")
_REQUESTED = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?[KMGTP]?)([cn]?)")


@dataclass(frozen=True, slots=True)
class AcctRow:
    """A job (`step` is None) or one of its steps (`batch`, `extern`, `0` …). None means not
    recorded. `exit_code` is as sacct prints it. `limit_s` is None for no limit. `max_rss_mib` is
    the largest task's peak, and `used_memory_mib` is the sum of the tasks' peaks. Sampling (every
    JobAcctGatherFrequency, 30 s by default) misses short peaks. `requested_mib` is for the whole
    job. TRES have memory in MiB."""

    slurm_id: str
    raw_id: str
    step: str | None
    state: str
    cancelled_by: int | None
    exit_code: int | None
    exit_signal: int | None
    submit_s: float | None
    start_s: float | None
    end_s: float | None
    elapsed_s: float | None
    limit_s: float | None
    alloc_cpus: int | None
    node_count: int | None
    cpu_time_s: float | None
    max_rss_mib: float | None
    used_memory_mib: float | None
    requested_mib: float | None
    requested_tres: Mapping[str, float]
    allocated_tres: Mapping[str, float]
    gpus: int
    partition: str | None
    qos: str | None
    account: str | None
    user: str | None
    nodelist: str | None
    name: str


@dataclass(frozen=True, slots=True)
class SpentRow:
    """Resources allocated to a job in the requested time; memory in TRES is in MiB."""

    user: str
    account: str
    partition: str
    elapsed_s: int
    tres: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Usage:
    """A job's use of its allocation. `cpu_efficiency` is 0 to 1, or None without samples. It
    excludes work in a container that an engine runs outside the job (docker).
    """

    elapsed_s: float
    cpu_efficiency: float | None
    peak_memory_mib: float | None
    requested_memory_mib: float | None
    cpus: int
    gpus: int


def argv(ids: Iterable[str]) -> list[str]:
    """Return the argv that queries jobs by ID with their steps, including every attempt of a
    requeued job."""
    return [*_ONE_TIME, "-o", ",".join(_FIELDS.values()), "-j", ",".join(ids)]


def names_argv(user: str, names: Iterable[str], since_s: float) -> list[str]:
    """Return the argv that queries a user's jobs by name since a time (UTC epoch seconds).

    The argv names the user, because sacct shows an operator all users' jobs, and any user may
    choose these names.

    `uts` is epoch seconds (parse_time() in src/common/parse_time.c), so the cluster's time zone
    does not matter. Raise ValueError for a name with a comma.
    """
    wanted = list(names)
    if any("," in name or not name for name in wanted):
        raise ValueError("a job name to look up must not be empty or contain a comma")
    return [*_since_argv(since_s), "-u", user, f"--name={','.join(wanted)}"]


def mine_argv(user: str, since_s: float) -> list[str]:
    """Return the argv that queries a user's jobs since a time (UTC epoch seconds), without
    steps."""
    return [*_since_argv(since_s), "-X", "-u", user]


def spent_argv(user: str, accounts: Iterable[str], since_s: float) -> list[str]:
    """Return the argv that queries the allocations of these accounts' jobs since a time, for all
    visible users. Without accounts, query the allocations of the user's jobs. `-T` excludes
    usage before that time."""
    named = ",".join(accounts)
    whose = ["-a", "-A", named] if named else ["-u", user]
    fields = ",".join(_SPENT_FIELDS)
    return [*_ONE_TIME, "-X", "-T", *whose, "-S", f"uts{int(since_s)}", "-o", fields]


def parse_spent(output: str | bytes) -> list[SpentRow]:
    """Parse the rows of spent_argv."""
    return [
        SpentRow(
            user=field["User"],
            account=field["Account"],
            partition=field["Partition"],
            elapsed_s=optional_int(field["ElapsedRaw"]) or 0,
            tres=MappingProxyType(parse_tres(field["AllocTRES"])),
        )
        for field in split_lines(output, _SPENT_FIELDS)
    ]


def _since_argv(since_s: float) -> list[str]:
    return [*_ONE_TIME, "-o", ",".join(_FIELDS.values()), "-S", f"uts{int(since_s)}"]


def is_disabled(stderr: str) -> bool:
    """Return whether sacct failed because the site lacks accounting."""
    return "Slurm accounting storage is disabled" in stderr


def parse(output: str | bytes) -> list[AcctRow]:
    """Parse the output of argv, names_argv and mine_argv, each job before its steps."""
    return [_row(field) for field in split_lines(output, tuple(_FIELDS))]


def parse_fields(output: str | bytes) -> list[dict[str, str]]:
    """Return the records under sacct's field names, as printed."""
    return [
        {_FIELDS[name]: value for name, value in field.items()}
        for field in split_lines(output, tuple(_FIELDS))
    ]


def summarise(rows: Sequence[AcctRow]) -> Usage | None:
    """Sum up a job's usage from its `rows` and those of its steps. Use the last of several
    attempts. Return None if the job itself has no row."""
    jobs = [index for index, row in enumerate(rows) if row.step is None]
    if not jobs:
        return None
    job, steps = rows[jobs[-1]], rows[jobs[-1] + 1 :]
    elapsed_s = job.elapsed_s or 0.0
    return Usage(
        elapsed_s=elapsed_s,
        cpu_efficiency=_cpu_efficiency(job, steps),
        peak_memory_mib=_peak_memory_mib(steps),
        requested_memory_mib=job.allocated_tres.get("mem")
        or job.requested_tres.get("mem")
        or job.requested_mib,
        cpus=job.alloc_cpus or 0,
        gpus=job.gpus,
    )


def _cpu_efficiency(job: AcctRow, steps: Sequence[AcctRow]) -> float | None:
    held_s = (job.elapsed_s or 0.0) * (job.alloc_cpus or 0)
    used = [row.cpu_time_s for row in steps if row.step != "extern" and row.cpu_time_s is not None]
    if not held_s or not used:
        return None
    return min(1.0, sum(used) / held_s)


def _peak_memory_mib(steps: Sequence[AcctRow]) -> float | None:
    peaks = [
        peak for row in steps for peak in (row.used_memory_mib, row.max_rss_mib) if peak is not None
    ]
    return max(peaks, default=None)


def _row(field: Mapping[str, str]) -> AcctRow:
    slurm_id, _, step = field["id"].partition(".")
    code, signal = parse_exit(field["exit"]) or (None, None)
    cpus, nodes = optional_int(field["cpus"]), optional_int(field["nodes"])
    minutes = optional_int(field["limit_minutes"])
    return AcctRow(
        slurm_id=slurm_id,
        raw_id=field["raw_id"].partition(".")[0],
        step=step or None,
        state=parse_state(field["state"]),
        cancelled_by=cancelled_by(field["state"]),
        exit_code=code,
        exit_signal=signal,
        submit_s=parse_epoch(field["submit"]),
        start_s=parse_epoch(field["start"]),
        end_s=parse_epoch(field["end"]),
        elapsed_s=optional_int(field["elapsed"]),
        limit_s=None if minutes is None else minutes * 60.0,
        alloc_cpus=cpus,
        node_count=nodes,
        cpu_time_s=parse_duration_s(field["cpu_time"]),
        max_rss_mib=parse_tres(f"mem={field['max_rss']}").get("mem"),
        used_memory_mib=parse_tres(field["used_tres"]).get("mem"),
        requested_mib=_requested_mib(field["requested"], cpus or 1, nodes or 1),
        requested_tres=MappingProxyType(parse_tres(field["requested_tres"])),
        allocated_tres=MappingProxyType(parse_tres(field["allocated_tres"])),
        gpus=gpus_in_tres(field["allocated_tres"]),
        partition=optional(field["partition"]),
        qos=optional(field["qos"]),
        account=optional(field["account"]),
        user=optional(field["user"]),
        nodelist=optional(field["nodelist"]),
        name=field["name"],
    )


def _requested_mib(text: str, cpus: int, nodes: int) -> float | None:
    """Parse ReqMem. Return MiB for the whole job; None if malformed. In releases before 21.08,
    `4Gc` is per CPU and `4Gn` is per node."""
    match = _REQUESTED.fullmatch(text.strip())
    if match is None:
        return None
    amount = parse_memory_mib(match[1])
    return float(amount * {"c": cpus, "n": nodes, "": 1}[match[2]])
