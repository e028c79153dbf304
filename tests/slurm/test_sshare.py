from jupyter_slurm.slurm import sshare


def test_a_row_is_read_and_what_is_none_is_left_out() -> None:
    said = (
        "root|ana|0.500000|0.000000|1.000000\n lab|ana|0.250000|0.750000|0.1\nwarning: x\n|||||\n"
    )
    rows = sshare.parse(said)
    assert [(row.account, row.share, row.used) for row in rows] == [
        ("root", 0.5, 0.0),
        ("lab", 0.25, 0.75),
    ]


def test_a_quota_is_read_with_what_counts_as_used() -> None:
    said = (
        "lab||cpu=6000,gres/gpu=100|cpu=1200,mem=5,gres/gpu=7\n"
        " lab|ana||cpu=3\n lab|bob|billing=9|\nno such thing\n"
    )
    rows = sshare.parse_quotas(said)
    assert [(row.account, row.user, dict(row.limits)) for row in rows] == [
        ("lab", "", {"cpu": 6000, "gres/gpu": 100}),
        ("lab", "bob", {"billing": 9}),
    ]
    assert rows[0].used["gres/gpu"] == 7
