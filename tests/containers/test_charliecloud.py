"""Charliecloud as text; `test_charliecloud_real.py` runs the real one."""

import pytest

from jupyter_slurm.containers import Box, Mount, runtime_named
from jupyter_slurm.errors import RequestError

CHARLIECLOUD = runtime_named("charliecloud")
BOX = Box(job_dir="/home/u/jobs/abc", image="/images/a+1")


def test_the_program_of_a_squash_image_is_signalled_by_its_own_id() -> None:
    launch = CHARLIECLOUD.launch(["true"], Box(job_dir="/j", image="/images/a.sqfs"))
    assert launch.pid_file == "/j/program.pid"
    assert launch.argv[:2] == ("/bin/sh", "-c")
    assert launch.argv[4] == "ch-run"


def test_values_of_the_environment_are_not_in_the_command_line() -> None:
    launch = CHARLIECLOUD.launch(["true"], Box(job_dir="/j", image="/i", env_file="env.sh"))
    assert any(". /mnt/job/env.sh\n" in word for word in launch.argv)


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (Mount("/a:b", "/mnt/x"), "has a colon"),
        (Mount("/a", "/mnt/x", read_only=True), "read-only"),
        (Mount("/a", "/mnt/x/../job/y"), "cannot be mounted at"),
        (Mount("a", "/mnt/x"), "absolute path"),
        (Mount("/a\0", "/mnt/x"), "NUL"),
    ],
)
def test_mounts_that_ch_run_cannot_do_are_refused(mount: Mount, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        CHARLIECLOUD.launch(["true"], Box(job_dir="/j", image="/i", mounts=(mount,)))


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("can't stat: /images/x: No such file or directory (ch_core.c:255 2)", "image is there"),
        ("can't mkdir: /images/a/data: Read-only file system (ch_misc.c:409 30)", "below /mnt"),
        ("can't execve(2): /bin/sh: Exec format error (ch_core.c:410 8)", "uname -m"),
        ("can't init user+mount namespaces: Operation not permitted (x.c:1 1)", "administrators"),
        ("something new", "ch-run's own"),
    ],
)
def test_errors_of_ch_run_are_explained(error: str, advice: str) -> None:
    log = f"a line of the program\nch-run[12]: warning: x (a.c:1)\nch-run[12]: error: {error}\n"
    explained = CHARLIECLOUD.explain(log)
    assert explained is not None
    assert error.split(" (", maxsplit=1)[0].split(": ", 1)[-1] in str(explained.sentence)
    assert ".c:" not in str(explained.sentence)
    assert advice in str(explained.advice)


@pytest.mark.parametrize(
    "line",
    [
        "/var/spool/slurmd/job00012/slurm_script: line 84: ch-run: command not found",
        "env: 'ch-run': No such file or directory",
    ],
)
def test_a_node_that_lacks_it_is_told(line: str) -> None:
    explained = CHARLIECLOUD.explain(f"a banner\n{line}\n")
    assert explained is not None
    assert str(explained.sentence).startswith("The node has no such container tool: ")
    assert "--runtime" in str(explained.advice)


def test_a_failure_of_the_program_is_not_ch_runs() -> None:
    assert CHARLIECLOUD.explain("Traceback\nValueError: error: ch-run\n") is None
