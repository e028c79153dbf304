"""The words for states."""

from __future__ import annotations

from jupyter_slurm.slurm.states import STATES
from jupyter_slurm.wire import JobState, state_word


def test_every_state_has_a_short_word() -> None:
    assert {*STATES} <= {one.value for one in JobState}
    for one in JobState:
        assert one.word == state_word(one.value)
        assert one.word.islower()
        assert len(one.word.split()) <= 3


def test_final_states_have_different_words() -> None:
    ends = [one.word for one in JobState if one.final]
    assert len({*ends}) == len(ends)


def test_state_of_a_newer_slurm_keeps_its_name() -> None:
    assert state_word("SOMETHING_NEW") == "something new"
