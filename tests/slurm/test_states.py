import pytest

from jupyter_slurm.slurm.states import STATES, cancelled_by, is_terminal, parse_state

ENDS = {
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
    "DEADLINE", "OUT_OF_MEMORY",
}  # fmt: skip


def test_only_the_bases_after_suspended_are_ends() -> None:
    assert {name for name in STATES if is_terminal(name)} == ENDS


@pytest.mark.parametrize("name", STATES)
def test_every_state_is_read_by_its_long_and_its_short_name(name: str) -> None:
    assert parse_state(name) == name
    assert parse_state(name.lower()) == name
    if compact := STATES[name]:
        assert parse_state(compact) == name


def test_an_unknown_state_is_no_end_and_comes_back_as_it_is() -> None:
    assert parse_state("HIBERNATING") == "HIBERNATING"
    assert not is_terminal("HIBERNATING")


def test_who_cancelled_is_kept_apart_from_the_state() -> None:
    assert parse_state("CANCELLED by 1001") == "CANCELLED"
    assert cancelled_by("CANCELLED by 1001") == 1001
    assert cancelled_by("CANCELLED") is None
    assert cancelled_by("FAILED") is None


def test_a_state_that_sacct_cut_off_is_completed_if_only_one_fits() -> None:
    assert parse_state("CANCELLED+") == "CANCELLED"
    assert parse_state("OUT_OF_ME+") == "OUT_OF_MEMORY"
    assert parse_state("R+") == "R+"
