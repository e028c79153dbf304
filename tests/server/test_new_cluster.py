"""The calls by which pages add a cluster. `tests/ui` tests the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from jupyter_slurm.errors import ConfigError, NotFoundError, RequestError
from jupyter_slurm.profiles.reading import load_profiles
from jupyter_slurm.server.kernels import Nothing
from jupyter_slurm.server.new_cluster import Choice, Name, NewClusters, Way
from tests.magics.fake import FakeApi
from tests.ssh.profile import without_profiles


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's profiles. Their home is empty."""
    return without_profiles(tmp_path, monkeypatch)


@pytest.fixture
def api(files: Path, tmp_path: Path) -> Iterator[FakeApi]:
    del files  # this sets the environment
    made = FakeApi(tmp_path)
    yield made
    made.close()


def test_saved_cluster_has_its_connection_and_the_chosen_settings(
    api: FakeApi, files: Path
) -> None:
    new = NewClusters()
    way = Way("far", host="alice@login1:2222", jump="gw1, gw2", path="/opt/slurm/bin")
    new.begin(api, msgspec.structs.replace(way, env="SLURM_CONF=/etc/a b\n\nX="))
    found = new.found(api, Name("far"))
    assert (found.runtimes[0], found.runtimes[-1]) == ("charliecloud", "none")
    new.keep(api, Choice("far", found.runtimes[0], found.job_roots[0], "gpu", "physics"))
    kept = load_profiles().get("far")
    assert (kept.host, kept.user, kept.port, kept.jump) == ("login1", "alice", 2222, ("gw1", "gw2"))
    assert (kept.runtime, kept.job_root) == ("charliecloud", "~/.jupyter-slurm/jobs")
    assert kept.defaults == {"partition": "gpu", "account": "physics"}
    assert (kept.path, kept.env) == (("/opt/slurm/bin",), {"SLURM_CONF": "/etc/a b", "X": ""})
    assert (files / "far.toml").stat().st_mode & 0o777 == 0o600
    with pytest.raises(NotFoundError):
        new.drop(api, Name("far"))
    assert "far" in load_profiles()


def test_discarded_cluster_does_not_leave_a_file_and_can_be_added_again(
    api: FakeApi, files: Path
) -> None:
    new = NewClusters()
    new.begin(api, Way("far", host="login1"))
    new.drop(api, Name("far"))
    assert list(files.iterdir()) == []
    new.begin(api, Way("far", host="login1"))
    new.begin(api, Way("far", host="login2"))  # the page was reloaded in between
    assert load_profiles().get("far").host == "login2"


def test_existing_cluster_is_not_replaced_or_removed(api: FakeApi, files: Path) -> None:
    files.mkdir(parents=True)
    (files / "mine.toml").write_text('host = "login1"\n')
    new = NewClusters()
    with pytest.raises(RequestError, match="already"):
        new.begin(api, Way("mine", host="login2"))
    with pytest.raises(NotFoundError):
        new.keep(api, Choice("mine"))
    with pytest.raises(NotFoundError):
        new.drop(api, Name("mine"))
    assert load_profiles().get("mine").host == "login1"


@pytest.mark.parametrize(
    "way",
    [
        Way("far", host="no host"),
        Way("far", host="login1", env="SLURM_CONF"),
        Way("../far", host="login1"),
        Way("far", template="sdumont", answers={"user": "alice"}),
    ],
)
def test_invalid_connection_writes_nothing(api: FakeApi, files: Path, way: Way) -> None:
    with pytest.raises((RequestError, NotFoundError)):
        NewClusters().begin(api, way)
    assert not files.exists() or list(files.iterdir()) == []


def test_template_is_saved_with_its_answers(api: FakeApi, files: Path) -> None:
    new = NewClusters()
    known = {one.name: one for one in new.ways(api, Nothing()).templates}
    assert "VPN" in known["sdumont"].hint
    answers = dict.fromkeys(known["sdumont"].ask, "alice")
    new.begin(api, Way("sd", template="sdumont", answers=answers))
    new.keep(api, Choice("sd"))
    text = (files / "sd.toml").read_text()
    assert text == 'template = "sdumont"\nuser = "alice"\n\n[vars]\nproject = "alice"\n'


def test_host_without_slurm_is_reported(api: FakeApi) -> None:
    api.description = msgspec.structs.replace(api.description, sbatch=None)
    new = NewClusters()
    new.begin(api, Way("far", host="login1"))
    with pytest.raises(ConfigError, match="login node"):
        new.found(api, Name("far"))
