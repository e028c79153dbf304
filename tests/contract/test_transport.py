"""The promises of `Transport`, for this machine and over SSH."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

import psutil
import pytest

from jupyter_slurm.errors import (
    ConnectionLostError,
    FileAccessError,
    ForwardError,
    NotAFileError,
    TooMuchError,
    TransportError,
)
from jupyter_slurm.transport import FilePart, Span, TimedOutError, Transport, wait_connected
from jupyter_slurm.transport.local import LocalTransport
from jupyter_slurm.transport.ssh import connection as ssh_connection
from jupyter_slurm.transport.ssh.connection import SshConnection
from jupyter_slurm.transport.ssh.route import Hop
from jupyter_slurm.transport.ssh.transport import SshTransport
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

PATIENCE_S = 120.0
WORDS = [
    "",
    " two  blanks ",
    "it's",
    'a "quoted" word',
    "$HOME ${HOME} $(id) `id`",
    "two\nlines\n",
    "\n",
    "back\\slash \\n \\",
    "!history !! !$",
    "*?[a-z]{a,b}~ #comment; | & < > ( )",
    "-n",
    "--",
    "ünï¢ødé 日本語 🎉",
    os.fsdecode(b"\xff\xfe no UTF-8 \x81\x88"),
    "".join(map(chr, range(1, 128))),
    os.fsdecode(bytes(range(128, 256))),
    "x" * 100_000,
]


@pytest.fixture(
    params=["local", *(pytest.param(one, marks=pytest.mark.real) for one in ("ssh", "paramiko"))]
)
def transport(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Transport]:
    if request.param == "local":
        yield LocalTransport()
        return
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    sshd: Sshd = request.getfixturevalue("sshd")
    hop = sshd.hop()
    if request.param == "paramiko":  # as on a machine without an `ssh` program
        monkeypatch.setattr(ssh_connection, "has_openssh", lambda: False)
        monkeypatch.setenv("HOME", str(sshd.client.folder))
        hop = Hop(sshd.host, sshd.host, sshd.port, sshd.user)
    connection = SshConnection([hop], name="far")
    ssh = SshTransport(connection)
    yield ssh
    ssh.close()
    connection.close()


@pytest.fixture
def there(transport: Transport, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield a folder of the transport's user that this process can also read."""
    if isinstance(transport, LocalTransport) or os.geteuid() != 0:
        yield tmp_path
        return
    sshd: Sshd = request.getfixturevalue("sshd")
    folder = sshd.account.home / f"test-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    shutil.chown(folder, sshd.user, sshd.user)
    yield folder
    shutil.rmtree(folder)


def far(path: Path) -> PurePosixPath:
    return PurePosixPath(path)


def write(path: Path, data: bytes) -> PurePosixPath:
    """Write a file as the owner of its folder, regardless of the tests' user."""
    path.write_bytes(data)
    os.chown(path, path.parent.stat().st_uid, path.parent.stat().st_gid)
    return far(path)


def sleepers(mark: str) -> list[psutil.Process]:
    """Return this machine's processes with the command line `sleep MARK`."""
    return [
        one
        for one in psutil.process_iter(["cmdline", "status"])
        if one.info["cmdline"] == ["sleep", mark] and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


def a_mark() -> str:
    """Return a sleep duration that no other test uses."""
    return f"600.{secrets.randbelow(10**9):09d}"


# --- programs ---


def test_every_argument_arrives_unchanged(transport: Transport) -> None:
    for word in WORDS:
        done = transport.run(["sh", "-c", 'printf %s. "$1"; exit 0', "sh", word])
        assert done == (0, os.fsencode(word) + b".", b"")
    done = transport.run(["sh", "-c", 'printf "%s/" "$@"', "sh", *WORDS])
    assert done.stdout == b"".join(os.fsencode(word) + b"/" for word in WORDS)


def test_environment_values_apply_to_one_command(
    transport: Transport,
) -> None:
    env = {f"_V{number}": word for number, word in enumerate(WORDS)}
    done = transport.run(["env", "-0"], env=env)
    got = dict(line.split(b"=", 1) for line in done.stdout.split(b"\0") if line)
    assert {name: got[name.encode()] for name in env} == {
        name: os.fsencode(word) for name, word in env.items()
    }
    assert b"_V1=" not in transport.run(["env"]).stdout


def test_standard_input_arrives_byte_for_byte(transport: Transport) -> None:
    for data in (b"\0", b"exit 3\n", bytes(range(256)) * 20_000):
        assert transport.run(["cat"], stdin=data) == (0, data, b"")


def test_megabytes_arrive_on_both_streams_at_once(transport: Transport) -> None:
    script = "head -c 5000000 /dev/zero & head -c 6000000 /dev/zero >&2; wait"
    done = transport.run(["sh", "-c", script])
    assert (done.returncode, len(done.stdout), len(done.stderr)) == (0, 5_000_000, 6_000_000)


def test_exit_code_is_returned_and_a_signal_is_a_negative_number(transport: Transport) -> None:
    for code in (0, 1, 127, 255):
        assert transport.run(["sh", "-c", f"exit {code}"]) == (code, b"", b"")
    assert transport.run(["sh", "-c", "kill -9 $$"]) == (-9, b"", b"")


def test_error_names_missing_program(transport: Transport) -> None:
    with pytest.raises(TransportError, match="no program `/no/such program`"):
        transport.run(["/no/such program"])


def test_timeout_kills_the_process_group(transport: Transport) -> None:
    mark = a_mark()
    script = f"trap '' TERM; (trap '' TERM; sleep {mark}) & sleep {mark}"
    with pytest.raises(TimedOutError, match=r"`sh` did not end within 0\.3 s"):
        transport.run(["sh", "-c", script], timeout_s=0.3)
    wait_until(lambda: not sleepers(mark))
    assert transport.run(["echo", "well"]).stdout == b"well\n"


# --- delivery ---


def test_folder_is_uploaded_and_the_program_runs_in_it(transport: Transport, there: Path) -> None:
    folder = there / "a root" / 'it\'s a "job"\n$HOME é'
    files: dict[str, bytes | Path] = {
        "plain": b"1",
        "script": b"#!/bin/sh\necho ran",
        "in/nested": b"\0" * 1000,
        "empty": b"",
        "-dash": b"d",
        "n" * 200: b"long",
        "it's $é\n": b"odd",
    }
    done = transport.upload_and_run(
        far(folder), files, ["sh", "-c", "cat plain; ./script; pwd; umask"]
    )
    assert done.stdout == b"1ran\n" + os.fsencode(folder) + b"\n0022\n"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*")} == {*files, "in"}
    for name, content in files.items():
        assert (folder / name).read_bytes() == content
        expected = 0o700 if name == "script" else 0o600
        assert stat.S_IMODE((folder / name).stat().st_mode) == expected
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "in").stat().st_mode) == 0o700


def test_local_file_is_moved_and_a_repeated_upload_works(
    transport: Transport, there: Path, tmp_path: Path
) -> None:
    big = tmp_path / "a variable"
    data = secrets.token_bytes(1000) * 5000
    big.write_bytes(data)
    big.chmod(0o600)
    folder = far(there / "job")
    for _ in range(2):
        done = transport.upload_and_run(folder, {"in": big, "other": b"1"}, ["cat", "in"])
        assert done.stdout == data
        assert not big.exists()
    assert stat.S_IMODE((there / "job" / "in").stat().st_mode) == 0o600


def test_error_names_unwritable_folder_and_nothing_runs(
    transport: Transport, there: Path, tmp_path: Path
) -> None:
    upload = tmp_path / "upload"
    upload.write_bytes(b"x" * 3_000_000)
    with pytest.raises(FileAccessError, match="/proc/job"):
        transport.upload_and_run(
            PurePosixPath("/proc/job"), {"a": b"1", "in": upload}, ["touch", str(there / "ran")]
        )
    assert upload.exists()
    assert not (there / "ran").exists()
    assert transport.run(["echo", "well"]).stdout == b"well\n"


def test_line_is_appended_after_the_files_and_wakes_the_reader(
    transport: Transport, there: Path
) -> None:
    cells, file, fifo = there / "it's cells", there / "it's a file", there / "a fifo"

    def append(cell: str, files: dict[str, bytes | Path]) -> None:
        transport.upload_and_append(far(cells / cell), files, f"run {cell}", far(file), far(fifo))

    append("a", {"in": b"1"})  # the FIFO does not exist yet
    os.mkfifo(fifo)
    os.chown(fifo, there.stat().st_uid, there.stat().st_gid)
    append("b", {"in": b"2"})  # the FIFO has no reader
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    append("c", {})
    assert os.read(reader, 10) == b"."
    os.close(reader)
    assert file.read_text() == "\nrun a\n\nrun b\n\nrun c\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {path.name: (path / "in").read_bytes() for path in cells.iterdir()} == {
        "a": b"1",
        "b": b"2",
    }
    with pytest.raises(FileAccessError, match="/proc/requests"):
        transport.upload_and_append(far(there), {}, "x", PurePosixPath("/proc/requests"), far(fifo))


# --- files ---


def test_only_grown_files_are_returned(transport: Transport, there: Path) -> None:
    stays, shrinks = write(there / "stays", b"ab"), write(there / "shrinks", b"a")
    sizes = {stays: 2, shrinks: 5, far(there / "not there"): 0}
    for name in ("total", "two\nlines", "it's $x", "sub/x"):
        (there / name).parent.mkdir(exist_ok=True)
        grows = far(there / name)
        timer = threading.Timer(0.05, write, args=(there / name, b"abc"))
        timer.start()
        found = transport.grown({grows: 0, **sizes}, wait_s=PATIENCE_S, wake=threading.Event())
        timer.join()
        assert set(found) == {grows}
        assert 0 < found[grows] <= 3
        sizes[grows] = 3


def test_wake_event_ends_the_wait_for_growth(transport: Transport, there: Path) -> None:
    wake = threading.Event()
    threading.Timer(0.05, wake.set).start()
    assert transport.grown({far(there / "no"): 0}, wait_s=3600, wake=wake) == {}


def test_read_accepts_any_offset_and_length(transport: Transport, there: Path) -> None:
    path = write(there / "it's $f\n", b"0123456789")
    assert transport.read(path) == b"0123456789"
    assert transport.read(path, 1, 2) == b"12"
    assert transport.read(path, 0, 3) == b"012"
    assert transport.read(path, 8, 20) == b"89"
    assert transport.read(path, 0, 0) == b""
    assert transport.read(path, 10) == b""
    assert transport.read(path, 99) == b""
    assert transport.read(path, -3) == b"789"
    assert transport.read(path, -3, 2) == b"78"
    assert transport.read(path, -99) == b"0123456789"


def test_missing_file_reads_as_none_and_error_names_unreadable_file(
    transport: Transport, there: Path
) -> None:
    path = write(there / "no such file or so", b"x")
    assert transport.read(far(there / "none")) is None
    assert transport.read(path / "below a file") is None
    with pytest.raises(FileAccessError, match=there.name):
        transport.read(far(there))


def test_several_files_are_read_together(transport: Transport, there: Path) -> None:
    big = secrets.token_bytes(1000) * 3000
    one, two = write(there / "one", big), write(there / "two", b"\n\n")
    spans = [Span(one), Span(far(there / "none")), Span(two), Span(one, -2), Span(two, 1, 9)]
    assert transport.read_many(spans) == [big, None, b"\n\n", big[-2:], b"\n"]
    assert transport.read_many([]) == []


def test_too_large_files_and_pipes_are_refused(transport: Transport, there: Path) -> None:
    (there / "large").touch()
    os.truncate(there / "large", 1 << 40)
    os.mkfifo(there / "pipe")
    (there / "device").symlink_to("/dev/zero")
    with pytest.raises(FileAccessError, match="large is larger than"):
        transport.read(far(there / "large"))
    for name in ("pipe", "device"):
        with pytest.raises(NotAFileError, match=name):
            transport.read(far(there / name))
    sizes = dict.fromkeys((far(there / name) for name in ("pipe", "device", "large")), 0)
    found = transport.grown(sizes, wait_s=PATIENCE_S, wake=threading.Event())
    assert found == {far(there / "large"): 1 << 40}


def test_program_that_prints_endlessly_is_killed_and_reported(transport: Transport) -> None:
    with pytest.raises(TooMuchError, match=r"`sh` printed more than .* standard output"):
        transport.run(["sh", "-c", "exec cat /dev/zero"])
    assert transport.run(["echo", "well"]).stdout == b"well\n"


def test_names_that_are_not_utf8_are_not_listed(transport: Transport, there: Path) -> None:
    for name in ("b", "a", ".hidden", "..x", "é", "two\nlines", "*", "-n", " "):
        write(there / name, b"")
    write(there / os.fsdecode(b"\xff"), b"")
    (there / "folder").mkdir()
    (there / "dangling").symlink_to("none")
    assert transport.listing(far(there)) == sorted(
        ["b", "a", ".hidden", "..x", "é", "two\nlines", "*", "-n", " ", "folder", "dangling"]
    )


def test_tree_is_removed_and_missing_tree_is_ignored(transport: Transport, there: Path) -> None:
    folder = there / "-it's $x\n"
    transport.upload_and_run(far(folder), {"a/b": b"1"}, ["true"])
    file = there / "a file's"
    file.touch()
    for _ in range(2):
        transport.remove_tree(far(folder), far(file))
        assert not folder.exists()
        assert not file.exists()


# --- streams ---


def test_send_accepts_an_iterable_or_a_file(transport: Transport, tmp_path: Path) -> None:
    pieces: list[bytes | memoryview] = [
        b"0123456789" * 10_000,
        memoryview(b"abc"),
        b"",
        b"\n" * 500_000,
    ]
    whole = b"".join(bytes(piece) for piece in pieces)
    assert transport.send(["cat"], pieces) == (0, whole, b"")
    (tmp_path / "file").write_bytes(whole)
    with (tmp_path / "file").open("rb") as file:
        assert file.read(5) == b"01234"
        done = transport.send(["sh", "-c", "cat; echo e >&2; exit 3"], file)
    assert done == (3, whole[5:], b"e\n")


def test_parts_of_a_file_are_sent(transport: Transport, tmp_path: Path) -> None:
    content = secrets.token_bytes(3_000_000)
    (tmp_path / "file").write_bytes(content)
    with (tmp_path / "file").open("rb", buffering=0) as file:
        parts = [FilePart(file, 5, 2_500_000), FilePart(file, 2_999_000, 5000)]
        done = transport.send(["cat"], [b"head", parts[0], b"middle", parts[1], b"tail"])
    assert done.stdout == b"head" + content[5:2_500_005] + b"middle" + content[2_999_000:] + b"tail"


def test_read_error_in_a_part_of_a_file_is_raised(transport: Transport, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb", buffering=0) as file:  # opened only for writing
        file.write(bytes(3_000_000))
        with pytest.raises(OSError, match=r"not open for reading|Bad file descriptor"):
            transport.send(["cat"], [FilePart(cast("BinaryIO", file), 0, 3_000_000)])


def test_stop_ends_a_program_that_does_not_read_the_sent_file(
    transport: Transport, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(30_000_000))
    mark, stop = a_mark(), threading.Event()
    threading.Timer(0.2, stop.set).start()
    with (
        (tmp_path / "file").open("rb", buffering=0) as file,
        pytest.raises(ConnectionLostError),
    ):
        transport.send(["sleep", mark], [FilePart(file, 0, 30_000_000)], stop=stop)
    wait_until(lambda: not sleepers(mark))


def test_received_output_is_written_at_the_files_position(
    transport: Transport, tmp_path: Path
) -> None:
    with (tmp_path / "sink").open("wb") as sink:
        sink.write(b"head")
        script = "head -c 3000000 /dev/zero; head -c 4000000 /dev/zero >&2; exit 3"
        done = transport.receive(["sh", "-c", script], sink, most_bytes=1 << 30)
        assert (done.returncode, done.stdout, len(done.stderr)) == (3, b"", 4_000_000)
        sink.write(b"tail")
    assert (tmp_path / "sink").read_bytes() == b"head" + bytes(3_000_000) + b"tail"


def test_stop_ends_a_stream_and_its_program(transport: Transport, tmp_path: Path) -> None:
    mark = a_mark()
    stop = threading.Event()

    def endless() -> Iterator[bytes]:
        while not stop.is_set():
            yield b"x" * 1000

    threading.Timer(0.2, stop.set).start()
    with pytest.raises(ConnectionLostError):
        transport.send(["sleep", mark], endless(), stop=stop)
    wait_until(lambda: not sleepers(mark))
    with (tmp_path / "sink").open("wb") as sink, pytest.raises(ConnectionLostError):
        transport.receive(["sleep", mark], sink, most_bytes=1 << 30, stop=stop)
    wait_until(lambda: not sleepers(mark))


def test_streams_and_commands_run_in_parallel(transport: Transport, tmp_path: Path) -> None:
    def receive(number: int) -> int:
        with (tmp_path / f"sink{number}").open("wb") as sink:
            transport.receive(["head", "-c", "2000000", "/dev/zero"], sink, most_bytes=1 << 30)
            return sink.tell()

    with ThreadPoolExecutor(12) as pool:
        received = [pool.submit(receive, number) for number in range(4)]
        sent = [pool.submit(transport.send, ["wc", "-c"], [b"x" * 500_000] * 4) for _ in range(4)]
        run = [pool.submit(transport.run, ["echo", "x"]) for _ in range(20)]
        assert [one.result() for one in received] == [2_000_000] * 4
        assert [int(one.result().stdout) for one in sent] == [2_000_000] * 4
        assert [one.result().stdout for one in run] == [b"x\n"] * 20


def test_each_direction_of_a_stream_closes_separately(transport: Transport) -> None:
    with transport.open_stream(
        ["sh", "-c", 'read a; echo "<$a>"; cat; echo e >&2; echo end']
    ) as near:
        near.settimeout(PATIENCE_S)
        near.sendall(b"it's $x\n")
        assert near.recv(100) == b"<it's $x>\n"

        def tell() -> None:
            near.sendall(bytes(1_000_000))
            near.shutdown(socket.SHUT_WR)

        telling = threading.Thread(target=tell)
        telling.start()
        assert _to_its_end(near) == bytes(1_000_000) + b"end\n"
        telling.join()


def test_each_direction_of_a_connection_closes_separately(transport: Transport) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near, given = socket.socketpair()
        with near:
            near.settimeout(PATIENCE_S)
            wait_connected(partial(transport.connect, given, "127.0.0.1", server.getsockname()[1]))
            far_end, _ = server.accept()
            with far_end:
                far_end.settimeout(PATIENCE_S)
                near.sendall(b"question")
                near.shutdown(socket.SHUT_WR)
                assert _to_its_end(far_end) == b"question"
                far_end.sendall(b"answer")
                far_end.shutdown(socket.SHUT_WR)
                assert _to_its_end(near) == b"answer"


def test_error_names_closed_port_and_the_socket_stays_open(
    transport: Transport,
) -> None:
    near, given = socket.socketpair()
    with near, given, socket.socket() as held:
        near.settimeout(PATIENCE_S)
        # bound without listening, so that no other program can use the port
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(ForwardError, match=rf"127\.0\.0\.1:{port} "):
            wait_connected(partial(transport.connect, given, "127.0.0.1", port))
        near.sendall(b"x")
        assert given.recv(1) == b"x"


def _to_its_end(sock: socket.socket) -> bytes:
    data = b""
    while piece := sock.recv(1 << 20):
        data += piece
    return data
