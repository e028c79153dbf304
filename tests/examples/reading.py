"""Notebooks of `examples/`, run from top to bottom and then inspected."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.cluster.dressed import Dressed
from tests.cluster.plugin import ROOT

EXAMPLES = ROOT / "examples"
LIMIT_S = 400
"""Timeout for running one notebook, which takes a minute on an idle machine."""


@dataclass(frozen=True)
class Reading:
    """A notebook that was run in `folder`."""

    folder: Path
    cells: list[Any]

    def text(self, words: str) -> str:
        """Return all output of the code cell that contains `words`: the joined text of each stream,
        and then all other outputs."""
        outputs = self._outputs(words)
        streams = [
            "".join(one.text for one in outputs if one.get("name") == name)
            for name in ("stdout", "stderr")
        ]
        others = [_text(one) for one in outputs if one.output_type != "stream"]
        return "\n".join([*streams, *others])

    def pictures(self, words: str) -> int:
        """Return the number of pictures in that cell's output."""
        outputs = self._outputs(words)
        return sum("image/png" in output.get("data", {}) for output in outputs)

    def _outputs(self, words: str) -> list[Any]:
        found = [cell for cell in self.cells if words in cell.source]
        assert len(found) == 1, f"{len(found)} cells with {words!r} instead of one"
        outputs: list[Any] = found[0].outputs
        return outputs


def read(name: str, site: Dressed, folder: Path, *answers: str) -> Reading:
    """Run `examples/NAME.ipynb` in `folder` with access to `site`. `answers` lists the replies to
    its cells' questions."""
    return run(name, site.env, folder, site.log_in, answers)


def add(site: Dressed, *answers: str) -> str:
    """Replace the site's profile as its notebook does, and return the output. Fail if a question
    has no answer."""
    name = site.dress.template
    (site.sshd.client.folder / "config/jupyter-slurm/clusters.toml").unlink()
    argv = ["-m", "jupyter_slurm", "clusters", "add", name, "--template", name]
    done = subprocess.run(
        [sys.executable, *argv],
        input="".join(f"{one}\n" for one in answers),
        env=site.env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Keep this profile?" in done.stdout
    return done.stdout


def run(
    name: str,
    env: Mapping[str, str],
    folder: Path,
    begin: Callable[[], object] = lambda: None,
    answers: Sequence[str] = (),
) -> Reading:
    """Run `examples/NAME.ipynb` in `folder` after `begin`. Its agent ends with it."""
    work = folder / "work"
    work.mkdir()
    ran = folder / f"{name}.ipynb"
    log = folder / f"{name}.log"
    env = {**env, "JPY_SESSION_NAME": str(work / ran.name)}
    argv = [str(EXAMPLES / "execute.py"), str(EXAMPLES / ran.name), str(ran)]
    if answers:
        typed = folder / "answers"
        typed.write_text("\n".join(answers))
        argv.append(str(typed))
    try:
        begin()
        with log.open("w") as output:
            done = subprocess.run(
                [sys.executable, *argv],
                env=env,
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=LIMIT_S,
                check=False,
            )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{name}.ipynb did not end in {LIMIT_S} s:\n{log.read_text()}")
    finally:
        stop = [sys.executable, "-m", "jupyter_slurm", "agent", "stop"]
        subprocess.run(stop, env=env, check=True, timeout=60, capture_output=True)
    assert done.returncode == 0, log.read_text()
    notebook = nbformat.read(ran, as_version=4)
    return Reading(work, [cell for cell in notebook.cells if cell.cell_type == "code"])


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return str(output.get("data", {}).get("text/plain", ""))
