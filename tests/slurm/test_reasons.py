from pathlib import Path

import pytest

from jupyter_slurm.slurm.reasons import explain

CODES = (Path(__file__).parents[1] / "recorded" / "reasons.txt").read_text().split()
"""Every reason code of Slurm 20.11 to 26.05."""


@pytest.mark.parametrize("code", CODES)
def test_every_reason_has_a_message_and_advice(code: str) -> None:
    said = explain(code)
    assert said.known
    assert said.code == code
    for text in (said.sentence, said.advice):
        assert str(text).endswith((".", ")"))
        assert str(text)[:1].isupper() or str(text).startswith("`")
        assert "{" not in str(text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("ReqNodeNotAvail, UnavailableNodes:n1", "ReqNodeNotAvail"),
        ("ReqNodeNotAvail, May be reserved for other job", "ReqNodeNotAvail"),
        ("Reservation week42 was deleted", "ReservationDeleted"),
        ("launch failed requeued held", "JobLaunchFailure"),
        ("(Priority)", "Priority"),
        ("Priority,Resources", "Priority"),
        ("", "None"),
    ],
)
def test_free_text_means_the_same_as_its_code(text: str, other: str) -> None:
    said, same = explain(text), explain(other)
    assert (said.known, said.sentence, said.advice) == (True, same.sentence, same.advice)


@pytest.mark.parametrize(
    "text",
    [
        "ReqNodeNotAvail, Reserved for maintenance",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions",
        "job requeued in special exit state",
        "RaisedSignal:53(Real-time signal 19)",
        "RaisedSignal:9(Killed)",
    ],
)
def test_free_texts_without_a_code_are_known(text: str) -> None:
    assert explain(text).known


def test_unknown_reason_is_shown_unchanged() -> None:
    said = explain("FluxCapacitor {0}")
    assert not said.known
    assert "FluxCapacitor {0}" in str(said.sentence)
