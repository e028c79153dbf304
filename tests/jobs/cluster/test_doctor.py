"""The doctor on a real cluster, with faults in place of some answers."""

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
from jupyter_slurm.formatting import date_and_time
from jupyter_slurm.jobs.cluster.doctor import examine, examine_connection
from jupyter_slurm.profiles.profile import UP_ORIGIN, ClusterProfile, Storage
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
    """Return a function that examines the real cluster. `ill` maps the start of a command to its
    answer, `env` extends the environment, and other arguments change the profile."""

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


def only(checks: list[Check], name: str) -> Check:
    found = [check for check in checks if check.sentence.startswith(f"{name}: ")]
    assert len(found) == 1, [check.sentence for check in checks]
    return found[0]


def wrong(checks: list[Check]) -> list[str]:
    return [check.sentence for check in checks if check.ok is False]


def test_healthy_cluster_passes_every_check(look: Examine) -> None:
    checks = look()
    assert wrong(checks) == []
    assert only(checks, "Controller").ok
    assert only(checks, "Slurm version").ok
    assert only(checks, "Accounting").ok is None
    assert "debug*" in only(checks, "Partitions").sentence
    assert only(checks, "Nodes").sentence == "Nodes: 2."
    assert "gpu:a100:4" in only(checks, "GPUs").sentence
    assert only(checks, "File system of the job folder").ok
    assert only(checks, "Python without an image").sentence.startswith(
        "Python without an image: 3."
    )


def test_missing_commands_are_reported_and_slurm_is_not_called(
    look: Examine, tmp_path: Path
) -> None:
    path = bin_dir(tmp_path, "sbatch", "squeue")
    needed = "awk bash cut df dirname find grep id python3 sed sh sort stat timeout uname".split()
    for program in needed:
        (Path(path) / program).symlink_to(f"/usr/bin/{program}")
    checks = look(env={"PATH": path}, ill={"scontrol": AssertionError()})
    check = only(checks, "Slurm's commands")
    assert check.ok is False
    for program in ("scontrol", "scancel", "sinfo"):
        assert f"{program} missing" in check.sentence
    assert "squeue missing" not in check.sentence
    assert "`path`" in str(check.hint)
    assert not [check for check in checks if check.sentence.startswith("Nodes")]


def test_silent_controller_is_called_once(look: Examine) -> None:
    answer = TimedOutError("`scontrol` did not end within 60 s")
    checks = look(ill={"scontrol ping": answer}, hint="Is the VPN on?")
    check = only(checks, "Controller")
    assert (check.ok, check.hint) == (False, "Is the VPN on?")
    assert not [check for check in checks if check.sentence.startswith("Nodes")]
    assert only(checks, "Job folder").ok


def test_unreachable_cluster_yields_one_failed_check(look: Examine) -> None:
    [check] = look(ill={"sh": TransportError("The line is dead.")}, hint="Is the VPN on?")
    assert "The line is dead." in check.sentence
    assert (check.ok, check.hint) == (False, "Is the VPN on?")


def test_up_is_suggested_only_for_a_private_cluster(look: Examine) -> None:
    ill = {"scontrol ping": TimedOutError("`scontrol` did not end within 60 s")}
    private = only(look(ill=ill, origin=UP_ORIGIN), "Controller")
    assert "jupyter slurm up --name local" in str(private.hint)
    assert "jupyter slurm up" not in str(only(look(ill=ill), "Controller").hint)


def test_unwritable_job_root_fails_the_check(look: Examine) -> None:
    check = only(look(job_root="/dev/null/jobs of 'me'"), "Job folder")
    assert check.ok is False
    assert "/dev/null/jobs of 'me'" in check.sentence
    assert "`job_root`" in str(check.hint)


def test_missing_or_old_python_fails_the_check(look: Examine, tmp_path: Path) -> None:
    assert only(look(python="/no/python"), "Python without an image").ok is False
    old = tmp_path / "old python"
    old.write_text("#!/bin/sh\necho 2.7\n")
    old.chmod(0o755)
    assert only(look(python=str(old)), "Python without an image").ok is False


def test_missing_runtime_fails_the_check_on_a_one_machine_cluster(
    look: Examine, tmp_path: Path
) -> None:
    row = "Programs of the profile's runtime"
    path = bin_dir(tmp_path, "enroot")
    env = {"PATH": f"{path}:/usr/local/bin:/usr/bin:/bin"}
    assert only(look(runtime="pyxis"), row).ok is False
    checks = look(runtime="enroot", env=env)
    assert "enroot" in only(checks, "Container tools").sentence
    assert only(checks, row).ok
    (Path(path) / "sinfo").write_text("#!/bin/sh\necho gpu1\n")
    (Path(path) / "sinfo").chmod(0o755)
    assert only(look(runtime="pyxis", env=env), row).ok is None


def test_missing_image_files_are_reported(look: Examine, tmp_path: Path) -> None:
    there = tmp_path / "an image"
    there.mkdir()
    images = {"a:1": str(there), "b:2": "/no/image", "c:3": "nvcr.io/nvidia/pytorch:22.11-py3"}
    checks = look(images=images, image_dirs=("/no/folder", str(tmp_path)))
    assert wrong(checks) == ["Missing images and image folders: /no/folder, /no/image."]


def test_files_that_expire_soon_are_counted(look: Examine, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    ages = {"runs of may/a b.txt": 50, "runs of may/c.txt": 55, "c.txt": 40}
    for name, days in ages.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_bytes(b"x" * 1000)
        then_s = time.time() - days * 24 * 3600
        os.utime(scratch / name, (time.time(), then_s))
    storage = Storage(scratch=str(scratch), purge_days=60)
    check = only(look(storage=storage), "Files that the site erases soon")
    erased_s = int((scratch / "runs of may/c.txt").stat().st_mtime) + 60 * 24 * 3600
    when = date_and_time(erased_s)[:-3]
    assert check.ok is None
    assert check.sentence.endswith(f": 2 (2.0KB), {scratch}/runs of may/c.txt on {when}.")


# --- the connection ---------------------------------------------------------------------------


def test_doctor_raises_if_a_login_is_needed(look: Examine) -> None:
    with pytest.raises(LoginNeededError):
        look(ill={"sh": LoginNeededError("Log in.")})


def connection(**changes: object) -> Connection:
    opened = Connection(
        cluster="arandu",
        state=ConnectionState.OPEN,
        since_s=1.0,
        hosts=("alice@gateway", "alice@login1"),
        round_trip_s=0.0204,
    )
    return msgspec.structs.replace(opened, **changes)


def test_check_of_a_lost_connection_shows_the_reason() -> None:
    problem = Problem(code="transport", message="The gateway does not answer.")
    (check,) = examine_connection(connection(state=ConnectionState.LOST, problem=problem), 8)
    assert (check.ok, check.hint) == (False, "The gateway does not answer.")


def parents(look: Examine, root: Path) -> list[str]:
    """Return the warnings about parents of the job folder."""
    checks = look(job_root=str(root))
    rows = ("World-writable parents", "Parents")
    return [one.sentence for one in checks if not one.ok and one.sentence.startswith(rows)]


def test_job_root_that_others_can_replace_is_reported(look: Examine, tmp_path: Path) -> None:
    above = tmp_path / "project"
    root = above / "jobs"
    root.mkdir(parents=True)
    assert parents(look, root) == []
    above.chmod(0o2775)
    shutil.chown(above, group=60_124)
    [sentence] = parents(look, root)
    assert sentence.startswith("Parents of the job folder")
    assert f"{above} drwxrwsr-x" in sentence
    above.chmod(0o777)
    [sentence] = parents(look, root)
    assert sentence.startswith("World-writable parents")
    above.chmod(0o1777)
    assert parents(look, root) == []
