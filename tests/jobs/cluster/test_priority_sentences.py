"""What is said of a low fairshare: what Slurm tells, and what is only inferred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from jupyter_slurm.errors import CommandError
from jupyter_slurm.jobs.cluster import priorities
from jupyter_slurm.jobs.cluster.slurm_cluster import SlurmCluster
from jupyter_slurm.jobs.records.store import Record
from jupyter_slurm.wire import JobState
from tests.specs import job_spec, known

OURS = known(slurm_id="12", state=JobState.PENDING)
NOBODY = "sshare: error\n"


def printed(slurm_id: str, user: str, priority: int, fairshare: int, share: float) -> str:
    fields = f"{share} of fairshare 0.5 of age 300 age {fairshare} fairshare 0 nice"
    words = [slurm_id, user, "gpu", str(priority), *fields.replace("of ", "of_").split()]
    return "\x1f".join(word.replace("of_", "of ") for word in words) + "\x1f\x1e\n"


class Asked:
    """A cluster whose sprio and sshare say this."""

    name = "c"

    def __init__(self, sprio: str, sshare: str) -> None:
        self.says = {"sprio": sprio, "sshare": sshare}
        self.asked: list[str] = []
        self.transport = self

    def user(self) -> str:
        return "ana"

    def ask(self, argv: Sequence[str]) -> bytes:
        self.asked.append(argv[0])
        if self.says[argv[0]] == NOBODY:
            raise CommandError("It failed.", detail=NOBODY)
        return self.says[argv[0]].encode()


def said(asked: Asked) -> str:
    ours = {"12": [Record(job=OURS, spec=job_spec())]}
    told = priorities.of_job(cast(SlurmCluster, asked), OURS, ours)
    return " ".join(map(str, told.said))


LOW = printed("12", "ana", 500, 200, 0.1) + printed("13", "bob", 900, 600, 0.3)


@pytest.mark.parametrize(
    ("sshare", "why"),
    [
        (
            "lab|ana|0.25|0.75|0.1\n",
            "you have used 75 % of late, and your share is 25 %; fairshare",
        ),
        ("lab|ana|0.25|0.004|0.1\n", "used 0.4 % of late, and your share is 25 %: others"),
        ("lab|ana|0.2|0.7|0.1\nkurs|ana|0.3|0|1\n", "You or your account have used much of late ("),
        (NOBODY, "You or your account have used much of late (inferred)"),
    ],
)
def test_a_low_fairshare_is_told_with_the_use_that_lowers_it(sshare: str, why: str) -> None:
    told = said(Asked(LOW, sshare))
    assert told.startswith(
        "Its priority in gpu is 500: age 300, fairshare 200. "
        "One of the 2 jobs that wait in gpu is before it. Fairshare gives 200 of at most 2000."
    )
    assert why in told
    assert told.endswith("Age gives 300 of at most 600. Age gives more the longer the job waits.")


def test_what_is_not_known_to_count_is_not_explained() -> None:
    nobody_has_any = Asked(printed("12", "ana", 300, 0, 0), NOBODY)
    assert "airshare" not in said(nobody_has_any)
    assert nobody_has_any.asked == ["sprio"]


def test_a_fairshare_of_nothing_is_told_where_others_have_some() -> None:
    rows = printed("12", "ana", 300, 0, 0) + printed("13", "bob", 900, 600, 0.3)
    assert "Fairshare gives nothing. You or" in said(Asked(rows, NOBODY))


def test_of_two_jobs_with_the_same_priority_the_older_one_is_before() -> None:
    same = printed("12", "ana", 500, 0, 0) + printed("9", "bob", 500, 0, 0)
    assert "One of the 2 jobs" in said(Asked(same, NOBODY))


def test_a_priority_that_no_factor_gives_was_set_by_somebody() -> None:
    row = printed("12", "ana", 7000, 0, 0).replace("300\x1fage", "0\x1fage")
    assert "which somebody has set (inferred" in said(Asked(row, NOBODY))
