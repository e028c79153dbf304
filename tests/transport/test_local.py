"""This machine as a Transport, with real processes and files."""

from __future__ import annotations

import stat
from pathlib import Path, PurePosixPath

import pytest

from jupyter_slurm.transport.local import LocalTransport


@pytest.fixture
def transport() -> LocalTransport:
    return LocalTransport()


def test_programs_get_a_clean_environment(
    monkeypatch: pytest.MonkeyPatch, transport: LocalTransport
) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "JUPYTERHUB_API_TOKEN", "PYTHONPATH"):
        monkeypatch.setenv(name, "leaked")
    assert b"leaked" not in LocalTransport().run(["env"]).stdout
    assert b"\nEXTRA=1" in transport.run(["env"], env={"EXTRA": "1"}).stdout


def test_folder_is_private_and_the_command_runs_in_it(
    transport: LocalTransport, tmp_path: Path
) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * 1000)
    folder = PurePosixPath(tmp_path / "root" / 'it\'s "a" job')
    done = transport.upload_and_run(folder, {"a": b"1", "big": big}, ["sh", "-c", "cat a; ls"])
    assert done.stdout.split() == [b"1a", b"big"]
    assert not big.exists()
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    assert stat.S_IMODE((Path(folder) / "a").stat().st_mode) == 0o600
