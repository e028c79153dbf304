"""PURE: the resources that sbatch options request, in numbers.

Only what the options fix. Slurm's own choices (the number of nodes for `--gpus 8`) stay open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_slurm.slurm.units import (
    gpus_in_tres,
    gpus_of_option,
    parse_array,
    parse_memory_mib,
    parse_time_s,
)

_ONE_NODE = 1


@dataclass(frozen=True, slots=True)
class Resources:
    partitions: tuple[str, ...] = ()
    """Alternatives; (): Slurm's default."""
    limit_s: float | None = None
    """math.inf: no limit; None: the partition's default."""
    nodes: int = 1
    """The minimum."""
    tasks: int = 1
    """On all nodes, without the factor of `--ntasks-per-gpu`."""
    cpus: int = 1
    """On all nodes."""
    cpus_per_node: int = 1
    memory_per_node_mib: int | None = None
    """None: the site's default; 0: all memory of the node."""
    gpus: int = 0
    """On all nodes."""
    gpus_per_node: int = 0
    """0: none, or chosen by Slurm."""
    exclusive: bool = False
    tasks_of_array: int = 1


def resources_of(options: Mapping[str, str]) -> Resources:
    """Sum up options normalised by `slurm.options.check_option`."""
    nodes, is_open = _nodes(options)
    per_node = _tasks_per_node(options, nodes)
    cpus_per_task = _number(options.get("cpus-per-task"), 1)
    gpus_per_node = _gpus_per_node(options, nodes, per_node, is_open=is_open)
    cpus_per_node = max(
        per_node * cpus_per_task,
        gpus_per_node * _number(options.get("cpus-per-gpu"), 0),
        _number(options.get("mincpus"), 1),
    )
    tasks = _number(options.get("ntasks"), nodes * _number(options.get("ntasks-per-node"), 1))
    return Resources(
        partitions=tuple(filter(None, options.get("partition", "").split(","))),
        limit_s=_limit_s(options.get("time")),
        nodes=nodes,
        tasks=tasks,
        cpus=max(tasks * cpus_per_task, nodes, cpus_per_node),
        cpus_per_node=cpus_per_node,
        memory_per_node_mib=_memory_mib(options, cpus_per_node, gpus_per_node),
        gpus=max(nodes * gpus_per_node, gpus_of_option(options.get("gpus", ""))),
        gpus_per_node=gpus_per_node,
        exclusive=options.get("exclusive") in ("", "exclusive"),
        tasks_of_array=len(parse_array(options["array"])[0]) if options.get("array") else 1,
    )


def _nodes(options: Mapping[str, str]) -> tuple[int, bool]:
    """Return the minimum number of nodes, and whether no option sets it."""
    if match := re.match(r"[0-9]+", options.get("nodes", "")):
        return int(match[0]), False
    tasks, per_node = options.get("ntasks"), options.get("ntasks-per-node")
    if tasks and per_node:
        return math.ceil(int(tasks) / int(per_node)), False
    return _ONE_NODE, True


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
    if per_task := (
        gpus_of_option(options.get("gpus-per-task", ""))
        or gpus_in_tres(options.get("tres-per-task", ""))
    ):
        return tasks_per_node * per_task
    if "gpus" in options and not is_open:
        return math.ceil(gpus_of_option(options["gpus"]) / nodes)
    return 0


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
    # For Slurm 0 means the partition's limit (sbatch(1), --time).
    return seconds or math.inf


def _number(text: str | None, otherwise: int) -> int:
    """Return the number, or the lower end of a range."""
    match = re.match(r"[0-9]+", text or "")
    return int(match[0]) if match else otherwise
