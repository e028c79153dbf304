"""The lines that we send to a shell, in all shells that may be a /bin/sh."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.transport import Span
from jupyter_slurm.transport.shell.folder_upload import FolderUpload
from jupyter_slurm.transport.shell.helper import command, in_background
from jupyter_slurm.transport.shell.quoting import exports
from jupyter_slurm.transport.ssh.transport import (
    exists_script,
    listing_script,
    read_script,
)
from tests.transport.shell.posix import LOOP, PRELUDE


def run(shell: list[str], *lines: bytes) -> tuple[bytes, bytes]:
    """Return the shell's output for these lines. The last line waits until their commands end."""
    done = subprocess.run(
        [*shell, "-c", LOOP],
        input=PRELUDE + b"\n".join([*lines, b"wait", b""]),
        capture_output=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": "/"},
    )
    return done.stdout, done.stderr


def test_every_byte_of_arguments_and_values_arrives(shell: list[str]) -> None:
    word = bytes(range(1, 256)) + b"''\n\n\\'"
    argv = ["sh", "-c", 'printf %s "$1$V"', "sh", os.fsdecode(word)]
    said, _ = run(shell, command(argv, {"V": os.fsdecode(word)}))
    assert said == word * 2 + b"KEY:0 0\n"


def test_exit_codes_signals_and_missing_programs_are_reported(shell: list[str]) -> None:
    for argv, status in (
        (["sh", "-c", "exit 127"], b"127"),
        (["sh", "-c", "exit 126"], b"126"),
        (["sh", "-c", "kill -9 $$"], b"137"),
        (["no-such-program"], b"missing"),
        (["/no/such"], b"missing"),
        (["/etc/passwd"], b"denied"),
    ):
        said, _ = run(shell, command(argv, None))
        assert said == b"KEY:0 %b\n" % status


def test_command_runs_in_the_background_and_ends_with_the_input(
    shell: list[str], tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    lines = in_background(
        command(["sh", "-c", 'echo "$1" >"$2"; sleep 600', "sh", "begun", str(fifo)], None)
    )
    pipe = subprocess.PIPE
    argv = [*shell, "-c", f"{LOOP}; kill -9 0"]  # helpers end with this command, too
    with subprocess.Popen(argv, 0, None, pipe, pipe, pipe, start_new_session=True) as process:
        assert process.stdin is not None
        process.stdin.write(PRELUDE + lines)
        assert fifo.read_text() == "begun\n"
        process.stdin.write(b"_m 5\n")
        assert process.stdout is not None
        assert process.stdout.readline() == b"KEY:0 5\n"
        process.stdin.close()
        assert process.stdout.read() == b""  # `sleep` held the pipe open


@contextmanager
def begun(
    shell: list[str], delivery: FolderUpload, brought: int | None = None, *, at_its_end: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a shell, and send `brought` bytes of the delivery's files, or all. Kill the shell at the
    end."""
    feed = b"head -c %d | ( exec 3<&0 </dev/null; %b )\n" % (delivery.size_bytes, delivery.work)
    stream = b"".join(delivery.stream())
    assert len(stream) == delivery.size_bytes
    pipe = subprocess.PIPE
    argv = [*shell, "-c", LOOP + at_its_end]
    with subprocess.Popen(argv, 0, None, pipe, pipe, pipe, start_new_session=True) as process:
        assert process.stdin is not None
        process.stdin.write(PRELUDE + feed + stream[:brought])
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def heard(process: subprocess.Popen[bytes], rest: bytes = b"") -> bytes:
    """Send `rest`, close the standard input, and return the standard output."""
    return process.communicate(rest, timeout=60)[0]


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_uploaded_files_arrive_in_their_folder(shell: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "it's a\njob"
    files: dict[str, bytes | Path] = {"a": b"1" * 1000, "in/-b": b"#!x", "l" * 120: b"", "é'": b"2"}
    with begun(shell, FolderUpload(PurePosixPath(folder), files, ["pwd"])) as process:
        assert heard(process) == os.fsencode(folder) + b"\nKEY:0 0\n"
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(files)
    assert stat.S_IMODE((folder / "in" / "-b").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o600


@pytest.mark.parametrize("brought", [512, 1500])
def test_interrupted_upload_does_not_run_its_command(
    shell: list[str], tmp_path: Path, brought: int
) -> None:
    folder = tmp_path / "job"
    files: dict[str, bytes | Path] = {"a": b"1", "b": b"2"}
    delivery = FolderUpload(PurePosixPath(folder), files, ["touch", "x"])
    with begun(shell, delivery, brought) as process:
        assert heard(process).endswith(b"KEY:0 not-placed\n")
    assert names_in(folder) <= {"a"}
    # helpers end with this command, too
    with begun(shell, delivery, brought, at_its_end="; kill -9 0") as process:
        heard(process)
    assert names_in(folder) <= {"a"}


def test_file_queries_are_answered(shell: list[str], tmp_path: Path) -> None:
    path = PurePosixPath(tmp_path / "it's\n$x")
    Path(path).write_bytes(b"0123456789")
    for span, data in (
        (Span(path), b"0123456789"),
        (Span(path, 2, 3), b"234"),
        (Span(path, -2), b"89"),
        (Span(path, 0, 2), b"01"),
    ):
        assert run(shell, read_script(span))[0] == data + b"KEY:0 0\n"
    said, words = run(shell, read_script(Span(path / "x")))
    assert not said.endswith(b" 0\n")
    assert any(known in words.lower() for known in (b"no such file", b"not a directory"))
    assert run(shell, exists_script(path))[0] == b"KEY:0 0\n"
    assert run(shell, exists_script(path / "x"))[0] == b"KEY:0 1\n"
    listed, _ = run(shell, listing_script(PurePosixPath(tmp_path)))
    assert listed == b"it's\n$x/KEY:0 0\n"


def test_invalid_variable_name_is_rejected() -> None:
    with pytest.raises(RequestError, match="A-B"):
        exports({"A-B": "1"})
