"""Build commands for each tool, as text. `jobs/cluster/test_images.py` runs the tools."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.containers.builders import BUILDERS
from jupyter_slurm.containers.builders.script import Failure, NewImage, read_failure, render
from jupyter_slurm.containers.recipe import Kind, read_recipe
from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.errors import RequestError
from tests.ssh.waiting import wait_until

_VERSION = "0123456789ab"
_RECIPES = {
    Kind.DOCKERFILE: "FROM ubuntu:22.04\nENV A='b c'\nRUN echo \"it's\"\n",
    Kind.DEFINITION: 'Bootstrap: docker\nFrom: ubuntu:22.04\n%post\necho "it\'s"\n',
    Kind.SCRIPT: '#!/bin/bash\necho "it\'s %post"\n',
}
_LINES = "pip install 'numpy<2'\napt install git\n"
_BASE = "ubuntu:22.04"


def built(
    runtime: str, text: str | None = None, base: str | None = None, *, pushes: bool = False
) -> str:
    """Return the tool's build commands for the recipe `text`. For None, use a recipe of the tool's
    own kind."""
    builder = BUILDERS[runtime]
    text = text or _RECIPES[builder.reads]
    needs_base = text == _LINES or text.startswith("#!")
    named = _BASE if needs_base else None
    recipe = read_recipe(text, named, builder.reads, runtime, pushes=pushes)
    found = (base or builder.named(parse_reference(_BASE))) if needs_base else None
    return builder.build(recipe, found, _VERSION)


def file(text: str, name: str) -> str:
    """Return the content of a file that the commands write."""
    found = re.search(rf"printf %s ((?:'[^']*'|\"'\")+) >\"\$work\"/{name}\n", text)
    assert found is not None, text
    return shlex.split(found[1])[0]


@pytest.mark.parametrize("recipe", [None, _LINES], ids=["own", "lines"])
@pytest.mark.parametrize("runtime", BUILDERS)
def test_every_tool_builds_and_pulls_with_posix_sh(runtime: str, recipe: str | None) -> None:
    image = NewImage("/a b", "mine", "x", "0" * 64, "it's", _VERSION)
    texts = [built(runtime, recipe), BUILDERS[runtime].pull(parse_reference("a.org/b:c"), _VERSION)]
    for text in [*texts, *(render(image, BUILDERS[runtime].suffixes, text) for text in texts)]:
        for shell in ("dash", "bash"):
            subprocess.run([shell, "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("runtime", BUILDERS)
def test_recipe_of_a_tool_arrives_unchanged(runtime: str) -> None:
    kind = BUILDERS[runtime].reads
    name = {Kind.DOCKERFILE: "Dockerfile", Kind.DEFINITION: "definition", Kind.SCRIPT: "setup"}
    assert file(built(runtime), name[kind]) == _RECIPES[kind]


@pytest.mark.parametrize("runtime", BUILDERS)
def test_recipe_of_another_tool_is_rejected(runtime: str) -> None:
    reads = BUILDERS[runtime].reads
    for kind, text in _RECIPES.items():
        if kind is not reads:
            with pytest.raises(RequestError, match=f"{runtime} does not read") as caught:
                read_recipe(text, None, reads, runtime)
            assert "pip install" in str(caught.value.hint)


@pytest.mark.parametrize("runtime", BUILDERS)
def test_folder_is_pushed_if_it_is_named_or_the_recipe_copies_files(
    runtime: str,
) -> None:
    assert '"$beside"' not in built(runtime)
    assert '"$beside"' not in built(runtime, _LINES)
    copying = {
        Kind.DOCKERFILE: 'FROM ubuntu\nCOPY ["a b", "/c d"]\n',
        Kind.DEFINITION: "Bootstrap: docker\nFrom: x\n%files\n  a /a\n",
    }
    kind = BUILDERS[runtime].reads
    if kind in copying:
        assert '"$beside"' in built(runtime, copying[kind])
    assert '"$beside"' in built(runtime, pushes=True)


@pytest.mark.parametrize("runtime", ["docker", "charliecloud"])
def test_package_lines_become_a_dockerfile(runtime: str) -> None:
    base = "library/ubuntu:22.04" if runtime == "charliecloud" else "docker.io/library/ubuntu:22.04"
    assert file(built(runtime, _LINES), "Dockerfile").splitlines() == [
        f"FROM {base}",
        "RUN PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir 'numpy<2'",
        "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
        "--no-install-recommends git && rm -rf /var/lib/apt/lists/*",
    ]


def test_package_lines_become_an_apptainer_definition() -> None:
    text = file(built("apptainer", _LINES), "definition")
    assert text.startswith("Bootstrap: docker\nFrom: docker.io/library/ubuntu:22.04\n\n%post\n")
    assert "    apt-get update\n    DEBIAN_FRONTEND" in text
    assert text.endswith("%environment\n    export PYTHONNOUSERSITE=1\n")
    local = file(built("apptainer", _LINES, "/a b/x.sif"), "definition")
    assert local.startswith("Bootstrap: localimage\nFrom: /a b/x.sif\n")


def test_docker_loads_a_locally_built_base() -> None:
    text = built("docker", _LINES, "/our images/b+aaaaaaaaaaaa.tar")
    assert "docker load <'/our images/b+aaaaaaaaaaaa.tar'" in text
    assert "FROM jupyter-slurm/image:aaaaaaaaaaaa\nRUN " in text
    assert "(: >>'/our images/.b+aaaaaaaaaaaa.tar@'\"$node\")" in text
    with pytest.raises(RequestError, match=r"x\.tar"):
        built("docker", _LINES, "/x.tar")


@pytest.mark.parametrize(
    ("step", "doing"), [('step "pulling it"', "pulling it"), ("false", "beginning")]
)
def test_failed_step_is_read_from_the_log(step: str, doing: str) -> None:
    image = NewImage("/nowhere", "mine", "docker", "0" * 64, None, _VERSION)
    text = render(image, (".tar",), f"{step} || :\nexit 7\n")
    done = subprocess.run(
        ["sh", "-c", text.replace("folder=/nowhere", "folder=$(mktemp -d)")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7
    assert read_failure(f"a\n{done.stderr}") == Failure("mine", "docker", doing)
    assert read_failure("mine was not created by hand") is None


@pytest.mark.real
def test_next_build_removes_only_leftovers_of_killed_builds(
    tmp_path: Path,
) -> None:
    def begun(name: str, tool: str) -> subprocess.Popen[bytes]:
        image = NewImage(str(tmp_path / "images"), name, "x", "0" * 64, None, _VERSION)
        argv = ["sh", "-c", render(image, (".tar",), tool)]
        return subprocess.Popen(argv, env={**os.environ, "TMPDIR": str(node)}, process_group=0)

    def folder_of(name: str) -> Path:
        wait_until(lambda: (tmp_path / name).exists() and (tmp_path / name).read_text(), 60)
        return Path((tmp_path / name).read_text())

    node = tmp_path / "node"
    node.mkdir()
    endless = f'mkdir -m 500 "$work/closed"; printf %s "$work" >{tmp_path}/$name; exec sleep 600'
    killed, goes_on = begun("killed", endless), begun("other", endless)
    left, used = folder_of("killed"), folder_of("other")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    # Its children hold the folder's lock, and end a moment later.
    wait_until(lambda: subprocess.run(["flock", "-n", left, "true"], check=False).returncode == 0)
    somebodys = node / "jupyter-slurm-image.link"
    somebodys.symlink_to(tmp_path)
    for folder in (left, used):
        os.utime(folder, (0, 0))
    assert begun("next", ': >"$partial.tar"').wait() == 0
    assert sorted(node.iterdir()) == sorted((used, somebodys))
    goes_on.terminate()
    goes_on.wait()
    assert list(node.iterdir()) == [somebodys]
