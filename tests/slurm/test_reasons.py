from pathlib import Path

import pytest

from jupyter_slurm.slurm.reasons import explain

CODES = (Path(__file__).parents[1] / "recorded" / "reasons.txt").read_text().split()
"""Every code of 20.11 to 26.05."""


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_sentence_and_advice(code: str) -> None:
    said = explain(code)
    assert said.known
    assert said.code == code
    for text in (said.sentence, said.advice):
        assert str(text).endswith((".", ")"))
        assert str(text)[:1].isupper() or str(text).startswith("`")
        assert "{" not in str(text)


NEVER = (
    "DependencyNeverSatisfied PartitionTimeLimit BadConstraints InvalidAccount InvalidQOS"
    " AccountNotAllowed QOSNotAllowed DeadLine ReservationDeleted QOSMaxWallDurationPerJobLimit"
    " AssocMaxWallDurationPerJobLimit QOSMaxCpuPerJobLimit QOSMaxGRESPerJob AssocMaxMemPerNode"
    " AssocGrpCPUMinutesLimit QOSGrpGRESMinutes QOSTimeLimit MaxMemPerLimit QOSMinGRES"
).split()
WAITS = (
    "None Priority Resources Dependency BeginTime Licenses QOSMaxGRESPerUser QOSGrpCpuLimit"
    " QOSMaxJobsPerUserLimit AssocMaxSubmitJobLimit JobArrayTaskLimit ReqNodeNotAvail"
    " AssocGrpCPURunMinutesLimit MaxCpuRunMinsPerUser MaxGRESPerAccount PartitionDown JobHeldUser"
).split()


@pytest.mark.parametrize(
    ("code", "never"), [*((code, True) for code in NEVER), *((code, False) for code in WAITS)]
)
def test_what_never_starts_is_told_from_what_waits(code: str, never: bool) -> None:
    assert explain(code).never_starts is never


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ReqNodeNotAvail, UnavailableNodes:n1", "down, drained or reserved"),
        ("ReqNodeNotAvail, May be reserved for other job", "down, drained or reserved"),
        ("ReqNodeNotAvail, Reserved for maintenance", "maintenance"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
            "partitions",
            "down, drained or reserved",
        ),
        ("Reservation week42 was deleted", "reservation was deleted"),
        ("launch failed requeued held", "could not start"),
        ("job requeued in special exit state", "requeues and holds"),
        ("RaisedSignal:53(Real-time signal 19)", "could not open its output file"),
        ("RaisedSignal:9(Killed)", "signal 9"),
        ("(Priority)", "ahead of it"),
        ("Priority,Resources", "ahead of it"),
        ("", "not looked at it"),
    ],
)
def test_free_texts_are_understood(text: str, part: str) -> None:
    said = explain(text)
    assert said.known
    assert part in str(said.sentence)


def test_an_unknown_reason_comes_back_as_it_is() -> None:
    said = explain("FluxCapacitor {0}")
    assert not said.known
    assert "FluxCapacitor {0}" in str(said.sentence)
