"""Remote kernels and their notebooks, as a Jupyter server sees them."""

from __future__ import annotations

import json

import pytest

from jupyter_slurm.magics.notebook_name import of_servers
from tests.server.served import Served


def test_kernel_preview_does_not_create_a_kernel(
    served: Served,
) -> None:
    client = served.client()
    line = "--cluster arandu --gpus 2 --time 1h"
    assert client.call("kernel_meant", line=line) == {
        "name": "slurm-arandu-2-gpus",
        "display_name": "Python 3 (arandu · 2 GPUs)",
        "words": ["--cluster", "arandu", "--gpus", "2", "--time", "1h"],
        "cluster": "arandu",
        "exists": False,
    }
    assert client.call("kernels") == {"kernels": []}


def test_kernel_asks_its_server_for_the_notebooks_path(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = served.client()
    auth = {"Authorization": f"token {served.token}"}
    # A kernel that was started without a notebook has no name in its environment.
    kernel_id = json.loads(client.post("api/kernels", {}, **auth).body)["id"]
    asked = {"path": "my study.ipynb", "type": "notebook", "name": "", "kernel": {"id": kernel_id}}
    client.post("api/sessions", asked, **auth)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", served.env["JUPYTER_RUNTIME_DIR"])
    try:
        told = of_servers(f"/run/user/1/kernel-{kernel_id}.json")
        assert told == str(served.folder / "my study.ipynb")
        assert of_servers("kernel-7.json") is None
    finally:
        client.ask("DELETE", f"api/kernels/{kernel_id}", None, **auth)
