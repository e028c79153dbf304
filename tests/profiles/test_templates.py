"""The templates that come with the package: each is a whole profile, and keeps clear of the traps
that its guide tells of."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

from jupyter_slurm.containers import RUNTIMES
from jupyter_slurm.containers.images import find_image
from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.jobs.submission.options import merged_options
from jupyter_slurm.profiles import templates
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.profiles.reading import load_profiles
from jupyter_slurm.profiles.templates import Template, laid_over, read
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


def test_there_are_five() -> None:
    assert templates.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_template_and_what_it_asks_for_make_a_profile(name: str, made: Path) -> None:
    whole = profile(name)
    assert whole.host
    assert whole.hint
    assert not re.search(r"\{[a-z_]+\}", msgspec.json.encode(whole).decode())
    assert read(name).about


@pytest.mark.parametrize("name", NAMES)
def test_its_defaults_are_options_of_sbatch(name: str, made: Path) -> None:
    whole = profile(name)
    assert set(whole.defaults) <= set(OPTIONS)
    for asked in ({}, {"gpus": "1"}):
        merged_options(CellSpec(id=new_id(), name="x", code="1", options=asked), whole, {})


@pytest.mark.parametrize("name", NAMES)
def test_its_partitions_hold_together(name: str, made: Path) -> None:
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
    assert {name for name, _ in whole.by_template if name} == set(whole.partitions)


def test_arandu_copies_to_the_node_and_back(made: Path) -> None:
    arandu = profile("arandu")
    assert (arandu.runtime, arandu.storage.scratch) == ("docker", "/output/alice")
    assert arandu.storage.stage
    assert arandu.partitions["arandu"].gpus == 8


def test_aau_says_how_much_memory_and_comes_by_the_gateway(made: Path) -> None:
    aau = profile("aau-aicloud")
    assert aau.defaults["mem"] == "64G"
    assert (aau.defaults["cpus-per-gpu"], aau.defaults["mem-per-gpu"]) == ("6", "90G")
    assert aau.jump == ("alice@sshgw.aau.dk",)
    assert aau.image_dirs[0] == "/user/share/singularity/images"


def test_sdumont_keeps_jobs_where_nodes_see_them_and_knows_its_prices(made: Path) -> None:
    sdumont = profile("sdumont")
    assert sdumont.job_root.startswith("/scratch/deepfun/alice/")
    assert sdumont.storage.hidden == ("/prj",)
    assert sdumont.storage.erased_s(sdumont.job_root, 0.0) == 60 * 24 * 3600
    assert sdumont.defaults["exclusive"] == ""
    assert {one.exclusive for one in sdumont.partitions.values()} == {True}
    assert {name: one.cost for name, one in sdumont.partitions.items() if one.cost != 36.0} == {
        "sequana_gpu": 72.0,
        "sequana_gpu_dev": 72.0,
        "sequana_gpu_long": 72.0,
        "gdl": 80.0,
    }


def test_pisa_has_images_in_the_home_and_sus_a_port_of_its_own(made: Path) -> None:
    pisa, sus = profile("unipi-hpc2019"), profile("sus-aicloud")
    assert (pisa.runtime, pisa.image_dirs[0]) == ("charliecloud", "~")
    assert pisa.build_on == "login"
    assert (sus.runtime, sus.port, sus.build_on) == ("pyxis", 22217, "job")


@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"a": 1}, {"a": 1}),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 3}}}, {"a": {"b": {"c": 3, "d": 2}}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 2}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_tables_are_laid_over_each_other_key_by_key(
    below: dict[str, object], above: dict[str, object], merged: dict[str, object]
) -> None:
    assert laid_over(below, above) == merged


@pytest.mark.parametrize("name", NAMES)
def test_its_container_tool_is_known_and_takes_its_images(name: str, made: Path) -> None:
    whole = profile(name)
    runtime = RUNTIMES[whole.runtime]
    assert runtime.takes_image == (name != "sdumont")
    for reference in whole.images.values():
        if not reference.startswith("/"):
            assert runtime.fetched(parse_reference(reference))


def test_the_images_that_a_site_keeps_are_used_first(made: Path) -> None:
    aau = profile("aau-aicloud")
    there = "/user/share/singularity/images/tensorflow_20.10-tf2-py3.sif"
    for name in ("tensorflow:20.10-tf2-py3", "tensorflow_20.10-tf2-py3", "tensorflow"):
        found = find_image(
            name,
            aliases=aau.images,
            image_dirs=aau.image_dirs,
            suffixes=RUNTIMES[aau.runtime].image_suffixes,
            home="/user/alice",
            exists=lambda path: path == there,
            listing=lambda folder: [Path(there).name] if folder in there else [],
        )
        assert found == there


def test_the_examples_of_the_documentation_are_profiles(made: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in NAMES)
    whole, few_lines, over_it, python, strict, partitions = re.findall(
        r"```toml\n(.*?)```", text, re.DOTALL
    )
    (made.parent / "clusters.toml").write_text(whole)
    (made / "few.toml").write_text(few_lines)
    (made / "over.toml").write_text(few_lines + over_it)
    (made / "python.toml").write_text(few_lines + python)
    (made / "partitions.toml").write_text(partitions)
    (made / "strict.toml").write_text(strict.replace("[gpus]", ""))
    assert profile("gpus").defaults["mem"] == "16G"
    assert profile("few").job_root == "/scratch/deepfun/alice/.jupyter-slurm/jobs"
    over = profile("over")
    assert (over.partitions["gdl"].limit, over.partitions["gdl"].cost) == ("24h", 80.0)
    assert "exclusive" not in over.defaults
    assert profile("python").python == "/home/alice/venv/bin/python"
    assert (profile("strict").out_format, profile("strict").show) == ("data", "sandboxed")
    assert profile("partitions").partitions["gdl"].cost == 80.0


def test_a_name_that_nobody_gave_is_named() -> None:
    template = Template("t", "", {"project": "?"}, {"job_root": "/s/{project}", "port": 1})
    assert template.variables() == ("project",)
    assert template.filled({"project": "p"}) == {"job_root": "/s/p", "port": 1}
    with pytest.raises(KeyError, match="project"):
        template.filled({"user": "me"})
    assert dataclasses.replace(template, settings={}).variables() == ()
    asks = {"user": "?", "port": "?"}
    assert Template("t", "", asks, {"job_root": "{user}", "port": 1}).variables() == ()
