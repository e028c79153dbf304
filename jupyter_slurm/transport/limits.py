"""Limits on data from a cluster, and their errors. No I/O.

Each constant limits one kind of data wherever it arrives. The limits of a format (relay frames, tar
headers) are defined with that format. The agent serves all clusters: data from ten hostile machines
at once must fit into its memory.
"""

from __future__ import annotations

from jupyter_slurm.errors import FileAccessError, NotAFileError, TooMuchError
from jupyter_slurm.formatting import size

OUTPUT_BYTES = 32 << 20
"""Maximum size of a command's standard output, enough for a queue of 80,000 jobs or a folder of
250,000 files."""
ERRORS_BYTES = 8 << 20
"""Maximum size of a command's standard error, enough for messages about 50,000 files."""
FILE_BYTES = 4 << 20
"""Maximum size of a file that is read as a whole, such as a job's script or a result with a long
traceback."""
WORDS_BYTES = 1 << 20
"""Maximum number of bytes before or between expected data, such as banners of a login shell or a
prolog. It also limits the list of sizes of growing files."""
FILES = 250_000
"""Maximum number of files of a remote folder, in addition to those known locally. Each takes about
500 bytes of memory."""


def too_much_output(program: str, stream: str, most_bytes: int) -> TooMuchError:
    return TooMuchError(
        f"`{program}` printed more than {size(most_bytes)} on its {stream}, so it was killed.",
        hint="Request less data at once, or check the machine on which it ran.",
    )


def too_large(path: object, most_bytes: int) -> FileAccessError:
    return FileAccessError(f"{path} is larger than {size(most_bytes)}, so it was not read.")


def no_file(path: object) -> NotAFileError:
    return NotAFileError(f"{path} is a pipe, a device or a folder, not a file, so it was not read.")
