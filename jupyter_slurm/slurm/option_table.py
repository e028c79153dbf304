"""The table of sbatch's options, 20.11 to 26.05: name, short form, kind of value, one line of
help. `options` reads and checks values. Source: src/common/slurm_opt.c at the last tag of each
release (`since` is the first release with the option, `until` is the first without it) and
sbatch(1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .versions import SlurmVersion


@dataclass(frozen=True, slots=True)
class Option:
    """An option. `kind`: `flag` for an option without a value, or `text` for an option with any
    value; `options` checks the other kinds. `value_optional`: `--name` alone is also valid.
    `reserved`: the reason why users cannot use it, or None. `choices`: the valid words for the
    kinds `choice` and `choices`. `not_in_cell`: a hint if only batch scripts may use it."""

    name: str
    short: str | None
    kind: str
    help: str
    since: SlurmVersion | None = None
    until: SlurmVersion | None = None
    reserved: str | None = None
    choices: tuple[str, ...] = ()
    value_optional: bool = False
    not_in_cell: str | None = None


ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"tasks-per-node": "ntasks-per-node", "cluster": "clusters"}
)
"""Alternative long names of an option."""

_21_08: Final = SlurmVersion(21, 8, 0)
_22_05: Final = SlurmVersion(22, 5, 0)
_23_02: Final = SlurmVersion(23, 2, 0)
_23_11: Final = SlurmVersion(23, 11, 0)
_24_05: Final = SlurmVersion(24, 5, 0)
_24_11: Final = SlurmVersion(24, 11, 0)
_25_05: Final = SlurmVersion(25, 5, 0)
_25_11: Final = SlurmVersion(25, 11, 0)
_26_05: Final = SlurmVersion(26, 5, 0)

_ANSWER: Final = "sbatch's output is parsed, so its format is fixed."
_NO_JOB: Final = "it makes sbatch print something instead of submitting a job."

_OUTPUT: Final = "The cell shows the output, and the job's log contains all of it."
_CONTAINER: Final = "`--image NAME` runs the cell in a container."

_GRES_FLAGS: Final = tuple(
    "disable-binding enforce-binding one-task-per-sharing multiple-tasks-per-sharing"
    " allow-task-sharing".split()
)
_MAIL: Final = tuple(
    "NONE BEGIN END FAIL REQUEUE ALL INVALID_DEPEND STAGE_OUT TIME_LIMIT TIME_LIMIT_90"
    " TIME_LIMIT_80 TIME_LIMIT_50 ARRAY_TASKS".split()
)
_LIMITS: Final = tuple("ALL NONE AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK".split())

_TABLE: Final = (
    Option("account", "A", "text", "account that pays for the job"),
    Option("acctg-freq", None, "text", "sampling interval of resource usage, in seconds (task=10)"),
    Option(
        "array",
        "a",
        "array",
        "run once for each index: 0-15, 1,3,7, 1-8%4 (four at a time)",
    ),
    Option("autocomplete", None, "text", "complete an option", _23_02, reserved=_NO_JOB),
    Option("batch", None, "text", "features of the node that runs the batch script"),
    Option("bb", None, "text", "burst buffer to request"),
    Option("bbf", None, "text", "file that describes the burst buffer"),
    Option("begin", "b", "text", "earliest start: 16:00, now+1hour, 2026-01-20T12:34"),
    Option("chdir", "D", "text", "working folder on the node"),
    Option("cluster-constraint", None, "text", "features of the federation's clusters"),
    Option(
        "clusters",
        "M",
        "text",
        "clusters to submit to",
        reserved="the job could run on a cluster other than the profile's.",
    ),
    Option("comment", None, "text", "free text stored with the job"),
    Option("consolidate-segments", None, "flag", "put segments side by side", _25_11),
    Option("constraint", "C", "text", "features that the nodes must have: a100&nvlink"),
    Option("container", None, "text", "OCI bundle for the job", _21_08, not_in_cell=_CONTAINER),
    Option(
        "container-id", None, "text", "name of the OCI container", _23_02, not_in_cell=_CONTAINER
    ),
    Option(
        "container-type",
        None,
        "text",
        "runtime of the OCI container",
        _26_05,
        not_in_cell=_CONTAINER,
    ),
    Option("context", None, "text", "SELinux context", _21_08),
    Option("contiguous", None, "flag", "nodes next to each other"),
    Option("core-spec", "S", "number", "cores left to the system on each node"),
    Option("cores-per-socket", None, "text", "cores that each socket must have"),
    Option("cpu-freq", None, "text", "processor speed: low, high, performance, kHz"),
    Option("cpus-per-gpu", None, "count", "CPUs for each GPU"),
    Option("cpus-per-task", "c", "count", "CPUs for each task"),
    Option("deadline", None, "text", "remove the job if it cannot end by this time"),
    Option("delay-boot", None, "time", "time to wait for nodes that do not need a reboot"),
    Option(
        "dependency",
        "d",
        "dependency",
        "wait for other jobs, by jupyter-slurm's or Slurm's ID: afterok:123, singleton",
    ),
    Option(
        "distribution",
        "m",
        "text",
        "distribution of tasks over nodes, sockets and cores",
    ),
    Option("error", "e", "text", "file for the standard error", not_in_cell=_OUTPUT),
    Option("exclude", "x", "text", "nodes to avoid"),
    Option(
        "exclusive",
        None,
        "choice",
        "do not share nodes with other jobs",
        choices=("user", "mcs", "topo", "exclusive"),
        value_optional=True,
    ),
    Option(
        "export",
        None,
        "text",
        "environment variables to pass to the job",
        not_in_cell="`--env NAME=VALUE` gives the job a variable.",
    ),
    Option(
        "export-file",
        None,
        "text",
        "file with environment variables",
        reserved="jupyter-slurm sends variables in a file; use --env for each variable.",
    ),
    Option(
        "external",
        None,
        "flag",
        "a job without a script",
        _25_05,
        reserved="a job without a script runs nothing.",
    ),
    Option("extra", None, "text", "free text for the site's own scheduling", _23_02),
    Option("extra-node-info", "B", "text", "sockets[:cores[:threads]] of each node"),
    Option(
        "get-user-env",
        None,
        "text",
        "run a login shell for the environment",
        value_optional=True,
        reserved="only an administrator may use it, and the script already has a login shell.",
    ),
    Option(
        "gid",
        None,
        "text",
        "run as another group",
        reserved="only an administrator may run a job as another group.",
    ),
    Option("gpu-bind", None, "text", "binding of tasks to GPUs: single:1, none"),
    Option("gpu-freq", None, "text", "GPU speed: low, high, memory=high"),
    Option("gpus", "G", "gpus", "GPUs for the job: 2, a100:2"),
    Option("gpus-per-node", None, "gpus", "GPUs on each node: 2, a100:2"),
    Option("gpus-per-socket", None, "gpus", "GPUs for each socket"),
    Option("gpus-per-task", None, "gpus", "GPUs for each task"),
    Option("gres", None, "text", "generic resources on each node: gpu:2, gpu:a100:2"),
    Option(
        "gres-flags", None, "choices", "binding of generic resources to CPUs", choices=_GRES_FLAGS
    ),
    Option("help", "h", "flag", "print sbatch's help", reserved=_NO_JOB),
    Option(
        "hint",
        None,
        "choice",
        "kind of program, for the binding to cores",
        choices=("compute_bound", "memory_bound", "multithread", "nomultithread"),
    ),
    Option("hold", "H", "flag", "submit the job on hold; `scontrol release` lets it start"),
    Option(
        "ignore-pbs",
        None,
        "flag",
        "ignore #PBS lines",
        not_in_cell="Omit it: a cell has no #PBS lines.",
    ),
    Option(
        "input",
        "i",
        "text",
        "file for the standard input",
        not_in_cell="Open the file in the cell, or send variables with `--in NAMES`.",
    ),
    Option("job-name", "J", "text", "name of the job"),
    Option(
        "kill-on-invalid-dep",
        None,
        "choice",
        "cancel the job if its dependency can never be met",
        choices=("yes", "no"),
    ),
    Option("licenses", "L", "text", "software licenses: matlab:1"),
    Option("mail-type", None, "choices", "events that send mail: END,FAIL", choices=_MAIL),
    Option("mail-user", None, "text", "address for mail"),
    Option("mcs-label", None, "text", "label of the multi-category security plugin"),
    Option("mem", None, "memory", "memory on each node: 64G (0: all of it)"),
    Option("mem-bind", None, "text", "binding of tasks to memory"),
    Option("mem-per-cpu", None, "memory", "memory for each CPU: 4G"),
    Option("mem-per-gpu", None, "memory", "memory for each GPU: 60G"),
    Option("mem-update", None, "text", "give back unused memory: PERCENT@TIME", _26_05),
    Option("mincpus", None, "count", "CPUs that each node must have"),
    Option("network", None, "text", "use of the network"),
    Option("nice", None, "text", "lower the job's priority by this number", value_optional=True),
    Option(
        "no-kill",
        "k",
        "choice",
        "continue when a node fails",
        choices=("off", "no"),
        value_optional=True,
    ),
    Option("no-requeue", None, "flag", "never requeue the job"),
    Option("nodefile", "F", "text", "file with the names of the nodes to include"),
    Option("nodelist", "w", "text", "nodes to include"),
    Option("nodes", "N", "text", "number of nodes: 2, 2-4"),
    Option("ntasks", "n", "count", "number of tasks"),
    Option("ntasks-per-core", None, "count", "maximum number of tasks on each core"),
    Option("ntasks-per-gpu", None, "count", "tasks for each GPU"),
    Option("ntasks-per-node", None, "count", "tasks on each node"),
    Option("ntasks-per-socket", None, "count", "maximum number of tasks on each socket"),
    Option("ntasks-per-tres", None, "text", "old name of --ntasks-per-gpu"),
    Option(
        "oom-kill-step",
        None,
        "choice",
        "end the whole step when one process runs out of memory",
        _24_11,
        choices=("0", "1"),
        value_optional=True,
    ),
    Option(
        "open-mode",
        None,
        "choice",
        "append to the output file or truncate it",
        choices=("append", "truncate"),
        not_in_cell="The cell shows the output.",
    ),
    Option("output", "o", "text", "file for the output", not_in_cell=_OUTPUT),
    Option("overcommit", "O", "flag", "let tasks share CPUs"),
    Option("oversubscribe", "s", "flag", "share nodes with other jobs"),
    Option("parsable", None, "flag", "print only the job ID", reserved=_ANSWER),
    Option("partition", "p", "text", "partition, or several separated by commas"),
    Option("power", None, "text", "power management (level)", until=_24_05),
    Option("prefer", None, "text", "features that the nodes should have", _22_05),
    Option("priority", None, "text", "priority; only an administrator may raise it"),
    Option(
        "profile",
        None,
        "choices",
        "resources to record in detail",
        choices=("all", "none", "energy", "task", "lustre", "network", "filesystem"),
    ),
    Option(
        "propagate",
        None,
        "choices",
        "limits of the shell to pass to the job",
        choices=_LIMITS,
        value_optional=True,
    ),
    Option("qos", "q", "text", "quality of service"),
    Option("quiet", "Q", "flag", "print less", reserved=_ANSWER),
    Option("reboot", None, "flag", "reboot the nodes first"),
    Option(
        "requeue",
        None,
        "choice",
        "requeue the job if a node fails or the job is preempted",
        choices=("expedite",),
        value_optional=True,
    ),
    Option("reservation", None, "text", "reservation to use"),
    Option("resources", None, "text", "site-wide resources to request", _25_11),
    Option(
        "resv-ports",
        None,
        "count",
        "network ports to reserve",
        _24_05,
        value_optional=True,
    ),
    Option("segment", None, "count", "nodes that must be close to each other", _24_05),
    Option("signal", None, "signal", "signal to send before the end: USR1@120, B:TERM@60"),
    Option("sockets-per-node", None, "text", "sockets that each node must have"),
    Option("spread-job", None, "flag", "spread the job over as many nodes as possible"),
    Option("spread-segments", None, "flag", "spread segments over blocks", _25_11),
    Option("stepmgr", None, "flag", "manage the job's steps on its first node", _24_05),
    Option(
        "switches",
        None,
        "text",
        "maximum number of leaf switches, and time to wait for them: 1@30m",
    ),
    Option("test-only", None, "flag", "report when the job would start", reserved=_NO_JOB),
    Option("thread-spec", None, "number", "threads left to the system on each node"),
    Option("threads-per-core", None, "text", "threads of each core to use"),
    Option("time", "t", "time", "time limit: 30m, 2h, 1-12:00:00"),
    Option("time-min", None, "time", "shortest acceptable time limit"),
    Option("tmp", None, "memory", "disk space for temporary files on each node"),
    Option("tres-bind", None, "text", "binding of tasks to resources", _23_11),
    Option("tres-per-task", None, "text", "resources for each task: cpu=2,gres/gpu=1", _23_02),
    Option(
        "uid",
        None,
        "text",
        "run as another user",
        reserved="only an administrator may run a job as another user.",
    ),
    Option("usage", None, "flag", "print sbatch's usage", reserved=_NO_JOB),
    Option("use-min-nodes", None, "flag", "prefer the fewest nodes of a range"),
    Option("verbose", "v", "flag", "print more", reserved=_ANSWER),
    Option("version", "V", "flag", "print Slurm's version", reserved=_NO_JOB),
    Option(
        "wait",
        "W",
        "flag",
        "wait until the job ends",
        reserved="jupyter-slurm watches jobs itself.",
    ),
    Option(
        "wait-all-nodes", None, "choice", "start only when all nodes are ready", choices=("0", "1")
    ),
    Option("wckey", None, "text", "key for the site's workload accounting"),
    Option(
        "wrap",
        None,
        "text",
        "command line to run as the script",
        reserved="the script is generated; put the command into the cell.",
    ),
)

OPTIONS: Final[Mapping[str, Option]] = MappingProxyType({option.name: option for option in _TABLE})
"""Options by long name."""

EXCLUSIVE: Final = (
    ("mem", "mem-per-cpu", "mem-per-gpu"),
    ("exclusive", "oversubscribe"),
    ("requeue", "no-requeue"),
    ("core-spec", "thread-spec"),
    ("cpus-per-task", "cpus-per-gpu"),
    ("ntasks-per-gpu", "gpus-per-task"),
    ("ntasks-per-gpu", "gpus-per-socket"),
    ("ntasks-per-gpu", "ntasks-per-node"),
    ("ntasks-per-gpu", "tres-per-task"),
    ("nodelist", "nodefile"),
)
"""Groups of mutually exclusive options (validate_options_*() in src/common/slurm_opt.c)."""
