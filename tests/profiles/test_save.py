"""Saved profiles, and the unchanged other content of their files."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.errors import ConfigError, NotFoundError, RequestError
from jupyter_slurm.profiles import save
from jupyter_slurm.profiles.reading import load_profiles


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder of profiles."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "none"))
    monkeypatch.setenv("JUPYTER_NO_CONFIG", "")
    for name in ("JUPYTER_SLURM_CLUSTER", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config" / "jupyter-slurm"


def test_written_profile_round_trips(config: Path) -> None:
    path = save.write_profile(
        "arandu",
        {
            "host": "login1",
            "user": "álice $HOME",
            "port": 2222,
            "jump": ["a@gw:22", 'b"'],
            "login_shell": False,
            "hint": "",
            "defaults": {"partition": "gpu", "x.y": "\x7f\n"},
        },
    )
    assert path == config / "clusters.d" / "arandu.toml"
    profile = load_profiles().get("arandu")
    assert (profile.host, profile.user, profile.port) == ("login1", "álice $HOME", 2222)
    assert profile.jump == ("a@gw:22", 'b"')
    assert profile.defaults == {"partition": "gpu", "x.y": "\x7f\n"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


@given(st.dictionaries(st.text(min_size=1), st.text(min_size=1), min_size=1))
def test_any_text_round_trips(table: dict[str, str]) -> None:
    assert tomllib.loads(save.toml_text({"env": table})) == {"env": table}


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 64])
def test_invalid_name_is_rejected(config: Path, name: str) -> None:
    with pytest.raises(RequestError, match="is not a valid name"):
        save.write_profile(name, {"host": "h"})


def test_existing_name_is_rejected_with_its_file(config: Path) -> None:
    save.check_new("arandu")
    path = save.write_profile("arandu", {"host": "h"})
    with pytest.raises(RequestError, match=str(path)):
        save.check_new("arandu")
    (config / "clusters.toml").write_text('[other]\nhost = "o"\n')
    with pytest.raises(RequestError, match=r"clusters\.toml"):
        save.check_new("other")


def test_removal_deletes_only_the_clusters_own_file(config: Path) -> None:
    path = save.write_profile("arandu", {"host": "h"})
    (config / "clusters.toml").write_text('[other]\nhost = "o"\n')
    assert save.remove_profile("arandu") == path
    assert not path.exists()
    with pytest.raises(NotFoundError):
        save.remove_profile("arandu")
    with pytest.raises(RequestError, match=r"\[other\]"):
        save.remove_profile("other")


def test_private_cluster_is_not_removed(config: Path) -> None:
    save.write_profile("local", {"origin": "jupyter slurm up"})
    with pytest.raises(RequestError, match="private cluster"):
        save.remove_profile("local")


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# mine\n",
        'default = "b"  # old\n\n# keep\n[b]\nhost = "b"\n',
        '# first\n  default="b"\n[b]\nhost = "b"\n[b.defaults]\ndefault = "no"\n',
    ],
)
def test_default_is_set_and_other_lines_are_kept(config: Path, before: str) -> None:
    save.write_profile("a", {"host": "h"})
    (config / "clusters.toml").write_text(before)
    path = save.set_default("a")
    after = path.read_text()
    assert load_profiles().default.name == "a"
    kept = [line for line in before.splitlines() if "default=" not in line.replace(" ", "")]
    assert [line for line in after.splitlines() if line in kept] == kept
    assert 'default = "no"' in after or "no" not in before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["[b\n", "x = 1\nx = 2\n"])
def test_invalid_toml_file_is_not_changed(config: Path, text: str) -> None:
    save.write_profile("a", {"host": "h"})
    (config / "clusters.toml").write_text(text)
    with pytest.raises(ConfigError, match="not valid TOML"):
        save.set_default("a")
    assert (config / "clusters.toml").read_text() == text
