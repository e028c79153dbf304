"""sbatch's options for a job (the profile's defaults, the user's options and our options), and the
resources that they request, in numbers. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.kinds import kind_of
from jupyter_slurm.jobs.kinds.kind import RANKED
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.profiles.table import did_you_mean
from jupyter_slurm.slurm import options as sbatch_options
from jupyter_slurm.slurm import sbatch
from jupyter_slurm.slurm.units import (
    gpus_in_tres,
    gpus_of_option,
    parse_array,
    parse_memory_mib,
    parse_time_s,
)
from jupyter_slurm.wire import JobSpec

_TOKEN = "jslurm:"  # noqa: S105 (a label, not a secret)
"""Prefix of our ID in a job's comment. The comment identifies a job whose Slurm ID was lost."""

_FOR_GPUS = {"cpus-per-gpu": "cpus-per-task", "mem-per-gpu": "mem"}
"""Defaults for GPU jobs, each with the default that replaces it in other jobs. sbatch refuses
memory per GPU without GPUs."""
_GPUS_OF_TASKS = frozenset({"gpus-per-socket", "gpus-per-task"})
_TASKS = ("ntasks", "ntasks-per-node")
"""Defaults that `--launch` replaces with its own number of tasks."""
_OURS = frozenset({"image", "runtime"})
"""Defaults of a profile that are not options of sbatch."""
_ELSEWHERE = {
    "mount": 'Mount a folder in images with `mounts = ["/data:/data:ro"]` in the cluster\'s table.',
    "module": 'Load a module for every job with `modules = ["NAME"]` in the cluster\'s table.',
    "env": "Set a variable for every job in the cluster's table `job_env`.",
}
_SAYS_NODES = frozenset("nodes nodelist nodefile ntasks ntasks-per-gpu spread-job".split())
_SBATCH_ALONE = frozenset(
    "batch chdir kill-on-invalid-dep no-requeue requeue wait-all-nodes".split()
)
"""Options that a shell does not use. Of these, srun accepts only `chdir`, which we set ourselves.
"""
_INTERRUPTS = ("TERM", "INT", "USR1", "USR2")
"""Signals that the runner converts to KeyboardInterrupt."""


def comment_token(job_id: str) -> str:
    return f"{_TOKEN}{job_id}"


def has_token(comment: str) -> bool:
    """Return whether the comment contains our token."""
    return _TOKEN in comment


def slurm_name(name: str, job_id: str) -> str:
    """Return a job's name in Slurm. It contains our ID, since `squeue` and `sacct` find jobs by
    name."""
    return f"{name}.{job_id}"


def merged_options(
    spec: JobSpec, profile: ClusterProfile, directives: Mapping[str, str]
) -> dict[str, str]:
    """Return the profile's defaults, overridden by the spec's options and checked against sbatch's
    table. Raises RequestError.

    Drop a default if the batch script sets the same option (`directives`), because a default on the
    command line would override the script.
    """
    _check_defaults(profile)
    ours = _OURS if spec.launch is None else {*_OURS, *_TASKS}
    defaults = {name: value for name, value in profile.defaults.items() if name not in ours}
    known = sbatch_options.left_of(defaults, {**directives, **spec.options})
    has_gpus = _has_gpus({**known, **directives, **spec.options})
    for with_gpus, without in _FOR_GPUS.items():
        if with_gpus in known:
            known.pop(without if has_gpus else with_gpus, None)
    try:
        merged = {
            name: sbatch_options.check_option(name, value)
            for name, value in {**known, **spec.options}.items()
        }
        sbatch_options.check_together(merged)
    except sbatch_options.OptionError as exc:
        defaults = {one: known[one] for one in (exc.option, *exc.together) if one in known}
        raise RequestError(
            exc.message,
            hint=_of_profile(profile, defaults) if defaults else None,
            option=exc.option,
        ) from exc
    if spec.launch is None and not kind_of(spec).starts_tasks:
        merged |= _one_node(merged)
    return merged


def _one_node(options: Mapping[str, str]) -> dict[str, str]:
    """Return the option for one node if the job uses --gpus and does not set the number of nodes.
    Otherwise Slurm may spread --gpus over nodes, and the code would see only some GPUs."""
    says = not options.keys().isdisjoint(_SAYS_NODES)
    return {"nodes": "1"} if not says and gpus_of_option(options.get("gpus", "")) else {}


def _of_profile(profile: ClusterProfile, defaults: Mapping[str, str]) -> str:
    """Return a message about the profile's defaults, which the user may not know."""
    told = ", ".join(f"`{name} = {value or 'true'}`" for name, value in defaults.items())
    return f"The profile of {profile.name} sets {told}. Override a default with your own option."


def _has_gpus(options: Mapping[str, str]) -> bool:
    return gpus_asked(options) > 0 or not _GPUS_OF_TASKS.isdisjoint(options)


def _check_defaults(profile: ClusterProfile) -> None:
    for name in profile.defaults:
        if name not in _OURS and name not in sbatch_options.OPTIONS:
            known = (*sbatch_options.OPTIONS, *_OURS)
            raise RequestError(
                f"`{name}` in the profile's defaults is not an option of sbatch"
                f"{'.' if name in _ELSEWHERE else did_you_mean(name, known)}",
                hint=_ELSEWHERE.get(name),
                option=name,
            )


def of_script(
    spec: JobSpec, job_dir: JobDir, options: Mapping[str, str], reserve_s: int
) -> tuple[dict[str, str], tuple[str, str] | None]:
    """Return sbatch's options for our script, and the value of `ScriptPlan.signal`. `reserve_s` is
    the number of seconds before the time limit at which files are copied back; 0 for never."""
    wanted = {name: value for name, value in options.items() if name != "chdir"}
    signal = _hand_on(spec, wanted)
    if reserve_s:
        wanted["signal"] = f"B:USR2@{reserve_s}"
    return wanted | _ours(spec, job_dir, wanted), signal


def of_shell(spec: JobSpec, job_dir: JobDir, options: Mapping[str, str]) -> dict[str, str]:
    """Return srun's options for a shell's allocation."""
    wanted = {name: value for name, value in options.items() if name not in _SBATCH_ALONE}
    _refuse_of_scripts(wanted)
    return wanted | _one_node(wanted) | {"job-name": spec.name, "chdir": str(job_dir.path)}


def _refuse_of_scripts(options: Mapping[str, str]) -> None:
    """Raise RequestError for an option that this kind of job does not accept."""
    for name in options:
        instead = sbatch_options.OPTIONS[name].not_in_cell
        if name == "job-name":
            instead = "Set the job's name with `--name NAME`."
        if name == "array":
            instead = "Use a Python cell in a notebook, or a batch script (`#!/bin/bash`)."
        if instead is not None:
            raise RequestError(
                f"`--{name}` cannot be used for this job.", hint=instead, option=name
            )


def _ours(spec: JobSpec, job_dir: JobDir, options: Mapping[str, str]) -> dict[str, str]:
    _refuse_of_scripts(options)
    ours = {
        "job-name": slurm_name(spec.name, spec.id),
        "comment": comment(spec, options.get("comment")),
        "chdir": str(job_dir.path),
        "output": sbatch.literal_path(str(job_dir.slurm_out)),
        "open-mode": "append",
    }
    if "requeue" not in options:
        # A cell that appends to a file must not run twice without the user's permission.
        ours["no-requeue"] = ""
    if spec.launch not in (None, *RANKED) and not {"no-kill", "requeue"} & {*options}:
        # Slurm ends or requeues a job that loses a node (sbatch(1)). These engines continue on the
        # other nodes.
        ours["no-kill"] = ""
    return ours


def array_option(tasks: str, max_running: int | None) -> str:
    """Return the value of --array for these indices.

    >>> array_option("0-9", 4)
    '0-9%4'
    """
    return tasks if max_running is None else f"{tasks}%{max_running}"


def comment(spec: JobSpec, given: str | None) -> str:
    """Append the user's comment to our token as a separate word."""
    return " ".join(filter(None, (comment_token(spec.id), given)))


def _hand_on(spec: JobSpec, options: dict[str, str]) -> tuple[str, str] | None:
    """Rewrite `--signal` so that the signal reaches the batch script (`B:`), which forwards it.
    Without `B:`, only srun's steps get the signal (sbatch(1)). Return the value of
    `ScriptPlan.signal`."""
    value = options.get("signal")
    if not value:
        return None
    flags, _, rest = value.rpartition(":")
    name, at, time = rest.partition("@")
    if "B" not in flags:
        options["signal"] = f"{'R' if 'R' in flags else ''}B:{name}{at}{time}"
    name = name.removeprefix("SIG")
    if kind_of(spec).uses_runner and name not in _INTERRUPTS:
        return name, "USR1"
    return name, name


@dataclass(frozen=True, slots=True)
class Resources:
    partitions: tuple[str, ...] = ()
    """The partitions that Slurm chooses from; () for Slurm's default."""
    limit_s: float | None = None
    """The time limit; math.inf for no limit, None for the partition's default."""
    nodes: int = 1
    """The minimum number of nodes."""
    tasks: int = 1
    """The number of tasks on all nodes, regardless of `--ntasks-per-gpu`."""
    cpus: int = 1
    """The CPUs on all nodes."""
    cpus_per_node: int = 1
    memory_per_node_mib: int | None = None
    """The memory on each node; None for the site's default, 0 for all memory of the node."""
    gpus: int = 0
    """The GPUs on all nodes."""
    gpus_per_node: int = 0
    """The GPUs on each node; 0 for none or if Slurm chooses the number."""
    exclusive: bool = False
    tasks_of_array: int = 1


def gpus_asked(options: Mapping[str, str]) -> int:
    """Return the number of GPUs that the options request. Slurm later reports the number that it
    allocated."""
    if "gpus" in options:
        return gpus_of_option(options["gpus"])
    nodes, _ = _nodes(options)
    if "gpus-per-node" in options:
        return nodes * gpus_of_option(options["gpus-per-node"])
    if per_task := _gpus_per_task(options):
        return _tasks(options, nodes) * per_task
    return nodes * gpus_in_tres(options.get("gres", ""))


def resources_of(options: Mapping[str, str]) -> Resources:
    """Return the resources that the options request. `slurm.options.check_option` has normalised
    the options. Leave Slurm's own choices open, such as the number of nodes for `--gpus 8`."""
    nodes, is_open = _nodes(options)
    per_node = _tasks_per_node(options, nodes)
    cpus_per_task = _number(options.get("cpus-per-task"), 1)
    gpus_per_node = _gpus_per_node(options, nodes, per_node, is_open=is_open)
    cpus_per_node = max(
        per_node * cpus_per_task,
        gpus_per_node * _number(options.get("cpus-per-gpu"), 0),
        _number(options.get("mincpus"), 1),
    )
    tasks = _tasks(options, nodes)
    return Resources(
        partitions=tuple(filter(None, options.get("partition", "").split(","))),
        limit_s=_limit_s(options.get("time")),
        nodes=nodes,
        tasks=tasks,
        cpus=max(tasks * cpus_per_task, nodes, cpus_per_node),
        cpus_per_node=cpus_per_node,
        memory_per_node_mib=_memory_mib(options, cpus_per_node, gpus_per_node),
        gpus=gpus_asked(options),
        gpus_per_node=gpus_per_node,
        exclusive=options.get("exclusive") in ("", "exclusive"),
        tasks_of_array=len(parse_array(options["array"])[0]) if options.get("array") else 1,
    )


def _nodes(options: Mapping[str, str]) -> tuple[int, bool]:
    """Return the minimum number of nodes, and True if no option sets it."""
    if match := re.match(r"[0-9]+", options.get("nodes", "")):
        return int(match[0]), False
    tasks, per_node = options.get("ntasks"), options.get("ntasks-per-node")
    if tasks and per_node:
        return math.ceil(_number(tasks, 1) / max(1, _number(per_node, 1))), False
    return 1, True


def _tasks(options: Mapping[str, str], nodes: int) -> int:
    """Return the number of tasks on all nodes."""
    return _number(options.get("ntasks"), nodes * _number(options.get("ntasks-per-node"), 1))


def _tasks_per_node(options: Mapping[str, str], nodes: int) -> int:
    """Return the minimum number of tasks on the fullest node."""
    if "ntasks-per-node" in options:
        return _number(options["ntasks-per-node"], 1)
    if "nodes" not in options:
        return 1
    return math.ceil(_number(options.get("ntasks"), nodes) / nodes)


def _gpus_per_node(
    options: Mapping[str, str], nodes: int, tasks_per_node: int, *, is_open: bool
) -> int:
    if "gpus-per-node" in options:
        return gpus_of_option(options["gpus-per-node"])
    if count := gpus_in_tres(options.get("gres", "")):
        return count
    if per_task := _gpus_per_task(options):
        return tasks_per_node * per_task
    if "gpus" in options and not is_open:
        return math.ceil(gpus_of_option(options["gpus"]) / nodes)
    return 0


def _gpus_per_task(options: Mapping[str, str]) -> int:
    per_task = gpus_of_option(options.get("gpus-per-task", ""))
    return per_task or gpus_in_tres(options.get("tres-per-task", ""))


def _memory_mib(options: Mapping[str, str], cpus_per_node: int, gpus_per_node: int) -> int | None:
    if "mem" in options:
        return parse_memory_mib(options["mem"])
    if "mem-per-cpu" in options:
        return cpus_per_node * parse_memory_mib(options["mem-per-cpu"])
    if "mem-per-gpu" in options and gpus_per_node:
        return gpus_per_node * parse_memory_mib(options["mem-per-gpu"])
    return None


def _limit_s(text: str | None) -> float | None:
    if text is None:
        return None
    seconds = parse_time_s(text)
    # To Slurm, 0 means the partition's limit (sbatch(1), --time).
    return seconds or math.inf


def _number(text: str | None, otherwise: int) -> int:
    """Return the number, or the lower end of a range; `otherwise` without a number."""
    match = re.match(r"[0-9]+", text or "")
    return int(match[0]) if match else otherwise
