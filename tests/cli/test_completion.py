"""Completion in real shells that source the output of `jupyter slurm completion`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

SHELLS = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"]}
LINES = [
    ("jupyter slurm ses", "session"),
    ("jupyter-slurm ses", "session"),
    ("jupyter slurm session sta", "start"),
    ("jupyter slurm session start --idl", "--idle"),
    ("jupyter slurm session start --comment x --cpus-per-t", "--cpus-per-task"),
    ("jupyter slurm submit a.py --on-interrupt can", "cancel"),
    ("jupyter slurm submit a.py --on-interrupt=can", "--on-interrupt=cancel"),
    ("jupyter slurm doctor far", "faraway"),
    ("jupyter slurm jobs --cluster=far", "--cluster=faraway"),
    ("jupyter slurm agent sto", "stop"),
    ("jupyter slurm submit it", "it.py"),
]
"""Typed lines, and the completed last word."""


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up a cluster, a file and the tested program, without an agent."""
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
    """Yield an interactive shell with our completion."""
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
        shell.send("\x15")  # Ctrl-U deletes the line


def test_tab_completes_a_word_in_fish() -> None:
    script = "jupyter-slurm completion fish | source; for typed in $argv; complete -C $typed; end"
    argv = ["fish", "--no-config", "-c", script, *(typed for typed, _ in LINES)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = [line.partition("\t")[0] for line in ran.stdout.splitlines()]
    assert found == [word for _, word in LINES]


def completes(line: str, folder: Path) -> list[str]:
    """Return the completions of the line's last word."""
    found = folder / "found"
    env = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "jupyter_slurm"], env=env, check=True)
    return [word.strip() for word in found.read_text().split("\v") if word]


def test_command_completes_its_own_options_and_names(tmp_path: Path) -> None:
    options = ["--help", "--local-port", "--close", "--cluster", "--json"]
    assert completes("jupyter-slurm tunnel --", tmp_path) == options
    assert completes("jupyter-slurm session list --", tmp_path) == ["--help", "--json"]
    assert completes("jupyter-slurm session --", tmp_path) == ["--help", "--json"]
    assert completes("jupyter-slurm logs --task ", tmp_path) == []
    assert "--in" not in completes("jupyter-slurm submit a.py --", tmp_path)
