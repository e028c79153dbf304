import pytest

from jupyter_slurm.containers import Mount
from jupyter_slurm.containers.mounts import parse_mount
from jupyter_slurm.errors import RequestError


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/data", Mount("/data", "/data")),
        ("/data:/mnt/data", Mount("/data", "/mnt/data")),
        ("/data:/mnt/data:ro", Mount("/data", "/mnt/data", read_only=True)),
        ("/data:/mnt/data:rw", Mount("/data", "/mnt/data")),
        ("~:/mnt/h", Mount("/home/u", "/mnt/h")),
        ("~/a b:/mnt/é", Mount("/home/u/a b", "/mnt/é")),
        ("~/$x", Mount("/home/u/$x", "/home/u/$x")),
    ],
)
def test_the_forms_of_a_mount(text: str, mount: Mount) -> None:
    assert parse_mount(text, "/home/u/") == mount


@pytest.mark.parametrize(
    "text",
    ["", ":", "/a:", ":/b", "/a:/b:rx", "/a:/b:ro:x", "a", "a:/b", "/a:b", "~other/x", "/a\0:/b"],
)
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(RequestError):
        parse_mount(text, "/home/u")
