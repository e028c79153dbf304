"""Settings that `clusters add` detects on a real cluster, with the test's own homes and folders."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jupyter_slurm.jobs.cluster.describe import describe
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.transport import Completed
from jupyter_slurm.wire import Description
from tests.cluster.plugin import SlurmCluster


@pytest.fixture
def look(slurm_cluster: SlurmCluster, tmp_path: Path) -> Callable[..., Description]:
    """Return a function that describes the cluster with a given home."""

    def look(home: Path) -> Description:
        def run(argv: Sequence[str]) -> Completed:
            done = subprocess.run(
                argv,
                env={**slurm_cluster.env, "HOME": str(home)},
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=60,
            )
            return Completed(done.returncode, done.stdout, done.stderr)

        return describe(ClusterProfile(name="here", job_root=str(tmp_path)), run)

    return look


def test_tools_python_and_home_are_found(look: Callable[..., Description], tmp_path: Path) -> None:
    found = look(tmp_path)
    assert found.sbatch is not None
    assert found.sbatch.endswith("/sbatch")
    assert found.python is not None
    assert found.python.startswith("3.")
    (home,) = [folder for folder in found.folders if folder.name == "$HOME"]
    assert (home.path, home.writable, home.shared) == (str(tmp_path), True, True)
    assert home.free_mib is not None


def test_folders_in_variables_of_the_login_shell_are_found(
    look: Callable[..., Description], tmp_path: Path
) -> None:
    scratch = tmp_path / "my 'scratch'\tand $more"
    scratch.mkdir()
    quoted = str(scratch).replace("'", "'\\''")
    (tmp_path / ".bash_profile").write_text(
        f"echo 'A banner'\nexport SCRATCH='{quoted}' WORK=/no/such\n"
    )
    found = look(tmp_path)
    (folder,) = [folder for folder in found.folders if folder.name == "$SCRATCH"]
    assert folder.path == str(scratch)
    assert not [folder for folder in found.folders if folder.name == "$WORK"]
