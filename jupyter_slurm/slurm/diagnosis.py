"""Diagnose why a job failed, from its state, its exit code and the end of its log.

`reasons` explains why a job waits. A log is the job's own text: it supports a guess, never an exit
code.
"""

import re
import signal as signals
from dataclasses import replace
from typing import Final, NamedTuple

from .reasons import Explanation


class _Sign(NamedTuple):
    """A text in a log and what it points to."""

    pattern: re.Pattern[str]
    code: str
    sentence: str
    advice: str


def _sign(pattern: str, code: str, sentence: str, advice: str) -> _Sign:
    return _Sign(re.compile(pattern), code, sentence, advice)


OUT_OF_MEMORY: Final = "Out of memory."

# The wording of slurmstepd changed with 23.02 (oom-kill -> oom_kill).
_MEMORY: Final = _sign(
    r"oom[-_ ]kill|exceeded memory limit|Exceeded job memory limit",
    "out-of-memory",
    OUT_OF_MEMORY,
    "Ask for more --mem (half as much again as its peak), or use fewer worker processes.",
)
_TIMEOUT: Final = _sign(
    r"DUE TO TIME LIMIT",
    "time-limit",
    "Time limit reached.",
    "Ask for a longer --time, or let it save its work in between (--signal).",
)
_NODE: Final = _sign(
    r"DUE TO NODE FAILURE",
    "node-failure",
    "A node of it failed.",
    "Submit it again; --requeue lets Slurm do so where running twice does no harm.",
)
_PREEMPTED: Final = _sign(
    r"DUE TO PREEMPTION",
    "preempted",
    "It had to make room for a job that goes before it.",
    "Submit it again; with --requeue and saved work in between it goes on by itself.",
)
_GPU_MEMORY: Final = _sign(
    r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY",
    "gpu-memory",
    "The GPU's own memory was full.",
    "Make the batches or the model smaller, or ask for a larger GPU; more --mem does not help.",
)
_SHARED_MEMORY: Final = _sign(
    r"Bus error|unable to mmap .*torch_|unable to open shared memory object",
    "shared-memory",
    "Its shared memory (/dev/shm) was too small for what its processes share.",
    "Give the container more (`--shm-size` or `--ipc=host`), or use no DataLoader workers.",
)
_OUTPUT_FILE: Final = Explanation(
    "output-file",
    "Its node could not open its output file or its working folder.",
    "Choose a folder that exists, may be written and is mounted on the nodes.",
)

_CAUSES: Final = {
    "OUT_OF_MEMORY": _MEMORY,
    "TIMEOUT": _TIMEOUT,
    "NODE_FAIL": _NODE,
    "PREEMPTED": _PREEMPTED,
}
_ENDS: Final = {
    "BOOT_FAIL": Explanation("boot-failure", "Its node did not boot.", "Submit it again."),
    "DEADLINE": Explanation(
        "deadline",
        "It could not end before its --deadline.",
        "Submit it again with a later --deadline or a shorter --time.",
    ),
    "CANCELLED": Explanation(
        "cancelled",
        "Cancelled.",
        "Slurm does not say who did it: somebody with `scancel`, or an administrator.",
    ),
}

_SIGNS: Final = (
    _GPU_MEMORY,
    _MEMORY,
    _SHARED_MEMORY,
    _sign(
        r"CUDA driver version is insufficient|no CUDA-capable device|nvidia-smi: (?:command )?not"
        r" found|Found no NVIDIA driver",
        "no-gpu",
        "It found no GPU that it can use.",
        "Ask for one (--gres=gpu:1 or --gpus), let the container see it, or take an older image.",
    ),
    _sign(
        r"(?:pyxis: .*(?:401|[Uu]nauthorized)|unauthorized: authentication required"
        r"|requested access to the resource is denied)",
        "image-credentials",
        "The registry wants credentials for this image.",
        "Log in to the registry on the cluster first.",
    ),
    _sign(
        r"Could not resolve host|toomanyrequests|no route to host|Temporary failure in name"
        r" resolution",
        "no-network",
        "Its node could not reach the network, or a registry refused so many downloads.",
        "Fetch what it needs, images too, on the login node first.",
    ),
    _sign(
        r"failed to create container filesystem|No space left on device|[Dd]isk quota exceeded",
        "disk-full",
        "A disk was full, or your quota used up.",
        "Remove old files (unpacked images are the large ones), or use another folder.",
    ),
    _sign(
        r"failed to import docker image",
        "image-import",
        "The image could not be fetched.",
        "Check its name; credentials and the node's network are the usual causes.",
    ),
    _sign(
        r"container-mounts: source path does not exist|bind source path|mount source .* not exist",
        "mount-source",
        "A folder that was to be mounted does not exist on the node.",
        "Check the mounts; not every node sees every file system.",
    ),
    _sign(
        r"container exited too soon|no-container-entrypoint",
        "image-entrypoint",
        "The image's own start program ended before the work began.",
        "Start it without its entrypoint.",
    ),
    _sign(
        r"a container with name .* does not exist",
        "container-name",
        "The named container is not on this node.",
        "Give the image too, or run on the node where the container was made.",
    ),
    _sign(
        r"[Ee]xec format error",
        "wrong-architecture",
        "The program or image is for another kind of processor.",
        "Take the image that was built for the nodes' architecture.",
    ),
    _sign(
        r"ch-run\[\d+\]: error:",
        "charliecloud",
        "Charliecloud could not set up the container.",
        "See its line in the log: a missing image, mount point or command is the usual cause.",
    ),
    _sign(
        r"FATAL: {3}\S",  # as it writes it; databases say FATAL, too
        "apptainer",
        "Apptainer could not start the container.",
        "See its FATAL line in the log: a missing image, folder or command is the usual cause.",
    ),
    _sign(
        r"module: command not found|Unable to locate a modulefile|Lmod has detected the following"
        r" error",
        "module",
        "An environment module could not be loaded.",
        "`module avail` on the node's system lists what there is.",
    ),
    _sign(
        r"ModuleNotFoundError: No module named|ImportError: ",
        "python-module",
        "A Python module is not installed where it ran.",
        "Take an image (or environment) that has it, or install it there.",
    ),
    _sign(
        r"[Pp]ermission denied",
        "permission",
        "It was not allowed to read, write or run something.",
        "In a container the user may be another one, and shared file systems may refuse root.",
    ),
)
_EXIT_CODES: Final = {
    120: (
        "output-lost",
        "It ended with exit code 120, as Python does when it could not write its last output.",
        "Is the disk full?",
    ),
    125: (
        "container-engine",
        "It ended with exit code 125, as a container engine does that refuses to start the "
        "container.",
        "See the log: a missing image, a wrong option or no GPU driver is the usual cause.",
    ),
    126: (
        "not-executable",
        "It ended with exit code 126, as a shell does when a command cannot be run.",
        "Make it executable; check that it was built for the nodes' processors.",
    ),
    127: (
        "command-not-found",
        "It ended with exit code 127, as a shell does when a command is not found.",
        "Check its name (`python` or `python3`?), the image and the modules.",
    ),
    255: (
        "start-failed",
        "It ended with exit code 255, as container tools and ssh do that could not begin.",
        "See the first error in the log: a missing image, folder or command is the usual cause.",
    ),
}
_SIGNALS: Final = {
    signals.SIGABRT: "It gave up by itself: it called abort (SIGABRT).",
    signals.SIGBUS: "It used memory that is not there: a bus error (SIGBUS).",
    signals.SIGFPE: "It did an impossible calculation: a floating point exception (SIGFPE).",
    signals.SIGSEGV: "It crashed with a segmentation fault (SIGSEGV).",
    signals.SIGKILL: "It was killed outright (SIGKILL), as for want of memory or for being slow to "
    "end.",
    signals.SIGTERM: "It was ended by SIGTERM, as by a cancellation or a time limit.",
    signals.SIGINT: "It was interrupted (SIGINT).",
}
_LOOK: Final = "Look at the end of its output for the cause."
_SIG_OOM: Final = 125
"""ExitCode `0:125` of a job that ran out of memory (SIG_OOM 253 & 0x7f)."""
_SIG_NO_OUTPUT: Final = 53
"""ExitCode `0:53` where slurmd could not open the output file or enter the folder."""


def real_signal(signal: int | None) -> int | None:
    """Return the signal in an ExitCode; None for the numbers by which Slurm gives a cause."""
    return None if signal in (_SIG_OOM, _SIG_NO_OUTPUT) else signal


def diagnose(
    state: str, exit_code: int | None, signal: int | None, log_tail: str
) -> Explanation | None:
    """Return the likeliest cause of an end; None: nothing points to one, or nothing went wrong.

    `state` is Slurm's long name. An `exit_code` over 128 stands for a signal, as in a shell.
    Slurm's own verdict counts first, then the log, then the code.
    """
    if state in _CAUSES:
        return _explanation(_CAUSES[state])
    if state in _ENDS:
        return _ENDS[state]
    if state == "COMPLETED" and not exit_code and not signal:
        return None
    if signal == _SIG_OOM:
        return _explanation(_MEMORY)
    if signal == _SIG_NO_OUTPUT:
        return _OUTPUT_FILE
    for sign in (_TIMEOUT, _NODE, _PREEMPTED, *_SIGNS):
        if sign.pattern.search(log_tail):
            return replace(_explanation(sign), suggested=True)
    return _by_number(exit_code, signal)


def _explanation(sign: _Sign) -> Explanation:
    return Explanation(sign.code, sign.sentence, sign.advice)


def _by_number(exit_code: int | None, signal: int | None) -> Explanation | None:
    code = exit_code or 0
    if code in _EXIT_CODES:
        return Explanation(*_EXIT_CODES[code])
    number = signal or (code - 128 if 128 < code < 128 + 65 else 0)
    if not number:
        return None
    try:
        known = signals.Signals(number)
    except ValueError:
        return Explanation("signal", f"It was ended by signal {number}.", _LOOK)
    sentence: str = _SIGNALS.get(known, f"It was ended by a signal ({known.name}).")
    return Explanation("signal", sentence, _LOOK)
