import pytest

from jupyter_slurm.containers import RUNTIMES, runtime_named
from jupyter_slurm.errors import RequestError


def test_an_unknown_runtime_is_refused_with_the_nearest_and_all_names() -> None:
    with pytest.raises(RequestError, match="'charliclod'") as caught:
        runtime_named("charliclod")
    assert str(caught.value.hint) == f"Did you mean charliecloud? Known: {', '.join(RUNTIMES)}."
