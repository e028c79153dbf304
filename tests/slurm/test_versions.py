import pytest

from jupyter_slurm.slurm import versions
from jupyter_slurm.slurm.versions import SlurmVersion, parse_version
from tests.slurm.recorded import RELEASES, output


@pytest.mark.parametrize("release", RELEASES)
def test_the_release_is_read_from_what_sinfo_says(release: str) -> None:
    version = parse_version(output(release, "version").decode())
    assert version is not None
    assert str(version) == release
    assert version >= versions.OLDEST_COVERED


def test_releases_are_ordered() -> None:
    assert SlurmVersion(22, 5, 8) < SlurmVersion(22, 5, 11) < SlurmVersion(23, 2, 0)
    assert parse_version("slurm 23.02.1-pre") == (23, 2, 1)
    assert parse_version("24.05") == (24, 5, 0)
    assert parse_version("no release") is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((20, 11, 9), (True, True, False, False, False, True)),
        ((22, 5, 8), (True, False, True, False, False, False)),
        ((23, 2, 7), (True, False, True, False, True, False)),
        ((23, 11, 10), (True, False, True, False, True, True)),
        ((24, 5, 0), (True, False, True, True, True, True)),
        ((25, 11, 0), (False, False, True, True, True, True)),
    ],
)
def test_what_differs_between_releases(
    version: tuple[int, int, int], expected: tuple[bool, ...]
) -> None:
    release = SlurmVersion(*version)
    assert (
        versions.sacct_hides_high_exit_codes(release),
        versions.requested_memory_is_per_unit(release),
        versions.overlap_shares_gpus(release),
        versions.squeue_json_obeys_filters(release),
        versions.limits_request_rate(release) and versions.has_export_nil(release),
        versions.srun_takes_cpus_per_task(release),
    ) == expected


def test_json_came_to_one_command_after_the_other() -> None:
    assert not versions.has_json("squeue", SlurmVersion(20, 11, 9))
    assert versions.has_json("squeue", SlurmVersion(21, 8, 0))
    assert not versions.has_json("scontrol", SlurmVersion(22, 5, 8))
    assert not versions.has_json("sbatch", SlurmVersion(26, 5, 0))
