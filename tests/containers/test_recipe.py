"""What a cell may say of an image."""

from __future__ import annotations

import pytest

from jupyter_slurm.containers import dockerfile
from jupyter_slurm.containers.recipe import Kind, Recipe, read_recipe
from jupyter_slurm.containers.steps import Enter, Program, Run, Set
from jupyter_slurm.errors import RequestError


def commands(text: str) -> list[str]:
    return [step.text for step in read_recipe(text, "base").steps() if isinstance(step, Run)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("pip install numpy", Kind.LINES),
        ("pip:\n  numpy", Kind.LINES),
        ("#!/bin/sh\necho", Kind.SCRIPT),
        ("\n#!/bin/sh\necho", Kind.SCRIPT),
    ],
)
def test_the_kind_is_seen_by_how_it_begins(text: str, kind: Kind) -> None:
    assert read_recipe(text, "ubuntu:22.04").kind is kind


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
def test_one_that_names_its_base_takes_no_other(text: str, kind: Kind) -> None:
    assert read_recipe(text, None).kind is kind
    with pytest.raises(RequestError, match="--from"):
        read_recipe(text, "ubuntu")


def test_what_needs_a_base_says_so() -> None:
    for text in ("pip install numpy", "#!/bin/sh\necho"):
        with pytest.raises(RequestError, match="--from IMAGE"):
            read_recipe(text, None)


def test_commands_as_people_type_them_become_steps_in_order() -> None:
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
        "export DEBIAN_FRONTEND=noninteractive; apt-get update && apt-get install -y "
        "--no-install-recommends git 'a b' && rm -rf /var/lib/apt/lists/*",
        "conda install -y -c conda-forge fftw && conda clean -afy",
        f"{pip} x",
    ]


def test_a_list_below_pip_has_a_requirement_a_line() -> None:
    text = (
        "pip:\n  numpy < 2 ; python_version > '3.8'  # why\n  - scipy\n  --pre x\napt: git curl\n"
    )
    pip, apt = commands(text)
    assert pip.endswith("'numpy < 2 ; python_version > '\"'\"'3.8'\"'\"'' scipy --pre x")
    assert " git curl " in apt


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numpy\n", "Line 1 of the recipe is not understood: numpy"),
        ("pip install a\nmake install", "Line 2"),
        ("# nothing\n", "empty"),
        ("pip:\n\napt: x", "installs nothing with pip"),
        ("pip install -r requirements.txt", "requirements.txt"),
        ("pip install -e .", "names a file"),
        ("pip install ./mine", "names a file, ./mine"),
        ("pip install 'a", "Line 1"),
        ("a\0b", "NUL"),
    ],
)
def test_what_cannot_be_is_named(text: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        read_recipe(text, "base").steps()


def test_a_dockerfile_is_read_step_by_step() -> None:
    text = (
        "FROM --platform=linux/amd64 ubuntu:22.04 \n"
        "ARG V=1\n"
        'ENV A="b c" B=x\\ y PATH=/opt/x:$PATH\n'
        "ENV OLD it's so\n"
        "WORKDIR /my data\n"
        "RUN apt-get update && \\\n  # a remark\n  apt-get install git\n"
        'RUN ["pip", "install", "a b"]\n'
        'CMD ["sh"]\nENTRYPOINT exec python3\nEXPOSE 80\nLABEL a=b\n'
    )
    assert read_recipe(text, None).steps() == [
        Set("V", "1", kept=False),
        Set("A", '"b c"'),
        Set("B", "x\\ y"),
        Set("PATH", "/opt/x:$PATH"),
        Set("OLD", "'it'\"'\"'s so'"),
        Enter("'/my data'"),
        Run("apt-get update &&    apt-get install git"),
        Run("pip install 'a b'"),
        Program(("sh",), is_entrypoint=False),
        Program(("/bin/sh", "-c", "exec python3"), is_entrypoint=True),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "COPY --from=x a b",
        "COPY --chown=1 a b",
        "COPY *.py /x/",
        "COPY a $(id)",
        "ADD a.tar.gz /x",
        "RUN cat <<EOF >x",
        "ADD https://example.org/x /x",
        "FROM other",
        "FROM scratch",
        "USELESS x",
        "RUN --mount=type=cache,target=/x y",
        "RUN <<EOF",
        "ENV A=$(id)",
        "ENV A=`id`",
        "ENV A=x;id",
        "WORKDIR $(id)",
        "SHELL x",
    ],
)
def test_what_a_tool_without_dockerfiles_cannot_be_told_is_named(line: str) -> None:
    with pytest.raises(RequestError) as caught:
        Recipe(Kind.DOCKERFILE, f"FROM ubuntu\n{line}\n", None).steps()
    assert line in str(caught.value)


def test_a_dockerfiles_base_can_be_put_in_the_place_of_its_first_from() -> None:
    text = "# FROM a\nFROM --platform=x  b AS one\nRUN c\nFROM d\n"
    assert read_recipe(text, None).base == "b"
    assert dockerfile.with_base(text, "/e") == text.replace("  b AS", "  /e AS")
    assert dockerfile.with_base(text, None) == text
    assert read_recipe("ARG V=1\nFROM x:$V", None).base is None
    with pytest.raises(RequestError, match="no FROM"):
        dockerfile.base("RUN x")


def test_the_images_that_a_builder_fetches_for_a_dockerfile() -> None:
    text = (
        "ARG V=1\nFROM --platform=x a.org:5000/b:1 AS One\n#FROM no\nFROM one\nFROM x:$V\n"
        "COPY --from=one /a /b\nCOPY --from=0 /a /b\nRUN c --from=d\n"
        "COPY --chown=1 --from=e@sha256:0 /a /b\nFROM scratch\nfrom \\\n  f\nFROM -x\n"
    )
    assert dockerfile.images(text) == ["a.org:5000/b:1", "e@sha256:0", "f"]


def test_the_digest_changes_with_all_that_makes_an_image() -> None:
    recipe = read_recipe("pip install numpy", "base")
    same = read_recipe("\npip install numpy\r\n\n", "base")
    assert recipe.digest("/x.sif", "docker") == same.digest("/x.sif", "docker")
    others = {
        recipe.digest("/y.sif", "docker"),
        recipe.digest("/x.sif", "apptainer"),
        read_recipe("pip install numpy==1", "base").digest("/x.sif", "docker"),
    }
    others.add(recipe.digest("/x.sif", "docker", "the files' digest"))
    assert len(others | {recipe.digest("/x.sif", "docker")}) == 5
