"""The doctor on the real cluster; what a test says is ill is put in front of the real commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from jupyter_slurm.errors import LoginNeededError, TransportError
from jupyter_slurm.jobs.cluster.doctor import examine
from jupyter_slurm.jobs.cluster.doctor_way import examine_way
from jupyter_slurm.profiles.profile import ClusterProfile, Storage
from jupyter_slurm.readable import date_and_time
from jupyter_slurm.transport import Completed, TimedOutError
from jupyter_slurm.wire import Check, Connection, ConnectionState, Problem
from tests.cluster.plugin import SlurmCluster

Answer = Completed | Exception
Examine = Callable[..., list[Check]]


def bin_dir(tmp_path: Path, *programs: str) -> str:
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for program in programs:
        (folder / program).write_text("#!/bin/sh\nexit 0\n")
        (folder / program).chmod(0o755)
    return str(folder)


@pytest.fixture
def look(slurm_cluster: SlurmCluster) -> Examine:
    """Examines the real cluster; `ill` replaces the answers to commands that begin so, `env` is
    added to the environment, and what is left changes the profile."""

    def look(
        ill: dict[str, Answer] | None = None, env: dict[str, str] | None = None, **profile: object
    ) -> list[Check]:
        def run(argv: Sequence[str]) -> Completed:
            for start, answer in (ill or {}).items():
                if " ".join(argv).startswith(start):
                    if isinstance(answer, Exception):
                        raise answer
                    return answer
            done = subprocess.run(
                argv,
                env={**slurm_cluster.env, **(env or {})},
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=60,
            )
            return Completed(done.returncode, done.stdout, done.stderr)

        healthy = ClusterProfile(name="local", job_root=str(slurm_cluster.folder / "jobs"))
        return examine(msgspec.structs.replace(healthy, **profile), run)

    return look


def only(checks: list[Check], words: str) -> Check:
    found = [check for check in checks if words in str(check.sentence)]
    assert len(found) == 1, [check.sentence for check in checks]
    return found[0]


def test_a_healthy_cluster_has_nothing_wrong(look: Examine) -> None:
    checks = look()
    assert [check for check in checks if check.ok is False] == []
    assert only(checks, "Slurm's commands are there").ok
    assert only(checks, "(slurmctld) answers").ok
    assert only(checks, "Slurm is ").ok
    assert only(checks, "Accounting is off").ok is None
    assert "debug*" in str(only(checks, "Partitions: ").sentence)
    assert only(checks, "GPUs on 2 nodes: 8.").ok
    assert only(checks, "which every node sees").ok
    assert only(checks, "Cells without an image run in python3 (Python 3.").ok


def test_missing_commands_are_named_and_nothing_is_asked_of_slurm(
    look: Examine, tmp_path: Path
) -> None:
    path = bin_dir(tmp_path, "sbatch", "squeue")
    for program in (
        "awk",
        "bash",
        "cut",
        "df",
        "dirname",
        "grep",
        "python3",
        "sh",
        "stat",
        "uname",
    ):
        (Path(path) / program).symlink_to(f"/usr/bin/{program}")
    checks = look(env={"PATH": path}, ill={"sinfo": AssertionError(), "scontrol": AssertionError()})
    check = only(checks, "Slurm's commands are not found: scontrol, scancel, sinfo.")
    assert check.ok is False
    assert "`path`" in str(check.hint)


def test_a_silent_controller_is_said_once_and_not_asked_again(look: Examine) -> None:
    answer = TimedOutError("`scontrol` did not end within 60 s")
    checks = look(ill={"scontrol ping": answer, "sinfo": AssertionError()}, hint="Is the VPN on?")
    check = only(checks, "slurmctld does not answer")
    assert (check.ok, check.hint) == (False, "Is the VPN on?")
    assert only(checks, "Jobs live in").ok is None


def test_a_cluster_that_cannot_be_reached_is_one_sentence(look: Examine) -> None:
    checks = look(ill={"sh": TransportError("The line is dead.")}, hint="Is the VPN on?")
    assert len(checks) == 1
    assert "The line is dead." in str(checks[0].sentence)
    assert (checks[0].ok, checks[0].hint) == (False, "Is the VPN on?")


def test_a_job_root_that_cannot_be_written_is_wrong(look: Examine) -> None:
    check = only(look(job_root="/dev/null/jobs of 'me'"), "which you cannot write")
    assert check.ok is False
    assert "/dev/null/jobs of 'me'" in str(check.sentence)
    assert "`job_root`" in str(check.hint)


def test_an_interpreter_that_does_not_run_or_is_too_old_is_wrong(
    look: Examine, tmp_path: Path
) -> None:
    assert only(look(python="/no/python"), "does not run here").ok is False
    old = tmp_path / "old python"
    old.write_text("#!/bin/sh\necho 2.7\n")
    old.chmod(0o755)
    assert only(look(python=str(old)), "which is too old: 3.6 is needed").ok is False


def test_a_runtime_that_is_missing_is_wrong_where_all_nodes_are_this_machine(
    look: Examine, tmp_path: Path
) -> None:
    path = bin_dir(tmp_path, "enroot")
    assert only(look(runtime="pyxis"), "The runtime pyxis of this cluster is not found").ok is False
    elsewhere: dict[str, Answer] = {"sinfo -h -N -o %n": Completed(0, b"gpu1\n", b"")}
    assert only(look(runtime="pyxis", ill=elsewhere), "The runtime pyxis").ok is None
    env = {"PATH": f"{path}:/usr/local/bin:/usr/bin:/bin"}
    checks = look(runtime="enroot", env=env)
    assert "enroot" in str(only(checks, "Found here: ").sentence)
    assert not [check for check in checks if "The runtime" in str(check.sentence)]


def test_images_that_are_files_must_be_there(look: Examine, tmp_path: Path) -> None:
    there = tmp_path / "an image"
    there.mkdir()
    images = {"a:1": str(there), "b:2": "/no/image", "c:3": "nvcr.io/nvidia/pytorch:22.11-py3"}
    checks = look(images=images, image_dirs=("/no/folder", str(tmp_path)))
    missing = only(checks, "The image `b:2` is not where the profile says: /no/image.")
    assert missing.ok is False
    assert only(checks, "There is no image folder /no/folder.").ok is False
    assert only(checks, "Images by name: a:1, b:2, c:3.").ok
    assert len([check for check in checks if check.ok is False]) == 2


def purged(look: Examine, scratch: Path) -> Check:
    checks = look(storage=Storage(scratch=str(scratch), purge_days=60))
    return only(checks, f"The site erases files in {scratch} 60 days after their last change")


def test_files_that_the_site_will_soon_erase_are_counted_and_the_first_is_named(
    look: Examine, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    ages = {"runs of may/a b.txt": 50, "runs of may/c.txt": 55, "c.txt": 40}
    for name, days in ages.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_bytes(b"x" * 1000)
        then_s = time.time() - days * 24 * 3600
        os.utime(scratch / name, (time.time(), then_s))
    check = purged(look, scratch)
    when = date_and_time(int((scratch / "runs of may/c.txt").stat().st_mtime) + 60 * 24 * 3600)
    assert check.ok is None
    assert str(check.sentence).endswith(
        f"Older than 46 days: 2 files (2.0 kB). The first to go is {scratch}/runs of may/c.txt, "
        f"on {when}."
    )
    assert f"`%slurm pull '{scratch}/runs of may'`" in str(check.hint)


# --- the way there ----------------------------------------------------------------------------


def test_a_login_that_is_needed_is_asked_for_and_not_judged(look: Examine) -> None:
    with pytest.raises(LoginNeededError):
        look(ill={"sh": LoginNeededError("Log in.")})


def way(**changes: object) -> Connection:
    opened = Connection(
        cluster="arandu",
        state=ConnectionState.OPEN,
        since_s=1.0,
        hosts=("alice@gateway", "alice@login1"),
        round_trip_s=0.0204,
    )
    return msgspec.structs.replace(opened, **changes)


def test_a_way_that_is_lost_says_why() -> None:
    problem = Problem(code="transport", message="The gateway does not answer.")
    (check,) = examine_way(way(state=ConnectionState.LOST, problem=problem), 8)
    assert (check.ok, check.hint) == (False, "The gateway does not answer.")


def rights(look: Examine, root: Path) -> list[Check]:
    return [check for check in look(job_root=str(root)) if "in the place of" in str(check.sentence)]


def test_a_job_root_in_which_others_can_write_is_told(look: Examine, tmp_path: Path) -> None:
    above = tmp_path / "project"
    root = above / "jobs"
    root.mkdir(parents=True)
    assert rights(look, root) == []
    above.chmod(0o2775)
    shutil.chown(above, group=60_124)
    [check] = rights(look, root)
    assert (check.ok, f"{above} is drwxrwsr-x" in str(check.sentence)) == (None, True)
    above.chmod(0o777)
    [check] = rights(look, root)
    assert (check.ok, str(check.sentence).startswith("Everybody")) == (False, True)
    above.chmod(0o1777)
    assert rights(look, root) == []
