import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.containers import Mount
from jupyter_slurm.containers.mounts import MountRoots, parse_mount, parse_mounts
from jupyter_slurm.errors import RequestError


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/data", Mount("/data", "/data")),
        ("/data:/mnt/data", Mount("/data", "/mnt/data")),
        ("/data:/mnt/data:ro", Mount("/data", "/mnt/data", read_only=True)),
        ("~:/mnt/h", Mount("/home/u", "/mnt/h")),
        ("~/a b:/mnt/é", Mount("/home/u/a b", "/mnt/é")),
        ("~/$x", Mount("/home/u/$x", "/home/u/$x")),
        (".:/code", Mount("/fit", "/code")),
        ("./a b/:/inputs", Mount("/fit/a b", "/inputs")),
        ("$SCRATCH:/scratch:ro", Mount("$SCRATCH", "/scratch", read_only=True)),
    ],
)
def test_every_form_of_mount_is_parsed(text: str, mount: Mount) -> None:
    assert parse_mount(text, "/home/u/", "/fit") == mount


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/a:",
        ":/b",
        "/a:/b:rx",
        "a",
        "/a:b",
        "~other/x",
        "/a\0:/b",
        "$X",
        "/a:$X",
    ],
)
def test_invalid_mount_is_rejected(text: str) -> None:
    with pytest.raises(RequestError):
        parse_mount(text, "/home/u", "/fit")


PLACES = MountRoots("/home/u", "/fit", "/jobs/it's")


def test_last_mount_at_a_path_applies() -> None:
    found = parse_mounts(["/a:/data", "/b:/b", "/c:/data/:ro"], PLACES)
    assert found.mounts == (Mount("/c", "/data/", read_only=True), Mount("/b", "/b"))
    assert found.links == ()


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_variable_in_a_mount_is_expanded_on_the_node(shell: str, tmp_path: Path) -> None:
    places = MountRoots("/home/u", "/fit", str(tmp_path))
    found = parse_mounts(["$SCRATCH/it's:/mnt/a", "${SCRATCH}:/mnt/b"], places)
    assert found.mounts == (
        Mount(f"{tmp_path}/bind.0", "/mnt/a"),
        Mount(f"{tmp_path}/bind.1", "/mnt/b"),
    )
    lines = "".join(f"{{ {line}; }} || exit 66\n" for line in found.links)
    env = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([shell, "-c", lines], env=env, capture_output=True, check=False)
    assert (done.returncode, b"$SCRATCH is not set on this node" in done.stderr) == (66, True)
    subprocess.run([shell, "-c", lines], env={**env, "SCRATCH": "/s $x"}, check=True)
    assert (tmp_path / "bind.0").readlink() == Path("/s $x/it's")
    assert (tmp_path / "bind.1").readlink() == Path("/s $x")
