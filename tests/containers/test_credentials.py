"""What is written into each tool's own file of logins."""

from __future__ import annotations

import base64
import json

import pytest

from jupyter_slurm.containers.credentials import added, files, login
from jupyter_slurm.errors import RequestError


@pytest.mark.parametrize("runtime", ["docker", "sudo-docker", "podman", "apptainer", "singularity"])
def test_the_others_of_a_json_file_stay(runtime: str) -> None:
    old = json.dumps({"auths": {"a.org": {"auth": "x"}}, "proxies": {}}).encode()
    new = json.loads(added(runtime, old, login("https://nvcr.io/", "", "key:\"'é")))
    assert new["auths"]["a.org"] == {"auth": "x"}
    assert new["proxies"] == {}
    token = base64.b64decode(new["auths"]["nvcr.io"]["auth"]).decode()
    assert token == "$oauthtoken:key:\"'é"
    assert files(runtime, "nvcr.io")


def test_docker_hub_has_the_name_that_the_tools_look_for() -> None:
    for name in ("docker.io", "index.docker.io", "registry-1.docker.io"):
        known = json.loads(added("docker", None, login(name, "ada", "x")))
        assert list(known["auths"]) == ["https://index.docker.io/v1/"]


def test_enroot_gets_ngcs_two_machines_in_place_of_the_old_ones() -> None:
    old = b"machine nvcr.io login $oauthtoken password old\nmachine a.org login b password c\n"
    assert added("pyxis", old, login("nvcr.io", "", "new")).decode() == (
        "machine a.org login b password c\n"
        "machine nvcr.io login $oauthtoken password new\n"
        "machine authn.nvidia.com login $oauthtoken password new\n"
    )
    assert files("enroot", "x.org") == (".config/enroot/.credentials",)


def test_charliecloud_has_a_file_of_ours_for_each_registry() -> None:
    assert files("charliecloud", "ghcr.io") == (".jupyter-slurm/registries/ghcr.io",)
    assert added("charliecloud", b"old", login("ghcr.io", "ada", "a b")) == b"ada\na b\n"


@pytest.mark.parametrize(
    ("registry", "user", "password"),
    [
        ("no registry", "a", "b"),
        ("../x", "a", "b"),
        ("x.org", "", "b"),
        ("x.org", "a", ""),
        ("x.org", "a:b", "c"),
        ("x.org", "a", "b\nc"),
        ("x.org", "a\0", "b"),
    ],
)
def test_what_no_tool_could_be_given_is_refused(registry: str, user: str, password: str) -> None:
    with pytest.raises(RequestError):
        login(registry, user, password)


def test_a_file_that_is_not_understood_or_not_the_keeper_is_left_alone() -> None:
    new = login("x.org", "a", "b")
    for old in (b"{", b"[]", b'{"auths": 3}'):
        with pytest.raises(RequestError, match="not understood"):
            added("docker", old, new)
    with pytest.raises(RequestError, match="desktop"):
        added("docker", b'{"credsStore": "desktop"}', new)
    with pytest.raises(RequestError, match="enroot"):
        added("enroot", None, login("x.org", "a", "$(id)"))


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(login("x.org", "ada", "secret"))


def test_a_runtime_without_registries_has_no_files() -> None:
    assert files("none", "x.org") == ()
