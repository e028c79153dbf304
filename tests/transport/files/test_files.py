"""Transfers of folders and files over the Transport of this machine: hostile names, hostile remote
machines, files that change, interrupted transfers."""

from __future__ import annotations

import errno
import os
import random
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from jupyter_slurm.errors import (
    ConnectionLostError,
    FileAccessError,
    NotFoundError,
    RequestError,
)
from jupyter_slurm.transport import Completed, FilePart, Source, limits
from jupyter_slurm.transport.files import TransferReport, loads, mirror, pull, push, ustar
from jupyter_slurm.transport.local import LocalTransport

MIB = 1 << 20
Chunks = Iterator[bytes | FilePart]
HOSTILE = [
    b"plain.py",
    b"two words",
    b'it\'s "quoted" $HOME `id` \\',
    b"new\nline",
    b"-rf",
    b"--help",
    b"~",
    b"*",
    b"place.sh",
    b"files",
    "ünï→日本".encode(),
    b"\xff\xfe",
    b".hidden",
    b" ",
    b"trailing\n",
    b"x" * 255,
    b"/".join([b"deep" * 20] * 8) + b"/" + b"y" * 200,
]


class Watched(LocalTransport):
    """Transport that records its calls in `verbs`. `before_send` may read or interrupt each stream
    that is sent."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        super().__init__(env=env)
        self.verbs: list[str] = []
        self.before_send: Callable[[Chunks], Chunks] | None = None
        self.on_receive: Callable[[Sequence[str]], None] | None = None
        self.received = [0]
        """The received bytes."""

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
        most_bytes: int = limits.OUTPUT_BYTES,
    ) -> Completed:
        self.verbs.append("run")
        return super().run(argv, env=env, stdin=stdin, timeout_s=timeout_s, most_bytes=most_bytes)

    def send(
        self,
        argv: Sequence[str],
        source: Source,
        *,
        stop: threading.Event | None = None,
    ) -> Completed:
        self.verbs.append("send")
        if self.before_send is not None:
            source = self.before_send(iter(source))  # type: ignore[arg-type]
        return super().send(argv, source, stop=stop)

    def receive(
        self,
        argv: Sequence[str],
        sink: BinaryIO,
        *,
        most_bytes: int,
        stop: threading.Event | None = None,
    ) -> Completed:
        self.verbs.append("receive")
        if self.on_receive is not None:
            self.on_receive(argv)
        before = os.lseek(sink.fileno(), 0, os.SEEK_CUR)
        done = super().receive(argv, sink, most_bytes=most_bytes, stop=stop)
        self.received[0] += os.lseek(sink.fileno(), 0, os.SEEK_CUR) - before
        return done


@pytest.fixture
def far() -> Watched:
    return Watched()


def write(path: Path | bytes, content: bytes = b"content", mode: int = 0o644) -> None:
    path = Path(os.fsdecode(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    # The time is long ago. For files younger than two seconds, all digits of the time are compared.
    os.utime(path, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))


def tree(folder: Path) -> dict[bytes, object]:
    """Return the content of a folder: content and mode of files, and targets of links."""
    found: dict[bytes, object] = {}
    for path in folder.rglob("*"):
        key = os.fsencode(path.relative_to(folder))
        if path.is_symlink():
            found[key] = os.fspath(path.readlink())
        elif path.is_dir():
            found[key] = "folder"
        else:
            found[key] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found


Mover = Callable[[Watched, Path, Path], TransferReport]


def _push(far: Watched, source: Path, target: Path) -> TransferReport:
    return push(far, source, str(target))


def _pull(far: Watched, source: Path, target: Path) -> TransferReport:
    return pull(far, str(source), target)


both_ways = pytest.mark.parametrize("move", [_push, _pull], ids=["push", "pull"])


# --- names, modes, times ----------------------------------------------------------------------


@both_ways
def test_files_with_any_name_arrive(far: Watched, tmp_path: Path, move: Mover) -> None:
    source = tmp_path / "it's a source"
    for name in HOSTILE:
        write(os.fsencode(source) + b"/" + name, name)
    move(far, source, tmp_path / "-target $x")
    assert tree(tmp_path / "-target $x") == tree(source)


@both_ways
def test_modes_times_links_and_empty_files_and_folders_arrive(
    far: Watched, tmp_path: Path, move: Mover
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write(source / "run.sh", b"#!/bin/sh\n", 0o755)
    write(source / "private", b"", 0o600)
    (source / "empty" / "still").mkdir(parents=True)
    (source / "link").symlink_to("run.sh")
    (source / "empty" / "up").symlink_to("../private")
    (source / "empty" / "dangling").symlink_to("nothing")
    move(far, source, target)
    assert tree(target) == tree(source)
    info = (target / "run.sh").stat()
    assert info.st_mtime_ns // 10**9 == 1_700_000_000
    assert not list(target.glob(".jupyter-slurm*"))


@both_ways
def test_unchanged_folder_needs_one_round_trip(far: Watched, tmp_path: Path, move: Mover) -> None:
    write(tmp_path / "source" / "a" / "b")
    (tmp_path / "source" / "l").symlink_to("a")
    for name, when_ns in (("1969", -1_500_000_000), ("1960", -300_000_000_000_000_000)):
        write(tmp_path / "source" / name)
        os.utime(tmp_path / "source" / name, ns=(when_ns, when_ns))
    move(far, tmp_path / "source", tmp_path / "target")
    far.verbs.clear()
    outcome = move(far, tmp_path / "source", tmp_path / "target")
    assert far.verbs == ["run"]
    assert (outcome.files, outcome.same) == (0, 4)


@both_ways
@pytest.mark.parametrize("change", ["content", "time", "mode", "link", "kind"])
def test_only_changes_are_sent(far: Watched, tmp_path: Path, move: Mover, change: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write(source / "a")
    write(source / "same")
    (source / "l").symlink_to("a")
    move(far, source, target)
    if change == "content":
        (source / "a").write_text("other!!")
    elif change == "time":
        os.utime(source / "a", ns=(0, 0))
    elif change == "mode":
        (source / "a").chmod(0o755)
    elif change == "link":
        (source / "l").unlink()
        (source / "l").symlink_to("same")
    else:
        (source / "a").unlink()
        (source / "a").symlink_to("same")
    outcome = move(far, source, target)
    assert tree(target) == tree(source)
    assert outcome.files == 1


@both_ways
def test_file_edited_twice_within_a_second_is_sent_twice(
    far: Watched, tmp_path: Path, move: Mover
) -> None:
    source = tmp_path / "source"
    write(source / "a", b"1")
    # the file stays young on a slow machine
    now_ns = (source.stat().st_mtime_ns // 10**9 + 60) * 10**9
    os.utime(source / "a", ns=(now_ns + 1, now_ns + 1))
    move(far, source, tmp_path / "target")
    write(source / "a", b"2")
    os.utime(source / "a", ns=(now_ns + 2, now_ns + 2))
    move(far, source, tmp_path / "target")
    assert (tmp_path / "target" / "a").read_bytes() == b"2"


@both_ways
def test_other_files_in_the_target_are_kept(far: Watched, tmp_path: Path, move: Mover) -> None:
    write(tmp_path / "source" / "d" / "a")
    write(tmp_path / "target" / "d" / "own")
    write(tmp_path / "target" / "own", b"mine")
    move(far, tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target" / "own").read_bytes() == b"mine"
    assert set(tree(tmp_path / "target" / "d")) == {b"a", b"own"}


@both_ways
def test_conflict_of_file_and_folder_is_reported(far: Watched, tmp_path: Path, move: Mover) -> None:
    write(tmp_path / "source" / "a" / "b")
    write(tmp_path / "source" / "c")
    write(tmp_path / "target" / "a", b"file")
    outcome = move(far, tmp_path / "source", tmp_path / "target")
    assert set(outcome.failed) == {b"a"}
    assert (tmp_path / "target" / "a").read_bytes() == b"file"
    assert (tmp_path / "target" / "c").exists()


@both_ways
def test_files_are_never_written_through_links(far: Watched, tmp_path: Path, move: Mover) -> None:
    write(tmp_path / "source" / "d" / "a")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "d").symlink_to(tmp_path / "elsewhere")
    outcome = move(far, tmp_path / "source", tmp_path / "target")
    assert set(outcome.failed) == {b"d"}
    assert not list((tmp_path / "elsewhere").iterdir())


@both_ways
def test_links_out_of_the_folder_are_skipped_and_reported(
    far: Watched, tmp_path: Path, move: Mover
) -> None:
    source = tmp_path / "source"
    write(source / "d" / "a")
    for name, to in {"abs": "/etc/passwd", "up": "..", "d/up": "../../x", "d/in": "../d/a",
                     "tricky": "d/../.."}.items():  # fmt: skip
        (source / name).symlink_to(to)
    outcome = move(far, source, tmp_path / "target")
    left_out = set(outcome.left_out)
    assert left_out == {b"abs", b"up", b"d/up", b"tricky"}
    assert set(tree(tmp_path / "target")) == {b"d", b"d/a", b"d/in"}


# --- single files, paths ----------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize(
    ("target", "there", "arrives"),
    [
        ("new name", [], "new name"),
        ("some/new/name", [], "some/new/name"),
        ("folder", ["folder/"], "folder/a b"),
        ("old", ["old"], "old"),
    ],
)
def test_single_file_arrives_under_a_name_or_in_a_folder(
    far: Watched, tmp_path: Path, move: Mover, target: str, there: list[str], arrives: str
) -> None:
    write(tmp_path / "a b", b"1", 0o755)
    for name in there:
        write(tmp_path / "t" / name / "x" if name.endswith("/") else tmp_path / "t" / name)
    outcome = move(far, tmp_path / "a b", tmp_path / "t" / target)
    assert (tmp_path / "t" / arrives).read_bytes() == b"1"
    assert (tmp_path / "t" / arrives).stat().st_mode & 0o777 == 0o755
    assert outcome.files == 1
    again = move(far, tmp_path / "a b", tmp_path / "t" / target)
    assert (again.files, again.same) == (0, 1)


def test_relative_paths_and_tildes_start_at_the_remote_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    far = Watched()
    write(tmp_path / "a")
    push(far, tmp_path / "a", "~/x/one")
    push(far, tmp_path / "a", "two")
    push(far, tmp_path / "a", "~/new/")
    assert set(tree(tmp_path / "home")) == {b"x", b"x/one", b"two", b"new", b"new/a"}
    with pytest.raises(RequestError, match="~bob"):
        push(far, tmp_path / "a", "~bob/x")


def test_missing_paths_are_reported(far: Watched, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nothing"):
        push(far, tmp_path / "nothing", str(tmp_path / "t"))
    with pytest.raises(NotFoundError, match="nothing"):
        pull(far, str(tmp_path / "nothing"), tmp_path / "t")
    assert not (tmp_path / "t").exists()


# --- large files, many files ------------------------------------------------------------------


@both_ways
@pytest.mark.usefixtures("small_parts")
def test_large_files_arrive_in_parts(far: Watched, tmp_path: Path, move: Mover) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for index, size in enumerate((2 * MIB, 3 * MIB + 1, 5 * MIB - 1)):
        write(source / "d" / f"it's {index}\n", random.Random(index).randbytes(size), 0o700)
    write(source / "small")
    move(far, source, target)
    assert tree(target) == tree(source)
    assert not list(target.glob(".jupyter-slurm*"))
    if move is _pull:
        assert far.verbs.count("receive") >= 2 + 4 + 5
    else:  # four programs, three archives
        assert far.verbs.count("send") <= 4 + 3


@pytest.mark.usefixtures("small_parts")
def test_interrupted_push_resumes(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "big", random.Random(1).randbytes(40 * MIB))
    sent: list[int] = []

    def count(source: Chunks) -> Chunks:
        for chunk in source:
            if far.before_send is break_off and sum(sent) > 30 * MIB:
                raise ConnectionLostError("cut")
            sent.append(chunk.size_bytes if isinstance(chunk, FilePart) else len(chunk))
            yield chunk

    def break_off(source: Chunks) -> Chunks:
        return count(source)

    far.before_send = break_off
    with pytest.raises(ConnectionLostError):
        push(far, tmp_path / "source", str(tmp_path / "target"))
    assert not (tmp_path / "target" / "big").exists()
    arrived = len(list((tmp_path / "target").glob(".jupyter-slurm/parts/*/[0-9]*")))
    assert arrived >= 30 - 3 * 4
    sent.clear()
    far.before_send = count
    push(far, tmp_path / "source", str(tmp_path / "target"))
    assert tree(tmp_path / "target") == tree(tmp_path / "source")
    # the remaining bytes are lines for the shell, and the command that moves the files into place
    assert 0 <= sum(sent) - (40 - arrived) * MIB < MIB


@pytest.mark.usefixtures("small_parts")
def test_parts_written_by_an_older_version_are_ignored(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "big", b"1" * 4 * MIB)

    def break_off(source: Chunks) -> Chunks:
        for chunk in source:
            if isinstance(chunk, bytes) and b" 3 3 " in chunk:  # the line of the fourth part
                raise ConnectionLostError("cut")
            yield chunk

    far.before_send = break_off
    with pytest.raises(ConnectionLostError):
        push(far, tmp_path / "source", str(tmp_path / "target"))
    write(tmp_path / "source" / "big", b"2" * 4 * MIB)
    os.utime(tmp_path / "source" / "big", ns=(0, 0))
    far.before_send = None
    push(far, tmp_path / "source", str(tmp_path / "target"))
    assert (tmp_path / "target" / "big").read_bytes() == b"2" * 4 * MIB
    assert not list((tmp_path / "target").glob(".jupyter-slurm*"))


@pytest.mark.usefixtures("small_parts")
def test_interrupted_pull_resumes(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "big", random.Random(1).randbytes(6 * MIB))

    def break_off(argv: Sequence[str]) -> None:
        if far.verbs.count("receive") > 3:
            raise ConnectionLostError("cut")

    far.on_receive = break_off
    with pytest.raises(ConnectionLostError):
        pull(far, str(tmp_path / "source"), tmp_path / "target")
    assert not (tmp_path / "target" / "big").exists()
    far.on_receive = None
    far.verbs.clear()
    pull(far, str(tmp_path / "source"), tmp_path / "target")
    assert tree(tmp_path / "target") == tree(tmp_path / "source")
    assert far.verbs.count("receive") == 3


def test_interrupted_archive_changes_nothing(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "a", b"new" * MIB)
    write(tmp_path / "target" / "a", b"old")

    def cut(source: Chunks) -> Chunks:
        yield next(source)

    far.before_send = cut
    with pytest.raises(FileAccessError):
        push(far, tmp_path / "source", str(tmp_path / "target"))
    assert tree(tmp_path / "target") == {b"a": (b"old", 0o644)}


class Seen:
    """A Progress that records its calls."""

    def __init__(self) -> None:
        self.plan: tuple[int, int, int] = (0, 0, 0)
        self.files = self.size_bytes = 0
        self.lock = threading.Lock()

    def planned(self, files: int, size_bytes: int, same: int) -> None:
        self.plan = (files, size_bytes, same)

    def moved(self, files: int, size_bytes: int) -> None:
        with self.lock:
            self.files += files
            self.size_bytes += size_bytes


@pytest.mark.usefixtures("small_parts")
def test_progress_ends_at_its_planned_total(far: Watched, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source / "big", bytes(3 * MIB + 5))
    write(source / "same")
    push(far, source / "same", str(tmp_path / "target") + "/")
    for index in range(20):
        write(source / f"{index}", bytes(100_000))
    seen = Seen()
    push(far, source, str(tmp_path / "target"), progress=seen)
    planned = (21, 3 * MIB + 5 + 2_000_000, 1)
    assert seen.plan == planned
    assert (seen.files, seen.size_bytes) == planned[:2]
    back = Seen()
    pull(far, str(tmp_path / "target"), tmp_path / "back", progress=back)
    assert back.plan == (22, planned[1] + 7, 0)
    assert back.files == 22
    assert back.size_bytes >= planned[1]  # this includes tar's own bytes


# --- changing, vanishing and unreadable files -------------------------------------------------


@pytest.mark.parametrize("size", [10, 3 * MIB])
def test_file_changed_during_reading_is_read_again(far: Watched, tmp_path: Path, size: int) -> None:
    write(tmp_path / "source" / "a", b"1" * size)
    write(tmp_path / "source" / "b", b"1")
    changes: list[int] = []

    def change(source: Chunks) -> Chunks:
        if not changes:
            changes.append(1)
            if size < MIB:
                (tmp_path / "source" / "a").write_bytes(b"2" * size)
            for chunk in source:
                yield chunk
                (tmp_path / "source" / "a").write_bytes(b"2" * size)
        else:
            yield from source

    far.before_send = change
    outcome = push(far, tmp_path / "source", str(tmp_path / "target"))
    assert not outcome.failed
    assert (tmp_path / "target" / "a").read_bytes() == b"2" * size


@pytest.mark.usefixtures("small_parts")
def test_large_file_that_keeps_changing_does_not_arrive(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "a", b"1" * 4 * MIB)

    def change(source: Chunks) -> Chunks:
        for chunk in source:
            yield chunk
            with (tmp_path / "source" / "a").open("ab") as file:
                file.write(b"more")

    far.before_send = change
    outcome = push(far, tmp_path / "source", str(tmp_path / "target"))
    assert outcome.failed == {b"a": loads.CHANGED}
    assert not (tmp_path / "target" / "a").exists()


def test_vanished_file_is_not_a_failure(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "a")
    write(tmp_path / "source" / "b")

    def vanish(source: Chunks) -> Chunks:
        (tmp_path / "source" / "a").unlink(missing_ok=True)
        yield from source

    far.before_send = vanish
    outcome = push(far, tmp_path / "source", str(tmp_path / "target"))
    assert not outcome.failed
    assert set(tree(tmp_path / "target")) == {b"b"}


@pytest.mark.parametrize("large", [False, True])
def test_file_that_grows_during_a_pull_is_pulled_again(
    far: Watched, tmp_path: Path, large: bool, request: pytest.FixtureRequest
) -> None:
    if large:
        request.getfixturevalue("small_parts")
    write(tmp_path / "source" / "log", b"1" * 3 * MIB)
    write(tmp_path / "source" / "b")
    grows = [1]

    def grow(argv: Sequence[str]) -> None:
        with suppress(IndexError):
            grows.pop()
            with (tmp_path / "source" / "log").open("ab") as file:
                file.write(b"2")

    far.on_receive = grow
    outcome = pull(far, str(tmp_path / "source"), tmp_path / "target")
    assert not outcome.failed
    assert tree(tmp_path / "target") == tree(tmp_path / "source")


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make files named `secret` unreadable, also for root."""
    real_open = os.open

    def refuse(path: object, *rest: object, **more: object) -> int:
        if os.fsencode(path).endswith(b"secret"):  # type: ignore[arg-type]
            raise PermissionError(13, "Permission denied")
        return real_open(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)


@pytest.mark.usefixtures("refusing")
def test_unreadable_file_is_reported_and_others_arrive(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "a")
    write(tmp_path / "source" / "d" / "secret")
    outcome = push(far, tmp_path / "source", str(tmp_path / "target"))
    assert outcome.failed == {b"d/secret": "Cannot read it: Permission denied."}
    assert set(tree(tmp_path / "target")) == {b"a", b"d"}


@pytest.mark.usefixtures("small_parts")
def test_large_file_with_a_read_error_is_reported_and_others_arrive(
    far: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        write(tmp_path / "source" / name, bytes(4 * MIB))
    real_pread = os.pread

    def fail(file: int, size: int, offset: int) -> bytes:
        if offset >= MIB and Path(f"/proc/self/fd/{file}").readlink().name == "bad":
            raise OSError(errno.EIO, "Input/output error")
        return real_pread(file, size, offset)

    monkeypatch.setattr(os, "pread", fail)
    outcome = push(far, tmp_path / "source", str(tmp_path / "target"))
    assert outcome.failed == {b"bad": "Cannot read it: Input/output error."}
    assert (tmp_path / "target" / "good").read_bytes() == bytes(4 * MIB)
    assert not (tmp_path / "target" / "bad").exists()


# --- a hostile remote machine -----------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../out", "/tmp/out", "a/../../out", "..", "a//b", ".jupyter-slurm/x", "./out", ""],
)
def test_names_pointing_out_of_the_folder_are_rejected(tmp_path: Path, name: str) -> None:
    """A hostile find could print this listing."""
    listing = b"folder\nf\x00644\x001\x001.0\0./" + name.encode() + b"\0\0"
    listing += b"f\x00644\x001\x001.0\0./good\0\0"
    far = Faked(tmp_path, listing, {b"./" + name.encode(): b"x", b"./good": b"y"})
    outcome = pull(far, "/somewhere", tmp_path / "target" / "deep")
    assert set(tree(tmp_path / "target")) == {b"deep", b"deep/good"}
    assert len(outcome.failed) == (1 if name else 0)
    assert not (tmp_path / "target" / "out").exists()


def test_unrequested_members_are_ignored(tmp_path: Path) -> None:
    listing = b"folder\nf\x00644\x001\x001.0\0./good\0\0"
    members = {b"./good": b"y", b"./other": b"x", b"../out": b"x", b"/abs": b"x"}
    pull(Faked(tmp_path, listing, members), "/somewhere", tmp_path / "target")
    assert set(tree(tmp_path / "target")) == {b"good"}
    assert not (tmp_path / "out").exists()


def test_setuid_bit_is_not_transferred(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "a", b"", 0o4755)
    pull(far, str(tmp_path / "source"), tmp_path / "target")
    assert stat.S_IMODE((tmp_path / "target" / "a").stat().st_mode) == 0o755


class Faked(Watched):
    """A remote machine whose answers the test chooses."""

    def __init__(self, folder: Path, listing: bytes, members: Mapping[bytes, bytes]) -> None:
        super().__init__()
        self.listing_said = listing
        self.archive = folder / "archive"
        self.archive.write_bytes(
            b"".join(
                ustar.header(name, size_bytes=len(text), mtime_ns=10**9) + ustar.padded(text)
                for name, text in members.items()
                if name
            )
            + ustar.END
        )

    def run(self, argv: Sequence[str], **more: object) -> Completed:
        return Completed(0, self.listing_said, b"")

    def receive(
        self,
        argv: Sequence[str],
        sink: BinaryIO,
        *,
        most_bytes: int,
        stop: threading.Event | None = None,
    ) -> Completed:
        return super().receive(["cat", str(self.archive)], sink, most_bytes=most_bytes, stop=stop)


# --- selection --------------------------------------------------------------------------------


def test_push_applies_gitignore_and_exclusions(far: Watched, tmp_path: Path) -> None:
    for name in ("a.py", "a.pyc", "data/x", "out/y", ".git/config"):
        write(tmp_path / "source" / name)
    (tmp_path / "source" / ".gitignore").write_text("*.pyc\n")
    push(far, tmp_path / "source", str(tmp_path / "target"), exclude=["data/"])
    assert set(tree(tmp_path / "target")) == {b".gitignore", b"a.py", b"out", b"out/y"}


def test_pull_fetches_only_included_and_newer_files(far: Watched, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("old.png", "results/old"):
        write(source / name)
    write(tmp_path / "stamp")
    (tmp_path / "stamp").touch()
    before_ns = (source / "old.png").stat().st_ctime_ns
    while (tmp_path / "stamp").stat().st_mtime_ns <= before_ns:
        (tmp_path / "stamp").touch()
    written = 0
    while written <= (tmp_path / "stamp").stat().st_mtime_ns:
        for name in ("new.png", "results/sub/new", "other"):
            write(source / name)
        written = (source / "new.png").stat().st_ctime_ns
    (source / ".gitignore").write_text("results/\n")
    pull(
        far, str(source), tmp_path / "target", include=["*.png", "results/**"],
        since=str(tmp_path / "stamp"),
    )  # fmt: skip
    assert set(tree(tmp_path / "target")) == {
        b"new.png", b"results", b"results/sub", b"results/sub/new",
    }  # fmt: skip
    pull(far, str(source), tmp_path / "rest", exclude=["*.png", "results/"])
    assert set(tree(tmp_path / "rest")) == {b"other", b".gitignore"}


# --- a mirror ---------------------------------------------------------------------------------


def mirrored(far: Watched, source: Path, target: Path, *then: str) -> TransferReport:
    return mirror(far, source, str(target), lock=f"{target}.lock", then=then or ("true",))


def test_mirror_equals_the_folder(far: Watched, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write(source / "a")
    write(source / "d" / "e" / "f")
    write(source / "was folder")
    write(source / "was file" / "x")
    for name in ("gone", "-gone", "d/gone\n", "old/d/x", "was folder/y", "was file"):
        write(target / name)
    (target / "link").symlink_to("gone")
    mirrored(far, source, target)
    assert tree(target) == tree(source)
    shutil.rmtree(source / "d")
    mirrored(far, source, target)
    assert tree(target) == tree(source)


@pytest.mark.usefixtures("refusing")
def test_follow_up_command_runs_only_after_a_complete_push(far: Watched, tmp_path: Path) -> None:
    write(tmp_path / "source" / "a")
    write(tmp_path / "source" / "secret")
    outcome = mirrored(far, tmp_path / "source", tmp_path / "t", "touch", str(tmp_path / "ran"))
    assert set(outcome.failed) == {b"secret"}
    assert not (tmp_path / "ran").exists()


def test_find_without_printf_is_an_error(tmp_path: Path) -> None:
    find = tmp_path / "bin" / "find"
    find.parent.mkdir()
    find.write_text("#!/bin/sh\necho 'find: unrecognized: -printf' >&2\nexit 1\n")
    find.chmod(0o755)
    (tmp_path / "source").mkdir()
    cluster = Watched(env={"PATH": f"{find.parent}:{os.environ['PATH']}"})
    with pytest.raises(FileAccessError) as caught:
        push(cluster, tmp_path / "source", str(tmp_path / "source"))
    assert "unrecognized: -printf" in (caught.value.detail or "")
