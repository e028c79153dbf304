"""Diagnosis of a job's failure, from its state, its exit code and the end of its log. `reasons`
explains why a job waits. The job writes its log itself, so a diagnosis from the log is a guess.
"""

import re
import signal as signals
from dataclasses import replace
from typing import Final

from .reasons import Explanation

OUT_OF_MEMORY: Final = "Out of memory."
_LOOK: Final = "Look at the end of its output."
_LOOK_IN_LOG: Final = "See the first error in the log: often a missing image, folder or command."

_MEMORY: Final = Explanation(
    "out-of-memory",
    OUT_OF_MEMORY,
    "Ask for more --mem (1.5 times its peak), or use fewer worker processes.",
)
_TIMEOUT: Final = Explanation(
    "time-limit",
    "Time limit reached.",
    "Ask for a longer --time, or save its work before the end (--signal).",
)
_NODE: Final = Explanation(
    "node-failure",
    "One of its nodes failed.",
    "Submit it again, or use --requeue if the job can safely run twice.",
)
_PREEMPTED: Final = Explanation(
    "preempted",
    "Preempted by a job with higher priority.",
    "Submit it again, or use --requeue.",
)
_OUTPUT_FILE: Final = Explanation(
    "output-file",
    "Its node could not open its output file or its working directory.",
    "Choose a folder that exists, is writable and is mounted on the nodes.",
)
_STATES: Final = {
    "OUT_OF_MEMORY": _MEMORY,
    "TIMEOUT": _TIMEOUT,
    "NODE_FAIL": _NODE,
    "PREEMPTED": _PREEMPTED,
    "BOOT_FAIL": Explanation("boot-failure", "Its node did not boot.", "Submit it again."),
    "DEADLINE": Explanation(
        "deadline",
        "It could not end before its --deadline.",
        "Submit it again with a later --deadline or a shorter --time.",
    ),
    "CANCELLED": Explanation(
        "cancelled", "Cancelled.", "Ask the administrators if you did not cancel it."
    ),
}
_LOG_SIGNS: Final = (
    (r"DUE TO TIME LIMIT", _TIMEOUT),
    (r"DUE TO NODE FAILURE", _NODE),
    (r"DUE TO PREEMPTION", _PREEMPTED),
    (
        r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY",
        Explanation(
            "gpu-memory",
            "Out of GPU memory.",
            "Use smaller batches or a smaller model, or ask for a larger GPU; more --mem does not "
            "help.",
        ),
    ),
    # The wording of slurmstepd changed with 23.02, from oom-kill to oom_kill.
    (r"oom[-_ ]kill|exceeded memory limit|Exceeded job memory limit", _MEMORY),
    (
        r"Bus error|unable to mmap .*torch_|unable to open shared memory object",
        Explanation(
            "shared-memory",
            "Out of shared memory (/dev/shm).",
            "Give the container more shared memory (`--shm-size` or `--ipc=host`), or use "
            "`num_workers=0`.",
        ),
    ),
    (
        r"CUDA driver version is insufficient|no CUDA-capable device|nvidia-smi: (?:command )?not"
        r" found|Found no NVIDIA driver",
        Explanation(
            "no-gpu",
            "It found no usable GPU.",
            "Ask for a GPU (--gpus 1), or use an image that fits the GPU driver.",
        ),
    ),
    (
        r"(?:pyxis: .*(?:401|[Uu]nauthorized)|unauthorized: authentication required"
        r"|requested access to the resource is denied)",
        Explanation(
            "image-credentials",
            "The registry requires credentials for this image.",
            "Log in to the registry on the cluster first.",
        ),
    ),
    (
        r"Could not resolve host|toomanyrequests|no route to host|Temporary failure in name"
        r" resolution",
        Explanation(
            "no-network",
            "Its node could not reach the network, or a registry limited the downloads.",
            "Download images, packages and data on the login node first.",
        ),
    ),
    (
        r"failed to create container filesystem|No space left on device|[Dd]isk quota exceeded",
        Explanation(
            "disk-full",
            "A disk is full, or your quota is used up.",
            "Remove old files (unpacked images are large), or use another folder.",
        ),
    ),
    (
        r"failed to import docker image",
        Explanation(
            "image-import",
            "Its node could not download the image.",
            "Check its name, the credentials and the node's network.",
        ),
    ),
    (
        r"container-mounts: source path does not exist|bind source path|mount source .* not exist",
        Explanation(
            "mount-source", "A folder to mount does not exist on the node.", "Check --mount."
        ),
    ),
    (
        r"container exited too soon|no-container-entrypoint",
        Explanation(
            "image-entrypoint",
            "The image's entrypoint ended before the work began.",
            "Start the container without the image's entrypoint.",
        ),
    ),
    (
        r"a container with name .* does not exist",
        Explanation(
            "container-name",
            "The named container is not on this node.",
            "Also give the image, or run on the node that has the container.",
        ),
    ),
    (
        r"[Ee]xec format error",
        Explanation(
            "wrong-architecture",
            "The program or image is for another processor architecture.",
            "Use an image for the nodes' architecture.",
        ),
    ),
    (
        r"ch-run\[\d+\]: error:",
        Explanation("charliecloud", "Charliecloud could not set up the container.", _LOOK_IN_LOG),
    ),
    (
        r"FATAL: {3}\S",  # Apptainer's spelling; databases print FATAL, too
        Explanation("apptainer", "Apptainer could not start the container.", _LOOK_IN_LOG),
    ),
    (
        r"module: command not found|Unable to locate a modulefile|Lmod has detected the following"
        r" error",
        Explanation(
            "module",
            "It could not load an environment module.",
            "List the modules with `module avail` on the nodes.",
        ),
    ),
    (
        r"ModuleNotFoundError: No module named|ImportError: ",
        Explanation(
            "python-module",
            "A Python module is not installed in the job's Python.",
            "Use an image or environment that has it, or install it.",
        ),
    ),
    (
        r"[Pp]ermission denied",
        Explanation(
            "permission",
            "It was not allowed to read, write or run a file.",
            "Check the permissions; a container may run as another user or as root.",
        ),
    ),
)
"""Patterns in logs; the first match counts."""
_EXIT_CODES: Final = {
    120: Explanation(
        "output-lost",
        "Exit code 120: Python could not write its last output.",
        "Check whether the disk is full.",
    ),
    125: Explanation(
        "container-engine",
        "Exit code 125: the container engine refused to start the container.",
        _LOOK_IN_LOG,
    ),
    126: Explanation(
        "not-executable",
        "Exit code 126: the shell could not run a command.",
        "Make it executable; check that it was built for the nodes' processors.",
    ),
    127: Explanation(
        "command-not-found",
        "Exit code 127: the shell did not find a command.",
        "Check its name (`python` or `python3`?), the image and the modules.",
    ),
    255: Explanation(
        "start-failed",
        "Exit code 255: a container tool or ssh could not start the program.",
        _LOOK_IN_LOG,
    ),
}
_SIGNALS: Final = {
    signals.SIGABRT: "It called abort (SIGABRT).",
    signals.SIGBUS: "Bus error: invalid memory access (SIGBUS).",
    signals.SIGFPE: "Floating point exception (SIGFPE).",
    signals.SIGSEGV: "Segmentation fault (SIGSEGV).",
    signals.SIGKILL: "Killed (SIGKILL), possibly for lack of memory.",
    signals.SIGTERM: "Terminated (SIGTERM), as by a cancellation or a time limit.",
    signals.SIGINT: "Interrupted (SIGINT).",
}
_SIG_OOM: Final = 125
"""The signal in the ExitCode `0:125` of a job that ran out of memory (SIG_OOM 253 & 0x7f)."""
_SIG_NO_OUTPUT: Final = 53
"""The signal in the ExitCode `0:53` of a job for which slurmd could not open the output file or
enter the working directory."""


def real_signal(signal: int | None) -> int | None:
    """Return the signal in an ExitCode; None for the numbers that Slurm uses to encode a cause."""
    return None if signal in (_SIG_OOM, _SIG_NO_OUTPUT) else signal


def diagnose(
    state: str, exit_code: int | None, signal: int | None, log_tail: str
) -> Explanation | None:
    """Return the likeliest cause of a job's end; None if unknown, or if nothing went wrong. `state`
    is Slurm's long name. An `exit_code` over 128 stands for a signal, as in a shell. Slurm's own
    verdict takes precedence over the log, and the log takes precedence over the code.
    """
    if state in _STATES:
        return _STATES[state]
    if state == "COMPLETED" and not exit_code and not signal:
        return None
    if signal == _SIG_OOM:
        return _MEMORY
    if signal == _SIG_NO_OUTPUT:
        return _OUTPUT_FILE
    for pattern, explanation in _LOG_SIGNS:
        if re.search(pattern, log_tail):
            return replace(explanation, suggested=True)
    return _by_number(exit_code, signal)


def _by_number(exit_code: int | None, signal: int | None) -> Explanation | None:
    code = exit_code or 0
    if code in _EXIT_CODES:
        return _EXIT_CODES[code]
    number = signal or (code - 128 if 128 < code < 128 + 65 else 0)
    if not number:
        return None
    try:
        known = signals.Signals(number)
    except ValueError:
        return Explanation("signal", f"Terminated by signal {number}.", _LOOK)
    sentence: str = _SIGNALS.get(known, f"Terminated by a signal ({known.name}).")
    return Explanation("signal", sentence, _LOOK)
