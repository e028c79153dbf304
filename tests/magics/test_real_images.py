"""`%%slurm_image` end to end: a real kernel, the real agent, a real Slurm, the real tool."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.image import ch_image_with
from tests.cluster.plugin import SlurmCluster
from tests.magics.kernel import LOAD, Kernel, running_kernel
from tests.magics.test_real import agent_environment, ok
from tests.ssh.profile import write_profile

_DOCKERFILE = "FROM {base}\nRUN mkdir -p /opt && echo {word} >/opt/made\n"


@pytest.fixture
def notebook(
    slurm_cluster: SlurmCluster, lean_image: Path, tmp_path: Path
) -> Iterator[tuple[Kernel, str]]:
    """Yield a notebook on a cluster with Charliecloud, and a recipe that contains a `word`."""
    program = ch_image_with(tmp_path, "lean:1", lean_image)
    # Debian's Python comes first, since ch-image does not run in the tests' own.
    setup = f"export PATH={shlex.quote(str(program.parent))}:/usr/bin:/bin:$PATH"
    recipe = _DOCKERFILE.replace("{base}", "lean:1")
    write_profile(
        tmp_path / "config",
        slurm_cluster.name,
        {
            **tomllib.loads(slurm_cluster.profile_path.read_text(encoding="utf-8")),
            "runtime": "charliecloud",
            "setup": setup,
            "image_dir": str(tmp_path / "images"),
        },
    )
    with agent_environment(slurm_cluster, JUPYTER_CONFIG_DIR=str(tmp_path / "config")) as env:
        env["JPY_SESSION_NAME"] = f"{tmp_path}/n.ipynb"
        with running_kernel(env, tmp_path) as kernel:
            ok(kernel.run(LOAD))
            yield kernel, recipe


def test_image_is_built_once_and_runs_the_next_cell(
    notebook: tuple[Kernel, str],
) -> None:
    kernel, recipe = notebook
    cell = f"%%slurm_image mine\n{recipe.format(word='first')}"
    use = "%%slurm --image mine\nprint(open('/opt/made').read())"
    made = ok(kernel.run(cell))
    assert "The image mine is ready" in made.text
    assert ok(kernel.run(use)).text == "first\n\n"
    again = ok(kernel.run(cell))
    assert again.text.startswith("Image mine exists")
    assert again.displays() == []
    assert "mine+" in str(ok(kernel.run("%slurm image")).messages)
    failed = kernel.run(f"%%slurm_image mine\n{recipe.format(word='x; exit 5')}")
    assert failed.content["ename"] == "CellFailed"
    assert ok(kernel.run("%slurm image rm mine")).text.startswith("mine: removed")
    assert "mine+" not in str(ok(kernel.run("%slurm image")).messages)
