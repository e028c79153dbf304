"""`jupyter slurm clusters …` with a cluster in memory and real files."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_slurm.cli import main
from jupyter_slurm.client.login import TerminalPrompter
from jupyter_slurm.errors import TransportError
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.profiles.reading import load_profiles
from jupyter_slurm.wire import Connection, Description, Folder, QuestionKind
from tests.far import Asked
from tests.magics.fake import FakeApi
from tests.ssh.profile import without_profiles


class Run:
    """Runner of command lines over `api`. `lines` are the answers to the command's prompts."""

    def __init__(self, api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
        self.api = api
        self.lines: list[str] = []
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in self.lines)))
            try:
                code = main(words, lambda: self.api)
            except SystemExit as exc:
                code = int(exc.code or 0)
        return code, *self._capsys.readouterr()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of profiles of a user with an empty home."""
    return without_profiles(tmp_path, monkeypatch)


@pytest.fixture
def run(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    made = Run(FakeApi(tmp_path), capsys)
    yield made
    made.api.close()


def profile(name: str = "arandu") -> ClusterProfile:
    return load_profiles().get(name)


def test_options_with_yes_avoid_every_prompt(run: Run, files: Path) -> None:
    code, out, err = run(
        *("clusters", "add", "arandu", "--host", "alice@login1:2222", "--jump", "gw", "--yes")
    )
    assert (code, err) == (0, "")
    added = profile()
    assert (added.host, added.user, added.port, added.jump) == ("login1", "alice", 2222, ("gw",))
    assert added.runtime == "charliecloud"
    assert added.job_root == "~/.jupyter-slurm/jobs"
    assert added.origin == str(files / "arandu.toml")
    for told in (
        "Connected to arandu",
        "Slurm 22.05.8 (/usr/bin/sbatch), with accounting.",
        "gpu*: 2 nodes, 1 h, 8 GPUs",
        "Accounts: physics",
        "QOS: normal",
        "charliecloud, docker, environment modules",
        "Python on the login node: 3.9.",
        "$SCRATCH = /scratch/my data (lustre, 878.9 GiB free; visible on every node)",
        'host = "login1"',
        "jupyter slurm clusters test arandu",
    ):
        assert told in out


@pytest.mark.real
def test_dialogue_asks_for_missing_settings(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host arandu login2\nHost *\n  User me\n")
    run.lines = ["2", "none", "2", "yes", "yes"]
    code, out, _ = run("clusters", "add", "mine")
    assert code == 0
    assert "  1  arandu\n  2  login2\n" in out
    added = profile("mine")
    assert (added.host, added.user, added.runtime) == ("login2", None, "none")
    assert added.job_root == "/scratch/my data/.jupyter-slurm/jobs"
    assert load_profiles().default.name == "mine"


def test_declined_profile_is_not_saved(run: Run, files: Path) -> None:
    run.lines = ["login1", "", "", "no"]
    code, out, _ = run("clusters", "add", "mine")
    assert code == 1
    assert "The profile was not saved." in out
    assert list(files.iterdir()) == []


def answer_login(run: Run, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """Make a login ask for `s3cret`, and the user answer `word`."""
    run.api.need_login(Asked(QuestionKind.SECRET, "Password:", "s3cret"))
    monkeypatch.setattr(TerminalPrompter, "there", lambda _: True)
    monkeypatch.setattr(TerminalPrompter, "say", lambda *_: None)
    monkeypatch.setattr(TerminalPrompter, "secret", lambda *_: word)


def test_adding_a_cluster_prompts_for_its_login(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_login(run, monkeypatch, "s3cret")
    code, out, _ = run("clusters", "add", "arandu", "--host", "login1", "--yes")
    assert code == 0
    assert "s3cret" not in out + (files / "arandu.toml").read_text()


def test_unreachable_cluster_does_not_leave_a_file(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_login(run, monkeypatch, "wrong")
    code, _, err = run("clusters", "add", "arandu", "--host", "login1", "--yes")
    assert code == 1
    assert "rejected the login" in err
    assert list(files.iterdir()) == []


def _behind_a_gateway(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the login node reachable only through `gw`."""
    connect = run.api.connect

    def through(cluster: str | None = None, caller: str = "", wait_s: float = 0.0) -> Connection:
        if profile().jump != ("gw",):
            raise TransportError("No route to login1 found.", hint="Is a gateway needed?")
        return connect(cluster, caller, wait_s)

    monkeypatch.setattr(run.api, "connect", through)


def test_command_prompts_for_a_gateway_if_the_host_is_unreachable(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _behind_a_gateway(run, monkeypatch)
    run.lines = ["login1", "gw", "", "", "yes", "no"]
    code, out, err = run("clusters", "add", "arandu")
    assert (code, err) == (0, "")
    assert "No route to login1 found.\nIs a gateway needed?\n" in out
    assert "Gateway (ProxyJump), if any" in out
    assert (profile().host, profile().jump) == ("login1", ("gw",))


def test_job_root_is_chosen_on_a_shared_file_system(run: Run) -> None:
    def folder(name: str, path: str, shared: bool | None, writable: bool = True) -> Folder:
        return Folder(
            name=name,
            path=path,
            writable=writable,
            file_system="x",
            free_mib=None,
            shared=shared,
        )

    run.api.description = Description(
        name="x",
        sbatch="/sbatch",
        runtimes=(),
        modules=False,
        python=None,
        folders=(
            folder("$HOME", "/prj/alice", shared=None),
            folder("/data/$USER", "/data/alice", shared=True, writable=False),
            folder("$SCRATCH", "/scratch/alice", shared=True),
        ),
    )
    run("clusters", "add", "x", "--host", "h", "--yes", "--account", "a", "--partition", "p")
    added = profile("x")
    assert added.job_root == "/scratch/alice/.jupyter-slurm/jobs"
    assert (added.runtime, added.defaults) == ("none", {"partition": "p", "account": "a"})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("arandu", "--yes"), "--host"),
        (("arandu", "--host", "a b", "--yes"), "[user@]host[:port]"),
        (("../x", "--host", "h", "--yes"), "is not a valid name"),
        (("arandu", "--host", "h", "--runtime", "dokcer", "--yes"), "dokcer"),
        (("arandu", "--host", "h", "--env", "x", "--yes"), "NAME=VALUE"),
        (("arandu",), "Cannot read an answer"),
    ],
)
def test_invalid_cluster_is_rejected(
    run: Run, files: Path, words: tuple[str, ...], told: str
) -> None:
    code, _, err = run("clusters", "add", *words)
    assert code == 2
    assert told in err
    assert not files.exists() or list(files.iterdir()) == []


def test_existing_profile_is_not_overwritten(run: Run, files: Path) -> None:
    run("clusters", "add", "arandu", "--host", "login1", "--yes")
    before = (files / "arandu.toml").read_text()
    assert run("clusters", "add", "arandu", "--host", "other", "--yes")[0] == 2
    assert (files / "arandu.toml").read_text() == before


def test_clusters_are_listed_removed_and_set_as_default(run: Run, files: Path) -> None:
    assert run("clusters", "list")[1] == run("clusters")[1]
    assert run("clusters", "list", "--json")[1] == run("clusters", "--json")[1]
    for name in ("a", "b"):
        run("clusters", "add", name, "--host", "login1", "--yes")
    assert "`b`" in run("clusters", "default", "b")[1]
    assert load_profiles().default.name == "b"
    assert run("clusters", "default", "gone")[0] == 1
    assert run("clusters", "remove", "a")[0] == 0
    assert [path.name for path in files.iterdir()] == ["b.toml"]


def test_clusters_test_command_runs_a_job(run: Run) -> None:
    code, out, _ = run("clusters", "test", "fake", "--partition", "gpu")
    (spec,) = run.api.specs.values()
    assert (spec.cluster, spec.options) == ("fake", {"partition": "gpu"})
    assert "✔ fake answers.\n✖ No GPUs.\n" in out
    assert "says hello from Python" in out
    assert "job on `fake` succeeded" in out
    assert code == 1, "a check of the doctor failed"
    assert run.api.jobs() == []


# --- from a template ----------------------------------------------------------------------------


def test_templates_are_listed(run: Run) -> None:
    code, out, _ = run("clusters", "templates")
    assert code == 0
    assert "sdumont        Santos Dumont (LNCC): K40 and V100 nodes" in out
    assert "clusters add NAME --template NAME" in out
    assert set(json.loads(run("clusters", "templates", "--json")[1])) == {
        *("aau-aicloud", "arandu", "sdumont", "sus-aicloud", "unipi-hpc2019")
    }


def test_template_asks_for_the_users_settings(run: Run, files: Path) -> None:
    run.lines = ["alice", "deepfun", "yes", "no"]
    code, out, err = run("clusters", "add", "sd", "--template", "sdumont")
    assert (code, err) == (0, "")
    assert "Your user name on Santos Dumont: " in out
    assert "Your project's code, as in /scratch/PROJECT: " in out
    assert "over LNCC's VPN: is it on?" in out
    assert "jupyter slurm login sd" in out
    text = (files / "sd.toml").read_text()
    assert text == 'template = "sdumont"\nuser = "alice"\n\n[vars]\nproject = "deepfun"\n'
    added = profile("sd")
    assert added.job_root == "/scratch/deepfun/alice/.jupyter-slurm/jobs"
    assert added.partitions["gdl"].gpus == 8


def test_template_does_not_ask_for_settings_given_as_options(run: Run, files: Path) -> None:
    code, out, _ = run(
        *("clusters", "add", "sd", "--template", "sdumont", "--user", "bob", "--yes"),
        *("--var", "project=p=1", "--partition", "gdl", "--host", "mirror", "--jump", "gw"),
    )
    assert code == 0
    assert "Your" not in out
    added = profile("sd")
    assert (added.host, added.user, added.jump) == ("mirror", "bob", ("gw",))
    assert added.vars == {"project": "p=1"}
    assert added.defaults["partition"] == "gdl"
    assert added.defaults["exclusive"] == ""
