import pytest

from jupyter_slurm.slurm import sbatch, scancel
from tests.slurm.recorded import RELEASES, stderr


@pytest.mark.parametrize(
    ("printed", "answer"),
    [
        ("123\n", ("123", None)),
        (b"123;alpha\n", ("123", "alpha")),
        ("Welcome to alpha\nYou used 40 % of 100\n123\n\n", ("123", None)),
        ("7\n123;a-b.c\nbye\n", ("123", "a-b.c")),
        ("Submitted batch job 12\n", ("12", None)),
        ("Submitted batch job 12 on cluster alpha\n", ("12", "alpha")),
        ("Job 12 was refused\n", None),
        ("", None),
        (b"\xff\xfe\n", None),
    ],
)
def test_job_id_is_the_last_matching_line(
    printed: str | bytes, answer: tuple[str, str | None] | None
) -> None:
    assert sbatch.parse(printed) == answer


@pytest.mark.parametrize("release", RELEASES)
def test_estimate_is_read_from_stderr(release: str) -> None:
    start_s = sbatch.parse_test_only(stderr(release, "sbatch_test_only"))
    assert start_s is not None
    assert start_s > 1.7e9


def test_script_name_with_a_dash_is_not_an_option() -> None:
    assert sbatch.argv("-x.sh", {"ntasks": "2"}) == [
        "sbatch",
        "--parsable",
        "--ntasks=2",
        "--",
        "-x.sh",
    ]


def test_sbatch_with_test_only_keeps_the_options_of_a_submission() -> None:
    submission = sbatch.argv("x.sh", {"ntasks": "2", "hold": ""})
    assert sbatch.test_only_argv(submission) == ["sbatch", "--test-only", "--ntasks=2", "--hold"]


def test_scancel_accepts_only_ids() -> None:
    assert scancel.cancel_argv(["1", "2_3", "4_[1-2]"]) == ["scancel", "1", "2_3", "4_[1-2]"]
    with pytest.raises(ValueError, match="'--user=alice' is not a job id"):
        scancel.cancel_argv(["--user=alice"])
    with pytest.raises(ValueError, match="no job ids"):
        scancel.cancel_argv([])


@pytest.mark.parametrize("release", RELEASES)
def test_error_about_an_ended_job_is_recognised(release: str) -> None:
    assert scancel.is_already_gone(stderr(release, "scontrol_hold_gone"))
    assert scancel.is_already_gone("scancel: error: Kill job error on job id 9: Invalid job id "
                                   "specified")  # fmt: skip
    assert not scancel.is_already_gone("Access/permission denied")
