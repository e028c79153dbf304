"""The `#SBATCH` lines of batch scripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.slurm.directives import ignored_directive, read_directives
from tests.specs import comment_directive


@given(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), min_size=1))
def test_directive_text_round_trips(text: str) -> None:
    assert read_directives(f"#!/bin/sh\n{comment_directive(text)}\n") == {"comment": text}


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("#SBATCH -Jx -n4 --hold", {"job-name": "x", "ntasks": "4", "hold": ""}),
        ("#SBATCH --comment 'it is' # mine", {"comment": "it is"}),
        ('#SBATCH --comment="a \\" b"', {"comment": 'a " b'}),
        ("#SBATCH --comment=a' 'b", {"comment": "a b"}),
        ("#SBATCH --nosuch=1", {}),
        ("# SBATCH --hold", {}),
        ("  #SBATCH --hold", {}),
    ],
)
def test_words_are_split_as_sbatch_splits_them(line: str, options: dict[str, str]) -> None:
    assert read_directives(f"#!/bin/sh\n{line}\n") == options


def test_directives_end_at_the_first_command() -> None:
    script = "#!/bin/sh\n\n # why\n#SBATCH --hold\ncat <<END\n#SBATCH --comment=no\nEND\n"
    assert read_directives(script) == {"hold": ""}


@pytest.mark.parametrize(
    ("script", "ignored"),
    [
        ("#!/bin/sh\n#SBATCH --hold\ntrue\n", None),
        ("#!/bin/sh\ntrue\n#SBATCH --hold\n#SBATCH -n4\n", "#SBATCH --hold"),
        ('#!/usr/bin/env python3\n"""Train."""\n#SBATCH --time=7\n', "#SBATCH --time=7"),
        ("#!/bin/sh\ncat > job.sh <<END\n#SBATCH --hold\nEND\n", None),
        ('#!/usr/bin/env python3\nJOB = """#!/bin/sh\n#SBATCH --hold\n"""\n', None),
    ],
)
def test_ignored_directive_is_found(script: str, ignored: str | None) -> None:
    assert ignored_directive(script) == ignored
