"""The address of a cluster: meaning and errors."""

from __future__ import annotations

import pytest

from jupyter_slurm.commands.new_cluster import way
from jupyter_slurm.errors import RequestError


@pytest.mark.parametrize(
    ("address", "user", "host", "port"),
    [
        ("hpc.example", "", "hpc.example", None),
        ("ada@hpc.example:2222", "ada", "hpc.example", 2222),
        ("ada@uni.example@hpc.example", "ada@uni.example", "hpc.example", None),
        ("ada@uni.example@[fe80::1]:22", "ada@uni.example", "fe80::1", 22),
    ],
)
def test_last_at_sign_separates_user_and_host(
    address: str, user: str, host: str, port: int | None
) -> None:
    found = way(address)
    assert (found["user"], found["host"], found.get("port")) == (user, host, port)


@pytest.mark.parametrize("address", ["", "ada@", "@hpc.example", "ada@b:c@", "hpc.example:port"])
def test_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(RequestError) as caught:
        way(address)
    assert caught.value.option == "host"
