"""The files of a session and of its cells.

Runs on the cluster, Python 3.6 and later, standard library only.
"""

import contextlib
import os
import stat
import sys
import time

import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional


class Requests:
    """The lines of a growing file. On NFS, a reader must open the file again to see lines from
    another machine (nfs(5), close-to-open)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset = 0

    def new(self) -> "List[str]":
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode("ascii", "replace").splitlines()


class Poke:
    """A FIFO in the job's folder. A process on this machine writes to it to wake the session at
    once."""

    def __init__(self, path: str) -> None:
        self.descriptor: "Optional[int]" = None
        try:
            with contextlib.suppress(FileExistsError):
                os.mkfifo(path, 0o600)
            # Open it for writing, too, because a FIFO without a writer is always at its end.
            opened = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # the file system has no FIFOs
            return
        if stat.S_ISFIFO(os.fstat(opened).st_mode):
            self.descriptor = opened


def poke_path(folder: str, rank: int) -> str:
    return os.path.join(folder, "poke.%d" % rank if rank else "poke")


def poke(path: str) -> None:
    """Wake the process that reads the FIFO on this machine."""
    with contextlib.suppress(OSError):  # the FIFO does not exist
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "wb", 0) as file:
            file.write(b".")


class Cell:
    """A cell's files. The methods raise OSError."""

    def __init__(self, folder: str, signer: runner.Signer, rank: int = 0) -> None:
        """Prepare a cell's files. `signer` is the session's signer."""
        self.folder = folder
        self.signer = signer.of_cell(os.path.basename(folder))
        of_rank = runner.of_rank("0", rank or None)
        self.output = runner.Output(os.path.join(folder, "output.%s.jsonl" % of_rank))
        """The cell's records. The file is created only with the first record, because creating a
        file takes longer than many cells."""
        self.started_s = time.time()
        self.cancelled = False
        self.result: "Optional[Dict[str, Any]]" = None
        """The cell's result in this rank; None while the cell runs."""

    def report_start(self) -> None:
        began = {"slurm_id": os.environ.get("SLURM_JOB_ID", ""), "node": node()}
        runner.put(
            os.path.join(self.folder, "started.0.json"),
            runner.to_line(dict(began, time_s=self.started_s)),
        )

    def finish(self) -> None:
        """Write the cell's result file, and then its exit file."""
        put_exit_of(self.folder, self.write_result("0"))

    def write_result(self, name: str) -> "Dict[str, Any]":
        """Write `result.NAME.json`, and return its content."""
        result = self.result
        assert result is not None
        result.update(
            started_s=self.started_s,
            ended_s=time.time(),
            lost_output_bytes=self.output.all_lost_bytes,
        )
        self.signer.write(os.path.join(self.folder, "result.%s.json" % name), result)
        return result


def put_exit_of(folder: str, result: "Dict[str, Any]") -> None:
    """Write the exit file of a cell with this result."""
    caught = result["interrupted_by"] if result["status"] != "ok" else None
    put_exit(folder, result["exit_code"], (caught or "")[3:])


def put_exit(folder: str, exit_code: int, caught: str) -> None:
    """Write the exit file of a cell. `caught` is the name of the signal that ended it, such as
    `INT`, or ""."""
    said = {"exit_code": exit_code, "signal": caught, "time_s": time.time()}
    runner.put(os.path.join(folder, "exit.0.json"), runner.to_line(said))


def node() -> str:
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def ended(
    status: str,
    exit_code: int,
    evalue: "Optional[str]" = None,
    interrupted_by: "Optional[str]" = None,
) -> "Dict[str, Any]":
    """Return a result of the session."""
    return {
        "status": status,
        "ename": None,
        "evalue": evalue,
        "traceback": [],
        "interrupted_by": interrupted_by,
        "exit_code": exit_code,
        "signal": None,
        "variables": None,
        "python": list(sys.version_info[:3]),
    }


def span(seconds: float) -> str:
    """Format a time, for example as `30 minutes` or `90 seconds`."""
    count, unit = (seconds, "second") if seconds % 60 else (seconds // 60, "minute")
    return "%g %s%s" % (count, unit, "" if count == 1 else "s")
