"""The package as users install it: built from the files in git, in a new environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest
from playwright.sync_api import Response, expect

from tests.cluster.plugin import ROOT, jupyter_homes
from tests.server.served import agent_of, short_home
from tests.ui.conftest import chromium
from tests.ui.lab import at_rest, running_lab


def run(argv: Sequence[str | Path], **env: str) -> str:
    done = subprocess.run(
        [str(word) for word in argv],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **env} if env else None,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


BY_DEVELOPERS = (
    "build_log.json",
    "install.json",
    "package.json",
    "static/main.js.map",
    "static/style.js",
)
"""A file that `scripts/labextension` leaves in a checkout."""

_OURS = "/extensions/jupyter-slurm/"
"""Part of the URL of each file of the JupyterLab extension."""
_MOST_AT_START = 110_000
"""Maximum bytes that a page loads while none of our views is visible."""
_MOST_WITH_THE_SIDEBAR = 165_000


@pytest.mark.timeout(1800)
@pytest.mark.long
@pytest.mark.real
def test_wheel_is_complete_reproducible_and_uninstalls_cleanly(tmp_path: Path) -> None:
    """One test, since building the JupyterLab extension takes a minute. Only the sdist builds it,
    and both wheels use that build."""
    source = checkout(tmp_path / "source")
    env = environment_to_build_in(tmp_path / "build")
    sdist = built("--sdist", source, tmp_path / "sdist", env)
    wheel = built("--wheel", unpacked(sdist), tmp_path / "wheel", env)
    holds_the_browsers_side_once_and_as_it_is_for_users(wheel)
    says_whose_work_it_holds_and_nothing_of_where_it_was_built(wheel, source)
    assert content(built("--wheel", source, tmp_path / "again", env)) == content(wheel)
    environment = clean_environment_with(wheel, tmp_path / "env")
    sidebar_and_server_extension_are_there_with_no_further_step(environment)
    uninstalling_leaves_nothing(environment)


def checkout(source: Path) -> Path:
    """Copy the files in git in their current state. Add a developer's build of the JupyterLab
    extension, and the packages that `scripts/labextension` installed from the same lockfile."""
    known = run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    for name in known.split("\0"):
        if name and (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    for name in BY_DEVELOPERS:
        target = source / "jupyter_slurm" / "labextension" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("{}")
    packages = Path("labextension", "node_modules")
    run(["cp", "-a", "--reflink=auto", ROOT / packages, source / packages])
    return source


def environment_to_build_in(folder: Path) -> dict[str, str]:
    """Install `build` and the build requirements of pyproject.toml, once for all three builds.

    Return the environment to run `build` in. `build` fails there if a requirement is missing.
    """
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = told["tool"]["hatch"]["build"]["hooks"]["jupyter-builder"]
    run([sys.executable, "-m", "venv", "--without-pip", folder])
    asked = [*told["build-system"]["requires"], *hook["dependencies"]]
    pip(folder, "install", "--no-compile", "build", *asked)
    return {**os.environ, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}


def pip(environment: Path, what: str, *words: str | Path) -> None:
    """Use the pip of the tests, since installing pip in each environment takes as long as a
    build."""
    there = environment / "bin" / "python"
    run([sys.executable, "-m", "pip", "--python", there, what, "-q", *words])


def built(kind: str, source: Path, folder: Path, env: dict[str, str]) -> Path:
    """Build the sdist or the wheel of a folder, and return its path."""
    run(["python", "-m", "build", "-q", "--no-isolation", kind, "--outdir", folder, source], **env)
    (made,) = folder.iterdir()
    return made


def unpacked(sdist: Path) -> Path:
    run(["tar", "-xzf", sdist, "-C", sdist.parent])
    return sdist.with_name(sdist.name.removesuffix(".tar.gz"))


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def clean_environment_with(wheel: Path, folder: Path) -> Path:
    """Create an environment with JupyterLab and the wheel, without further steps."""
    run([sys.executable, "-m", "venv", "--without-pip", folder])
    pip(folder, "install", "--no-compile", wheel, "jupyterlab")
    return folder


def holds_the_browsers_side_once_and_as_it_is_for_users(wheel: Path) -> None:
    names = [*content(wheel)]
    ours = [PurePosixPath(name) for name in names if "/labextensions/" in name]
    assert any(name.name == "style.js" for name in ours)
    assert any(name.name == "install.json" for name in ours)
    assert not [name for name in names if name.endswith((".map", "build_log.json", ".tsbuildinfo"))]
    assert not [name for name in names if "node_modules" in name or name.endswith(".ts")]
    entries = [name for name in names if PurePosixPath(name).name.startswith("remoteEntry")]
    assert len(entries) == 1


def says_whose_work_it_holds_and_nothing_of_where_it_was_built(wheel: Path, source: Path) -> None:
    files = content(wheel)
    (told,) = [data for name, data in files.items() if name.endswith("third-party-licenses.json")]
    theirs = {one["name"]: one["licenseId"] for one in json.loads(told)["packages"]}
    assert theirs["anser"] == "MIT"
    assert [name for name in files if name.endswith("licenses/LICENSE")]
    for name, data in files.items():
        assert os.fsencode(source) not in data, name
        assert os.fsencode(ROOT) not in data, name


def sidebar_and_server_extension_are_there_with_no_further_step(environment: Path) -> None:
    """Assert that the browser loads at most `_MOST_AT_START` bytes until a view is shown."""
    with short_home() as home:
        path = f"{environment / 'bin'}:/usr/bin:/bin"
        env = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", **jupyter_homes(home)}
        python = str(environment / "bin" / "python")
        with agent_of(env), running_lab(env, home, python=python) as lab, chromium() as browser:
            page = browser.new_page()
            loaded: list[Response] = []
            page.on("response", lambda one: loaded.append(one) if _OURS in one.url else None)
            page.goto(f"{lab.url}lab?token={lab.token}")
            expect(page.get_by_role("button", name=re.compile("^Slurm: "))).to_be_visible(
                timeout=60_000
            )
            at_rest(page)
            assert 0 < size_of(loaded) <= _MOST_AT_START
            page.get_by_role("tab", name="Slurm").click(timeout=60_000)
            told = page.get_by_role("region", name="Slurm").get_by_text("Run cells on a cluster")
            expect(told).to_be_visible(timeout=60_000)
            assert size_of(loaded) <= _MOST_WITH_THE_SIDEBAR


def size_of(loaded: Sequence[Response]) -> int:
    """Return the total bytes of the files, which Jupyter's server sends uncompressed."""
    return sum(len(one.body()) for one in loaded)


def uninstalling_leaves_nothing(environment: Path) -> None:
    before = {path for path in environment.rglob("*slurm*") if "__pycache__" not in path.parts}
    assert before
    pip(environment, "uninstall", "-y", "jupyter-slurm")
    left = [path for path in environment.rglob("*slurm*") if path.exists()]
    assert left == []
