"""Image recipes in cells."""

from __future__ import annotations

import pytest

from jupyter_slurm.containers.recipe import Kind, Recipe, read_recipe
from jupyter_slurm.errors import RequestError


def lines(text: str) -> Recipe:
    return read_recipe(text, "base", Kind.DOCKERFILE, "docker")


def commands(text: str) -> list[str]:
    return [" && ".join(one) for one in lines(text).commands()]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("pip install numpy", Kind.LINES),
        ("pip:\n  numpy", Kind.LINES),
        ("#!/bin/sh\necho", Kind.SCRIPT),
        ("\n#!/bin/sh\necho", Kind.SCRIPT),
    ],
)
def test_first_line_decides_the_kind_of_recipe(text: str, kind: Kind) -> None:
    assert read_recipe(text, "ubuntu:22.04", Kind.SCRIPT, "enroot").kind is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("FROM ubuntu\nRUN x", Kind.DOCKERFILE),
        ("# mine\nfrom ubuntu", Kind.DOCKERFILE),
        ("ARG V=1\nFROM ubuntu:$V", Kind.DOCKERFILE),
        ("BootStrap: docker\nFrom: ubuntu", Kind.DEFINITION),
        ("# mine\n\nBootstrap: localimage\nFrom: /x.sif", Kind.DEFINITION),
    ],
)
def test_another_base_is_rejected_for_a_recipe_with_a_base(text: str, kind: Kind) -> None:
    assert read_recipe(text, None, kind, "x").kind is kind
    with pytest.raises(RequestError, match="--from"):
        read_recipe(text, "ubuntu", kind, "x")


def test_recipe_without_a_base_is_rejected() -> None:
    for text in ("pip install numpy", "#!/bin/sh\necho"):
        with pytest.raises(RequestError, match="--from "):
            read_recipe(text, None, Kind.SCRIPT, "enroot")


def test_package_commands_become_steps_in_order() -> None:
    text = (
        "# what we need\n"
        "!pip install -q 'numpy<2' \"scipy >= 1\"  # both\n"
        "%pip install torch --index-url https://example.org/whl/cu118#sum\n"
        "sudo apt-get install -y git \\\n  'a b'\n"
        "mamba install -y -c conda-forge fftw\n"
        "python3 -m pip install x\n"
    )
    pip = "PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir"
    assert commands(text) == [
        f"{pip} 'numpy<2' 'scipy >= 1'",
        f"{pip} torch --index-url 'https://example.org/whl/cu118#sum'",
        "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
        "--no-install-recommends git 'a b' && rm -rf /var/lib/apt/lists/*",
        "conda install -y -c conda-forge fftw && conda clean -afy",
        f"{pip} x",
    ]


def test_list_below_pip_has_one_requirement_per_line() -> None:
    text = (
        "pip:\n  numpy < 2 ; python_version > '3.8'  # why\n  - scipy\n  --pre x\napt: git curl\n"
    )
    pip, apt = commands(text)
    assert pip.endswith("'numpy < 2 ; python_version > '\"'\"'3.8'\"'\"'' scipy --pre x")
    assert " git curl " in apt


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numpy\n", "line 1 of the recipe: numpy"),
        ("pip install a\nmake install", "line 2"),
        ("# nothing\n", "empty"),
        ("pip:\n\napt: x", "installs nothing with pip"),
        ("pip install -r requirements.txt", "requirements.txt"),
        ("pip install -e .", "the file"),
        ("pip install ./mine", "the file ./mine"),
        ("pip install 'a", "line 1"),
        ("a\0b", "NUL"),
    ],
)
def test_invalid_recipe_is_rejected(text: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        lines(text)


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        ("FROM x\nRUN cp a b\n# COPY a b\n", False),
        ("FROM x AS one\nCOPY --from=one /a /b\nADD https://a.org/b /b\n", False),
        ("FROM x\n  copy a b\n", True),
        ("FROM x\nADD a b\n", True),
        ("FROM x\nRUN --mount=type=bind,source=a,target=/a cat /a\n", True),
        ("Bootstrap: docker\nFrom: x\n%post\n  cp a b\n", False),
        ("Bootstrap: docker\nFrom: x\n%files\n  a b\n", True),
        ("Bootstrap: localimage\nFrom: /on/the/cluster.sif\n", False),
    ],
)
def test_recipe_that_copies_files_needs_a_folder(text: str, copies: bool) -> None:
    reads = Kind.DOCKERFILE if text.startswith("FROM") else Kind.DEFINITION
    assert read_recipe(text, None, reads, "x").has_files is copies
    assert read_recipe(text, None, reads, "x", pushes=True).has_files


def test_folder_is_rejected_for_package_lines() -> None:
    with pytest.raises(RequestError, match="--push"):
        read_recipe("pip install numpy", "base", Kind.DOCKERFILE, "docker", pushes=True)


def test_digest_changes_with_every_input() -> None:
    recipe = lines("pip install numpy")
    same = lines("\npip install numpy\r\n\n")
    assert recipe.digest("/x.sif", "docker") == same.digest("/x.sif", "docker")
    others = {
        recipe.digest("/y.sif", "docker"),
        recipe.digest("/x.sif", "apptainer"),
        lines("pip install numpy==1").digest("/x.sif", "docker"),
    }
    others.add(recipe.digest("/x.sif", "docker", "the files' digest"))
    assert len(others | {recipe.digest("/x.sif", "docker")}) == 5
