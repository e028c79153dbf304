"""A kernel in a job over SSH, with a login, and in an image."""

from __future__ import annotations

import sys
from pathlib import Path

from jupyter_slurm.wire import ConnectionState
from tests.kernel.conftest import PATIENCE_S, Home, MakeHome
from tests.ssh.profile import SshSlurm

SITE = Path(sys.prefix) / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
"""The Python of the tests' own kernel."""


def test_kernel_over_ssh_survives_a_lost_connection(
    make_home: MakeHome, ssh_slurm: SshSlurm, tmp_path: Path
) -> None:
    home = make_home(far=ssh_slurm)
    home.add("--mem", "1G")
    kernel = home.start()
    kernel.value("kept = 1; print()")
    assert kernel.run("print('y' * 5_000_000)").text == "y" * 5_000_000 + "\n"
    go = tmp_path / "go"
    request = kernel.start(
        "import pathlib, time\nfor i in range(60):\n    print(i, flush=True); time.sleep(.05)\n"
        f"    while i > 30 and not pathlib.Path({str(go)!r}).exists(): time.sleep(.05)\nkept"
    )
    kernel.until(lambda m: m["msg_type"] == "stream" and "5" in m["content"]["text"])
    assert home.api.disconnect().state is ConnectionState.LOGIN_NEEDED
    shown = kernel.until_shown(request, "jupyter slurm login")["content"]["data"]["text/plain"]
    assert "closed until you log in again" in shown
    assert home.api.connections()[0].state is ConnectionState.LOGIN_NEEDED
    go.touch()
    home.api.connect(wait_s=30)
    reply = kernel.reply(request)
    assert reply.text == "".join(f"{i}\n" for i in range(60))
    assert len(home.jobs()) == 1
    job = kernel.job()
    kernel.manager.shutdown_kernel()
    home.until_job(job.id)


def test_kernel_runs_in_an_image(home: Home, demo_image: Path) -> None:
    home.add(
        *("--image", str(demo_image), "--mem", "1G", "--name", "far"),
        *("--mount", f"{sys.prefix}:/mnt/venv"),
        *("--env", f"PYTHONPATH=/mnt/venv/{SITE.relative_to(sys.prefix)}"),
    )
    kernel = home.start()
    assert kernel.value("import sys; print(sys.executable)") == "/usr/bin/python3\n"
    assert "mnt" in kernel.value("import os; print(os.listdir('/'))")
    request = kernel.start("print('begun', flush=True)\nimport time; time.sleep(1000)")
    kernel.until(lambda m: m["msg_type"] == "stream" and "begun" in m["content"]["text"])
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request).content["ename"] == "KeyboardInterrupt"
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(timeout=PATIENCE_S)
    assert kernel.value("print(1)") == "1\n"
