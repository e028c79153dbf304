"""The end of a kernel's job, and checks of its spec."""

from __future__ import annotations

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.kinds.kernel import Kernel
from jupyter_slurm.wire import Engine, KernelSpec


@pytest.mark.parametrize(
    ("bare", "log", "code", "why"),
    [
        (True, "jupyter-slurm: this Python has no ipykernel: /p (3.9) lacks zmq", 65, "The node's"),
        (False, "jupyter-slurm: this Python has no ipykernel: /p (3.9) lacks zmq", 65, "The image"),
        (False, "jupyter-slurm: the kernel dies as soon as it has started", 134, "repeatedly"),
        (False, "sh: 1: exec: python3: not found", 127, "The image has no Python"),
        (False, "jupyter-slurm: this Python has no ipykernel: /p (3.9) lacks zmq", 1, None),
        (False, "anything", 65, None),
    ],
)
def test_missing_ipykernel_is_explained(bare: bool, log: str, code: int, why: str) -> None:
    found = Kernel().missing(log, code, bare=bare)
    assert (found is None) if why is None else (found is not None and why in str(found[0]))


@pytest.mark.parametrize("engine", ["torchrun", "mpi"])
def test_kernel_rejects_launchers_of_many_ranks(engine: Engine) -> None:
    with pytest.raises(RequestError, match=f"--launch {engine}"):
        Kernel().check(KernelSpec(name="k", launch=engine))


@pytest.mark.parametrize("engine", ["ray", "dask", None])
def test_kernel_accepts_an_engine(engine: Engine | None) -> None:
    Kernel().check(KernelSpec(name="k", launch=engine))
