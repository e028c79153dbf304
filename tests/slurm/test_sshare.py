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
