"""What ch-image says when it makes no image; ch-run's words are in `test_charliecloud.py`."""

import pytest

from jupyter_slurm.containers.charliecloud_errors import explained_making

_PULL = "The image could not be pulled: "
_END = "jupyter-slurm: a.org/b:1 was not made by charliecloud. It ended with exit code 1"


@pytest.mark.parametrize(
    ("line", "sentence", "advice"),
    [
        (
            "error: unauthorized or not in registry: a.org/b:1",
            _PULL + "there is no such image, or the registry does not let you have it: "
            "unauthorized or not in registry: a.org/b:1.",
            "CH_IMAGE_PASSWORD",
        ),
        (
            "error: GET failed: HTTPSConnectionPool(host='a.org', port=443): Max retries exceeded "
            "with url: /v2/b/manifests/1 (Caused by NewConnectionError('<urllib3.connection."
            "HTTPSConnection object at 0x7f32b2c52c90>: Failed to establish a new connection: "
            "[Errno 111] Connection refused'))",
            _PULL + "the registry cannot be reached from the node: GET failed: a.org:443: "
            "Connection refused.",
            "mirror",
        ),
        (
            "error: can't extract layer 1: No space left on device",
            "The image could not be unpacked: there is no room for it on the node: can't extract "
            "layer 1: No space left on device.",
            "TMPDIR",
        ),
        (
            "sh: 9: ch-convert: not found",
            "The node has no such container tool: ch-convert: not found.",
            "0.26",
        ),
    ],
)
def test_a_failure_is_told_in_the_tools_own_words(line: str, sentence: str, advice: str) -> None:
    found = explained_making(f"pulling image: a.org/b:1\n{line}\nhint: no\n{_END}")
    assert found is not None
    assert str(found.sentence) == sentence
    assert advice in str(found.advice)


def test_a_command_of_the_recipe_that_fails_is_not_the_tools_failure() -> None:
    log = "error: No space left on device\nerror: build failed: RUN command exited with 3\n"
    assert explained_making(log + _END) is None
