import pytest

from jupyter_slurm.slurm.versions import SlurmVersion, parse_version
from tests.slurm.recorded import RELEASES, output


@pytest.mark.parametrize("release", RELEASES)
def test_release_is_read_from_sinfo(release: str) -> None:
    version = parse_version(output(release, "version").decode())
    assert version is not None
    assert str(version) == release


def test_slurm_releases_are_ordered_by_number() -> None:
    assert SlurmVersion(22, 5, 8) < SlurmVersion(22, 5, 11) < SlurmVersion(23, 2, 0)
    assert parse_version("slurm 23.02.1-pre") == (23, 2, 1)
    assert parse_version("24.05") == (24, 5, 0)
    assert parse_version("no release") is None
