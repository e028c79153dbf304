"""Profiles from files: values, errors, and the default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_slurm.errors import ConfigError, NotFoundError
from jupyter_slurm.profiles.profile import UP_ORIGIN, ClusterProfile, Storage
from jupyter_slurm.profiles.reading import ProfileFiles, Profiles, load_profiles


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder of profiles. The machine has no Slurm."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "user"))
    for name in ("JUPYTER_NO_CONFIG", "JUPYTER_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("jupyter_core.paths.SYSTEM_CONFIG_PATH", [str(tmp_path / "system")])
    monkeypatch.setattr("jupyter_core.paths.ENV_CONFIG_PATH", [str(tmp_path / "env")])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.delenv("JUPYTER_SLURM_CLUSTER", raising=False)
    return tmp_path / "user" / "jupyter-slurm"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def refusal(config: Path, text: str, name: str = "clusters.toml") -> str:
    write(config / name, text)
    with pytest.raises(ConfigError) as caught:
        _ = load_profiles().default
    return str(caught.value)


def test_table_in_clusters_toml_defines_a_cluster_with_defaults(config: Path) -> None:
    file = write(
        config / "clusters.toml",
        """
        [arandu]
        runtime = "docker"
        path = ["/opt/slurm/bin", "/opt/with blank"]
        poll_s = 3
        env.SLURM_CONF = "/etc/slurm/ü $x.conf"
        [arandu.images]
        "pytorch:22.11" = "nvcr.io/nvidia/pytorch:22.11-py3"
        """,
    )
    profile = load_profiles().get("arandu")
    assert profile.runtime == "docker"
    assert profile.path == ("/opt/slurm/bin", "/opt/with blank")
    assert profile.poll_s == 3.0
    assert profile.env == {"SLURM_CONF": "/etc/slurm/ü $x.conf"}
    assert profile.images == {"pytorch:22.11": "nvcr.io/nvidia/pytorch:22.11-py3"}
    assert profile.host is None
    assert profile.python == "python3"
    assert profile.origin == str(file)


def test_file_in_clusters_d_defines_one_cluster(config: Path) -> None:
    write(config / "clusters.d" / "local.toml", f'runtime = "charliecloud"\norigin = "{UP_ORIGIN}"')
    profile = load_profiles().get("local")
    assert (profile.runtime, profile.origin) == ("charliecloud", UP_ORIGIN)


def test_user_cluster_replaces_the_system_cluster(config: Path, tmp_path: Path) -> None:
    write(
        tmp_path / "system" / "jupyter-slurm" / "clusters.toml",
        'default = "a"\n[a]\nhost = "login"\n[b]\n',
    )
    write(config / "clusters.toml", '[a]\nruntime = "apptainer"\n')
    profiles = load_profiles()
    assert profiles.default.name == "a"
    assert profiles.default.runtime == "apptainer"
    assert profiles.default.host is None
    assert "b" in profiles


def test_defaults_of_every_toml_type_become_option_text(config: Path) -> None:
    write(
        config / "clusters.toml",
        "[a.defaults]\ngpus = 2\ntime = 01:30:00\nrequeue = true\nexclusive = false\nmem = '4G'\n"
        "[a.job_env]\nOMP_NUM_THREADS = 4\n",
    )
    profile = load_profiles().default
    assert profile.defaults == {"gpus": "2", "time": "01:30:00", "requeue": "", "mem": "4G"}
    assert profile.job_env == {"OMP_NUM_THREADS": "4"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n[a]\nruntim = 'x'", "line 4: [a] `runtim` is not a setting; did you mean `runtime`?"),
        ("[a]\npoll_s = 'x'", "line 2: [a] `poll_s` must be a number, not text."),
        ("[a]\npoll_s = 0", "line 2: [a] `poll_s` must be a number above 0.0."),
        ("[a]\nbuild_on = 'node'", 'line 2: [a] `build_on` must be "job" or "login".'),
        ("[a.images]\nb = 1", "line 1: [a] each value in `images` must be text"),
        ("[a]\nsetup = '''\n[b]\npoll_s = 1\n'''\npoll_s = -1", "line 6: [a] `poll_s`"),
        ("default = 3", "line 1: `default` must be the name of a cluster, in quotes."),
        ("runtime = 'x'\n[a]", "line 1: `runtime` is above the first [CLUSTER]."),
        ("['a b']", "line 1: 'a b' is not a valid name of a cluster."),
        ("[a]\nhost = login", "is not valid TOML: Invalid value (at line 2"),
    ],
)
def test_invalid_file_is_rejected_with_file_line_and_key(
    config: Path, text: str, message: str
) -> None:
    refused = refusal(config, text)
    assert refused.startswith(str(config / "clusters.toml"))
    assert message in refused


def test_file_writable_by_others_is_rejected(config: Path) -> None:
    path = write(config / "clusters.toml", "[a]")
    path.chmod(0o606)
    with pytest.raises(ConfigError, match=r"Other users can write .*\nRun `chmod go-w"):
        _ = load_profiles().default


def test_file_of_another_user_is_rejected(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(config / "clusters.toml", "[a]")
    owner = path.stat().st_uid
    if owner == 0:
        os.chown(path, 4242, -1)
    else:
        monkeypatch.setattr("os.getuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        _ = load_profiles().default


# --- the default ------------------------------------------------------------------------------


def names(profiles: Profiles) -> list[str]:
    return [profile.name for profile in profiles]


def test_environment_variable_overrides_the_default_of_the_files(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(config / "clusters.toml", 'default = "b"\n[a]\n[b]\n[c]\n')
    assert load_profiles().default.name == "b"
    monkeypatch.setenv("JUPYTER_SLURM_CLUSTER", "c")
    assert load_profiles().default.name == "c"
    assert names(load_profiles()) == ["c", "a", "b"]


def test_private_cluster_is_the_default_only_without_other_clusters(config: Path) -> None:
    write(config / "clusters.d" / "local.toml", f'origin = "{UP_ORIGIN}"')
    assert load_profiles().default.name == "local"
    write(config / "clusters.toml", "[arandu]")
    assert load_profiles().default.name == "arandu"


def test_clusters_without_a_default_are_listed_in_the_error(config: Path) -> None:
    write(config / "clusters.toml", "[a]\n[b]\n")
    with pytest.raises(ConfigError, match=r": a, b\.") as caught:
        _ = load_profiles().default
    assert str(config / "clusters.toml") in str(caught.value)
    assert names(load_profiles()) == ["a", "b"]


def test_undefined_default_is_rejected_with_its_line(config: Path) -> None:
    write(config / "clusters.toml", '\ndefault = "arnadu"\n[arandu]\n')
    with pytest.raises(ConfigError, match=r"line 2: .*`arnadu` is not defined; did you mean `ara"):
        _ = load_profiles().default
    assert load_profiles().get("arandu").name == "arandu"


def test_error_for_an_unknown_cluster_suggests_the_nearest_cluster(config: Path) -> None:
    write(config / "clusters.toml", "[arandu]")
    with pytest.raises(NotFoundError, match="Unknown cluster `arandoo`; did you mean `arandu`"):
        load_profiles().get("arandoo")


# --- no file ----------------------------------------------------------------------------------


def install_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sbatch = write(tmp_path / "bin" / "sbatch", "#!/bin/sh\n")
    sbatch.chmod(0o755)
    conf = write(tmp_path / "slurm.conf", "")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    return conf


def test_local_slurm_is_the_default_cluster_without_config_files(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = install_slurm(tmp_path, monkeypatch)
    profile = load_profiles().default
    assert (profile.name, profile.host, profile.runtime) == ("here", None, "none")
    assert profile.env == {"SLURM_CONF": str(conf)}


def test_missing_cluster_error_suggests_up(config: Path) -> None:
    profiles = load_profiles()
    assert len(profiles) == 0
    with pytest.raises(
        ConfigError,
        match=r"No cluster yet\.\nStart a cluster on this machine with `jupyter slurm up`",
    ):
        _ = profiles.default


# --- reading again ----------------------------------------------------------------------------


def test_only_changed_files_are_read_again(config: Path) -> None:
    file = write(config / "clusters.toml", "[a]")
    files = ProfileFiles()
    first = files.load()
    assert files.load() is first
    write(file.with_name("other"), "[a]\n[b]").replace(file)
    assert "b" in files.load()
    write(config / "clusters.d" / "c.toml", "")
    assert "c" in files.load()
    (config / "clusters.d" / "c.toml").unlink()
    assert "c" not in files.load()


def test_folder_change_after_a_long_pause_is_detected(config: Path) -> None:
    file = write(config / "clusters.d" / "a.toml", "")
    os.utime(file.parent, (1.0, 1.0))
    files = ProfileFiles()
    assert [*files.load().clusters] == [*files.load().clusters] == ["a"]
    added = write(file.with_name("b.toml"), "")
    assert "b" in files.load()
    os.utime(file.parent, (2.0, 2.0))
    assert "b" in files.load()
    added.unlink()
    assert "b" not in files.load()
    write(config / "clusters.toml", "[c]")
    assert "c" in files.load()
    write(file, "nonsense = 1")
    assert "a" in files.load().broken


@pytest.mark.parametrize(
    ("path", "erased"),
    [
        ("/scratch/alice", True),
        ("/scratch/alice/jobs/abcdefgh", True),
        ("/home/alice/scratch/alice", False),
    ],
)
def test_files_in_scratch_expire_after_purge_days(path: str, erased: bool) -> None:
    storage = Storage(scratch="/scratch/{user}/", purge_days=60)
    assert storage.erased_s(path, 1000.0) == (1000.0 + 60 * 24 * 3600 if erased else None)
    assert Storage(scratch="/scratch/{user}").erased_s(path, 1000.0) is None


# --- partitions and templates ------------------------------------------------------------------

SDUMONT = '[sd]\ntemplate = "sdumont"\nuser = "alice"\nvars.project = "deepfun"\n'


def loaded(config: Path, text: str) -> ClusterProfile:
    write(config / "clusters.toml", text)
    return load_profiles().default


def test_partition_has_its_own_table(config: Path) -> None:
    profile = loaded(
        config,
        """
        [a]
        cost_unit = "credits"
        qos = ["normal", "long"]
        [a.partitions.gpu]
        limit = "2d12h"
        nodes = 4
        gpus = 8
        gpu = "A100"
        cost = 2
        exclusive = true
        [a.partitions."short ones"]
        limit = 00:20:00
        """,
    )
    gpu = profile.partitions["gpu"]
    assert (gpu.limit, gpu.nodes, gpu.gpus, gpu.cost, gpu.exclusive) == ("2d12h", 4, 8, 2.0, True)
    assert profile.partitions["short ones"].limit == "00:20:00"
    assert (profile.cost_unit, profile.qos) == ("credits", ("normal", "long"))


def test_settings_of_the_cluster_override_its_template(config: Path) -> None:
    profile = loaded(
        config,
        SDUMONT
        + """
        modules = ["deepl/deeplearn-py3.7"]
        [sd.defaults]
        partition = "gdl"
        exclusive = false
        [sd.partitions.gdl]
        limit = "24h"
        """,
    )
    assert (profile.host, profile.user) == ("login.sdumont.lncc.br", "alice")
    assert profile.job_root == "/scratch/deepfun/alice/.jupyter-slurm/jobs"
    assert profile.job_env == {
        "PYTHONUSERBASE": "/scratch/deepfun/alice/.local",
        "XDG_CACHE_HOME": "/scratch/deepfun/alice/.cache",
        "XDG_CONFIG_HOME": "/scratch/deepfun/alice/.config",
    }
    assert profile.storage.hidden == ("/prj",)
    assert profile.modules == ("deepl/deeplearn-py3.7",), "lists are not replaced"
    assert profile.defaults == {"partition": "gdl", "nodes": "1", "ntasks": "1"}
    gdl = profile.partitions["gdl"]
    assert (gdl.limit, gdl.cost, gdl.gpus) == ("24h", 80.0, 8)
    assert profile.origin == str(config / "clusters.toml")


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        (
            '[a]\ntemplate = "sdumnt"\n',
            "line 2: [a] Unknown template `sdumnt`; did you mean `sdumont`?",
            "Use one of aau-aicloud, arandu, ",
        ),
        (
            '[a]\ntemplate = "sdumont"\nuser = "me"\n',
            "line 2: [a] The template `sdumont` needs `vars.project`: Your project's code",
            'Write `vars.project = "…"`',
        ),
        ('[a]\ntemplate = "aau-aicloud"\n', "needs `user`: Your AAU ID.", 'Write `user = "…"`'),
        (
            f'{SDUMONT}vars.projct = "x"\n',
            "line 5: [sd] The template `sdumont` has no variable `projct`; did you mean `project`?",
            "",
        ),
        ("[a]\ntemplate = 3\n", "line 2: [a] `template` must be text, not a whole number", ""),
    ],
)
def test_missing_template_settings_are_reported_with_the_line_to_add(
    config: Path, text: str, words: str, hint: str
) -> None:
    write(config / "clusters.toml", text)
    with pytest.raises(ConfigError) as caught:
        _ = load_profiles().default
    assert words in str(caught.value)
    assert hint in str(caught.value.hint or "")
