"""What is made of an engine's words: as Docker 20.10 and 28 say them, and podman by its sources."""

import pytest

from jupyter_slurm.containers import runtime_named
from jupyter_slurm.containers.docker_errors import explained_making

DOCKER = runtime_named("docker")
END = "jupyter-slurm: the container did not start: exit code 125 of docker run\n"
PULL = "The image could not be pulled: "
START = "The container could not be started: "


def log_of(*lines: str) -> str:
    return "\n".join(["a banner of the node", *lines, END])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        # Docker
        (
            "docker: Error response from daemon: manifest for a/b:1 not found: manifest unknown: "
            "manifest unknown.",
            PULL + "there is no such image: manifest for a/b:1 not found: manifest unknown: "
            "manifest unknown.",
        ),
        (
            "docker: Error response from daemon: pull access denied for a, repository does not "
            "exist or may require 'docker login': denied: requested access is denied",
            PULL + "the registry does not let you have it: ",
        ),
        (
            'docker: Error response from daemon: Get "https://h/v2/": dial tcp: lookup h: no such '
            "host.",
            PULL + "the registry cannot be reached from the node: ",
        ),
        (
            "docker: Error response from daemon: toomanyrequests: You have reached your pull rate "
            "limit.",
            PULL + "the registry refuses so many downloads: ",
        ),
        (
            "docker: failed to register layer: Error processing tar file(exit status 1): write "
            "/x: no space left on device.",
            "The image could not be unpacked: there is no room for it on the node: ",
        ),
        (
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]].",
            START + "the node's engine cannot hand it GPUs: ",
        ),
        (
            "docker: Cannot connect to the Docker daemon at unix:///x. Is the docker daemon "
            "running?",
            "The container engine does not answer: Cannot connect to the Docker daemon at "
            "unix:///x. Is the docker daemon running?",
        ),
        (
            "docker: permission denied while trying to connect to the Docker daemon socket at "
            "unix:///x: dial unix /x: connect: permission denied.",
            "You may not use the container engine there: ",
        ),
        ("sh: line 88: podman: command not found", "The node has no such container tool: "),
        (
            "[FATAL tini (7)] exec /bin/sh failed: Exec format error",
            "The image is for another kind of processor: exec /bin/sh failed: ",
        ),
        # podman
        (
            "Error: initializing source docker://a:1: reading manifest 1 in a: manifest unknown",
            PULL + "there is no such image: ",
        ),
        # nobody knows
    ],
)
def test_a_failure_is_told_by_its_step_in_the_tools_own_words(line: str, sentence: str) -> None:
    explained = DOCKER.explain(log_of(line, "", "Run 'docker run --help' for more information"))
    assert explained is not None
    assert str(explained.sentence).startswith(sentence)
    assert explained.advice


@pytest.mark.parametrize("pulling", ["Unable to find image 'a:1' locally", "Trying to pull a:1..."])
def test_an_unknown_failure_of_a_pull_is_one_of_the_pull(pulling: str) -> None:
    error = "docker: Error response from daemon: a new one."
    explained = DOCKER.explain(log_of(pulling, "1: Pulling from a", error))
    assert explained is not None
    assert str(explained.sentence) == "The image could not be pulled: a new one."
    done = "Status: Downloaded newer image for a:1"
    explained = DOCKER.explain(log_of(pulling, "1: Pulling from a", done, error))
    assert explained is not None
    assert str(explained.sentence) == "The container could not be started: a new one."


def test_what_a_program_says_is_not_the_engines() -> None:
    assert DOCKER.explain("docker: Error response from daemon: no space left on device\n") is None


MAKING = "jupyter-slurm: a:1 was not made by docker. It ended with exit code 1 while pulling a:1"


def test_the_engines_last_line_is_its_failure_to_pull_an_image() -> None:
    line = "write /data/tmp/GetImageBlob39: no space left on device"
    found = explained_making(f"1: Pulling from a\n{line}\n{MAKING}\n")
    assert found is not None
    assert str(found.sentence).endswith(f"where the engine keeps its images: {line}.")


@pytest.mark.parametrize(
    "line",
    [
        "The command '/bin/sh -c set -e\nmkdir /x' returned a non-zero code: 3",
        'Error: building at STEP "RUN mkdir /x": while running runtime: exit status 3',
    ],
)
def test_a_command_of_a_recipe_that_fails_is_not_the_engines_failure(line: str) -> None:
    assert explained_making(f"Error: denied: by a program\n{line}\n{MAKING}\n") is None
