"""What each tool is told, as text; that the tools do it is seen in cluster/test_images.py."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from jupyter_slurm.containers.image_folder import ImageRecord, read_record
from jupyter_slurm.containers.making import MAKERS, maker_for, script
from jupyter_slurm.containers.making.script import Failure, NewImage, read_failure, render
from jupyter_slurm.containers.pyxis import SRUN, STEP
from jupyter_slurm.containers.recipe import read_recipe
from jupyter_slurm.containers.references import parse_reference
from jupyter_slurm.errors import RequestError
from tests.ssh.waiting import wait_until

_VERSION = "0123456789ab"
_RECIPES = {
    "lines": read_recipe("pip install 'numpy<2'", "ubuntu:22.04"),
    "script": read_recipe('#!/bin/bash\necho "it\'s %post"\n%files\n', "ubuntu:22.04"),
    "dockerfile": read_recipe("FROM ubuntu:22.04\nENV A='b c'\nRUN echo hi\n", None),
    "copying": read_recipe('FROM ubuntu:22.04\nENV A=\'b c\'\nCOPY ["a b", "/c d"]\n', None),
}
_DEFINITION = read_recipe("Bootstrap: docker\nFrom: ubuntu:22.04\n%post\necho\n", None)


def built(runtime: str, recipe: str) -> str:
    maker, read = MAKERS[runtime], _RECIPES[recipe]
    base = None if read.base is None else maker.named(parse_reference(read.base))
    return maker.build(read, base, _VERSION)


def plain(text: str) -> str:
    """Without the files that it writes."""
    return re.sub(r"printf %s .*? >\"\$work\"/\S+\n", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("recipe", _RECIPES)
@pytest.mark.parametrize("runtime", MAKERS)
def test_every_tool_makes_every_form_and_the_text_is_posix_sh(runtime: str, recipe: str) -> None:
    image = NewImage("/a b", "mine", "x", "0" * 64, "it's", _VERSION)
    texts = [built(runtime, recipe), MAKERS[runtime].pull(parse_reference("a.org/b:c"), _VERSION)]
    for text in [*texts, *(render(image, MAKERS[runtime].suffixes, text) for text in texts)]:
        for shell in ("dash", "bash"):
            subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_a_definition_is_for_apptainer_alone() -> None:
    for runtime, maker in MAKERS.items():
        if maker.tool == "apptainer":
            assert "%post\necho\n" in maker.build(_DEFINITION, None, _VERSION)
        else:
            with pytest.raises(RequestError, match="definitions"):
                MAKERS[runtime].build(_DEFINITION, None, _VERSION)


@pytest.mark.parametrize("runtime", MAKERS)
def test_files_beside_a_dockerfile_are_copied_to_where_the_tool_looks_for_them(
    runtime: str,
) -> None:
    text = MAKERS[runtime].build(_RECIPES["copying"], "ubuntu", _VERSION)
    builds = MAKERS[runtime].tool in ("docker", "charliecloud")
    assert f'cp -pRP -- "$beside" "$work"/{"context" if builds else "files"}\n' in text
    if not builds:
        inside = "/jupyter-slurm-setup-files" if "singularity" in str(MAKERS[runtime].tool) else ""
        assert f"{inside}/a b" in text


def test_a_definition_is_built_where_its_files_are() -> None:
    text = MAKERS["apptainer"].build(
        read_recipe("Bootstrap: docker\nFrom: x\n%files\n  a /a\n", None), None, _VERSION
    )
    assert text.index('cd -- "$beside"\n') < text.index("apptainer build")
    assert "cd -- " not in MAKERS["apptainer"].build(_DEFINITION, None, _VERSION)


@pytest.mark.parametrize(
    ("runtime", "engine"),
    [("docker", "docker"), ("sudo-docker", "sudo -n docker"), ("podman", "podman")],
)
def test_docker_builds_tags_and_saves(runtime: str, engine: str) -> None:
    text, base = plain(built(runtime, "lines")), "docker.io/library/ubuntu:22.04"
    assert text[text.index(f"{engine} image inspect") :] == (
        f"{engine} image inspect {base} >/dev/null 2>&1 || "
        f'remove="$remove "{base}\n'
        'mkdir "$work/context"\n'
        'step "building"\n'
        'sed "s|@jupyter-slurm-image@|${label#*=}|" "$work/Dockerfile" >"$work/labelled"\n'
        'mv "$work/labelled" "$work/Dockerfile"\n'
        f"{engine} build --network=host --force-rm --tag jupyter-slurm/image:{_VERSION} "
        '--file "$work/Dockerfile" "$work/context"\n'
        'step "saving the image"\n'
        f'{engine} save jupyter-slurm/image:{_VERSION} >"$partial.tar"\n'
        "for one in $remove; do\n"
        f'  if {engine} image inspect "$one" >/dev/null 2>&1; then printf \'%s\\n\' "$one"; fi\n'
        'done >>"${partial%.partial}.tar@$node"\n'
    )


def test_every_layer_that_docker_builds_is_labelled() -> None:
    recipe = read_recipe(
        "ARG V=1\nFROM a AS \\\n# so\n  one\nRUN echo \\\nFROM x\nRUN <<E\nFROM y\nE\nfrom b\n",
        None,
    )
    text = MAKERS["docker"].build(recipe, None, _VERSION)
    label = "LABEL jupyter-slurm.image=@jupyter-slurm-image@\n"
    assert text.count(label) == 2
    assert f"  one\n{label}RUN echo" in text
    assert f"from b\n{label}" in text


def test_docker_loads_a_base_that_was_made_here() -> None:
    base = "/our images/b+aaaaaaaaaaaa.tar"
    text = MAKERS["docker"].build(_RECIPES["lines"], base, _VERSION)
    assert "docker load <'/our images/b+aaaaaaaaaaaa.tar'" in text
    assert "FROM jupyter-slurm/image:aaaaaaaaaaaa\nLABEL " in text
    assert "(: >>'/our images/.b+aaaaaaaaaaaa.tar@'\"$node\")" in text
    assert 'remove="$remove "' not in text
    with pytest.raises(RequestError, match=r"x\.tar"):
        MAKERS["docker"].build(_RECIPES["lines"], "/x.tar", _VERSION)


@pytest.mark.parametrize("program", ["apptainer", "singularity"])
def test_apptainer_builds_a_definition_whatever_the_recipe(program: str) -> None:
    for recipe in _RECIPES:
        text = built(program, recipe)
        assert "Bootstrap: docker\nFrom: docker.io/library/ubuntu:22.04\n" in text
    assert "%environment\n" in text
    assert "    export A='b c'\n".replace("'", "'\"'\"'") in text
    assert f'{program} build --fakeroot --force "$partial.sif" "$work/definition"\n' in text
    local = MAKERS[program].build(_RECIPES["lines"], "/a b/x.sif", _VERSION)
    assert "Bootstrap: localimage\nFrom: /a b/x.sif\n" in local


def test_apptainer_says_the_line_of_the_base_which_it_does_not_trace_itself() -> None:
    maker = MAKERS["apptainer"]
    assert "printf '+ %s\\n' 'FROM ubuntu:22.04'\n" in built("apptainer", "dockerfile")
    assert "printf '+ %s\\n' 'From: ubuntu:22.04'\n" in maker.build(_DEFINITION, None, _VERSION)
    two = read_recipe(f"{_DEFINITION.text}\n{_DEFINITION.text}", None)
    for text in (maker.build(two, None, _VERSION), built("apptainer", "script")):
        assert "printf '+ " not in text


def test_pyxis_sets_up_a_container_in_a_step_and_saves_it() -> None:
    lines = plain(built("pyxis", "script")).splitlines()
    assert 'step "building"' in lines
    (asked,) = (line for line in lines if line.startswith("set -- --container-image"))
    assert asked.startswith(
        "set -- --container-image=ubuntu:22.04 "
        '--container-save="$partial.d/made/image.sqsh" --container-writable '
        "--container-remap-root --no-container-mount-home --no-container-entrypoint "
        '--container-mounts="$work:/mnt,$work/way/made:/mnt/made" '
        "-- /bin/sh -c "
    )
    assert STEP in built("pyxis", "script")
    assert lines[-2] == f'{SRUN} "$@"'
    kept = built("pyxis", "dockerfile")
    assert "=ubuntu:22.04 " in kept
    assert "/etc/environment" in kept


def test_enroot_alone_sets_up_a_container_that_is_removed_whatever_happens() -> None:
    assert plain(built("enroot", "script")).splitlines() == [
        'chmod 755 "$work/setup"',
        "step pulling docker://ubuntu:22.04",
        'enroot import --output "$work/base.sqsh" docker://ubuntu:22.04',
        'name="jslurm-${SLURM_JOB_ID:-login}-image-$$"',
        'trap \'trap "" TERM; enroot remove --force "$name" >/dev/null 2>&1 || :\' EXIT',
        "trap 'exit 143' TERM",
        "export ENROOT_MOUNT_HOME=no ENROOT_LOGIN_SHELL=no",
        "printf '%s\\n' 'rc() { cd / && exec \"$@\"; }' >\"$work/conf\"",
        'enroot create --name "$name" "$work/base.sqsh"',
        'step "building"',
        'set -- --root --rw --conf "$work/conf" --mount "$work:/mnt:x-create=auto,rbind"',
        'enroot start "$@" "$name" /mnt/setup',
        'step "saving the image"',
        'enroot export --output "$partial.sqsh" "$name"',
    ]
    local = MAKERS["enroot"].build(_RECIPES["script"], "/a b/x.sqsh", _VERSION)
    assert "enroot create --name \"$name\" '/a b/x.sqsh'\n" in local


def test_charliecloud_reads_its_login_from_a_file_and_not_from_the_text() -> None:
    text = MAKERS["charliecloud"].pull(parse_reference("nvcr.io/nvidia/x:1"), _VERSION)
    assert "if [ -r ~/.jupyter-slurm/registries/nvcr.io ]; then" in text


def test_charliecloud_is_not_told_that_an_image_is_docker_hubs() -> None:
    """It would ask docker.io, which is no registry."""
    text = MAKERS["charliecloud"].pull(parse_reference("ubuntu:22.04"), _VERSION)
    assert "ch-image pull library/ubuntu:22.04\n" in text
    assert "~/.jupyter-slurm/registries/docker.io" in text
    assert "FROM library/ubuntu:22.04\n" in built("charliecloud", "lines")
    assert "FROM library/ubuntu:22.04\n" in built("charliecloud", "dockerfile")


def test_apptainer_is_told_a_digest_without_a_tag() -> None:
    reference = parse_reference(f"a.org/b:c@sha256:{'0' * 64}")
    assert MAKERS["apptainer"].named(reference) == f"docker://a.org/b@sha256:{'0' * 64}"


def test_a_runtime_without_images_is_refused() -> None:
    with pytest.raises(RequestError, match="none"):
        maker_for("none")


@pytest.mark.parametrize(
    ("step", "doing"), [('step "pulling it"', "pulling it"), ("false", "beginning")]
)
def test_what_a_failed_script_said_is_read_again(step: str, doing: str) -> None:
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
    assert read_failure("mine was not made by hand") is None


@pytest.mark.parametrize(
    ("runtime", "where"),
    [
        ("docker", "on the node's disk where the engine keeps its images"),
        ("apptainer", "in the node's folder for builds"),
        ("charliecloud", "in the node's folder for builds"),
        ("enroot", "on the node's disk where enroot keeps containers"),
        ("pyxis", "on the node's disk where enroot keeps containers"),
    ],
)
def test_a_command_of_a_recipe_that_finds_no_room_names_the_disk(runtime: str, where: str) -> None:
    said = "pip: [Errno 28] No space left on device"
    coloured = f"\x1b[91m{said}\x1b[0m"
    found = maker_for(runtime).explain(f"{coloured}\nThe command returned a non-zero code: 1\n")
    assert found is not None
    assert found.sentence == f"There is no room for it {where}: {said}."
    assert found.advice
    earlier = said + "\nline" * 30 + "\nThe command returned a non-zero code: 1\n"
    assert maker_for(runtime).explain(earlier) is None


@pytest.mark.real
def test_a_step_that_takes_long_is_told_of_with_what_it_has_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "_PAUSE_S", 5)
    image = NewImage(str(tmp_path / "images"), "mine", "x", "0" * 64, None, _VERSION)
    # The tool says nothing until it was told of.
    tool = (
        'step pulling "its image"\nhead -c 3000000 /dev/zero >"$work/layer"\n'
        f"until grep -q still {tmp_path}/log; do sleep 0.1; done\n"
        'step "saving the image"\nmv "$work/layer" "$partial.tar"\n'
    )
    with (tmp_path / "log").open("wb") as log:
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        made = subprocess.run(
            ["sh", "-c", render(image, (".tar",), tool)], stdout=log, env=env, check=False
        )
    told = (tmp_path / "log").read_text()
    assert made.returncode == 0
    assert re.search(
        r"^jupyter-slurm: pulling its image\n"
        r"jupyter-slurm: still pulling its image after [0-9]+ s, 2 MiB so far\n",
        told,
        re.MULTILINE,
    ), told
    assert "still saving" not in told


@pytest.mark.real
def test_what_a_killed_build_has_left_on_the_node_goes_with_the_next_and_nothing_else_does(
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
    somebodys = node / "jupyter-slurm-image.link"
    somebodys.symlink_to(tmp_path)
    for folder in (left, used):
        os.utime(folder, (0, 0))
    assert begun("next", ': >"$partial.tar"').wait() == 0
    assert sorted(node.iterdir()) == sorted((used, somebodys))
    goes_on.terminate()
    goes_on.wait()
    assert list(node.iterdir()) == [somebodys]


def test_the_record_is_what_was_said_and_what_the_node_found() -> None:
    said = '{"name":"a","digest":"b","base":null,"file":"a+1.sif","made_s":12,"size_kib":null}'
    assert read_record(said.encode()) == ImageRecord(
        name="a", digest="b", file="a+1.sif", made_s=12
    )
    assert read_record(b"{") is None
    assert read_record(b"\xff") is None
