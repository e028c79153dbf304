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
            'docker: Error response from daemon: Head "http://h/v2/a/manifests/1": no basic auth '
            "credentials.",
            PULL + "the registry does not let you have it: ",
        ),
        (
            'docker: Error response from daemon: Get "https://h/v2/": dial tcp: lookup h: no such '
            "host.",
            PULL + "the registry cannot be reached from the node: ",
        ),
        (
            'docker: Error response from daemon: Get "https://h/v2/": net/http: TLS handshake '
            "timeout.",
            PULL + "the registry cannot be reached from the node: ",
        ),
        (
            "docker: Error response from daemon: toomanyrequests: You have reached your pull rate "
            "limit.",
            PULL + "the registry refuses so many downloads: ",
        ),
        (
            "docker: Error response from daemon: no matching manifest for linux/amd64 in the "
            "manifest list entries.",
            "The image is for another kind of processor: ",
        ),
        (
            "docker: failed to register layer: Error processing tar file(exit status 1): write "
            "/x: no space left on device.",
            "The image could not be unpacked: there is no room for it on the node: ",
        ),
        (
            "docker: failed to register layer: Error processing tar file(exit status 1): "
            "unexpected EOF.",
            "The image could not be unpacked: failed to register layer",
        ),
        (
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]].",
            START + "the node's engine cannot hand it GPUs: ",
        ),
        (
            'docker: Error response from daemon: invalid mount config for type "bind": bind source '
            "path does not exist: /x.",
            START + "something cannot be mounted: ",
        ),
        (
            'docker: Error response from daemon: Conflict. The container name "/jslurm-1-0" is '
            'already in use by container "ab".',
            START + "one of its name is there already: ",
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
        ("sudo: a password is required", "You may not use the container engine there: "),
        ("sudo: docker: command not found", "The node has no such container tool: "),
        ("sh: 88: docker: not found", "The node has no such container tool: "),
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
        (
            "Error: initializing source docker://h/b:1: pinging container registry h: Get "
            '"https://h/v2/": dial tcp 1.2.3.4:443: i/o timeout',
            PULL + "the registry cannot be reached from the node: ",
        ),
        (
            "Error: unable to copy from source docker://h/b:1: initializing source: Requesting "
            "bearer token: invalid status code from registry 403 (Forbidden): unauthorized",
            PULL + "the registry does not let you have it: ",
        ),
        (
            "Error: writing blob: adding layer with blob: processing tar file(write /x: no space "
            "left on device): exit status 1",
            "The image could not be unpacked: there is no room for it on the node: ",
        ),
        (
            "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=GPU-aa",
            START + "the node's engine cannot hand it GPUs: ",
        ),
        (
            "Error: choosing an image from manifest list docker://a:1: no image found in manifest "
            'list for architecture amd64, variant "", OS linux',
            "The image is for another kind of processor: ",
        ),
        ("Error: statfs /x: no such file or directory", START + "something cannot be mounted: "),
        # nobody knows
        ("docker: Error response from daemon: a new one.", START + "a new one."),
        ("something without a form", START + "something without a form."),
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


def test_of_several_errors_it_is_the_last() -> None:
    explained = DOCKER.explain(log_of("Error: a first one", "Error: another."))
    assert explained is not None
    assert str(explained.sentence) == "The container could not be started: another."


def test_an_engine_that_says_nothing_is_told_as_such() -> None:
    explained = DOCKER.explain(END)
    assert explained is not None
    assert "it says nothing" in str(explained.sentence)


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
        'ERROR: failed to solve: process "mkdir /x" did not complete successfully: exit code: 3',
        'Error: building at STEP "RUN mkdir /x": while running runtime: exit status 3',
    ],
)
def test_a_command_of_a_recipe_that_fails_is_not_the_engines_failure(line: str) -> None:
    assert explained_making(f"Error: denied: by a program\n{line}\n{MAKING}\n") is None
