"""An option's value may look like an option, wherever the option may be given."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.commands.scanner import asks_for_help, before_arguments, scan
from jupyter_slurm.commands.submitting import CELL
from jupyter_slurm.slurm.options import OPTIONS

NAMES = sorted({*CELL.options, *OPTIONS, "idle", "job", "new", "keep", "from", "env-file"})
LOOKS_LIKE = st.one_of(
    st.sampled_from(["--", "-n4", "-J", "-"]),
    st.sampled_from(NAMES).map("--{}".format),
    st.tuples(st.sampled_from(NAMES), st.text("ab= \"$'é", max_size=5)).map(
        "--{0[0]}={0[1]}".format
    ),
)


@given(st.lists(st.one_of(LOOKS_LIKE, st.text(max_size=4))))
def test_no_word_is_lost_or_made(words: Sequence[str]) -> None:
    assert [word for item in scan(words) for word in item.words] == list(words)
    before, behind = before_arguments(words)
    assert [*before, *(["--"] if len(before) + len(behind) < len(words) else []), *behind] == words


@pytest.mark.parametrize(
    ("words", "asked"),
    [("-J -h", False), ("--comment --help", False), ("x -h", True), ("x -- -h", False)],
)
def test_help_is_asked_for_by_an_option_alone(words: str, asked: bool) -> None:
    assert asks_for_help(words.split()) is asked
