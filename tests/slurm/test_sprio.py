"""What sprio prints in several releases, which know more or fewer of the fields."""

from __future__ import annotations

from jupyter_slurm.slurm import sprio

END = "\x1e\n"
_18_08 = (
    "12 ana gpu 1187 1000 age 900 fairshare 62 jobsize 50 partition 0 qos cpu=25,gres/gpu=50 tres "
    "0.2500000 of age 0.4500000 of fairshare 900 nice"
)
_26_05 = (
    "12 ana gpu 2187 lab account 1.0000000 of age 0.0100000 of fairshare 1000 age 20 fairshare "
    "62 jobsize 50 partition 0 qos 7 association -3 site  tres -40 nice"
)


def printed(*lines: str) -> str:
    return "".join(
        line.replace("of ", "of_").replace(" ", "\x1f").replace("of_", "of ") + "\x1f" + END
        for line in lines
    )


def test_an_old_release_leaves_out_the_fields_that_it_does_not_know() -> None:
    [row] = sprio.parse(printed(_18_08))
    assert row[:4] == ("12", "ana", "gpu", 1187)
    assert row.account is None
    assert {name: given for name, given in row.given.items() if given} == {
        "age": 1000,
        "fairshare": 900,
        "jobsize": 62,
        "partition": 50,
        "tres": 75,
        "nice": -900,
    }
    assert dict(row.shares) == {"age": 0.25, "fairshare": 0.45}


def test_a_new_release_tells_the_account_and_what_the_site_gives() -> None:
    [row] = sprio.parse(printed(_26_05))
    assert row.account == "lab"
    assert (row.given["association"], row.given["site"], row.given["nice"]) == (7, -3, 40)
    assert row.given["tres"] == 0


def test_the_basic_plugin_is_known_by_what_sprio_says() -> None:
    said = (
        "You are not running a supported priority plugin\n(priority/basic).\n"
        "Only 'priority/multifactor' is supported.\n"
    )
    assert sprio.is_unweighted(said)
    assert not sprio.is_unweighted("Couldn't get priority factors from controller")
