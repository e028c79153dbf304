import pytest

from jupyter_slurm.slurm.states import STATES, cancelled_by, is_terminal, parse_state

ENDS = {
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
    "DEADLINE", "OUT_OF_MEMORY",
}  # fmt: skip


def test_terminal_states_match_slurm() -> None:
    assert {name for name in STATES if is_terminal(name)} == ENDS


@pytest.mark.parametrize("name", STATES)
def test_states_are_parsed_by_long_and_short_name(name: str) -> None:
    assert parse_state(name) == name
    assert parse_state(name.lower()) == name
    if compact := STATES[name]:
        assert parse_state(compact) == name


def test_unknown_state_is_kept_and_not_final() -> None:
    assert parse_state("HIBERNATING") == "HIBERNATING"
    assert not is_terminal("HIBERNATING")


def test_cancelling_user_is_separated_from_the_state() -> None:
    assert parse_state("CANCELLED by 1001") == "CANCELLED"
    assert cancelled_by("CANCELLED by 1001") == 1001
    assert cancelled_by("CANCELLED") is None
    assert cancelled_by("FAILED") is None


def test_truncated_state_is_expanded_if_unambiguous() -> None:
    assert parse_state("CANCELLED+") == "CANCELLED"
    assert parse_state("OUT_OF_ME+") == "OUT_OF_MEMORY"
    assert parse_state("R+") == "R+"
