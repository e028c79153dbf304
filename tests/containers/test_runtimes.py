import pytest

from jupyter_slurm.containers import RUNTIMES, runtime_named
from jupyter_slurm.errors import RequestError


@pytest.mark.parametrize("name", RUNTIMES)
def test_every_runtime_is_found_under_its_name(name: str) -> None:
    assert runtime_named(name).name == name


def test_an_unknown_runtime_is_refused_with_the_nearest_and_all_names() -> None:
    with pytest.raises(RequestError, match="no runtime 'charliclod'") as caught:
        runtime_named("charliclod")
    assert str(caught.value.hint) == f"Did you mean charliecloud? Known: {', '.join(RUNTIMES)}."


def test_every_runtime_says_by_which_programs_it_is_known() -> None:
    assert [name for name, one in RUNTIMES.items() if not one.programs] == ["none"]
