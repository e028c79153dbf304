import pytest

from jupyter_slurm.containers import RUNTIMES, runtime_named
from jupyter_slurm.errors import RequestError


def test_unknown_runtime_is_rejected_with_the_known_runtimes() -> None:
    with pytest.raises(RequestError, match="'charliclod'") as caught:
        runtime_named("charliclod")
    assert str(caught.value.hint) == f"Did you mean charliecloud? Use one of {', '.join(RUNTIMES)}."
