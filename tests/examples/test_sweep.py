"""The notebook on sweeps, run on a real Slurm."""

from __future__ import annotations

from pathlib import Path

import nbformat

from tests.cluster.plugin import SlurmCluster
from tests.examples.reading import EXAMPLES
from tests.magics.kernel import running_kernel
from tests.magics.test_real import agent_environment


def test_cells_of_the_notebook_succeed_or_fail_as_tagged(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    notebook = nbformat.read(EXAMPLES / "sweep.ipynb", as_version=4)
    with (
        agent_environment(slurm_cluster, JPY_SESSION_NAME=f"{tmp_path}/sweep.ipynb") as env,
        running_kernel(env, tmp_path) as kernel,
    ):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                fails = "raises-exception" in cell.metadata.get("tags", ())
                reply = kernel.run(cell.source)
                assert (reply.content["status"] == "error") is fails, (cell.source, reply.text)
        assert kernel.run("print(len(results), results['distance'].notna().all())").text == (
            "12 True\n"
        )
        assert kernel.run("print(texts['state'].tolist())").text == (
            "['COMPLETED', 'COMPLETED', 'COMPLETED']\n"
        )
