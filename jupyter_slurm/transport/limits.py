"""PURE: how much is taken of what comes from a cluster's machine, and what is said at a cap.

Each constant is the cap of one kind of thing, wherever that comes in; what belongs to one format
alone (a frame of the relay, a header of tar) stands with that format. The agent serves all
clusters, so that ten hostile machines at once must fit into its memory.
"""

from __future__ import annotations

from jupyter_slurm.errors import FileAccessError, NotAFileError, TooMuchError
from jupyter_slurm.readable import size

OUTPUT_BYTES = 32 << 20
"""The most of a command's standard output: a queue of 80,000 jobs, a folder of 250,000 files."""
ERRORS_BYTES = 8 << 20
"""The most of a command's standard error: a complaint about each of 50,000 files."""
FILE_BYTES = 4 << 20
"""The most of a file that is read whole: a job's script, its result with a long traceback."""
WORDS_BYTES = 1 << 20
"""The most of what comes before or between what is waited for: the greetings of a login shell, of a
prolog, and the sizes of files that grow."""
FILES = 250_000
"""The most files of a folder over there, beyond those known here: each takes about 500 bytes."""


def too_much_output(program: str, stream: str, most_bytes: int) -> TooMuchError:
    return TooMuchError(
        f"`{program}` printed more than {size(most_bytes)} on its {stream}, so it was ended.",
        hint="Ask for less at once; or is something wrong on that machine?",
    )


def too_large(path: object, most_bytes: int) -> FileAccessError:
    return FileAccessError(f"{path} is larger than {size(most_bytes)}, so it was not read.")


def no_file(path: object) -> NotAFileError:
    return NotAFileError(
        f"{path} is a pipe, a device or a folder where a file should be, so it was not read."
    )
