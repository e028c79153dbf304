"""The output of sprio in several releases, which have different fields."""

from __future__ import annotations

from jupyter_slurm.slurm import sprio

END = "\x1e\n"
_18_08 = (
    "12 gpu 1187 1000 age 900 fairshare 62 jobsize 50 partition 0 qos cpu=25,gres/gpu=50 tres "
    "900 nice"
)
_26_05 = (
    "12 gpu 2187 1000 age 20 fairshare 62 jobsize 50 partition 0 qos 7 association "
    "-3 site  tres -40 nice"
)


def printed(*lines: str) -> str:
    return "".join(line.replace(" ", "\x1f") + "\x1f" + END for line in lines)


def test_output_of_an_old_release_without_newer_fields_is_parsed() -> None:
    [row] = sprio.parse(printed(_18_08))
    assert row[:3] == ("12", "gpu", 1187)
    assert {name: given for name, given in row.given.items() if given} == {
        "age": 1000,
        "fairshare": 900,
        "jobsize": 62,
        "partition": 50,
        "tres": 75,
        "nice": -900,
    }


def test_every_factor_of_a_new_release_is_parsed() -> None:
    [row] = sprio.parse(printed(_26_05))
    assert (row.given["association"], row.given["site"], row.given["nice"]) == (7, -3, 40)
    assert row.given["tres"] == 0
