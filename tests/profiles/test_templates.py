"""The package's templates, each a complete and consistent profile."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from jupyter_slurm.containers import RUNTIMES
from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.jobs.submission.options import merged_options
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.profiles.reading import load_profiles
from jupyter_slurm.profiles.templates import read
from jupyter_slurm.slurm.options import OPTIONS
from jupyter_slurm.slurm.units import parse_time_s
from jupyter_slurm.wire import CellSpec, new_id

NAMES = ["aau-aicloud", "arandu", "sdumont", "sus-aicloud", "unipi-hpc2019"]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "none"))
    for name in ("JUPYTER_SLURM_CLUSTER", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "jupyter-slurm" / "clusters.d"
    folder.mkdir(parents=True)
    for name in NAMES:
        lines = [f'template = "{name}"', 'user = "alice"']
        lines += [f'vars.{one} = "deepfun"' for one in read(name).variables()]
        (folder / f"{name}.toml").write_text("\n".join(lines))
    return folder


def profile(name: str) -> ClusterProfile:
    return load_profiles().get(name)


@pytest.mark.parametrize("name", NAMES)
def test_template_with_its_answers_is_a_profile(name: str, made: Path) -> None:
    whole = profile(name)
    assert whole.host
    assert whole.hint
    assert not re.search(r"\{[a-z_]+\}", msgspec.json.encode(whole).decode())
    assert read(name).about


@pytest.mark.parametrize("name", NAMES)
def test_defaults_of_a_template_are_sbatch_options(name: str, made: Path) -> None:
    whole = profile(name)
    assert set(whole.defaults) <= set(OPTIONS)
    for asked in ({}, {"gpus": "1"}):
        merged_options(CellSpec(id=new_id(), name="x", code="1", options=asked), whole, {})


@pytest.mark.parametrize("name", NAMES)
def test_partitions_of_a_template_are_consistent(name: str, made: Path) -> None:
    whole = profile(name)
    if "partition" in whole.defaults:
        assert whole.defaults["partition"] in whole.partitions
    if "qos" in whole.defaults:
        assert whole.defaults["qos"] in whole.qos
    for partition in whole.partitions.values():
        assert bool(partition.gpu) == bool(partition.gpus)
        assert partition.cost is None or whole.cost_unit
        if partition.limit:
            assert parse_time_s(partition.limit)


@pytest.mark.parametrize("name", NAMES)
def test_runtime_of_a_template_accepts_its_images(name: str, made: Path) -> None:
    whole = profile(name)
    runtime = RUNTIMES[whole.runtime]
    assert runtime.takes_image == (name != "sdumont")
    for reference in whole.images.values():
        if not reference.startswith("/"):
            assert runtime.fetched(parse_reference(reference))
