"""This machine as a Transport, with real processes and files."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path, PurePosixPath

import pytest

from jupyter_slurm.errors import TransportError
from jupyter_slurm.transport import TimedOutError
from jupyter_slurm.transport.local import LocalTransport


@pytest.fixture
def transport() -> LocalTransport:
    return LocalTransport()


def test_words_output_and_exit_code_come_through(transport: LocalTransport) -> None:
    word = 'it\'s "a" $HOME\n`x` ü'
    done = transport.run(["sh", "-c", 'printf %s "$1"; echo e >&2; exit 3', "sh", word])
    assert done == (3, word.encode(), b"e\n")


def test_programs_get_a_clean_environment(
    monkeypatch: pytest.MonkeyPatch, transport: LocalTransport
) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "JUPYTERHUB_API_TOKEN", "PYTHONPATH"):
        monkeypatch.setenv(name, "leaked")
    assert b"leaked" not in LocalTransport().run(["env"]).stdout
    assert b"\nEXTRA=1" in transport.run(["env"], env={"EXTRA": "1"}).stdout


def test_a_program_that_is_not_there_is_named(transport: LocalTransport) -> None:
    with pytest.raises(TransportError, match="no-such-program"):
        transport.run(["no-such-program"])


def test_a_program_that_does_not_end_is_killed_with_what_it_started(
    transport: LocalTransport, tmp_path: Path
) -> None:
    alive = tmp_path / "alive"
    script = f"(trap 'exit' TERM; sleep 5; touch '{alive}') & sleep 60"
    with pytest.raises(TimedOutError, match="sh"):
        transport.run(["sh", "-c", script], timeout_s=0.2)
    assert not alive.exists()


def test_a_folder_is_delivered_private_and_the_command_runs_in_it(
    transport: LocalTransport, tmp_path: Path
) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * 1000)
    folder = PurePosixPath(tmp_path / "root" / 'it\'s "a" job')
    done = transport.deliver(folder, {"a": b"1", "big": big}, ["sh", "-c", "cat a; ls"])
    assert done.stdout.split() == [b"1a", b"big"]
    assert not big.exists()
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    assert stat.S_IMODE((Path(folder) / "a").stat().st_mode) == 0o600


def test_delivering_again_after_the_big_file_was_moved_is_fine(
    transport: LocalTransport, tmp_path: Path
) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x")
    folder = PurePosixPath(tmp_path / "job")
    for _ in range(2):
        assert transport.deliver(folder, {"big": big}, ["cat", "big"]).stdout == b"x"


def test_two_deliveries_of_the_same_at_once_are_both_placed(
    transport: LocalTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = PurePosixPath(tmp_path / "job")
    put_in_place = os.replace

    def after_another(partial: str, target: str) -> None:
        monkeypatch.undo()
        assert transport.deliver(folder, {"a": b"other"}, ["cat", "a"]).stdout == b"other"
        put_in_place(partial, target)

    monkeypatch.setattr(os, "replace", after_another)
    assert transport.deliver(folder, {"a": b"one"}, ["cat", "a"]).stdout == b"one"
    assert [path.name for path in Path(folder).iterdir()] == ["a"]


def test_a_place_that_cannot_be_written_is_named(transport: LocalTransport) -> None:
    with pytest.raises(TransportError, match="/proc/job"):
        transport.deliver(PurePosixPath("/proc/job"), {}, ["true"])


def test_growth_is_seen_and_what_has_not_grown_is_not(
    transport: LocalTransport, tmp_path: Path
) -> None:
    grows, stays = PurePosixPath(tmp_path / "grows"), PurePosixPath(tmp_path / "stays")
    Path(stays).write_text("ab")
    timer = threading.Timer(0.05, Path(grows).write_text, args=("abc",))
    timer.start()
    found = transport.grown({grows: 0, stays: 2}, wait_s=20, wake=threading.Event())
    assert found == {grows: 3}


def test_a_wake_ends_the_wait_for_growth(transport: LocalTransport, tmp_path: Path) -> None:
    wake = threading.Event()
    threading.Timer(0.05, wake.set).start()
    assert transport.grown({PurePosixPath(tmp_path / "no"): 0}, wait_s=300, wake=wake) == {}


def test_reading_from_an_offset_and_past_the_end(transport: LocalTransport, tmp_path: Path) -> None:
    path = PurePosixPath(tmp_path / "f")
    assert transport.read(path) is None
    Path(path).write_bytes(b"0123")
    assert transport.read(path, 1, 2) == b"12"
    assert transport.read(path, 4) == b""


def test_names_that_are_no_utf8_are_not_listed(transport: LocalTransport, tmp_path: Path) -> None:
    for name in (b"a", b"\xff", "\u00e9".encode()):
        (tmp_path / os.fsdecode(name)).touch()
    assert transport.listing(PurePosixPath(tmp_path)) == ["a", "\u00e9"]
