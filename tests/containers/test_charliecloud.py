"""Command lines of Charliecloud; `test_charliecloud_real.py` runs the real tool."""

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.errors import RequestError

CHARLIECLOUD = runtime_named("charliecloud")


def test_squash_image_has_a_process_id_file_for_signals() -> None:
    launch = CHARLIECLOUD.launch(["true"], Box(job_dir="/j", image="/images/a.sqfs"))
    assert launch.pid_file == "/j/program.pid"
    assert launch.argv[:2] == ("/bin/sh", "-c")
    assert launch.argv[4] == "ch-run"


def test_environment_values_are_read_from_a_file() -> None:
    launch = CHARLIECLOUD.launch(["true"], Box(job_dir="/j", image="/i", env_file="env.sh"))
    assert any(". /mnt/job/env.sh\n" in word for word in launch.argv)


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (Mount("/a:b", "/mnt/x"), "has a colon"),
        (Mount("/a", "/mnt/x", read_only=True), "read-only"),
        (Mount("/a", "/mnt/x/../job/y"), "Cannot mount"),
        (Mount("a", "/mnt/x"), "absolute path"),
        (Mount("/a\0", "/mnt/x"), "NUL"),
    ],
)
def test_unsupported_mounts_are_rejected_by_charliecloud(mount: Mount, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        CHARLIECLOUD.launch(["true"], Box(job_dir="/j", image="/i", mounts=(mount,)))
