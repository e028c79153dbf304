"""What is said inside a container, in the shells that an image may have."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from jupyter_slurm.containers.docker_terminal import ENTER, HANG_UP
from tests.transport.shell.posix import SHELLS


@pytest.mark.parametrize("name", sorted(one for one in SHELLS if shutil.which(SHELLS[one][0])))
def test_every_shell_ends_a_program_with_all_that_it_has_started(name: str) -> None:
    assert f"'{HANG_UP}'" in ENTER
    program = ["sh", "-c", "sleep 601 & wait"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True) as process:
        argv = [*SHELLS[name], "-c", HANG_UP, "sh", str(process.pid)]
        subprocess.run(argv, capture_output=True, check=False, timeout=60)
        assert process.communicate(timeout=60)[0] == b""  # it ends when nobody holds it
