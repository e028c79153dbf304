import pytest

from jupyter_slurm.slurm.rejections import explain_rejection
from tests.slurm.recorded import RELEASES, refusals, stderr


@pytest.mark.parametrize(
    ("release", "name"), [(release, name) for release in RELEASES for name in refusals(release)]
)
def test_every_recorded_refusal_is_known_and_definitive(release: str, name: str) -> None:
    said = explain_rejection(stderr(release, name))
    assert said is not None
    assert (said.hint is not None, said.category) == (True, "definitive")


FAILED = "sbatch: error: Batch job submission failed: "
NODES = "Requested node configuration is not available"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("Invalid qos specification", "qos"),
        ("Invalid partition name specified", "partition"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "time"),
        ("Requested node configuration is not available", None),
        (f"x\nsbatch: error: Temporary disk specification can not be satisfied\n{NODES}", "tmp"),
        ("a site's own words", None),
        ("Invalid --switches specification", "switches"),
        ("a site's --own words", None),
    ],
)
def test_explanation_of_a_refusal_names_the_option(text: str, option: str | None) -> None:
    said = explain_rejection(f"{FAILED}{text}")
    assert said is not None
    assert said.option == option


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (f"{FAILED}Socket timed out on send/recv operation", "ambiguous"),
        (f"{FAILED}Zero Bytes were transmitted or received", "ambiguous"),
        (f"{FAILED}Unable to contact slurm controller (receive failure)", "ambiguous"),
        (f"{FAILED}Unable to contact slurm controller (connect failure)", "transient"),
        (f"{FAILED}Protocol authentication error", "transient"),
        (f"{FAILED}Rate limit exceeded, please retry momentarily", "transient"),
        (f"{FAILED}Invalid qos specification", "definitive"),
        (
            f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size and/or "
            "time limits)",
            "definitive",
        ),
        ("sacct: error: Problem talking to the database: Connection refused", "transient"),
        ("sbatch: error: Please give --account, see wiki", "definitive"),
    ],
)
def test_category_of_a_rejection_shows_whether_the_job_may_exist(text: str, category: str) -> None:
    said = explain_rejection(text)
    assert said is not None
    assert said.category == category


def test_ambiguous_error_outweighs_every_other() -> None:
    text = f"{FAILED}Invalid qos specification\n{FAILED}Socket timed out on send/recv operation"
    said = explain_rejection(text)
    assert said is not None
    assert said.category == "ambiguous"


def test_text_of_the_site_is_shown_unchanged() -> None:
    text = "sbatch: error: Jobs on gpu need an account.\nsbatch: error: See https://wiki/é"
    said = explain_rejection(text)
    assert said is not None
    assert said.hint is None
    assert said.text == "Jobs on gpu need an account.\nSee https://wiki/é"
