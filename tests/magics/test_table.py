"""Slurm's output as a table if the output is unambiguous."""

from __future__ import annotations

import pytest

from jupyter_slurm.magics.table import read
from jupyter_slurm.views.table import Table

SQUEUE = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                12     debug   my job    alice PD       0:00      1 (Resources)
                11     debug     wrap      bob  R       1:02      2 n[1-2]
"""


def test_squeue_columns_survive_a_blank_in_a_name() -> None:
    rows = read(["squeue"], SQUEUE).rows
    assert rows[0]["NAME"] == "my job"
    assert rows[0]["NODELIST(REASON)"] == "(Resources)"
    assert rows[1]["USER"] == "bob"


def test_separated_values_become_a_table() -> None:
    text = read(["sacct", "-P"], "JobID|JobName\n12|my job\n")
    assert text.rows == [{"JobID": "12", "JobName": "my job"}]
    assert list(text.to_pandas()["JobName"]) == ["my job"]
    assert read(["sacct", "-p"], "JobID|JobName|\n12|a|\n").rows == [
        {"JobID": "12", "JobName": "a"}
    ]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["squeue", "-h"], "12 DEBUG X\n13 DEBUG Y\n"),
        (["squeue", "--noheader"], "A B\nC D\n"),
        (["squeue", "-o", "%i|%j"], "JOBID|NAME\n12|a|b\n"),
        (["squeue", "-O", "JobID:6,Name:6"], "JOBID NAME  \n123456a b   \n"),
        (["scontrol", "show", "job"], "JobId=1 JobName=x\n   UserId=root(0)\n"),
        (["sinfo", "-l"], "Sat Nov 21 10:00:00 2026\nPARTITION AVAIL\ndebug up\n"),
        (["squeue"], ""),
    ],
)
def test_ambiguous_output_stays_text(argv: list[str], text: str) -> None:
    result = read(argv, text)
    assert result.rows == []
    assert result.text == text
    with pytest.raises(ValueError, match="-P"):
        result.to_pandas()


def test_table_escapes_html_and_control_characters() -> None:
    table = Table(("Name",), (("<b>x</b>\x1b[31m",),))
    assert "<b>x" not in table._repr_html_()
    assert "\x1b" not in repr(table)
