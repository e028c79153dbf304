"""Tab in shells: real ones, which source what `jupyter slurm completion` prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from jupyter_slurm.cli import main

SHELLS = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"]}
LINES = [
    ("jupyter slurm ses", "session"),
    ("jupyter-slurm ses", "session"),
    ("jupyter slurm session sta", "start"),
    ("jupyter slurm session start --idl", "--idle"),
    ("jupyter slurm session start --comment --idle --cpus-per-t", "--cpus-per-task"),
    ("jupyter slurm submit a.py --on-interrupt can", "cancel"),
    ("jupyter slurm submit a.py --on-interrupt=can", "--on-interrupt=cancel"),
    ("jupyter slurm doctor far", "faraway"),
    ("jupyter slurm jobs --cluster=far", "--cluster=faraway"),
    ("jupyter slurm agent sto", "stop"),
    ("jupyter slurm submit it", "it.py"),
]
"""What is typed, and the whole word that Tab makes of the last."""


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cluster, one file, no agent, and the program that is tested."""
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    profile = tmp_path / "config/jupyter-slurm/clusters.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text('[faraway]\nhost = "far"\n')
    (tmp_path / "it.py").touch()
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Iterator[pexpect.spawn]:
    """An interactive shell that knows our words."""
    name = request.param
    env = {**os.environ, "TERM": "dumb", "PS1": "ready> ", "INPUTRC": "/dev/null"}
    child = pexpect.spawn(
        name, SHELLS[name], env=env, encoding="utf-8", timeout=120, dimensions=(24, 200)
    )
    child.sendline(f'eval "$(jupyter-slurm completion {name})"; PS1=now\\>')
    child.expect("now>")
    yield child
    child.close(force=True)


def test_tab_completes_a_word(shell: pexpect.spawn) -> None:
    for typed, word in LINES:
        shell.send(f"{typed}\t")
        shell.expect_exact(f"{typed.rpartition(' ')[0]} {word} ")
        shell.send("\x15")  # Ctrl-U: another line


def test_tab_completes_a_word_in_fish() -> None:
    script = "jupyter-slurm completion fish | source; for typed in $argv; complete -C $typed; end"
    argv = ["fish", "--no-config", "-c", script, *(typed for typed, _ in LINES)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = [line.partition("\t")[0] for line in ran.stdout.splitlines()]
    assert found == [word for _, word in LINES]


Completes = Callable[[str], list[str]]


@pytest.fixture
def completes(capsys: pytest.CaptureFixture[str]) -> Completes:
    def completes(line: str) -> list[str]:
        assert main(["completion", "zsh", line]) == 0
        return capsys.readouterr().out.split()

    return completes


def test_what_may_follow_is_what_the_command_takes(completes: Completes) -> None:
    assert completes("jupyter slurm tunnel --") == [
        "--local-port",
        "--close",
        "--cluster",
        "--json",
    ]
    assert completes("jupyter slurm session list --") == ["--json"]
    assert completes("jupyter slurm session --") == ["--json"]
    assert completes("jupyter slurm logs --task ") == []
    assert completes("jupyter slurm nonsense ") == []
    assert "--in" not in completes("jupyter slurm submit a.py --")
    assert completes("jupyter slurm submit 'a b") == []
