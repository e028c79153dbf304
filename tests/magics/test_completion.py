"""Tab completion of magics."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.completer import CompletionContext, provisionalcompleter

from jupyter_slurm.magics.completion import Completions
from tests.magics.fake import FakeApi
from tests.magics.shell import Shell


def complete(completions: Completions, text: str) -> list[str]:
    """Return the completions at the end of `text`."""
    lines = text.split("\n")
    context = CompletionContext(
        token=text.rsplit(maxsplit=1)[-1] if text.strip() else "",
        full_text=text,
        cursor_position=len(lines[-1]),
        cursor_line=len(lines) - 1,
        limit=500,
    )
    return [one.text for one in completions.matcher(context)["completions"]]


@pytest.fixture
def completions(shell: Shell) -> Completions:
    shell.ip.user_ns.update(data=1, dataset=2)
    return Completions(shell.state)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%%slurm --ima", ["--image"]),
        ("%%slurm --gpus 1 --partit", ["--partition"]),
        ("%%sbatch --partit", ["--partition"]),
        ("%%slurm --outp", []),
        ("%%sbatch --outp", ["--output"]),
        ("%%sbatch --i", ["--ignore-pbs", "--input"]),
        ("%%slurm --partition ", ["gpu"]),
        ("%%slurm -p ", ["gpu"]),
        ("%%slurm --partition=g", ["gpu"]),
        ("%%slurm --account ", ["physics"]),
        ("%%slurm --qos n", ["normal"]),
        ("%%slurm --cluster ", ["fake", "other"]),
        ("%%slurm --image py", ["python:3.11"]),
        ("%%slurm --in data", ["data", "dataset"]),
        ("%%slurm --out x,datas", ["dataset"]),
        ("%%slurm --on-interrupt ", ["detach", "cancel"]),
        ("%slurm att", ["attach"]),
        ("%slurm use ", ["fake", "other"]),
        ("%slurm use other --ima", ["--image"]),
        ("%slurm logout o", ["other"]),
        ("%slurm tun", ["tunnel", "tunnels"]),
        ("x = 1\n%slurm jo", ["jobs"]),
    ],
)
def test_tab_completes_magic_lines(completions: Completions, text: str, found: list[str]) -> None:
    assert complete(completions, text) == found


@pytest.mark.parametrize(
    "text",
    [
        "--ima",
        "%%slurm\n--ima",
        "x = '%slurm a",
        "%slurm",
        "",
        "%%time --ima",
        "%%slurm --detach x",
    ],
)
def test_tab_ignores_other_text(completions: Completions, text: str) -> None:
    assert complete(completions, text) == []


def test_tab_completes_job_ids(shell: Shell, api: FakeApi, completions: Completions) -> None:
    shell.run("%%slurm\n1")
    job_id = api.jobs()[0].id
    for word in ("attach", "cancel", "logs", "why"):
        assert complete(completions, f"%slurm {word} {job_id[:3]}") == [job_id]


def test_ipythons_completer_calls_our_completer(shell: Shell) -> None:
    text = "%%slurm --image py"
    with provisionalcompleter():
        matches = [one.text for one in shell.ip.Completer.completions(text, len(text))]
    assert matches == ["python:3.11"]


def test_tab_completes_folders_for_push_and_files_for_the_magic(
    completions: Completions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("src/deep", "spaced out", ".hidden"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "some.txt").touch()
    assert complete(completions, "%%slurm --push s") == ["src/"]
    assert complete(completions, "%%slurm --push=src/") == ["src/deep/"]
    assert complete(completions, "%slurm push s") == ["some.txt", "src/"]
    assert complete(completions, "%slurm push .") == [".hidden/"]
    assert complete(completions, "%slurm push /no/such/") == []
